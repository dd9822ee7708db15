"""Padding on both sides of every axis in the modes of ONNX; negative amounts crop."""

from __future__ import annotations

from typing import Any

from structir.frontend.onnx.node import OnnxNode, alternatives
from structir.frontend.onnx.sizes import require
from structir.frontend.padding import emit_pad as pad
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr
from structir.ir.requirements import condition

MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect", "wrap": "circular"}
Amounts = list[Dim]


def emit_pad(
    node: OnnxNode, x: Expr, before: Amounts, after: Amounts, mode: str, value: Any = 0.0
) -> Expr:
    """Returns a tensor padded in an ONNX mode, with `value` in the mode `constant`."""
    if mode not in MODES:
        node.fail(f"mode: expected {alternatives(MODES)}, found {mode!r}")
    if isinstance(value, Constant):
        value = value.data.item()
    if mode == "reflect":
        sizes = node.tensor_info(x).dims
        limited = [(p, n) for side in (before, after) for p, n in zip(side, sizes, strict=True)]
        require(node, [condition("<", p, n) for p, n in limited if not isinstance(p, int)])
    return pad(x, before, after, MODES[mode], value, node.emit)
