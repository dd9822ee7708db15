"""Tests the cases as source: parser, index signatures and `structir.solver.explain` together."""

import warnings
from functools import cache
from typing import Any

import attrs
import pytest

import structir
from structir.errors import DiagnosticWarning, StructInfoError
from structir.ir.axes import rows_in
from structir.ir.dims import as_dim
from structir.solver.domains.terms import Row
from structir.solver.program.report import Report
from structir.solver.solver import ConstraintSolver, Value
from tests.cases import every_case
from tests.solver import judge
from tests.solver.case_program import Case
from tests.solver.case_text import text_of, value
from tests.solver.test_cases import BY_ID, CASES, Verdict, summary

STRETCH_SOLVED = 0.92


@attrs.frozen
class Heard:
    """A solved program, in the form that the judge checks."""

    case: Case
    report: Report
    sizes: dict[str, Any] = attrs.Factory(dict)
    rows: dict[str, Any] = attrs.Factory(dict)

    @property
    def program(self) -> "Heard":
        return self

    @property
    def solver(self) -> ConstraintSolver:
        return self.report.functions["main"].solver

    def value(self, name: str) -> Value:
        return self.report.value("main", value(name))

    def shape(self, name: str) -> Row:
        return self.report.shape("main", value(name))


@attrs.frozen
class Refused:
    """An unsatisfiable program: the op of the conflict, and the core if it is reported."""

    bad: str | None
    core: frozenset[str] | None = None  # None where the reader refuses the one op already


def heard(case: Case, given: dict[str, list[Any]] | None = None) -> Heard | Refused:
    """Returns the result of a case, with additional shapes of some parameters."""
    text = text_of(case, given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        try:
            module = structir.parse(text)
        except StructInfoError as error:
            span = error.diagnostics[0].span
            assert span is not None
            name = text.splitlines()[span.line - 1].split()[0]
            return Refused(op_of(case, statements(case)[name]))
        report = structir.solver.explain(module)
    if report.explanations:
        return refused(case, report)
    found = Heard(case, report)
    for param in module["main"].params:
        info = param.struct_info
        found.rows.update({row.name: row for row in rows_in(info.axes or ())})
        names = structir.analysis.symbolic_vars(info)
        found.sizes.update({s.name: as_dim(s) for s in names if s.name[0] != "_"})
    return found


def statements(case: Case) -> dict[str, str]:
    """Returns the op or annotation of each name in the source."""
    found: dict[str, str] = {}
    for op in case["ops"]:
        results = [value(name) for name in op["out"]]
        found |= dict.fromkeys([*results, "_".join(results), f"{results[0]}_plain"], op["id"])
        found |= {f"{value(name)}_is": f"annot:{name}" for name in op["out"]}
    return found


def op_of(case: Case, statement: str) -> str:
    """Returns the op of an assertion, or the op whose result it annotates."""
    by_result = {f"annot:{name}": op["id"] for op in case["ops"] for name in op["out"]}
    return by_result.get(statement, statement)


def refused(case: Case, report: Report) -> Refused:
    """Returns the unsatisfiable core in the names of the case."""
    (explanation,) = report.explanations
    names = statements(case)
    labels = [origin.label.removeprefix("annot:") for origin in explanation.culprits]
    core = [names[label] for label in labels if label in names]
    first = case["ops"][0]["id"]  # where what is given contradicts itself
    order = [op["id"] for op in case["ops"]]
    ops = [op_of(case, statement) for statement in core] or [first]
    return Refused(max(ops, key=order.index), frozenset(core or [first]))


@cache
def verdict(name: str) -> Verdict:
    case = BY_ID[name]
    found = heard(case)
    if case["expect"]["status"] == "conflict":
        return conflict_verdict(case, found)
    if isinstance(found, Refused):
        return Verdict(False, unsound=[f"conflict at {found.bad}"])
    missed = judge.incomplete(found) + checker_faults(case) + judge.label_faults(found)  # type: ignore[arg-type]
    unsound = judge.unsound(found) + judge.invented(found)  # type: ignore[arg-type]
    return Verdict(False, unsound, missed + judge.closing_faults(found))  # type: ignore[arg-type]


def conflict_verdict(case: Case, found: Heard | Refused) -> Verdict:
    if isinstance(found, Heard):
        return Verdict(True, missed=["no conflict found"])
    first = case["expect"]["first_bad"]
    wrong = [] if found.bad == first else [f"blames {found.bad}, not {first}"]
    allowed = [frozenset(m) for m in case["expect"]["muses"] or []]
    core = found.core
    rough = [f"{core}, not one of {allowed}"] if core and allowed and core not in allowed else []
    return Verdict(True, wrong_op=wrong, not_minimal=rough)


def checker_faults(case: Case) -> list[str]:
    """Returns the shapes of parameters that are wrongly accepted or wrongly rejected."""
    params = {param["name"] for param in case["params"]}
    faults = []
    for kind, refuse in (("rejects", True), ("solutions", False)):
        for shapes in case["expect"].get(kind, []):
            given = {name: shape for name, shape in shapes.items() if name in params}
            if isinstance(heard(case, given), Refused) != refuse:
                faults.append(f"{kind}: {given}")
    return faults


@every_case("case", CASES, ids=lambda case: case["id"])
def test_answer_is_sound_and_core_cases_are_solved(case: Case) -> None:
    found = verdict(case["id"])
    assert found.unsound == []
    assert found.wrong_op == []
    assert found.not_minimal == []
    if case["level"] == "core":
        assert found.missed == []


def test_stretch_cases_are_mostly_solved() -> None:
    solved = [verdict(case["id"]).solved for case in CASES if case["level"] == "stretch"]
    assert sum(solved) >= STRETCH_SOLVED * len(solved)


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(summary(verdict))
    with capsys.disabled():
        print("", "as programs in text:", *lines, sep="\n")
    assert len(lines) == len({case["group"] for case in CASES})
