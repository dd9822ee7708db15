"""Micro-kernels of implicit-GEMM convolutions: vectors hold channels, and each image element is
broadcast; results are transposed in registers as they are stored.

Rows are points of the image, read through a table of offsets, and columns are channels. A tile may
contain any points, so no lane is wasted at the ends of lines or in small images. The totals of a
block of points stay in memory of the first-level cache until all terms are added.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.features import is_amd
from structir.targets.cpu.packed_layout import transpose_lines
from structir.targets.cpu.tiles import TileShape, comes_next

WORD, INDEX = ir.IntType(64), ir.IntType(32)
HIGHEST = 8  # points of a tile
POINTS = 60  # points per block, whose totals stay in L1,
WEIGHTS = (6 << 10, 18 << 10)  # and bytes of weights, beside image lines: AVX2, AVX-512
MANY_TERMS = 1024  # of weights that stay in L2


def pixel_registers(shapes: tuple[TileShape, ...]) -> int:
    """Returns the maximum width of a tile in registers: one more with 32 registers (AVX-512)."""
    return len(shapes) + 1 if len(shapes) > 2 else len(shapes)


def tile_heights(shape: TileShape, across: int, most: int) -> tuple[int, ...]:
    """Returns the heights of the tiles of a width, in points: totals leave registers for
    weights."""
    highest = min(6 if across == most else HIGHEST, shape.lanes)
    return tuple(range(highest, 0, -1))


def terms_at_once(shapes: tuple[TileShape, ...]) -> int:
    """Returns the number of terms per block.

    With AVX-512, AMD's CPUs read weights from L2 as fast as a tile needs them; there, storing
    totals more often costs up to 5 %. With AVX2 it gains up to 27 % (AMD Zen 3, images of 7 x 7).
    """
    registers = pixel_registers(shapes)
    if is_amd() and registers > 2:
        return MANY_TERMS
    term = registers * shapes[0].lanes * np.dtype(shapes[0].dtype).itemsize
    return WEIGHTS[registers > 2] // term


def pixel_tiles_text(shapes: tuple[TileShape, ...], name: str, block: int) -> str:
    """Returns LLVM IR of the function

    name(image, points, terms, weights, out, out_row, term_count, channels, point_count):
    out[j, i] = sum over t of image[points[i] + terms[t]] * weights[j / lanes, t, j % lanes], for up
    to as many channels as the widest tile has. Totals are spilled to memory after `block` terms.
    """
    shape, most = shapes[0], pixel_registers(shapes)
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    storing = _write_storing(module, shape)
    tiles = [
        [PixelTile(module, shape, across, rows) for rows in tile_heights(shape, across, most)]
        for across in range(1, most + 1)
    ]
    for tile in [tile for column in tiles for tile in column]:
        tile.write()
    _write_passes(storing, tiles, name, block)
    return str(module)


class PixelTile:
    """Emits the tile function of a fixed number of points and registers."""

    def __init__(self, module: ir.Module, shape: TileShape, across: int, rows: int) -> None:
        self.module, self.shape, self.across, self.rows = module, shape, across, rows
        self.real = ir.FloatType() if shape.dtype == "float32" else ir.DoubleType()
        self.vector = ir.VectorType(self.real, shape.lanes)
        self.suffix = f"v{shape.lanes}{'f32' if shape.dtype == 'float32' else 'f64'}"
        pointer, words = self.real.as_pointer(), WORD.as_pointer()
        kinds = [pointer, words, words, pointer, WORD, pointer, WORD, WORD]
        kind = ir.FunctionType(ir.VoidType(), kinds)
        self.function = ir.Function(module, kind, f"pixels_{shape.dtype}_{across}_{rows}")
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def write(self) -> None:
        """Emits the body: accumulates a block of terms onto the spilled totals, or onto zeros for
        the first block."""
        builder, function = self.builder, self.function
        image, points, _, weights, count, self.held, whole, first = function.args
        starts = [builder.load(builder.gep(points, [_word(r)])) for r in range(self.rows)]
        places = [builder.gep(image, [start]) for start in starts]
        panel = builder.mul(whole, _word(self.shape.lanes))
        self.apart = [builder.mul(panel, _word(v)) for v in range(self.across)]
        start = self._start(first)
        before = builder.block
        head, body, after = (function.append_basic_block(n) for n in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        term, line = builder.phi(WORD), builder.phi(weights.type)
        term.add_incoming(_word(0), before)
        line.add_incoming(weights, before)
        totals = [[builder.phi(self.vector) for _ in row] for row in start]
        for phi, value in zip(chain(*totals), chain(*start), strict=True):
            phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", term, count), body, after)
        builder.position_at_end(body)
        self._add_products(term, line, places, totals)
        term.add_incoming(builder.add(term, _word(1)), body)
        line.add_incoming(builder.gep(line, [_word(self.shape.lanes)]), body)
        builder.branch(head)
        builder.position_at_end(after)
        for r, v in self._numbers():
            builder.store(totals[r][v], self._held(r, v), align=4)
        builder.ret_void()

    def _numbers(self) -> list[tuple[int, int]]:
        """Returns the indices of the totals, by point and register."""
        return [(r, v) for r in range(self.rows) for v in range(self.across)]

    def _held(self, row: int, vector: int) -> Any:
        """Returns the address of a spilled total: the registers of a point are contiguous."""
        place = self.builder.gep(
            self.held, [_word((row * self.across + vector) * self.shape.lanes)]
        )
        return self.builder.bitcast(place, self.vector.as_pointer())

    def _start(self, first: Any) -> list[list[Any]]:
        """Emits the initial totals: zeros for the first block, else the spilled totals."""
        builder, zero = self.builder, ir.Constant(self.vector, [0.0] * self.shape.lanes)
        empty = builder.block
        with builder.if_then(builder.icmp_signed("==", first, _word(0))):
            held = {key: builder.load(self._held(*key), align=4) for key in self._numbers()}
            full = builder.block
        start = [[builder.phi(self.vector) for _ in range(self.across)] for _ in range(self.rows)]
        for (r, v), value in held.items():
            start[r][v].add_incoming(zero, empty)
            start[r][v].add_incoming(value, full)
        return start

    def _add_products(
        self, term: Any, line: Any, places: list[Any], totals: list[list[Any]]
    ) -> None:
        builder, body = self.builder, self.builder.block
        offset = builder.load(builder.gep(self.function.args[2], [term]))
        right = [self._load(builder.gep(line, [step])) for step in self.apart]
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        fma = declared(self.module, kind, f"llvm.fma.{self.suffix}")
        for place, row in zip(places, totals, strict=True):
            value = builder.load(builder.gep(place, [offset]))
            left = splat(builder, value, self.shape.lanes)
            for total, vector in zip(row, right, strict=True):
                total.add_incoming(builder.call(fma, [left, vector, total]), body)

    def _load(self, place: Any) -> Any:
        place = self.builder.bitcast(place, self.vector.as_pointer())
        return self.builder.load(place, align=4)


def _write_storing(module: ir.Module, shape: TileShape) -> ir.Function:
    """Emits storing(lines, apart, out, out_row, points, channels): out[j, i] = lines[i, j].

    Lines are `apart` elements apart. As many are read as a square has points; further ones, and
    further elements, are ignored. After the transposition, a register has the points of one channel
    or of several. Whole ones are stored without masks: masked stores take tens of cycles on some
    CPUs.
    """
    real = ir.FloatType() if shape.dtype == "float32" else ir.DoubleType()
    vector, lanes = ir.VectorType(real, shape.lanes), shape.lanes
    kinds = [real.as_pointer(), WORD, real.as_pointer(), WORD, WORD, WORD]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), f"storing_{shape.dtype}")
    held, apart, out, out_row, points, channels = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    def place(start: Any, index: Any) -> Any:
        return builder.bitcast(builder.gep(start, [index]), vector.as_pointer())

    count = square_points(shape)
    lines = [builder.load(place(held, builder.mul(apart, _word(k))), align=4) for k in range(count)]
    limit = splat(builder, points, lanes)
    masks = list[Any]()
    for first in range(0, lanes, count):
        numbers = [lane - first for lane in range(lanes)]  # negative: never below `limit`
        masks.append(
            builder.icmp_unsigned("<", ir.Constant(ir.VectorType(WORD, lanes), numbers), limit)
        )
    turned, parts = transpose_lines(builder, lines), len(masks)

    def store_whole(channel: int) -> None:
        line = _part(builder, turned[channel // parts], channel % parts, count)
        start = builder.mul(_word(channel), out_row)
        builder.store(line, _at(builder, out, start, count), align=4)

    with builder.if_then(builder.icmp_signed(">=", points, _word(count)), likely=True):
        with builder.if_then(builder.icmp_signed(">=", channels, _word(lanes)), likely=True):
            for channel in range(lanes):
                store_whole(channel)
            builder.ret_void()
        for channel in range(lanes - 1):
            with builder.if_then(builder.icmp_signed("<", _word(channel), channels)):
                store_whole(channel)
        builder.ret_void()
    suffix = f"v{lanes}{'f32' if shape.dtype == 'float32' else 'f64'}"
    kinds = [vector, vector.as_pointer(), INDEX, masks[0].type]
    kind = ir.FunctionType(ir.VoidType(), kinds)
    store = declared(module, kind, f"llvm.masked.store.{suffix}.p0")
    for channel in range(lanes):
        with builder.if_then(builder.icmp_signed("<", _word(channel), channels)):
            start = builder.sub(
                builder.mul(_word(channel), out_row), _word(channel % parts * count)
            )
            mask = masks[channel % parts]
            line = turned[channel // parts]
            builder.call(store, [line, place(out, start), ir.Constant(INDEX, 4), mask])
    builder.ret_void()
    return function


def square_points(shape: TileShape) -> int:
    """Returns the number of points that are transposed together."""
    return min(HIGHEST, shape.lanes)


def _part(builder: Any, line: Any, part: int, count: int) -> Any:
    """Returns a part of a register, `count` lanes wide."""
    lanes = ir.Constant(ir.VectorType(INDEX, count), [part * count + k for k in range(count)])
    return builder.shuffle_vector(line, ir.Constant(line.type, ir.Undefined), lanes)


def _at(builder: Any, start: Any, index: Any, lanes: int) -> Any:
    """Returns the address of an element, as that of a vector."""
    place = builder.gep(start, [index])
    return builder.bitcast(place, ir.VectorType(place.type.pointee, lanes).as_pointer())


def splat(builder: Any, value: Any, lanes: int) -> Any:
    """Broadcasts a value to all lanes of a register."""
    nothing = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(INDEX, 0))
    zeros = ir.Constant(ir.VectorType(INDEX, lanes), [0] * lanes)
    return builder.shuffle_vector(first, nothing, zeros)


def _write_passes(
    storing: ir.Function, tiles: list[list[PixelTile]], name: str, block: int
) -> None:
    """Emits the entry function, which selects the tiles by the number of channels."""
    pointer = tiles[0][0].real.as_pointer()
    kinds = [*tiles[0][0].function.function_type.args[:4], pointer, *[WORD] * 4]
    function = ir.Function(storing.module, ir.FunctionType(ir.VoidType(), kinds), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    shape, channels = tiles[0][0].shape, function.args[7]
    lanes = _word(shape.lanes)
    room = ir.ArrayType(tiles[0][0].real, (POINTS + HIGHEST) * len(tiles) * shape.lanes)
    held = builder.alloca(room)
    held.align = 64
    held = builder.bitcast(held, tiles[0][0].real.as_pointer())
    rounded = builder.add(channels, builder.sub(lanes, _word(1)))
    across = builder.sdiv(rounded, lanes)
    for column in tiles:
        wide = builder.icmp_signed("==", across, _word(column[0].across))
        with builder.if_then(wide):
            _write_blocks(builder, storing, column, held, block)
    builder.ret_void()


def _write_blocks(
    builder: ir.IRBuilder, storing: ir.Function, column: list[PixelTile], held: Any, most: int
) -> None:
    """Emits loops over blocks of points, and for each over term blocks; then the stores of its
    results. The sizes of blocks are nearly equal."""
    image, points, starts, weights, out, out_row, count, channels, point_count = (
        builder.function.args
    )
    lanes, across = column[0].shape.lanes, column[0].across
    blocks, block = _even_blocks(builder, count, most)
    _, points_at_once = _even_blocks(builder, point_count, POINTS)
    with _counted(builder, point_count, points_at_once) as (point, points_here):
        own_points = builder.gep(points, [point])
        with _counted(builder, blocks, _word(1)) as (number, _):
            term = builder.mul(number, block)
            left = builder.sub(count, term)
            terms = builder.select(builder.icmp_signed("<", left, block), left, block)
            first = builder.zext(builder.icmp_signed("==", number, _word(0)), WORD)
            own_weights = builder.gep(weights, [builder.mul(term, _word(lanes))])
            own_starts = builder.gep(starts, [term])
            arguments = [image, own_points, own_starts, own_weights, terms, held, count, first]
            _write_pass(builder, column, arguments, points_here)
        square, zero = _word(square_points(column[0].shape)), _word(0)
        latest = builder.sub(points_here, square)  # squares overlap at the end of a block
        latest = builder.select(builder.icmp_signed("<", latest, zero), zero, latest)
        with _counted(builder, points_here, square) as (at, _):
            start = builder.select(builder.icmp_signed("<", at, latest), at, latest)
            to = builder.gep(out, [builder.add(point, start)])
            remaining = builder.sub(points_here, start)
            for v in range(across):
                channel, index = _word(v * lanes), builder.mul(start, _word(across * lanes))
                lines = builder.gep(held, [builder.add(index, channel)])
                place = builder.gep(to, [builder.mul(channel, out_row)])
                rest = builder.sub(channels, channel)
                apart = _word(across * lanes)
                builder.call(storing, [lines, apart, place, out_row, remaining, rest])


def _even_blocks(builder: ir.IRBuilder, count: Any, most: int) -> tuple[Any, Any]:
    """Emits the number of blocks of at most `most` elements, at least 1, and their size."""
    blocks = builder.sdiv(builder.add(count, _word(most - 1)), _word(most))
    blocks = builder.select(builder.icmp_signed(">", blocks, _word(1)), blocks, _word(1))
    return blocks, builder.sdiv(builder.add(count, builder.sub(blocks, _word(1))), blocks)


@contextmanager
def _counted(builder: ir.IRBuilder, end: Any, step: Any) -> Iterator[tuple[Any, Any]]:
    """Emits a loop from 0 to an end; yields the index and the length of the current step."""
    place = _counter(builder)
    head, body, after = (builder.function.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    at = builder.load(place)
    builder.cbranch(builder.icmp_signed("<", at, end), body, after)
    builder.position_at_end(body)
    left = builder.sub(end, at)
    yield at, builder.select(builder.icmp_signed("<", left, step), left, step)
    builder.store(builder.add(at, step), place)
    builder.branch(head)
    builder.position_at_end(after)


def _counter(builder: ir.IRBuilder) -> Any:
    """Allocates a counter and sets it to 0."""
    with builder.goto_entry_block():
        place = builder.alloca(WORD)
    builder.store(_word(0), place)
    return place


def _write_pass(
    builder: ir.IRBuilder, column: list[PixelTile], arguments: list[Any], points: Any
) -> None:
    """Emits loops over tiles of decreasing height."""
    place, shape, heights = _counter(builder), column[0].shape, [tile.rows for tile in column]
    for tile in column:
        head, body, after = (builder.function.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        point = builder.load(place)
        remaining = builder.sub(points, point)
        fits = comes_next(builder, remaining, heights, tile.rows, tile.across)
        builder.cbranch(fits, body, after)
        builder.position_at_end(body)
        passed = list(arguments)
        passed[1] = builder.gep(arguments[1], [point])
        held = builder.mul(point, _word(tile.across * shape.lanes))
        passed[5] = builder.gep(arguments[5], [held])
        builder.call(tile.function, passed)
        builder.store(builder.add(point, _word(tile.rows)), place)
        builder.branch(head)
        builder.position_at_end(after)


def _word(value: int) -> ir.Constant:
    return ir.Constant(WORD, value)
