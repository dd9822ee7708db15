"""Checks the solver's result on a case: soundness, completeness, and defaults."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

from structir.ir.dim_proofs import evaluate
from structir.ir.polynomial import Dim, Sym
from structir.solver.domains.reasons import Conflict
from structir.solver.domains.terms import (
    RAGGED,
    Row,
    RowVar,
    known_ends,
    row_vars,
    symbol_of,
    variables,
)
from structir.solver.program.defaulting import close
from structir.solver.program.unsat_core import explain
from tests.solver.case_program import Answer, Case, Program
from tests.solver.queries import equal, same_shape


def answer(case: Case) -> Answer:
    """Asserts a case op by op, and solves after each op."""
    program = Program(case)
    bad = case["ops"][0]["id"] if case["ops"] else None
    try:
        program.declare()
        program.solver.solve()
        for op in case["ops"]:
            bad = op["id"]
            program.add_op(op)
            program.solver.solve()
    except Conflict as conflict:
        return Answer(program, bad, conflict)
    return Answer(program, None)


def explained(found: Answer) -> set[str]:
    """Returns the labels of the assertions in the unsatisfiable core of a conflict."""
    report = explain(found.program.solver, found.conflict, steps=200_000)
    first = found.program.case["ops"][0]["id"]  # blamed where what is given contradicts itself
    return {origin.label for origin in report.culprits} or {first}


# Soundness


def unsound(found: Answer) -> list[str]:
    """Returns the solutions that are not instances of the result."""
    expect = found.program.case["expect"]
    return [str(s) for s in expect.get("solutions", []) if not is_instance(found, s)]


def is_instance(found: Answer, solution: dict[str, list[Any]]) -> bool:
    pairs = [(found.shape(name), tuple(shape)) for name, shape in solution.items()]
    return any(consistent(pairs, rows) for rows in row_choices(pairs, {}))


def row_choices(
    pairs: list[tuple[Row, tuple[Any, ...]]], known: dict[RowVar, tuple[Any, ...]]
) -> Iterator[dict[RowVar, tuple[Any, ...]]]:
    """Yields the assignments of concrete axes to row variables that match all ranks."""
    for place, (row, shape) in enumerate(pairs):
        holes = [v for v in row_vars(row) if v not in known]
        fixed = sum(len(known[e]) if e in known else 1 for e in row if e not in holes)
        room = len(shape) - fixed
        if room < 0 or (not holes and room):
            return
        if not holes:
            continue
        for width in range(room + 1):
            start = 0
            for element in row:
                if element is holes[0]:
                    break
                start += len(known[element]) if type(element) is RowVar else 1
            part = {holes[0]: shape[start : start + width]}
            yield from row_choices(pairs[place:], {**known, **part})
        return
    yield known


def consistent(
    pairs: list[tuple[Row, tuple[Any, ...]]], rows: dict[RowVar, tuple[Any, ...]]
) -> bool:
    sizes: dict[Sym, Any] = {}
    composed: list[tuple[Dim, int]] = []
    for row, shape in pairs:
        flat: list[Any] = []
        for element in row:
            flat += rows[element] if type(element) is RowVar else [element]
        if len(flat) != len(shape):
            return False
        for mine, real in zip(flat, shape, strict=True):
            if mine is RAGGED or mine == "*":
                if real != "*":
                    return False
            elif isinstance(mine, int):
                if mine != real:
                    return False
            elif (symbol := symbol_of(mine)) is not None:
                if sizes.setdefault(symbol, real) != real:
                    return False
            else:
                composed.append((mine, real))
    return solvable(composed, sizes)


def solvable(composed: list[tuple[Dim, int]], sizes: dict[Sym, Any]) -> bool:
    """Returns whether composite sizes can have these values, by trying values of free variables."""
    free = {s for dim, _ in composed for s in variables(dim)} - sizes.keys()
    if "*" in [sizes.get(s) for dim, _ in composed for s in variables(dim)]:
        return False
    most = max((real for _, real in composed), default=1) + 1
    for choice in product(range(1, most + 1), repeat=len(free)):
        values = {**sizes, **dict(zip(free, choice, strict=True))}
        if all(evaluate(dim, values) == real for dim, real in composed):
            return True
    return False


# Completeness


def incomplete(found: Answer) -> list[str]:
    """Returns the expectations of the case that the result does not meet."""
    expect, missing = found.program.case["expect"], list[str]()
    entries = Counter(e for fact in expect["shapes"].values() for e in entries_of(fact))
    seen: dict[str, Dim] = {}
    for name, fact in expect["shapes"].items():
        missing += missing_of(found, name, fact, seen, entries)
    for names in expect.get("same_shape", []):
        first = found.program.value(names[0])
        for other in names[1:]:
            if same_shape(found.program.solver, first, found.program.value(other)) is not True:
                missing.append(f"{names[0]} and {other} have one shape")
    for name, row in expect.get("rows", {}).items():
        known = found.program.solver.resolve((found.program.rows[name],))
        if row_vars(known) or len(known) != len(row):
            missing.append(f"*{name} is {row}")
    return missing


def entries_of(fact: dict[str, Any]) -> list[Any]:
    return fact["dims"] if fact["rank"] is not None else fact["prefix"] + fact["suffix"]


def missing_of(
    found: Answer, name: str, fact: dict[str, Any], seen: dict[str, Dim], entries: Counter[Any]
) -> list[str]:
    row = found.shape(name)
    if fact["rank"] is not None:
        if row_vars(row) or len(row) != fact["rank"]:
            return [f"{name}: rank {fact['rank']}, not {row}"]
        return missing_entries(found, name, list(zip(fact["dims"], row, strict=True)), seen)
    least = fact["min_rank"]
    lead, trail = known_ends(row)
    pairs = list(zip(fact["prefix"], row[:lead], strict=False))
    hidden = fact["prefix"][lead:]
    shown = min(trail, least)
    if shown:
        pairs += list(zip(fact["suffix"][-shown:], row[-shown:], strict=True))
    hidden = hidden + fact["suffix"][: least - shown] if lead < least and shown < least else []
    missed = [f"{name}: {e} is not shown" for e in hidden if type(e) is int or entries[e] > 1]
    return missed + missing_entries(found, name, pairs, seen)


def missing_entries(
    found: Answer, name: str, pairs: list[tuple[Any, Any]], seen: dict[str, Dim]
) -> list[str]:
    missing: list[str] = []
    solver = found.program.solver
    for wanted, mine in pairs:
        if type(wanted) is int:
            if mine != wanted:
                missing.append(f"{name}: {wanted}, not {mine}")
        elif wanted == "*":
            if mine is not RAGGED:
                missing.append(f"{name}: ragged, not {mine}")
        elif wanted in seen:
            if equal(solver, seen[wanted], mine) is not True:
                missing.append(f"{name}: {wanted} is {seen[wanted]}, not {mine}")
        else:
            seen[wanted] = mine
            named = found.program.sizes.get(wanted)
            if named is not None and equal(solver, named, mine) is not True:
                missing.append(f"{name}: {wanted}, not {mine}")
    return missing


def invented(found: Answer) -> list[str]:
    """Returns the axes that are constants where the case expects a label."""
    bad: list[str] = []
    for name, fact in found.program.case["expect"]["shapes"].items():
        row = found.shape(name)
        if fact["rank"] is not None and len(row) == fact["rank"]:
            bad += [
                f"{name}: {w}"
                for w, e in zip(fact["dims"], row, strict=True)
                if isinstance(w, str) and type(e) is int
            ]
    return bad


# Checker, labels and closing


def accepts(case: Case, shapes: dict[str, list[Any]]) -> bool:
    """Returns whether a program with these parameter shapes is satisfiable."""
    program = Program(case)
    try:
        program.declare()
        for param in case["params"]:
            if param["name"] in shapes:
                origin = program.solver.assertions[0].origin
                program.assert_shape(param["name"], shapes[param["name"]], origin)
        for op in case["ops"]:
            program.add_op(op)
        program.solver.solve()
    except Conflict:
        return False
    return True


def checker_faults(case: Case) -> list[str]:
    """Returns the invalid shapes that are accepted, and the solutions that are rejected."""
    expect = case["expect"]
    wrong = [f"accepts {s}" for s in expect.get("rejects", []) if accepts(case, s)]
    return wrong + [f"rejects {s}" for s in expect.get("solutions", []) if not accepts(case, s)]


def label_faults(found: Answer) -> list[str]:
    faults: list[str] = []
    for name, fact in found.program.case["expect"].get("shapes", {}).items():
        if "labels" in fact:
            mine = found.program.solver.labels(found.program.value(name))
            if mine != fact["labels"]:
                faults.append(f"{name}: {fact['labels']}, not {mine}")
    return faults


def closing_faults(found: Answer) -> list[str]:
    closed = found.program.case["expect"].get("closed") or {}
    program = found.program
    close(program.solver, [program.value(name) for name in closed])
    return [
        f"{name}: closes to {shape}, not {found.shape(name)}"
        for name, shape in closed.items()
        if shape is not None and found.shape(name) != tuple(shape)
    ]
