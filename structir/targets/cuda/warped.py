"""The schedule of attention over 16-bit floats by warp-level matrix instructions: a warp computes
16 rows of the result. Scores and weights stay in registers, in the layout that the second product
reads."""

from __future__ import annotations

from math import log

import attrs

from structir.ir.dims import Dim, Sym, exact_quotient
from structir.loops.program.access import address_of
from structir.loops.program.expression import Load
from structir.targets.cuda.attention import Attention
from structir.targets.cuda.device_text import THREADS, DeviceText, unrolled
from structir.targets.cuda.online import SYNC, AttentionSchedule, times
from structir.targets.cuda.scalar_text import number_text
from structir.targets.cuda.writer import LoopScope, indented

WARP, ROWS = 32, 16  # lanes of a warp, and its rows of the result
KEYS = 32  # keys of a tile
DTYPES = frozenset({"float16", "bfloat16"})
WIDEST = 128  # elements of a query, or of a value
RUN = 8  # elements of one access of a thread
SHOWN = 20  # stride of rows in shared memory where 16 columns of results are stored


def attention_kernel(attention: Attention) -> DeviceText:
    """Returns the source of an attention: by warp-level products, where GPUs have these."""
    reads = (attention.queries, attention.keys, attention.values)
    dtypes = {read.buffer.dtype for read in reads}
    sizes = [attention.extents[axis] for axis in (attention.depth, attention.column)]
    small = all(isinstance(size, int) and 1 <= size <= WIDEST for size in sizes)
    fits = len(dtypes) == 1 and dtypes <= DTYPES and small
    return (WarpAttentionSchedule if fits else AttentionSchedule)(attention).device_text()


class WarpAttentionSchedule(AttentionSchedule):
    """Writes the kernel of such an attention."""

    by_warps = True

    def __init__(self, attention: Attention) -> None:
        super().__init__(attention)
        self.stored = attention.values.buffer.dtype
        self.deep, self.wide = self._padded(attention.depth), self._padded(attention.column)
        self.most_rows = THREADS // WARP * ROWS
        self.rows = f"(cuda.blockDim.x // {WARP} * {ROWS})"
        self.values_at = KEYS * (self.deep + RUN)

    def _padded(self, axis: Sym) -> int:
        """Returns an extent rounded up to a multiple of 16."""
        extent = self.extents[axis]
        assert isinstance(extent, int)
        return -(-extent // 16) * 16

    def _memory(self) -> list[str]:
        """Declares shared memory and the registers of a thread."""
        size = max(self.most_rows * (self.deep + RUN), self.values_at + KEYS * (self.wide + RUN))
        shared = {"shown": self.most_rows * SHOWN, "peaks": self.most_rows}
        shared |= {f"{name}_of": self.most_rows for name in self.sums}
        own = {"score": KEYS // 2, "mixed": self.wide // 2, "best": 2, "most": 2}
        own |= dict.fromkeys(self.sums, 2)
        return [
            f"held = cuda.shared.array({size}, uint16)",
            *[f"{name} = cuda.shared.array({n}, float32)" for name, n in shared.items()],
            *[f"{name} = cuda.local.array({n}, float32)" for name, n in own.items()],
            f"query = cuda.local.array({self.deep // 4}, uint32)",
            f"staged = cuda.local.array({RUN}, uint16)",
        ]

    def _places(self) -> list[str]:
        """Computes the rows of a warp, and a thread's elements of them."""
        return [
            "lane = cuda.threadIdx.x & 31",
            f"own_row = (cuda.threadIdx.x >> 5) * {ROWS}",
            "down = own_row + (lane >> 2)",
            "across = (lane & 3) * 2",
        ]

    def device_text(self) -> DeviceText:
        """Returns the source of the kernel."""
        small = self.deep <= WIDEST // 2 and self.wide <= WIDEST // 2
        return attrs.evolve(super().device_text(), resident=2 if small else 1)

    # ---- tiles

    def _copied(
        self, read: Load, along: Sym, lines: tuple[Sym, str, str], place: str, padded: int
    ) -> list[str]:
        """Copies some lines of an operand in runs of 8 elements, with zeros for missing lines."""
        line, origin, count = lines
        scope = LoopScope(frozenset((*self.attention.outer, along, line)))
        text = self.writer.place(read.buffer, read.entries, [self.block, scope])
        pointer, _, index = text.rstrip("]").partition("[")
        name, other = self.writer.names[along], self.writer.names[line]
        end, runs = self.extents[along], padded // RUN
        tests = [f"u < {end}"] if end != padded else []
        tests += [f"{origin} + t < {self.ends[line]}"] if line is self.attention.key else []
        if self._is_aligned(read, along):
            taken = [
                f"{name} = u",
                *scope.lines,
                f"staged[:] = {pointer}[{index} : {index} + {RUN}]",
            ]
        else:
            each = [f"{name} = min(u + c, {end} - 1)", *scope.lines]
            each.append(f"staged[c] = {text} if u + c < {end} else uint16(0)")
            taken = unrolled("c", RUN, each)
        if tests:
            zeros = unrolled("c", RUN, ["staged[c] = uint16(0)"])
            taken = [*zeros, f"if {' and '.join(tests)}:", *indented(taken)]
        at = f"{place}t * {padded + RUN} + u"
        inside = [
            f"t = at // {runs}",
            f"u = at % {runs} * {RUN}",
            f"{other} = min({origin} + t, {self.ends[line]} - 1)",
            *taken,
            f"held[{at} : {at} + {RUN}] = staged[:]",
        ]
        return [
            f"for at in range(cuda.threadIdx.x, {count} * {runs}, cuda.blockDim.x):",
            *indented(inside),
        ]

    def _is_aligned(self, read: Load, along: Sym) -> bool:
        """Whether runs are contiguous and aligned to one access."""
        address = address_of(read.buffer, read.entries, self.axes)
        others: list[Dim] = [c for axis, c in address.coefficients.items() if axis is not along]
        steps = [self.extents[along], address.rest, *others]
        plain = not address.data and not address.pinned(self.axes)
        whole = all(exact_quotient(step, RUN) is not None for step in steps)
        return plain and whole and address.coefficient(along) == 1

    # ---- one block

    def _block(self) -> list[str]:
        """Computes some rows of the result."""
        attention = self.attention
        queries = (self.query, "first_row", self.rows)
        keys = (attention.key, "first_key", str(KEYS))
        fragment = ", ".join([f"query[s * 4 + {k}]" for k in range(4)])
        step = self.deep + RUN
        tile = [
            SYNC,
            *self._copied(attention.keys, attention.depth, keys, "", self.deep),
            *self._copied(
                attention.values, attention.column, keys, f"{self.values_at} + ", self.wide
            ),
            SYNC,
            *self._products(),
            *self._scores(),
            *self._weights(),
            *self._mixed(),
        ]
        start = ["most[r] = nothing", *[f"{name}[r] = {self.zero}" for name in self.sums]]
        first = [
            *unrolled("r", 2, start),
            *unrolled("c", self.wide // 2, [f"mixed[c] = {self.zero}"]),
        ]
        sums = [f"{name}[r] = add_to({name}[r], {{}}({name}[r], s + 1))" for name in self.sums]
        return [
            SYNC,
            *self._copied(attention.queries, attention.depth, queries, "", self.deep),
            SYNC,
            f"for s in unrolled({self.deep // 16}):",
            f"    {fragment} = left_fragment(held, own_row * {step} + s * 16, {step})",
            *self._over_keys(first, 2, str(KEYS), tile),
            *self._of_lanes(sums),
            *self._results(),
        ]

    def _of_lanes(self, lines: list[str]) -> list[str]:
        """Wraps lines in an exchange between the four lanes of a row."""
        shuffle = f"shuffle_xor_{self.dtype}"
        each = [line.format(shuffle) for line in lines]
        return unrolled("s", 2, unrolled("r", 2, each)) if lines else []

    def _multiplied(self, total: str, factor: list[str], at: str) -> list[str]:
        """Adds two small products to totals, 8 columns each."""
        lines = []
        for half, right in ((0, "b0, b1"), (4, "b2, b3")):
            own = ", ".join([f"{total}[{at} + {half + k}]" for k in range(4)])
            lines.append(f"{own} = multiply_{self.stored}({', '.join(factor)}, {right}, {own})")
        return lines

    def _products(self) -> list[str]:
        """Computes the products of a warp's queries and the keys of a tile."""
        step = self.deep + RUN
        factor = [f"query[s * 4 + {k}]" for k in range(4)]
        inside = [
            f"b0, b1, b2, b3 = right_fragments_turned(held, j * {16 * step} + s * 16, {step})",
            *self._multiplied("score", factor, "j * 8"),
        ]
        return [
            *unrolled("c", KEYS // 2, [f"score[c] = {self.zero}"]),
            *unrolled("s", self.deep // 16, unrolled("j", KEYS // 16, inside)),
        ]

    def _each_score(self, lines: list[str]) -> list[str]:
        """Returns lines for each key of a row that a thread has."""
        return unrolled("j", KEYS // 8, unrolled("c", 2, lines))

    def _row(self) -> str:
        return f"row = min(first_row + down + r * 8, {self.ends[self.query]} - 1)"

    def _scores(self) -> list[str]:
        """Applies maps to the products; then updates the row maximum."""
        row, inner, value = self._made_of_product()
        end, score = self.ends[self.attention.key], "score[j * 4 + r * 2 + c]"
        each = [
            f"key = min(first_key + j * 8 + across + c, {end} - 1)",
            f"product = {score}",
            *inner.lines,
            f"{score} = {value} if first_key + j * 8 + across + c < {end} else nothing",
            f"best[r] = maximum(best[r], {score})",
        ]
        lines = [self._row(), *row.lines, "best[r] = nothing", *self._each_score(each)]
        best = ["best[r] = maximum(best[r], {}(best[r], s + 1))"]
        return [*unrolled("r", 2, lines), *self._of_lanes(best)]

    def _power(self, exponent: str) -> str:
        """Returns the power, accurate enough for rounding to 16 bits."""
        return f"power_of_two(({exponent}) * {number_text(1 / log(2), 'float32')})"

    def _weights(self) -> list[str]:
        """Computes powers of the scores and their running sums, and rescales the former ones."""
        row, inner, (weight, *terms) = self._made_of_power()
        end, score = self.ends[self.attention.key], "score[j * 4 + r * 2 + c]"
        plain = not inner.lines and not row.lines
        inside = f"first_key + j * 8 + across + c < {end}"
        if not plain:
            terms = [f"{term} if {inside} else {self.zero}" for term in terms]
            weight = f"{weight} if {inside} else {self.zero}"
        key = f"key = min(first_key + j * 8 + across + c, {end} - 1)"
        each = [
            *([] if plain else [key]),
            f"power = {self._power(f'{score} - shift')}",
            *inner.lines,
            *[f"{n}[r] = add_to({n}[r], {t})" for n, t in zip(self.sums, terms, strict=True)],
            f"{score} = {weight}",
        ]
        fading = unrolled("c", 2, [times("mixed[j * 4 + r * 2 + c]", "fading")])
        lines = [
            *([] if plain else [self._row(), *row.lines]),
            *self._faded(),
            *unrolled("j", self.wide // 8, fading),
            *self._each_score(each),
        ]
        return unrolled("r", 2, lines)

    def _mixed(self) -> list[str]:
        """Multiplies the values of a tile by the weights, which have the layout of the left
        factor."""
        step = self.wide + RUN
        place = f"{self.values_at} + s * {16 * step} + c * 16"
        factor = [f"a{k}" for k in range(4)]
        pairs = [
            f"a{k} = pair_{self.stored}(score[s * 8 + {2 * k}], score[s * 8 + {2 * k + 1}])"
            for k in range(4)
        ]
        inside = [
            f"b0, b1, b2, b3 = right_fragments(held, {place}, {step})",
            *self._multiplied("mixed", factor, "c * 8"),
        ]
        return unrolled("s", KEYS // 16, [*pairs, *unrolled("c", self.wide // 16, inside)])

    # ---- results

    def _results(self) -> list[str]:
        """Stores 16 columns after another in shared memory; neighbouring threads write them."""
        attention, parts = self.attention, self.wide // 16
        place = f"shown[(down + r * 8) * {SHOWN} + j * 8 + across + i]"
        put = unrolled("i", 2, [f"{place} = mixed[c * 8 + j * 4 + r * 2 + i]"])
        put = unrolled("j", 2, unrolled("r", 2, put))
        row = "down + r * 8"
        totals = [f"peaks[{row}] = most[r]", *[f"{n}_of[{row}] = {n}[r]" for n in self.sums]]
        rows, lines = self._result_lines("own_row + t", "column == 0")
        each = [
            "t = at // 16",
            "row = first_row + own_row + t",
            "column = part * 16 + at % 16",
            f"if row < {self.ends[self.query]} and column < {self.ends[attention.column]}:",
            f"    value = shown[(own_row + t) * {SHOWN} + at % 16]",
            *indented([*rows, "value = value + lost", *lines]),
        ]
        inside = [
            *unrolled("c", parts, ["if part == c:", *indented(put)]),
            SYNC,
            f"for at in range(lane, 256, {WARP}):",
            *indented(each),
            SYNC,
        ]
        return [
            *unrolled("r", 2, ["if across == 0:", *indented(totals)]),
            f"for part in range({parts}):",
            *indented(inside),
        ]
