"""Complex tensors: pairs of real tensors, and nodes applied to each part.

StructIR has no complex dtype. A complex value of an exported program is a `ComplexTensor` during
the import. Most mappings work on each part as they are; `on_parts` applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs
import numpy as np

from structir.frontend.scalars import number
from structir.frontend.torch.graph import NodeSpec
from structir.frontend.torch.scalars import cast, tensor_info
from structir.ir.expr import Constant, Expr, ShapeExpr, Tuple
from structir.script import R

# arguments that hold elements; others, such as indices and masks, are the same for both parts
ELEMENT_ARGUMENTS = (
    "self other tensors src source values value fill_value input s append prepend tensor"
)
ELEMENTS = frozenset(ELEMENT_ARGUMENTS.split())
PARTS = ("real", "imag")


@attrs.frozen(eq=False)
class ComplexTensor:
    """A complex tensor as its real and imaginary parts: two tensors of one shape and dtype."""

    real: Expr
    imag: Expr


def part_of(value: Any, part: str) -> Any:
    """Returns a part of a tensor, a number or a tuple of them; the imaginary part of a real tensor
    has its shape."""
    if isinstance(value, tuple):
        return tuple([part_of(item, part) for item in value])
    if isinstance(value, ComplexTensor | complex):
        return getattr(value, part)
    if part == "real" or value is None or isinstance(value, str | bool):
        return value
    return zeros_like(value) if isinstance(value, Expr) else 0


def zeros_like(x: Expr) -> Expr:
    """Returns zeros in the shape and dtype of a tensor."""
    info = tensor_info(x)
    zero = number(0, info.dtype or "float32")
    if isinstance(x, Constant):
        return Constant(np.zeros_like(x.data))
    return (
        R.full(ShapeExpr(info.dims), zero) if isinstance(info.dims, tuple) else R.full_like(x, zero)
    )


def map_parts(act: Callable[..., Any], *values: Any) -> Any:
    """Returns the result for values, or for each part of them if one is complex."""
    if not any(isinstance(value, ComplexTensor) for value in values):
        return act(*values)
    return ComplexTensor(*[act(*[part_of(value, part) for value in values]) for part in PARTS])


class ReplaceableNode(Protocol):
    """A node whose arguments can be replaced."""

    spec: NodeSpec

    def arg(self, name: str) -> Any:
        """Returns an argument."""
        ...

    def replace(self, values: Mapping[str, Any]) -> Any:
        """Returns the node with other values of some arguments."""
        ...


def on_parts(node: ReplaceableNode, act: Callable[..., Any], *values: Any) -> Any:
    """Returns the results of a node for each part of its elements, joined to complex tensors."""
    results = []
    for part in PARTS:
        elements = {
            name: _elements(node.arg(name), part) for name in node.spec.args if name in ELEMENTS
        }
        results.append(act(node.replace(elements), *[part_of(value, part) for value in values]))
    if isinstance(results[0], list | tuple):
        return [ComplexTensor(*pair) for pair in zip(*results, strict=True)]
    return ComplexTensor(*results)


def _elements(value: Any, part: str) -> Any:
    """Returns a part of an argument that holds elements; axes, such as the `source` of `movedim`,
    are the same for both parts."""
    if isinstance(value, bool):
        return value and part == "real"
    are_axes = isinstance(value, tuple | list) and all(type(item) is int for item in value)
    return value if are_axes else part_of(value, part)


def as_complex(value: Any, dtype: str) -> ComplexTensor:
    """Returns a tensor or number as a complex tensor with parts of a dtype."""
    real, imag = (part_of(value, part) for part in PARTS)
    if isinstance(real, Expr):
        return ComplexTensor(cast(real, dtype), cast(imag, dtype))
    return ComplexTensor(number(real, dtype), number(imag, dtype))


def conjugate_of(x: ComplexTensor) -> ComplexTensor:
    """Returns the complex conjugate."""
    return ComplexTensor(x.real, R.negative(x.imag))


def split_pairs(node: Any, x: Expr) -> ComplexTensor:
    """Returns the complex tensor of a real tensor whose last axis holds both parts."""
    axis = len(tensor_info(x).dims) - 1
    parts = [R.squeeze(R.strided_slice(x, [axis], (k,), (k + 1,)), [axis]) for k in range(2)]
    return ComplexTensor(*[node.emit(part) for part in parts])


def join_pairs(x: ComplexTensor) -> Expr:
    """Returns both parts along a new last axis."""
    return R.stack(Tuple((x.real, x.imag)), axis=-1)
