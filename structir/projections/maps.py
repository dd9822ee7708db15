"""Projections: affine maps from iteration points, or result positions, to boxes of an operand.

    box of axis j = offset[j] + sum of matrix[j][i] * position[i], of width shape[j]

They hold for every size: offsets and shapes are dims, and so are factors from row-major linear
indices. They ignore the bounds of the operand: callers bound the boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from structir.analysis.declaration import analysis
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.injectivity import sign_of
from structir.projections.spec import AccessIndex, IndexSpec, Read, Statement, Write, affine

Corner = tuple[Dim, ...]
Rows = tuple[tuple[Dim, ...], ...]


@attrs.frozen
class Projection:
    """An affine map from positions to boxes.

    The matrix has one row per axis of the operand and one column per position. A map to single
    elements has shape 1 along each axis. `out_of_bounds` is the policy for positions outside of the
    operand: forbid, wrap, clamp or pad.
    """

    matrix: Rows
    offset: Corner
    shape: Corner
    out_of_bounds: str = "pad"

    @property
    def columns(self) -> int:
        """The number of positions; 0 also for a map of an operand without axes."""
        return len(self.matrix[0]) if self.matrix else 0

    def column(self, position: int) -> Corner:
        """Returns the shift of the box when one position increases by 1."""
        return tuple([row[position] for row in self.matrix])

    def box(self, start: Sequence[Dim], stop: Sequence[Dim]) -> tuple[Corner, Corner] | None:
        """Returns the bounding box of the elements that a block of positions reads; None if the
        sign of a factor is unknown.

        The extreme of each position is chosen by the sign of its factor: mapping the corners of the
        block would be wrong in rows with factors of both signs.
        """
        starts: list[Dim] = []
        stops: list[Dim] = []
        for row, offset, size in zip(self.matrix, self.offset, self.shape, strict=True):
            low, high = offset, offset + size
            for factor, first, end in zip(row, start, stop, strict=True):
                sign = sign_of(factor)
                if sign is None:
                    return None
                near, far = (first, end - 1) if sign >= 0 else (end - 1, first)
                low, high = low + factor * near, high + factor * far
            starts.append(low)
            stops.append(high)
        return tuple(starts), tuple(stops)

    def after(self, other: Projection) -> Projection | None:
        """Returns the composition with a map that reads the operand of this one.

        `self` maps positions to boxes of t, and `other` positions of t to boxes of an operand.
        Returns None if a factor has an unknown sign.
        """
        rows, offsets, shapes = [], [], []
        for row, offset, size in zip(other.matrix, other.offset, other.shape, strict=True):
            signs = [sign_of(factor) for factor in row]
            if None in signs:
                return None
            for factor, sign, start, width in zip(row, signs, self.offset, self.shape, strict=True):
                far = factor * (width - 1)
                offset = offset + factor * start + (far if sign == -1 else 0)
                size = size + (far if sign != -1 else -far)
            columns = range(self.columns)
            rows.append(tuple([_dot(row, self.column(k)) for k in columns]))
            offsets.append(offset)
            shapes.append(size)
        return Projection(tuple(rows), tuple(offsets), tuple(shapes))

    @property
    def single(self) -> bool:
        """Whether it maps each point to one element."""
        return all(size == 1 for size in self.shape)

    def touching(
        self, start: Sequence[Dim], stop: Sequence[Dim], extents: Sequence[Dim]
    ) -> tuple[Corner, Corner] | None:
        """Returns the positions whose boxes may intersect a box of the operand.

        A superset for rows with several factors; None if a factor is symbolic.
        """
        lows: list[Dim] = [0] * len(extents)
        highs: list[Dim] = list(extents)
        for row, offset, size, first, end in zip(
            self.matrix, self.offset, self.shape, start, stop, strict=True
        ):
            for k, factor in enumerate(row):
                if factor == 0:
                    continue
                if not isinstance(factor, int):
                    return None
                others = [
                    (f, n) for j, (f, n) in enumerate(zip(row, extents, strict=True)) if j != k
                ]
                reach = _reach(others)
                if reach is None:
                    return None
                near, far = first - offset - (size - 1) - reach[1], end - 1 - offset - reach[0]
                if factor < 0:
                    near, far = -far, -near
                low = dims.ceildiv(near, abs(factor))
                high = dims.floordiv(far, abs(factor)) + 1
                lows[k] = dims.dim_max(lows[k], low)
                highs[k] = dims.dim_min(highs[k], high)
        return tuple(lows), tuple(highs)


def _dot(row: Sequence[Dim], column: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for a, b in zip(row, column, strict=True):
        total = total + a * b
    return total


def _reach(terms: Sequence[tuple[Dim, Dim]]) -> tuple[Dim, Dim] | None:
    """Returns the least and the greatest sum of factors times positions below their extents."""
    low: Dim = 0
    high: Dim = 0
    for factor, extent in terms:
        sign = sign_of(factor)
        if sign is None:
            return None
        far = factor * (extent - 1)
        low, high = (low + far, high) if sign < 0 else (low, high + far)
    return low, high


def identity(shape: Sequence[Dim]) -> Projection:
    """Returns the map from a result to itself."""
    ranks = range(len(shape))
    rows = tuple([tuple([int(i == j) for i in ranks]) for j in ranks])
    return Projection(rows, (0,) * len(shape), (1,) * len(shape))


# From accesses to projections.


def projection(
    entries: Sequence[AccessIndex], columns: Sequence[Sym], extents: Mapping[Sym, Dim]
) -> Projection:
    """Returns the projection from the index variables `columns` to the box that an access reads.

    The other index variables range over their extents. An axis with a whole, data-dependent or
    non-affine index is read completely.
    """
    rows = [_row(entry, columns, extents) for entry in entries]
    return Projection(
        tuple([row for row, _, _ in rows]),
        tuple([offset for _, offset, _ in rows]),
        tuple([size for _, _, size in rows]),
    )


def _row(
    entry: AccessIndex, columns: Sequence[Sym], extents: Mapping[Sym, Dim]
) -> tuple[tuple[Dim, ...], Dim, Dim]:
    whole: tuple[tuple[Dim, ...], Dim, Dim] = ((0,) * len(columns), 0, entry.size)
    if entry.whole or entry.data is not None:
        return whole
    index_vars = tuple(sorted(dims.syms(entry.dim) & extents.keys(), key=lambda s: s.order))
    form = affine(entry.dim, index_vars)
    if form is None:
        return whole
    factors, offset = form
    absorbed = [(f, extents[s]) for s, f in factors.items() if s not in columns]
    reach = _reach(absorbed)
    if reach is None:
        return whole
    row = tuple([factors.get(index_var, 0) for index_var in columns])
    return row, offset + reach[0], reach[1] - reach[0] + 1


@analysis
def of_result(spec: IndexSpec, statement: Statement, write: Write, read: Read) -> Projection | None:
    """Returns the projection from a result to a read of an operand.

    Returns None if the write is no signed permutation of the parallel index variables, or the
    statement writes only a part of the result.
    """
    from_result = inverse(write.entries, statement.parallel, spec.extents)
    if from_result is None:
        return None
    from_index_vars = projection(read.entries, statement.parallel, spec.extents)
    return from_result.after(from_index_vars)


def inverse(
    entries: Sequence[AccessIndex], index_vars: Sequence[Sym], extents: Mapping[Sym, Dim]
) -> Projection | None:
    """Returns the map from elements to index variables.

    Returns None unless each index expression is an index variable up to sign and offset, or the
    only position of its axis.
    """
    rank = len(entries)
    rows: dict[Sym, tuple[tuple[Dim, ...], Dim]] = {}
    for position, entry in enumerate(entries):
        if entry.whole or entry.data is not None or entry.loose:
            return None
        form = affine(entry.dim, tuple(index_vars))
        if form is None:
            return None
        moving = {s: f for s, f in form[0].items() if extents[s] != 1}
        if len(moving) > 1:
            return None
        for index_var, sign in moving.items():
            if sign not in (1, -1) or index_var in rows:
                return None
            row = tuple([sign if k == position else 0 for k in range(rank)])
            rows[index_var] = row, -sign * form[1]
    for index_var in index_vars:
        if index_var not in rows and extents[index_var] != 1:
            return None
    rows_in_order = [rows.get(index_var, ((0,) * rank, 0)) for index_var in index_vars]
    return Projection(
        tuple([row for row, _ in rows_in_order]),
        tuple([offset for _, offset in rows_in_order]),
        (1,) * len(index_vars),
    )
