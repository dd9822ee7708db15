"""Tensors of strings, as external functions."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np

from structir.interpret.extern import register_extern

Array = np.ndarray[Any, Any]


def equal(x: Array, y: Array) -> Array:
    """Compares strings elementwise."""
    return np.asarray(x == y, bool)


def joined(x: Array, y: Array) -> Array:
    """Concatenates strings elementwise."""
    return np.asarray(x.astype(object) + y.astype(object), object)


def split(x: Array, delimiter: str, max_splits: int) -> tuple[Array, Array]:
    """Splits each string along a new axis, padded with empty strings; returns parts and counts."""
    parts = [
        str(t).split(delimiter or None, -1 if max_splits < 0 else max_splits) for t in x.ravel()
    ]
    width = max([len(p) for p in parts], default=0)
    table = np.full((len(parts), width), "", object)
    for row, items in zip(table, parts, strict=True):
        row[: len(items)] = items
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    return table.reshape(*x.shape, width), counts


def matches(x: Array, pattern: str) -> Array:
    """Whether each string as a whole matches a pattern."""
    compiled = re.compile(pattern)
    matched = [compiled.fullmatch(str(t)) is not None for t in x.ravel()]
    return np.array(matched, bool).reshape(x.shape)


def normalised(x: Array, case: str, sensitive: int, stopwords: str) -> Array:
    """Removes stop words and changes the case; returns one empty string if none remain."""
    stops = set(stopwords.split("\0")) if stopwords else set()
    if not sensitive:
        stops = {w.lower() for w in stops}
    rows = [_without_stopwords(row, case, sensitive, stops) for row in np.atleast_2d(x)]
    width = max([1, *[len(row) for row in rows]])
    table = np.array([row + [""] * (width - len(row)) for row in rows], object)
    return table if x.ndim == 2 else table[0]


def _without_stopwords(row: Array, case: str, sensitive: int, stops: set[str]) -> list[str]:
    words = [str(t) for t in row if (str(t) if sensitive else str(t).lower()) not in stops]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    return [change(t) for t in words]


def labelled(x: Array, keys: Array | str, values: Array | str, default: Array | str) -> Array:
    """Looks up each element in a table, with a default; a table of strings is one joined string."""
    key_list = keys.split("\0") if isinstance(keys, str) else keys.tolist()
    value_list: Any = values.split("\0") if isinstance(values, str) else values.ravel().tolist()
    table, fallback = dict(zip(key_list, value_list, strict=False)), default
    if isinstance(fallback, np.ndarray):
        fallback = fallback.ravel()[0].item()
    dtype = object if isinstance(values, str) else values.dtype
    items = [str(t) for t in x.ravel()] if isinstance(keys, str) else x.ravel().tolist()
    return np.array([table.get(item, fallback) for item in items], dtype).reshape(x.shape)


def ngrams(
    x: Array, pool: Array | str, counts: Array, indices: Array, lengths: tuple[int, ...], skips: int
) -> Array:
    """Counts the n-grams of a pool in each row, with up to `skips` elements between two neighbors;
    the count of the k-th n-gram is at index `indices[k]`."""
    items = pool.split("\0") if isinstance(pool, str) else pool.tolist()
    table = _runs(items, counts.tolist(), lengths)
    rows = np.atleast_2d(x)
    totals = np.zeros((len(rows), int(indices.max()) + 1), np.float32)
    for row, counted in zip(rows, totals, strict=True):
        elements = [str(t) for t in row] if isinstance(pool, str) else row.tolist()
        for length in range(lengths[0], min(lengths[1], len(counts), len(elements)) + 1):
            for step in range(1, min(skips if length > 1 else 0, len(elements)) + 2):
                for start in range(len(elements) - step * (length - 1)):
                    run = tuple(elements[start : start + step * (length - 1) + 1 : step])
                    if run in table:
                        counted[indices[table[run]]] += 1
    return totals if x.ndim == 2 else totals[0]


def _runs(items: list[Any], counts: list[int], lengths: tuple[int, ...]) -> dict[Any, int]:
    """Numbers the n-grams of a pool, which contains those of each length contiguously."""
    numbers: dict[Any, int] = {}
    number = 0
    for length, (start, end) in enumerate(pairwise([*counts, len(items)]), 1):
        for position in range(start, end - length + 1, length):
            if lengths[0] <= length <= lengths[1]:
                numbers[tuple(items[position : position + length])] = number
            number += 1
    return numbers


for _function in (equal, joined, split, matches, normalised, labelled, ngrams):
    register_extern(f"text.{_function.__name__}", _function)
