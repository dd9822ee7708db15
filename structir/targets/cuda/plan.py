"""Plans on a device: kernels with their launches at given sizes, over an arena on the device."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from structir.errors import StructIRError
from structir.ir import dims
from structir.ir.dims import Poly, Sym
from structir.ir.dtype import numpy_dtype
from structir.loops.program.buffer import Buffer
from structir.loops.program.kernel_text import KernelText
from structir.runtime.kernel_sequence import KernelSequence
from structir.runtime.plans.plan import KernelPlan, Numbers
from structir.runtime.plans.sizes import ALIGNMENT
from structir.runtime.plans.workspace import REPORT_WORDS
from structir.system import progress
from structir.system.locks import cached_property
from structir.targets.cuda.arrays import DeviceArray, moved
from structir.targets.cuda.device import Device, DeviceMemory, KernelPointer, Launch
from structir.targets.cuda.device_text import DeviceText, OperandStrides, Product

WARP = 32
EACH = 12  # elements of a row per thread: on an H200, faster than 1 to 8 for rows of 384
MOST_PARTS = 1024  # blocks of a kernel whose blocks have scratch memory
MOST_PREPARED = 16  # sets of arrays for which prepared launches are cached
WORD = 8


class DevicePlan(KernelPlan):
    """The kernels of one program, compiled for a device."""

    def __init__(self, recipe: KernelSequence, device: Device, tf32: bool = False) -> None:
        self.device, self.tf32 = device, tf32
        super().__init__(recipe)

    def compiled(self, texts: Sequence[KernelText]) -> Sequence[Any]:
        """Compiles kernels for the device."""
        return [self._compiled(text) for text in texts]

    def _compiled(self, text: KernelText) -> Any:
        progress.note(next(iter(text.origins), ""))
        return self.device.kernel(text)  # type: ignore[arg-type]

    @cached_property
    def constant_arrays(self) -> dict[Buffer, DeviceArray]:
        """The constants, copied to the device once."""
        held = {*self.constants, *[b.root for b in self.results if b.root.data is not None]}
        return {b: moved(self.device, b.data) for b in held}

    def bound(self, sizes: Mapping[Sym, int], threads: int = 1) -> Any:
        """Binds the plan to sizes."""
        return BoundDevicePlan(self, self.numbers([sizes[s] for s in self.symbols]), sizes)


@attrs.frozen(eq=False)
class PlanMemory:
    """Memory of a bound plan on one stream: the arena with its buffers, and the error report of
    kernels."""

    arena: DeviceMemory
    places: Mapping[Buffer, int]
    reports: DeviceMemory


class BoundDevicePlan:
    """A plan at given sizes: an arena, and the launches on given arrays."""

    def __init__(self, plan: DevicePlan, numbers: Numbers, sizes: Mapping[Sym, int]) -> None:
        self.plan, self.numbers, self.sizes = plan, numbers, sizes
        owned = len(plan.owned)
        dtypes = [numpy_dtype(b.dtype) for b in plan.owned]
        self.owned_forms = list(zip(numbers.shapes[:owned], dtypes, strict=True))
        self.output_shapes = numbers.shapes[owned:]
        both = zip(plan.texts, numbers.ranges, strict=True)
        self.blocks = [self._blocks(text, count) for text, count in both]  # type: ignore[arg-type]
        self.failing = any(text.sites for text in plan.texts)
        self._ready: OrderedDict[tuple[int, ...], Callable[[], None]] = OrderedDict()
        self._spaces: dict[int, PlanMemory] = {}

    def space(self, stream: int) -> PlanMemory:
        """Returns the memory that the calls on a stream share; they run one after another."""
        memory = self._spaces.get(stream)
        if memory is None:
            device, (offsets, size) = self.plan.device, self.layout
            arena = device.allocate(size + ALIGNMENT, stream)
            base = -(-arena.address // ALIGNMENT) * ALIGNMENT
            both = zip(self.plan.spans, offsets, strict=True)
            places = {span.buffer: base + offset for span, offset in both}
            reports = device.allocate(WORD * REPORT_WORDS * len(self.plan.texts), stream)
            memory = self._spaces[stream] = PlanMemory(arena, places, reports)
        return memory

    def _size(self, size: dims.Dim) -> int:
        return dims.evaluate(size, self.sizes)

    def threads(self, text: DeviceText) -> int:
        """Returns the threads per block: no more warps than a row has work for."""
        if text.launch is not None:
            return text.launch[1]
        if text.warps or text.square:
            return text.warps * WARP or self.plan.device.side**2
        most = self.plan.device.threads
        if text.any_warps:
            return max(most, WARP)
        if text.width is None or most < WARP:
            return most
        return min(max(-(-self._size(text.width) // (WARP * EACH)), 1) * WARP, most)

    def _blocks(self, text: DeviceText, count: int) -> int:
        if text.launch is not None:
            return max(self._size(text.launch[0]), 0)
        most = self.plan.device.blocks
        single = text.square or text.warps or text.any_warps or text.width is not None
        blocks = count if single else -(-count // self.threads(text))
        return min(blocks, min(most, MOST_PARTS) if text.scratch else most)

    @cached_property
    def layout(self) -> tuple[list[int], int]:
        """Returns the offset of each buffer in the arena, and the size of the arena."""
        parts: dict[Buffer, int] = {}
        for text, blocks in zip(self.plan.texts, self.blocks, strict=True):
            own = text.function is None and not text.names
            parts |= {buffer: blocks if own else 1 for buffer in text.scratch}
        pairs = zip(self.plan.spans, self.numbers.elements, strict=True)
        counts = [max(count, 0) * parts.get(span.buffer, 1) for span, count in pairs]
        offsets, size = self.plan.arena.assign(counts)
        return offsets.tolist(), size

    @property
    def arena_bytes(self) -> int:
        """The size of the arena."""
        return self.layout[1]

    @property
    def is_plain(self) -> bool:
        """Whether the results are exactly the buffers that are written."""
        return self.plan.results == self.plan.owned

    def launches(
        self, inputs: Sequence[DeviceArray], owned: Sequence[DeviceArray], space: PlanMemory
    ) -> list[Launch]:
        """Returns all kernels on these arrays, in order, without those that have nothing to do."""
        given = dict(zip(self.plan.inputs, inputs, strict=True))
        given |= dict(zip(self.plan.owned, owned, strict=True))
        given |= self.plan.constant_arrays
        return [
            self._launch(k, given, space)
            for k, count in enumerate(self.numbers.ranges)
            if count > 0
        ]

    def _launch(self, k: int, given: Mapping[Buffer, DeviceArray], space: PlanMemory) -> Launch:
        text: Any = self.plan.texts[k]
        blocks, arguments = self.blocks[k], []
        for buffer in text.pointers:
            argument = given.get(buffer)
            address = space.places[buffer] if argument is None else argument.address
            count = self._size(buffer.elements) * (blocks if buffer in text.scratch else 1)
            arguments.append(KernelPointer(address, buffer.dtype, count))
        if text.sites:
            place = space.reports.address + WORD * REPORT_WORDS * k
            arguments.append(KernelPointer(place, "int64", REPORT_WORDS))
        return Launch(
            self.plan.kernels[k],
            blocks,
            self.threads(text),
            tuple(arguments),
            tuple(self.numbers.sizes[k]),
            None if text.product is None else self._in_numbers(text.product),
            self.plan.tf32,
        )

    def _in_numbers(self, value: Any) -> Any:
        """Replaces the sizes in a description by numbers."""
        if isinstance(value, Product | OperandStrides):
            fields = [self._in_numbers(getattr(value, f.name)) for f in attrs.fields(type(value))]
            return type(value)(*fields)
        if isinstance(value, tuple):
            return tuple([self._size(size) for size in value])
        return self._size(value) if isinstance(value, Poly) else value

    def run(
        self, inputs: Sequence[DeviceArray], owned: Sequence[DeviceArray], stream: int = 0
    ) -> None:
        """Runs the kernels into the given results; waits for the error report if kernels may
        fail."""
        launch = self._prepared(inputs, owned, stream)
        if not self.failing:
            launch()
            return
        device, place = self.plan.device, self.space(stream).reports.address
        reports = np.zeros((len(self.plan.texts), REPORT_WORDS), np.int64)
        device.copy_in(place, reports, stream)
        launch()
        device.copy_out(reports, place, stream)
        device.synchronize(stream)
        self._raise_reported(reports)

    def _prepared(
        self, inputs: Sequence[DeviceArray], owned: Sequence[DeviceArray], stream: int
    ) -> Callable[[], None]:
        """Returns the memoized function that runs the kernels on these arrays."""
        key = (stream, *[array.address for array in (*inputs, *owned)])
        run = self._ready.get(key)
        if run is not None:
            self._ready.move_to_end(key)
            return run
        launches = self.launches(inputs, owned, self.space(stream))
        run = self._ready[key] = self.plan.device.prepared(launches, stream)
        while len(self._ready) > MOST_PREPARED:
            self._ready.popitem(last=False)
        return run

    def _raise_reported(self, reports: Any) -> None:
        for text, (site, index, size) in zip(self.plan.texts, reports.tolist(), strict=True):
            if site:
                error: StructIRError = text.sites[site - 1].error(index, size)
                raise error
