"""Workspaces: the memory of one call at a time, an instance of a layout that each plan has once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structir.errors import LIMITS, Diagnostic, StructIRError, rejected
from structir.runtime.plans.sizes import ALIGNMENT
from structir.targets.cpu.layouts import PHASE, ROW, SPACE

KernelPlan = Any  # of plan.py,
BoundPlan = Any  # which imports this file
WORD = 8
REPORT_WORDS = 3  # words in which a kernel stores the site, index and size of an error
GIL_RELEASE_ELEMENTS = 1 << 14  # accessed by a call that releases the GIL


class SpaceLayout:
    """The layout of the workspaces of a plan: one array with the words of the space, its tables,
    the program, the external addresses, and the argument block of each thread.

    `template` holds all words that no size changes; `sized` are the indices of those that do.
    """

    def __init__(self, plan: KernelPlan) -> None:
        self.plan = plan
        kernels, external = len(plan.texts), len(plan.external)
        dims = [sum([len(b.shape) for b in group]) for group in (plan.inputs, plan.owned)]
        tables = len(SPACE)
        self.rows = tables + sum(dims) + external + 1
        self.outside = self.rows + len(ROW) * kernels + 1
        self.arguments = self.outside + external + 1
        self._add_arguments(plan)
        self.template = np.zeros(self.arguments + self.stride, np.int64)
        self.template[self.arguments :] = self.words
        self._add_rows(plan)
        ends = np.cumsum([tables, dims[0], len(plan.inputs), dims[1]]).tolist()
        inside = (SPACE.dims, SPACE.input_bytes, SPACE.result_dims, SPACE.result_bytes)
        for word, index in zip(inside, ends, strict=True):
            self.template[word] = WORD * index
        self.template[SPACE.rows] = WORD * self.rows
        self.template[SPACE.outside] = WORD * self.outside
        self.template[SPACE.arguments] = WORD * self.arguments
        relocated = [*inside, SPACE.rows, SPACE.outside, SPACE.arguments]
        relocated += [self.rows + len(ROW) * k + ROW.table for k in range(kernels)]
        self.relocated = np.array(relocated, np.int64)
        ranges = [self.rows + len(ROW) * k + ROW.high for k in range(kernels)]
        table_words = range(tables, self.rows - 1)
        self.sized = np.array([*self._size_words, *ranges, *table_words], np.int64)

    def _add_arguments(self, plan: KernelPlan) -> None:
        """Lays out the argument block of one thread."""
        span_of = {span.buffer: number for number, span in enumerate(plan.spans)}
        words: list[int] = []
        self.starts: list[int] = []
        self._size_words: list[int] = []
        self.patches: list[int] = []
        self.spans: list[tuple[int, int]] = []  # an index in the block, and the number of a span
        for text in plan.texts:
            self.starts.append(len(words))
            for buffer in text.pointers:
                if buffer in plan.external:
                    self.patches += [len(words), plan.external[buffer]]
                elif buffer in span_of:
                    self.spans.append((len(words), span_of[buffer]))
                constant = plan.constants.get(buffer)
                words.append(0 if constant is None else int(constant.ctypes.data))
            self._size_words += [self.arguments + len(words) + k for k in range(len(text.sizes))]
            words += [0] * (len(text.sizes) + (REPORT_WORDS if text.sites else 0))
        self.words = [*words, 0]
        self.stride = len(self.words)
        self.span_words = np.array([self.arguments + index for index, _ in self.spans], np.int64)
        self.span_numbers = np.array([number for _, number in self.spans], np.int64)
        self._patch_table = np.array([*self.patches, 0], np.int64)

    def _add_rows(self, plan: KernelPlan) -> None:
        template = self.template
        for k, start in enumerate(self.starts):
            row = self.rows + len(ROW) * k
            template[row + ROW.code] = plan.kernels[k].address
            template[row + ROW.table] = WORD * (self.arguments + start)
            text = plan.texts[k]
            words = len(text.pointers) + len(text.sizes)
            template[row + ROW.phase] = words - len(PHASE) if text.has_phases else 0
        template[SPACE.row_count] = len(plan.texts)
        template[SPACE.patches] = self._patch_table.ctypes.data
        template[SPACE.patch_count] = len(self.patches) // 2
        template[SPACE.stride] = self.stride


class Workspace:
    """The memory of one call at a time: the argument block, the program that points into it, and
    the arena."""

    def __init__(self, bound: BoundPlan, arena: Any = None) -> None:
        plan, numbers, threads = bound.plan, bound.numbers, bound.threads
        layout = plan.layout
        self.plan = plan
        memory = layout.template.copy()
        if threads > 1:
            block = layout.template[layout.arguments :]
            memory = np.concatenate([memory, *[block] * (threads - 1)])
        memory[layout.sized] = numbers.words
        self.address = int(memory.ctypes.data)
        memory[layout.relocated] += self.address
        self.arena = arena
        if len(bound.offsets):
            if arena is None:
                self.arena = np.empty(bound.arena_bytes + ALIGNMENT, np.uint8)
            base = -(-self.arena.ctypes.data // ALIGNMENT) * ALIGNMENT
            memory[layout.span_words] = (bound.offsets + base)[layout.span_numbers]
        self.arguments = memory[layout.arguments :].reshape(threads, layout.stride)
        self.outside = memory[layout.outside : layout.arguments]
        self.words = memory
        memory[SPACE.long] = bound.elements_touched > GIL_RELEASE_ELEMENTS
        memory[SPACE.threads] = threads
        if threads > 1:
            self._share(bound)
        self.running: Sequence[int] = range(len(numbers.ranges))
        if min(numbers.ranges, default=1) <= 0:
            self._skip_empty(numbers.ranges)

    def _share(self, bound: BoundPlan) -> None:
        """Copies the arguments for each thread, and shares the kernels that are worth it."""
        layout, threads = bound.plan.layout, bound.threads
        self.arguments[1:] = self.arguments[0]
        for index, number in layout.spans:
            step = bound.bytes_of_one_thread.get(bound.plan.spans[number].buffer, 0)
            self.arguments[:, index] += step * np.arange(threads)
        rows = self._rows(layout, len(bound.chunks))
        rows[:, ROW.chunk] = bound.chunks
        self.words[SPACE.pool] = bound.pool.address if bound.pool and any(bound.chunks) else 0

    def _skip_empty(self, ranges: Sequence[int]) -> None:
        """Removes the kernels without iterations from the program."""
        rows = self._rows(self.plan.layout, len(ranges))
        self.running = [k for k, count in enumerate(ranges) if count > 0]
        rows[: len(self.running)] = rows[self.running]
        self.words[SPACE.row_count] = len(self.running)

    def _rows(self, layout: SpaceLayout, count: int) -> Any:
        return self.words[layout.rows : layout.rows + len(ROW) * count].reshape(count, len(ROW))

    def failure(self, row: int) -> StructIRError:
        """Returns the error that the kernel at a row has reported."""
        number = self.running[row]
        text = self.plan.texts[number]
        if not text.sites:
            origins = ", ".join(text.origins) or f"kernel {number}"
            return rejected(text.rejection or Diagnostic(LIMITS), origins.removeprefix("R."))
        report = self.plan.layout.starts[number] + len(text.pointers) + len(text.sizes)
        reports = self.arguments[:, report : report + REPORT_WORDS]
        site, index, size = next([int(w) for w in words] for words in reports if words[0])
        reports[:] = 0
        error: StructIRError = text.sites[site - 1].error(index, size)
        return error
