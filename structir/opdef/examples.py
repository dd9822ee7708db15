"""Example arguments of ops: `f32[3, 7]` is a deterministic sample tensor."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Any

import attrs

from structir.ir.dtype import is_float, numpy_dtype
from structir.lazy import lazy_module

np = lazy_module("numpy")


@attrs.frozen
class Sample:
    """A deterministic tensor of a dtype and shape."""

    dtype: str
    shape: tuple[int, ...]
    limit: int = 5  # exclusive upper bound of integers
    fractions: bool = False  # floats in (0, 1), for functions with that domain

    def below(self, limit: int) -> Sample:
        """Returns this sample with integers below a limit, such as indices of an axis."""
        return Sample(self.dtype, self.shape, limit)

    def array(self) -> Any:
        """Creates the NumPy array."""
        rng = np.random.default_rng(zlib.crc32(repr(self).encode()))
        return np.asarray(self._numbers(rng)).astype(numpy_dtype(self.dtype))

    def _numbers(self, rng: Any) -> Any:
        if is_float(self.dtype) and self.fractions:
            return rng.integers(1, 15, self.shape) / 16 + 0.03125
        if is_float(self.dtype):
            return rng.integers(-12, 13, self.shape) / 8 + 0.0625
        return rng.integers(0, 2 if self.dtype == "bool" else self.limit, self.shape)


@attrs.frozen
class ExactValues:
    """A tensor with explicit values."""

    dtype: str
    rows: Any  # a number, or a nested tuple of numbers

    def array(self) -> Any:
        """Creates the NumPy array."""
        return np.array(self.rows, numpy_dtype(self.dtype))


@attrs.frozen
class Samples:
    """Samples of one dtype, indexed by shape."""

    dtype: str

    def __getitem__(self, shape: int | tuple[int, ...]) -> Sample:
        return Sample(self.dtype, shape if isinstance(shape, tuple) else (shape,))


f32, f16, i64, i32 = Samples("float32"), Samples("float16"), Samples("int64"), Samples("int32")


OPERAND = re.compile(r"\w+\[(.*?)\](?: @ (\w+))?")
EXTENTS = {"*": (2, 3), "~": (2, 3)}  # dims of axis packs; a single index variable has size 3
DTYPES_OF = {"T": "float32", "F": "float32", "I": "int64", "J": "int64", "B": "bool"}


def sample_operands(index_signature: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Returns operands for a signature without index expressions: signed, and in (0, 1)."""
    reads = OPERAND.findall(index_signature.split(" -> ")[0])
    try:
        samples = [
            tuple(
                [
                    Sample(_dtype(dtype), tuple(_shape(entries)), 5, fractions)
                    for entries, dtype in reads
                ]
            )
            for fractions in (False, True)
        ]
    except LookupError:
        return []
    return [(args, {}) for args in samples if args]


def _shape(entries: str) -> Iterator[int]:
    for entry in entries.split(", "):
        if entry[:1] in EXTENTS:
            yield from EXTENTS[entry[0]]
        elif entry.isdigit() or entry.isidentifier():
            yield int(entry) if entry.isdigit() else 3
        elif entry not in ("", "()"):
            raise LookupError(entry)


def _dtype(annotation: str) -> str:
    return DTYPES_OF.get((annotation or "T").rstrip("0123456789"), annotation)


def build_argument(value: Any) -> Any:
    """Returns an example argument with samples as arrays."""
    if isinstance(value, Sample | ExactValues):
        return value.array()
    return [build_argument(item) for item in value] if isinstance(value, list) else value
