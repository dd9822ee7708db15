"""Mappings of element-wise ops of several operands, which broadcast; folding rules of
arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import carries, direct, onnx_op
from structir.frontend.onnx.scalars import like
from structir.frontend.onnx.values import Elements
from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Expr, ShapeExpr
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

direct(
    {
        "BitwiseAnd": R.bitwise_and,
        "BitwiseOr": R.bitwise_or,
        "BitwiseXor": R.bitwise_xor,
        "Where": R.where,
    }
)

BINARY = {
    "Add": R.add,
    "And": R.logical_and,
    "Div": R.divide,
    "Equal": R.equal,
    "Greater": R.greater,
    "GreaterOrEqual": R.greater_equal,
    "Less": R.less,
    "LessOrEqual": R.less_equal,
    "Mul": R.multiply,
    "Or": R.logical_or,
    "Sub": R.subtract,
    "Xor": R.logical_xor,
}


def _binary(op: Any) -> Callable[[OnnxNode], Expr]:
    return lambda node: op(node[0], align_rhs(node))


for _name, _op in BINARY.items():
    onnx_op(_name)(_binary(_op))


@onnx_op("Equal", since=19)
def equal(node: OnnxNode) -> Expr:
    infos = node.info(0), node.info(1)
    if None not in (infos[0].dtype, infos[1].dtype):
        return R.equal(node[0], node[1])
    info = TensorStructInfo(None, "bool", max(node.rank(0), node.rank(1)))
    return R.call_pure_packed("text.equal", node[0], node[1], sinfo_args=info)


def align_rhs(node: OnnxNode) -> Expr:
    """Returns the right operand; before opset 7, `axis` aligns it with axes of the left operand."""
    right = node[1]
    axis = node.attr("axis", None) if node.version < 7 and node.flag("broadcast") else None
    if axis is None:
        return right
    trailing_count = node.rank(0) - axis % node.rank(0) - node.rank(1)
    return R.reshape(right, ShapeExpr((*node.dims(1), *[1] * trailing_count)))


@onnx_op("Pow")
def power(node: OnnxNode) -> Expr:
    base, exponent = node[0], align_rhs(node)
    dtype, exponent_dtype = node.dtype(0), node.dtype(1)
    if dtype == exponent_dtype:
        return R.power(base, exponent)
    if is_int(dtype) and is_float(exponent_dtype):
        return R.astype(R.power(R.astype(base, "float64"), R.astype(exponent, "float64")), dtype)
    return R.power(base, R.astype(exponent, dtype))


@onnx_op("Mod")
def mod(node: OnnxNode) -> Expr:
    remainder = R.mod if node.flag("fmod") else R.floor_mod
    return remainder(node[0], node[1])


@onnx_op("BitShift")
def bit_shift(node: OnnxNode) -> Expr:
    x, y = node[0], node[1]
    signed = node.dtype().startswith("int")
    left = node.choice("direction", ("LEFT", "RIGHT")) == "LEFT"
    last = like(node, np.dtype(node.dtype()).itemsize * 8 - 1, 1)
    beyond = R.greater(y, last)
    if signed:
        beyond = R.logical_or(beyond, R.less(y, like(node, 0, 1)))
    shift = R.left_shift if left else R.right_shift
    shifted = shift(x, R.where(beyond, last, y))  # a shift by the width is undefined
    return shifted if signed and not left else R.where(beyond, like(node, 0), shifted)


def _variadic(op: Any) -> Callable[[OnnxNode], Any]:
    def build(node: OnnxNode) -> Any:
        return node.values[0] if len(node.values) == 1 else reduce(op, node.operands)

    return build


onnx_op("Max")(_variadic(R.maximum))
onnx_op("Min")(_variadic(R.minimum))
onnx_op("Sum")(_variadic(R.add))


@onnx_op("Mean")
def mean(node: OnnxNode) -> Expr:
    total = reduce(R.add, node.operands)
    return R.divide(total, like(node, len(node.values)))


# ---- known elements

ElementsAndDtype = tuple[Any, str]


def _each(act: Callable[..., Any], dtype: str | None = None) -> Callable[..., ElementsAndDtype]:
    """Returns an elementwise folding rule, by default in the dtype of its first operand."""

    def carry(node: OnnxNode, *operands: Elements) -> ElementsAndDtype:
        floats = is_float(node.dtype())
        shape = np.broadcast_shapes(*[o.shape for o in operands])
        flat = [np.broadcast_to(o, shape).ravel() for o in operands]
        items = [act(*each, floats) for each in zip(*flat, strict=True)]
        result = np.empty(len(items), object)
        result[:] = items
        return result.reshape(shape), dtype or node.dtype()

    return carry


def _exact(value: Any) -> Any:
    """Returns an integer or a size; raises ValueError for anything else, which cannot be folded."""
    if isinstance(value, float):
        if value != int(value):
            raise ValueError("not whole")
        return int(value)
    return value


def _quotient(a: Any, b: Any, floats: bool) -> Any:
    if b == 0:
        raise ValueError("division by zero")
    if floats:
        value = dims.exact_quotient(a, b)
        if value is None:
            raise ValueError("not whole")
        return value
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if dims.at_least(b, 0) is not True:
        raise ValueError("of unknown sign")
    if dims.at_least(a, 0) is True:
        return dims.floordiv(a, b)
    if dims.at_least(a + b, 1) is not True:
        raise ValueError("of unknown sign")
    return dims.dim_max(dims.floordiv(a, b), 0)  # rounds toward zero: a > -b here


def _require_decided(answer: bool | None) -> bool:
    if answer is None:
        raise ValueError("undecided")
    return answer


def _less(a: Dim, b: Dim) -> bool:
    return not _require_decided(dims.at_least(a, b))


carries("Add")(_each(lambda a, b, f: _exact(a) + _exact(b)))
carries("Sub")(_each(lambda a, b, f: _exact(a) - _exact(b)))
carries("Mul")(_each(lambda a, b, f: _exact(a) * _exact(b)))
carries("Div")(_each(_quotient))
carries("Neg")(_each(lambda a, f: -_exact(a)))
carries("Floor", "Ceil", "Round")(_each(lambda a, f: _exact(a)))
carries("Equal")(_each(lambda a, b, f: _require_decided(dims.equal(_exact(a), _exact(b))), "bool"))
carries("Greater")(_each(lambda a, b, f: _less(_exact(b), _exact(a)), "bool"))
carries("Less")(_each(lambda a, b, f: _less(_exact(a), _exact(b)), "bool"))
carries("GreaterOrEqual")(_each(lambda a, b, f: not _less(_exact(a), _exact(b)), "bool"))
carries("LessOrEqual")(_each(lambda a, b, f: not _less(_exact(b), _exact(a)), "bool"))
carries("Not")(_each(lambda a, f: not a))
carries("And")(_each(lambda a, b, f: bool(a and b)))
carries("Or")(_each(lambda a, b, f: bool(a or b)))


@carries("Mod")
def _mod(node: OnnxNode, a: Elements, b: Elements) -> ElementsAndDtype | None:
    return None if node.flag("fmod") else _each(lambda x, y, f: dims.floormod(x, y))(node, a, b)


@carries("Max", "Min")
def _extreme(node: OnnxNode, *operands: Elements) -> ElementsAndDtype:
    choose = dims.dim_max if node.op_type == "Max" else dims.dim_min
    return _each(lambda *each: choose(*[_exact(e) for e in each[:-1]]))(node, *operands)


@carries("Where")
def _where(node: OnnxNode, cond: Elements, x: Elements, y: Elements) -> ElementsAndDtype:
    result, _ = _each(lambda c, a, b, f: a if c else b)(node, cond, x, y)
    return result, node.dtype(1)


@carries("Cast")
def _cast(node: OnnxNode, x: Elements) -> ElementsAndDtype | None:
    dtype = node.dtype_attr("to") or ""
    if dtype == "bool":
        if any(isinstance(e, Poly) for e in x.ravel()):
            return None
        return x.astype(bool).astype(object), dtype
    if is_int(dtype) and any(isinstance(e, float) for e in x.ravel()):
        return None
    return np.vectorize(lambda e: int(e) if isinstance(e, bool | np.bool_) else e, otypes=[object])(
        x
    ) if x.size else x, dtype
