"""Arguments for examples of ops: `f32[3, 7]` stands for a small tensor, made when asked for."""

from __future__ import annotations

import zlib
from typing import Any

import attrs

from structir.ir.dtype import is_float, numpy_dtype
from structir.lazy import lazy_module

np = lazy_module("numpy")


@attrs.frozen
class Sample:
    """A tensor of a dtype and shape; its numbers follow from these."""

    dtype: str
    shape: tuple[int, ...]
    limit: int = 5  # integers stay below it

    def below(self, limit: int) -> Sample:
        """The same with integers below a limit: indices into an axis."""
        return Sample(self.dtype, self.shape, limit)

    def array(self) -> Any:
        """The tensor in NumPy."""
        rng = np.random.default_rng(zlib.crc32(repr(self).encode()))
        if is_float(self.dtype):
            return (rng.integers(-12, 13, self.shape) / 8 + 0.0625).astype(numpy_dtype(self.dtype))
        limit = 2 if self.dtype == "bool" else self.limit
        return rng.integers(0, limit, self.shape).astype(numpy_dtype(self.dtype))


@attrs.frozen
class Values:
    """A tensor of just these numbers."""

    dtype: str
    rows: tuple[Any, ...]

    def array(self) -> Any:
        """The tensor in NumPy."""
        return np.array(self.rows, numpy_dtype(self.dtype))


@attrs.frozen
class Samples:
    """The tensors of a dtype, by shape."""

    dtype: str

    def __getitem__(self, shape: int | tuple[int, ...]) -> Sample:
        return Sample(self.dtype, shape if isinstance(shape, tuple) else (shape,))


f32, f16, i64, i32 = Samples("float32"), Samples("float16"), Samples("int64"), Samples("int32")


def made(value: Any) -> Any:
    """An example's argument with its samples as arrays."""
    if isinstance(value, Sample | Values):
        return value.array()
    return [made(item) for item in value] if isinstance(value, list) else value
