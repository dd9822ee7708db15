"""Memory-mapped models: large initializers stay in the file, the rest is parsed without them."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from pathlib import Path

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
from structir.frontend.onnx.wire import (
    SIZED,
    VARINT,
    MessageField,
    fields_of,
    length_delimited,
    number_at,
)

OFFSET_KEY = "at"  # external_data key of the offset of a tensor's bytes
GRAPH, INITIALISER, TYPE, RAW, EXTERNAL = 7, 5, 2, 9, 13  # field numbers

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
        fields = list(fields_of(self.data, start, end))
        raw = [f for f in fields if f.number == RAW and f.kind == SIZED]
        types = [
            number_at(self.data, f.start)[0]
            for f in fields
            if f.number == TYPE and f.kind == VARINT
        ]
        large = len(raw) == 1 and raw[0].end - raw[0].start >= MIN_MAPPED_BYTES
        if not large or types[-1:] == [] or types[-1] in ALWAYS_PARSED:
            return self.data[start:end]
        payload = raw[0]
        self.payloads[str(payload.start)] = payload
        offset_entry = length_delimited(1, OFFSET_KEY.encode()) + length_delimited(
            2, str(payload.start).encode()
        )
        return (
            self.data[start : payload.at]
            + self.data[payload.end : end]
            + length_delimited(EXTERNAL, offset_entry)
        )

    def _rewrite(self, start: int, end: int, changes: Mapping[int, Change]) -> bytes:
        """Returns a serialized message with some of its fields rewritten."""
        parts = []
        for field in fields_of(self.data, start, end):
            change = changes.get(field.number) if field.kind == SIZED else None
            if change is None:
                parts.append(self.data[field.at : field.end])
            else:
                parts.append(length_delimited(field.number, change(field.start, field.end)))
        return b"".join(parts)
