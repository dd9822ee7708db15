"""The innermost part of products whose left operand is read at offsets: weights of many channels in
registers, one element of the image at a time; results turned over as they are stored.

A row is a point of the image, a column is a channel, and where the next tile of points starts is no
concern of memory: no lane is lost at the ends of lines or of small images.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from structir.backend.cpu.tiles import TileShape
from structir.backend.cpu.transposes import turned
from structir.backend.math.bits import declared

WORD, INDEX = ir.IntType(64), ir.IntType(32)
HEIGHTS = (8, 6, 4, 2, 1)  # points at a time
HIGHEST = HEIGHTS[0]


def pixel_registers(shapes: tuple[TileShape, ...]) -> int:
    """How many registers of channels a tile is across, at most: one more where there are 32."""
    return len(shapes) + 1 if len(shapes) > 2 else len(shapes)


def tile_heights(shape: TileShape, across: int, most: int) -> tuple[int, ...]:
    """How many points the tiles of a width have: the totals leave room for the rest."""
    highest = 6 if across == most else 8
    return tuple([h for h in HEIGHTS if h <= min(highest, shape.lanes)])


def pixel_tiles_text(shapes: tuple[TileShape, ...], name: str) -> str:
    """name(image, points, terms, weights, out, out_row, term_count, channels, point_count):

    out[j, i] = sum over t of image[points[i] + terms[t]] * weights[j / lanes, t, j % lanes], for up
    to as many channels as a block has, as LLVM's text.
    """
    shape, most = shapes[0], pixel_registers(shapes)
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    storing = _write_storing(module, shape)
    tiles = [
        [PixelTile(storing, shape, across, rows) for rows in tile_heights(shape, across, most)]
        for across in range(1, most + 1)
    ]
    for tile in [tile for column in tiles for tile in column]:
        tile.write()
    _write_passes(module, tiles, name)
    return str(module)


class PixelTile:
    """One tile function in the making, over a fixed number of points."""

    def __init__(self, storing: ir.Function, shape: TileShape, across: int, rows: int) -> None:
        module = storing.module
        self.storing, self.module, self.shape, self.across, self.rows = (
            storing,
            module,
            shape,
            across,
            rows,
        )
        self.real = ir.FloatType() if shape.dtype == "float32" else ir.DoubleType()
        self.vector = ir.VectorType(self.real, shape.lanes)
        self.suffix = f"v{shape.lanes}{'f32' if shape.dtype == 'float32' else 'f64'}"
        pointer, words = self.real.as_pointer(), WORD.as_pointer()
        kinds = [pointer, words, words, pointer, pointer, WORD, WORD, WORD]
        kind = ir.FunctionType(ir.VoidType(), kinds)
        self.function = ir.Function(module, kind, f"pixels_{shape.dtype}_{across}_{rows}")
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def write(self) -> None:
        """The sum over all terms, then the store."""
        builder, function = self.builder, self.function
        image, points, _, weights, _, _, count, _ = function.args
        before = builder.block
        room = self.across * self.shape.lanes * HIGHEST
        self.held = builder.bitcast(
            builder.alloca(ir.ArrayType(self.real, room)), self.real.as_pointer()
        )
        starts = [builder.load(builder.gep(points, [_word(r)])) for r in range(self.rows)]
        places = [builder.gep(image, [start]) for start in starts]
        panel = builder.mul(count, _word(self.shape.lanes))
        self.apart = [builder.mul(panel, _word(v)) for v in range(self.across)]
        head, body, after = (function.append_basic_block(n) for n in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        term, line = builder.phi(WORD), builder.phi(weights.type)
        term.add_incoming(_word(0), before)
        line.add_incoming(weights, before)
        totals = [[builder.phi(self.vector) for _ in range(self.across)] for _ in places]
        for phi in [phi for row in totals for phi in row]:
            phi.add_incoming(ir.Constant(self.vector, [0.0] * self.shape.lanes), before)
        builder.cbranch(builder.icmp_signed("<", term, count), body, after)
        builder.position_at_end(body)
        self._add_products(term, line, places, totals)
        term.add_incoming(builder.add(term, _word(1)), body)
        line.add_incoming(builder.gep(line, [_word(self.shape.lanes)]), body)
        builder.branch(head)
        builder.position_at_end(after)
        self._store(totals)
        builder.ret_void()

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
            left = everywhere(builder, value, self.shape.lanes)
            for total, vector in zip(row, right, strict=True):
                total.add_incoming(builder.call(fma, [left, vector, total]), body)

    def _load(self, place: Any) -> Any:
        place = self.builder.bitcast(place, self.vector.as_pointer())
        return self.builder.load(place, align=4)

    def _store(self, totals: list[list[Any]]) -> None:
        """Registers to memory, and from there in squares to the result."""
        builder, lanes = self.builder, self.shape.lanes
        _, _, _, _, out, out_row, _, channels = self.function.args
        for row, line in enumerate(totals):
            for v, total in enumerate(line):
                place = builder.gep(self.held, [_word((v * HIGHEST + row) * lanes)])
                builder.store(total, builder.bitcast(place, self.vector.as_pointer()), align=4)
        for v in range(self.across):
            square = builder.gep(self.held, [_word(v * HIGHEST * lanes)])
            place = builder.gep(out, [builder.mul(_word(v * lanes), out_row)])
            left = builder.sub(channels, _word(v * lanes))
            builder.call(self.storing, [square, place, out_row, _word(self.rows), left])


def _write_storing(module: ir.Module, shape: TileShape) -> ir.Function:
    """storing(lines, out, out_row, points, channels): out[j, i] = lines[i, j] for so many of each;
    the rest of the lines is anything. A register then has the points of one channel, or of two."""
    real = ir.FloatType() if shape.dtype == "float32" else ir.DoubleType()
    vector, lanes = ir.VectorType(real, shape.lanes), shape.lanes
    kinds = [real.as_pointer(), real.as_pointer(), WORD, WORD, WORD]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), f"storing_{shape.dtype}")
    held, out, out_row, points, channels = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    def place(start: Any, index: Any) -> Any:
        return builder.bitcast(builder.gep(start, [index]), vector.as_pointer())

    count = min(HIGHEST, lanes)
    lines = [builder.load(place(held, _word(k * lanes)), align=4) for k in range(count)]
    limit, masks = everywhere(builder, points, lanes), list[Any]()
    for first in range(0, lanes, count):
        numbers = [lane - first for lane in range(lanes)]  # below 0 is above all without a sign
        masks.append(
            builder.icmp_unsigned("<", ir.Constant(ir.VectorType(WORD, lanes), numbers), limit)
        )
    suffix = f"v{lanes}{'f32' if shape.dtype == 'float32' else 'f64'}"
    kinds = [vector, vector.as_pointer(), INDEX, masks[0].type]
    kind = ir.FunctionType(ir.VoidType(), kinds)
    store = declared(module, kind, f"llvm.masked.store.{suffix}.p0")
    parts = len(masks)
    for number, line in enumerate(turned(builder, lines)):
        for part, mask in enumerate(masks):
            channel = _word(number * parts + part)
            with builder.if_then(builder.icmp_signed("<", channel, channels)):
                start = builder.sub(builder.mul(channel, out_row), _word(part * count))
                builder.call(store, [line, place(out, start), ir.Constant(INDEX, 4), mask])
    builder.ret_void()
    return function


def everywhere(builder: Any, value: Any, lanes: int) -> Any:
    """A register with the same value in all lanes."""
    nothing = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(INDEX, 0))
    zeros = ir.Constant(ir.VectorType(INDEX, lanes), [0] * lanes)
    return builder.shuffle_vector(first, nothing, zeros)


def _write_passes(module: ir.Module, tiles: list[list[PixelTile]], name: str) -> None:
    """Tiles as wide as the channels need, over all points."""
    kinds = [*tiles[0][0].function.function_type.args, WORD]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    lanes, channels = _word(tiles[0][0].shape.lanes), function.args[7]
    rounded = builder.add(channels, builder.sub(lanes, _word(1)))
    across = builder.sdiv(rounded, lanes)
    for column in tiles:
        wide = builder.icmp_signed("==", across, _word(column[0].across))
        with builder.if_then(wide):
            _write_pass(builder, function, column)
    builder.ret_void()


def _write_pass(builder: ir.IRBuilder, function: ir.Function, column: list[PixelTile]) -> None:
    """Tiles of falling height, each as long as it fits."""
    given = function.args
    place = builder.alloca(WORD)
    builder.store(_word(0), place)
    for tile in column:
        head, body, after = (function.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        point = builder.load(place)
        left = builder.sub(given[8], point)
        builder.cbranch(builder.icmp_signed(">=", left, _word(tile.rows)), body, after)
        builder.position_at_end(body)
        passed = list(given[:8])
        passed[1], passed[4] = builder.gep(given[1], [point]), builder.gep(given[4], [point])
        builder.call(tile.function, passed)
        builder.store(builder.add(point, _word(tile.rows)), place)
        builder.branch(head)
        builder.position_at_end(after)


def _word(value: int) -> ir.Constant:
    return ir.Constant(WORD, value)
