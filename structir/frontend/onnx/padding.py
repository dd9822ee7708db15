"""Padding on both sides of every axis by known or symbolic amounts; negative amounts crop."""

from __future__ import annotations

from typing import Any

from structir.frontend.onnx.node import OnnxNode, alternatives
from structir.frontend.onnx.scalars import number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, ShapeExpr, Tuple
from structir.script import R

MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect", "wrap": "circular"}
Amounts = list[Dim]


def emit_pad(
    node: OnnxNode, x: Expr, before: Amounts, after: Amounts, mode: str, value: Any = 0.0
) -> Expr:
    """Returns a tensor padded in an ONNX mode, with `value` in the mode `constant`."""
    if mode not in MODES:
        node.fail(f"mode: expected {alternatives(MODES)}, found {mode!r}")
    x, before, after = _crop(node, x, before, after)
    if all(isinstance(p, int) and p == 0 for p in (*before, *after)):
        return x
    if all(isinstance(p, int) for p in (*before, *after)):
        return _pad_statically(node, x, before, after, mode, value)
    if mode != "constant":
        node.fail(f"pads: expected static amounts in mode {mode!r}, found {before} and {after}")
    return _pad_with_blocks(node, x, before, after, value)


def _crop(
    node: OnnxNode, x: Expr, before: Amounts, after: Amounts
) -> tuple[Expr, Amounts, Amounts]:
    """Crops the axes with negative padding; returns the tensor and the padding that remains."""
    low = [isinstance(p, int) and p < 0 for p in before]
    high = [isinstance(p, int) and p < 0 for p in after]
    axes = [k for k in range(len(before)) if low[k] or high[k]]
    if not axes:
        return x, before, after
    sizes = node.tensor_info(x).dims
    starts = [-before[k] if low[k] else 0 for k in axes]
    ends = [sizes[k] + after[k] if high[k] else sizes[k] for k in axes]
    cut = R.strided_slice(x, axes, ShapeExpr(tuple(starts)), ShapeExpr(tuple(ends)))
    return (
        node.emit(cut),
        [0 if is_low else p for p, is_low in zip(before, low, strict=True)],
        [0 if is_high else p for p, is_high in zip(after, high, strict=True)],
    )


def _pad_statically(
    node: OnnxNode, x: Expr, before: Amounts, after: Amounts, mode: str, value: Any
) -> Expr:
    widths = [w for pair in zip(before, after, strict=True) for w in pair]
    dtype = node.tensor_info(x).dtype
    if isinstance(value, Constant):
        value = value.data.item()
    is_number = isinstance(value, int | float) and dtype != "bool"
    if mode != "constant" or is_number:
        return R.nn.pad(x, widths, pad_mode=MODES[mode], pad_value=value if is_number else 0.0)
    filler = number(value, dtype or "float32") if isinstance(value, int | float) else value
    return _pad_with_blocks(node, x, before, after, filler)


def _pad_with_blocks(node: OnnxNode, x: Expr, before: Amounts, after: Amounts, value: Any) -> Expr:
    """Pads by concatenating blocks of the value before and after, axis by axis."""
    if not isinstance(value, Expr):
        value = number(value, node.tensor_info(x).dtype or "float32")
    for axis, amounts in enumerate(zip(before, after, strict=True)):
        sizes = list(node.tensor_info(x).dims)
        blocks: list[Expr] = []
        for amount in amounts:
            sizes[axis] = amount
            blocks.append(R.full(ShapeExpr(tuple(sizes)), value))
        candidates = [blocks[0], x, blocks[1]]
        is_empty = [dims.equal(amounts[0], 0), False, dims.equal(amounts[1], 0)]
        parts = [p for p, none in zip(candidates, is_empty, strict=True) if none is not True]
        if len(parts) > 1:
            x = node.emit(R.concat(Tuple(tuple(parts)), axis=axis))
    return x
