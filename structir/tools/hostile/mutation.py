"""Random changes of JSON values and of bytes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

Path = tuple[Any, ...]
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 7, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, -(1 << 70), 1.5, "", [],
    [[]], {}, {"dim": 0}, "floordiv", "select", "float32", "input", "\ud800", "\0", 10**30, "x",
)  # fmt: skip


def paths_in(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yields the paths of all parts of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from paths_in(item, (*path, key))


def at(value: Any, path: Path) -> Any:
    """Returns the part of a JSON value at a path."""
    for key in path:
        value = value[key]
    return value


def mutated(value: Any, random: Random, others: Sequence[Any] = ()) -> Any:
    """Returns a copy with one part removed, incremented, replaced, or exchanged for another.

    `others` are further values to insert.
    """
    original, value = value, copy.deepcopy(value)
    paths = list(paths_in(value))
    if not paths:
        return value
    *way, last = random.choice(paths)
    parent = at(value, tuple(way))
    how = random.randrange(5)
    if how == 0:
        parent.pop(last)
    elif how == 1 and type(parent[last]) is int:
        parent[last] += random.choice([-1, 1, 5])
    elif how == 2 and others:
        parent[last] = random.choice(others)
    elif how == 3:
        parent[last] = copy.deepcopy(at(original, random.choice(paths)))
    else:
        parent[last] = copy.deepcopy(random.choice(VALUES))
    return value


def changed_bytes(data: bytes, random: Random) -> bytes:
    """Returns the data truncated, or with some bytes changed, inserted or removed."""
    content = bytearray(data)
    if random.random() < 0.2:
        return data[: random.randrange(len(data) + 1)]
    for _ in range(random.randint(1, 8) if data else 0):
        start = random.randrange(len(content))
        if random.random() < 0.8:
            content[start] = random.randrange(256)
        else:
            end = start + random.randint(1, 4)
            content[start:end] = random.randbytes(random.randint(1, 4))
    return bytes(content)
