"""The kernels of a product: which schedules make it, at which sizes."""

from __future__ import annotations

import attrs

from structir.backend.cuda.device_text import DeviceText
from structir.backend.cuda.epilogue import results_of
from structir.backend.cuda.products import product_of
from structir.backend.cuda.strips import MOST_ROWS, StripSchedule
from structir.backend.cuda.tiled import TileSchedule
from structir.backend.cuda.warp_tiles import WarpSchedule, is_of_halves
from structir.backend.loops.group import Group
from structir.ir import dims


def product_kernels(group: Group) -> tuple[DeviceText, ...]:
    """The texts of a product with the maps after it: each has work at its own sizes."""
    ((stage, found),) = [(s, c) for s in group.stages if (c := product_of(s)) is not None]
    results = results_of(stage, group.stages, group.kept)
    tiles = WarpSchedule if is_of_halves(stage, found) else TileSchedule
    texts = [tiles(stage, found, results).device_text()]
    strips = StripSchedule(stage, found, results)
    few = dims.compare("<=", strips.rows.extent, MOST_ROWS)
    if strips.fits and few != 0 and (isinstance(few, int) or texts[0].product is None):
        texts = [_where(1 - few, *texts), _where(few, strips.device_text())]
    texts = [attrs.evolve(t, origins=group.origins) for t in texts if t.range != 0]
    return tuple(texts)


def _where(condition: dims.Dim, text: DeviceText) -> DeviceText:
    """A kernel that has something to do only where a condition holds."""
    return attrs.evolve(text, range=dims.select(condition, text.range, 0))
