"""The choice between the ways to multiply an image by constant weights.

A tiled product holds pixels in vectors and packs the image. A pixel product holds channels in
vectors and packs the weights, once: no lane is wasted at the end of a small image, but each result
is transposed as it is stored. Minimal filtering multiplies less, and transforms the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from structir.ir.dims import Dim
from structir.targets.cpu.packed_layout import panel_registers
from structir.targets.cpu.products import packs_panels
from structir.targets.cpu.tiles import tile_shapes

# Costs per element, in multiply-adds of whole registers; measured on an AMD Zen 4 CPU.
PACKED = 0.4  # of the image, as its panels are written
STORED = 0.3  # of the result of a tiled product,
TRANSPOSED = 1.2  # and of that of a pixel product
NARROW = 1.05  # relative time of a pixel product with AVX2 (AMD Zen 3)
# Of minimal filtering; measured on an Intel Emerald Rapids CPU, with AVX-512 and with AVX2.
TRANSFORMED = 12.0  # of a register of the operand or the result of a product,
READ = 0.5  # of an element of the weights, which few tiles share
GAIN = 1.15  # of the whole, from which on it is chosen
LENGTH = 14  # that is assumed of lines of an image


def is_faster_by_pixels(rows: Dim, columns: Dim, terms: Dim, dtype: str) -> bool:
    """Whether a pixel product is the faster one, for so many channels, pixels and terms.

    It is not for sizes that only a call knows.
    """
    shapes = tile_shapes(dtype)
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(terms, int)):
        return False
    if not shapes or not rows * columns * terms:
        return False
    lanes, results = shapes[0].lanes, rows * columns
    by_pixels = terms * columns * -(-rows // lanes) + TRANSPOSED * results
    tiled = terms * rows * _registers(columns, lanes, len(shapes)) + STORED * results
    packed = PACKED * terms * columns if packs_panels(rows, terms, len(shapes)) else 0
    if len(shapes) <= 2:
        by_pixels *= NARROW
    return by_pixels < tiled + packed


def _registers(columns: int, lanes: int, most: int) -> int:
    """Returns the registers of a row of a tiled product. A panel of one register counts twice: its
    tiles have too few totals to hide the latency of multiply-adds."""
    last = columns % (lanes * most) or lanes * most
    while last > lanes and panel_registers(last, lanes, most) * lanes < last:
        last -= panel_registers(last, lanes, most) * lanes
    is_narrow = bool(panel_registers(last, lanes, most) == 1)
    return -(-columns // lanes) + is_narrow


def is_faster_by_minimal_filtering(
    filters: Dim, channels: Dim, batch: Dim, lengths: Sequence[Dim]
) -> bool:
    """Whether a convolution of three taps along each of the axes of these lengths is faster by
    minimal filtering.

    Fewer products pay for transforms and more weights where there are many channels and pixels.
    Sizes that only a call knows are assumed: one image, and lines of `LENGTH`.
    """
    shapes = tile_shapes("float32")
    if not shapes or not (isinstance(filters, int) and isinstance(channels, int)):
        return False
    sizes = [size if isinstance(size, int) else LENGTH for size in lengths]
    images = batch if isinstance(batch, int) else 1
    pixels, tiles = images * prod(sizes), images * prod([-(-size // 2) for size in sizes])
    taps, products = 3 ** len(sizes), 4 ** len(sizes)
    lanes, weights = shapes[0].lanes, channels * filters
    left, right = [-(-count // lanes) for count in (channels, filters)]
    direct = taps * (channels * right * pixels + READ * weights)
    work = channels * right * tiles + READ * weights + TRANSFORMED * (left + right) * tiles
    return bool(products * work * GAIN < direct)
