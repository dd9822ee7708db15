"""Plans: the compiled kernels of a program, bound to sizes, and run on arrays."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, cached_property
from itertools import chain
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.backend import progress
from structir.backend.cpu.kernels import CompiledKernel, kernel
from structir.backend.cpu.layouts import SPACE
from structir.backend.cpu.runner import run_address
from structir.backend.loops.buffer import Buffer, element_bytes
from structir.backend.loops.writer import KernelText
from structir.backend.memory import ALIGNMENT, Lifetime, laid_out, lifetimes
from structir.backend.recipe import KernelSequence
from structir.backend.results import is_large
from structir.backend.sizes import evaluator, symbols_of
from structir.backend.threads import team_of
from structir.backend.work import nanoseconds
from structir.errors import ShapeMismatchError, StructIRError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import numpy_dtype

REPORT_WORDS = 3  # words in which a kernel stores the site, index and size of an error
MAX_CACHED_PLANS = 64  # limit of the bound plans in a cache,
MAX_CACHED_BYTES = 1 << 28  # and of the bytes of their arenas
MIN_SHARED_NANOSECONDS = 15_000  # of a kernel on one thread, if the threads are awake;
ALONE = 4  # times as long is a kernel that is worth waking them,
TOGETHER = 12  # times as long in total are smaller kernels that are worth it
CHUNKS_PER_THREAD = 4  # idle threads claim further chunks
CHUNK_MULTIPLE = 64  # chunk sizes are multiples of this if the range is long enough
GIL_RELEASE_ELEMENTS = 1 << 14  # accessed by a call that releases the GIL


@attrs.frozen(eq=False)
class Numbers:
    """The integers of a plan at given sizes, by purpose."""

    sizes: list[tuple[int, ...]]  # the sizes in the argument block of each kernel
    ranges: tuple[int, ...]  # the iterations of each kernel
    elements: tuple[int, ...]  # the elements of each buffer in the arena
    shapes: list[tuple[int, ...]]  # the shape of each owned result and output


def _compiled(text: KernelText) -> CompiledKernel:
    progress.note(next(iter(text.origins), ""))
    return kernel(text.text, text.function, text.from_file)


def owned_results(outputs: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """Returns the outputs that need new arrays, in order."""
    roots = dict.fromkeys(b.root for b in outputs)
    return tuple([b for b in roots if b.origin == "value"])


class KernelPlan:
    """The compiled kernels of one program, and the tables by which they are called."""

    def __init__(self, recipe: KernelSequence) -> None:
        self.recipe = recipe
        self.inputs, self.outputs, self.results = recipe.inputs, recipe.outputs, recipe.results
        self.texts = recipe.kernels
        self.kernels: list[Any] = [self.compiled(t) for t in self.texts]
        touched = {b.root for t in self.texts for b in t.pointers}
        constants = {b for b in touched if b.origin == "constant"}
        outside = {b.root for b in (*self.inputs, *self.outputs)} | constants
        self.spans: list[Lifetime] = lifetimes(self.texts, frozenset(outside))
        self.owned = owned_results(self.outputs)
        self.constants = {b: np.ascontiguousarray(b.data) for b in constants}
        self.symbols: list[Sym] = symbols_of(self._dims())
        self._evaluate = evaluator(self._dims(), self.symbols)

    def compiled(self, text: KernelText) -> CompiledKernel:
        """Compiles a kernel to machine code."""
        return _compiled(text)

    def _dims(self) -> list[Dim]:
        values: list[Dim] = [d for t in self.texts for d in t.sizes]
        values += [t.range for t in self.texts]
        values += [span.buffer.elements for span in self.spans]
        return values + [d for b in self._shaped() for d in b.shape]

    def _shaped(self) -> list[Buffer]:
        return [*self.owned, *self.outputs]

    def numbers(self, sizes: Sequence[int]) -> Numbers:
        """Evaluates all integers of the plan, at sizes in the order of `symbols`."""
        values = iter(self._evaluate(*sizes))

        def take(count: int) -> tuple[int, ...]:
            return tuple([next(values) for _ in range(count)])

        numbers = Numbers(
            [take(len(t.sizes)) for t in self.texts],
            take(len(self.texts)),
            take(len(self.spans)),
            [take(len(b.shape)) for b in self._shaped()],
        )
        if any(size < 0 for shape in numbers.shapes for size in shape):
            raise ShapeMismatchError(f"expected sizes >= 0, found {numbers.shapes}")
        return numbers

    def bound(self, sizes: Mapping[Sym, int], threads: int = 1) -> BoundPlan:
        """Binds the plan to sizes, for a number of threads."""
        return BoundPlan(self, self.numbers([sizes[s] for s in self.symbols]), sizes, threads)


def shared_from(works: Sequence[float]) -> float:
    """Returns the nanoseconds from which on the kernels of one call are shared.

    A call wakes the threads once: they stay awake between kernels.
    """
    total = sum([work for work in works if work >= MIN_SHARED_NANOSECONDS])
    return MIN_SHARED_NANOSECONDS * (1 if total >= TOGETHER * MIN_SHARED_NANOSECONDS else ALONE)


def chunk_of(length: int, threads: int) -> int:
    """Returns how many iterations a thread claims at once; 0 if there is one thread's work."""
    if length < 2:
        return 0
    chunk = -(-length // (CHUNKS_PER_THREAD * threads))
    aligned = -(-chunk // CHUNK_MULTIPLE) * CHUNK_MULTIPLE
    return aligned if aligned * threads <= length else chunk


class Workspace:
    """The memory of one call at a time: the argument block, the program that points into it, and
    the arena."""

    def __init__(self, bound: BoundPlan, arena: Any = None) -> None:
        self.plan = plan = bound.plan
        numbers = bound.numbers
        threads = bound.threads
        offsets, size = bound.layout
        self.arena = np.empty(size + ALIGNMENT, np.uint8) if arena is None else arena
        base = -(-self.arena.ctypes.data // ALIGNMENT) * ALIGNMENT
        addresses = {s.buffer: base + o for s, o in zip(plan.spans, offsets, strict=True)}
        external = bound.external
        thread_bytes = bound.bytes_of_one_thread
        words: list[int] = []
        moved: list[tuple[int, int]] = []  # scratch offset, stride of threads
        patches: list[int] = []
        starts: list[int] = []
        for text, sizes in zip(plan.texts, numbers.sizes, strict=True):
            starts.append(len(words))
            for buffer in text.pointers:
                if buffer in external:
                    patches += [len(words), external[buffer]]
                if buffer in thread_bytes:
                    moved.append((len(words), thread_bytes[buffer]))
                words.append(self._address(buffer, addresses, plan.constants))
            words += [*sizes, *[0] * (REPORT_WORDS if text.sites else 0)]
        self.starts = starts
        self.arguments = np.array([[*words, 0]] * threads, np.int64)
        for place, step in moved:
            self.arguments[:, place] += step * np.arange(threads)
        block = self.arguments.ctypes.data
        self.running = [place for place, span in enumerate(numbers.ranges) if span > 0]
        rows = [
            (plan.kernels[k].address, block + 8 * starts[k], 0, numbers.ranges[k], bound.chunks[k])
            for k in self.running
        ]
        program = np.array([*chain(*rows), 0], np.int64)
        places_to_patch = np.array([*patches, 0], np.int64)
        self.outside = np.zeros(len(external) + 1, np.int64)
        self._references = (program, places_to_patch, *bound.tables)
        self.words = np.zeros(len(SPACE), np.int64)
        dims, input_bytes, result_dims, result_bytes = (t.ctypes.data for t in bound.tables)
        space_words = {
            SPACE.long: bound.elements_touched > GIL_RELEASE_ELEMENTS,
            SPACE.dims: dims,
            SPACE.input_bytes: input_bytes,
            SPACE.result_dims: result_dims,
            SPACE.result_bytes: result_bytes,
            SPACE.rows: program.ctypes.data,
            SPACE.row_count: len(rows),
            SPACE.patches: places_to_patch.ctypes.data,
            SPACE.patch_count: len(patches) // 2,
            SPACE.arguments: block,
            SPACE.outside: self.outside.ctypes.data,
            SPACE.team: bound.team.address if bound.team and any(bound.chunks) else 0,
            SPACE.threads: threads,
            SPACE.stride: len(words) + 1,
        }
        for place, value in space_words.items():
            self.words[place] = value

    @staticmethod
    def _address(
        buffer: Buffer, addresses: Mapping[Buffer, int], constants: Mapping[Buffer, Any]
    ) -> int:
        if buffer in constants:
            return int(constants[buffer].ctypes.data)
        return addresses.get(buffer, 0)

    def failure(self, row: int) -> StructIRError:
        """Returns the error that the kernel at a row has reported."""
        number = self.running[row]
        text = self.plan.texts[number]
        if not text.sites:
            kernel_name = ", ".join(text.origins) or str(number)
            return ShapeMismatchError(f"kernel {kernel_name}: runtime check failed")
        report = self.starts[number] + len(text.pointers) + len(text.sizes)
        reports = self.arguments[:, report : report + REPORT_WORDS]
        site, index, size = next([int(w) for w in words] for words in reports if words[0])
        reports[:] = 0
        error: StructIRError = text.sites[site - 1].error(index, size)
        return error


class BoundPlan:
    """A plan at given sizes. Concurrent calls use different workspaces."""

    def __init__(
        self, plan: KernelPlan, numbers: Numbers, sizes: Mapping[Sym, int], threads: int
    ) -> None:
        self.plan, self.numbers, self.sizes = plan, numbers, sizes
        self.external = {b: i for i, b in enumerate(plan.inputs)}
        count = len(self.external)
        self.external |= {b: count + i for i, b in enumerate(plan.owned)}
        owned = len(plan.owned)
        dtypes = [numpy_dtype(b.dtype) for b in plan.owned]
        self.owned_forms = list(zip(numbers.shapes[:owned], dtypes, strict=True))
        self.output_shapes = numbers.shapes[owned:]
        self.free: list[Workspace] = []
        self.tables = self._tables()
        self.elements_touched = self._elements_touched()
        self.team = team_of(threads)
        self.threads = threads if self.team else 1
        self.chunks = self._chunks()
        self.bytes_of_one_thread: dict[Buffer, int] = {}
        self.arena_elements = self._arena_elements()

    @property
    def result_forms(self) -> list[tuple[tuple[int, ...], Any]]:
        """The shape and dtype of each result."""
        shapes = dict(zip(self.plan.outputs, self.output_shapes, strict=True))
        return [(shapes[b], numpy_dtype(b.dtype)) for b in self.plan.results]

    def _tables(self) -> list[Any]:
        """Returns the sizes of inputs and results, and the bytes of each."""
        inputs = [(self._shape(b), numpy_dtype(b.dtype)) for b in self.plan.inputs]
        tables = []
        for forms in (inputs, self.owned_forms):
            tables.append([size for shape, _ in forms for size in shape])
            tables.append([prod(shape) * dtype.itemsize for shape, dtype in forms])
        return [np.array([*values, 0], np.int64) for values in tables]

    def _shape(self, buffer: Buffer) -> tuple[int, ...]:
        return tuple([dims.evaluate(d, self.sizes) for d in buffer.shape])

    def bytes_of(self, buffer: Buffer) -> int:
        """Returns the size of a buffer in bytes."""
        return dims.evaluate(buffer.elements, self.sizes) * element_bytes(buffer.dtype)

    def _elements_touched(self) -> int:
        inputs = [prod(self._shape(b)) for b in self.plan.inputs]
        results = [prod(shape) for shape, _ in self.owned_forms]
        constants = [b.size for b in self.plan.constants.values()]
        return sum([*inputs, *results, *constants, *self.numbers.elements])

    def _chunks(self) -> list[int]:
        """Returns the number of iterations of each kernel that a thread claims at once."""
        if self.threads == 1:
            return [0] * len(self.plan.texts)
        works = [*map(self._work, self.plan.texts, self.numbers.sizes, self.numbers.ranges)]
        least = shared_from(works)
        return [
            chunk_of(length, self.threads) if work >= least else 0
            for work, length in zip(works, self.numbers.ranges, strict=True)
        ]

    @staticmethod
    def _work(text: KernelText, sizes: Sequence[int], length: int) -> float:
        """Returns the nanoseconds of a kernel that threads can share; no work is below zero."""
        is_routine = text.function is not None  # a routine with its own scratch memory
        if is_routine or length < 2:
            return -1.0
        return nanoseconds(text.text, len(text.pointers), sizes, length)

    def _arena_elements(self) -> list[int]:
        """Returns the elements of each buffer in the arena; scratch memory is per thread."""
        scratch = {b for text in self.plan.texts for b in text.scratch}
        counts = []
        for span, count in zip(self.plan.spans, self.numbers.elements, strict=True):
            if self.threads > 1 and span.buffer in scratch:
                line_elements = ALIGNMENT // span.element_bytes
                count = -(-count // line_elements) * line_elements
                self.bytes_of_one_thread[span.buffer] = count * span.element_bytes
                count *= self.threads
            counts.append(count)
        return counts

    @cached_property
    def layout(self) -> tuple[list[int], int]:
        """The offset of each buffer in the arena, and the size of the arena, in bytes."""
        return laid_out(self.plan.spans, self.arena_elements)

    @cached_property
    def space_of_calls(self) -> Workspace:
        """The workspace of native calls, which use it one at a time."""
        return Workspace(self)

    @property
    def is_plain(self) -> bool:
        """Whether the results are exactly the output buffers."""
        return self.plan.results == self.plan.owned

    @cached_property
    def is_large(self) -> bool:
        """Whether a result is so large that its memory is pooled."""
        return any(is_large(prod(s) * d.itemsize) for s, d in self.owned_forms)

    def workspace(self) -> Workspace:
        """Returns a workspace for exclusive use, until `give_back`.

        The workspace of native calls is preferred, so that calls that do not overlap share one
        arena.
        """
        native: Workspace | None = self.__dict__.get("space_of_calls")
        if native is not None and not native.words[SPACE.busy]:
            native.words[SPACE.busy] = 1
            return native
        try:
            return self.free.pop()
        except IndexError:
            return Workspace(self)

    def give_back(self, space: Workspace) -> None:
        """Returns a workspace to the pool."""
        if space is self.__dict__.get("space_of_calls"):
            space.words[SPACE.busy] = 0
        else:
            self.free.append(space)

    def run(self, space: Workspace) -> None:
        """Runs the plan on the addresses in the workspace: inputs first, then owned results."""
        record = recording.get()
        failed = record(self, space) if record else run_space()(space.words.ctypes.data)
        error = space.failure(failed - 1) if failed else None
        self.give_back(space)
        if error is not None:
            raise error


# A profiler sets this to replace the runner and to measure each kernel.
recording: ContextVar[Callable[[BoundPlan, Workspace], int] | None] = ContextVar(
    "recording", default=None
)


@cache
def run_space() -> Callable[[int], int]:
    """Runs the plan with the GIL released."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(run_address())


class BoundPlans:
    """An LRU cache of the plans of one program by sizes."""

    def __init__(self) -> None:
        self._plans: OrderedDict[Any, BoundPlan] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> BoundPlan | None:
        """Returns the plan bound to these sizes, if it is cached."""
        return self._plans.get(key)

    def put(self, key: Any, plan: BoundPlan) -> None:
        """Caches a plan, and evicts the oldest."""
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > 1 and self._are_too_many():
                self._plans.popitem(last=False)

    def _are_too_many(self) -> bool:
        arenas = sum(bound.layout[1] for bound in self._plans.values())
        return len(self._plans) > MAX_CACHED_PLANS or arenas > MAX_CACHED_BYTES

    def latest(self) -> list[BoundPlan]:
        """Returns all cached plans, the latest first."""
        with self._lock:
            return list(reversed(self._plans.values()))

    def __len__(self) -> int:
        return len(self._plans)
