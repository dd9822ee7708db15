"""From a program of stages to its kernels, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs

from structir.ir.dtype import is_float
from structir.loops.emit.called import called_kernel
from structir.loops.fusion.group import COPIES, Decision, Group, ProductSupport, grouped
from structir.loops.fusion.products_together import products_together
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.by_recipe import NumberParameters, kernel_by_recipe, scheduled_blocks
from structir.loops.kernel.columns import column_nodes
from structir.loops.kernel.extrema import extremum_nodes, is_extremum
from structir.loops.kernel.handwritten import scheduled_nests
from structir.loops.kernel.in_place_results import with_reuse
from structir.loops.kernel.library_nodes import text_of
from structir.loops.kernel.matrix import product_kernel
from structir.loops.kernel.nest import nest_nodes
from structir.loops.kernel.padding import padding_nodes
from structir.loops.kernel.planes import plane_nodes, with_planes
from structir.loops.kernel.product_blocks import product_blocks
from structir.loops.kernel.schedule_memo import ScheduleMemo
from structir.loops.kernel.short_rows import has_short_rows, short_row_nodes
from structir.loops.kernel.transposes import transpose_kernel, transpose_of
from structir.loops.kernel.turned_maps import turned_map, turned_map_kernel
from structir.loops.kernel.window_nodes import window_sums_nodes
from structir.loops.lower.as_scalar import NotShown
from structir.loops.lower.rounding import roundings
from structir.loops.products.contraction import contraction_of, has_few_columns
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import exactly
from structir.loops.program.in_place import with_updates
from structir.loops.program.kernel_text import KernelText
from structir.loops.program.stage import KernelCall, LoopProgram, Stage
from structir.loops.rewrite.exponentials import with_nonpositive_exponentials
from structir.loops.rewrite.im2col import plain_windows
from structir.loops.rewrite.interleaved import with_products_together
from structir.loops.rewrite.minimal_filtering import with_minimal_filters
from structir.loops.rewrite.view_inlining import with_inlined_views
from structir.loops.rewrite.window_sums import is_faster_than_product
from structir.loops.rewrite.wrapped import with_runs
from structir.targets.cpu.point_kernels import PointKernel

Nodes = Callable[[Group, str], ShownKernel]  # of a group, and the name of the kernel


def routine_kernel(group: Group) -> KernelText | None:
    """Returns the source of a routine, for the stage that runs it."""
    stage = group.stages[0]
    routine = stage.routine
    if routine is None or not routine.runs:
        return None
    if isinstance(routine, KernelCall):
        return _called_kernel(routine, stage.origin)
    kernel = PointKernel(routine)
    return KernelText(
        kernel.source,
        routine.buffers,
        routine.sizes,
        routine.range,
        origins=(stage.origin,),
        function=kernel,
        rejection=routine.rejection,
    )


def _called_kernel(call: KernelCall, origin: str) -> KernelText:
    """Returns the kernel of a call; a handwritten one is scheduled."""
    if call.is_generated:
        return called_kernel(call, origin)
    return called_kernel(attrs.evolve(call, kernel=scheduled_nests(call.kernel)), origin)


def any_row_kernel(numbers: NumberParameters, group: Group) -> KernelText:
    """Returns the kernel of a row group. Those by recipe share code."""
    nodes = _nodes_of_rows(group)
    if nodes is None:
        return numbers.kernel(group)
    shares_numbers = nodes is not short_row_nodes or numbers.are_shared(group)
    return text_of(nodes(group, "kernel"), group, shares_numbers)


def _nodes_of_rows(group: Group) -> Nodes | None:
    """Returns the function that writes vectors across short rows, or in-register transposes; None
    for rows that a recipe schedules."""
    transpose = transpose_of(group)
    if transpose is not None:
        return lambda group, name: transpose_kernel(group, transpose, name)
    turned = turned_map(group)
    if turned is not None:
        return lambda group, name: turned_map_kernel(group, turned, name)
    return short_row_nodes if has_short_rows(group) else None


def _row_nodes(group: Group, name: str) -> ShownKernel:
    return (_nodes_of_rows(group) or kernel_by_recipe)(group, name)


def matrix_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of a matrix product: of blocks, if it has several batches or blocks of
    columns."""
    blocks = product_blocks(group)
    return product_kernel(group, name) if blocks is None else scheduled_blocks(blocks, name)


def matrix_kernel(group: Group) -> KernelText:
    """Returns the kernel of a matrix product."""
    return text_of(matrix_nodes(group, "kernel"), group)


def _nest(group: Group, name: str) -> ShownKernel:
    return (extremum_nodes if is_extremum(group) else nest_nodes)(group, name)


# Constant numbers make these faster, unless groups that differ in them share one code.
WITH_NUMBERS: dict[str, Nodes] = {
    "blocks": scheduled_blocks,
    "columns": column_nodes,
    "nest": _nest,
    "padding": padding_nodes,
    "planes": plane_nodes,
    "windows": window_sums_nodes,
}
NODES: dict[str, Nodes] = {**WITH_NUMBERS, "rows": _row_nodes, "matrix": matrix_nodes}


def scheduled_kernel(groups: Sequence[Group], name: str) -> ShownKernel:
    """Returns the scheduled kernel of a group, as a kernel of the program; raises NotShown if
    kernels cannot express it."""
    stages = [stage for group in groups for stage in group.stages]
    reason, group = None, groups[0]
    if group.kind == "routine" or len(groups) > 1:
        reason = "no loops"
    elif group.kind == "blocks":
        products = [s for s in stages if contraction_of(s) is not None]
        if not all(is_float(s.out.dtype) for s in products):
            reason = "a product of integers"
    if reason is not None:
        raise NotShown(reason, dict.fromkeys([stage.out for stage in stages], reason))
    return NODES.get(group.kind, kernel_by_recipe)(group, name)


@attrs.frozen
class StageRewrite:
    """A rewrite of programs with a stage of which `applies` is true."""

    applies: Callable[[Stage], bool]
    rewrite: Callable[[LoopProgram], LoopProgram]


def _plain(program: LoopProgram) -> LoopProgram:
    """Returns the composed program with plain windows, composed again if there are any."""
    plain = plain_windows(program)
    return program if plain.stages == program.stages else with_inlined_views(plain)


# In their order. The conditions are declared properties of stages, which take no search.
REWRITES = (
    StageRewrite(lambda stage: not stage.at_axes and stage.monoid == "sum", with_minimal_filters),
    StageRewrite(lambda stage: not stage.at_axes or stage.monoid == "mean", _plain),
    StageRewrite(lambda stage: "exp" in stage.functions, with_nonpositive_exponentials),
    StageRewrite(lambda stage: not stage.reads_at_axes, with_runs),
    StageRewrite(lambda s: has_few_columns(s, contraction_of(s)), with_products_together),
)


Settled = tuple[Sequence[Group], Mapping[Buffer, Buffer]]


def _support(program: LoopProgram) -> ProductSupport:
    """Returns the products of CPUs."""
    several = sum(bool(stage.reduce) for stage in program.stages) > 1
    together = products_together(program) if several else ()
    return ProductSupport(windows=is_faster_than_product, together=together)


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
        memoized = ScheduleMemo().schedules(schedules)
        return written(program, memoized, _support(program), settled)


def settled_groups(program: LoopProgram) -> Sequence[Group]:
    """Returns the groups of a program, with their memory shared."""
    program = _rewritten(program)
    groups, _ = grouped(program, _support(program))
    return _settled(NumberParameters(), program, groups)[0]


def _rewritten(program: LoopProgram) -> LoopProgram:
    """Returns the composed program with its stages as they are grouped."""
    program = with_inlined_views(program) if program.has_views else program
    for each in REWRITES:
        if any(map(each.applies, program.stages)):
            program = each.rewrite(program)
    return with_updates(program) if program.donated else program


def _settled(numbers: NumberParameters, program: LoopProgram, groups: Sequence[Group]) -> Settled:
    """Returns the groups with their memory shared, and the outputs that share the memory of
    inputs."""
    if not COPIES.isdisjoint([group.kind for group in groups]):
        groups = with_planes(program, groups)
    settled, moved = with_reuse(program, groups)
    numbers.add(settled)
    return settled, moved


def _texts(found: KernelText | tuple[KernelText, ...] | None) -> tuple[KernelText, ...]:
    if found is None:
        return ()
    return found if isinstance(found, tuple) else (found,)


def written(
    program: LoopProgram,
    schedules: Mapping[str, Callable[[Group], KernelText | tuple[KernelText, ...] | None]],
    products: ProductSupport,
    settled: Callable[[LoopProgram, Sequence[Group]], Settled] = lambda _, groups: (groups, {}),
) -> Scheduled:
    """Groups a program and schedules each group by its kind, mostly as one kernel."""
    fused_groups, decisions = grouped(program, products)
    groups, moved = settled(program, fused_groups)
    texts = [(g, text) for g in groups for text in _texts(schedules[g.kind](g))]
    kernels = tuple([text for _, text in texts])
    made_from = tuple([g for g, _ in texts])
    return Scheduled(program, tuple(groups), kernels, tuple(decisions), made_from, moved)
