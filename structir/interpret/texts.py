"""Tensors of texts: functions from outside, as StructIR itself computes with numbers only."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from structir.interpret.extern import register_extern

Array = np.ndarray[Any, Any]


def equal(x: Array, y: Array) -> Array:
    """Whether texts are equal."""
    return np.asarray(x == y, bool)


def joined(x: Array, y: Array) -> Array:
    """Each text followed by the other one."""
    return np.asarray(x.astype(object) + y.astype(object), object)


def split(x: Array, delimiter: str, most: int) -> tuple[Array, Array]:
    """The parts of each text along a new axis, empty texts after the last; how many there are."""
    parts = [str(t).split(delimiter or None, -1 if most < 0 else most) for t in x.ravel()]
    width = max([len(p) for p in parts], default=0)
    made = np.full((len(parts), width), "", object)
    for row, items in zip(made, parts, strict=True):
        row[: len(items)] = items
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    return made.reshape(*x.shape, width), counts


def matches(x: Array, pattern: str) -> Array:
    """Whether the whole of each text matches a pattern."""
    compiled = re.compile(pattern)
    found = [compiled.fullmatch(str(t)) is not None for t in x.ravel()]
    return np.array(found, bool).reshape(x.shape)


def normalised(x: Array, case: str, sensitive: int, stopwords: str) -> Array:
    """The texts without stop words, in upper or lower case if asked; one empty text if none are
    left."""
    stops = set(stopwords.split("\0")) if stopwords else set()
    if not sensitive:
        stops = {w.lower() for w in stops}
    rows = [_kept(row, case, sensitive, stops) for row in np.atleast_2d(x)]
    width = max([1, *[len(row) for row in rows]])
    made = np.array([row + [""] * (width - len(row)) for row in rows], object)
    return made if x.ndim == 2 else made[0]


def _kept(row: Array, case: str, sensitive: int, stops: set[str]) -> list[str]:
    kept = [str(t) for t in row if (str(t) if sensitive else str(t).lower()) not in stops]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    return [change(t) for t in kept]


for _function in (equal, joined, split, matches, normalised):
    register_extern(f"text.{_function.__name__}", _function)
