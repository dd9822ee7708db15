"""The schedule of a single matrix product: one call for each point of the batch axes."""

from __future__ import annotations

from math import prod

from structir.backend.cpu.products import WIDEST_PANEL, has_own_products
from structir.backend.loops.access import Address, joined_axes
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.contraction import Contraction, contraction_of
from structir.backend.loops.group import Group
from structir.backend.loops.nest import nest_kernel
from structir.backend.loops.packing import packed_constant
from structir.backend.loops.writer import KernelText, Writer, indented
from structir.ir.dims import Dim, Sym


def matrix_kernel(group: Group) -> KernelText:
    """Returns the source of a matrix product."""
    stage = group.stages[0]
    found = contraction_of(stage)
    if found is None:
        raise TypeError(f"{stage} is no matrix product")
    if found.windows:
        return nest_kernel(group)
    writer = Writer(stage.axes)
    extents = stage.extents

    def extent(axes: tuple[Sym, ...]) -> Dim:
        return prod(extents[a] for a in axes)

    addresses = [found.left_address, found.right_address, found.out_address]
    batch = joined_axes(found.batch, extents, addresses)
    names = ["g"] if len(batch) == 1 else [f"g{i}" for i in range(len(batch))]
    names = names if batch else []
    writer.name_axes(batch, names)
    panels = packed_constant(stage, found)
    right = panels or found.right.buffer
    pointers = [writer.pointer(b) for b in (found.left.buffer, right, stage.out)]
    m, n, k = (writer.size(extent(g)) for g in (found.m, found.n, found.k))
    rows = found.m[-1] if found.m and not batch else None
    places = [
        _place(writer, pointer, address, batch, rows)
        for pointer, address in zip(pointers, addresses, strict=True)
    ]
    strides = [writer.size(s) for s in _strides(found)]
    args = [*places, m if batch else "hi - lo", n, k, *strides]
    call = _packed_call(pointers[1], args) if panels else _call(writer, stage.out.dtype, args)
    origins = (stage.origin,) if stage.origin else ()
    if not batch:
        return writer.finish([call], extent(found.m), origins)
    sizes = [writer.size(extent(g)) for g in batch[1:]]
    lines = [*writer.decoded(batch, ["", *sizes], "g"), call]
    whole = prod(extent(g) for g in batch)
    return writer.finish(["for g in range(lo, hi):", *indented(lines)], whole, origins)


def _call(writer: Writer, dtype: str, args: list[str]) -> str:
    """Returns the call of the library's own tiles where the CPU supports them, else of BLAS."""
    if not has_own_products(dtype):
        return f"multiply_matrices({', '.join(args)})"
    panel = Buffer((WIDEST_PANEL,), dtype, "scratch")
    writer.scratch.append(panel)
    return f"multiply_tiled(({', '.join([*args, writer.pointer(panel)])}))"


def _packed_call(panels: str, args: list[str]) -> str:
    """Returns the product with a packed right operand."""
    left, _, out, *sizes, a_row, a_column, _, _, c_row = args
    return f"multiply_packed(({', '.join([left, panels, out, *sizes, a_row, a_column, c_row])}))"


def _strides(found: Contraction) -> list[Dim]:
    n, k = found.n[-1], found.k[-1]
    left, right, out = found.left_address, found.right_address, found.out_address
    return [
        left.coefficient(found.m[-1]) if found.m else 0,
        left.coefficient(k),
        right.coefficient(k),
        right.coefficient(n),
        out.coefficient(found.m[-1]) if found.m else 0,
    ]


def _place(
    writer: Writer,
    pointer: str,
    address: Address,
    batch: list[tuple[Sym, ...]],
    rows: Sym | None,
) -> str:
    """Returns the address of an operand's matrix at this point of the batch, or from this row
    on."""
    terms = []
    for group in batch:
        step = address.coefficient(group[-1])
        if step != 0:
            terms.append(f"{writer.names[group[-1]]} * {writer.size(step)}")
    if rows is not None and address.coefficient(rows) != 0:
        terms.append(f"lo * {writer.size(address.coefficient(rows))}")
    if address.rest != 0:
        terms.append(writer.size(address.rest))
    return f"offset_by({pointer}, {' + '.join(terms)})" if terms else pointer
