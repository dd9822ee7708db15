"""Parses OCANNL's specifications, with three rows per tensor: `...|i->o => ...|o->i`.

`batch|input->output` names the axes of a tensor in the order batch, output, input. A comma, or a
name of several characters between `..`, does not end names: with a comma anywhere, axes have names;
else each character is an axis. A number is an index of its axis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from structir.opdef.subscripts import (
    AffineAxis,
    Axis,
    Columns,
    FixedIndex,
    JoinedAxes,
    NamedAxis,
    RowAxes,
    SubscriptError,
    Subscripts,
    Term,
    check_count,
)

ARROW, INPUT, BATCH = "=>", "->", "|"
HINT = "write each tensor as `batch|input->output`: `...|i->o => ...|o->i`"

_ROW_VARIABLE = r"\.\.(?P<pack>\w+)\.\.|(?P<ellipsis>\.\.\.)"
_WORDS = r"(?:\d+\s*\*\s*)?[A-Za-z_]\w*|\d+"
_LETTERS = r"(?:\d+\s*\*\s*)?[A-Za-z_]|\d"


def _axis_pattern(part: str) -> re.Pattern[str]:
    """Returns the pattern of an axis of parts, which are names or letters."""
    window = rf"(?P<over>{part})\s*(?P<sign>=\+|<\+|\+)\s*(?P<kernel>{part})"
    joined = rf"(?P<join>(?:{part})(?:\s*\^\s*(?:{part}))+)"
    return re.compile(rf"{_ROW_VARIABLE}|{window}|{joined}|(?P<single>{part})")


_BY_NAME, _BY_LETTER = _axis_pattern(_WORDS), _axis_pattern(_LETTERS)


def parse_specification(text: str, count: int) -> Subscripts:
    """Parses a specification of `count` operands. Raises SubscriptError."""
    pattern = _BY_NAME if "," in text else _BY_LETTER
    arrow = text.index(ARROW)
    terms = list(_terms(text[:arrow], 0, pattern))
    check_count(text, terms, count, arrow)
    start = arrow + len(ARROW)
    result = _tensor(text[start:], start, pattern)
    return Subscripts(tuple(terms), tuple(map(_written, result)), open_names=True)


def _terms(text: str, start: int, pattern: re.Pattern[str]) -> Iterator[Term]:
    for term in text.split(";"):
        yield _tensor(term, start, pattern)
        start += len(term) + 1


def _tensor(text: str, start: int, pattern: re.Pattern[str]) -> Term:
    """Parses `batch|input->output`; returns the axes in the order batch, output, input."""
    batch, bar, rest = text.partition(BATCH)
    if not bar:
        batch, rest = "", text
    rest_start = start + len(batch) + len(bar)
    inputs, arrow, output = rest.partition(INPUT)
    if not arrow:
        inputs, output = "", rest
    output_start = rest_start + len(inputs) + len(arrow)
    rows = (
        (batch, start, "batch"),
        (output, output_start, "output"),
        (inputs, rest_start, "input"),
    )
    return tuple([axis for row in rows for axis in _row(*row, pattern)])


def _row(text: str, start: int, kind: str, pattern: re.Pattern[str]) -> Iterator[Axis]:
    position, packs = 0, 0
    while position < len(text):
        if text[position] in " \t\n,":
            position += 1
            continue
        match = pattern.match(text, position)
        if match is None:
            raise SubscriptError(
                f"expected an axis of the {kind} row, found `{text[position:].strip()}`",
                start + position,
                start + len(text.rstrip()),
                HINT,
            )
        axis = _axis(match, Columns(start + position, start + match.end()), kind)
        packs += isinstance(axis, RowAxes)
        if packs > 1:
            message = f"expected one row variable in the {kind} row, found a second one"
            hint = f"remove `{match.group()}`, or name its axes"
            raise SubscriptError(message, start + position, start + match.end(), hint)
        yield axis
        position = match.end()


def _axis(match: re.Match[str], columns: Columns, kind: str) -> Axis:
    if match["ellipsis"]:
        return RowAxes(kind, columns)
    if match["pack"]:
        return RowAxes(match["pack"], columns)
    if match["join"]:
        parts = [part.strip() for part in match["join"].split("^")]
        return JoinedAxes(tuple([int(p) if p.isdecimal() else p for p in parts]), columns)
    if match["over"]:
        factors = (_factor(match["over"], columns), _factor(match["kernel"], columns))
        return AffineAxis(factors, None, columns, match["sign"] == "=+")
    single = match["single"]
    if single.isdecimal():
        return FixedIndex(int(single), None, columns)
    return (
        NamedAxis(single, columns)
        if "*" not in single
        else AffineAxis((_factor(single, columns),), None, columns)
    )


def _factor(text: str, columns: Columns) -> tuple[int, str]:
    """Parses `2*i`."""
    number, times, name = text.partition("*")
    if text.isdecimal() or text.endswith("_"):
        message = f"expected an index variable in an affine index, found `{text}`"
        raise SubscriptError(message, columns.start, columns.end, "name the axis: `2*i+k`")
    return (int(number), name.strip()) if times else (1, text)


def _written(axis: Axis) -> Axis:
    """Returns an axis of the result: an index determines its least size, `i+k` is a window."""
    match axis:
        case FixedIndex(index, columns=columns):
            return FixedIndex(index, index + 1, columns)
        case AffineAxis(factors, None, columns, padded=False):
            return AffineAxis(factors, 1 - sum([factor for factor, _ in factors]), columns)
    return axis
