"""Region dependencies of ops on the rows of ragged tensors, from the known starts of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from structir.lazy import lazy_module
from structir.projections.boxes import Bounds, Region, region

np = lazy_module("numpy")
Array = Any
Range = tuple[int, int]
RESULT = -1  # in place of the index of an operand


@attrs.frozen
class RowBlocks:
    """The correspondence between the first axes of the operands and the result of an op.

    `values` maps each operand, or `RESULT`, whose first axis has the values of all rows to the
    operand with the starts of its rows. All other operands have one slice per row. `positions` maps
    operands with positions to the operand of values that they index, and `row_numbers` are operands
    with row indices. Further axes correspond to those of the result. With `whole_rows`, an op can
    only compute complete rows.
    """

    values: Mapping[int, int]
    positions: Mapping[int, int]
    row_numbers: tuple[int, ...] = ()
    whole_rows: bool = False


@attrs.frozen(eq=False)
class RowDependency:
    """The region dependencies of an op on rows with known starts, and the shapes of its tensors."""

    blocks: RowBlocks
    starts: Mapping[int, Array]  # by operand
    operands: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]

    @property
    def is_valid(self) -> bool:
        """Whether the starts partition the values of all operands into rows in order."""
        return all([self._divides(tensor) for tensor in self.blocks.values])

    def _divides(self, tensor: int) -> bool:
        bounds = self.offsets(tensor)
        return bool(bounds[0] == 0 and (np.diff(bounds) >= 0).all())

    def offsets(self, tensor: int) -> Array:
        """Returns the start of each row of a tensor of values, followed by the number of values."""
        return np.append(self.starts[self.blocks.values[tensor]], self.shape(tensor)[0])

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Returns the shape of an operand or of the result."""
        return self.result if tensor == RESULT else self.operands[tensor]

    def rows(self, tensor: int, positions: Range) -> Range:
        """Returns the rows that a range of the first axis of a tensor has elements of."""
        if tensor not in self.blocks.values:
            return positions
        bounds = self.offsets(tensor)
        first = int(np.searchsorted(bounds[1:], positions[0], "right"))
        last = int(np.searchsorted(bounds[:-1], positions[1], "left"))
        return first, max(first, last)

    def range(self, tensor: int, rows: Range) -> Range:
        """Returns the range of the first axis of a tensor that has rows."""
        if tensor not in self.blocks.values:
            return rows
        bounds = self.offsets(tensor)
        start, stop = [bounds[min(row, len(bounds) - 1)] for row in rows]
        return int(start), int(stop)

    def computed(self, bounds: Bounds) -> Bounds:
        """Returns the block that a call computes where a block is required."""
        if not self.blocks.whole_rows:
            return bounds
        start, stop = self.range(RESULT, self.rows(RESULT, (bounds[0][0], bounds[1][0])))
        return (start, *bounds[0][1:]), (stop, *bounds[1][1:])

    def operand_blocks(self, bounds: Bounds) -> list[Bounds]:
        """Returns the block of each operand that a block of the result requires."""
        computed = self.computed(bounds)
        along = computed[0][0], computed[1][0]
        rows = self.rows(RESULT, along)
        blocks = []
        for tensor, shape in enumerate(self.operands):
            start, stop = self._along(tensor, along, rows)
            inner = [side[1:] if len(shape) > 1 else () for side in computed]
            blocks.append(((start, *inner[0]), (stop, *inner[1])))
        return blocks

    def _along(self, tensor: int, along: Range, rows: Range) -> Range:
        values = self.blocks.values
        same = tensor in values and values[tensor] == values.get(RESULT)
        return along if same else self.range(tensor, rows)

    def required_regions(self, region: Region, result: int = 0) -> tuple[Region, ...]:
        """Returns the region of each operand that a region of the result requires."""
        bounds = region.bounds
        if bounds is None:
            return tuple([Region() for _ in self.operands])
        return tuple([_region(block) for block in self.operand_blocks(bounds)])

    def affected_regions(self, region: Region, operand: int) -> tuple[Region, ...]:
        """Returns the region of the result that depends on a region of an operand."""
        bounds = region.bounds
        if bounds is None:
            return (Region(),)
        along = self.range(RESULT, self.rows(operand, (bounds[0][0], bounds[1][0])))
        one_axis = len(self.operands[operand]) == 1  # its elements belong to whole rows
        inner = ((0,) * (len(self.result) - 1), self.result[1:])
        low, high = inner if one_axis else (bounds[0][1:], bounds[1][1:])
        return (_region(((along[0], *low), (along[1], *high))),)

    def points(self, region: Region) -> int:
        """Returns the number of iteration points of a region of the result."""
        operands = [part.volume for part in self.required_regions(region)]
        return max([region.volume, *operands])


def _region(bounds: Bounds) -> Region:
    return region(*bounds)


def row_dependency(
    blocks: RowBlocks | None,
    arrays: Sequence[Array | None],
    operands: Sequence[tuple[int, ...]],
    result: tuple[int, ...],
) -> RowDependency | None:
    """Returns the dependence of a call; `arrays` has the operands that are known.

    Returns None for unknown starts, and for rows that are not in order and without gaps.
    """
    if blocks is None:
        return None
    starts = {k: arrays[k] for k in blocks.values.values()}
    if any([each is None or each.ndim != 1 for each in starts.values()]):
        return None
    dependency = RowDependency(blocks, starts, tuple(operands), result)
    return dependency if dependency.is_valid and _has_limits(dependency, arrays) else None


def _has_limits(dependency: RowDependency, arrays: Sequence[Array | None]) -> bool:
    """Whether each operand of positions has the starts or the limits of the rows."""
    for operand, tensor in dependency.blocks.positions.items():
        array = arrays[operand]
        start = dependency.starts[dependency.blocks.values[tensor]]
        limits = np.append(start[1:], dependency.shape(tensor)[0])
        if array is None or not (np.array_equal(array, start) or np.array_equal(array, limits)):
            return False
    return True
