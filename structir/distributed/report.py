"""A plan to look at: a table of its shards, what is sent of each input, and a picture of the
blocks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from structir.distributed.plan import Plan, PlanTensor, Shard
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds

if TYPE_CHECKING:
    from rich.table import Table

tables = lazy_module("rich.table")

SIDE = 160  # of the longer side of a tensor in the picture, in pixels
GAP = 40
SHOWN = 64  # shards in a table


def shard_table(plan: Plan) -> Table:
    """A row for each shard: what it makes, what it receives, and how many bytes each is."""
    found: Table = tables.Table(title=str(plan))
    found.add_column("shard", justify="right")
    for tensor in plan.results:
        found.add_column(f"{tensor.name} (made)")
    for tensor in plan.inputs:
        found.add_column(tensor.name)
    found.add_column("bytes in", justify="right")
    found.add_column("bytes out", justify="right")
    for shard in plan.shards[:SHOWN]:
        made = [_block(b) for b in shard.results]
        read = [_block(shard.block_of(t.name)) for t in plan.inputs]
        found.add_row(
            str(shard.index), *made, *read, f"{shard.bytes_in:,}", f"{shard.bytes_out:,}"
        )
    if len(plan.shards) > SHOWN:
        found.add_row("...", *[""] * (len(plan.results) + len(plan.inputs) + 2))
    return found


def traffic_table(plan: Plan) -> Table:
    """A row for each input: its bytes, what is sent of it, and what neighbours share."""
    found: Table = tables.Table(title="what is sent")
    found.add_column("input")
    for heading in ("bytes", "sent", "times"):
        found.add_column(heading, justify="right")
    for axis in plan.axes:
        found.add_column(f"along axis {axis} ({plan.kinds[axis]})")
    for name, (size, sent) in plan.traffic().items():
        shared = [_sharing(plan, axis, name) for axis in plan.axes]
        times = f"{sent / size:.2f}" if size else "-"
        found.add_row(name, f"{size:,}", f"{sent:,}", times, *shared)
    return found


def plan_data(plan: Plan) -> dict[str, Any]:
    """A plan as plain data: of each shard the blocks that it makes and reads, as bounds."""
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
    sent = {name: {"bytes": size, "sent": moved} for name, (size, moved) in plan.traffic().items()}
    return {"plan": str(plan), "shards": shards, "traffic": sent}


def _bounds(bounds: Bounds | None) -> Any:
    return None if bounds is None else [list(ends) for ends in zip(*bounds, strict=True)]


def _sharing(plan: Plan, axis: int, name: str) -> str:
    """What neighbours share of an input, and of how many positions a halo is."""
    found = plan.axes[axis][name]
    if found.kind != "halo" or not found.box:
        return found.kind
    return f"halo, {found.shared_box / found.box:.0%} of a block"


def _block(bounds: Bounds | None) -> str:
    if bounds is None:
        return "-"
    return " ".join([f"{a}:{b}" for a, b in zip(*bounds, strict=True)]) or "all"


def picture(plan: Plan) -> str:
    """The blocks of every input and result as SVG, a colour for each shard.

    Of tensors with more than two axes the two that are cut most are drawn."""
    tensors = [(t, "receives") for t in plan.inputs] + [(t, "makes") for t in plan.results]
    parts = []
    height = SIDE + GAP
    for column, (tensor, what) in enumerate(tensors):
        blocks = [(s, b) for s in plan.shards if (b := _of(plan, s, tensor, what)) is not None]
        parts.append(_drawn(tensor, what, blocks, column * (SIDE + GAP) + GAP // 2, GAP))
    width = len(tensors) * (SIDE + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + GAP}" '
        f'font-family="sans-serif" font-size="12">{"".join(parts)}</svg>\n'
    )


def _of(plan: Plan, shard: Shard, tensor: PlanTensor, what: str) -> Bounds | None:
    if what == "makes":
        return shard.results[plan.results.index(tensor)]
    return shard.block_of(tensor.name)


def _drawn(
    tensor: PlanTensor, what: str, blocks: list[tuple[Shard, Bounds]], left: int, top: int
) -> str:
    """One tensor: its outline, and a rectangle for the block of each shard."""
    rows, columns = _axes(tensor, blocks)
    high = tensor.shape[rows] if rows is not None else 1
    wide = tensor.shape[columns] if columns is not None else 1
    scale = SIDE / max(high, wide, 1)
    text = f"{what} {tensor.name} {tensor.shape}"
    found = [f'<text x="{left}" y="{top - 10}">{escape(text)}</text>']
    for shard, (start, stop) in blocks:
        y, y_end = (start[rows], stop[rows]) if rows is not None else (0, 1)
        x, x_end = (start[columns], stop[columns]) if columns is not None else (0, 1)
        colour = f"hsl({shard.index * 137 % 360},70%,50%)"
        found.append(
            f'<rect x="{left + x * scale:.1f}" y="{top + y * scale:.1f}" '
            f'width="{(x_end - x) * scale:.1f}" height="{(y_end - y) * scale:.1f}" '
            f'fill="{colour}" fill-opacity="0.3" stroke="{colour}">'
            f"<title>shard {shard.index}: {escape(_block((start, stop)))}</title></rect>"
        )
    found.append(
        f'<rect x="{left}" y="{top}" width="{wide * scale:.1f}" height="{high * scale:.1f}" '
        f'fill="none" stroke="black"/>'
    )
    return "".join(found)


def _axes(tensor: PlanTensor, blocks: list[tuple[Shard, Bounds]]) -> tuple[int | None, int | None]:
    """The axes that are drawn downwards and to the right: those of most different blocks."""
    rank = len(tensor.shape)
    pieces = [len({(a[axis], b[axis]) for _, (a, b) in blocks}) for axis in range(rank)]
    chosen = sorted(sorted(range(rank), key=lambda axis: (-pieces[axis], -axis))[:2])
    if not chosen:
        return None, None
    return (chosen[0], chosen[1]) if len(chosen) == 2 else (None, chosen[0])
