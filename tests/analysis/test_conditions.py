"""Conditions are scalar bools in programs and at run time; variables have no truth value."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.errors import DiagnosticError, ShapeMismatchError, TruthValueError
from structir.ir import TensorStructInfo, Var
from structir.ir.struct_info import ShapeStructInfo

TEXT = """
@R.function
def main(c: {info}, x: R.Tensor((), "bool")):
    if c:
        y = x
    else:
        y = R.logical_not(x)
    return y
"""


@pytest.mark.parametrize(
    ("info", "hint"),
    [
        ('R.Tensor((3,), "bool")', "R.max(c)"),
        ('R.Tensor((1,), "bool")', "R.max(c)"),
        ('R.Tensor(("n", 2), "float32")', "R.max(c)"),
        ('R.Tensor((), "float32")', "R.astype(c"),
        ('R.Tensor("float32")', "R.max(c)"),
    ],
)
def test_a_condition_that_is_no_scalar_bool_is_rejected(info: str, hint: str) -> None:
    with pytest.raises(DiagnosticError, match="expected a bool tensor of rank 0") as caught:
        check_well_formed(structir.parse(TEXT.format(info=info)))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None and hint in str(diagnostic.hint)


@pytest.mark.parametrize("info", ['R.Tensor("bool")', "R.Tensor", "R.Object"])
def test_conditions_of_unknown_rank_are_checked_at_run_time(info: str) -> None:
    module = structir.parse(TEXT.format(info=info))
    executable = structir.compile(module)
    x = np.array(True)
    for run in (lambda *args: structir.interpret(module, "main", *args), executable["main"]):
        assert run(np.array(True), x) == True  # noqa: E712
        assert run(np.array(False), x) == False  # noqa: E712
        for wrong in (np.ones(3, bool), np.ones(1, bool)):
            with pytest.raises(ShapeMismatchError, match="expected a bool tensor of rank 0"):
                run(wrong, x)


def test_a_variable_has_no_truth_value() -> None:
    x = Var("x", TensorStructInfo((3,), "float32"))
    uses = [lambda: bool(x), lambda: not x, lambda: x and 1, lambda: 1 if x < 2 else 2]
    for use in uses:
        with pytest.raises(TruthValueError, match="has no truth value"):
            use()
    assert x in [x]


def test_equality_builds_a_call_that_has_no_truth_value() -> None:
    x, y = (Var(name, TensorStructInfo((3,), "float32")) for name in "xy")
    calls = {str(x == y), str(y != x), str(x == 1), str(np.float32(1) != x)}
    assert calls == {
        "R.equal(x, y)",
        "R.not_equal(y, x)",
        'R.equal(x, R.const(1.0, "float32"))',
        'R.not_equal(x, R.const(1.0, "float32"))',
    }
    for use in (lambda: bool(x == y), lambda: x != y or 1, lambda: x in [y], lambda: [x] == [y]):
        with pytest.raises(TruthValueError, match="has no truth value") as error:
            use()
        assert f"--> {__file__}:" in str(error.value)
        assert "compare objects with `is`" in str(error.value)


def test_equality_is_the_same_in_every_file() -> None:
    x, y = (Var(name, TensorStructInfo((3,), "float32")) for name in "xy")
    package = Path(structir.__file__).parent
    code = compile("bool(x == y)", str(package / "new.py"), "eval")
    with pytest.raises(TruthValueError, match="equal"):
        eval(code, {"x": x, "y": y})


def test_tensors_whose_shapes_are_variables_compare_by_identity() -> None:
    s, t = (Var(name, ShapeStructInfo(None, 2)) for name in "st")
    assert TensorStructInfo(s, "float32") == TensorStructInfo(s, "float32")
    assert TensorStructInfo(s, "float32") != TensorStructInfo(t, "float32")
    with pytest.raises(DiagnosticError, match="expected a tensor"):
        s == t  # noqa: B015


def test_functions_and_other_objects_compare_by_identity() -> None:
    x = Var("x", TensorStructInfo((3,), "float32"))
    module = structir.parse(TEXT.format(info='R.Tensor((), "bool")'))
    function, again = module["main"], structir.parse(str(module))["main"]
    assert function == function and function != again
    assert (x == None, x != "x", x == x.struct_info) == (False, True, False)  # noqa: E711
    assert {x: 1}[x] == 1 and x in {x}
    unknown = Var("x", None)
    assert unknown == unknown and unknown != x and x != unknown


def test_operators_load_the_ops() -> None:
    program = (
        "from structir.ir import TensorStructInfo, Var\n"
        "x = Var('x', TensorStructInfo((3,), 'float32'))\n"
        "print(x < x, -x)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "R.less(x, x) R.negative(x)\n", done.stderr
