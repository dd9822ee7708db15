"""Primitives: examples, refusals, and the wrong results that each refusal prevents."""

import ast
import importlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structir
from structir.ir import structural_equal
from structir.ir.kernel import Kernel
from structir.loops import primitives
from structir.loops.accesses import Access
from structir.loops.loop_tree import loop_tree, prepared
from structir.loops.primitives import find_primitive, primitive_names
from structir.loops.refusal import ScheduleError
from tests.loops.kernels import differs, kernel_of
from tests.loops.random_schedules import Run, parsed
from tests.loops.removed_checks import LINE, REMOVED_CHECKS, ROWS, RemovedCheck

every_primitive = pytest.mark.parametrize("name", primitive_names())


@every_primitive
def test_the_example_keeps_its_results(name: str) -> None:
    primitive = find_primitive(name)
    before = kernel_of(primitive.example.parameters, primitive.example.body)
    after = primitive(before, *primitive.example.arguments, **primitive.example.keywords)
    assert str(after) != str(before)
    assert not differs(before, after, exact=not primitive.rounds)
    assert str(parsed(after)) == str(after)


@every_primitive
def test_a_primitive_refuses_unknown_names(name: str) -> None:
    kernel = kernel_of(LINE, "for i in range(n):\n    out[i] = x[i]")
    arguments = list(find_primitive(name).example.arguments)
    with pytest.raises(ScheduleError) as raised:
        find_primitive(name)(kernel, "nothing", *arguments[1:])
    assert raised.value.code == "E1115"


def scheduled(row: RemovedCheck) -> tuple[Kernel, Any]:
    """Returns the kernel before the last step of a row, and the last step."""
    kernel = kernel_of(row.parameters, row.body)
    for name, *arguments in row.steps[:-1]:
        kernel = find_primitive(name)(kernel, *arguments)
    return kernel, row.steps[-1]


@pytest.mark.parametrize("row", REMOVED_CHECKS, ids=lambda r: f"{r.module}.{r.check}")
def test_a_refusal_prevents_a_wrong_result(row: RemovedCheck, monkeypatch: Any) -> None:
    kernel, (name, *arguments) = scheduled(row)
    with pytest.raises(ScheduleError) as raised:
        find_primitive(name)(kernel, *arguments)
    assert raised.value.code == row.code
    diagnostic = raised.value.diagnostics[0]
    assert diagnostic.op == name and diagnostic.hint and diagnostic.notes

    def removed(*args: Any, **keywords: Any) -> Any:
        return (
            {a.memory for a in args[0] if isinstance(a, Access)}
            if row.allows == "all"
            else row.allows
        )

    module = importlib.import_module(f"structir.loops.{row.module}")
    monkeypatch.setattr(module, row.check, removed)
    fresh = kernel_of(row.parameters, row.body)
    try:
        after = find_primitive(name)(fresh, *arguments)
        wrong = differs(fresh, after, seeds=8)
    except (structir.errors.StructIRError, KeyError, ValueError):
        wrong = True  # a read out of range, or of nothing
    assert wrong


def checks_in(path: Path) -> set[str]:
    """Returns the names of checks that the module of a primitive calls."""
    calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    names = {n.func.id for n in calls if isinstance(n.func, ast.Name)}
    return {name for name in names if name.startswith("require_")}


CHECKS_OF_FORM = {
    # without them a primitive has nothing to work on, or changes no result
    ("parallel", "require_whole_kernel"),
    ("collapse", "require_fixed_bounds"),  # its bounds are sizes
}


@every_primitive
def test_every_check_has_a_wrong_result(name: str) -> None:
    path = Path(inspect.getfile(primitives)).parent / f"{name}.py"
    tested = {row.check for row in REMOVED_CHECKS if row.module == f"primitives.{name}"}
    form = {check for primitive, check in CHECKS_OF_FORM if primitive == name}
    assert checks_in(path) <= tested | form


def test_random_schedules_keep_results() -> None:
    run = Run(primitive_names())
    for seed in range(70):
        run.schedule(seed)
    assert run.wrong == []
    assert sum(run.applied.values()) > 100


def test_scheduled_kernels_compile() -> None:
    run = Run(primitive_names())
    for seed in range(1_000, 1_006):
        run.schedule(seed, compiled=True)
    assert run.wrong == []


@pytest.mark.parametrize(
    ("body", "steps"),
    [
        (
            "for i in range(n):\n    out[i, 0] = x[i, 0]\n"
            "for j in range(1, n):\n    out[j, 0] = x[j, 0] + x[j - 1, 0]\n"
            "for k in range(1, n):\n    out[k, 1] = out[k - 1, 0]",
            (("vectorise", "j"), ("vectorise", "k"), ("fuse", "j", "k")),
        ),
        (
            "for i in range(1, n):\n    for j in range(1, m):\n"
            "        out[i, j] = out[i - 1, j - 1] + x[i, j]",
            (("vectorise", "j"), ("reorder", "i")),
        ),
    ],
)
def test_marks_are_dropped_where_the_order_matters(body: str, steps: Any) -> None:
    kernel = before = kernel_of(
        ROWS.replace('"m"', "3"), body.replace("range(1, m)", "range(1, 3)")
    )
    for name, *arguments in steps:
        kernel = find_primitive(name)(kernel, *arguments)
        assert not differs(before, kernel, seeds=6)
    assert "vectorized" not in str(kernel)


def test_an_assigned_number_is_no_index() -> None:
    text = "for i in range(n):\n    t = int(x[i])\n    out[t] = 1.0 + out[t] * x[i]"
    kernel = kernel_of(LINE, text.replace("int(x[i])", "T.int64(x[i])"))
    with pytest.raises(ScheduleError, match="vectorise"):
        primitives.vectorise(kernel, "i")


def test_loops_of_one_name_get_names_of_their_own() -> None:
    kernel = prepared(kernel_of(LINE, "for i in range(n):\n    out[i] = x[i]\n" * 2))
    assert list(loop_tree(kernel).loops) == ["i", "i_1"]
    assert not differs(kernel, primitives.fuse(kernel, "i", "i_1"))


def test_a_scalar_that_is_a_loop_variable_too_keeps_its_last_value() -> None:
    kernel = kernel_of(LINE, "i = 0\nfor i in range(n):\n    out[i] = x[i]\nout[i] = 7.0")
    assert not differs(kernel, prepared(kernel))


def test_rounding_is_refused_where_exact() -> None:
    rounding = [name for name in primitive_names() if find_primitive(name).rounds]
    for name in rounding:
        example = find_primitive(name).example
        with pytest.raises(ScheduleError) as raised:
            kernel = kernel_of(example.parameters, example.body)
            find_primitive(name)(kernel, *example.arguments, exact=True)
        assert raised.value.code == "E1119"


def test_a_vectorized_loop_compiles_to_the_same_results() -> None:
    kernel = kernel_of(LINE, "for i in range(n):\n    out[i] = x[i] * 2.0 + 1.0")
    kernel = primitives.vectorise(primitives.split(kernel, "i", 24), "i")
    module = structir.parse(
        str(kernel).replace("@I.kernel", "from structir.script import I, R, T\n@I.kernel")
    )
    x = np.arange(1_003, dtype="float32")
    out = np.zeros_like(x)
    structir.compile(module)["kernel"](x, out)
    assert np.array_equal(out, x * 2 + 1)
    assert structural_equal(parsed(kernel), kernel)
