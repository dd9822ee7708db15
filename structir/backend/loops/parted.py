"""What kernels have that run in parts: functions of the library, checks before loops, and stores
past the caches."""

from __future__ import annotations

from collections import Counter
from typing import Any

from structir.backend.cpu.features import gains_from_prefetching
from structir.backend.loops.buffer import Buffer, element_bytes
from structir.backend.loops.contraction import MatrixForm
from structir.backend.loops.kernel_names import KernelNames, Site, dtype_of
from structir.backend.loops.library_text import (
    LIBRARY_TEXTS,
    packable_form,
    packed_product_lines,
)
from structir.backend.loops.scalar_text import cost_of
from structir.backend.loops.steady import steady_elements, with_local
from structir.backend.loops.streams import (
    MORE,
    MUCH,
    StreamingStore,
    is_large,
    may_be_large,
    two_loops,
)
from structir.backend.loops.texts import bare
from structir.backend.loops.writer import INDENT, indented
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    Kernel,
    LibraryCall,
    Literal,
    Local,
    Part,
    Scalar,
    nodes_of,
)
from structir.ir.kernel_functions import LIBRARY
from structir.ir.struct_info import TensorStructInfo

ONE = Literal(1, "int64")


class PartedWriter(KernelNames):
    """The part of a writer that says these."""

    def __init__(self, kernel: Kernel, constant: frozenset[Var]) -> None:
        super().__init__(kernel)
        self.panels: dict[Var, tuple[Var, MatrixForm]] = {}
        self.packable = {
            call: form
            for call in nodes_of(kernel)
            if isinstance(call, LibraryCall) and (form := packable_form(call, constant)) is not None
        }
        self.starts: dict[Buffer, str] = {}  # where arrays begin, in elements
        self.walked: dict[Var, Buffer] = {}  # arrays that loops read
        self.only_filled = self._only_filled()
        self.rooms: dict[str, Var] = {}  # of functions of the library, by dtypes
        self.sure: set[Element] = set()  # what a check before its loop has found in range

    def scalar(self, scalar: Scalar) -> str:
        """An expression as text, as the whole of the writer says it."""
        raise TypeError(f"no text for {scalar}")

    def part(self, part: Part) -> list[str]:
        """The ends of a part, which the kernel is given."""
        self.ranges.parted(part)
        return [f"{self.name(part.low)} = lo", f"{self.name(part.high)} = hi"]

    def library_call(self, call: LibraryCall) -> list[str]:
        """A function of the library, once all that it will touch is known to be there."""
        function = LIBRARY[call.fn]
        count = len(function.regions)
        scalars = dict(zip(function.integers, call.args[count:], strict=True))
        values = {name: self.scalar(each) for name, each in scalars.items()}
        lines, places, tests = list[str](), list[str](), list[str]()
        for name, element in zip(function.regions, call.args, strict=False):
            assert isinstance(element, Element)
            start = self.scalar(element.indices[0])
            steps = function.steps(name, values)
            tests.append(" and ".join([f"{count} > 0" for count, _ in steps]))
            axes = [(n, ONE if step == 1 else step) for n, step in function.steps(name, scalars)]
            if not self.ranges.region_inside(
                element.indices[0], axes, self.elements(element.array)
            ):
                lines += [f"if {tests[-1]}:", *indented(self._walked(element, start, steps))]
            places.append(f"offset_by({self.name(element.array)}, {bare(start)})")
        dtype, integers = dtype_of(call.written.array), list(values.values())
        if call in self.packable:
            places[1] = self._panels(call, dtype)
            made = packed_product_lines(places, integers)
        else:
            made = LIBRARY_TEXTS[call.fn](places, integers, dtype, self.room)
        return [*lines, f"if {tests[function.written]}:", *indented(made)]

    def _walked(self, element: Element, start: str, steps: list[tuple[str, Any]]) -> list[str]:
        """Checks of the first and of the last element that a function goes to."""
        size = self.dim(self.elements(element.array))
        site = self.site(Site(self.kernel, element, 0, element.array))
        moves = [(n, step) for n, step in steps if step != 1]
        last = start
        for count, step in steps:
            last = f"further({last}, {count}, {step})"
        checks = [f"inside({step}, {size} + 1, {site}, report)" for _, step in moves]
        return checks + [f"inside({at}, {size}, {site}, report)" for at in (bare(start), last)]

    def _panels(self, call: LibraryCall, dtype: str) -> str:
        """The name of the right operand of a product in panels."""
        source = call.args[1]
        assert isinstance(source, Element)
        panels = Var("panels", TensorStructInfo((1,), dtype))
        self.panels[panels] = source.array, self.packable[call]
        self._array(panels, (1,))
        return self.name(panels)

    def arrays_needed(self) -> tuple[Var, ...]:
        """The arrays that the text mentions: not those of which it has panels alone."""
        places = Counter(n.array for n in nodes_of(self.kernel) if isinstance(n, Element))
        packed = Counter(array for array, _ in self.panels.values())
        return tuple([a for a in self.arrays if not packed[a] or places[a] > packed[a]])

    def room(self, elements: int, dtype: str) -> str:
        """The name of an array that functions of the library use as they go."""
        array = self.rooms.get(dtype)
        if array is None:
            array = self.rooms[dtype] = Var("room", TensorStructInfo((elements,), dtype))
            self._array(array, (elements,))
        return self.name(array)

    def checks_before(self, loop: For, ends: tuple[str, str]) -> list[str]:
        """Checks of the elements that a loop comes to at its ends, in place of one in each round:
        those whose indices step evenly, and which every round comes to. Threads of a card do not
        stop where a check fails, so that kernels without parts check each."""
        if self.kernel.part is None:
            return []
        found = [e for e in steady_elements(loop) if not self._is_inside(e)]
        if not found:
            return []
        start, stop = ends
        last = Apply("sub", (loop.stop, ONE), "int64")
        steps = bare(self.scalar(Apply("sub", (last, loop.start), "int64")))
        lines: dict[tuple[str, ...], str] = {}
        for element in found:
            index, next_start = element.indices[0], Apply("add", (loop.start, ONE), "int64")
            at_each = (loop.start, next_start, last)
            first, second, at = [with_local(index, loop.variable, each) for each in at_each]
            indices = first, Apply("sub", (second, first), "int64"), at
            key = *[bare(self.scalar(i)) for i in indices], self.dim(self.elements(element.array))
            if key not in lines:
                site = self.site(Site(self.kernel, element, 0, element.array))
                lines[key] = f"all_inside({', '.join(key[:3])}, {steps}, {key[3]}, {site}, report)"
        self.sure |= set(found)
        return [f"if {start} < {stop}:", *indented(lines.values())]

    def streamed(self, loop: For, ends: tuple[str, str], lines: list[str]) -> list[str] | None:
        """A loop that does nothing but fill results, as the compiler writes its own: what is large
        is stored past the caches."""
        assigns = [s for s in loop.body if isinstance(s, Assign)]
        stores, targets = [], [s.target for s in assigns]
        again = [t for t in targets if isinstance(t, Local) and t not in self.ranges.once]
        if len(assigns) < len(loop.body) or len(lines) != len(assigns) or again:
            return None
        length = Apply("sub", (loop.stop, loop.start), "int64")
        if loop.start != Literal(0, "int64") and self.ranges.exact(length) is None:
            return None  # the two loops compare the length, which may not be one of 64 bits
        for line, target in zip(lines, targets, strict=True):
            if isinstance(target, Element) and target.array in self.only_filled:
                stores.append(
                    StreamingStore(self.only_filled[target.array], line, *line.split(" = ", 1))
                )
        if not stores or len(stores) < sum(isinstance(t, Element) for t in targets):
            return None
        name = self.name(loop.variable)
        texts = (self._count_text, self._start_text)
        beside = self._read_beside(loop, [t for t in targets if isinstance(t, Element)])
        return two_loops(name, ends, lines, stores, *texts, beside, self._read_in_turn(loop))

    def _read_beside(self, loop: For, stores: list[Element]) -> dict[Buffer, list[Buffer]]:
        """The arrays that are read at the index of each store, if much is computed between."""
        if _work(loop) < MORE:
            return {}
        read = [n for s in loop.body for n in nodes_of(s) if isinstance(n, Element) and n.flat]
        return {
            self.only_filled[store.array]: [
                self._buffer(n.array)
                for n in read
                if n.array not in self.only_filled and n.indices[0] == store.indices[0]
            ]
            for store in stores
        }

    def _buffer(self, array: Var) -> Buffer:
        """An array that is read, as a buffer."""
        if array not in self.walked:
            self.walked[array] = Buffer(self.shapes[array], dtype_of(array))
        return self.walked[array]

    def _read_in_turn(self, loop: For) -> dict[str, Buffer]:
        """The arrays that a loop over all of a part reads one after another, if it computes much
        with each element."""
        part = self.kernel.part
        found = [n for s in loop.body for n in nodes_of(s) if isinstance(n, Element)]
        if part is None or (loop.start, loop.stop) != (part.low, part.high) or _work(loop) < MUCH:
            return {}
        if not gains_from_prefetching():
            return {}
        read = [n for n in found if n.array not in self.only_filled]
        arrays = [n.array for n in read if n.flat and n.indices[0] == loop.variable]
        return {self.name(a): self._buffer(a) for a in arrays}

    def _count_text(self, buffer: Buffer) -> str:
        return self.dim(buffer.elements)

    def _start_text(self, buffer: Buffer) -> str:
        if buffer not in self.starts:
            self.starts[buffer] = self.name(Var("start", TensorStructInfo()))
        return self.starts[buffer]

    def _is_inside(self, element: Element) -> bool:
        return self.ranges.inside(element.indices[0], self.elements(element.array))

    def around_streams(self, lines: list[str]) -> list[str]:
        """Lines with where results begin before them, and the end of stores past the caches."""
        needed = {array: index for index, array in enumerate(self.arrays_needed())}
        buffers = self.only_filled | self.walked
        arrays = {b: needed[a] for a, b in buffers.items() if a in needed}
        head = [
            f"{name} = a[{arrays[buffer]}] // {element_bytes(buffer.dtype)}"
            for buffer, name in self.starts.items()
        ]
        filled = [b for b in self.only_filled.values() if b in self.starts]
        tests = [is_large(buffer, self._count_text) for buffer in filled]
        return [*head, *lines, f"if {' or '.join(tests)}:", f"{INDENT}finish_streams()"]

    def _only_filled(self) -> dict[Var, Buffer]:
        """The results of a kernel in parts that are written once, and not read."""
        if self.kernel.part is None:
            return {}
        nodes = list(nodes_of(self.kernel))
        touched = Counter(n.array for n in nodes if isinstance(n, Element))
        written = Counter(
            n.target.array for n in nodes if isinstance(n, Assign) and isinstance(n.target, Element)
        )
        made = {p: Buffer(self.shapes[p], dtype_of(p)) for p in self.kernel.results}
        once = {p: b for p, b in made.items() if touched[p] == written[p] == 1}
        return {p: b for p, b in once.items() if may_be_large(b)}


def _work(loop: For) -> float:
    """What one round of a loop computes, an addition being 1."""
    applied = [n for s in loop.body for n in nodes_of(s) if isinstance(n, Apply)]
    return sum(cost_of(n.fn) for n in applied)
