"""The innermost part of matrix products: a tile of the result held in vector registers.

Written as LLVM IR because it needs explicit vectors: `rows` lines of `vectors` registers each take
one product of a broadcast element and a line of the right operand per step of the sum.
"""

from __future__ import annotations

from typing import Any

import attrs
from llvmlite import ir

from structir.backend.cpu.features import cpu_features
from structir.backend.math.bits import declared

WORD = ir.IntType(64)
INDEX = ir.IntType(32)
ELEMENTS = {"float32": ir.FloatType(), "float64": ir.DoubleType(), "int32": INDEX}
SUFFIXES = {"float32": "f32", "float64": "f64", "int32": "i32"}


@attrs.frozen
class TileShape:
    """How large the tiles are on a processor: lanes of a register, registers across, rows down."""

    dtype: str
    lanes: int
    vectors: int
    rows: tuple[int, ...]  # falling; the last is 1

    @property
    def columns(self) -> int:
        """The columns of a tile."""
        return self.lanes * self.vectors


def tile_shapes(dtype: str) -> tuple[TileShape, ...]:
    """The tiles for this processor, narrowest first: one, two and more registers across. There are
    none where it has no wide fused multiply-add."""
    features = cpu_features()
    half = 2 if dtype == "float64" else 1
    if "avx512f" in features:
        return tuple([TileShape(dtype, 16 // half, v, (8, 4, 2, 1)) for v in (1, 2, 3)])
    if {"avx2", "fma"} <= features:
        return tuple([TileShape(dtype, 8 // half, v, (6, 4, 2, 1)) for v in (1, 2)])
    return ()


def window_shapes(dtype: str) -> tuple[TileShape, ...]:
    """The tiles of products that read windows. Without AVX-512 the masks of their columns take
    vector registers as well, which leaves room for one row less."""
    shapes = tile_shapes(dtype)
    if "avx512f" in cpu_features():
        return shapes
    return tuple([attrs.evolve(s, rows=(5, 4, 2, 1)) if s.vectors > 1 else s for s in shapes])


def tile_name(shape: TileShape, rows: int) -> str:
    """The symbol of a tile function."""
    return f"structir_tile_{shape.dtype}_{shape.columns}_{rows}"


NEAR, NEXT = 2, 3  # how near data is to be brought: to the second cache, and to the first
AHEAD = 16  # registers: how far ahead one row has its panels brought near
BESIDE = 4  # panels that one row meets at once: enough totals, and streams, to wait for none


def beside(shapes: tuple[TileShape, ...]) -> TileShape:
    """The tile of one row over several of the widest panels."""
    widest = shapes[-1]
    return attrs.evolve(widest, vectors=widest.vectors * BESIDE, rows=(1,))


class TileFunction:
    """One tile function in the making:

    tile(a, a_row, a_column, b, b_row, c, c_row, terms, columns, accumulate) makes `rows` lines of
    c, `columns` of the tile wide, from the sum over `terms`; with `accumulate`, on top of c. The
    lines of b are read in full. With `windows`, b_row is a table of where each line starts, and
    lines are read no further than the columns. With `fetching`, there is a last argument: memory
    that will be read soon, a line of cache of which is brought near for each term. Over several
    `panels`, the last argument is how far apart they are.
    """

    def __init__(
        self,
        module: ir.Module,
        shape: TileShape,
        rows: int,
        windows: bool = False,
        operands: ir.Type | None = None,
        fetching: bool = False,
        panels: int = 1,
        name: str | None = None,
    ) -> None:
        self.module, self.shape, self.rows, self.windows = module, shape, rows, windows
        self.panels = panels
        self.real = ELEMENTS[shape.dtype]
        self.vector = ir.VectorType(self.real, shape.lanes)
        self.mask = ir.VectorType(ir.IntType(1), shape.lanes)
        read, written = (operands or self.real).as_pointer(), self.real.as_pointer()
        steps = WORD.as_pointer() if windows else WORD
        kinds = [read, WORD, WORD, read, steps, written, WORD, WORD, WORD, WORD]
        kinds += [read] if fetching else [WORD] if panels > 1 else []
        kind = ir.FunctionType(ir.VoidType(), kinds)
        name = name or tile_name(shape, rows) + ("_fetching" if fetching else "")
        self.function = ir.Function(module, kind, name)
        a, a_row, a_column, b, b_row, c, c_row, terms, columns, accumulate, *last = (
            self.function.args
        )
        self.soon, self.apart = last if fetching else [], last if panels > 1 else []
        self.a, self.a_row, self.a_column, self.b, self.b_row = a, a_row, a_column, b, b_row
        self.c, self.c_row, self.terms, self.columns = c, c_row, terms, columns
        self.accumulate = accumulate
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def write(self) -> None:
        """The whole body: totals from c or 0, the sum, the store."""
        builder, function = self.builder, self.function
        self.masks = [self._mask(v) for v in range(self.shape.vectors)]
        start = self._start()
        before = builder.block
        head, body, after = (function.append_basic_block(n) for n in ("head", "body", "after"))
        lines = [builder.gep(self.a, [builder.mul(_word(r), self.a_row)]) for r in range(self.rows)]
        builder.branch(head)
        builder.position_at_end(head)
        term = builder.phi(WORD)
        term.add_incoming(_word(0), before)
        totals = []
        for row in start:
            totals.append([builder.phi(self.vector) for _ in row])
            for phi, value in zip(totals[-1], row, strict=True):
                phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", term, self.terms), body, after)
        builder.position_at_end(body)
        self._add_products(term, lines, totals, body)
        term.add_incoming(builder.add(term, _word(1)), body)
        builder.branch(head)
        builder.position_at_end(after)
        self._store(totals)
        builder.ret_void()

    def _add_products(
        self, term: Any, lines: list[Any], totals: list[list[Any]], body: Any
    ) -> None:
        builder = self.builder
        line = builder.gep(self.b, [self._start_of(term)])
        load = self._load_inside if self.windows else self._load
        right = [load(line, v) for v in range(self.shape.vectors)]
        self._fetch_soon(term, line)
        step = builder.mul(term, self.a_column)
        shape = ir.FunctionType(self.vector, [self.vector] * 3)
        fma = declared(self.module, shape, f"llvm.fma.{self._suffix()}")
        for row, own in zip(totals, lines, strict=True):
            left = self._everywhere(builder.load(builder.gep(own, [step])))
            for total, vector in zip(row, right, strict=True):
                total.add_incoming(builder.call(fma, [left, vector, total]), body)

    def _fetch_soon(self, term: Any, line: Any, unit: int = 1) -> None:
        """Bring near what is read later: of the next panel, or further on in panels side by side,
        where one row waits for memory alone."""
        builder, across = self.builder, self.shape.lanes * unit
        for start in self.soon:
            self._fetch(builder.gep(start, [builder.mul(term, _word(across))]), NEAR)
        for v in range(self.shape.vectors if self.panels > 1 else 0):
            ahead = _word(AHEAD * across)
            self._fetch(builder.gep(self._register(line, v, unit), [ahead]), NEXT)

    def _fetch(self, place: Any, near: int) -> None:
        """Bring a line near that will be read."""
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, INDEX, INDEX, INDEX])
        fetch = declared(self.module, kind, "llvm.prefetch.p0")
        read, data = ir.Constant(INDEX, 0), ir.Constant(INDEX, 1)
        place = self.builder.bitcast(place, byte)
        self.builder.call(fetch, [place, read, ir.Constant(INDEX, near), data])

    def _suffix(self) -> str:
        return f"v{self.shape.lanes}{SUFFIXES[self.shape.dtype]}"

    def _register(self, line: Any, vector: int, unit: int = 1) -> Any:
        """Where a register of a line starts, of so many elements for each lane."""
        panel, vector = divmod(vector, self.shape.vectors // self.panels)
        for apart in self.apart:
            line = self.builder.gep(line, [self.builder.mul(_word(panel), apart)])
        return self.builder.gep(line, [_word(vector * self.shape.lanes * unit)])

    def _load(self, line: Any, vector: int) -> Any:
        place = self.builder.bitcast(self._register(line, vector), self.vector.as_pointer())
        return self.builder.load(place, align=4)

    def _start_of(self, term: Any) -> Any:
        """Where the line of b for a term starts."""
        if self.windows:
            return self.builder.load(self.builder.gep(self.b_row, [term]))
        return self.builder.mul(term, self.b_row)

    def _load_inside(self, line: Any, vector: int) -> Any:
        """A register of a line that may end at the last column."""
        place = self.builder.gep(line, [_word(vector * self.shape.lanes)])
        place = self.builder.bitcast(place, self.vector.as_pointer())
        zero = ir.Constant(self.vector, [0.0] * self.shape.lanes)
        alignment = ir.Constant(INDEX, 4)
        return self.builder.call(self._masked_load(), [place, alignment, self.masks[vector], zero])

    def _masked_load(self) -> Any:
        pointer = self.vector.as_pointer()
        kind = ir.FunctionType(self.vector, [pointer, INDEX, self.mask, self.vector])
        return declared(self.module, kind, f"llvm.masked.load.{self._suffix()}.p0")

    def _everywhere(self, value: Any) -> Any:
        kind = ir.VectorType(value.type, self.shape.lanes)
        nothing = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(nothing, value, ir.Constant(INDEX, 0))
        zeros = ir.Constant(ir.VectorType(INDEX, self.shape.lanes), [0] * self.shape.lanes)
        return self.builder.shuffle_vector(first, nothing, zeros)

    def _mask(self, vector: int) -> Any:
        """Which lanes of a register are columns of c."""
        kind = ir.VectorType(INDEX, self.shape.lanes)
        numbers = ir.Constant(kind, list(range(self.shape.lanes)))
        left = self.builder.sub(self.columns, _word(vector * self.shape.lanes))
        limit = self._everywhere(self.builder.trunc(left, INDEX))
        return self.builder.icmp_signed("<", numbers, limit)

    def _place(self, row: int, vector: int) -> Any:
        builder = self.builder
        index = builder.add(builder.mul(_word(row), self.c_row), _word(vector * self.shape.lanes))
        return builder.bitcast(builder.gep(self.c, [index]), self.vector.as_pointer())

    def _start(self) -> list[list[Any]]:
        """Zeros, or what c holds."""
        builder, empty = self.builder, self.builder.block
        zero = ir.Constant(self.vector, [0.0] * self.shape.lanes)
        with builder.if_then(builder.icmp_signed("!=", self.accumulate, _word(0))):
            held = self._held(zero)
            full = builder.block
        start = []
        for row in held:
            start.append([builder.phi(self.vector) for _ in row])
            for phi, value in zip(start[-1], row, strict=True):
                phi.add_incoming(zero, empty)
                phi.add_incoming(value, full)
        return start

    def _held(self, zero: ir.Constant) -> list[list[Any]]:
        """What c holds."""
        alignment, load = ir.Constant(INDEX, 4), self._masked_load()
        return [
            [
                self.builder.call(load, [self._place(r, v), alignment, self.masks[v], zero])
                for v in range(self.shape.vectors)
            ]
            for r in range(self.rows)
        ]

    def _store(self, totals: list[list[Any]]) -> None:
        pointer = self.vector.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [self.vector, pointer, INDEX, self.mask])
        store = declared(self.module, kind, f"llvm.masked.store.{self._suffix()}.p0")
        for r, row in enumerate(totals):
            for v, total in enumerate(row):
                place, alignment = self._place(r, v), ir.Constant(INDEX, 4)
                self.builder.call(store, [total, place, alignment, self.masks[v]])


class PanelFunction:
    """The tiles down the rows of one panel:

    panel(a, a_row, a_column, b, b_row, c, c_row, terms, columns, accumulate, registers, rows, far),
    with the tiles of the panel's width. `fetching` are tiles by the panel's width that bring the
    next panel near, which is `far` on.
    """

    def __init__(
        self,
        module: ir.Module,
        tiles: dict[tuple[int, int], ir.Function],
        name: str,
        fetching: dict[int, TileFunction] | None = None,
    ) -> None:
        self.tiles, self.name, self.fetching = tiles, name, fetching or {}
        kinds = [*next(iter(tiles.values())).function_type.args, WORD, WORD, WORD]
        kind = ir.FunctionType(ir.VoidType(), kinds)
        self.function = ir.Function(module, kind, self.name)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def write(self) -> None:
        """One chain of loops for each width."""
        builder, registers = self.builder, self.function.args[10]
        widths: dict[int, list[int]] = {}
        for width, height in self.tiles:
            widths.setdefault(width, []).append(height)
        for number, (width, heights) in enumerate(widths.items(), 1):
            with builder.if_then(builder.icmp_signed("==", registers, _word(number))):
                self._passes(width, heights)
        builder.ret_void()

    def _passes(self, width: int, heights: list[int]) -> None:
        """Tiles of falling height, each as long as it fits."""
        builder, given = self.builder, self.function.args
        place = builder.alloca(WORD)
        builder.store(_word(0), place)
        for height in heights:
            head, body, after = (self.function.append_basic_block() for _ in range(3))
            builder.branch(head)
            builder.position_at_end(head)
            row = builder.load(place)
            fits = builder.icmp_signed(">=", builder.sub(given[11], row), _word(height))
            builder.cbranch(fits, body, after)
            builder.position_at_end(body)
            passed = list(given[:10])
            passed[0] = builder.gep(given[0], [builder.mul(row, given[1])])
            passed[5] = builder.gep(given[5], [builder.mul(row, given[6])])
            self._pass(width, height, row, passed)
            builder.store(builder.add(row, _word(height)), place)
            builder.branch(head)
            builder.position_at_end(after)

    def _pass(self, width: int, height: int, row: Any, passed: list[Any]) -> None:
        """One tile; as many of the first as the panel has registers across bring near one register
        of each line of the next panel."""
        builder, given = self.builder, self.function.args
        tile = self.fetching.get(width)
        if tile is None or tile.rows != height:
            builder.call(self.tiles[width, height], passed)
            return
        first = builder.icmp_signed("<", row, _word(height * tile.shape.vectors))
        with builder.if_else(first) as (early, late):
            with early:
                number = builder.sdiv(row, _word(height))
                before = builder.mul(builder.mul(number, given[7]), _word(tile.shape.lanes))
                soon = builder.gep(given[3], [builder.add(given[12], before)])
                builder.call(tile.function, [*passed, soon])
            with late:
                builder.call(self.tiles[width, height], passed)


def _word(value: int) -> ir.Constant:
    return ir.Constant(WORD, value)
