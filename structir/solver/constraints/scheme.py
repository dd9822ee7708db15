"""Schemes: what an op, a signature or a solved function says of its operands and results.

A scheme speaks of template variables; each use gives them a meaning of its own. A template letter
that meets an operand's axis simply stands for it: a use with known shapes makes no variable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import attrs

from structir.ir.polynomial import Dim, Poly, Sym, substitute
from structir.solver.constraints.constraint import Constraint, DimEq, DimJoin, RowJoin, Sum, Window
from structir.solver.domains.terms import (
    Element,
    Row,
    RowVar,
    is_ragged,
    known_ends,
    row_vars,
    symbol_of,
    variables,
)
from structir.solver.propagation.arithmetic import equate, fresh
from structir.solver.propagation.dim_broadcast import join_sizes
from structir.solver.propagation.row_broadcast import join_rows
from structir.solver.propagation.row_unification import equate_rows, unify_axes
from structir.solver.propagation.store import ConstraintStore
from structir.solver.propagation.windows import positions


@attrs.frozen(eq=False, slots=False)
class Scheme:
    """Rows of operands and results, and what else holds, over template variables."""

    operands: tuple[Row, ...]
    results: tuple[Row, ...]
    constraints: tuple[Constraint, ...] = ()
    shared: frozenset[Sym] = frozenset()  # the program's own variables: they stand for themselves

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The operands, taken apart for matching."""
        return tuple(map(Pattern.of, self.operands))

    @cached_property
    def copied_operands(self) -> tuple[int | None, ...]:
        """For each result, the operand that it has the row of."""
        places = {row: place for place, row in reversed(list(enumerate(self.operands)))}
        return tuple([places.get(result) for result in self.results])


@attrs.frozen(eq=False)
class Pattern:
    """An operand's row: axes before and after its row variable; `middle` is None without one."""

    row: Row
    head: Row
    middle: RowVar | None
    tail: Row
    simple: bool  # at most one row variable

    @classmethod
    def of(cls, row: Row) -> Pattern:
        """The pattern of a template row."""
        holes = row_vars(row)
        if len(holes) != 1:
            return cls(row, row, None, (), simple=not holes)
        before, after = known_ends(row)
        return cls(row, row[:before], holes[0], row[len(row) - after :], simple=True)


class Instance:
    """One use of a scheme: what its template variables stand for here."""

    def __init__(self, store: ConstraintStore, shared: frozenset[Sym]) -> None:
        self.store = store
        self.sizes: dict[Sym, Dim] = {symbol: Poly({(symbol,): 1}, 0) for symbol in shared}
        self.rows: dict[RowVar, Row] = {}
        self.later: list[tuple[Dim, Dim]] = []  # composed sizes, met once all letters are known

    def match(self, pattern: Pattern, row: Row) -> None:
        """An operand has this row."""
        if pattern.simple and pattern.middle is not None and len(pattern.row) == 1:
            self._run(pattern.middle, row)  # as it is written
            return
        row = self.store.row(row)
        before, after = known_ends(row)
        head, tail = pattern.head, pattern.tail
        closed = before == len(row)
        if not pattern.simple or (
            not closed and (pattern.middle is None or before < len(head) or after < len(tail))
        ):
            equate_rows(self.store, row, self.row(pattern.row))
            return
        fixed = len(head) + len(tail)
        if len(row) < fixed or (pattern.middle is None and len(row) != fixed):
            least = "" if pattern.middle is None else "at least "
            raise self.store.conflict(f"{len(row)} axes where {least}{fixed} are needed")
        for template, axis in zip(head, row, strict=False):
            self._axis(template, axis)
        if tail:
            for template, axis in zip(tail, row[len(row) - len(tail) :], strict=True):
                self._axis(template, axis)
        if pattern.middle is not None:
            self._run(pattern.middle, row[len(head) : len(row) - len(tail)])

    def _axis(self, template: Element, axis: Element) -> None:
        if type(template) is int:
            unify_axes(self.store, template, axis)
            return
        symbol = symbol_of(template)  # type: ignore[arg-type]
        if symbol is None or is_ragged(template):  # type: ignore[arg-type]
            self.later.append((template, axis))  # type: ignore[arg-type]
            return
        known = self.sizes.get(symbol)
        if known is None:
            self.sizes[symbol] = axis  # type: ignore[assignment]
        else:
            unify_axes(self.store, known, axis)

    def _run(self, template: RowVar, row: Row) -> None:
        known = self.rows.get(template)
        if known is None:
            self.rows[template] = row
        else:
            equate_rows(self.store, known, row)

    def settle(self) -> None:
        """Let composed sizes meet the axes that they stand for."""
        for template, axis in self.later:
            equate(self.store, self.size(template), axis)

    def size(self, template: Dim) -> Dim:
        """A template size here; a letter not met so far is a new variable."""
        if type(template) is int:
            return template
        symbol = symbol_of(template)
        if symbol is not None and symbol in self.sizes:
            return self.sizes[symbol]
        for letter in variables(template):
            if letter not in self.sizes:
                ragged = is_ragged(Poly({(letter,): 1}, 0))
                self.sizes[letter] = Poly({(letter,): 1}, 0) if ragged else fresh(letter.name)
        return self.sizes[symbol] if symbol is not None else substitute(template, self.sizes)

    def row(self, template: Row) -> Row:
        """A template row here."""
        found: list[Element] = []
        for element in template:
            if type(element) is RowVar:
                run = self.rows.get(element)
                if run is None:
                    run = self.rows[element] = (RowVar(element.name),)
                found += run
            else:
                found.append(self.size(element))  # type: ignore[arg-type]
        return tuple(found)

    def state(self, constraint: Constraint) -> None:
        """A constraint of the scheme holds here; one that only defines a variable is computed."""
        define = DEFINING.get(type(constraint))
        if define is None or not define(self, constraint):
            self.store.post(constraint.map_terms(self.size, self.row))

    def undefined(self, template: Dim) -> Sym | None:
        """The letter that a template is, if nothing is known of it here."""
        symbol = symbol_of(template)
        return symbol if symbol is not None and symbol not in self.sizes else None


def apply(store: ConstraintStore, scheme: Scheme, operands: Sequence[Row]) -> tuple[Row, ...]:
    """The rows of the results, for operands of these rows."""
    instance = Instance(store, scheme.shared)
    for pattern, row in zip(scheme.patterns, operands, strict=True):
        instance.match(pattern, row)
    if instance.later:
        instance.settle()
    for constraint in scheme.constraints:
        instance.state(constraint)
    both = zip(scheme.results, scheme.copied_operands, strict=True)
    return tuple([instance.row(result) if place is None else operands[place] for result, place in both])


def _define_row_join(instance: Instance, join: RowJoin) -> bool:
    outer = join.outer
    if len(outer) != 1 or type(outer[0]) is not RowVar or outer[0] in instance.rows:
        return False
    instance.rows[outer[0]] = join_rows(instance.store, [instance.row(row) for row in join.inners])
    return True


def _define_size_join(instance: Instance, join: DimJoin) -> bool:
    symbol = instance.undefined(join.outer)
    if symbol is not None:
        instance.sizes[symbol] = join_sizes(instance.store, [instance.size(part) for part in join.inners])
    return symbol is not None


def _define_equal(instance: Instance, equation: DimEq) -> bool:
    symbol = instance.undefined(equation.left)
    if symbol is None or symbol in set(variables(equation.right)):
        return False
    right = instance.size(equation.right)
    value = instance.store.dim(right)
    if type(value) is int and value < instance.store.least:
        raise instance.store.conflict(f"a size is at least {instance.store.least}, not {value}")
    instance.sizes[symbol] = right
    return True


def _define_sum(instance: Instance, total: Sum) -> bool:
    symbol = instance.undefined(total.total)
    parts = [instance.store.dim(instance.size(part)) for part in total.parts]
    if symbol is None or instance.store.may_be_ragged:
        return False
    whole: Dim = 0
    for part in parts:
        whole = whole + part
    instance.sizes[symbol] = whole
    return True


def _define_window(instance: Instance, window: Window) -> bool:
    symbol = instance.undefined(window.outer)
    inner = instance.store.dim(instance.size(window.inner))
    kernel = instance.store.dim(instance.size(window.kernel))
    if symbol is None or type(inner) is not int or type(kernel) is not int:
        return False
    span: Any = window.span(inner, kernel)
    instance.sizes[symbol] = positions(instance.store, window, span)
    return True


DEFINING: dict[type[Constraint], Callable[[Instance, Any], bool]] = {
    RowJoin: _define_row_join,
    DimJoin: _define_size_join,
    DimEq: _define_equal,
    Sum: _define_sum,
    Window: _define_window,
}
