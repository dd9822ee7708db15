"""From a program of stages to the sources of its GPU kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from structir.backend.cuda.attention import attentions
from structir.backend.cuda.by_library import followed
from structir.backend.cuda.columns import column_kernel
from structir.backend.cuda.device_text import DeviceText
from structir.backend.cuda.points import point_kernel, takes_maps
from structir.backend.cuda.product_kernels import product_kernels
from structir.backend.cuda.products import gathered_products, product_of
from structir.backend.cuda.routines import routine_kernel
from structir.backend.cuda.rows import any_row_kernel
from structir.backend.cuda.tiles import tile_kernel
from structir.backend.cuda.warped import attention_kernel
from structir.backend.cuda.whole import is_large, whole_kernels
from structir.backend.loops.compose import composed
from structir.backend.loops.group import Group, ProductSupport
from structir.backend.loops.schedule import Scheduled, written
from structir.backend.loops.stage import LoopProgram


def row_kernels(group: Group) -> DeviceText | tuple[DeviceText, ...]:
    """Returns the sources of a row group; without rows, blocks combine their partial results."""
    if not group.rows and is_large(group):
        return whole_kernels(group)
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
    program = gathered_products(composed(program, product_of, lambda stage: None))
    matches = attentions(program, product_of)
    together = {
        Group("attention", a.stages, a.outer, a.kept | {a.out}): a for a in matches.attentions
    }
    schedules: dict[str, Callable[[Group], Texts]] = {**SCHEDULES}
    schedules["matrix"] = partial(product_kernels, tf32=tf32)
    schedules["attention"] = lambda group: attention_kernel(together[group])
    result = written(program, schedules, attrs.evolve(PRODUCTS, together=tuple(together)))
    return attrs.evolve(result, decisions=(*result.decisions, *matches.refused))
