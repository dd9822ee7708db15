"""`structir.named_scope`: names of variables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from structir.tracing.context import is_tracing, session


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Names the variables of the ops inside: `attention`, `attention1`, ...

    It is a context manager or a decorator, without an effect outside of a trace. Source:
    `jax.named_scope`.
    """
    if not is_tracing():
        yield
        return
    builder = session().builder
    before, builder.stem = builder.stem, name
    try:
        yield
    finally:
        builder.stem = before
