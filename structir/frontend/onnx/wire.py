"""Protobuf's wire format: the fields of a serialized message, and how they are written."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import NamedTuple

VARINT, WIDE, SIZED, NARROW = 0, 1, 2, 5  # protobuf wire types
Buffer = bytes | mmap.mmap


class MessageField(NamedTuple):
    """A protobuf field: its number, wire type, offset, and the offsets of its value."""

    number: int
    kind: int
    at: int
    start: int
    end: int


def fields_of(data: Buffer, at: int, end: int) -> Iterator[MessageField]:
    """Yields the fields of a serialized message; raises ValueError if malformed."""
    while at < end:
        tag, start = number_at(data, at)
        kind, stop = tag & 7, start
        if kind == SIZED:
            length, start = number_at(data, start)
            stop = start + length
        elif kind == VARINT:
            stop = number_at(data, start)[1]
        elif kind in (WIDE, NARROW):
            stop = start + (8 if kind == WIDE else 4)
        else:
            raise ValueError(f"unknown wire type {kind}")
        if stop > end:
            raise ValueError("truncated field")
        yield MessageField(tag >> 3, kind, at, start, stop)
        at = stop


def number_at(data: Buffer, at: int) -> tuple[int, int]:
    """Returns a varint and the offset after it."""
    value, shift = 0, 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("unterminated varint")


def length_delimited(number: int, value: bytes) -> bytes:
    """Returns a serialized length-delimited field."""
    return _varint(number << 3 | SIZED) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    results = bytearray()
    while value > 127:
        results.append(value & 127 | 128)
        value >>= 7
    return bytes([*results, value])
