"""Reports of a plan: a table of shards, a table of traffic, and a picture of the blocks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from structir.distributed.plan import Plan, PlanTensor, Shard
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds

if TYPE_CHECKING:
    from rich.table import Table

tables = lazy_module("rich.table")

SIDE = 160  # pixels: the longer side of a tensor in the picture
GAP = 40
SHOWN = 64  # shards in a table


def shard_table(plan: Plan) -> Table:
    """Returns a table with a row per shard: its result blocks, input blocks, and their bytes."""
    table: Table = tables.Table(title=str(plan))
    table.add_column("shard", justify="right")
    for tensor in plan.results:
        table.add_column(f"{tensor.name} (computed)")
    for tensor in plan.inputs:
        table.add_column(tensor.name)
    table.add_column("bytes in", justify="right")
    table.add_column("bytes out", justify="right")
    for shard in plan.shards[:SHOWN]:
        computed = [_block(b) for b in shard.results]
        read = [_block(shard.block_of(t.name)) for t in plan.inputs]
        table.add_row(
            str(shard.index), *computed, *read, f"{shard.bytes_in:,}", f"{shard.bytes_out:,}"
        )
    if len(plan.shards) > SHOWN:
        table.add_row("...", *[""] * (len(plan.results) + len(plan.inputs) + 2))
    return table


def traffic_table(plan: Plan) -> Table:
    """Returns a table with a row per input: its size, the bytes sent, and the shared part."""
    table: Table = tables.Table(title="traffic")
    table.add_column("input")
    for heading in ("bytes", "sent", "ratio"):
        table.add_column(heading, justify="right")
    for axis in plan.axes:
        table.add_column(f"along axis {axis} ({plan.kinds[axis]})")
    for name, (size, sent) in plan.traffic().items():
        shared = [_sharing(plan, axis, name) for axis in plan.axes]
        ratio = f"{sent / size:.2f}" if size else "-"
        table.add_row(name, f"{size:,}", f"{sent:,}", ratio, *shared)
    return table


def plan_data(plan: Plan) -> dict[str, Any]:
    """Returns a plan as JSON data: the bounds of the blocks that each shard computes and reads."""
    shards = [
        {
            "index": shard.index,
            "makes": {t.name: _bounds(b) for t, b in zip(plan.results, shard.results, strict=True)},
            "reads": {t.name: _bounds(shard.block_of(t.name)) for t in plan.inputs},
            "bytes_in": shard.bytes_in,
            "bytes_out": shard.bytes_out,
        }
        for shard in plan.shards
    ]
    sent = {name: {"bytes": size, "sent": total} for name, (size, total) in plan.traffic().items()}
    return {"plan": str(plan), "shards": shards, "traffic": sent}


def _bounds(bounds: Bounds | None) -> Any:
    return None if bounds is None else [list(ends) for ends in zip(*bounds, strict=True)]


def _sharing(plan: Plan, axis: int, name: str) -> str:
    """Returns the kind of overlap of neighbours in an input, and the relative size of a halo."""
    sharing = plan.axes[axis][name]
    if sharing.kind != "halo" or not sharing.box:
        return sharing.kind
    return f"halo, {sharing.shared_box / sharing.box:.0%} of a block"


def _block(bounds: Bounds | None) -> str:
    if bounds is None:
        return "-"
    return " ".join([f"{a}:{b}" for a, b in zip(*bounds, strict=True)]) or "all"


def picture(plan: Plan) -> str:
    """Returns an SVG picture of the blocks of every input and result, a colour per shard.

    Tensors of rank above 2 are drawn along the two axes with the most distinct blocks."""
    tensors = [(t, "receives") for t in plan.inputs] + [(t, "makes") for t in plan.results]
    parts = []
    height = SIDE + GAP
    for column, (tensor, role) in enumerate(tensors):
        blocks = [
            (s, b) for s in plan.shards if (b := _block_of(plan, s, tensor, role)) is not None
        ]
        parts.append(_draw(tensor, role, blocks, column * (SIDE + GAP) + GAP // 2, GAP))
    width = len(tensors) * (SIDE + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + GAP}" '
        f'font-family="sans-serif" font-size="12">{"".join(parts)}</svg>\n'
    )


def _block_of(plan: Plan, shard: Shard, tensor: PlanTensor, role: str) -> Bounds | None:
    if role == "makes":
        return shard.results[plan.results.index(tensor)]
    return shard.block_of(tensor.name)


def _draw(
    tensor: PlanTensor, role: str, blocks: list[tuple[Shard, Bounds]], x_offset: int, y_offset: int
) -> str:
    """Returns one tensor: its outline, and a rectangle for the block of each shard."""
    rows, columns = _axes(tensor, blocks)
    high = tensor.shape[rows] if rows is not None else 1
    wide = tensor.shape[columns] if columns is not None else 1
    scale = SIDE / max(high, wide, 1)
    text = f"{role} {tensor.name} {tensor.shape}"
    parts = [f'<text x="{x_offset}" y="{y_offset - 10}">{escape(text)}</text>']
    for shard, (start, stop) in blocks:
        y, y_end = (start[rows], stop[rows]) if rows is not None else (0, 1)
        x, x_end = (start[columns], stop[columns]) if columns is not None else (0, 1)
        colour = f"hsl({shard.index * 137 % 360},70%,50%)"
        parts.append(
            f'<rect x="{x_offset + x * scale:.1f}" y="{y_offset + y * scale:.1f}" '
            f'width="{(x_end - x) * scale:.1f}" height="{(y_end - y) * scale:.1f}" '
            f'fill="{colour}" fill-opacity="0.3" stroke="{colour}">'
            f"<title>shard {shard.index}: {escape(_block((start, stop)))}</title></rect>"
        )
    parts.append(
        f'<rect x="{x_offset}" y="{y_offset}" '
        f'width="{wide * scale:.1f}" height="{high * scale:.1f}" '
        f'fill="none" stroke="black"/>'
    )
    return "".join(parts)


def _axes(tensor: PlanTensor, blocks: list[tuple[Shard, Bounds]]) -> tuple[int | None, int | None]:
    """Returns the vertical and the horizontal axis: those with the most distinct blocks."""
    rank = len(tensor.shape)
    block_counts = [len({(a[axis], b[axis]) for _, (a, b) in blocks}) for axis in range(rank)]
    chosen = sorted(sorted(range(rank), key=lambda axis: (-block_counts[axis], -axis))[:2])
    if not chosen:
        return None, None
    return (chosen[0], chosen[1]) if len(chosen) == 2 else (None, chosen[0])
