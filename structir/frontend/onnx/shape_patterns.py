"""Patterns of operand shapes: `n 3*c *x` is a batch axis, a multiple of 3, and a row of axes.

An item is a size, the name of a size, a multiple `3*c` of a named size, a row `*x` of axes, or `_`
for any size. `~m n` are the shapes that broadcast to (m, n); `|` separates alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import attrs

from structir.ir import dims
from structir.ir.dims import Dim

Shape = tuple[Dim, ...]
ANY = "_"


@attrs.frozen
class PatternItem:
    """One axis, `factor * name` or a number; or a row of axes of this name."""

    name: str = ""
    factor: int = 1
    number: int | None = None
    is_row: bool = False

    @property
    def is_named(self) -> bool:
        """Whether the item is the plain name of a size."""
        return self.number is None and self.factor == 1 and self.name != ANY


@attrs.frozen
class ShapePattern:
    """The axes of one alternative; `one_way` if an operand may broadcast to them."""

    items: tuple[PatternItem, ...]
    one_way: bool = False


@lru_cache(maxsize=4096)
def parsed_patterns(text: str) -> tuple[ShapePattern, ...]:
    """Parses the alternatives of a pattern."""
    parts = [part.strip() for part in text.split("|")]
    return tuple(
        ShapePattern(tuple(map(_item, part.lstrip("~").split())), part.startswith("~"))
        for part in parts
    )


def _item(text: str) -> PatternItem:
    if text.isdigit():
        return PatternItem(number=int(text))
    factor, times, name = text.rpartition("*")
    if times and not factor:
        return PatternItem(name, is_row=True)
    return PatternItem(name, int(factor) if factor else 1)


@attrs.define(eq=False)
class ShapeUnifier:
    """Unifies shapes with patterns: the sizes and rows of axes by name."""

    sizes: dict[str, Dim]
    rows: dict[str, Shape] = attrs.Factory(dict)

    def unify(self, text: str, shape: Shape) -> bool:
        """Returns whether a shape can match an alternative of a pattern; binds its names."""
        return any(self._unify(pattern, shape) for pattern in parsed_patterns(text))

    def _unify(self, pattern: ShapePattern, shape: Shape) -> bool:
        trial = ShapeUnifier(dict(self.sizes), dict(self.rows))
        matches = trial._broadcasts if pattern.one_way else trial._matches
        if not matches(pattern.items, shape):
            return False
        self.sizes, self.rows = trial.sizes, trial.rows
        return True

    def _matches(self, items: Sequence[PatternItem], shape: Shape) -> bool:
        rows = [k for k, item in enumerate(items) if item.is_row]
        extra = len(shape) - len(items) + len(rows)
        if extra < 0 or (extra and not rows):
            return False
        if not rows:
            return all(map(self._bind, items, shape))
        (k,) = rows
        fixed = (*shape[:k], *shape[k + extra :])
        row_fits = self._bind_row(items[k].name, shape[k : k + extra])
        return row_fits and all(map(self._bind, (*items[:k], *items[k + 1 :]), fixed))

    def _bind_row(self, name: str, shape: Shape) -> bool:
        known = self.rows.setdefault(name, shape)
        return len(known) == len(shape) and all(map(may_equal, known, shape))

    def _bind(self, item: PatternItem, size: Dim) -> bool:
        """Returns whether an axis can have a size; binds the name of the item."""
        expected = self.size_of(item)
        if expected is not None:
            if item.is_named and isinstance(size, int):
                self.sizes[item.name] = size
            return may_equal(expected, size)
        if item.name != ANY:
            quotient = size if item.factor == 1 else dims.exact_quotient(size, item.factor)
            if quotient is None:
                return not isinstance(size, int)
            self.sizes[item.name] = quotient
        return True

    def size_of(self, item: PatternItem) -> Dim | None:
        """Returns the size of an item, or None if its name is unbound."""
        if item.number is not None:
            return item.number
        size = self.sizes.get(item.name)
        return None if size is None else item.factor * size

    def _broadcasts(self, items: Sequence[PatternItem], shape: Shape) -> bool:
        """Returns whether a shape can broadcast to the items; binds sizes other than 1."""
        expected: list[PatternItem | Dim] = []
        for item in items:
            if not item.is_row:
                expected.append(item)
            elif item.name in self.rows:
                expected.extend(self.rows[item.name])
            else:
                return True  # the rank is unknown
        if len(shape) > len(expected):
            return False
        pairs = zip(reversed(expected), reversed(shape), strict=False)
        return all(_is_one(size) or self._meets(each, size) for each, size in pairs)

    def _meets(self, expected: PatternItem | Dim, size: Dim) -> bool:
        if not isinstance(expected, PatternItem):
            return may_equal(expected, size)
        known = self.size_of(expected)
        if known is not None or not isinstance(size, int):
            return known is None or may_equal(known, size)
        return self._bind(expected, size)

    def text(self, text: str) -> str:
        """Returns a pattern as expected shapes, with the known sizes."""
        return " or ".join([self._text(pattern) for pattern in parsed_patterns(text)])

    def _text(self, pattern: ShapePattern) -> str:
        axes = [part for item in pattern.items for part in self._axis_texts(item)]
        shape = f"({', '.join(axes)}{',' * (len(axes) == 1)})"
        return f"a shape that broadcasts to {shape}" if pattern.one_way else shape

    def _axis_texts(self, item: PatternItem) -> list[str]:
        if item.is_row:
            row = self.rows.get(item.name)
            return [f"*{item.name}"] if row is None else [dims.text(size) for size in row]
        size = self.size_of(item)
        if size is not None:
            return [dims.text(size)]
        return [f"{item.factor} * {item.name}" if item.factor != 1 else item.name]


def may_equal(a: Dim, b: Dim) -> bool:
    """Returns whether two sizes can be equal."""
    if type(a) is int and type(b) is int:
        return a == b
    return dims.equal(a, b) is not False


def _is_one(size: Dim) -> bool:
    return isinstance(size, int) and size == 1


def known_rank(text: str, rows: Mapping[str, Shape]) -> bool:
    """Returns whether a pattern fixes the rank of an operand."""
    patterns = parsed_patterns(text)
    items = patterns[0].items
    return (
        len(patterns) == 1
        and not patterns[0].one_way
        and all(not item.is_row or item.name in rows for item in items)
    )
