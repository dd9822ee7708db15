"""The elements that library calls of kernels read and write, as loops over their regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import Element, LibraryCall
from structir.ir.kernel_functions import LIBRARY
from structir.projections.kernels.affine_scalars import Values, as_index


@attrs.frozen(eq=False)
class LibraryAccesses:
    """The loops of a library call, and the flat index of each element that it reads and writes.

    An index is None if it depends on data.
    """

    loops: tuple[tuple[Sym, Dim], ...]
    reads: tuple[tuple[Element, Dim | None], ...]
    written: Dim | None


def library_accesses(
    call: LibraryCall, values: Values, symbol: Callable[[str], Sym]
) -> LibraryAccesses:
    """Returns the accesses of a call; `symbol` returns the index variable of a name."""
    function = LIBRARY[call.fn]
    count = len(function.regions)
    numbers = [as_index(arg, values) for arg in call.args[count:]]
    sizes: dict[str, Dim | None] = dict(zip(function.integers, numbers, strict=True))
    names = list(dict.fromkeys(n for axes in function.regions.values() for n, _ in axes))
    known = all(sizes[name] is not None for name in names)
    counts = [(n, sizes[n] or 0) for n in names] if known else []
    loops = tuple([(symbol(n), dims.dim_max(count, 0)) for n, count in counts])
    indices = {
        name: _flat_index(element, axes, sizes, values, symbol) if known else None
        for (name, axes), element in zip(function.regions.items(), call.args, strict=False)
    }
    elements = dict(zip(function.regions, call.args[:count], strict=True))
    written = list(function.regions)[function.written]
    read = [n for n in function.regions if n != written or function.accumulates]
    reads = tuple([(elements[n], indices[n]) for n in read])
    return LibraryAccesses(loops, reads, indices[written])  # type: ignore[arg-type]


def _flat_index(
    element: object,
    axes: tuple[tuple[str, str], ...],
    sizes: Mapping[str, Dim | None],
    values: Values,
    symbol: Callable[[str], Sym],
) -> Dim | None:
    """Returns the index of an element of a region: its start, and a stride per axis."""
    assert isinstance(element, Element)
    index = as_index(element.indices[0], values)
    for count, step in axes:
        stride = sizes[step] if step else 1
        if index is None or stride is None:
            return None
        index = index + dims.as_dim(symbol(count)) * stride
    return index
