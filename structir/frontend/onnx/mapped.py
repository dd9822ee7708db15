"""Memory-mapped models: large initializers stay in the file, the rest is parsed without them."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from onnx import TensorProto

from structir.frontend.onnx.tensors import (
    ALWAYS_PARSED,
    MIN_MAPPED_BYTES,
    Array,
    byte_count,
    dtype_name,
    view_of,
    wrong,
)

OFFSET_KEY = "at"  # external_data key of the offset of a tensor's bytes
GRAPH, INITIALISER, TYPE, RAW, EXTERNAL = 7, 5, 2, 9, 13  # field numbers
VARINT, WIDE, SIZED, NARROW = 0, 1, 2, 5  # protobuf wire types


class MessageField(NamedTuple):
    """A protobuf field: its number, wire type, offset, and the offsets of its value."""

    number: int
    kind: int
    at: int
    start: int
    end: int


Change = Callable[[int, int], bytes]


class MappedModel:
    """A memory-mapped model file, and the locations of the initializers left in it."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.payloads: dict[str, MessageField] = {}

    def rest(self) -> bytes:
        """Returns the serialized model without its large initializers; raises ValueError if
        malformed."""
        return self._rewrite(0, len(self.data), {GRAPH: self._graph})

    def array_of(self, tensor: TensorProto) -> Array | None:
        """Returns a view of a tensor whose elements are in the file; None for any other tensor."""
        payload = next(
            (self.payloads.get(e.value) for e in tensor.external_data if e.key == OFFSET_KEY), None
        )
        if payload is None:
            return None
        dtype_name(tensor.data_type)
        needed, stored = byte_count(tensor), payload.end - payload.start
        if needed != stored or any(d < 0 for d in tensor.dims):
            shape = list(tensor.dims)
            raise wrong(
                f"tensor {tensor.name!r} of shape {shape}: expected {needed} bytes, found {stored}"
            )
        return view_of(tensor, memoryview(self.data)[payload.start : payload.end])

    def _graph(self, start: int, end: int) -> bytes:
        return self._rewrite(start, end, {INITIALISER: self._tensor})

    def _tensor(self, start: int, end: int) -> bytes:
        """Returns a serialized tensor; a large one has a reference to its offset instead of its
        bytes."""
        fields = list(self._fields(start, end))
        raw = [f for f in fields if f.number == RAW and f.kind == SIZED]
        types = [self._number(f.start)[0] for f in fields if f.number == TYPE and f.kind == VARINT]
        large = len(raw) == 1 and raw[0].end - raw[0].start >= MIN_MAPPED_BYTES
        if not large or types[-1:] == [] or types[-1] in ALWAYS_PARSED:
            return self.data[start:end]
        payload = raw[0]
        self.payloads[str(payload.start)] = payload
        offset_entry = _length_delimited(1, OFFSET_KEY.encode()) + _length_delimited(
            2, str(payload.start).encode()
        )
        return (
            self.data[start : payload.at]
            + self.data[payload.end : end]
            + _length_delimited(EXTERNAL, offset_entry)
        )

    def _rewrite(self, start: int, end: int, changes: Mapping[int, Change]) -> bytes:
        """Returns a serialized message with some of its fields rewritten."""
        parts = []
        for field in self._fields(start, end):
            change = changes.get(field.number) if field.kind == SIZED else None
            if change is None:
                parts.append(self.data[field.at : field.end])
            else:
                parts.append(_length_delimited(field.number, change(field.start, field.end)))
        return b"".join(parts)

    def _fields(self, at: int, end: int) -> Iterator[MessageField]:
        while at < end:
            tag, start = self._number(at)
            kind, stop = tag & 7, start
            if kind == SIZED:
                length, start = self._number(start)
                stop = start + length
            elif kind == VARINT:
                stop = self._number(start)[1]
            elif kind in (WIDE, NARROW):
                stop = start + (8 if kind == WIDE else 4)
            else:
                raise ValueError(f"unknown wire type {kind}")
            if stop > end:
                raise ValueError("truncated field")
            yield MessageField(tag >> 3, kind, at, start, stop)
            at = stop

    def _number(self, at: int) -> tuple[int, int]:
        """Returns a varint and the offset after it."""
        value, shift = 0, 0
        while at < len(self.data) and shift < 70:
            byte = self.data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value, at
        raise ValueError("unterminated varint")


def _length_delimited(number: int, value: bytes) -> bytes:
    """Returns a serialized length-delimited field."""
    return _varint(number << 3 | SIZED) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    results = bytearray()
    while value > 127:
        results.append(value & 127 | 128)
        value >>= 7
    return bytes([*results, value])
