"""Mappings of Python arithmetic on data-dependent numbers that may be negative.

A number that is a size is an expression of sizes and needs no op. One that `item()` reads from a
tensor is a tensor of rank 0, and so are its sums and comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, tensor_info
from structir.frontend.torch.sizes import Ratio
from structir.ir.dtype import is_float
from structir.ir.expr import Expr
from structir.script import R

ARITHMETIC = {
    "_operator.add": R.add,
    "_operator.sub": R.subtract,
    "_operator.mul": R.multiply,
    "_operator.floordiv": R.floor_divide,
    "_operator.mod": R.floor_mod,
    "_operator.eq": R.equal,
    "_operator.ne": R.not_equal,
    "_operator.le": R.less_equal,
    "_operator.lt": R.less,
    "_operator.ge": R.greater_equal,
    "_operator.gt": R.greater,
    "torch.sym_max": R.maximum,
    "torch.sym_min": R.minimum,
}
LOGIC = {"_operator.and_": R.logical_and, "_operator.or_": R.logical_or}


def _register(name: str, op: Callable[..., Expr], dtype_of: Callable[[list[Any]], str]) -> None:
    @torch_op(f":{name}")
    def build(node: FxNode) -> Expr:
        operands = node.positional()
        dtype = dtype_of(operands)
        return op(*[as_tensor(operand, dtype) for operand in operands])


def _common_dtype(operands: list[Any]) -> str:
    """Returns float64 if any operand is a float or a fraction, else int64."""
    return "float64" if any(_is_fraction(operand) for operand in operands) else "int64"


def _is_fraction(operand: Any) -> bool:
    if isinstance(operand, Expr):
        return is_float(tensor_info(operand).dtype or "float32")
    return isinstance(operand, float) or (isinstance(operand, Ratio) and operand.whole() is None)


for _name, _op in ARITHMETIC.items():
    _register(_name, _op, _common_dtype)
for _name, _op in LOGIC.items():
    _register(_name, _op, lambda operands: "bool")
_register("_operator.truediv", R.divide, lambda operands: "float64")
_register("_operator.neg", R.negative, _common_dtype)
_register("torch.sym_not", R.logical_not, lambda operands: "bool")
_register("torch.sym_float", lambda x: x, lambda operands: "float64")


@torch_op(":math.trunc")
def truncated(node: FxNode) -> Expr:
    (operand,) = node.positional()
    return cast(as_tensor(operand, "float64"), "int64")
