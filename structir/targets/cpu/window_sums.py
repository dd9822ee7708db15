"""Reductions over windows of one plane, as in depthwise convolutions and pooling, with explicit
vectors.

A block has some rows of results, one vector wide. Each image line is loaded once for all rows of a
block. Lanes outside of the image are masked, and lines outside are read from a constant. Strided
columns are separated by shuffles. Narrow images are read in columns of blocks, whose masks are
computed once; wide ones in rows of blocks, in the order of memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
from llvmlite import ir

from structir.targets.cpu.arithmetic import declared
from structir.targets.cpu.features import has_wide_vectors
from structir.targets.cpu.packed_layout import lanes_of

WORD, INDEX, FLOAT = ir.IntType(64), ir.IntType(32), ir.FloatType()
LEAST_LANES = 4
LONGEST_STEP = 4  # largest column stride: a vector of results reads this many vectors
FARTHEST = 512  # elements of the constant that replaces a line outside
MOST_TAPS = 64  # of a window; all are unrolled
NARROW = 2  # vectors of results in a row


PREFIX = "sum_windows_"  # of the names of functions
COMBINATIONS = ("product", "add", "max", "min")  # "product" is the sum of products with weights


@attrs.frozen
class WindowForm:
    """The parameters that specialize the code: window sizes, strides, dilations, the block of
    results, the index of the combination, whether results may have fewer rows than a block, and
    whether they have more than a few vectors of columns."""

    height: int
    width: int
    row_step: int
    column_step: int
    row_dilation: int
    column_dilation: int
    lanes: int
    rows: int
    combination: int = 0
    few_rows: int = 1
    is_wide: int = 1

    @property
    def absent(self) -> float:
        """The value of elements outside of the image: the neutral element."""
        return {"max": -math.inf, "min": math.inf}.get(COMBINATIONS[self.combination], 0.0)

    @property
    def reach(self) -> int:
        """The number of elements of a line that one vector of results reads, at most."""
        return (self.width - 1) * self.column_dilation + (self.lanes + 1) * self.column_step

    def is_supported(self) -> bool:
        """Whether the form is supported."""
        few = self.height * self.width <= MOST_TAPS and self.column_step <= LONGEST_STEP
        return few and self.reach <= FARTHEST

    def row_offsets(self, rows: int) -> list[int]:
        """Returns the lines that a block reads, relative to its first."""
        first = [t * self.row_step for t in range(rows)]
        apart = [k * self.row_dilation for k in range(self.height)]
        return sorted({a + b for a in first for b in apart})

    def uses(self, offset: int, rows: int) -> list[tuple[int, int]]:
        """Returns the rows of results that a line contributes to, each with its row of weights."""
        pairs = [(t, k) for t in range(rows) for k in range(self.height)]
        return [(t, k) for t, k in pairs if t * self.row_step + k * self.row_dilation == offset]


def form_of_window(
    window: Sequence[int], rows: int | None, columns: int | None, combination: int = 0
) -> WindowForm:
    """Returns the form for a window: its sizes, strides and dilations. Known numbers of rows and
    columns of results determine the block."""
    lanes = full = lanes_of("float32")
    if columns is not None:
        while lanes // 2 >= max(columns, LEAST_LANES):
            lanes //= 2
    block = block_rows(window[2], full)
    if rows is not None:
        block = max(min(block, rows), 1)
    is_wide = columns is None or columns > NARROW * lanes
    sizes = *window, lanes, block, combination, int(not rows), int(is_wide)
    return WindowForm(*sizes)


class WindowSum:
    """Emits the function of a form.

    Its parameters are the result, the image, the weights; the rows and columns of the result and of
    the image; the top and left padding; and strides in elements: of image rows, result rows, weight
    rows and weight columns.
    """

    def __init__(self, module: ir.Module, form: WindowForm) -> None:
        self.module, self.form = module, form
        self.vector = ir.VectorType(FLOAT, form.lanes)
        pointer = FLOAT.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [*[pointer] * 3, *[WORD] * 10])
        self.function = ir.Function(module, kind, function_name(form))
        self.function.linkage = "internal"
        self.function.args[0].add_attribute("noalias")
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def write(self) -> ir.Function:
        """Emits the function: loops over the blocks of all rows and vectors of columns."""
        builder, form, rows = self.builder, self.form, self.function.args[3]
        self.absent = self._absent_line()
        self.room = builder.alloca(self.vector)
        self.weights = self._weights()
        few = builder.icmp_signed("<", rows, _word(form.rows))
        if form.few_rows:
            with builder.if_then(few):
                self._write_blocks(1)
        with builder.if_then(builder.not_(few)):
            self._write_blocks(form.rows)
        builder.ret_void()
        return self.function

    def _write_blocks(self, step: int) -> None:
        """Emits the loops over blocks of `step` rows."""
        rows, columns = self.function.args[3:5]
        blocks, vectors = self._counted(rows, step), self._counted(columns, self.form.lanes)
        if self.form.is_wide:
            with blocks as row, vectors as column:
                self._start_column(column)
                for _ in self._versions():
                    self._write_block(row, column, step)
            return
        with vectors as column:
            self._start_column(column)
            for _ in self._versions():
                with self._counted(rows, step) as row:
                    self._write_block(row, column, step)

    def _start_column(self, column: Any) -> None:
        """Emits the position of a vector of columns, and its last lane."""
        builder, form, (columns, left) = self.builder, self.form, self.function.args[4:9:4]
        self.inside = self._below(builder.sub(columns, column))
        self.whole = builder.icmp_signed("<=", _word(form.lanes), columns)
        self.start = builder.sub(builder.mul(column, _word(form.column_step)), left)

    def _versions(self) -> Iterator[None]:
        """Yields for each version of the code of a vector of columns.

        Without AVX-512, masks take registers and time, so there is a version without masks, too.
        """
        if has_wide_vectors():
            self.masks = self._masks()
            yield
            return
        with self.builder.if_else(self._is_inside()) as (inside, outside):
            with inside:
                self.masks, whole, self.whole = {}, self.whole, None
                yield
            self.whole = whole
            with outside:
                self.masks = self._masks()
                yield

    def _is_inside(self) -> Any:
        """Emits the test whether a vector of results reads only columns of the image."""
        builder, last = self.builder, self._pieces()[-1] + self.form.lanes
        starts = builder.icmp_signed(">=", self.start, _word(0))
        end = builder.add(self.start, _word(last))
        ends = builder.icmp_signed("<=", end, self.function.args[6])
        return builder.and_(starts, builder.and_(ends, self.whole))

    def _masks(self) -> dict[int, Any]:
        """Emits the masks of the vectors that a vector of results reads."""
        return {offset: self._mask(offset, self.function.args[6]) for offset in self._pieces()}

    def _weights(self) -> list[list[Any]]:
        if self.form.combination:
            return []
        weights, (row, column) = self.function.args[2], self.function.args[11:13]
        return [
            [self._weight(weights, row, column, k, j) for j in range(self.form.width)]
            for k in range(self.form.height)
        ]

    def _weight(self, weights: Any, row: Any, column: Any, k: int, j: int) -> Any:
        builder = self.builder
        index = builder.add(builder.mul(row, _word(k)), builder.mul(column, _word(j)))
        return self._splat(builder.load(builder.gep(weights, [index])))

    def _pieces(self) -> list[int]:
        """Returns the offsets of the vectors of a line that a block loads, from its first
        column."""
        bases = {self._split(tap)[0] for tap in range(self.form.width)}
        return sorted({at for base in bases for at in self._parts(base)})

    def _parts(self, base: int) -> list[int]:
        """Returns the offsets of the vectors that the taps of a base read. Where masks are costly,
        the last one ends with the last element that a tap reads, so that few vectors need one."""
        form = self.form
        parts = [base + part * form.lanes for part in range(form.column_step)]
        if not has_wide_vectors():
            last = max(w for b, w in map(self._split, range(form.width)) if b == base)
            parts[-1] -= form.column_step - 1 - last
        return parts

    def _order(self) -> list[int]:
        """Returns the column of each lane of the totals. With AVX2 a shuffle stays within halves of
        a vector, so columns that are two elements apart are in this order until they are stored."""
        lanes = self.form.lanes
        if has_wide_vectors() or self.form.column_step != 2 or lanes != 8:
            return list(range(lanes))
        return [0, 1, 4, 5, 2, 3, 6, 7]

    def _split(self, tap: int) -> tuple[int, int]:
        """Returns the offset of the vectors that a tap reads, and its first lane there."""
        offset = tap * self.form.column_dilation
        within = offset % self.form.column_step
        return offset - within, within

    def _mask(self, offset: int, width: Any) -> Any:
        """Returns the mask of the lanes of a vector that are columns of the image."""
        builder = self.builder
        lanes = range(offset, offset + self.form.lanes)
        kind = ir.VectorType(INDEX, self.form.lanes)
        first = self._splat(builder.trunc(self.start, INDEX))
        at = builder.add(first, ir.Constant(kind, list(lanes)))
        end = self._splat(builder.trunc(width, INDEX))
        if has_wide_vectors():  # negative columns compare greater when unsigned
            return builder.icmp_unsigned("<", at, end)
        zero = ir.Constant(at.type, [0] * self.form.lanes)
        inside = builder.and_(
            builder.icmp_signed(">=", at, zero), builder.icmp_signed("<", at, end)
        )
        return builder.sext(inside, at.type)  # word masks stay in registers, bit masks do not

    def _below(self, count: Any) -> Any:
        """Returns the mask of the first `count` lanes."""
        lanes = ir.Constant(ir.VectorType(INDEX, self.form.lanes), list(range(self.form.lanes)))
        splat = self._splat(self.builder.trunc(count, INDEX))
        return self.builder.icmp_signed("<", lanes, splat)

    def _write_block(self, row: Any, column: Any, rows: int) -> None:
        """Emits the reductions of a block of results, and stores them."""
        builder, form = self.builder, self.form
        first = builder.sub(builder.mul(row, _word(form.row_step)), self.function.args[7])
        totals: list[Any] = [None] * rows
        for offset in form.row_offsets(rows):
            line = self._line(builder.add(first, _word(offset)))
            pieces = {at: self._load(line, at) for at in self._pieces()}
            for tap in range(form.width):
                value = self._lanes(pieces, tap)
                for t, k in form.uses(offset, rows):
                    totals[t] = self._combined(totals[t], value, k, tap)
        for t, total in enumerate(totals):
            self._store(builder.add(row, _word(t)), column, total)

    def _combined(self, total: Any, value: Any, row: int, column: int) -> Any:
        """Emits the accumulation of one element of a window."""
        builder, lanes = self.builder, self.form.lanes
        combination = COMBINATIONS[self.form.combination]
        if combination == "product":
            weight = self.weights[row][column]
            if total is None:
                return builder.fmul(value, weight)
            kind = ir.FunctionType(self.vector, [self.vector] * 3)
            fma = declared(self.module, kind, f"llvm.fma.v{lanes}f32")
            return builder.call(fma, [value, weight, total])
        if total is None or combination == "add":
            return value if total is None else builder.fadd(total, value)
        kind = ir.FunctionType(self.vector, [self.vector] * 2)
        extreme = declared(self.module, kind, f"llvm.{combination}imum.v{lanes}f32")
        return builder.call(extreme, [total, value], fastmath=("nsz",))

    def _line(self, line: Any) -> Any:
        """Returns the address of the first column of an image line, or of the constant line
        outside."""
        builder = self.builder
        image, height, step = [self.function.args[k] for k in (1, 5, 9)]
        index = builder.add(builder.mul(line, step), self.start)
        inside = builder.icmp_unsigned("<", line, height)
        return builder.select(inside, builder.gep(image, [index]), self.absent)

    def _load(self, line: Any, offset: int) -> Any:
        builder, lanes = self.builder, self.form.lanes
        pointer, mask = self.vector.as_pointer(), self.masks.get(offset)
        place = builder.bitcast(builder.gep(line, [_word(offset)]), pointer)
        if mask is None:
            return builder.load(place, align=4)
        if has_wide_vectors():
            kind = ir.FunctionType(self.vector, [pointer, INDEX, mask.type, self.vector])
            load = declared(self.module, kind, f"llvm.masked.load.v{lanes}f32.p0")
            absent = ir.Constant(self.vector, [self.form.absent] * lanes)
            return builder.call(load, [place, ir.Constant(INDEX, 4), mask, absent])
        byte = ir.IntType(8).as_pointer()
        suffix = ".256" if lanes == 8 else ""
        kind = ir.FunctionType(self.vector, [byte, mask.type])
        load = declared(self.module, kind, f"llvm.x86.avx.maskload.ps{suffix}")
        value = builder.call(load, [builder.bitcast(place, byte), mask])
        if not self.form.absent:
            return value
        inside = builder.icmp_signed("<", mask, ir.Constant(mask.type, [0] * lanes))
        return builder.select(inside, value, ir.Constant(self.vector, [self.form.absent] * lanes))

    def _lanes(self, pieces: dict[int, Any], tap: int) -> Any:
        """Gathers the strided elements that a tap reads from the loaded vectors."""
        form = self.form
        base, within = self._split(tap)
        parts = self._parts(base)
        value, order = pieces[parts[0]], self._order()
        for later in range(1, form.column_step):
            chosen = list(range(form.lanes))
            for lane, column in enumerate(order):
                at = base + within + column * form.column_step
                if 0 <= at - parts[later] < form.lanes:
                    chosen[lane] = form.lanes + at - parts[later]
                elif later == 1:
                    chosen[lane] = at - base if at - base < form.lanes else 0
            value = self._shuffled(value, pieces[parts[later]], chosen)
        return value

    def _shuffled(self, first: Any, second: Any, chosen: list[int]) -> Any:
        lanes = ir.Constant(ir.VectorType(INDEX, self.form.lanes), chosen)
        return self.builder.shuffle_vector(first, second, lanes)

    def _store(self, row: Any, column: Any, total: Any) -> None:
        """Stores a row of a block up to the last column."""
        builder, order = self.builder, self._order()
        if order != sorted(order):
            total = self._shuffled(total, total, [order.index(k) for k in range(len(order))])
        to, step = [self.function.args[k] for k in (0, 10)]
        start = builder.gep(to, [builder.add(builder.mul(row, step), column)])
        place = builder.bitcast(start, self.vector.as_pointer())
        if self.whole is None:
            builder.store(total, place, align=4)
            return
        if has_wide_vectors():
            self._store_part(total, start, place)
            return
        with builder.if_else(self.whole) as (whole, partly):
            with whole:
                builder.store(total, place, align=4)
            with partly:
                self._store_part(total, start, place)

    def _store_part(self, total: Any, start: Any, place: Any) -> None:
        """Stores the lanes of a partial vector.

        Without AVX-512, masked stores take tens of cycles on some CPUs. Then more than half a
        vector is stored as two overlapping halves, and less than that element by element.
        """
        builder, lanes = self.builder, self.form.lanes
        half = lanes // 2
        if has_wide_vectors() or half < LEAST_LANES:
            kinds = [self.vector, place.type, INDEX, self.inside.type]
            kind = ir.FunctionType(ir.VoidType(), kinds)
            store = declared(self.module, kind, f"llvm.masked.store.v{lanes}f32.p0")
            builder.call(store, [total, place, ir.Constant(INDEX, 4), self.inside])
            return
        pointer = ir.VectorType(FLOAT, half).as_pointer()
        columns = self.function.args[4]
        with builder.if_else(builder.icmp_signed(">", columns, _word(half))) as (more, fewer):
            with more:
                builder.store(total, self.room, align=4)
                held = builder.bitcast(self.room, FLOAT.as_pointer())
                last = builder.sub(columns, _word(half))
                for first in (_word(0), last):
                    part = builder.load(
                        builder.bitcast(builder.gep(held, [first]), pointer), align=4
                    )
                    to = builder.bitcast(builder.gep(start, [first]), pointer)
                    builder.store(part, to, align=4)
            with fewer:
                for lane in range(half):
                    here = builder.icmp_signed("<", _word(lane), columns)
                    with builder.if_then(here):
                        value = builder.extract_element(total, ir.Constant(INDEX, lane))
                        builder.store(value, builder.gep(start, [_word(lane)]), align=4)

    def _absent_line(self) -> Any:
        """Returns the address of the constant line that replaces lines outside of the image."""
        name = f"absent_line_{self.form.combination}"
        line = self.module.globals.get(name)
        if line is None:
            kind = ir.ArrayType(FLOAT, FARTHEST)
            line = ir.GlobalVariable(self.module, kind, name)
            absent = self.form.absent
            line.initializer = ir.Constant(kind, [absent] * FARTHEST if absent else None)
            line.global_constant, line.linkage = True, "internal"
        return self.builder.bitcast(line, FLOAT.as_pointer())

    def _splat(self, value: Any) -> Any:
        """Broadcasts a value to all lanes."""
        kind = ir.VectorType(value.type, self.form.lanes)
        nothing = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(nothing, value, ir.Constant(INDEX, 0))
        zeros = ir.Constant(ir.VectorType(INDEX, self.form.lanes), [0] * self.form.lanes)
        return self.builder.shuffle_vector(first, nothing, zeros)

    @contextmanager
    def _counted(self, end: Any, step: int) -> Iterator[Any]:
        """Emits a loop from 0 to an end; a partial last step is moved back to overlap the previous
        one."""
        builder = self.builder
        before = builder.block
        head, body, after = [builder.append_basic_block() for _ in range(3)]
        builder.branch(head)
        builder.position_at_end(head)
        at = builder.phi(WORD)
        at.add_incoming(_word(0), before)
        builder.cbranch(builder.icmp_signed("<", at, end), body, after)
        builder.position_at_end(body)
        last = builder.sub(end, _word(step))
        last = builder.select(builder.icmp_signed("<", last, _word(0)), _word(0), last)
        yield builder.select(builder.icmp_signed("<", at, last), at, last)
        at.add_incoming(builder.add(at, _word(step)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)


def block_rows(step: int, lanes: int) -> int:
    """Returns the rows of a block of results, whose windows share image lines.

    AVX-512 has 32 registers of 16 lanes, AVX2 16 of 8.
    """
    if step > 1:
        return 2
    return 4 if lanes == 16 else 3


def function_name(form: WindowForm) -> str:
    """Returns the name of the function of a form."""
    return f"{PREFIX}{'_'.join(map(str, attrs.astuple(form)))}"


def form_of(name: str) -> WindowForm | None:
    """Returns the form of the function of a name; None if it is another function."""
    if not name.startswith(PREFIX):
        return None
    return WindowForm(*map(int, name.removeprefix(PREFIX).split("_")))


def _word(value: int) -> ir.Constant:
    return ir.Constant(WORD, value)


def module_text(form: WindowForm) -> str:
    """Returns a module that defines the function of a form."""
    module = ir.Module()
    WindowSum(module, form).write().linkage = ""
    return str(module)
