"""Parses subscripts with named axes: `*o i; *b i -> *b *o`, `i; k -> i-k+1`, `a; b -> a+b`.

Terms are separated by `;`, axes by spaces. Conditions on sizes follow `where`, as in `R.sig`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs

ARROW, WHERE = "->", " where "
MARKS = frozenset(";*~:^+-=_|0123456789")  # of subscripts that name axes by words
EXAMPLES = "`k`, `*s`, `5`, `2:n`, `2*i+k`, `i-k+1` or `a^b`"


def names_axes(text: str) -> bool:
    """Returns whether subscripts name axes by words; else each letter is an axis: `ij,jk->ik`."""
    return not MARKS.isdisjoint(text.replace(ARROW, ""))


class SubscriptError(Exception):
    """Invalid subscripts: an error at columns `start` to `end`, with an edit."""

    def __init__(self, message: str, start: int, end: int, hint: str) -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.hint = message, start, end, hint


@attrs.frozen
class Columns:
    """The columns of an axis in the subscripts."""

    start: int
    end: int


@attrs.frozen
class RowAxes:
    """A row variable `*s`, or `~s`, which broadcasts."""

    name: str
    columns: Columns
    loose: bool = False

    def __str__(self) -> str:
        return f"{'~' if self.loose else '*'}{self.name}"


@attrs.frozen
class NamedAxis:
    """An axis with an index variable; `_` has none of its own."""

    name: str
    columns: Columns

    def __str__(self) -> str:
        return self.name


@attrs.frozen
class SizedAxis:
    """An axis of a given size: an operand is summed over it, a result repeats along it."""

    size: int
    columns: Columns

    def __str__(self) -> str:
        return str(self.size)


@attrs.frozen
class FixedIndex:
    """One index of an axis: `2:n`, `2:4`, or `2:` for any size."""

    index: int
    size: str | int | None
    columns: Columns

    def __str__(self) -> str:
        return f"{self.index}:{'' if self.size is None else self.size}"


@attrs.frozen
class AffineAxis:
    """An affine index `2*i+k`; with a constant the expression is the size, as in `R.sig`."""

    factors: tuple[tuple[int, str], ...]
    constant: int | None
    columns: Columns
    padded: bool = False  # `2*i=+k`

    def __str__(self) -> str:
        terms = [_term_text(factor, name) for factor, name in self.factors]
        if self.padded:
            return f"{terms[0].removeprefix('+')}={terms[1]}"
        constant = "" if self.constant is None else f"{self.constant:+}"
        return ("".join(terms) + constant).removeprefix("+")


@attrs.frozen
class JoinedAxes:
    """Axes in sequence along one axis: `a^b`, or `a+b` in a result; numbers are sizes."""

    parts: tuple[str | int, ...]
    columns: Columns

    def __str__(self) -> str:
        return "^".join(map(str, self.parts))


Axis = RowAxes | NamedAxis | SizedAxis | FixedIndex | AffineAxis | JoinedAxes
Term = tuple[Axis, ...]


@attrs.frozen
class Subscripts:
    """Parsed subscripts: the axes of the operands and of the result, and conditions on sizes."""

    operands: tuple[Term, ...]
    result: Term
    where: tuple[str, ...] = ()
    open_names: bool = False  # names that no operand has may be axes of the result

    def __str__(self) -> str:
        operands = "; ".join([" ".join(map(str, term)) for term in self.operands])
        text = f"{operands} {ARROW} {' '.join(map(str, self.result))}".rstrip()
        return text + (f"{WHERE}{', '.join(self.where)}" if self.where else "")

    @property
    def terms(self) -> tuple[Term, ...]:
        """Returns the axes of the operands, then those of the result."""
        return (*self.operands, self.result)


def _term_text(factor: int, name: str) -> str:
    sign = "-" if factor < 0 else "+"
    return f"{sign}{'' if abs(factor) == 1 else f'{abs(factor)}*'}{name}"


def names_of(axis: Axis) -> tuple[str, ...]:
    """Returns the index variables of an axis, those of its size included."""
    match axis:
        case NamedAxis(name):
            return () if name == "_" else (name,)
        case AffineAxis(factors):
            return tuple([name for _, name in factors])
        case JoinedAxes(parts):
            return tuple([part for part in parts if isinstance(part, str)])
        case FixedIndex(_, str(size)):
            return (size,)
    return ()


def parse_subscripts(text: str, count: int) -> Subscripts:
    """Parses subscripts of `count` operands. Raises SubscriptError."""
    equation = text.partition(WHERE)[0]
    arrow = equation.find(ARROW)
    if arrow < 0:
        hint = "write an arrow and the axes of the result: `*s i; i k -> *s k`"
        raise SubscriptError(f"expected `{ARROW}`, found the end", len(equation), len(text), hint)
    operands = [
        tuple([parse_axis(word, start) for word, start in words])
        for words in split_terms(equation[:arrow], 0)
    ]
    check_count(equation, operands, count, arrow)
    result_words = words_of(equation[arrow + len(ARROW) :], arrow + len(ARROW))
    result = tuple([_result_axis(parse_axis(word, start)) for word, start in result_words])
    return Subscripts(tuple(operands), result)


def check_count(text: str, terms: Sequence[Term], count: int, arrow: int) -> None:
    """Checks that there is one term per operand."""
    if len(terms) == count:
        return
    message = f"expected {count} operand term{'s' * (count != 1)}, found {len(terms)}"
    hint = f"write {count} terms, separated by `;`"
    raise SubscriptError(message, 0, max(len(text[:arrow].rstrip()), 1), hint)


def split_terms(text: str, start: int) -> Iterator[list[tuple[str, int]]]:
    """Yields the words of each term with their columns."""
    for term in text.split(";"):
        yield words_of(term, start)
        start += len(term) + 1


def words_of(text: str, start: int) -> list[tuple[str, int]]:
    """Returns the words of a text with their columns."""
    return [(match.group(), start + match.start()) for match in re.finditer(r"\S+", text)]


_NAME = r"[A-Za-z_]\w*"
_AFFINE = re.compile(
    rf"(?P<sign>[+-]|=\+|<\+)?"
    rf"(?:(?:(?P<factor>\d+)\*)?(?P<name>{_NAME})|(?P<constant>\d+))"
)


def parse_axis(word: str, start: int) -> Axis:
    """Parses one axis. Raises SubscriptError."""
    columns = Columns(start, start + len(word))
    if re.fullmatch(rf"[*~]{_NAME}", word):
        return RowAxes(word[1:], columns, word[0] == "~")
    if re.fullmatch(_NAME, word):
        return NamedAxis(word, columns)
    if word.isascii() and word.isdecimal():
        return SizedAxis(int(word), columns)
    if fixed := re.fullmatch(rf"(\d+):(\d+|{_NAME})?", word):
        return _fixed(int(fixed[1]), fixed[2], columns)
    if "^" in word:
        return _join(word, columns)
    return _window(word, columns)


def invalid_axis(word: str, start: int, offset: int = 0) -> SubscriptError:
    """Returns the error of a word that is no axis from `offset` on."""
    rest = word[offset:] or "the end"
    shown = f"`{rest}`" if word[offset:] else rest
    hint = f"replace `{word}` by an axis: {EXAMPLES}"
    column = start + min(offset, max(len(word) - 1, 0))
    return SubscriptError(f"expected an axis, found {shown}", column, start + len(word), hint)


def _fixed(index: int, size: str | None, columns: Columns) -> FixedIndex:
    if size is not None and size.isdecimal() and index >= int(size):
        message = f"expected an index below {size}, found {index}"
        raise SubscriptError(message, columns.start, columns.end, f"write `{index}:{index + 1}`")
    return FixedIndex(index, int(size) if size and size.isdecimal() else size or None, columns)


def _join(word: str, columns: Columns) -> JoinedAxes:
    offset = 0
    parts: list[str | int] = []
    for part in word.split("^"):
        if not re.fullmatch(rf"{_NAME}|\d+", part) or part == "_":
            raise invalid_axis(word, columns.start, offset)
        parts.append(int(part) if part.isdecimal() else part)
        offset += len(part) + 1
    return JoinedAxes(tuple(parts), columns)


def _window(word: str, columns: Columns) -> AffineAxis:
    factors: list[tuple[int, str]] = []
    constant: int | None = None
    padded, position = False, 0
    while position < len(word):
        match = _AFFINE.match(word, position)
        sign = "" if match is None else match["sign"] or ""
        starts = position == 0
        if match is None or (not starts and not sign) or (starts and sign in ("=+", "<+")):
            raise invalid_axis(word, columns.start, position)
        value = -1 if sign == "-" else 1
        if match["constant"] is None:
            factors.append((value * int(match["factor"] or 1), match["name"]))
        elif constant is None and not starts:
            constant = value * int(match["constant"])
        else:
            raise invalid_axis(word, columns.start, position)
        padded |= sign == "=+"
        position = match.end()
    names = [name for _, name in factors]
    if max([factor for factor, _ in factors], default=0) <= 0:
        raise invalid_axis(word, columns.start)
    if len(set(names)) != len(names) or "_" in names or any(f == 0 for f, _ in factors):
        raise invalid_axis(word, columns.start)
    if padded and (len(factors) != 2 or constant is not None or min(factors)[0] < 0):
        hint = "write a window with padding as `2*i=+k`"
        raise SubscriptError(
            f"expected a window such as `2*i=+k`, found `{word}`", columns.start, columns.end, hint
        )
    return AffineAxis(tuple(factors), constant, columns, padded)


def _result_axis(axis: Axis) -> Axis:
    """Returns `a+b` of a result as a concatenation; `<+` and a constant make it a window."""
    if not isinstance(axis, AffineAxis) or axis.padded or axis.constant is not None:
        return axis
    is_sum = len(axis.factors) > 1 and all(factor == 1 for factor, _ in axis.factors)
    return JoinedAxes(tuple([name for _, name in axis.factors]), axis.columns) if is_sum else axis


def with_merged_parts(subscripts: Subscripts) -> Subscripts:
    """Returns subscripts with parts of an axis as one where these always follow each other.

    The sizes of such parts do not matter: `a^b c -> c` and `a^b -> a^b` read the whole axis.
    """
    followers: dict[str, Part] = {}
    predecessors: dict[str, Part] = {}
    for axis in [axis for term in subscripts.terms for axis in term]:
        for part, following in _adjacent_parts(axis):
            _note(followers, part, following)
            _note(predecessors, following, part)
    for name in [word for text in subscripts.where for word in re.findall(r"\w+", text)]:
        followers[name] = predecessors[name] = None
    merged = {b for a, b in followers.items() if b in predecessors and predecessors[b] == a}

    def rest(axis: Axis) -> Axis:
        if not isinstance(axis, JoinedAxes):
            return axis
        parts = tuple([part for part in axis.parts if part not in merged])
        is_name = len(parts) == 1 and isinstance(parts[0], str)
        return (
            NamedAxis(str(parts[0]), axis.columns) if is_name else attrs.evolve(axis, parts=parts)
        )

    operands = tuple([tuple(map(rest, term)) for term in subscripts.operands])
    return attrs.evolve(subscripts, operands=operands, result=tuple(map(rest, subscripts.result)))


Part = str | int | None


def _adjacent_parts(axis: Axis) -> Iterator[tuple[Part, Part]]:
    """Yields pairs of adjacent parts; None stands for no part of a concatenation."""
    if isinstance(axis, JoinedAxes):
        yield from pairwise((None, *axis.parts, None))
    else:
        yield from [pair for name in names_of(axis) for pair in ((name, None), (None, name))]


def _note(parts: dict[str, Part], part: Part, neighbour: Part) -> None:
    """Notes the neighbour of a part; None where occurrences differ."""
    if isinstance(part, str):
        parts[part] = neighbour if parts.get(part, neighbour) == neighbour else None
