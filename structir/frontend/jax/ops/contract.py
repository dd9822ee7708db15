"""Mappings of contractions and convolutions."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.ops.reduce import cast
from structir.frontend.jax.ops.shapes import padded, spread
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.scalars import dims_of, number, reshape_to
from structir.ir import dims
from structir.ir.expr import Expr
from structir.script import R

CONVOLUTIONS: dict[int, Callable[..., Expr]] = {1: R.nn.conv1d, 2: R.nn.conv2d, 3: R.nn.conv3d}


@jax_primitive("dot_general")
def dot_general(equation: Equation) -> Expr:
    """Builds a contraction; the axes of the result are the batch axes, then those of each
    operand."""
    contracted_axes, batch_axes = equation.params["dimension_numbers"]
    letters = iter(string.ascii_letters)
    left = [next(letters) for _ in equation.dims(0)]
    right = [next(letters) for _ in equation.dims(1)]
    for axes in (contracted_axes, batch_axes):
        for a, b in zip(*axes, strict=True):
            right[int(b)] = left[int(a)]
    x, y = _widened(equation)
    contracted = {left[int(k)] for k in contracted_axes[0]}
    batch = [left[int(k)] for k in batch_axes[0]]
    free = [a for a in (*left, *right) if a not in contracted and a not in batch]
    if not contracted and not batch and not left:
        return cast(equation, R.multiply(x, y))
    is_matrix_product = len(left) == len(right) == 2 and left[1] == right[0] and not batch
    if is_matrix_product:
        return cast(equation, R.matmul(x, y))
    subscripts = f"{''.join(left)},{''.join(right)}->{''.join([*batch, *free])}"
    return cast(equation, R.einsum([x, y], subscripts))


def _widened(equation: Equation) -> list[Expr]:
    """Returns the operands in the dtype of the result: products are summed in it."""
    dtype = equation.out_dtype()
    pairs = enumerate(equation.args)
    return [x if equation.dtype(k) == dtype else R.astype(x, dtype) for k, x in pairs]


@jax_primitive("conv_general_dilated")
def convolution(equation: Equation) -> Expr:
    params, numbers = equation.params, equation.params["dimension_numbers"]
    count = len(equation.dims()) - 2
    if count not in CONVOLUTIONS:
        equation.fail(f"expected 1 to 3 spatial axes, found {count}")
    operands = zip(_widened(equation), (numbers.lhs_spec, numbers.rhs_spec), strict=True)
    x, weight = (equation.emit(_ordered(value, spec)) for value, spec in operands)
    groups, batch_groups = (int(params[f"{k}_group_count"]) for k in ("feature", "batch"))
    if batch_groups > 1:
        x, groups = _groups_as_features(equation, x, batch_groups), batch_groups
    filler = number(0, equation.out_dtype())
    for k, dilation in enumerate(params["lhs_dilation"]):
        if dilation != 1:
            x = equation.emit(spread(equation, x, 2 + k, dilation - 1, filler))
    padding = [[equation.dim(side) for side in pair] for pair in params["padding"]]
    for k, pair in enumerate(padding):
        if any([not isinstance(side, int) or side < 0 for side in pair]):
            x = equation.emit(padded(x, 2 + k, pair[0], pair[1], filler))
            padding[k] = [0, 0]
    result = CONVOLUTIONS[count](
        x,
        weight,
        strides=[int(s) for s in params["window_strides"]],
        padding=[pair[side] for side in (0, 1) for pair in padding],
        dilation=[int(d) for d in params["rhs_dilation"]],
        groups=groups,
    )
    order = list(numbers.out_spec)
    inverse = [order.index(k) for k in range(len(order))]
    return _ordered(cast(equation, equation.emit(result)), inverse)


def _groups_as_features(equation: Equation, x: Expr, count: int) -> Expr:
    """Returns (count * n, c, ...) as (n, count * c, ...): groups of the batch become groups of
    channels."""
    batch, channels, *spatial = dims_of(x)
    rest = dims.floordiv(batch, count)
    split = equation.emit(reshape_to(x, [count, rest, channels, *spatial]))
    order = [1, 0, *range(2, len(spatial) + 3)]
    return equation.emit(
        reshape_to(equation.emit(R.permute_dims(split, order)), [rest, channels * count, *spatial])
    )


def _ordered(x: Expr, order: Any) -> Expr:
    axes = [int(k) for k in order]
    return x if axes == sorted(axes) else R.permute_dims(x, axes)
