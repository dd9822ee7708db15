"""Divisions of indices that a loop does not change, computed before it.

LLVM keeps a division by a number that is not a constant in the loop, since it is in a branch, and
then computes it for each lane of a vector.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from structir.backend.emit.emitter import DIVISIONS, Emitter
from structir.ir.kernel import Apply, Assign, For, Literal, Local, Size, nodes_of
from structir.ir.node import parts


@contextmanager
def invariant_divisions(emitter: Emitter, loop: For) -> Iterator[None]:
    """Emits the divisions that are the same in all iterations; the emitter knows their values in
    this context. A division by 0 gives 0, so they may precede a loop without iterations."""
    before = emitter.divisions
    if emitter.has_divisions:
        emitter.divisions = before | _divisions_before(emitter, loop)
    yield
    emitter.divisions = before


def _divisions_before(emitter: Emitter, loop: For) -> dict[Apply, str]:
    changing = {n.target for n in nodes_of(loop) if isinstance(n, Assign)}
    known: dict[Hashable, str] = {}  # equal divisions are computed once
    values: dict[Apply, str] = {}
    todo: list[Any] = [*loop.body[::-1]]
    while todo:
        node = todo.pop()
        is_division = type(node) is Apply and node.fn in DIVISIONS and node.dtype == "int64"
        if is_division and node in emitter.divisions:
            continue
        key = _key(emitter, node, changing) if is_division else None
        if key is None:
            todo += [part for part in parts(node)[::-1] if hasattr(part, "span")]
            continue
        if key not in known:
            known[key] = emitter.scalar(node)
        values[node] = known[key]
    return values


def _key(emitter: Emitter, scalar: Any, changing: set[Any]) -> Hashable:
    """Returns a key that equal expressions share; None for one without a value before the loop,
    which changes some variables."""
    match scalar:
        case Local():
            return scalar if scalar in emitter.values and scalar not in changing else None
        case Literal():
            return "literal", scalar.value
        case Size():
            return "size", scalar.dim
        case Apply():
            keys = [_key(emitter, arg, changing) for arg in scalar.args]
            return None if None in keys else (scalar.fn, scalar.dtype, *keys)
    return None
