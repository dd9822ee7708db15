"""Mappings of padding: constant, replicate, reflect and circular."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import index_range, number, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "circular"}


def emit_pad(
    node: FxNode,
    x: Expr,
    before: Sequence[Dim],
    after: Sequence[Dim],
    value: Any = 0.0,
    mode: str = "constant",
) -> Expr:
    """Returns a padded tensor; negative amounts crop."""
    are_static = all(isinstance(p, int) and p >= 0 for p in (*before, *after))
    if mode in ("reflect", "replicate") and not are_static:
        return _pad_by_index(node, x, before, after, mode)
    x = _crop(node, x, before, after)
    before, after = ([p if _adds(p) else 0 for p in side] for side in (before, after))
    amounts_of_all = [*before, *after]
    if all(p == 0 for p in amounts_of_all):
        return x
    dtype = node.dtype_of(x)
    if all(isinstance(p, int) for p in amounts_of_all) and (mode != "constant" or dtype != "bool"):
        widths = [w for pair in zip(before, after, strict=True) for w in pair]
        return R.nn.pad(x, widths, pad_mode=MODES[mode], pad_value=float(value))
    if mode != "constant":
        return _pad_by_index(node, x, before, after, mode)
    for axis, amounts in enumerate(zip(before, after, strict=True)):
        x = _blocks(node, x, axis, amounts, number(value, dtype))
    return x


def _pad_by_index(
    node: FxNode, x: Expr, before: Sequence[Dim], after: Sequence[Dim], mode: str
) -> Expr:
    """Selects the element of each padded position, for symbolic or negative amounts.

    As in torch, reflected and repeated elements may be ones that negative amounts remove.
    """
    for axis, (start, end) in enumerate(zip(before, after, strict=True)):
        if dims.equal(start, 0) is True and dims.equal(end, 0) is True:
            continue
        size = node.dims_of(x)[axis]
        last = size_number(size - 1)
        index = R.subtract(index_range(size + start + end), size_number(start))
        x = node.emit(R.take(x, INDICES[mode](index, last), axis=axis))
    return x


def _edge_index(index: Expr, last: Expr) -> Expr:
    result: Expr = R.minimum(R.maximum(index, number(0, "int64")), last)
    return result


def _reflected_index(index: Expr, last: Expr) -> Expr:
    result: Expr = R.subtract(last, R.abs(R.subtract(last, R.abs(index))))
    return result


def _circular_index(index: Expr, last: Expr) -> Expr:
    result: Expr = R.floor_mod(index, R.add(last, number(1, "int64")))
    return result


INDICES = {
    "reflect": _reflected_index,
    "replicate": _edge_index,
    "circular": _circular_index,
}


def _adds(amount: Dim) -> bool:
    return not isinstance(amount, int) or amount > 0


def _crop(node: FxNode, x: Expr, before: Sequence[Dim], after: Sequence[Dim]) -> Expr:
    sizes = node.dims_of(x)
    axes = [
        k for k, pair in enumerate(zip(before, after, strict=True)) if not all(map(_keeps, pair))
    ]
    if not axes:
        return x
    starts = [0 if _keeps(before[k]) else -before[k] for k in axes]
    ends = [sizes[k] if _keeps(after[k]) else sizes[k] + after[k] for k in axes]
    return node.emit(R.strided_slice(x, axes, starts, ends))


def _keeps(amount: Dim) -> bool:
    return not isinstance(amount, int) or amount >= 0


def _blocks(node: FxNode, x: Expr, axis: int, amounts: Sequence[Dim], value: Expr) -> Expr:
    """Concatenates blocks of a value before and after a tensor along an axis."""
    sizes, parts = list(node.dims_of(x)), [x]
    for index, amount in zip((0, len(parts)), amounts, strict=True):
        if dims.equal(amount, 0) is True:
            continue
        sizes[axis] = amount
        block = R.full(ShapeExpr(tuple(sizes)), value)
        parts.insert(0 if index == 0 else len(parts), block)
    return x if len(parts) == 1 else node.emit(R.concat(parts, axis=axis))


def _amounts(node: FxNode, name: str) -> tuple[list[Dim], list[Dim]]:
    """Returns the amounts for every axis; torch lists pairs starting with the last axis."""
    pairs, rank = node.sizes(name), node.rank()
    before: list[Dim] = [0] * rank
    after: list[Dim] = [0] * rank
    for k in range(len(pairs) // 2):
        before[rank - 1 - k], after[rank - 1 - k] = pairs[2 * k], pairs[2 * k + 1]
    return before, after


@torch_op("pad", "constant_pad_nd", "_pad_enum")
def pad(node: FxNode) -> Expr:
    before, after = _amounts(node, "pad")
    mode = node.arg("mode", "constant")
    value = node.arg("value", None)
    if mode not in MODES:
        node.fail(f"mode: expected {', '.join(MODES)}, found {mode!r}")
    return emit_pad(node, node["self"], before, after, 0.0 if value is None else value, mode)


@torch_op("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def pad_reflect(node: FxNode) -> Expr:
    return emit_pad(node, node["self"], *_amounts(node, "padding"), mode="reflect")


@torch_op("replication_pad1d", "replication_pad2d", "replication_pad3d")
def pad_replicate(node: FxNode) -> Expr:
    return emit_pad(node, node["self"], *_amounts(node, "padding"), mode="replicate")
