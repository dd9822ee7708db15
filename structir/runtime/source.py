"""Prints the kernels of plans as source, with their origins and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from structir.ir import dims
from structir.loops.program.buffer import Buffer
from structir.loops.program.kernel_text import KernelText
from structir.runtime.plans.plan import KernelPlan
from structir.targets.cpu.objects import SOURCE_HEAD


def source_of(plans: Iterable[KernelPlan]) -> str:
    """Returns all kernels of some plans in execution order; equal ones once."""
    return "\n".join(part for plan in plans for part in PlanSource(plan.texts, plan.owned).parts())


class PlanSource:
    """The source of one plan: kernels and unnamed values are numbered."""

    def __init__(self, kernels: Sequence[KernelText], owned: Sequence[Buffer]) -> None:
        self.kernels, self.owned = kernels, owned
        self.names = {b: "result" for b in owned}
        if len(owned) > 1:
            self.names = {b: f"result {k}" for k, b in enumerate(owned)}

    def parts(self) -> Iterator[str]:
        """Returns the kernels, each with a heading that explains it."""
        numbers: dict[str, int] = {}
        for number, kernel in enumerate(self.kernels, 1):
            first = numbers.setdefault(kernel.text, number)
            head = [f"kernel {number}", *origins(kernel.origins), *self._names(kernel)]
            text = kernel.text
            if text.startswith(SOURCE_HEAD):
                text = text.partition("\n")[2]
            body = text if first == number else f"# same source as kernel {first}\n"
            yield "\n".join([*[f"# {line}".rstrip() for line in head], body])

    def _names(self, kernel: KernelText) -> Iterator[str]:
        names = kernel.parameters
        rows = [
            (names[k], self._name(buffer, kernel), f"{buffer.dtype} {_shape(buffer)}")
            for k, buffer in enumerate(kernel.pointers)
        ]
        sizes = enumerate(_numbers(kernel), len(kernel.pointers))
        rows += [(names[k], number, "") for k, number in sizes]
        rows += dict.fromkeys([("checks", site.place, "") for site in kernel.sites])
        rows.append(("lo, hi", f"a part of 0 to {dims.text(kernel.range)}", ""))
        width = max(len(row[1]) for row in rows[:-1]) if len(rows) > 1 else 0
        for name, stands_for, form in rows:
            yield f"    {name:6}  {stands_for:{width}}  {form}"

    def _name(self, buffer: Buffer, kernel: KernelText) -> str:
        if buffer in kernel.scratch:
            return "scratch"
        if buffer.origin == "constant":
            return "constant"
        return buffer.name or self.names.setdefault(buffer, f"value {self._values()}")

    def _values(self) -> int:
        return len(self.names) - len(self.owned) + 1


def _numbers(kernel: KernelText) -> list[str]:
    """Returns the sizes of a kernel, and the numbers that are not part of its shared source."""
    first = len(kernel.sizes) - kernel.singles
    singles = np.array(kernel.sizes[first:], np.int32).view(np.float32)
    return [*map(dims.text, kernel.sizes[:first]), *map(str, singles)]


def origins(names: Iterable[str]) -> Iterator[str]:
    """Returns the ops of a kernel; the parts of one composite are on one line."""
    for composite, group in groupby(names, key=lambda origin: origin.rpartition(": ")[0]):
        if composite:
            yield f"{composite}: {', '.join(origin.rpartition(': ')[2] for origin in group)}"
        else:
            yield from group


def _shape(buffer: Buffer) -> str:
    sizes = [dims.text(size) for size in buffer.shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
