"""Micro-kernels of matrix products: a tile of the result in vector registers.

They are emitted as LLVM IR with explicit vectors. A tile has `rows` times `vectors` accumulators.
Each term adds the products of a broadcast left element and the registers of a right line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

import attrs
from llvmlite import ir

from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.features import cpu_features

WORD = ir.IntType(64)
INDEX = ir.IntType(32)
ELEMENTS = {"float32": ir.FloatType(), "float64": ir.DoubleType(), "int32": INDEX}
SUFFIXES = {"float32": "f32", "float64": "f64", "int32": "i32"}
BUSY = 8  # totals of a tile that hide the latency of fused multiply-adds


@attrs.frozen
class TileShape:
    """The sizes of tiles: lanes per register, registers per row, and the supported numbers of
    rows."""

    dtype: str
    lanes: int
    vectors: int
    rows: tuple[int, ...]  # decreasing; the last is 1

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.lanes * self.vectors


def tile_shapes(dtype: str) -> tuple[TileShape, ...]:
    """Returns the tile shapes of this CPU, narrowest first; none without AVX-512 or AVX2 with
    FMA."""
    features = cpu_features()
    half = 2 if dtype == "float64" else 1
    if "avx512f" in features:
        return tuple([TileShape(dtype, 16 // half, v, (8, 4, 2, 1)) for v in (1, 2, 3)])
    if {"avx2", "fma"} <= features:
        return tuple([TileShape(dtype, 8 // half, v, (6, 5, 4, 3, 2, 1)) for v in (1, 2)])
    return ()


def panel_shapes(dtype: str) -> tuple[TileShape, ...]:
    """Returns the shapes of tiles of panels."""
    return _of_each_height(tile_shapes(dtype))


def paired_shapes(dtype: str) -> tuple[TileShape, ...]:
    """Returns the shapes of tiles of at most two registers, whose panels split into more parts."""
    return _of_each_height(tile_shapes(dtype)[:2])


def _of_each_height(shapes: tuple[TileShape, ...]) -> tuple[TileShape, ...]:
    """Returns shapes of which the widest one has all heights, so that few rows are one tile."""
    if not shapes:
        return ()
    *narrow, widest = shapes
    return (*narrow, attrs.evolve(widest, rows=tuple(range(widest.rows[0], 0, -1))))


def few_rows_shapes(dtype: str) -> tuple[TileShape, ...]:
    """Returns the shapes of tiles of products that often have few rows. Without AVX-512, three
    registers per row and up to 4 rows: 8 rows are two tiles with 12 totals each, and a term has
    fewer loads than in tiles of two registers. Parts of their panels begin at few columns."""
    shapes = panel_shapes(dtype)
    if len(shapes) != 2:
        return shapes
    return (*shapes, attrs.evolve(shapes[-1], vectors=3, rows=(4, 3, 2, 1)))


def cut_shapes(dtype: str) -> tuple[TileShape, ...]:
    """Returns the tile shapes of products that read lines up to the last column.

    Without AVX-512, column masks take vector registers too, so the tiles have one row less.
    """
    shapes = tile_shapes(dtype)
    if "avx512f" in cpu_features():
        return shapes
    return tuple([attrs.evolve(s, rows=(5, 4, 2, 1)) if s.vectors > 1 else s for s in shapes])


def tile_name(shape: TileShape, rows: int) -> str:
    """Returns the symbol of a tile function."""
    return f"structir_tile_{shape.dtype}_{shape.columns}_{rows}"


NEAR, NEXT = 2, 3  # prefetch localities: L2 and L1
CACHE_LINE = 64  # bytes
AHEAD = 16  # prefetch distance of few rows over several panels, in registers
MOST_PANELS = 4  # of a tile: enough accumulators and streams to hide latency


def columns_together(dtype: str) -> int:
    """Returns the number of columns of packed panels at whose multiples a block of columns may
    begin: no tile reads panels on both sides."""
    return tile_shapes(dtype)[-1].columns * MOST_PANELS


class TileFunction:
    """Emits a tile function.

    tile(a, a_row, a_column, b, b_row, c, c_row, terms, columns, accumulate) computes `rows` lines
    of c, `columns` wide, as the sum over `terms`, added to c if `accumulate` is nonzero. Strides
    are in elements. Lines of b are read in full, or with `cut` up to `columns`. With `windows`,
    b_row is a table of line offsets. With `prefetching`, the last arguments are the address to
    prefetch from, one cache line per term, and the distance between terms. With several `panels`,
    the last argument is their distance.
    """

    unit = 1  # elements of b per lane of a register
    steps = 1  # terms per iteration, of which the number of terms is a multiple
    prefetch_kinds: tuple[ir.Type, ...] = (WORD,)  # of the arguments after the address to prefetch

    def __init__(
        self,
        module: ir.Module,
        shape: TileShape,
        rows: int,
        windows: bool = False,
        cut: bool = False,
        operands: tuple[ir.Type, ir.Type] | None = None,
        prefetching: bool = False,
        panels: int = 1,
        name: str | None = None,
    ) -> None:
        self.module, self.shape, self.rows = module, shape, rows
        self.windows, self.cut, self.panels = windows, cut, panels
        self.real = ELEMENTS[shape.dtype]
        self.vector = ir.VectorType(self.real, shape.lanes)
        self.mask = ir.VectorType(ir.IntType(1), shape.lanes)
        left, right = [kind.as_pointer() for kind in operands or (self.real, self.real)]
        steps = WORD.as_pointer() if windows else WORD
        kinds = [left, WORD, WORD, right, steps, self.real.as_pointer(), WORD, WORD, WORD, WORD]
        kinds += [right, *self.prefetch_kinds] if prefetching else [WORD] if panels > 1 else []
        kind = ir.FunctionType(ir.VoidType(), kinds)
        name = name or tile_name(shape, rows) + ("_fetching" if prefetching else "")
        self.function = ir.Function(module, kind, name)
        a, a_row, a_column, b, b_row, c, c_row, terms, columns, accumulate, *last = (
            self.function.args
        )
        self.soon, self.apart = last if prefetching else [], last if panels > 1 else []
        self.a, self.a_row, self.a_column, self.b, self.b_row = a, a_row, a_column, b, b_row
        self.c, self.c_row, self.terms, self.columns = c, c_row, terms, columns
        self.accumulate = accumulate
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def reach(self, builder: Any, args: Sequence[Any], more: Sequence[Any]) -> Any:
        """Returns how far a call with these arguments prefetches. `more` follow the address to
        prefetch from."""
        return builder.mul(args[7], more[0])

    def write(self) -> None:
        """Emits the body."""
        self.masks = [self._mask(v) for v in range(self.shape.vectors)]
        self.write_tile()
        self.builder.ret_void()

    def write_tile(self) -> None:
        """Emits initial totals, the loop over terms, and the stores."""
        builder, function = self.builder, self.function
        start = self._start()
        before = builder.block
        head, body, after = (function.append_basic_block(n) for n in ("head", "body", "after"))
        lines = self._lines(self.a, self.a_row)
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
        sums: list[list[Any]] = totals
        for step in range(self.steps):
            sums = self._added(builder.add(term, _word(step)), lines, sums)
        for phi, value in zip(chain(*totals), chain(*sums), strict=True):
            phi.add_incoming(value, body)
        term.add_incoming(builder.add(term, _word(self.steps)), body)
        builder.branch(head)
        builder.position_at_end(after)
        self._store(totals)

    def _added(self, term: Any, lines: list[Any], totals: list[list[Any]]) -> list[list[Any]]:
        """Emits the accumulation of a term's products; returns the new totals."""
        builder = self.builder
        line = builder.gep(self.b, [self._start_of(term)])
        load = self._load_inside if self.cut else self._load
        if self.panels > 1:
            return self._added_beside(term, line, lines, totals)
        right = [load(line, v) for v in range(self.shape.vectors)]
        self._prefetch_next(term, line)
        sums = []
        for left, row in zip(self._left(term, lines), totals, strict=True):
            sums.append([self._sum(left, *both) for both in zip(right, row, strict=True)])
        return sums

    def _added_beside(
        self, term: Any, line: Any, lines: list[Any], totals: list[list[Any]]
    ) -> list[list[Any]]:
        """Emits the accumulation in several panels: register by register of their lines, since
        there are none for all of these. A load with one use becomes its operand."""
        self._prefetch_next(term, line)
        left, sums = list(self._left(term, lines)), [list[Any]() for _ in totals]
        for v in range(self.shape.vectors):
            right = self._load(line, v)
            for own, row, row_sums in zip(left, totals, sums, strict=True):
                row_sums.append(self._sum(own, right, row[v]))
        return sums

    def _left(self, term: Any, lines: list[Any]) -> Iterator[Any]:
        """Emits the left elements of a term, each in all lanes of a register."""
        step = self.builder.mul(term, self.a_column)
        for line in lines:
            yield self._splat(self.builder.load(self.builder.gep(line, [step])))

    def _sum(self, left: Any, right: Any, total: Any) -> Any:
        """Returns a register of totals plus products."""
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        fma = declared(self.module, kind, f"llvm.fma.{self._suffix()}")
        return self.builder.call(fma, [left, right, total])

    def _prefetch_next(self, term: Any, line: Any) -> None:
        """Prefetches the next panel, or later lines of several panels, whose single row is bound by
        memory bandwidth."""
        builder, across = self.builder, self.shape.lanes * self.unit
        if self.soon:
            start, step = self.soon
            self._prefetch(builder.gep(start, [builder.mul(term, step)]), NEAR)
        for v in range(self.shape.vectors if self.panels > 1 else 0):
            ahead = _word(AHEAD * across)
            self._prefetch(builder.gep(self._register(line, v), [ahead]), NEXT)

    def _prefetch(self, place: Any, near: int) -> None:
        """Prefetches the cache line of an address for reading."""
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, INDEX, INDEX, INDEX])
        fetch = declared(self.module, kind, "llvm.prefetch.p0")
        read, data = ir.Constant(INDEX, 0), ir.Constant(INDEX, 1)
        place = self.builder.bitcast(place, byte)
        self.builder.call(fetch, [place, read, ir.Constant(INDEX, near), data])

    def _suffix(self) -> str:
        return f"v{self.shape.lanes}{SUFFIXES[self.shape.dtype]}"

    def _register(self, line: Any, vector: int, unit: int | None = None) -> Any:
        """Returns the address of a register of a line, with `unit` elements per lane."""
        unit = unit or self.unit
        panel, vector = divmod(vector, self.shape.vectors // self.panels)
        for apart in self.apart:
            line = self.builder.gep(line, [self.builder.mul(_word(panel), apart)])
        return _moved(self.builder, line, vector * self.shape.lanes * unit)

    def _load(self, line: Any, vector: int) -> Any:
        place = self.builder.bitcast(self._register(line, vector), self.vector.as_pointer())
        return self.builder.load(place, align=4)

    def _start_of(self, term: Any) -> Any:
        """Returns the offset of a term's line in b."""
        if self.windows:
            return self.builder.load(self.builder.gep(self.b_row, [term]))
        return self.builder.mul(term, self.b_row)

    def _load_inside(self, line: Any, vector: int) -> Any:
        """Loads a register of a line up to the last column."""
        place = _moved(self.builder, line, vector * self.shape.lanes)
        place = self.builder.bitcast(place, self.vector.as_pointer())
        zero, alignment = ir.Constant(self.vector, None), ir.Constant(INDEX, 4)
        return self.builder.call(self._masked_load(), [place, alignment, self.masks[vector], zero])

    def _masked_load(self) -> Any:
        pointer = self.vector.as_pointer()
        kind = ir.FunctionType(self.vector, [pointer, INDEX, self.mask, self.vector])
        return declared(self.module, kind, f"llvm.masked.load.{self._suffix()}.p0")

    def _splat(self, value: Any) -> Any:
        nothing = _constant(ir.VectorType(value.type, self.shape.lanes), ir.Undefined)
        first = self.builder.insert_element(nothing, value, _constant(INDEX, 0))
        zeros = _constant(ir.VectorType(INDEX, self.shape.lanes), 0)
        return self.builder.shuffle_vector(first, nothing, zeros)

    def _mask(self, vector: int) -> Any:
        """Returns the mask of the lanes of a register that are columns of c."""
        kind = ir.VectorType(INDEX, self.shape.lanes)
        numbers = ir.Constant(kind, list(range(self.shape.lanes)))
        left = self.builder.sub(self.columns, _word(vector * self.shape.lanes))
        limit = self._splat(self.builder.trunc(left, INDEX))
        return self.builder.icmp_signed("<", numbers, limit)

    def _lines(self, first: Any, step: Any) -> list[Any]:
        """Returns the addresses of the rows of an operand."""
        lines = [first]
        while len(lines) < self.rows:
            lines.append(self.builder.gep(lines[-1], [step]))
        return lines

    def _address(self, line: Any, vector: int) -> Any:
        """Returns the address of a register of a row of c."""
        place = _moved(self.builder, line, vector * self.shape.lanes)
        return self.builder.bitcast(place, self.vector.as_pointer())

    def _start(self) -> list[list[Any]]:
        """Emits the start of the totals: initial ones, or c."""
        builder, first = self.builder, [self._initial(v) for v in range(self.shape.vectors)]
        empty = builder.block
        with builder.if_then(builder.icmp_signed("!=", self.accumulate, _word(0))):
            held = self._load_tile()
            full = builder.block
        start = []
        for row in held:
            start.append([builder.phi(self.vector) for _ in row])
            for phi, initial, value in zip(start[-1], first, row, strict=True):
                phi.add_incoming(initial, empty)
                phi.add_incoming(value, full)
        return start

    def _initial(self, vector: int) -> Any:
        """Returns a register of initial totals."""
        return ir.Constant(self.vector, None)

    def _load_tile(self) -> list[list[Any]]:
        """Loads the tile of c."""
        alignment, load = ir.Constant(INDEX, 4), self._masked_load()
        zero = ir.Constant(self.vector, None)
        return [
            [
                self.builder.call(load, [self._address(line, v), alignment, self.masks[v], zero])
                for v in range(self.shape.vectors)
            ]
            for line in self._lines(self.c, self.c_row)
        ]

    def _store(self, totals: list[list[Any]]) -> None:
        """Stores the tile up to the last column.

        Without AVX-512, masked stores take tens of cycles on some CPUs: whole vectors have none.
        """
        builder, lines = self.builder, self._lines(self.c, self.c_row)
        for v, column in enumerate(zip(*totals, strict=True)):
            end = _word((v + 1) * self.shape.lanes)
            partial = builder.icmp_signed("<", self.columns, end)
            with builder.if_else(partial, likely=False) as (some, whole):
                with some:
                    self._store_part(column, lines, v)
                with whole:
                    for line, total in zip(lines, column, strict=True):
                        builder.store(total, self._address(line, v), align=4)

    def _store_part(self, column: Sequence[Any], lines: Sequence[Any], vector: int) -> None:
        """Stores the first lanes of a register of each row."""
        pointer = self.vector.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [self.vector, pointer, INDEX, self.mask])
        store = declared(self.module, kind, f"llvm.masked.store.{self._suffix()}.p0")
        for line, total in zip(lines, column, strict=True):
            place, alignment = self._address(line, vector), ir.Constant(INDEX, 4)
            self.builder.call(store, [total, place, alignment, self.masks[vector]])


class OrderedTile(TileFunction):
    """A tile whose products and sums are rounded one by one, in the order of the terms."""

    def _sum(self, left: Any, right: Any, total: Any) -> Any:
        return self.builder.fadd(total, self.builder.fmul(left, right))


def comes_next(
    builder: Any, remaining: Any, heights: Sequence[int], height: int, across: int
) -> Any:
    """Emits whether a tile of a height is the next for a number of remaining rows: enough remain,
    and not so few beyond it that the last tile would wait for its products, if tiles of less height
    can avoid that. A tile has `across` registers per row."""
    beyond, least = builder.sub(remaining, _word(height)), -(-BUSY // across)
    fits = builder.icmp_signed(">=", beyond, _word(0))
    if height <= least or not {*range(1, height)} <= {*heights}:
        return fits
    is_last = builder.icmp_signed("==", beyond, _word(0))
    return builder.or_(is_last, builder.icmp_signed(">=", beyond, _word(least)))


class PanelFunction:
    """Emits the function that applies tiles to all rows of one panel.

    panel(a, a_row, a_column, b, b_row, c, c_row, terms, columns, accumulate, registers, rows,
    parts, soon, ...) uses the tiles of `registers` registers. The first `parts` tiles are
    `prefetching` ones, by the registers and rows of a tile. The last arguments are theirs: each
    prefetches memory from where the one before ended, from `soon` on.
    """

    def __init__(
        self,
        module: ir.Module,
        tiles: dict[tuple[int, int], TileFunction],
        name: str,
        prefetching: dict[tuple[int, int], TileFunction] | None = None,
    ) -> None:
        self.tiles, self.name, self.prefetching = tiles, name, prefetching or {}
        tile = next(iter([*self.prefetching.values(), *tiles.values()])).function
        operands = tile.function_type.args
        kinds = [*operands[:10], WORD, WORD, WORD, *operands[10:]]
        self.function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), self.name)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def write(self) -> None:
        """Emits a chain of loops for each width."""
        builder, registers = self.builder, self.function.args[10]
        widths: dict[int, list[int]] = {}
        for across, height in self.tiles:
            widths.setdefault(across, []).append(height)
        for across, heights in widths.items():
            with builder.if_then(builder.icmp_signed("==", registers, _word(across))):
                self._passes(across, heights)
        builder.ret_void()

    def _passes(self, across: int, heights: list[int]) -> None:
        """Emits loops over tiles of decreasing height."""
        builder, args = self.builder, self.function.args
        place, count = builder.alloca(WORD), builder.alloca(WORD)
        builder.store(_word(0), place)
        builder.store(_word(0), count)
        for height in heights:
            head, body, after = (self.function.append_basic_block() for _ in range(3))
            builder.branch(head)
            builder.position_at_end(head)
            row = builder.load(place)
            fits = comes_next(builder, builder.sub(args[11], row), heights, height, across)
            builder.cbranch(fits, body, after)
            builder.position_at_end(body)
            passed = list(args[:10])
            passed[0] = builder.gep(args[0], [builder.mul(row, args[1])])
            passed[5] = builder.gep(args[5], [builder.mul(row, args[6])])
            number = builder.load(count)
            self._pass(across, height, number, passed)
            builder.store(builder.add(row, _word(height)), place)
            builder.store(builder.add(number, _word(1)), count)
            builder.branch(head)
            builder.position_at_end(after)

    def _pass(self, across: int, height: int, number: Any, passed: list[Any]) -> None:
        """Emits a tile, which prefetches its part if it has one."""
        builder, args = self.builder, self.function.args
        plain, tile = self.tiles[across, height], self.prefetching.get((across, height))
        if tile is None:
            builder.call(plain.function, passed)
            return
        parts, soon, *more = args[12:]
        before = builder.mul(number, tile.reach(builder, passed, more))
        with builder.if_else(builder.icmp_signed("<", number, parts)) as (early, late):
            with early:
                builder.call(tile.function, [*passed, builder.gep(soon, [before]), *more])
            with late:
                builder.call(plain.function, passed)


@cache
def _constant(kind: ir.Type, value: Any) -> ir.Constant:
    """Returns a constant, whose text is formatted once."""
    return ir.Constant(kind, value)


def _word(value: int) -> ir.Constant:
    constant: ir.Constant = _constant(WORD, value)
    return constant


def _moved(builder: Any, start: Any, elements: int) -> Any:
    """Returns an address some elements after another one."""
    return builder.gep(start, [_word(elements)]) if elements else start
