"""Plans: the compiled kernels of a program, bound to sizes, and run on arrays."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import Any

import attrs
import numpy as np

from structir.errors import ShapeMismatchError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import numpy_dtype
from structir.loops.program.buffer import Buffer, element_bytes
from structir.loops.program.cost import MIN_ROWS, NO_WORK
from structir.loops.program.kernel_text import KernelText
from structir.runtime.kernel_sequence import KernelSequence
from structir.runtime.plans.results import is_large
from structir.runtime.plans.sizes import (
    ALIGNMENT,
    ArenaLayout,
    Evaluator,
    Lifetime,
    lifetimes,
    symbols_of,
)
from structir.runtime.plans.workspace import SpaceLayout, Workspace
from structir.system import progress
from structir.system.locks import cached_property, new_lock
from structir.targets.cpu.kernels import kernel_of, kernels_together
from structir.targets.cpu.layouts import PART_MULTIPLE, PHASE, SPACE
from structir.targets.cpu.runner import run_address, space_reserver
from structir.targets.cpu.threads import pool_of

Array = Any
MAX_CACHED_PLANS = 64  # limit of the bound plans in a cache,
MAX_CACHED_BYTES = 1 << 28  # and of the bytes of their arenas
MAX_SPACES = 32  # concurrent native calls at the same sizes
MIN_SHARED_ELEMENTS = 1 << 14  # accessed by a plan whose kernels may be worth sharing
MIN_SHARED_NANOSECONDS = 15_000  # of a kernel on one thread, if the threads are awake;
ALONE = 4  # times as long is a kernel that is worth waking them,
TOGETHER = 12  # times as long in total are smaller kernels that are worth it
CHUNKS_PER_THREAD = 4  # idle threads claim further chunks
CHUNK_MULTIPLE = 64  # chunk sizes are multiples of this if the range is long enough
LEAST_CHUNKS = 3  # per thread, of such a size
PRODUCT_ROWS = 128  # of a chunk, where reading the right operand takes little of the time
MIN_PHASE_NANOSECONDS = 5_000  # of a phase on one thread: threads wait for each other after it


@attrs.frozen(eq=False)
class Numbers:
    """The integers of a plan at given sizes, by purpose."""

    words: Array  # the words of a workspace that depend on sizes, in its order
    size_slices: Sequence[slice]  # the words that are sizes of each kernel
    ranges: list[int]  # the iterations of each kernel
    external: list[int]  # the elements of each input and owned result
    elements: list[int]  # the elements of each buffer in the arena
    result_bytes: list[int]  # of each owned result
    shapes: list[tuple[int, ...]]  # the shape of each owned result and output

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        """The sizes in the argument block of each kernel."""
        return [tuple(self.words[part].tolist()) for part in self.size_slices]


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
        self.kernels: Sequence[Any] = self.compiled(self.texts)
        touched = {b.root for t in self.texts for b in t.pointers}
        constants = {b for b in touched if b.origin == "constant"}
        outside = {b.root for b in (*self.inputs, *self.outputs)} | constants
        self.spans: list[Lifetime] = lifetimes(self.texts, frozenset(outside))
        self.owned = owned_results(self.outputs)
        self.constants = {b: np.ascontiguousarray(b.data) for b in constants}
        self.external = {b: i for i, b in enumerate((*self.inputs, *self.owned))}
        self.symbols: list[Sym] = symbols_of(chain(*self._dims()))
        self._parts = self._slices()
        self._words = self._parts[len(self.texts) + 4].stop
        self.dims: list[Dim] = [*chain(*self._dims())]
        self._evaluate = Evaluator(self.dims, self.symbols)

    def compiled(self, texts: Sequence[KernelText]) -> Sequence[Any]:
        """Compiles kernels to machine code."""
        with kernels_together() as kernels:
            for text in texts:
                progress.note(next(iter(text.origins), ""))
                kernels.start(text)
        return [*map(kernel_of, texts)]

    def _dims(self) -> list[list[Dim]]:
        """Returns the dims that are evaluated for a call; the first groups are words of its
        workspace."""
        forms = [(b, numpy_dtype(b.dtype).itemsize) for b in self.external]
        groups: list[list[Dim]] = [[*t.sizes] for t in self.texts]
        groups.append([t.range for t in self.texts])
        for boundary in (forms[: len(self.inputs)], forms[len(self.inputs) :]):
            groups.append([d for b, _ in boundary for d in b.shape])
            groups.append([b.elements * size for b, size in boundary])
        groups.append([b.elements for b in self.external])
        groups.append([span.buffer.elements for span in self.spans])
        return groups + [[*b.shape] for b in (*self.owned, *self.outputs)]

    @property
    def element_index(self) -> int:
        """The index among all dims of the elements of the first buffer in the arena."""
        return int(self._parts[len(self.texts) + 6].start)

    @property
    def shape_index(self) -> int:
        """The index among all dims of the first size of an owned result."""
        return int(self._parts[len(self.texts) + 6].stop)

    @cached_property
    def arena(self) -> ArenaLayout:
        """The layout of the arena."""
        return ArenaLayout(self.spans)

    @cached_property
    def owned_dtypes(self) -> list[Any]:
        """The dtype of each owned result."""
        return [numpy_dtype(b.dtype) for b in self.owned]

    @cached_property
    def owned_dims(self) -> list[Dim]:
        """The dims of all owned results."""
        return [dim for buffer in self.owned for dim in buffer.shape]

    @cached_property
    def constant_size(self) -> int:
        """The number of elements of all constants."""
        return sum([b.size for b in self.constants.values()])

    @cached_property
    def overwritten(self) -> tuple[int, ...]:
        """The numbers of the inputs whose memory results take."""
        return tuple([self.inputs.index(b) for b in self.recipe.overwritten])

    @cached_property
    def is_plain(self) -> bool:
        """Whether the results are exactly the output buffers."""
        return self.results == self.owned

    def _slices(self) -> list[slice]:
        ends = [0, *accumulate([len(group) for group in self._dims()])]
        return [slice(*pair) for pair in pairwise(ends)]

    def numbers(self, sizes: Sequence[int]) -> Numbers:
        """Evaluates all integers of the plan, at sizes in the order of `symbols`."""
        values = self._evaluate(sizes)
        count = len(self.texts)
        start = self._parts[count].start
        numbers = values[start:].tolist()
        parts = [numbers[p.start - start : p.stop - start] for p in self._parts[count:]]
        ranges, _, _, _, result_bytes, external, elements, *sizes = parts
        shapes = [tuple(shape) for shape in sizes]
        if any([size < 0 for shape in shapes for size in shape]):
            raise ShapeMismatchError(f"expected sizes >= 0, found {shapes}")
        words, slices = values[: self._words], self._parts[:count]
        return Numbers(words, slices, ranges, external, elements, result_bytes, shapes)

    def works(self, sizes: Mapping[Sym, int]) -> tuple[list[int], list[int]]:
        """Returns the picoseconds of each kernel, and the rows of its products."""
        symbols, evaluate = self._works
        values = evaluate([sizes[s] for s in symbols]).tolist()
        return values[: len(self.texts)], values[len(self.texts) :]

    @cached_property
    def _works(self) -> tuple[list[Sym], Evaluator]:
        works = [NO_WORK if t.estimate is None else t.estimate() for t in self.texts]
        values = [*[w.picoseconds for w in works], *[w.rows for w in works]]
        symbols = symbols_of(values)
        return symbols, Evaluator(values, symbols)

    @cached_property
    def layout(self) -> SpaceLayout:
        """The layout of the workspaces."""
        return SpaceLayout(self)

    def bound(self, sizes: Mapping[Sym, int], threads: int = 1) -> BoundPlan:
        """Binds the plan to sizes, for a number of threads."""
        return BoundPlan(self, self.numbers([sizes[s] for s in self.symbols]), sizes, threads)


def shared_from(works: Sequence[float]) -> float:
    """Returns the nanoseconds from which on the kernels of one call are shared.

    A call wakes the threads once: they stay awake between kernels.
    """
    total = sum([work for work in works if work >= MIN_SHARED_NANOSECONDS])
    return MIN_SHARED_NANOSECONDS * (1 if total >= TOGETHER * MIN_SHARED_NANOSECONDS else ALONE)


def chunk_of(length: int, threads: int, rows: int = 0) -> int:
    """Returns how many iterations a thread claims at once; 0 if there is one thread's work.

    `rows` are those of a product in one iteration. Each part of them reads the right operand: few
    rows are split evenly, and not below the number where reading it takes most of the time.
    """
    if length < 2 or 0 < length * rows < MIN_ROWS * threads:
        return 0
    chunk = -(-length // (CHUNKS_PER_THREAD * threads))
    aligned = -(-chunk // CHUNK_MULTIPLE) * CHUNK_MULTIPLE
    if aligned * LEAST_CHUNKS * threads <= length:
        return aligned
    chunks = [-(-length // (k * threads)) for k in range(CHUNKS_PER_THREAD, 0, -1)]
    if rows:
        chunks = [n for n in chunks[:-1] if n * rows >= PRODUCT_ROWS] or chunks[-1:]
    return min(chunks, key=lambda chunk: -(-length // (chunk * threads)) * chunk)


def part_of_phases(length: int, threads: int, work: float) -> int:
    """Returns how many iterations a thread has in each phase of a kernel; 0 if the phases are too
    short to be shared. `work` are the nanoseconds of a phase on one thread."""
    if work < MIN_PHASE_NANOSECONDS:
        return 0
    part = -(-length // (threads * PART_MULTIPLE)) * PART_MULTIPLE
    return part if part < length else 0


class BoundPlan:
    """A plan at given sizes. Concurrent calls use different workspaces."""

    def __init__(
        self, plan: KernelPlan, numbers: Numbers, sizes: Mapping[Sym, int], threads: int
    ) -> None:
        self.plan, self.numbers, self.sizes = plan, numbers, sizes
        owned = len(plan.owned)
        self.owned_forms = list(zip(numbers.shapes[:owned], plan.owned_dtypes, strict=True))
        self.output_shapes = numbers.shapes[owned:]
        self.free: list[Workspace] = []
        self.elements_touched = sum(numbers.external) + sum(numbers.elements) + plan.constant_size
        self.is_plain = plan.is_plain
        is_shared = threads > 1 and self.elements_touched >= MIN_SHARED_ELEMENTS
        self.threads = threads if is_shared else 1
        self.chunks = self._chunks()
        self.pool = pool_of(threads) if any(self.chunks) else None
        if self.pool is None:
            self.threads, self.chunks = 1, [0] * len(plan.texts)
        self.bytes_of_one_thread: dict[Buffer, int] = {}
        self.offsets, self.arena_bytes = plan.arena.assign(self._arena_elements())

    @property
    def result_forms(self) -> list[tuple[tuple[int, ...], Any]]:
        """The shape and dtype of each result."""
        shapes = dict(zip(self.plan.outputs, self.output_shapes, strict=True))
        return [(shapes[b], numpy_dtype(b.dtype)) for b in self.plan.results]

    def bytes_of(self, buffer: Buffer) -> int:
        """Returns the size of a buffer in bytes."""
        return dims.evaluate(buffer.elements, self.sizes) * element_bytes(buffer.dtype)

    def _chunks(self) -> list[int]:
        """Returns the number of iterations of each kernel that a thread claims at once."""
        if self.threads == 1:
            return [0] * len(self.plan.texts)
        works, rows = self.works
        least = shared_from(works)
        kernels = zip(
            self.plan.texts, self.numbers.sizes, self.numbers.ranges, works, rows, strict=True
        )
        return [self._chunk(*kernel) if kernel[3] >= least else 0 for kernel in kernels]

    def _chunk(
        self, text: KernelText, sizes: tuple[int, ...], length: int, work: float, rows: int
    ) -> int:
        if text.has_phases:
            phases = sizes[PHASE.last - len(PHASE)]
            return part_of_phases(length, self.threads, work / max(1, phases - 1))
        return chunk_of(length, self.threads, rows)

    @cached_property
    def works(self) -> tuple[list[float], list[int]]:
        """The estimated nanoseconds of each kernel that threads can share, -1 for the others; and
        the rows of a product in one iteration of each kernel."""
        picoseconds, rows = self.plan.works(self.sizes)
        pairs = zip(self.plan.texts, self.numbers.ranges, picoseconds, strict=True)
        # a function of Python has its own scratch memory
        is_shared = [text.function is None and length >= 2 for text, length, _ in pairs]
        times = [p / 1000 if s else -1.0 for s, p in zip(is_shared, picoseconds, strict=True)]
        return times, rows

    def _arena_elements(self) -> Sequence[int]:
        """Returns the elements of each buffer in the arena; scratch memory is per thread."""
        if self.threads == 1:
            return self.numbers.elements
        scratch = {b for text in self.plan.texts for b in text.scratch}
        counts = []
        for span, count in zip(self.plan.spans, self.numbers.elements, strict=True):
            if span.buffer in scratch:
                line_elements = ALIGNMENT // span.element_bytes
                count = -(-count // line_elements) * line_elements
                self.bytes_of_one_thread[span.buffer] = count * span.element_bytes
                count *= self.threads
            counts.append(count)
        return counts

    @cached_property
    def spaces_of_calls(self) -> list[Workspace]:
        """The workspaces of native calls. One call at a time uses each of them."""
        return [Workspace(self)]

    def is_short_of_spaces(self) -> bool:
        """Whether concurrent calls use all workspaces of native calls, and more are allowed."""
        spaces = self.spaces_of_calls
        is_allowed = len(spaces) * self.arena_bytes < MAX_CACHED_BYTES and len(spaces) < MAX_SPACES
        return is_allowed and all([space.words[SPACE.busy] for space in spaces])

    @property
    def is_large(self) -> bool:
        """Whether a result is so large that its memory is pooled."""
        return any([is_large(size) for size in self.numbers.result_bytes])

    def workspace(self) -> Workspace:
        """Returns a workspace for exclusive use, until `give_back`.

        Those of native calls are preferred, so that calls that do not overlap share one arena.
        """
        for space in self.__dict__.get("spaces_of_calls", ()):
            if not space.words[SPACE.busy] and space_reserver()(space.address):
                reserved: Workspace = space
                return reserved
        try:
            return self.free.pop()
        except IndexError:
            return Workspace(self)

    def give_back(self, space: Workspace) -> None:
        """Returns a workspace to the pool."""
        if any([space is native for native in self.__dict__.get("spaces_of_calls", ())]):
            space.words[SPACE.busy] = 0
        else:
            self.free.append(space)

    def run(self, space: Workspace) -> None:
        """Runs the plan on the addresses in the workspace: inputs first, then owned results."""
        record = recording.get()
        failed = record(self, space) if record else run_space()(space.address)
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
        self._bytes = 0  # of all arenas
        self._lock = new_lock()

    def get(self, key: Any) -> BoundPlan | None:
        """Returns the plan bound to these sizes, if it is cached."""
        return self._plans.get(key)

    def put(self, key: Any, plan: BoundPlan) -> bool:
        """Caches a plan; returns whether others were evicted.

        A full cache evicts a quarter of its plans, the oldest, since each eviction rebuilds the
        table of native calls.
        """
        with self._lock:
            replaced = self._plans.pop(key, None)
            self._plans[key] = plan
            self._bytes += plan.arena_bytes - (replaced.arena_bytes if replaced else 0)
            if not self._is_over(MAX_CACHED_PLANS, MAX_CACHED_BYTES):
                return replaced is not None
            while len(self._plans) > 1 and self._is_over(
                MAX_CACHED_PLANS * 3 // 4, MAX_CACHED_BYTES
            ):
                self._bytes -= self._plans.popitem(last=False)[1].arena_bytes
            return True

    def _is_over(self, plans: int, arena_bytes: int) -> bool:
        return len(self._plans) > plans or self._bytes > arena_bytes

    def latest(self) -> list[BoundPlan]:
        """Returns all cached plans, the latest first."""
        with self._lock:
            return list(reversed(self._plans.values()))

    def has(self, plan: BoundPlan) -> bool:
        """Whether a plan is cached."""
        with self._lock:
            return any([cached is plan for cached in self._plans.values()])

    def __len__(self) -> int:
        return len(self._plans)
