"""Mappings of padding: constant, replicate, reflect and circular."""

from __future__ import annotations

from collections.abc import Sequence

from structir.frontend.padding import emit_pad as pad_any
from structir.frontend.padding import pad_by_index
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.ir.dims import Dim
from structir.ir.expr import Expr

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "circular"}


def emit_pad(
    node: FxNode,
    x: Expr,
    before: Sequence[Dim],
    after: Sequence[Dim],
    value: float = 0.0,
    mode: str = "constant",
) -> Expr:
    """Returns a padded tensor; negative amounts crop."""
    are_static = all(isinstance(p, int) and p >= 0 for p in (*before, *after))
    if mode in ("reflect", "replicate") and not are_static:  # torch does not crop first
        return pad_by_index(x, before, after, MODES[mode], node.emit)
    return pad_any(x, before, after, MODES[mode], float(value), node.emit)


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
