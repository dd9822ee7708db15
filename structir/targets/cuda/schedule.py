"""From a program of stages to the sources of its GPU kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from structir.loops.fusion.group import Group, ProductSupport
from structir.loops.kernel.schedule import Scheduled, written
from structir.loops.program.stage import LoopProgram
from structir.loops.rewrite.view_inlining import with_inlined_views
from structir.targets.cuda.attention import attentions
from structir.targets.cuda.by_library import followed
from structir.targets.cuda.columns import column_kernel
from structir.targets.cuda.device_text import DeviceText
from structir.targets.cuda.grid_reduction import grid_reduction_kernels, is_large
from structir.targets.cuda.points import point_kernel, takes_maps
from structir.targets.cuda.product_kernels import product_kernels
from structir.targets.cuda.products import gathered_products, product_of
from structir.targets.cuda.routines import routine_kernel
from structir.targets.cuda.rows import any_row_kernel
from structir.targets.cuda.tiles import tile_kernel
from structir.targets.cuda.warped import attention_kernel


def row_kernels(group: Group) -> DeviceText | tuple[DeviceText, ...]:
    """Returns the sources of a row group; without rows, blocks combine their partial results."""
    if not group.rows and is_large(group):
        return grid_reduction_kernels(group)
    return tile_kernel(group) or any_row_kernel(group)


Texts = DeviceText | tuple[DeviceText, ...] | None
SCHEDULES: dict[str, Callable[[Group], Texts]] = {
    "rows": row_kernels,
    "columns": column_kernel,
    "nest": point_kernel,
    "points": point_kernel,
    "padding": point_kernel,
    "routine": routine_kernel,
}
PRODUCTS = ProductSupport(product_of, followed=followed, leads=takes_maps)


def scheduled(program: LoopProgram, tf32: bool = False) -> Scheduled:
    """Composes, groups and writes a program; maps may be fused into products, and some products are
    an attention. With `tf32`, factors of float32 may be rounded to 10 bits."""
    program = gathered_products(with_inlined_views(program, product_of, lambda stage: None))
    matches = attentions(program, product_of)
    together = {
        Group("attention", a.stages, a.outer, a.kept | {a.out}): a for a in matches.attentions
    }
    schedules: dict[str, Callable[[Group], Texts]] = {**SCHEDULES}
    schedules["matrix"] = partial(product_kernels, tf32=tf32)
    schedules["attention"] = lambda group: attention_kernel(together[group])
    result = written(program, schedules, attrs.evolve(PRODUCTS, together=tuple(together)))
    return attrs.evolve(result, decisions=(*result.decisions, *matches.refused))
