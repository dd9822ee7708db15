"""Conditions are scalar bools in programs and at run time; variables have no truth value."""

import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.errors import DiagnosticError, ShapeMismatchError, TruthValueError
from structir.ir import TensorStructInfo, Var

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
    assert x == x and x in [x]
