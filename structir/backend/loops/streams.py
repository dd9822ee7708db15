"""Large results are written past the caches: what nobody reads soon is not fetched before it is
overwritten, and pushes nothing out.

A loop over neighbouring elements is written twice: up to the first whole line of cache as it is,
and, where the result is large, from there on with stores of whole lines. A loop over all elements
asks some time ahead for what it will read, where it computes much with it: there are too few loads
under way then to keep memory busy.

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
MUCH = 6.0  # work on an element, an addition being 1
MORE = 10.0  # work from which on waits for stores are felt, as much as one function does
BLOCK = 128  # elements between two times of asking
AHEAD = 8192  # bytes between what is asked for and what is read
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
    bounds: tuple[str, str],
    lines: Sequence[str],
    stores: Sequence[StreamingStore],
    size_text: Callable[[Buffer], str],
    start_text: Callable[[Buffer], str],
    beside: Mapping[Buffer, Iterable[Buffer]] = {},
    reads: Mapping[str, Buffer] = {},
) -> list[str] | None:
    """Both loops over `name`, if all stores are to neighbouring elements of one width. `size_text`
    returns the number of elements of a buffer, `start_text` its address in elements. `beside` holds
    what is read at the index of a store; `reads` are the pointers that are read at the position of
    a loop over all elements."""
    low, high = bounds
    width = element_bytes(stores[0].buffer.dtype)
    bases = [s.base(name) for s in stores]
    length = high if low == "0" else f"{high} - {low}"
    whole = _whole_lines(length, width)
    if None in bases or any(element_bytes(s.buffer.dtype) != width for s in stores) or not whole:
        return None
    starts = [_first(start_text(s.buffer), b, low) for s, b in zip(stores, bases, strict=True)]
    buffers = dict.fromkeys(s.buffer for s in stores)
    tests = [is_large(b, size_text) for b in buffers]
    tests.append(whole)
    tests += [f"({start} - ({starts[0]})) % {LINE // width} == 0" for start in starts[1:]]
    for stored, near in [(b, near) for b in buffers for near in beside.get(b, ())]:
        if element_bytes(near.dtype) == width:
            apart = f"{start_text(stored)} - {start_text(near)} - 1"
            tests.append(f"({apart}) % {PAGE // width} >= {BEHIND // width}")
    first = "ahead" if low == "0" else f"{low} + ahead"
    past = {s.line: s.streamed for s in stores}
    return [
        f"ahead = -({starts[0]}) % {LINE // width}",
        f"near = {first} if {' and '.join(tests)} else {high}",
        f"for {name} in range({low}, near):",
        *[INDENT + line for line in lines],
        *_asking(name, high, reads, [INDENT + past.get(line, line) for line in lines]),
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


def _asking(name: str, high: str, reads: Mapping[str, Buffer], body: list[str]) -> list[str]:
    """The second loop, in blocks for each of which something is asked for ahead."""
    if not reads:
        return [f"for {name} in range(near, {high}):", *body]
    lines = [f"for b in range(near, {high}, {BLOCK}):"]
    part = f"range(b, min(b + {BLOCK}, {high})"
    for width in dict.fromkeys(map(element_bytes, (b.dtype for b in reads.values()))):
        lines.append(f"{INDENT}for {name} in {part}, {LINE // width}):")
        same = [pointer for pointer, b in reads.items() if element_bytes(b.dtype) == width]
        lines += [f"{INDENT * 2}fetch_ahead({p}, {name} + {AHEAD // width})" for p in same]
    return [*lines, f"{INDENT}for {name} in {part}):", *[INDENT + line for line in body]]


def _first(start: str, base: str | None, low: str) -> str:
    """Where the first element of a loop is stored, in elements."""
    ends = low if low != "0" else ""
    return f"{start} + {base}{ends}".removesuffix(" + ")
