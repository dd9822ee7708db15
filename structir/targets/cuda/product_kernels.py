"""The kernels of a product: its schedules, and the sizes at which each is used."""

from __future__ import annotations

import attrs

from structir.ir import dims
from structir.loops.fusion.group import Group
from structir.loops.products.contraction import Contraction
from structir.loops.program.stage import Stage
from structir.targets.cuda.device_text import SIDE, DeviceText
from structir.targets.cuda.epilogue import Results, results_of
from structir.targets.cuda.gemv import MOST_ROWS, GemvSchedule
from structir.targets.cuda.places import RUN
from structir.targets.cuda.products import product_of
from structir.targets.cuda.shares import PROCESSORS, SumSchedule, shares_buffer, shares_of
from structir.targets.cuda.tiled import TALL, TiledProductSchedule
from structir.targets.cuda.warp_tiles import schedule_of


def product_kernels(group: Group, tf32: bool = False) -> tuple[DeviceText, ...]:
    """Returns the kernels of a product and its maps, each for its own sizes. With `tf32`, factors
    of float32 may be rounded to 10 bits."""
    ((stage, contraction),) = [(s, c) for s in group.stages if (c := product_of(s)) is not None]
    results = results_of(stage, group.stages, group.kept)
    texts = _tiled(stage, contraction, results, tf32)
    strips = GemvSchedule(stage, contraction, results)
    few = dims.compare("<=", strips.rows.extent, MOST_ROWS)
    if strips.fits and few != 0 and (isinstance(few, int) or texts[0].product is None):
        texts = [*[_where(1 - few, t) for t in texts], _where(few, strips.device_text())]
    return tuple([attrs.evolve(t, origins=group.origins) for t in texts if t.range != 0])


def _tiled(
    stage: Stage, contraction: Contraction, results: Results, tf32: bool
) -> list[DeviceText]:
    """Returns the tiled kernels; unless a library computes the product, with split-k."""
    make = schedule_of(stage, contraction, tf32)
    tall = _height(stage, contraction, results) if make is TiledProductSchedule else TALL
    schedule = make(stage, contraction, results, tall)
    count = shares_of(schedule)
    if count == 1 or schedule.product() is not None:
        return [schedule.device_text()]
    shares = shares_buffer(schedule, count)
    tiles = make(stage, contraction, results, tall, count, shares)
    return [
        tiles.device_text(),
        SumSchedule(stage, contraction, results, count, shares).device_text(),
    ]


def _height(stage: Stage, contraction: Contraction, results: Results) -> int:
    """Returns the number of rows per thread: fewer where few rows, or few tiles, are known."""
    schedule = TiledProductSchedule(stage, contraction, results)
    rows, tiles = schedule.rows.extent, schedule.tiles
    low = isinstance(rows, int) and rows <= SIDE * RUN
    return RUN if low or (isinstance(tiles, int) and tiles < PROCESSORS) else TALL


def _where(condition: dims.Dim, text: DeviceText) -> DeviceText:
    """Returns a kernel that runs only where a condition holds."""
    return attrs.evolve(text, range=dims.select(condition, text.range, 0))
