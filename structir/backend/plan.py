"""Plans: the compiled kernels of a program, bound to sizes, and run on arrays."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from structir.backend.cpu.kernels import Kernel, kernel
from structir.backend.cpu.runner import run_program
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.schedule import Scheduled, scheduled
from structir.backend.loops.stage import LoopProgram
from structir.backend.memory import ALIGNMENT, Lifetime, laid_out, lifetimes
from structir.backend.sizes import evaluator, symbols_of
from structir.errors import ShapeMismatchError, StructIRError
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import numpy_dtype

REPORT = 3  # words in which a kernel says at which site it failed, on which index and size
KEPT_SHAPES = 64  # plans bound to sizes that are remembered; their arenas dominate


@attrs.frozen(eq=False)
class Numbers:
    """The integers of a plan at given sizes, taken apart."""

    sizes: list[tuple[int, ...]]  # for each kernel, those in its table
    ranges: tuple[int, ...]
    elements: tuple[int, ...]  # of the buffers in the arena
    shapes: list[tuple[int, ...]]  # of the outputs


class Plan:
    """The kernels of one program, compiled, and the tables by which they are called."""

    def __init__(self, program: LoopProgram, results: Sequence[Buffer]) -> None:
        self.results = tuple(results)
        self.scheduled: Scheduled = scheduled(program)
        self.program = self.scheduled.program
        self.texts = self.scheduled.kernels
        self.kernels: list[Kernel] = [kernel(t.text, t.function) for t in self.texts]
        touched = {b.root for t in self.texts for b in t.pointers}
        constants = {b for b in touched if b.origin == "constant"}
        outside = {b.root for b in (*program.inputs, *program.outputs)} | constants
        self.spans: list[Lifetime] = lifetimes(self.texts, frozenset(outside))
        self.owned = tuple([b for b in self._result_roots() if b.origin == "value"])
        self.constants = {b: np.ascontiguousarray(b.data) for b in constants}
        self.symbols: list[Sym] = symbols_of(self._dims())
        self._evaluate = evaluator(self._dims(), self.symbols)

    def _result_roots(self) -> list[Buffer]:
        return list(dict.fromkeys(b.root for b in self.program.outputs))

    def _dims(self) -> list[Dim]:
        found: list[Dim] = [d for t in self.texts for d in t.sizes]
        found += [t.range for t in self.texts]
        found += [span.buffer.elements for span in self.spans]
        return found + [d for b in self._shaped() for d in b.shape]

    def _shaped(self) -> list[Buffer]:
        return [*self.owned, *self.program.outputs]

    def numbers(self, sizes: Sequence[int]) -> Numbers:
        """All integers of the plan, at sizes given in the order of `symbols`."""
        values = iter(self._evaluate(*sizes))

        def take(count: int) -> tuple[int, ...]:
            return tuple([next(values) for _ in range(count)])

        return Numbers(
            [take(len(t.sizes)) for t in self.texts],
            take(len(self.texts)),
            take(len(self.spans)),
            [take(len(b.shape)) for b in self._shaped()],
        )

    def bound(self, sizes: Sequence[int]) -> BoundPlan:
        """The plan at given sizes."""
        return BoundPlan(self, self.numbers(sizes))


class Workspace:
    """What one call at a time uses: the argument block, the program that points into it, the
    arena."""

    def __init__(self, bound: BoundPlan) -> None:
        self.plan = plan = bound.plan
        numbers = bound.numbers
        offsets, size = laid_out(plan.spans, numbers.elements)
        self.arena = np.empty(size + ALIGNMENT, np.uint8)
        base = -(-self.arena.ctypes.data // ALIGNMENT) * ALIGNMENT
        places = {s.buffer: base + o for s, o in zip(plan.spans, offsets, strict=True)}
        external = bound.external
        words: list[int] = []
        patches: list[int] = []
        starts: list[int] = []
        for text, own in zip(plan.texts, numbers.sizes, strict=True):
            starts.append(len(words))
            for buffer in text.pointers:
                if buffer in external:
                    patches += [len(words), external[buffer]]
                words.append(self._address(buffer, places, plan.constants))
            words += [*own, *[0] * (REPORT if text.sites else 0)]
        self.starts = starts
        self.arguments = np.array([*words, 0], np.int64)
        block = self.arguments.ctypes.data
        self.running = [place for place, span in enumerate(numbers.ranges) if span > 0]
        rows = [
            (plan.kernels[k].address, block + 8 * starts[k], 0, numbers.ranges[k])
            for k in self.running
        ]
        self.program = np.array(rows, np.int64).reshape(-1)
        self.patches = np.array(patches, np.int64)
        self.addresses = np.zeros(max(len(external), 1), np.int64)

    @staticmethod
    def _address(
        buffer: Buffer, places: Mapping[Buffer, int], constants: Mapping[Buffer, Any]
    ) -> int:
        if buffer in constants:
            return int(constants[buffer].ctypes.data)
        return places.get(buffer, 0)

    def failure(self, row: int) -> StructIRError:
        """The error of the kernel at a row, as it has reported it."""
        place = self.running[row]
        text = self.plan.texts[place]
        if not text.sites:
            what = ", ".join(text.origins) or f"kernel {place}"
            return ShapeMismatchError(f"at run time: {what} refused its operands")
        report = self.starts[place] + len(text.pointers) + len(text.sizes)
        site, index, size = [int(word) for word in self.arguments[report : report + REPORT]]
        error: StructIRError = text.sites[site - 1].error(index, size)
        return error


class BoundPlan:
    """A plan at given sizes. Calls that overlap in time get workspaces of their own."""

    def __init__(self, plan: Plan, numbers: Numbers) -> None:
        self.plan, self.numbers = plan, numbers
        self.external = {b: i for i, b in enumerate(plan.program.inputs)}
        count = len(self.external)
        self.external |= {b: count + i for i, b in enumerate(plan.owned)}
        owned = len(plan.owned)
        dtypes = [numpy_dtype(b.dtype) for b in plan.owned]
        self.owned_forms = list(zip(numbers.shapes[:owned], dtypes, strict=True))
        self.output_shapes = numbers.shapes[owned:]
        self.free: list[Workspace] = []

    def workspace(self) -> Workspace:
        """A workspace that no other call uses; `run` gives it back."""
        try:
            return self.free.pop()
        except IndexError:
            return Workspace(self)

    def run(self, space: Workspace) -> None:
        """Run on the addresses in the workspace: those of the inputs, then of the owned results."""
        failed = run_program(space.program, space.arguments, space.patches, space.addresses)
        error = space.failure(failed - 1) if failed else None
        self.free.append(space)
        if error is not None:
            raise error


class BoundPlans:
    """The plans of one program by the sizes that they are bound to, the latest ones kept."""

    def __init__(self) -> None:
        self._found: OrderedDict[Any, BoundPlan] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> BoundPlan | None:
        """The plan bound for these sizes, if it is remembered."""
        return self._found.get(key)

    def put(self, key: Any, plan: BoundPlan) -> None:
        """Remember a plan, and let the oldest go."""
        with self._lock:
            self._found[key] = plan
            while len(self._found) > KEPT_SHAPES:
                self._found.popitem(last=False)

    def __len__(self) -> int:
        return len(self._found)
