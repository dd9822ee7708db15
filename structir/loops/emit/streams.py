"""Emits loops that fill large results with non-temporal stores.

Such a loop is emitted twice: up to the first whole cache line as it is, and, where the result is
large, from there on with stores of whole lines. `loops.buffer` states when they are faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import attrs

from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    Kernel,
    Local,
    nodes_of,
)
from structir.ir.node import Node
from structir.loops.emit.emitter import Emitter
from structir.loops.emit.scalars import outer_offset
from structir.loops.emit.short_loops import LANES, unrolling_of_vectors
from structir.loops.program.buffer import (
    BEHIND,
    LARGE,
    LINE,
    LONG,
    LONG_OF_LINES,
    MORE,
    PAGE,
    Buffer,
    element_bytes,
    may_be_large,
)
from structir.loops.program.expression import cost_of
from structir.loops.program.kernel_table import dtype_of
from structir.targets.cpu.assembly import STORED, UNROLLED
from structir.targets.cpu.features import gains_from_prefetching, merges_partial_lines

MUCH = 6.0  # work on an element from which on memory has too few loads without prefetches
BLOCK = 128  # elements that are prefetched at once
AHEAD = 8192  # bytes between a prefetch and the read


@attrs.frozen(eq=False)
class StreamingLoop:
    """A loop whose stores are to neighbouring elements of results that may be large."""

    emitter: Emitter
    loop: For
    targets: list[Element]
    width: int  # bytes of an element
    is_marked: bool  # whether the kernel asks for non-temporal stores, however large the results

    def is_useful(self, low: str, high: str) -> bool:
        """Returns whether the loop may write whole lines, as far as its length is known."""
        if not (low.isdecimal() and high.isdecimal()):
            return True
        size = (int(high) - int(low)) * self.width
        return size >= LONG or size % LINE == 0

    def emit(self, low: str, high: str) -> None:
        """Emits both loops."""
        emitter, asm = self.emitter, self.emitter.asm
        starts = [self._start(target, low) for target in self.targets]
        ahead = asm.integer("and", asm.integer("sub", "0", starts[0]), str(LINE // self.width - 1))
        arrays: list[Var | None] = []
        if not self.is_marked:
            arrays += [target.array for target in self.targets]
        tests = [is_large(self.emitter, array) for array in arrays if array is not None]
        tests.append(self._writes_whole_lines(ahead, asm.integer("sub", high, low)))
        tests += [self._is_multiple(start, starts[0]) for start in starts[1:]]
        tests += [self._is_apart(t.array, near) for t in self.targets for near in self._beside(t)]
        first = asm.integer("add", low, ahead)
        if low.isdecimal() and high.isdecimal() and self._is_short(int(high) - int(low)):
            self._emit_either(asm.all_of(tests), low, high)
            emitter.streamed |= dict.fromkeys(arrays or [None])
            return
        near = asm.select(asm.all_of(tests), "i64", first, high)
        asm.count(low, near, 1, self._body)
        emitter.streaming |= set(self.targets)
        self._emit_streams(near, high)
        emitter.streaming -= set(self.targets)
        emitter.streamed |= dict.fromkeys(arrays or [None])

    def _is_short(self, length: int) -> bool:
        """Whether a loop of this length never starts and ends within a line."""
        size = length * self.width
        return size < (LONG_OF_LINES if size % LINE == 0 and merges_partial_lines() else LONG)

    def _emit_either(self, is_streamed: str, low: str, high: str) -> None:
        """Emits a short loop with and without non-temporal stores: LLVM unrolls a loop of constant
        length."""
        emitter, asm = self.emitter, self.emitter.asm
        streams, plain, after = map(asm.label, ("streams", "plain", "after"))
        asm.branch(is_streamed, streams, plain)
        asm.start(plain)
        asm.count(low, high, 1, self._body, self._mark(int(high) - int(low)))
        asm.jump(after)
        asm.start(streams)
        emitter.streaming |= set(self.targets)
        asm.count(low, high, 1, self._body, self._mark(int(high) - int(low)))
        emitter.streaming -= set(self.targets)
        asm.jump(after)
        asm.start(after)

    def _mark(self, length: int) -> str:
        """Returns the mark of one of two short loops; kernels that share their code have none,
        since they differ in lengths."""
        if self.emitter.varying is not None or length <= LANES:
            return ""
        return self.emitter.asm.loop_mark(unrolling_of_vectors(self.loop, length))

    def _body(self, index: str) -> None:
        self.emitter.set_local(self.loop.variable, index)
        self.emitter.block(self.loop.body)

    def _start(self, target: Element, low: str) -> str:
        """The position in memory, in elements, of the first store."""
        emitter, values = self.emitter, self.emitter.values
        emitter.set_local(self.loop.variable, low)
        indices = [emitter.index(index) for index in target.indices]
        values.pop(self.loop.variable, None)
        offset = emitter.asm.integer("add", outer_offset(emitter, target, indices), indices[-1])
        return emitter.asm.integer("add", self._position(target.array), offset)

    def _position(self, array: Var) -> str:
        """The address of an array in elements."""
        asm = self.emitter.asm
        start = asm.value(f"ptrtoint ptr {self.emitter.array(array)} to i64")
        return asm.integer("lshr", start, str(self.width.bit_length() - 1))

    def _is_multiple(self, one: str, other: str) -> str:
        """Whether stores are whole cache lines apart."""
        asm = self.emitter.asm
        rest = asm.integer("and", asm.integer("sub", one, other), str(LINE // self.width - 1))
        return asm.compare("eq", rest, "0")

    def _writes_whole_lines(self, ahead: str, length: str) -> str:
        """Whether the loop writes whole lines, or is so long that its ends do not count."""
        asm = self.emitter.asm
        rest = asm.integer("and", length, str(LINE // self.width - 1))
        starts = asm.compare("eq", ahead, "0")
        if merges_partial_lines():
            is_long = asm.compare("sge", length, str(LONG_OF_LINES // self.width))
            starts = asm.value(f"or i1 {starts}, {is_long}")
        whole = asm.all_of([starts, asm.compare("eq", rest, "0")])
        return asm.value(f"or i1 {whole}, {asm.compare('sge', length, str(LONG // self.width))}")

    def _is_apart(self, array: Var, near: Var) -> str:
        """Whether what is read is not just behind the stores, within a page."""
        asm = self.emitter.asm
        distance = asm.integer("sub", self._position(array), self._position(near))
        place = asm.integer("and", asm.integer("sub", distance, "1"), str(PAGE // self.width - 1))
        return asm.compare("uge", place, str(BEHIND // self.width))

    def _beside(self, target: Element) -> list[Var]:
        """The arrays that are read at the index of a store, if much is computed between."""
        if _work(self.loop) < MORE:
            return []
        reads = [n for s in self.loop.body for n in nodes_of(s) if isinstance(n, Element)]
        arrays = [
            n.array
            for n in reads
            if n.array not in self.emitter.only_filled and len(n.indices) == 1
            if n.indices[0] is target.indices[-1] and len(target.indices) == 1
        ]
        return [a for a in dict.fromkeys(arrays) if element_bytes(dtype_of(a)) == self.width]

    def _emit_streams(self, near: str, high: str) -> None:
        """The second loop; where it reads much memory, in blocks that prefetch the next ones."""
        asm, reads = self.emitter.asm, self._reads_in_turn()
        if not reads:
            asm.count(near, high, 1, self._body)
            return

        def block(turn: str) -> None:
            first = asm.integer("add", near, asm.integer("mul", turn, str(BLOCK)))
            end = asm.integer("add", first, str(BLOCK))
            last = asm.select(asm.compare("slt", end, high), "i64", end, high)
            for array in reads:
                lines = str(BLOCK * element_bytes(dtype_of(array)) // LINE)
                mark = asm.loop_mark(UNROLLED)
                asm.count("0", lines, 1, partial(self._prefetch, array, first), mark)
            asm.count(first, last, 1, self._body)

        length = asm.integer("add", asm.integer("sub", high, near), str(BLOCK - 1))
        asm.count("0", asm.integer("sdiv", length, str(BLOCK)), 1, block)

    def _prefetch(self, array: Var, first: str, line: str) -> None:
        """Prefetches a cache line, `AHEAD` bytes beyond what is read."""
        asm, dtype = self.emitter.asm, dtype_of(array)
        width = element_bytes(dtype)
        offset = asm.integer("mul", line, str(LINE // width))
        ahead = asm.integer("add", asm.integer("add", first, offset), str(AHEAD // width))
        place = asm.value(
            f"getelementptr {STORED[dtype]}, ptr {self.emitter.array(array)}, i64 {ahead}"
        )
        args = [("ptr", place), ("i32", "0"), ("i32", "3"), ("i32", "1")]
        asm.call("llvm.prefetch.p0", "void", args)

    def _reads_in_turn(self) -> list[Var]:
        """The arrays that a loop over all of a part reads one element after another, if it computes
        much with each."""
        part, loop = self.emitter.kernel.part, self.loop
        if part is None or loop.start is not part.low or loop.stop is not part.high:
            return []
        if _work(loop) < MUCH or not gains_from_prefetching():
            return []
        reads = [n for s in loop.body for n in nodes_of(s) if isinstance(n, Element)]
        arrays = [n.array for n in reads if len(n.indices) == 1 and n.indices[0] is loop.variable]
        return list(dict.fromkeys(a for a in arrays if a not in self.emitter.only_filled))


def streaming_loop(emitter: Emitter, loop: For) -> StreamingLoop | None:
    """Returns a loop with non-temporal stores, if it does nothing but fill results that may be
    large, each at neighbouring elements of one width."""
    assigns = [s for s in loop.body if isinstance(s, Assign)]
    targets = [s.target for s in assigns if isinstance(s.target, Element)]
    if loop.step != 1 or len(assigns) < len(loop.body) or not targets:
        return None
    assigned = {s.target for s in assigns if isinstance(s.target, Local)}
    is_marked = all(s.non_temporal for s in assigns if isinstance(s.target, Element))
    widths = {element_bytes(dtype_of(t.array)) for t in targets}
    if not assigned <= emitter.ranges.once or len(widths) > 1:
        return None
    if not all(_fills_neighbours(emitter, t, loop, assigned, is_marked) for t in targets):
        return None
    # the two loops compare the length, which must be one of 64 bits
    if emitter.ranges.exact(Apply("sub", (loop.stop, loop.start), "int64")) is None:
        return None
    return StreamingLoop(emitter, loop, targets, widths.pop(), is_marked)


def _fills_neighbours(
    emitter: Emitter, target: Element, loop: For, assigned: set[Local], is_marked: bool
) -> bool:
    """Whether a store is marked, or to a result that may be large, and `variable` elements past an
    address that the body of the loop does not change."""
    is_wanted = is_marked or target.array in emitter.only_filled
    if not is_wanted or not target.indices or target.array in emitter.registers:
        return False
    *outer, last = target.indices
    match last:
        case Apply("add", (base, offset)) if target.flat and offset is loop.variable:
            outer.append(base)
        case _ if last is not loop.variable:
            return False
    names = [n for index in outer for n in nodes_of(index)]
    changing = {*assigned, loop.variable}
    return not any(isinstance(n, Element) or n in changing for n in names)


def only_filled(kernel: Kernel, shapes: Mapping[Var, tuple[Dim, ...]]) -> frozenset[Var]:
    """Returns the results of a kernel with parts that may be large, are written once and not
    read."""
    if kernel.part is None:
        return frozenset()
    nodes = list(nodes_of(kernel))
    accesses = Counter(n.array for n in nodes if isinstance(n, Element))
    writes = Counter(
        n.target.array for n in nodes if isinstance(n, Assign) and isinstance(n.target, Element)
    )
    placed = _at_data(nodes)
    once = [p for p in kernel.results if accesses[p] == writes[p] == 1 and p not in placed]
    return frozenset([p for p in once if may_be_large(Buffer(shapes[p], dtype_of(p)))])


def _at_data(nodes: Sequence[Node]) -> set[Var]:
    """Returns the arrays that are written at places from data: a run there may be short."""
    loaded: set[Node] = set()  # names of what was read from memory
    arrays: set[Var] = set()
    for assign in [node for node in nodes if isinstance(node, Assign)]:
        target = assign.target
        sources = [assign.value] if isinstance(target, Local) else target.indices
        parts = [part for source in sources for part in nodes_of(source)]
        if any(isinstance(part, Element) or part in loaded for part in parts):
            if isinstance(target, Local):
                loaded.add(target)
            else:
                arrays.add(target.array)
    return arrays


def finish_streams(emitter: Emitter) -> None:
    """Emits a fence after non-temporal stores, if one was marked or a result was large."""
    asm = emitter.asm
    if None in emitter.streamed:
        asm.run("fence seq_cst")
        return
    tests = [is_large(emitter, array) for array in emitter.streamed if array is not None]
    if tests:
        result = tests[0]
        for test in tests[1:]:
            result = asm.value(f"or i1 {result}, {test}")
        with asm.when(result):
            asm.run("fence seq_cst")


def is_large(emitter: Emitter, array: Var) -> str:
    """Emits the condition that a result is large."""
    least = LARGE // element_bytes(dtype_of(array))
    return emitter.asm.compare("sge", emitter.elements(array), str(least))


def _work(loop: For) -> float:
    """Returns the work of an iteration, an addition being 1."""
    applied = [n for s in loop.body for n in nodes_of(s) if isinstance(n, Apply)]
    return sum(cost_of(n.fn) for n in applied)
