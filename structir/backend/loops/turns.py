"""The schedule of an in-register transpose: elements are read along one axis and written along
another, in tiles of equal sides."""

from __future__ import annotations

from math import prod

from structir.backend.cpu.products import has_own_products
from structir.backend.loops.access import Address, address_of, joined_axes
from structir.backend.loops.expression import Load
from structir.backend.loops.group import Group
from structir.backend.loops.writer import KernelText, Writer, indented
from structir.ir.dims import Dim, Sym

TURNED = frozenset({"float32", "float64"})


def turned_kernel(group: Group) -> KernelText | None:
    """Returns the source of a group that is a transpose; None for any other group."""
    stage = group.stages[0]
    copy = stage.body
    if len(group.stages) > 1 or not stage.direct or stage.reduce or not isinstance(copy, Load):
        return None
    if copy.buffer.dtype != stage.out.dtype or stage.out.dtype not in TURNED:
        return None
    read = address_of(copy.buffer, copy.entries, stage.axes)
    written = address_of(stage.out, stage.write, stage.axes)
    if read.data or read.pinned(stage.axes):
        return None
    *outer, last = joined_axes(stage.parallel, stage.extents, [read, written]) or [()]
    turned = [g for g in outer if read.coefficient(g[-1]) == 1]
    steps = [read.coefficient(last[-1]), written.coefficient(last[-1])] if last else [0, 0]
    if not turned or steps[1] != 1 or steps[0] in (0, 1) or not has_own_products(stage.out.dtype):
        return None
    others = [g for g in outer if g is not turned[0]]
    return _text(group, copy, (read, written), others, turned[0], last)


def _text(
    group: Group,
    copy: Load,
    addresses: tuple[Address, Address],
    others: list[tuple[Sym, ...]],
    turned: tuple[Sym, ...],
    last: tuple[Sym, ...],
) -> KernelText:
    """Returns the source, with as many neighbours along the transposed axis as the range has."""
    stage, writer = group.stages[0], Writer(group.stages[0].axes)
    read, written = addresses
    rows = [*others, turned]
    names = [*(f"g{k}" for k in range(len(others))), "i"]
    writer.name_axes(rows, names)

    def extent(axes: tuple[Sym, ...]) -> Dim:
        return prod(stage.extents[a] for a in axes)

    sizes = [writer.size(extent(g)) for g in rows[1:]]
    source, to = writer.pointer(copy.buffer), writer.pointer(stage.out)
    places = [
        f"offset_by({pointer}, {_start(writer, address, rows)})"
        for pointer, address in ((to, written), (source, read))
    ]
    lines = [writer.size(written.coefficient(turned[-1])), writer.size(read.coefficient(last[-1]))]
    count = f"min({writer.size(extent(turned))} - i, hi - r)"
    call = f"turn_over(({', '.join([*places, 'count', writer.size(extent(last)), *lines])}))"
    body = [*writer.decoded(rows, ["", *sizes], "r"), f"count = {count}", call, "r += count"]
    origins = (stage.origin,) if stage.origin else ()
    whole = prod(extent(g) for g in rows)
    return writer.finish(["r = lo", "while r < hi:", *indented(body)], whole, origins)


def _start(writer: Writer, address: Address, rows: list[tuple[Sym, ...]]) -> str:
    steps = [(writer.names[g[-1]], address.coefficient(g[-1])) for g in rows]
    terms = [f"{name} * {writer.size(step)}" for name, step in steps if step != 0]
    if address.rest != 0:
        terms.append(writer.size(address.rest))
    return " + ".join(terms) or "0"
