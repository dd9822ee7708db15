"""Ops without a line: calls, text, rules, messages, and running them."""

from typing import Any

import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.errors import Diagnostic, StructInfoError, StructIRError
from structir.ir import (
    Call,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    Var,
    find_op,
    structural_equal,
)
from structir.ir.dims import sym
from structir.opdef.opaque import opaque_op

N = sym("n")


def repeated_info(shape: StructInfo, x: StructInfo, times: int = 2) -> StructInfo:
    if not isinstance(shape, ShapeStructInfo) or shape.dims is None:
        raise StructInfoError(Diagnostic("shape must be a shape of known sizes"))
    dtype = x.dtype if isinstance(x, TensorStructInfo) else None
    return TensorStructInfo((times, *shape.dims), dtype)


@opaque_op(repeated_info, "testing.filled")
def filled(shape: tuple[int, ...], x: Any, *, times: int = 2) -> Any:
    """A mean of x, everywhere."""
    return np.full((times, *shape), x.mean(), x.dtype)


TEXT = """
@R.function
def main(shape: R.Shape(["n", 3]), x: R.Tensor(("m",), "float32")):
    a = R.testing.filled(shape, x)
    b = R.testing.filled(shape, x, times=4)
    c = R.exp(b)
    return (a, c)
"""


def test_rule_infers_struct_info_of_calls() -> None:
    shape, x = Var("shape", ShapeStructInfo((N, 3))), Var("x", TensorStructInfo((N,), "float32"))
    call = filled(shape, x, times=5)
    assert isinstance(call, Call)
    assert call.struct_info == TensorStructInfo((5, N, 3), "float32")
    assert find_op("testing.filled") is filled


def raising(x: StructInfo) -> StructInfo:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda x: None, "expected a StructInfo as its result, found None"),
        (lambda: N, r"the StructInfo rule raises TypeError.*takes 0 positional arguments"),
        (raising, r"the StructInfo rule raises ValueError at .*test_opaque\.py:\d+:\d+: no"),
    ],
)
def test_a_failing_rule_is_an_error_with_location(rule: Any, message: str) -> None:
    failing = opaque_op(rule, "testing.failing")(lambda x: x)
    with pytest.raises(StructInfoError, match=message) as caught:
        failing(Var("x", TensorStructInfo((N,), "float32")))
    assert caught.value.code == "E1135"


@pytest.mark.parametrize(
    ("name", "rule", "function", "message"),
    [
        ("exp", lambda x: x, lambda x: x, r"the name of the built-in op R\.exp"),
        ("Tensor", lambda x: x, lambda x: x, r"the name of the StructInfo R\.Tensor"),
        ("a b", lambda x: x, lambda x: x, "expected identifiers"),
        ("testing.a", TensorStructInfo(), lambda x: x, "expected a function of"),
        ("testing.a", lambda x: x, lambda *x: x, r"for each operand and attribute, found `\*x`"),
    ],
)
def test_an_invalid_declaration_is_rejected(
    name: str, rule: Any, function: Any, message: str
) -> None:
    with pytest.raises(StructIRError, match=message):
        opaque_op(rule, name)(function)
    assert find_op("exp").definition.name == "exp" and find_op("testing.a") is None


def test_printed_program_is_parsed_and_runs() -> None:
    module = structir.parse(TEXT)
    check_well_formed(module)
    assert structural_equal(structir.parse(module.script()), module)
    assert "times=4" in module.script()
    arguments = (2, 3), np.arange(3, dtype=np.float32)
    expected = structir.interpret(module, "main", *arguments)
    assert [part.shape for part in expected] == [(2, 2, 3), (4, 2, 3)]
    found = structir.compile(module)["main"](*arguments)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("R.testing.filled(x, shape)", "shape must be a shape of known sizes"),
        ("R.testing.filled(shape)", "missing a required argument: 'x'"),
        ("R.testing.filled(shape, x, count=4)", "unexpected keyword argument 'count'"),
    ],
)
def test_invalid_call_reports_op_and_location(call: str, message: str) -> None:
    text = TEXT.replace("R.testing.filled(shape, x)", call)
    with pytest.raises(StructInfoError) as caught:
        structir.parse(text, "model.py")
    assert message in str(caught.value)
    assert "]: testing.filled: " in str(caught.value)
    assert "model.py:4:9" in str(caught.value)


def test_operands_must_be_expressions() -> None:
    with pytest.raises(
        StructInfoError, match="expected an expression of the program as operand, found 3"
    ):
        filled(3, 4)
