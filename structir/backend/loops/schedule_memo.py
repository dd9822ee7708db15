"""Writes equal groups once: the kernels of the others are those of the first, over other buffers.

Layers of a model are groups that are equal but for their buffers and axes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import attrs

from structir.backend.loops.buffer import Buffer
from structir.backend.loops.group import Group
from structir.backend.loops.group_key import GroupKey
from structir.backend.loops.kernel_text import KernelText
from structir.backend.loops.packing import origin_of, packed_buffer

Schedule = Callable[[Group], KernelText | None]


@attrs.frozen(eq=False)
class _WrittenKernel:
    """A kernel that was written, and the buffers of its group."""

    text: KernelText
    buffers: Sequence[Buffer]


class ScheduleMemo:
    """Schedules of one program that write equal groups once."""

    def __init__(self) -> None:
        self._templates: dict[Hashable, _WrittenKernel] = {}

    def schedules(self, schedules: Mapping[str, Schedule]) -> Mapping[str, Schedule]:
        """Returns schedules by kind that write equal groups once."""
        return {kind: self._once(schedule) for kind, schedule in schedules.items()}

    def _once(self, schedule: Schedule) -> Schedule:
        def write(group: Group) -> KernelText | None:
            if any(stage.routine is not None for stage in group.stages):
                return schedule(group)
            key = GroupKey(group)
            template = self._templates.get(key.value)
            if template is not None:
                return _instance(template, group, list(key.buffers))
            text = schedule(group)
            if text is not None and _is_renamable(text, group, key):
                self._templates[key.value] = _WrittenKernel(text, list(key.buffers))
            return text

        return write


def _is_renamable(text: KernelText, group: Group, key: GroupKey) -> bool:
    """Whether a kernel mentions nothing of its group but buffers that can be replaced."""
    if text.sites or text.function or text.origins != group.origins:
        return False
    constants = {id(buffer.data) for buffer in key.buffers}
    return all(
        buffer in key.buffers or buffer.origin == "scratch" or _packed_of(buffer) in constants
        for buffer in (*text.pointers, *text.scratch)
    )


def _packed_of(buffer: Buffer) -> int | None:
    """Returns the identity of the constant that a buffer has in panels."""
    origin = None if buffer.data is None else origin_of(buffer.data)
    return None if origin is None else id(origin.data())


def _instance(template: _WrittenKernel, group: Group, buffers: Sequence[Buffer]) -> KernelText:
    """Returns the kernel of an equal group."""
    pairs = zip(template.buffers, buffers, strict=True)
    renamed: dict[Buffer, Buffer] = dict(pairs)
    constants = {id(b.data): now for b, now in renamed.items() if b.data is not None}
    for buffer in (*template.text.pointers, *template.text.scratch):
        if buffer not in renamed:
            renamed[buffer] = _renewed(buffer, constants)
    return attrs.evolve(
        template.text,
        pointers=tuple([renamed[b] for b in template.text.pointers]),
        scratch=tuple([renamed[b] for b in template.text.scratch]),
        origins=group.origins,
    )


def _renewed(buffer: Buffer, constants: Mapping[int, Buffer]) -> Buffer:
    """Returns scratch memory of a kernel of its own, or the panels of its own constant."""
    origin: Any = None if buffer.data is None else origin_of(buffer.data)
    if origin is not None:
        return packed_buffer(constants[id(origin.data())], origin.form, origin.packing)
    return Buffer(buffer.shape, buffer.dtype, buffer.origin, name=buffer.name)
