"""Evaluates the reads of a statement over its loop space, as NumPy views and gathers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.polynomial import Opaque
from structir.lazy import lazy_module
from structir.projections.scalar_expr import ScalarExpr
from structir.projections.spec import AccessIndex, Read, affine
from structir.projections.values import EvaluationPoint, evaluate
from structir.system.locks import cached_property

np = lazy_module("numpy")
strides = lazy_module("numpy.lib.stride_tricks")

Array = Any
Mask = Any  # a boolean array, or None if every point exists


@attrs.frozen(eq=False)
class LoopSpace:
    """A loop space at concrete sizes: ordered index variables, one array axis each."""

    index_vars: tuple[Sym, ...]
    extents: Mapping[Sym, int]
    sizes: Mapping[Sym, int]
    # How elements are accessed, which depends on no data; spaces of equal sizes share it. By the
    # id of the read or of its indices, which is the first field of the value, and the shape.
    accesses: dict[tuple[int, tuple[int, ...]], tuple[Any, Any]] = attrs.field(factory=dict)

    @cached_property
    def grid(self) -> Mapping[Sym, Array]:
        """The values of each index variable, as arrays that broadcast to the space."""
        rank = len(self.index_vars)
        return {
            index_var: np.arange(self.extents[index_var]).reshape(
                [-1 if k == axis else 1 for k in range(rank)]
            )
            for axis, index_var in enumerate(self.index_vars)
        }

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The extent of each index variable."""
        return tuple([self.extents[index_var] for index_var in self.index_vars])

    def only(self, index_vars: tuple[Sym, ...]) -> LoopSpace:
        """Returns the space of a subset of the index variables."""
        return LoopSpace(index_vars, self.extents, self.sizes)

    def unevaluated(self) -> LoopSpace:
        """Returns the space without the arrays of its index variables."""
        return LoopSpace(self.index_vars, self.extents, self.sizes, self.accesses)

    def size(self, dim: Dim) -> int:
        """Returns the value of a dim over the sizes of the program."""
        return dim if isinstance(dim, int) else dims.evaluate(dim, dict(self.sizes))

    def index(self, dim: Dim) -> Array:
        """Returns the value of an index expression at every point, as an int64 array."""
        index_var = dims.as_sym(dim)
        if index_var is not None and index_var in self.extents:
            return self.grid[index_var]
        with np.errstate(all="ignore"):
            return np.asarray(_evaluate_dim(dim, {**self.sizes, **self.grid}), "int64")


def _evaluate_dim(dim: Dim, values: Mapping[Sym, Array]) -> Array:
    if isinstance(dim, int):
        return dim
    total: Array = dim.constant
    for monomial, coefficient in dim.terms.items():
        term: Array = coefficient
        for atom in monomial:
            term = term * (values[atom] if isinstance(atom, Sym) else _atom_value(atom, values))
        total = total + term
    return total


def _atom_value(atom: Opaque, values: Mapping[Sym, Array]) -> Array:
    args = [_evaluate_dim(argument, values) for argument in atom.args]
    return ATOM_FUNCTIONS[atom.fn](*args)


ATOM_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "floordiv": lambda a, b: np.floor_divide(a, b),
    "floormod": lambda a, b: np.mod(a, b),
    "min": lambda *args: reduce(np.minimum, args),
    "max": lambda *args: reduce(np.maximum, args),
    "select": lambda condition, a, b: np.where(condition, a, b),
    "lt": lambda a, b: np.less(a, b),
    "le": lambda a, b: np.less_equal(a, b),
    "gt": lambda a, b: np.greater(a, b),
    "ge": lambda a, b: np.greater_equal(a, b),
    "eq": lambda a, b: np.equal(a, b),
    "ne": lambda a, b: np.not_equal(a, b),
}


@attrs.frozen(eq=False)
class LoadedView:
    """The elements that a read loads, and the mask of the points at which they exist.

    There is one axis per index variable of the space, of size 1 where the elements do not vary.
    """

    values: Array
    exists: Mask = None


def intersect_masks(a: Mask, b: Mask) -> Mask:
    """Returns the conjunction of two masks."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


@attrs.frozen
class AffineIndex:
    """An affine index along one axis: its first value, and its stride per index variable."""

    start: int
    steps: tuple[int, ...]

    def reach(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Returns the least and the greatest value over a loop space of this shape."""
        moves = [step * (n - 1) for step, n in zip(self.steps, shape, strict=True)]
        return self.start + sum(min(0, m) for m in moves), self.start + sum(
            max(0, m) for m in moves
        )


def affine_index(entry: AccessIndex, size: int, space: LoopSpace) -> AffineIndex | None:
    """Returns an index as an AffineIndex; None if it is read from data or not affine."""
    if isinstance(entry.index, ScalarExpr):
        return None
    index = 0 if entry.loose and size == 1 else entry.index
    if isinstance(index, int):
        return AffineIndex(index, (0,) * len(space.index_vars))
    linear = affine(index, space.index_vars)
    if linear is None:
        return None
    coefficients, start = linear
    steps = tuple(space.size(coefficients.get(index_var, 0)) for index_var in space.index_vars)
    return AffineIndex(space.size(start), steps)


Loader = Callable[[Array, LoopSpace, Mapping[str, Array]], LoadedView]


def load(
    array: Array, read: Read, space: LoopSpace, read_values: Mapping[str, Array]
) -> LoadedView:
    """Returns the elements that a read loads.

    `read_values` holds the values of the reads that its index expressions use.
    """
    key = id(read), array.shape
    entry = space.accesses.get(key)
    if entry is None:
        entry = space.accesses[key] = read, _loader(read, array.shape, space)
    loader: Loader = entry[1]
    return loader(array, space, read_values)


def _loader(read: Read, shape: tuple[int, ...], space: LoopSpace) -> Loader:
    """Returns the function that loads a read from arrays of one shape."""
    plain, entries = read.plain, read.entries
    if plain is not None and _covers(plain, shape, space):
        return _transposed(plain, shape, space)
    indices = [affine_index(e, n, space) for e, n in zip(entries, shape, strict=True)]
    if 0 in space.shape:
        moving = [k for i in indices if i is not None for k, step in enumerate(i.steps) if step]
        empty = space.shape if None in indices else _moving_shape(space, set(moving))
        return lambda array, space, values: LoadedView(np.empty(empty, array.dtype))
    if None not in indices:
        return _strided(tuple([i for i in indices if i is not None]), shape, space)
    return lambda array, space, values: _gather(array, entries, space, values)


def _covers(plain: tuple[Sym | None, ...], shape: tuple[int, ...], space: LoopSpace) -> bool:
    """Whether the extents of the index variables equal the shape of an array."""
    pairs = zip(plain, shape, strict=True)
    return all(space.extents[s] == n for s, n in pairs if s is not None)


def _transposed(plain: tuple[Sym | None, ...], shape: tuple[int, ...], space: LoopSpace) -> Loader:
    """Returns the loader of views with one axis per index variable of the space."""
    sizes = {s: n for s, n in zip(plain, shape, strict=True) if s is not None}
    order = [plain.index(s) for s in space.index_vars if s in sizes]
    order += [axis for axis, index_var in enumerate(plain) if index_var is None]
    full = tuple([sizes.get(index_var, 1) for index_var in space.index_vars])
    if order == list(range(len(order))):
        if full == shape:
            return lambda array, space, values: LoadedView(array)
        return lambda array, space, values: LoadedView(array.reshape(full))
    return lambda array, space, values: LoadedView(array.transpose(order).reshape(full))


def _moving_shape(space: LoopSpace, moving: set[int]) -> tuple[int, ...]:
    return tuple(n if k in moving else 1 for k, n in enumerate(space.shape))


def _strided(indices: tuple[AffineIndex, ...], shape: tuple[int, ...], space: LoopSpace) -> Loader:
    """Returns the loader of views with a stride per index variable; elements outside the array are
    absent."""
    reaches = [i.reach(space.shape) for i in indices]
    widths = [(max(0, -lo), max(0, hi - n + 1)) for (lo, hi), n in zip(reaches, shape, strict=True)]
    starts = [i.start + before for i, (before, _) in zip(indices, widths, strict=True)]
    view = _viewer(indices, starts, space)
    if all(width == (0, 0) for width in widths):
        return lambda array, space, values: LoadedView(view(array, False))

    def load_padded(array: Array, space: LoopSpace, values: Mapping[str, Array]) -> LoadedView:
        masks = [_in_bounds(i, n, space) for i, n in zip(indices, shape, strict=True)]
        if max(map(max, widths)) >= 2**62:
            raise MemoryError(f"padding of {max(map(max, widths))} elements")
        return LoadedView(view(np.pad(array, widths), False), reduce(intersect_masks, masks))

    return load_padded


Viewer = Callable[[Array, bool], Array]  # from an array, and whether the view is writeable


def _viewer(indices: tuple[AffineIndex, ...], starts: list[int], space: LoopSpace) -> Viewer:
    """Returns the function from an array to the view of the indexed elements."""
    rank = len(space.index_vars)
    used = [[k for k in range(rank) if i.steps[k]] for i in indices]
    shape = tuple([n if any(k in ks for ks in used) else 1 for k, n in enumerate(space.shape)])
    index_vars = [k for ks in used for k in ks]
    if all(len(ks) <= 1 for ks in used) and len(set(index_vars)) == len(index_vars):
        order = sorted(range(len(used)), key=lambda axis: used[axis] or [rank])
        steps = [i.steps[ks[0]] if ks else 1 for i, ks in zip(indices, used, strict=True)]
        counts = [shape[ks[0]] if ks else 1 for ks in used]
        slices = tuple(map(_slice, starts, steps, counts))
        return lambda array, writeable: array[slices].transpose(order).reshape(shape)
    positions = tuple([slice(start, None) for start in starts])

    def view(array: Array, writeable: bool) -> Array:
        strides_in_bytes = [
            sum(i.steps[k] * stride for i, stride in zip(indices, array.strides, strict=True))
            for k in range(rank)
        ]
        start_view = array[(*positions, ...)]
        # as_strided does not support float8 dtypes
        base = start_view.view(np.uint8) if start_view.itemsize == 1 else start_view
        whole = strides.as_strided(base, shape, strides_in_bytes, writeable=writeable)
        return whole.view(array.dtype)

    return view


def _slice(start: int, step: int, count: int) -> slice:
    """Returns the slice of `count` elements from a start on."""
    stop = start + step * (count - 1) + (1 if step > 0 else -1)
    return slice(start, None if stop < 0 else stop, step)


def _in_bounds(affine_form: AffineIndex, size: int, space: LoopSpace) -> Mask:
    lo, hi = affine_form.reach(space.shape)
    if lo >= 0 and hi < size:
        return None
    index = affine_form.start + sum(
        step * space.grid[index_var]
        for step, index_var in zip(affine_form.steps, space.index_vars, strict=True)
        if step
    )
    return (index >= 0) & (index < size)


def _gather(
    array: Array,
    entries: tuple[AccessIndex, ...],
    space: LoopSpace,
    read_values: Mapping[str, Array],
) -> LoadedView:
    index, exists = positions(entries, array.shape, space, read_values)
    if 0 in array.shape:
        shape = np.broadcast_shapes(*[np.shape(i) for i in index])
        return LoadedView(np.zeros(shape, array.dtype), np.zeros(shape, bool))
    clipped = [np.minimum(np.maximum(i, 0), n - 1) for i, n in zip(index, array.shape, strict=True)]
    absent = None if exists is None or exists.all() else exists
    return LoadedView(_full_rank(array[tuple(clipped)], space), absent)


def _full_rank(values: Array, space: LoopSpace) -> Array:
    return values.reshape((1,) * (len(space.index_vars) - values.ndim) + values.shape)


def positions(
    entries: tuple[AccessIndex, ...],
    shape: tuple[int, ...],
    space: LoopSpace,
    read_values: Mapping[str, Array],
) -> tuple[list[Array], Mask]:
    """Returns the index along each axis at every point, and the mask of points in bounds."""
    index: list[Array] = []
    exists: Mask = None
    for entry, size in zip(entries, shape, strict=True):
        position = _position(entry, size, space, read_values)
        index.append(position)
        if not (entry.inside and entry.data is None):
            exists = intersect_masks(exists, (position >= 0) & (position < size))
    return index, exists


def _position(
    entry: AccessIndex, size: int, space: LoopSpace, read_values: Mapping[str, Array]
) -> Array:
    if entry.loose and size == 1:
        return np.asarray(0)
    if isinstance(entry.index, ScalarExpr):
        value = evaluate(entry.index, EvaluationPoint(read_values, space.grid, space.sizes))
        return value.astype("int64", copy=False)
    return space.index(entry.index)


def writeable_view(
    array: Array, entries: tuple[AccessIndex, ...], space: LoopSpace
) -> Array | None:
    """Returns a writeable view of the indexed elements; None if the indices are not affine or leave
    the array.
    """
    key = id(entries), array.shape
    entry = space.accesses.get(key)
    if entry is None:
        entry = space.accesses[key] = entries, _writer(entries, array.shape, space)
    viewer: Viewer | None = entry[1]
    return None if viewer is None else viewer(array, True)


def _writer(
    entries: tuple[AccessIndex, ...], shape: tuple[int, ...], space: LoopSpace
) -> Viewer | None:
    """Returns the viewer of written elements; None if the indices are not affine, leave the array
    or write an element twice."""
    indices = [affine_index(e, n, space) for e, n in zip(entries, shape, strict=True)]
    affine_indices = tuple([i for i in indices if i is not None])
    if len(affine_indices) < len(indices) or 0 in space.shape:
        return None
    reaches = [i.reach(space.shape) for i in affine_indices]
    if any(lo < 0 or hi >= n for (lo, hi), n in zip(reaches, shape, strict=True)):
        return None
    moving = {k for i in affine_indices for k, step in enumerate(i.steps) if step}
    if _moving_shape(space, moving) != space.shape:
        return None
    return _viewer(affine_indices, [i.start for i in affine_indices], space)
