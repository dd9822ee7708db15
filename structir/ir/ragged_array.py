"""Ragged arrays: the run-time values of tensors with a ragged axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from structir.errors import ShapeMismatchError
from structir.lazy import lazy_module

np = lazy_module("numpy")
Array = Any


def _error(message: str, hint: str, code: str) -> ShapeMismatchError:
    return ShapeMismatchError(f"{message}\nhelp: {hint}", code=code)


class RaggedArray:
    """An array with one ragged axis: rows of different lengths.

    `values` has the rows one after another, and row k is `values[offsets[k]:offsets[k + 1]]`.
    `leading` are the sizes of the axes before the ragged one; by default there is one axis.
    """

    __slots__ = ("_offsets", "leading", "parts")

    def __init__(self, values: Any, offsets: Any, leading: Sequence[int] | None = None) -> None:
        values = np.asarray(values)
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        offsets = np.asarray(offsets, "int64")
        self._offsets: Array | None = offsets
        rows = len(offsets) - 1 if offsets.ndim == 1 else -1
        self.leading: tuple[int, ...] = (rows,) if leading is None else tuple(leading)
        # what calls pass on: the values, and where each row starts and ends
        self.parts: tuple[Array, Array, Array] = values, offsets, offsets
        self._check(rows)
        self._set_rows(offsets)

    def _set_rows(self, offsets: Array) -> None:
        starts, limits = offsets[:-1], offsets[1:]
        if len(self.leading) != 1:
            starts, limits = starts.reshape(self.leading), limits.reshape(self.leading)
        self.parts = self.parts[0], starts, limits

    @property
    def values(self) -> Array:
        """The values of all rows."""
        return self.parts[0]

    @property
    def offsets(self) -> Array:
        """The index of the first value of each row, and the number of values."""
        if self._offsets is None:
            limits = self.parts[2].reshape(-1)
            self._offsets = np.zeros(limits.size + 1, "int64")
            self._offsets[1:] = limits
        return self._offsets

    def _check(self, rows: int) -> None:
        """Raises ShapeMismatchError unless the offsets divide the values into rows."""
        hint = "start the offsets at 0 and end them at the number of values: `[0, 2, 5]`"
        if rows < 0:
            shape_text = f"an array of shape {self.offsets.shape}"
            raise _error(
                f"offsets: expected a vector of at least 1 offset, found {shape_text}",
                hint,
                "E0731",
            )
        if self.values.ndim == 0:
            raise _error("values: expected at least 1 axis, found a scalar", hint, "E0731")
        ends = int(self.offsets[0]), int(self.offsets[-1])
        if ends != (0, len(self.values)):
            expected = f"offsets from 0 to {len(self.values)}"
            raise _error(
                f"{expected[:7]}: expected {expected}, found {ends[0]} to {ends[1]}", hint, "E0731"
            )
        if np.less(self.offsets[1:], self.offsets[:-1]).any():
            raise _error("offsets: expected increasing offsets, found a decrease", hint, "E0731")
        if prod(self.leading) != rows:
            message = f"leading: expected sizes of {rows} rows, found {self.leading}"
            raise _error(message, f"pass `leading=({rows},)`", "E0731")

    @classmethod
    def from_rows(
        cls, rows: Any, dtype: Any = None, leading: int = 1, inner: int = 0
    ) -> RaggedArray:
        """Builds a ragged array from arrays or nested lists; `leading` axes are before the ragged
        one, and an empty row has `inner` more axes, of size 0 unless another row has elements.

        Without elements, its dtype is that of the rows that are arrays, or float32.
        """
        sizes, flat = _flat_rows(rows, leading, ())
        arrays = [_as_row(row, dtype, k) for k, row in enumerate(flat)]
        filled = [array for array in arrays if array.size or array.ndim > 1]
        first = filled[0] if filled else np.zeros((0,) * (inner + 1), dtype or _dtype_of(flat))
        for k, array in enumerate(arrays):
            if array.size == 0 and array.ndim <= 1:
                arrays[k] = array = np.zeros((0, *first.shape[1:]), first.dtype)
            if array.shape[1:] != first.shape[1:]:
                expected = f"({', '.join(['length', *map(str, first.shape[1:])])})"
                message = f"row {k}: expected the shape {expected}, found {array.shape}"
                hint = "give all rows equal sizes, except for their lengths"
                raise _error(message, hint, "E0730")
        offsets = np.zeros(len(arrays) + 1, "int64")
        np.cumsum([len(array) for array in arrays], out=offsets[1:])
        values = np.concatenate([first[:0], *arrays])
        return cls(values if dtype is None else values.astype(dtype, copy=False), offsets, sizes)

    @classmethod
    def from_padded(cls, padded: Any, lengths: Any) -> RaggedArray:
        """Builds a ragged array from an array and the length of each row in it."""
        padded, lengths = np.asarray(padded), np.asarray(lengths, "int64")
        count = lengths.ndim
        if padded.ndim <= count or padded.shape[:count] != lengths.shape:
            message = f"lengths: expected one for each row of {padded.shape}, found {lengths.shape}"
            raise _error(message, "pass `lengths` with the axes before the padded axis", "E0731")
        longest = padded.shape[count]
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= longest:
            range_text = f"{lengths.min()} to {lengths.max()}"
            message = f"lengths: expected lengths from 0 to {longest}, found {range_text}"
            raise _error(message, f"pass `np.clip(lengths, 0, {longest})`", "E0731")
        kept = np.arange(longest) < lengths[..., None]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return cls(padded[kept], offsets, lengths.shape)

    @classmethod
    def from_limits(cls, values: Array, starts: Array, limits: Array) -> RaggedArray:
        """Builds a ragged array from the start and the end of each row."""
        starts = np.asarray(starts, "int64")
        offsets = np.empty(starts.size + 1, "int64")
        offsets[0] = 0
        offsets[1:] = limits if limits.ndim == 1 else limits.reshape(-1)
        if offsets[:-1].tobytes() != starts.tobytes():
            raise _error(
                "row starts: expected the limit of the row before, found a gap",
                "pass rows in order, without gaps between them",
                "E0731",
            )
        if offsets[-1] != len(values) or np.count_nonzero(offsets[1:] < offsets[:-1]):
            return cls(values, offsets, starts.shape)  # reports the error
        array = cls.__new__(cls)  # the results of calls have no more to be checked
        array._offsets, array.leading = offsets, starts.shape
        array.parts = values, offsets, offsets
        array._set_rows(offsets)
        return array

    @classmethod
    def from_ordered(cls, values: Array, starts: Array, limits: Array) -> RaggedArray:
        """Builds a ragged array from the start and the end of each row, where the first row starts
        at 0, and each other row at the end of the row before."""
        if not limits.size or limits[-1] != len(values):
            return cls.from_limits(values, starts, limits)
        array = cls.__new__(cls)
        array._offsets, array.leading, array.parts = None, starts.shape, (values, starts, limits)
        return array

    @property
    def row_starts(self) -> Array:
        """The index of the first value of each row."""
        return self.parts[1]

    @property
    def row_limits(self) -> Array:
        """The index after the last value of each row."""
        return self.parts[2]

    @property
    def row_lengths(self) -> Array:
        """The length of each row."""
        return np.diff(self.offsets).reshape(self.leading)

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.leading) + int(self.values.ndim)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes of the axes; None for the ragged one."""
        return (*self.leading, None, *self.values.shape[1:])

    def with_values(self, values: Array) -> RaggedArray:
        """Returns other values in the same rows."""
        array = RaggedArray.__new__(RaggedArray)
        array.leading, array._offsets = self.leading, self._offsets
        _, starts, limits = self.parts
        array.parts = values, starts, limits
        return array

    def rows(self) -> list[Array]:
        """Returns the rows in order as views of the values."""
        return np.split(self.values, self.offsets[1:-1]) if len(self.offsets) > 1 else []

    def to_list(self) -> list[Any]:
        """Returns nested lists of numbers."""
        nested: list[Any] = [row.tolist() for row in self.rows()]
        for size in self.leading[:0:-1]:
            nested = [nested[k : k + size] for k in range(0, len(nested), size)] if size else []
        return nested if all(self.leading[1:]) else np.zeros(self.leading).tolist()

    def to_padded(self, length: int | None = None, fill: Any = 0) -> Array:
        """Returns an array with all rows of one length: the longest, or `length`."""
        lengths = self.row_lengths
        longest = int(lengths.max(initial=0))
        length = longest if length is None else length
        if length < longest:
            message = f"to_padded: expected a length of at least {longest}, found {length}"
            raise _error(message, f"pass `length={longest}`", "E0735")
        shape = (*self.leading, length, *self.values.shape[1:])
        padded = np.full(shape, fill, self.dtype)
        padded[np.arange(length) < lengths[..., None]] = self.values
        return padded

    def __reduce__(self) -> Any:
        return RaggedArray, (self.values, self.offsets, self.leading)

    def __len__(self) -> int:
        return self.leading[0]

    def __getitem__(self, index: int | tuple[int, ...]) -> Array:
        """Returns one row as a view."""
        row = np.ravel_multi_index(index if isinstance(index, tuple) else (index,), self.leading)
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Any:
        return iter(self.to_list() if len(self.leading) > 1 else self.rows())

    def __repr__(self) -> str:
        sizes = ", ".join(["*" if size is None else str(size) for size in self.shape])
        return f"RaggedArray(({sizes}), {self.dtype}, {len(self.values)} values)"


def _as_row(row: Any, dtype: Any, number: int) -> Array:
    """Converts one row to an array; raises ShapeMismatchError for unequal sizes inside of it."""
    try:
        array = np.asarray(row, dtype)
    except (ValueError, TypeError) as error:
        message = f"row {number}: expected an array of numbers, found lists of unequal lengths"
        raise _error(message, "only one axis can be ragged: pad the others", "E0730") from error
    if array.ndim == 0 or array.dtype.hasobject:
        kind = "a number" if array.ndim == 0 else "objects"
        message = f"row {number}: expected a list or an array of numbers, found {kind}"
        raise _error(message, "pass a list of rows: `[[1.0, 2.0], [3.0]]`", "E0730")
    return array


def _dtype_of(rows: Sequence[Any]) -> Any:
    """Returns the common dtype of the rows that are arrays; float32 if none is."""
    dtypes = [row.dtype for row in rows if isinstance(row, np.ndarray)]
    return np.result_type(*dtypes) if dtypes else "float32"


def _flat_rows(rows: Any, depth: int, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], list[Any]]:
    """Returns the sizes of the axes before the ragged one, and the rows in order."""
    if not isinstance(rows, Iterable) or getattr(rows, "ndim", 1) == 0:
        message = f"expected a list of rows at depth {len(sizes)}, found {type(rows).__name__}"
        raise _error(message, "pass a list of rows: `[[1.0, 2.0], [3.0]]`", "E0730")
    rows = list(rows)
    if depth == 1:
        return (*sizes, len(rows)), rows
    parts = [_flat_rows(part, depth - 1, (*sizes, len(rows))) for part in rows]
    if len({part[0] for part in parts}) > 1:
        row_lengths = sorted({part[0][-1] for part in parts})
        message = f"expected lists of one length at depth {len(sizes) + 1}, found {row_lengths}"
        raise _error(message, "only one axis can be ragged: pad the others", "E0730")
    shape = parts[0][0] if parts else (*sizes, 0, *[0] * (depth - 1))
    return shape, [row for _, part in parts for row in part]
