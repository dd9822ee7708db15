"""Large results are written past the caches: what nobody reads soon is not fetched before it is
overwritten, and pushes nothing out.

A loop over neighbouring elements is written twice: up to the first whole line of cache as it is,
and, where the result is large, from there on with stores of whole lines.

Two things make such stores several times slower than others, and are tested for before the loop:
a line that is not written in one go, and, where a loop computes much, reads just behind the stores,
counted within a page.
"""

from __future__ import annotations

from structir.backend.loops.buffer import Buffer, element_bytes

LINE = 64  # bytes of a line of cache
LARGE = 1 << 24  # bytes of a result from which on it is written so
MORE = 10.0  # work (an addition is 1) from which on waits for stores are felt: one function
LONG = 1 << 13  # bytes of a loop from which on it may start and end within a line
PAGE = 4096  # bytes; processors tell loads from pending stores by their addresses within a page
BEHIND = 256  # bytes from a load up to a store in its page for which it waits


def may_be_large(buffer: Buffer) -> bool:
    """Whether a result is large at some sizes, with elements that make up vectors."""
    size, count = element_bytes(buffer.dtype), buffer.elements
    return size >= 4 and not (isinstance(count, int) and count * size < LARGE)
