"""The kernels of groups as the CPU runs them, as kernels of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from structir.ir.dtype import is_float
from structir.loops.fusion.group import Group
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.by_recipe import kernel_by_recipe, scheduled_blocks
from structir.loops.kernel.columns import column_nodes
from structir.loops.kernel.extrema import extremum_nodes, is_extremum
from structir.loops.kernel.matrix import product_kernel
from structir.loops.kernel.nest import nest_nodes
from structir.loops.kernel.padding import padding_nodes
from structir.loops.kernel.planes import plane_nodes
from structir.loops.kernel.product_blocks import product_blocks
from structir.loops.kernel.short_rows import has_short_rows, short_row_nodes
from structir.loops.kernel.transposes import transpose_kernel, transpose_of
from structir.loops.kernel.window_nodes import window_sums_nodes
from structir.loops.lower.as_scalar import NotShown
from structir.loops.products.contraction import contraction_of


def scheduled_kernel(groups: Sequence[Group], name: str) -> ShownKernel:
    """Returns the scheduled kernel of a group; raises NotShown if kernels cannot express it."""
    group = groups[0]
    if group.kind == "routine" or len(groups) > 1:
        stages = [stage for each in groups for stage in each.stages]
        raise NotShown("no loops", {stage.out: "no loops" for stage in stages})
    return KERNELS.get(group.kind, kernel_by_recipe)(group, name)


def _rows(group: Group, name: str) -> ShownKernel:
    transpose = transpose_of(group)
    if transpose is not None:
        return transpose_kernel(group, transpose, name)
    if has_short_rows(group):
        return short_row_nodes(group, name)
    return kernel_by_recipe(group, name)


def _shown_blocks(group: Group, name: str) -> ShownKernel:
    for stage in group.stages:
        if contraction_of(stage) is not None and not is_float(stage.out.dtype):
            reason = "a product of integers"
            raise NotShown(reason, {stage.out: reason})
    return scheduled_blocks(group, name)


def matrix_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of a matrix product: of blocks, if it has several batches or blocks of
    columns."""
    blocks = product_blocks(group)
    return product_kernel(group, name) if blocks is None else scheduled_blocks(blocks, name)


def _nest(group: Group, name: str) -> ShownKernel:
    return (extremum_nodes if is_extremum(group) else nest_nodes)(group, name)


# Constant numbers make these faster, unless groups that differ in them share one code.
WITH_NUMBERS: dict[str, Callable[[Group, str], ShownKernel]] = {
    "blocks": scheduled_blocks,
    "columns": column_nodes,
    "nest": _nest,
    "padding": padding_nodes,
    "planes": plane_nodes,
    "windows": window_sums_nodes,
}
KERNELS = {
    **WITH_NUMBERS,
    "rows": _rows,
    "blocks": _shown_blocks,
    "matrix": matrix_nodes,
}
