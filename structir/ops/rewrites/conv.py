"""Rewrites of convolutions to channels-last layout, and propagation of permutes."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.expr import Expr
from structir.ir.op import Op
from structir.opdef.attributes import Ints
from structir.ops.conv import conv2d
from structir.ops.layout import permute_dims
from structir.rewriting.guards import acts_element_wise, rank_of, used_once
from structir.rewriting.rule import rewrite

GROUP = "convert_layout"
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # permutations to channels-last and back
KERNEL_LAST = (2, 3, 1, 0)


@rewrite(group=GROUP, tolerance=1e-3)
def channels_last(
    x: Expr, weight: Expr, strides: Ints, padding: Ints, dilation: Ints, groups: int
) -> Iterator[Expr]:
    """Rewrites a convolution to channels-last layout, with contiguous channels."""
    yield conv2d(x, weight, strides=strides, padding=padding, dilation=dilation, groups=groups)
    moved = conv2d(
        permute_dims(x, LAST),
        permute_dims(weight, KERNEL_LAST),
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=groups,
        data_layout="NHWC",
        kernel_layout="HWIO",
    )
    yield permute_dims(moved, FIRST)


@rewrite(group=GROUP)
def permute_after_one(x: Expr, f: Op, axes: Ints) -> Iterator[Expr]:
    """Moves a permute after an elementwise op."""
    moved = permute_dims(x, axes)
    yield f(moved)
    if axes is not None and used_once(moved) and acts_element_wise(f):
        yield permute_dims(f(x), axes)


@rewrite(group=GROUP)
def permute_after_two(x: Expr, y: Expr, f: Op, axes: Ints) -> Iterator[Expr]:
    """Moves equal permutes of two operands after the op."""
    yield f(permute_dims(x, axes), permute_dims(y, axes))
    if axes is not None and acts_element_wise(f) and rank_of(x) == rank_of(y):
        yield permute_dims(f(x, y), axes)


@rewrite(group=GROUP)
def permute_after_shift(x: Expr, y: Expr, f: Op, axes: Ints) -> Iterator[Expr]:
    """Moves a permute after an op with a small second operand."""
    moved = permute_dims(x, axes)
    yield f(moved, y)
    rank = rank_of(y)
    if axes is not None and used_once(moved) and acts_element_wise(f) and rank == 0:
        yield permute_dims(f(x, y), axes)
