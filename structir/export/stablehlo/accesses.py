"""Reads and writes of index specs: slices, broadcasts, gathers and scatters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from structir.export.stablehlo.block import INDEX, HloRegion
from structir.export.stablehlo.elements import HloElement, LoopGrid
from structir.export.stablehlo.scalars import ScalarLowering
from structir.export.stablehlo.tensors import HloTensor, integers
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.monoid import MONOIDS
from structir.projections.spec import AccessIndex, affine
from structir.projections.values import WEAK_INT

OPS = {
    "add": "add",
    "mul": "multiply",
    "max": "maximum",
    "min": "minimum",
    "or": "or",
    "and": "and",
}


@attrs.frozen(eq=False)
class HloView:
    """The elements that a read loads, and where they exist; None means everywhere."""

    element: HloElement
    exists: HloElement | None = None


@attrs.frozen
class AxisSlice:
    """A slice along one axis: the index variable of the result, or None for one element."""

    variable: Sym | None
    start: Dim
    step: int
    count: Dim

    @property
    def first(self) -> Dim:
        """The least index."""
        return self.start if self.step > 0 else self.start + self.step * (self.count - 1)

    @property
    def end(self) -> Dim:
        """The index after the greatest one."""
        return self.first + abs(self.step) * (self.count - 1) + 1

    @property
    def static(self) -> bool:
        """Whether start and count are constant."""
        return isinstance(self.start, int) and isinstance(self.count, int)


def equal(a: Dim, b: Dim) -> bool:
    """Whether two dims are proved equal."""
    return dims.equal(a, b) is True


def loaded(
    grid: LoopGrid,
    operand: HloTensor,
    entries: Sequence[AccessIndex],
    reads: Mapping[str, HloElement],
) -> HloView:
    """Returns the elements that a read loads; `reads` holds those that its indices use."""
    operand, entries = unpacked(grid, operand, entries)
    whole = _whole_axes(grid, entries)
    if whole is not None:
        return HloView(_element(grid, operand, whole))
    slices = _slices(grid, entries)
    if slices is not None:
        return HloView(_sliced(grid, operand, slices))
    return _gathered(grid, operand, entries, reads)


def unpacked(
    grid: LoopGrid, x: HloTensor, entries: Sequence[AccessIndex]
) -> tuple[HloTensor, tuple[AccessIndex, ...]]:
    """Returns a tensor and its indices as `unpacked_entries`."""
    axes = unpacked_entries(grid, entries)
    if len(axes) == len(entries):
        return x, axes
    return grid.reshape(x, [entry.size for entry in axes]), axes


def unpacked_entries(grid: LoopGrid, entries: Sequence[AccessIndex]) -> tuple[AccessIndex, ...]:
    """Returns indices with one axis for each index variable, where an index is the row-major linear
    index of several."""
    axes: list[AccessIndex] = []
    for entry in entries:
        variables = _row_major(grid, entry)
        sizes = [AccessIndex(dims.as_dim(v), grid.extents[v]) for v in variables or ()]
        axes += sizes or [entry]
    return tuple(axes)


def _row_major(grid: LoopGrid, entry: AccessIndex) -> list[Sym] | None:
    """Returns the index variables whose row-major linear index an index is, or None."""
    if entry.data is not None or entry.loose or not entry.inside:
        return None
    linear = affine(entry.index, grid.order)
    if linear is None or linear[1] != 0:
        return None
    single = [variable for variable in linear[0] if grid.extents[variable] == 1]
    strides = {variable: c for variable, c in linear[0].items() if variable not in single}
    variables: list[Sym] = []
    size: Dim = 1
    while strides:
        last = [variable for variable, stride in strides.items() if equal(stride, size)]
        if len(last) != 1:
            return None
        strides.pop(last[0])
        variables.insert(0, last[0])
        size = size * grid.extents[last[0]]
    outer = [
        v for v in single if grid.order.index(v) < min(map(grid.order.index, variables), default=0)
    ]
    variables = [*outer, *variables, *[v for v in single if v not in outer]]
    return variables if len(variables) > 1 and equal(size, entry.size) else None


def _whole_axes(grid: LoopGrid, entries: Sequence[AccessIndex]) -> list[Sym | None] | None:
    """Returns the index variable that runs over each axis, or None; an axis of size 1 has none."""
    variables: list[Sym | None] = []
    for entry in entries:
        if entry.data is not None or not entry.inside:
            return None
        variable = dims.as_sym(entry.index)  # type: ignore[arg-type]
        extent = None if variable is None else grid.extents.get(variable)
        if entry.size == 1 and (variable in variables or extent != 1):
            variables.append(None)
        elif extent is None or variable in variables:
            return None
        elif entry.loose or equal(extent, entry.size):
            variables.append(variable)
        else:
            return None
    return variables


def _element(grid: LoopGrid, x: HloTensor, variables: Sequence[Sym | None]) -> HloElement:
    """Returns a tensor with one axis per variable as an element.

    Axes of size 1 without a variable are dropped; those of unknown size are broadcast.
    """
    axes = tuple([variable for variable in variables if variable is not None])
    kept = [k for k, variable in enumerate(variables) if variable is not None]
    x = grid.reshape(x, [x.dims[k] for k in kept])
    shape = grid.shape(axes)
    if not all(map(equal, x.dims, shape)):
        x = grid.broadcast(x, range(x.rank), shape)
    return HloElement(attrs.evolve(x, dims=shape), axes, x.dtype)


def _slices(grid: LoopGrid, entries: Sequence[AccessIndex]) -> list[AxisSlice] | None:
    """Returns the slices that indices `a * i + b` with constant a are, or None."""
    slices: list[AxisSlice] = []
    for entry in entries:
        if entry.data is not None or entry.loose or not entry.inside:
            return None
        linear = affine(entry.index, grid.order)
        if linear is None or len(linear[0]) > 1:
            return None
        coefficients, start = linear
        ((variable, step),) = coefficients.items() or ((None, 1),)
        if not isinstance(step, int) or variable in [s.variable for s in slices if s.variable]:
            return None
        count = 1 if variable is None else grid.extents[variable]
        if count == 0 or (abs(step) > 1 and not isinstance(count, int)):
            return None
        part = AxisSlice(variable, start, step, count)
        if part.static and isinstance(entry.size, int) and not _fits(part, entry.size):
            return None  # inside of an axis without elements only because no point exists
        slices.append(part)
    return slices


def _fits(part: AxisSlice, size: int) -> bool:
    return bool(part.first >= 0 and part.end <= size)  # type: ignore[operator]


def _sliced(grid: LoopGrid, x: HloTensor, slices: Sequence[AxisSlice]) -> HloElement:
    starts, ends = [s.first for s in slices], [s.end for s in slices]
    steps = [abs(s.step) for s in slices]
    if all([s.static for s in slices]):
        x = grid.block.slice(x, starts, ends, steps)  # type: ignore[arg-type]
    else:
        bounds = [grid.sizes(starts), grid.sizes(ends), grid.sizes(steps)]
        shape = [s.count for s in slices]
        x = grid.block.emit("real_dynamic_slice", [x, *bounds], shape, x.dtype)
    reverse = [k for k, s in enumerate(slices) if s.step < 0]
    if reverse:
        x = grid.block.emit("reverse", [x], x.dims, x.dtype, {"dimensions": integers(reverse)})
    return _element(grid, x, [s.variable for s in slices])


# ---- indices that are computed


@attrs.frozen(eq=False)
class ComputedIndices:
    """Indices along some axes of a tensor, and where they are inside of it.

    `windows` are the other axes with their index variables: each is read as a whole.
    """

    axes: list[int]
    positions: list[HloElement]
    exists: HloElement | None
    windows: list[tuple[int, Sym]]

    def start(self, grid: LoopGrid, variables: Sequence[Sym]) -> HloTensor:
        """Returns the indices as the last axis of a tensor over index variables."""
        shape = grid.shape(variables)
        parts = [
            grid.reshape(grid.spread(position, variables, INDEX), (*shape, 1))
            for position in self.positions
        ]
        if len(parts) == 1:
            return parts[0]
        attributes = {"dimension": f"{len(shape)} : i64"}
        return grid.block.emit("concatenate", parts, (*shape, len(parts)), INDEX, attributes)


def indices(
    grid: LoopGrid,
    operand: HloTensor,
    entries: Sequence[AccessIndex],
    reads: Mapping[str, HloElement],
) -> ComputedIndices:
    """Returns the indices of a read or a write."""
    uses = [_variables(grid, entry, reads) for entry in entries]
    axes, positions, windows = [], [], []
    exists: HloElement | None = None
    for axis, entry in enumerate(entries):
        variable = _window_variable(grid, entry, operand.dims[axis])
        if variable is not None and not any(
            [variable in u for u in (*uses[:axis], *uses[axis + 1 :])]
        ):
            windows.append((axis, variable))
            continue
        position = _position(grid, entry, reads)
        axes.append(axis)
        positions.append(position)
        if not entry.inside or entry.data is not None:
            exists = grid.both(exists, _inside(grid, position, entry.size))
    return ComputedIndices(axes, positions, exists, windows)


def _window_variable(grid: LoopGrid, entry: AccessIndex, size: Dim) -> Sym | None:
    """Returns the index variable that runs over the whole of an axis of constant size, or None."""
    if entry.data is not None or not entry.inside or entry.loose or not isinstance(size, int):
        return None
    variable = dims.as_sym(entry.index)  # type: ignore[arg-type]
    extent = None if variable is None else grid.extents.get(variable)
    return variable if extent == size else None


def _variables(grid: LoopGrid, entry: AccessIndex, reads: Mapping[str, HloElement]) -> set[Sym]:
    if entry.data is None:
        return set(entry.index_vars)
    return set(ScalarLowering(grid, reads).value(entry.data).axes)


def _position(grid: LoopGrid, entry: AccessIndex, reads: Mapping[str, HloElement]) -> HloElement:
    if entry.data is None:
        return grid.index(entry.dim)
    return ScalarLowering(grid, reads).value(entry.data)


def _inside(grid: LoopGrid, position: HloElement, size: Dim) -> HloElement:
    zero = HloElement(None, (), WEAK_INT, 0)
    low = grid.compare("ge", position, zero)
    high = grid.compare("lt", position, grid.index(size))
    return grid.binary("and", low, high, "bool")


def _gathered(
    grid: LoopGrid,
    operand: HloTensor,
    entries: Sequence[AccessIndex],
    reads: Mapping[str, HloElement],
) -> HloView:
    computed = indices(grid, operand, entries, reads)
    windows = [variable for _, variable in computed.windows]
    outer = grid.union(computed.positions)
    axes = (*outer, *windows)
    shape = grid.shape(axes)
    if 0 in operand.dims:  # no element exists; a gather would need one
        element = HloElement(grid.filled(0, operand.dtype, shape), axes, operand.dtype)
        return HloView(element, computed.exists)
    slice_sizes = [1] * operand.rank
    for axis, _ in computed.windows:
        slice_sizes[axis] = int(operand.dims[axis])  # type: ignore[arg-type]
    attributes = {
        "dimension_numbers": _gather_numbers(computed, len(outer)),
        "slice_sizes": integers(slice_sizes),
        "indices_are_sorted": "false",
    }
    start = computed.start(grid, outer)
    result = grid.block.emit("gather", [operand, start], shape, operand.dtype, attributes)
    return HloView(HloElement(result, axes, operand.dtype), computed.exists)


def _gather_numbers(computed: ComputedIndices, outer: int) -> str:
    offsets = list(range(outer, outer + len(computed.windows)))
    return (
        f"#stablehlo.gather<offset_dims = {offsets}, collapsed_slice_dims = {computed.axes}, "
        f"start_index_map = {computed.axes}, index_vector_dim = {outer}>"
    )


# ---- writes


def store_whole(
    grid: LoopGrid, entries: Sequence[AccessIndex], value: HloElement, dtype: str
) -> HloTensor | None:
    """Returns the result of a write to every element of the result, or None."""
    variables = None if any([e.loose for e in entries]) else _whole_axes(grid, entries)
    if variables is None:
        return None
    present = [variable for variable in variables if variable is not None]
    if {*value.axes} - {*present}:
        return None
    result = grid.tensor(value, dtype)
    order = [axis for axis in present if axis in value.axes]
    result = grid.block.transpose(result, [value.axes.index(axis) for axis in order])
    positions = [variables.index(axis) for axis in order]
    return grid.broadcast(result, positions, [entry.size for entry in entries])


def store_slice(
    grid: LoopGrid, target: HloTensor, entries: Sequence[AccessIndex], value: HloElement
) -> HloTensor | None:
    """Returns a tensor with a contiguous block replaced, or None if a write is none."""
    slices = _slices(grid, entries)
    if slices is None or any([s.step != 1 and s.count != 1 for s in slices]):
        return None
    variables = [s.variable for s in slices if s.variable is not None]
    if {*value.axes} - {*variables}:
        return None
    update = grid.spread(value, grid.union([value]), target.dtype)
    order = [axis for axis in variables if axis in value.axes]
    update = grid.block.transpose(update, [value.axes.index(axis) for axis in order])
    positions = [[s.variable for s in slices].index(axis) for axis in order]
    update = grid.broadcast(update, positions, [s.count for s in slices])
    if update.dims == target.dims:
        return update
    starts = [grid.size(s.start) for s in slices]
    return grid.block.same("dynamic_update_slice", target, update, *starts)


def scattered(
    grid: LoopGrid,
    target: HloTensor,
    entries: Sequence[AccessIndex],
    view: HloView,
    reads: Mapping[str, HloElement],
    parallel: Sequence[Sym],
    monoid: str | None,
) -> HloTensor:
    """Returns a tensor with elements replaced, or combined with those of the target.

    Points that do not exist, and indices outside of the target, write nothing.
    """
    if target.rank == 0:
        wide = grid.reshape(target, (1,))
        zero = AccessIndex(0, 1)
        result = scattered(grid, wide, [zero], view, reads, parallel, monoid)
        return grid.reshape(result, ())
    if 0 in target.dims:
        return target
    computed = indices(grid, target, entries, reads)
    exists = grid.both(view.exists, computed.exists)
    windows = [variable for _, variable in computed.windows]
    if not computed.axes or (exists is not None and {*windows} & {*exists.axes}):
        every = [attrs.evolve(e, inside=False) for e in entries]
        computed = attrs.evolve(indices(grid, target, every, reads), exists=None)
        windows = []
    outer = tuple([axis for axis in parallel if axis not in windows])
    positions = list(computed.positions)
    if exists is not None:
        outside = HloElement(None, (), WEAK_INT, -1)
        positions[0] = grid.select(exists, positions[0], outside, INDEX)
    start = attrs.evolve(computed, positions=positions).start(grid, outer)
    variables = tuple([axis for axis in parallel if axis in {*outer, *windows}])
    updates = grid.spread(view.element, variables, target.dtype)
    updates = grid.block.transpose(updates, [variables.index(a) for a in (*outer, *windows)])
    shape = grid.shape((*outer, *windows))
    updates = grid.broadcast(updates, range(len(shape)), shape)
    attributes = {
        "scatter_dimension_numbers": _scatter_numbers(computed, len(outer)),
        "indices_are_sorted": "false",
        "unique_indices": "false",
    }
    region = _update(grid, target.dtype, monoid)
    operands = [target, start, updates]
    return grid.block.emit("scatter", operands, target.dims, target.dtype, attributes, [region])


def _update(grid: LoopGrid, dtype: str, monoid: str | None) -> HloRegion:
    if monoid is None:
        return grid.block.region([((), dtype)] * 2, lambda block, args: [args[1]])
    return grid.block.combining(OPS[MONOIDS[monoid].combine], dtype)


def _scatter_numbers(computed: ComputedIndices, outer: int) -> str:
    windows = list(range(outer, outer + len(computed.windows)))
    return (
        f"#stablehlo.scatter<update_window_dims = {windows}, "
        f"inserted_window_dims = {computed.axes}, "
        f"scatter_dims_to_operand_dims = {computed.axes}, index_vector_dim = {outer}>"
    )
