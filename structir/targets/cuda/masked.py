"""Tiles of scores that a mask removes entirely: a condition on the positions of rows and keys is
bounded over a tile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.program.expression import Expression, Number, Operation, Position, apply
from structir.targets.cuda.writer import Writer

FAR = {"float32": 200.0, "float64": 800.0}  # exp of a score so far below is 0
LEAST = -1e4  # larger numbers are not taken for a mask


@attrs.frozen
class Range:
    """The bounds of an expression over a tile, as source."""

    low: str
    high: str


@attrs.frozen
class Mask:
    """Scores where `seen` does not hold are `number`."""

    seen: Expression
    number: float


def mask_of(score: Expression) -> Mask | None:
    """Returns the mask, if the last operation of the scores is a selection."""
    if not (isinstance(score, Operation) and score.fn == "select"):
        return None
    seen, value, other = score.args
    number = _number(other)
    if number is None:
        seen, number = apply("not", (seen,), "bool"), _number(value)
    return None if number is None or number > LEAST else Mask(seen, number)


def _number(node: Expression) -> float | None:
    """Evaluates an expression without reads."""
    if isinstance(node, Number):
        return float(node.value)
    known = {"add": float.__add__, "mul": float.__mul__, "sub": float.__sub__}
    if isinstance(node, Operation) and node.fn in known and node.dtype != "bool":
        numbers = [_number(argument) for argument in node.args]
        if None not in numbers:
            return known[node.fn](*numbers)  # type: ignore[arg-type]
    return None


@attrs.define
class Bounds:
    """Computes bounds over a tile, whose axes range from one symbol to another, and the lines that
    evaluate them."""

    writer: Writer
    ends: Mapping[Sym, tuple[Dim, Dim]]
    lines: list[str] = attrs.Factory(list)

    def of(self, node: Expression) -> Range | None:
        """Returns the bounds of an expression over the tile, or None if they are unknown."""
        if isinstance(node, Number):
            return Range(*[repr(node.value)] * 2)
        if isinstance(node, Position):
            return self._of_position(node.dim)
        rule = RULES.get(node.fn) if isinstance(node, Operation) else None
        if rule is None or not isinstance(node, Operation):
            return None
        parts = [self.of(argument) for argument in node.args]
        known = [part for part in parts if part is not None]
        return self._named(rule(*known)) if len(known) == len(parts) else None

    def _named(self, interval: Range) -> Range:
        names = [self.writer.fresh() for _ in range(2)]
        self.lines += [
            f"{name} = {text}"
            for name, text in zip(names, (interval.low, interval.high), strict=True)
        ]
        return Range(*names)

    def _of_position(self, dim: Dim) -> Range | None:
        least, most = dict[Sym, Dim](), dict[Sym, Dim]()
        for axis in dims.syms(dim) & self.ends.keys():
            linear, (low, high) = dims.linear(dim, axis), self.ends[axis]
            if linear is None or not isinstance(linear[0], int):
                return None
            least[axis], most[axis] = (low, high) if linear[0] >= 0 else (high, low)
        texts = [self.writer.index_text(dims.substitute(dim, at)) for at in (least, most)]
        return Range(*texts)


def _chosen(test: Range, a: Range, b: Range) -> Range:
    """Returns the bounds of a selection; if a tile has both cases, the bounds of both."""
    low = f"({a.low} if {a.low} < {b.low} else {b.low})"
    high = f"({a.high} if {a.high} > {b.high} else {b.high})"
    return Range(
        f"{a.low} if {test.low} else ({low} if {test.high} else {b.low})",
        f"{a.high} if {test.low} else ({high} if {test.high} else {b.high})",
    )


def _compared(sign: str) -> Callable[[Range, Range], Range]:
    return lambda a, b: Range(f"{a.high} {sign} {b.low}", f"{a.low} {sign} {b.high}")


def _joined(word: str) -> Callable[[Range, Range], Range]:
    return lambda a, b: Range(f"{a.low} {word} {b.low}", f"{a.high} {word} {b.high}")


def _swapped(rule: Callable[[Range, Range], Range]) -> Callable[[Range, Range], Range]:
    return lambda a, b: rule(b, a)


RULES: dict[str, Callable[..., Range]] = {
    "le": _compared("<="),
    "lt": _compared("<"),
    "ge": _swapped(_compared("<=")),
    "gt": _swapped(_compared("<")),
    "add": _joined("+"),
    "sub": lambda a, b: Range(f"{a.low} - {b.high}", f"{a.high} - {b.low}"),
    "and": _joined("and"),
    "or": _joined("or"),
    "bitand": _joined("and"),
    "bitor": _joined("or"),
    "not": lambda a: Range(f"not {a.high}", f"not {a.low}"),
    "select": _chosen,
}
