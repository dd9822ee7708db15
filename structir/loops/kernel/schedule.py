"""From a program of stages to its kernels, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs

from structir.loops.emit.called import called_kernel
from structir.loops.fusion.group import Decision, Group, ProductSupport, grouped
from structir.loops.kernel.as_scheduled import WITH_NUMBERS, matrix_nodes
from structir.loops.kernel.deduplication import NumberParameters
from structir.loops.kernel.in_place_results import with_reuse
from structir.loops.kernel.library_nodes import text_of
from structir.loops.kernel.planes import with_planes
from structir.loops.kernel.schedule_memo import ScheduleMemo
from structir.loops.kernel.short_rows import has_short_rows, short_row_nodes
from structir.loops.kernel.transposes import transpose_kernel, transpose_of
from structir.loops.lower.rounding import roundings
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import exactly
from structir.loops.program.in_place import with_updates
from structir.loops.program.kernel_text import KernelText
from structir.loops.program.stage import KernelCall, LoopProgram
from structir.loops.rewrite.exponentials import with_nonpositive_exponentials
from structir.loops.rewrite.im2col import plain_windows
from structir.loops.rewrite.interleaved import with_products_together
from structir.loops.rewrite.view_inlining import with_inlined_views
from structir.loops.rewrite.window_sums import is_faster_than_product
from structir.loops.rewrite.wrapped import with_runs
from structir.targets.cpu.point_kernels import PointKernel


def routine_kernel(group: Group) -> KernelText | None:
    """Returns the source of a routine, for the stage that runs it."""
    stage = group.stages[0]
    routine = stage.routine
    if routine is None or not routine.runs:
        return None
    if isinstance(routine, KernelCall):
        return called_kernel(routine, stage.origin)
    kernel = PointKernel(routine)
    return KernelText(
        kernel.source,
        routine.buffers,
        routine.sizes,
        routine.range,
        origins=(stage.origin,),
        function=kernel,
    )


def any_row_kernel(numbers: NumberParameters, group: Group) -> KernelText:
    """Returns the kernel of a row group: vectors across short rows, in-register transposes, and
    others by their recipe."""
    transpose = transpose_of(group)
    if transpose is not None:
        return text_of(transpose_kernel(group, transpose, "kernel"), group)
    if has_short_rows(group):
        return text_of(short_row_nodes(group, "kernel"), group, numbers.are_shared(group))
    return numbers.kernel(group)


def matrix_kernel(group: Group) -> KernelText:
    """Returns the kernel of a matrix product."""
    return text_of(matrix_nodes(group, "kernel"), group)


Settled = tuple[Sequence[Group], Mapping[Buffer, Buffer]]
SUPPORT = ProductSupport(windows=is_faster_than_product)


@attrs.frozen
class Scheduled:
    """The kernels of a program, and the fusion decisions."""

    program: LoopProgram
    groups: tuple[Group, ...]
    kernels: tuple[KernelText, ...]
    decisions: tuple[Decision, ...]
    made_from: tuple[Group, ...]  # the group of each kernel
    moved: Mapping[Buffer, Buffer] = attrs.Factory(dict)  # outputs in the memory of inputs


def scheduled(program: LoopProgram, exact: bool = False, fast: bool = False) -> Scheduled:
    """Composes, groups and schedules a program; with `exact`, scalar functions are not rewritten;
    with `fast`, without roundings between ops."""
    if exact:
        stages = [attrs.evolve(s, body=exactly(s.body)) for s in program.stages]
        program = attrs.evolve(program, stages=tuple(stages))
    with roundings(skipped=fast):
        program = _rewritten(program)
        numbers = NumberParameters()
        schedules: dict[str, Callable[[Group], KernelText | None]] = {
            "rows": partial(any_row_kernel, numbers),
            "matrix": matrix_kernel,
            "routine": routine_kernel,
            **{kind: partial(numbers.kernel_of, nodes=f) for kind, f in WITH_NUMBERS.items()},
        }
        settled = partial(_settled, numbers)
        return written(program, ScheduleMemo().schedules(schedules), settled=settled)


def settled_groups(program: LoopProgram) -> Sequence[Group]:
    """Returns the groups of a program, with their memory shared."""
    program = _rewritten(program)
    groups, _ = grouped(program, SUPPORT)
    return _settled(NumberParameters(), program, groups)[0]


def _rewritten(program: LoopProgram) -> LoopProgram:
    """Returns the composed program with its stages as they are grouped."""
    program = with_nonpositive_exponentials(_plain(with_inlined_views(program)))
    return with_updates(with_products_together(with_runs(program)))


def _plain(program: LoopProgram) -> LoopProgram:
    """Returns the composed program with plain windows, composed again if there are any."""
    plain = plain_windows(program)
    return program if plain.stages == program.stages else with_inlined_views(plain)


def _settled(numbers: NumberParameters, program: LoopProgram, groups: Sequence[Group]) -> Settled:
    """Returns the groups with their memory shared, and the outputs that share the memory of
    inputs."""
    settled, moved = with_reuse(program, with_planes(program, groups))
    numbers.add(settled)
    return settled, moved


def _texts(found: KernelText | tuple[KernelText, ...] | None) -> tuple[KernelText, ...]:
    if found is None:
        return ()
    return found if isinstance(found, tuple) else (found,)


def written(
    program: LoopProgram,
    schedules: Mapping[str, Callable[[Group], KernelText | tuple[KernelText, ...] | None]],
    products: ProductSupport = SUPPORT,
    settled: Callable[[LoopProgram, Sequence[Group]], Settled] = lambda _, groups: (groups, {}),
) -> Scheduled:
    """Groups a program and schedules each group by its kind, mostly as one kernel."""
    fused_groups, decisions = grouped(program, products)
    groups, moved = settled(program, fused_groups)
    texts = [(g, text) for g in groups for text in _texts(schedules[g.kind](g))]
    kernels = tuple([text for _, text in texts])
    made_from = tuple([g for g, _ in texts])
    return Scheduled(program, tuple(groups), kernels, tuple(decisions), made_from, moved)
