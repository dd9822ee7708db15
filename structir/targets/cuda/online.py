"""The schedule of attention with an online softmax: scores are computed tile by tile; weighted sums
of values are rescaled whenever the row maximum grows.

A block computes some rows of the result. Tiles of queries, keys and values go through shared
memory; each thread has some of their rows and columns in registers. The online normaliser is that
of Milakov and Gimelshein (2018), the tiling that of FlashAttention (Dao et al., 2022).
"""

from __future__ import annotations

from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym, ceildiv
from structir.loops.fusion.simplify import simplified
from structir.loops.program.access import address_of
from structir.loops.program.expression import Expression, Load, apply, axis_dim
from structir.targets.cuda.attention import Attention
from structir.targets.cuda.device_text import (
    SIDE,
    DeviceText,
    device_text,
    over_blocks,
    unrolled,
)
from structir.targets.cuda.masked import FAR, Bounds, mask_of
from structir.targets.cuda.scalar_text import number_text
from structir.targets.cuda.writer import LoopScope, Writer, indented

DEPTH = 32  # terms of scores in shared memory at once
GAP = 4  # padding between lines there, against bank conflicts
MOST = 4  # rows, keys or columns of a thread; twice as many columns of narrow dtypes
SYNC = "cuda.syncthreads()"


@attrs.frozen
class Tiles:
    """The tile sizes: rows, keys and columns per thread, and terms of scores per slice."""

    rows: int
    keys: int
    columns: int
    depth: int

    @property
    def heights(self) -> int:
        """The number of slices in which the values of a tile of keys are loaded."""
        return 1 if self.columns <= MOST else 2

    @property
    def score_size(self) -> int:
        """Elements of a tile of queries and one of keys, or of one of values."""
        scores = self.depth * (line_of(self.rows) + line_of(self.keys))
        return max(scores, SIDE * self.keys // self.heights * line_of(self.columns))

    @property
    def size(self) -> int:
        """Elements of shared memory: these and the weights, later the results."""
        weights = SIDE * self.keys * line_of(self.rows)
        return max(self.score_size + weights, SIDE * self.rows * line_of(self.columns))


def line_of(each: int) -> int:
    """Returns the stride of lines in shared memory for a number of elements per thread."""
    return SIDE * each + GAP


def tiles_of(attention: Attention) -> Tiles:
    """Returns tiles that are not longer than the axes, as far as their sizes are known."""
    wide = attention.dtype == "float64"
    depth = attention.extents[attention.depth]
    return Tiles(
        _each(1 if attention.query is None else attention.extents[attention.query], MOST),
        MOST // 2 if wide else MOST,
        _each(attention.extents[attention.column], MOST if wide else 2 * MOST),
        min(max(depth, 1), DEPTH) if isinstance(depth, int) else DEPTH,
    )


def _each(extent: Dim, most: int) -> int:
    if not isinstance(extent, int):
        return MOST
    count = max(-(-extent // SIDE), 1)
    return min(count + (count % 2 if count > 1 else 0), most)


class AttentionSchedule:
    """Writes the kernel of an attention."""

    most_rows: int  # rows of the result per block, at most, on a GPU
    rows: str  # and on this device
    by_warps = False

    def __init__(self, attention: Attention) -> None:
        self.attention, self.dtype = attention, attention.dtype
        single = dims.as_sym(dims.sym("single"))
        assert single is not None
        self.query: Sym = attention.query or single
        self.extents: dict[Sym, Dim] = {single: 1, **attention.extents}
        self.axes = (*attention.outer, self.query, attention.key, attention.column, attention.depth)
        self.writer = Writer(self.axes, (*attention.outer, self.query))
        self.outer: list[tuple[Sym, ...]] = [(axis,) for axis in attention.outer]
        names = ["g"] if len(self.outer) == 1 else [f"g{k}" for k in range(len(self.outer))]
        names += ["row", "key", "column", "term"]
        self.writer.name_axes([(axis,) for axis in self.axes], names)
        self.block = LoopScope(frozenset(attention.outer))
        self.of_rows = frozenset((*attention.outer, self.query))
        self.ends = {axis: self.writer.size(self.extents[axis]) for axis in self.axes}
        self.tiles = tiles_of(attention)
        self.most_rows = SIDE * self.tiles.rows
        self.rows = f"(tile_side * {self.tiles.rows})"
        self.zero = number_text(0, self.dtype)
        self.sums = [f"sum{k}" for k in range(len(attention.whole))]

    def device_text(self) -> DeviceText:
        """Returns the source of the kernel."""
        attention, inside = self.attention, self._block()
        sizes = [self.ends[axis] for axis in attention.outer]
        head = [
            f"first_row = block % blocks * {self.rows}",
            "g = block // blocks",
            *self.writer.decoded(self.outer, sizes, "g"),
            *self.block.lines,
        ]
        count = prod(self.extents[axis] for axis in attention.outer)
        lines = [
            *self._memory(),
            *self._places(),
            f"nothing = {number_text(float('-inf'), self.dtype)}",
            f"blocks = ({self.ends[self.query]} + {self.rows} - 1) // {self.rows}",
            *over_blocks("block", f"{self.writer.size(count)} * blocks", [*head, *inside]),
        ]
        whole = count * ceildiv(self.extents[self.query], self.most_rows)
        origins = tuple(dict.fromkeys(s.origin for s in attention.stages if s.origin))
        text = device_text(self.writer, lines, whole, origins)
        return attrs.evolve(text, square=not self.by_warps, any_warps=self.by_warps, apart=True)

    def _places(self) -> list[str]:
        """Computes the position of a thread in its block."""
        return [
            "down = cuda.threadIdx.x // tile_side",
            "across = cuda.threadIdx.x % tile_side",
        ]

    def _memory(self) -> list[str]:
        """Declares shared memory and the registers of a thread."""
        tiles = self.tiles
        shared = {"tile": tiles.size, "peaks": SIDE * tiles.rows}
        shared |= {f"{name}_of": SIDE * tiles.rows for name in self.sums}
        own = {"score": tiles.keys * tiles.rows, "mixed": tiles.rows * tiles.columns}
        own |= dict.fromkeys(["best", "most", "left", *self.sums], tiles.rows)
        own |= {"right_keys": tiles.keys, "right": tiles.columns}
        lines = [f"{name} = cuda.shared.array({n}, {self.dtype})" for name, n in shared.items()]
        return lines + [f"{name} = cuda.local.array({n}, {self.dtype})" for name, n in own.items()]

    # ---- tiles

    def _loaded(
        self, read: Load, along: tuple[Sym, str, str], lines: tuple[Sym, str, int], place: str
    ) -> list[str]:
        """Loads a tile of an operand: a number of positions of an axis from a start on, and a
        number of lines of another axis per thread. Neighbouring threads load neighbouring elements.
        Positions outside are clamped; their values are not used."""
        (axis, begin, count), (other, origin, each) = along, lines
        near = address_of(read.buffer, read.entries, self.axes).coefficient(axis) == 1
        first, second = ("across", "down") if near else ("down", "across")
        scope = LoopScope(frozenset((*self.attention.outer, axis, other)))
        value = self.writer.value(read, [self.block, scope])
        name, line = self.writer.names[axis], self.writer.names[other]
        inside = [
            f"t = {second} + tile_side * c",
            f"{line} = min({origin} + t, {self.ends[other]} - 1)",
            *scope.lines,
            f"tile[{place}u * {line_of(each)} + t] = {value}",
        ]
        at = f"{begin} + u"
        at = at if axis is self.attention.depth else f"min({at}, {self.ends[axis]} - 1)"
        return [
            f"for u in range({first}, {count}, tile_side):",
            f"    {name} = {at}",
            *indented(unrolled("c", each, inside)),
        ]

    def _product(self, total: str, left: str, right: str, each: tuple[int, int]) -> list[str]:
        """Multiplies one term of two tiles in registers: `each` elements of both."""
        name = "right_keys" if total == "score" else "right"
        place = f"{total}[c * {each[0]} + r]" if total == "score" else f"{total}[r * {each[1]} + c]"
        term = f"{place} = add_to({place}, left[r] * {name}[c])"
        return [
            f"left[:] = tile[{left} : {left} + {each[0]}]",
            f"{name}[:] = tile[{right} : {right} + {each[1]}]",
            *unrolled("r", each[0], unrolled("c", each[1], [term])),
        ]

    # ---- one block

    def _block(self) -> list[str]:
        """Computes some rows of the result, some columns at a time."""
        tiles, attention = self.tiles, self.attention
        keys = [*self._products(), *self._scores(), *self._weights(), *self._mixed()]
        if (
            dims.at_least(self.extents[attention.depth], 1) is not True
        ):  # then products need no barrier
            keys.insert(0, SYNC)
        start = ["most[r] = nothing", *[f"{name}[r] = {self.zero}" for name in self.sums]]
        sums = [f"{name}[r] = add_to({name}[r], {{}}({name}[r], step))" for name in self.sums]
        first = [
            *unrolled("r", tiles.rows, start),
            *unrolled("c", tiles.rows * tiles.columns, [f"mixed[c] = {self.zero}"]),
        ]
        body = [
            *self._over_keys(first, tiles.rows, f"tile_side * {tiles.keys}", keys),
            *self._of_lanes(sums),
            *self._results(),
        ]
        end = self.ends[attention.column]
        return [
            f"for first_column in range(0, {end}, tile_side * {tiles.columns}):",
            *indented(body),
        ]

    def _over_keys(self, start: list[str], rows: int, step: str, tile: list[str]) -> list[str]:
        """Loops over all tiles of keys; first without those that a mask removes entirely. If a row
        has no other keys, or only negligible ones, over all of them."""
        end = self.ends[self.attention.key]
        head = f"for first_key in range(0, {end}, {step}):"
        mask = mask_of(simplified(self.attention.score))
        bounds = self._bounds()
        seen = None if mask is None else bounds.of(mask.seen)
        if mask is None or seen is None or not bounds.lines:
            return [*start, head, *indented(tile)]
        inside = [
            f"last_key = min(first_key + {step}, {end}) - 1",
            *bounds.lines,
            f"if attempt == 0 and not {seen.high}:",
            "    continue",
            *tile,
        ]
        low = " & ".join([f"(most[{r}] > limit)" for r in range(rows)])
        return [
            "again = cuda.shared.array(1, int32)",
            f"last_row = min(first_row + {self.rows}, {self.ends[self.query]}) - 1",
            f"limit = {number_text(mask.number + FAR[self.dtype], self.dtype)}",
            "for attempt in range(2):",
            *indented([*start, head, *indented(inside)]),
            f"    {SYNC}",
            "    again[0] = int32(0)",
            f"    {SYNC}",
            f"    if not ({low}):",
            "        again[0] = int32(1)",
            f"    {SYNC}",
            "    if again[0] == 0:",
            "        break",
        ]

    def _bounds(self) -> Bounds:
        """Returns bounds over a tile of scores."""
        names = ("first_row", "last_row", "first_key", "last_key")
        symbols = [Sym(name) for name in names]
        self.writer.names.update(zip(symbols, names, strict=True))
        rows, keys = symbols[:2], symbols[2:]
        ends = {
            axis: (axis_dim(a), axis_dim(b))
            for axis, (a, b) in ((self.query, rows), (self.attention.key, keys))
        }
        return Bounds(self.writer, ends)

    def _of_lanes(self, lines: list[str]) -> list[str]:
        """Wraps lines in an exchange between the threads of a row."""
        if not lines:
            return []
        shuffle = f"shuffle_xor_{self.dtype}"
        each = unrolled("r", self.tiles.rows, [line.format(shuffle) for line in lines])
        return ["step = tile_side // 2", "while step > 0:", *indented([*each, "step = step // 2"])]

    def _weight_at(self, key: str, row: str) -> str:
        return f"{self.tiles.score_size} + {key} * {line_of(self.tiles.rows)} + {row}"

    def _products(self) -> list[str]:
        """Computes the products of some queries and keys; each thread stores its own."""
        attention, tiles, end = self.attention, self.tiles, self.ends[self.attention.depth]
        line, after = line_of(tiles.rows), f"{tiles.depth * line_of(tiles.rows)} + "
        depth = self.extents[attention.depth]
        divides = isinstance(depth, int) and depth % tiles.depth == 0
        terms = str(tiles.depth) if divides else f"min({tiles.depth}, {end} - begin)"
        along = (attention.depth, "begin", "terms")
        left = f"u * {line} + down * {tiles.rows}"
        right = f"{after}u * {line_of(tiles.keys)} + across * {tiles.keys}"
        inside = [
            SYNC,
            f"terms = {terms}",
            *self._loaded(attention.queries, along, (self.query, "first_row", tiles.rows), ""),
            *self._loaded(attention.keys, along, (attention.key, "first_key", tiles.keys), after),
            SYNC,
            "for u in range(terms):",
            *indented(self._product("score", left, right, (tiles.rows, tiles.keys))),
        ]
        place = self._weight_at(f"(across * {tiles.keys} + c)", f"down * {tiles.rows}")
        put = f"tile[{place} : {place} + {tiles.rows}] = "
        put += f"score[c * {tiles.rows} : c * {tiles.rows} + {tiles.rows}]"
        return [
            *unrolled("c", tiles.rows * tiles.keys, [f"score[c] = {self.zero}"]),
            f"for begin in range(0, {end}, {tiles.depth}):",
            *indented(inside),
            *unrolled("c", tiles.keys, [put]),
        ]

    def _each_key(self, lines: list[str]) -> list[str]:
        """Returns lines that run for each valid key of a thread."""
        tiles = self.tiles
        at = self._weight_at(f"(across * {tiles.keys} + c)", f"down * {tiles.rows} + r")
        key = f"key = first_key + across * {tiles.keys} + c"
        return ["for c in range(own_keys):", *indented([key, f"at = {at}", *lines])]

    def _row(self) -> str:
        end = self.ends[self.query]
        return f"row = min(first_row + down * {self.tiles.rows} + r, {end} - 1)"

    def _made_of_product(self) -> tuple[LoopScope, LoopScope, str]:
        """Returns the scopes of a row and of a key, and the score as a function of a product."""
        row, inner = LoopScope(self.of_rows), LoopScope(self.of_rows | {self.attention.key})
        inner.made[self.attention.product] = "product"
        value = self.writer.value(simplified(self.attention.score), [self.block, row, inner])
        return row, inner, value

    def _made_of_power(self) -> tuple[LoopScope, LoopScope, list[str]]:
        """Returns the scopes, and the lines that compute a weight from a power and add it up."""
        attention = self.attention
        row, inner = LoopScope(self.of_rows), LoopScope(self.of_rows | {attention.key})
        inner.made[attention.power] = "power"
        bodies = [attention.weight, *[body for _, body in attention.whole]]
        return row, inner, [self.writer.value(b, [self.block, row, inner]) for b in bodies]

    def _power(self, exponent: str) -> str:
        return f"exp_{self.dtype}({exponent})"

    def _faded(self) -> list[str]:
        """Rescales the running totals after the maximum grew."""
        return [
            "highest = maximum(most[r], best[r])",
            f"shift = {self.zero} if highest == nothing else highest",
            f"fading = {self._power('most[r] - shift')}",
            "most[r] = highest",
            *[times(f"{name}[r]", "fading") for name in self.sums],
        ]

    def _scores(self) -> list[str]:
        """Applies maps to the products; then updates the row maximum."""
        keys = self.tiles.keys
        row, inner, value = self._made_of_product()
        each = [
            "product = tile[at]",
            *inner.lines,
            f"tile[at] = {value}",
            f"best[r] = maximum(best[r], {value})",
        ]
        lines = [self._row(), *row.lines, "best[r] = nothing", *self._each_key(each)]
        left = f"{self.ends[self.attention.key]} - first_key - across * {keys}"
        return [
            f"own_keys = min({keys}, {left})",
            *unrolled("r", self.tiles.rows, lines),
            *self._of_lanes(["best[r] = maximum(best[r], {}(best[r], step))"]),
        ]

    def _weights(self) -> list[str]:
        """Computes powers of the scores and their running sums, and rescales the former ones."""
        columns = self.tiles.columns
        row, inner, (weight, *terms) = self._made_of_power()
        each = [
            f"power = {self._power('tile[at] - shift')}",
            *inner.lines,
            *[f"{n}[r] = add_to({n}[r], {t})" for n, t in zip(self.sums, terms, strict=True)],
            f"tile[at] = {weight}",
        ]
        lines = [
            self._row(),
            *row.lines,
            *self._faded(),
            *unrolled("c", columns, [times(f"mixed[r * {columns} + c]", "fading")]),
            *self._each_key(each),
        ]
        return unrolled("r", self.tiles.rows, lines)

    def _mixed(self) -> list[str]:
        """Multiplies the values of some keys by the weights."""
        attention, tiles = self.attention, self.tiles
        height = f"tile_side * {tiles.keys // tiles.heights}"
        along = (attention.key, "begin", "height")
        left = self._weight_at("(part + u)", f"down * {tiles.rows}")
        right = f"u * {line_of(tiles.columns)} + across * {tiles.columns}"
        inside = [
            SYNC,
            "begin = first_key + part",
            f"height = min({height}, {self.ends[attention.key]} - begin)",
            *self._loaded(
                attention.values, along, (attention.column, "first_column", tiles.columns), ""
            ),
            SYNC,
            "for u in range(height):",
            *indented(self._product("mixed", left, right, (tiles.rows, tiles.columns))),
        ]
        return [f"for part in range(0, tile_side * {tiles.keys}, {height}):", *indented(inside)]

    # ---- results

    def _results(self) -> list[str]:
        """Stores the sums of the threads to shared memory; then neighbouring threads write the
        rows."""
        tiles, attention = self.tiles, self.attention
        line, columns = line_of(tiles.columns), tiles.columns
        row = f"(down * {tiles.rows} + r)"
        place = f"{row} * {line} + across * {columns}"
        mine = f"mixed[r * {columns} : r * {columns} + {columns}]"
        totals = [f"peaks[{row}] = most[r]", *[f"{n}_of[{row}] = {n}[r]" for n in self.sums]]
        put = [f"tile[{place} : {place} + {columns}] = {mine}", "if across == 0:"]
        start = [SYNC, *unrolled("r", tiles.rows, [*put, *indented(totals)]), SYNC]
        rows, lines = self._result_lines("t", "first_column == 0 and across == 0")
        each = [
            "row = first_row + t",
            *rows,
            f"width = min(tile_side * {columns}, {self.ends[attention.column]} - first_column)",
            "for u in range(across, width, tile_side):",
            *indented(
                ["column = first_column + u", f"value = tile[t * {line} + u] + lost", *lines]
            ),
        ]
        end = f"min(tile_side * {tiles.rows}, {self.ends[self.query]} - first_row)"
        return [*start, f"for t in range(down, {end}, tile_side):", *indented(each)]

    def _result_lines(self, place: str, once: str) -> tuple[list[str], list[str]]:
        """Returns the lines for each row, whose totals are at `place`, and for each element of it.
        Totals that other kernels read are written where `once` is true in a row."""
        attention = self.attention
        some = dims.at_least(self.extents[attention.key], 1) is True
        seen = "" if some else f" and {self.ends[attention.key]} > 0"
        nan = number_text(float("nan"), self.dtype)
        head = [
            f"highest = peaks[{place}]",
            f"lost = {nan} if highest == nothing{seen} else {self.zero}",
            *[f"total{k} = {name}_of[{place}] + lost" for k, name in enumerate(self.sums)],
        ]
        self.writer.totals[attention.most] = "highest"
        for k, (buffer, _) in enumerate(attention.whole):
            self.writer.totals[buffer] = f"total{k}"
        row, inner = LoopScope(self.of_rows), LoopScope(self.of_rows | {attention.column})
        kept = self._kept(row, once)
        inner.made[attention.mixed] = "value"
        mixed: Expression = attention.mixed
        for fn, factor in attention.factors:
            mixed = apply(fn, (mixed, factor), self.dtype)
        name = self.writer.value(mixed, [self.block, row, inner])
        after = LoopScope(inner.axes, inner.lines)
        after.made[attention.mixed] = name
        if not some:
            inner.lines.append(
                f"result = {name} if {self.ends[attention.key]} > 0 else {self.zero}"
            )
            after.made[attention.mixed] = "result"
        value = self.writer.value(simplified(attention.after), [self.block, row, after])
        self.writer.store(attention.out, attention.write, value, [self.block, row, after])
        return [*head, *row.lines, *kept], inner.lines

    def _kept(self, row: LoopScope, once: str) -> list[str]:
        """Writes the totals of a row that other kernels read, by one thread."""
        scope = LoopScope(row.axes)
        for buffer in sorted(self.attention.kept, key=lambda b: b.number):
            value = self.writer.totals[buffer]
            self.writer.store(buffer, self.attention.writes[buffer], value, [self.block, scope])
        return [f"if {once}:", *indented(scope.lines)] if scope.lines else []


def times(place: str, factor: str) -> str:
    """Returns the line that multiplies a place by a factor."""
    return f"{place} = {place} * {factor}"
