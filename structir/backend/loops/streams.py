"""Large results are written past the caches: what nobody reads soon is not fetched before it is
overwritten, and pushes nothing out.

A loop over neighbouring elements is written twice: up to the first whole line of cache as it is,
and, where the result is large, from there on with stores of whole lines.

Two things make such stores several times slower than others, and are tested for before the loop:
a line that is not written in one go, and, where a loop computes much, reads just behind the stores,
counted within a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from structir.backend.loops.buffer import Buffer, element_bytes

INDENT = "    "
LINE = 64  # bytes of a line of cache
LARGE = 1 << 24  # bytes of a result from which on it is written so
MORE = 10.0  # work (an addition is 1) from which on waits for stores are felt: one function
LONG = 1 << 13  # bytes of a loop from which on it may start and end within a line
PAGE = 4096  # bytes; processors tell loads from pending stores by their addresses within a page
BEHIND = 256  # bytes from a load up to a store in its page for which it waits


@attrs.frozen
class StreamingStore:
    """A line that stores a value in an element of a result that may be large."""

    buffer: Buffer
    line: str
    place: str
    value: str

    def base(self, name: str) -> str | None:
        """What the index adds to the position in the loop; None where that is no step of 1."""
        index = self.index
        return index[: -len(name)] if f" + {index}".endswith(f" + {name}") else None

    @property
    def index(self) -> str:
        """The index of the element."""
        return self.place[self.place.index("[") + 1 : -1]

    @property
    def streamed(self) -> str:
        """The same line, past the caches."""
        pointer = self.place.partition("[")[0]
        return f"stream_to({pointer}, {self.index}, {self.value})"


def may_be_large(buffer: Buffer) -> bool:
    """Whether a result is large at some sizes, with elements that make up vectors."""
    size, count = element_bytes(buffer.dtype), buffer.elements
    return size >= 4 and not (isinstance(count, int) and count * size < LARGE)


def is_large(buffer: Buffer, size_text: Callable[[Buffer], str]) -> str:
    """The condition that a result is large."""
    return f"{size_text(buffer)} >= {LARGE // element_bytes(buffer.dtype)}"


def two_loops(
    name: str,
    length: str,
    lines: Sequence[str],
    stores: Sequence[StreamingStore],
    size_text: Callable[[Buffer], str],
    start_text: Callable[[Buffer], str],
    beside: Mapping[Buffer, Iterable[Buffer]] = {},
) -> list[str] | None:
    """Both loops over `name`, if all stores are to neighbouring elements of one width. `size_text`
    returns the number of elements of a buffer, `start_text` its address in elements. `beside` holds
    what is read at the index of a store."""
    width = element_bytes(stores[0].buffer.dtype)
    bases = [s.base(name) for s in stores]
    whole = _whole_lines(length, width)
    if None in bases or any(element_bytes(s.buffer.dtype) != width for s in stores) or not whole:
        return None
    starts = [_first(start_text(s.buffer), b) for s, b in zip(stores, bases, strict=True)]
    buffers = dict.fromkeys(s.buffer for s in stores)
    tests = [is_large(b, size_text) for b in buffers]
    tests.append(whole)
    tests += [f"({start} - ({starts[0]})) % {LINE // width} == 0" for start in starts[1:]]
    for stored, near in [(b, near) for b in buffers for near in beside.get(b, ())]:
        if element_bytes(near.dtype) == width:
            apart = f"{start_text(stored)} - {start_text(near)} - 1"
            tests.append(f"({apart}) % {PAGE // width} >= {BEHIND // width}")
    past = {s.line: s.streamed for s in stores}
    return [
        f"ahead = -({starts[0]}) % {LINE // width}",
        f"near = ahead if {' and '.join(tests)} else {length}",
        f"for {name} in range(0, near):",
        *[INDENT + line for line in lines],
        f"for {name} in range(near, {length}):",
        *[INDENT + past.get(line, line) for line in lines],
    ]


def _whole_lines(length: str, width: int) -> str:
    """The condition that a loop writes whole lines, or is so long that its ends do not count; an
    empty one where it never holds."""
    most, line = LONG // width, LINE // width
    if not length.isdigit():
        return f"(ahead == 0 and ({length}) % {line} == 0 or {length} >= {most})"
    if int(length) >= most:
        return f"ahead <= {length}"
    return "ahead == 0" if int(length) % line == 0 else ""


def _first(start: str, base: str | None) -> str:
    """Where the first element of a loop is stored, in elements."""
    return f"{start} + {base}".removesuffix(" + ")
