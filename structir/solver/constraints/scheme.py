"""Constraint schemes: relations between the operands and results of an op or a function.

A scheme is a relation over template variables, instantiated at each use. A template variable that
matches an axis of an operand is bound to it, so a use with known shapes creates no new variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from structir.ir.polynomial import Dim, Poly, Sym, substitute
from structir.solver.constraints.constraint import (
    AxisStack,
    Constraint,
    DimEq,
    DimJoin,
    RowJoin,
    RowStack,
    Sum,
    Window,
)
from structir.solver.domains.labels import unify_labels
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
from structir.system.locks import cached_property


@attrs.frozen(eq=False, slots=False)
class Scheme:
    """Rows of operands and results with constraints, over template variables."""

    operands: tuple[Row, ...]
    results: tuple[Row, ...]
    constraints: tuple[Constraint, ...] = ()
    shared: frozenset[Sym] = frozenset()  # variables of the program, not instantiated
    splits: frozenset[RowVar] = frozenset()  # an operand's own row variables may determine these

    @cached_property
    def patterns(self) -> tuple[Pattern, ...]:
        """The operands, prepared for matching."""
        return tuple(map(Pattern.of, self.operands))

    @cached_property
    def unlabelled(self) -> Scheme:
        """The scheme for programs without labels: variables equal to a shared one are this one."""
        equal: dict[Sym, Dim] = {}
        others: list[Constraint] = []
        for constraint in self.constraints:
            symbol = self._equal_to_shared(constraint)
            if symbol is None or symbol in equal or not isinstance(constraint, DimEq):
                others.append(constraint)
            else:
                equal[symbol] = constraint.right
        if not equal:
            return self

        def size(template: Dim) -> Dim:
            return substitute(template, equal) if type(template) is Poly else template

        def row(template: Row) -> Row:
            sizes = [e if type(e) is RowVar else size(e) for e in template]  # type: ignore[arg-type]
            return tuple(sizes)

        return attrs.evolve(
            self,
            operands=tuple(map(row, self.operands)),
            results=tuple(map(row, self.results)),
            constraints=tuple([c.map_terms(size, row) for c in others]),
        )

    def _equal_to_shared(self, constraint: Constraint) -> Sym | None:
        """Returns the template variable that a constraint equates with a shared one, or None."""
        if not isinstance(constraint, DimEq) or symbol_of(constraint.right) not in self.shared:
            return None
        symbol = symbol_of(constraint.left)
        return None if symbol in self.shared else symbol

    @cached_property
    def copied_operands(self) -> tuple[int | None, ...]:
        """For each result, the index of the operand with the same row, or None."""
        indices = {row: index for index, row in reversed(list(enumerate(self.operands)))}
        return tuple([indices.get(result) for result in self.results])


def free_rows(
    operands: Iterable[Row], constraints: Iterable[Constraint], fixed: Iterable[Element] = ()
) -> frozenset[RowVar]:
    """Returns the row variables that occur once in the operands, unconstrained."""
    uses = [row for operand in operands for row in row_vars(operand)]
    constrained = [e for c in constraints for row in c.rows() for e in row]
    return frozenset({row for row in uses if uses.count(row) == 1}.difference(fixed, constrained))


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
        """Returns the pattern of a template row."""
        row_variables = row_vars(row)
        if len(row_variables) != 1:
            return cls(row, row, None, (), simple=not row_variables)
        before, after = known_ends(row)
        return cls(row, row[:before], row_variables[0], row[len(row) - after :], simple=True)


class Instance:
    """One use of a scheme: the values of its template variables."""

    def __init__(self, store: ConstraintStore, scheme: Scheme) -> None:
        self.store = store
        self.splits = scheme.splits
        self.shared = scheme.shared
        self.sizes: dict[Sym, Dim] = {symbol: Poly({(symbol,): 1}, 0) for symbol in scheme.shared}
        self.rows: dict[RowVar, Row] = {}
        self.deferred: list[tuple[Dim, Dim]] = []  # composite sizes, equated last

    def match(self, pattern: Pattern, row: Row) -> None:
        """Matches an operand's template with its row."""
        if pattern.simple and pattern.middle is not None and len(pattern.row) == 1:
            self._match_row(pattern.middle, row)  # not expanded, to preserve its identity
            return
        row = self.store.row(row)
        if not pattern.simple and self._has_form(pattern.row, row):
            for template, element in zip(pattern.row, row, strict=True):
                if type(template) is RowVar:
                    self._match_row(template, (element,))
                else:
                    self._match_axis(template, element)
            return
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
            raise self.store.conflict(f"expected {least}{fixed} axes, found {len(row)}", "E0402")
        for template, axis in zip(head, row, strict=False):
            self._match_axis(template, axis)
        if tail:
            for template, axis in zip(tail, row[len(row) - len(tail) :], strict=True):
                self._match_axis(template, axis)
        if pattern.middle is not None:
            self._match_row(pattern.middle, row[len(head) : len(row) - len(tail)])

    def _has_form(self, template: Row, row: Row) -> bool:
        """Returns whether an operand has its row variables where the template has them.

        These determine the split of its axes, as nothing else does.
        """
        if len(row) != len(template) or not self.splits.issuperset(row_vars(template)):
            return False
        return all(
            (type(a) is RowVar) == (type(b) is RowVar) for a, b in zip(template, row, strict=True)
        )

    def _match_axis(self, template: Element, axis: Element) -> None:
        if type(template) is int:
            unify_axes(self.store, template, axis)
            return
        symbol = symbol_of(template)  # type: ignore[arg-type]
        if symbol is None or is_ragged(template):  # type: ignore[arg-type]
            self.deferred.append((template, axis))  # type: ignore[arg-type]
            return
        bound_size = self.sizes.get(symbol)
        if bound_size is None:
            self.sizes[symbol] = axis  # type: ignore[assignment]
        elif not self._have_equal_lengths(symbol, bound_size, axis):
            unify_axes(self.store, bound_size, axis)

    def _have_equal_lengths(self, symbol: Sym, first: Dim, second: Any) -> bool:
        """Assumes that all rows of a ragged axis have the size of an axis of another operand.

        Returns whether exactly one of them is ragged.
        """
        axes = [self.store.dim(first), self.store.dim(second)]
        ragged = [axis for axis in axes if is_ragged(axis)]
        if len(ragged) != 1:
            return False
        if self.store.labelled:
            unify_labels(self.store, first, second)
        self.store.assumed.append((axes[0], axes[1], self.store.reason()))
        self.sizes[symbol] = ragged[0]
        return True

    def _match_row(self, template: RowVar, row: Row) -> None:
        bound_row = self.rows.get(template)
        if bound_row is None:
            self.rows[template] = row
        else:
            equate_rows(self.store, bound_row, row)

    def equate_deferred(self) -> None:
        """Equates composite template sizes with their axes."""
        for template, axis in self.deferred:
            equate(self.store, self.size(template), axis)

    def size(self, template: Dim) -> Dim:
        """Instantiates a template size; an unbound variable becomes a fresh one."""
        if type(template) is int:
            return template
        symbol = symbol_of(template)
        if symbol is not None and symbol in self.sizes:
            return self.sizes[symbol]
        for inner in variables(template):
            if inner not in self.sizes:
                ragged = is_ragged(Poly({(inner,): 1}, 0))
                self.sizes[inner] = Poly({(inner,): 1}, 0) if ragged else fresh(inner.name)
        return self.sizes[symbol] if symbol is not None else substitute(template, self.sizes)

    def row(self, template: Row) -> Row:
        """Instantiates a template row."""
        elements: list[Element] = []
        for element in template:
            if type(element) is RowVar:
                value = self.rows.get(element)
                if value is None:
                    value = self.rows[element] = (RowVar(element.name),)
                elements += value
            else:
                elements.append(self.size(element))  # type: ignore[arg-type]
        return tuple(elements)

    def add(self, constraint: Constraint) -> None:
        """Adds a constraint of the scheme; one that only defines a variable is computed instead."""
        define = DEFINING.get(type(constraint))
        if define is None or not define(self, constraint):
            self.store.post(constraint.map_terms(self.size, self.row))

    def undefined_symbol(self, template: Dim) -> Sym | None:
        """Returns the template variable that a size consists of if it is unbound, or None."""
        symbol = symbol_of(template)
        return symbol if symbol is not None and symbol not in self.sizes else None


def apply(store: ConstraintStore, scheme: Scheme, operands: Sequence[Row]) -> tuple[Row, ...]:
    """Returns the rows of the results for operands of these rows.

    Raises Conflict if the operands do not fit.
    """
    scheme = scheme if store.labelled else scheme.unlabelled
    instance = Instance(store, scheme)
    for pattern, row in zip(scheme.patterns, operands, strict=True):
        instance.match(pattern, row)
    if instance.deferred:
        instance.equate_deferred()
    for constraint in scheme.constraints:
        instance.add(constraint)
    pairs = zip(scheme.results, scheme.copied_operands, strict=True)
    return tuple(
        [instance.row(result) if index is None else operands[index] for result, index in pairs]
    )


def _define_row_join(instance: Instance, join: RowJoin) -> bool:
    outer = join.outer
    if len(outer) != 1 or type(outer[0]) is not RowVar or outer[0] in instance.rows:
        return False
    instance.rows[outer[0]] = join_rows(instance.store, [instance.row(row) for row in join.inners])
    return True


def _define_size_join(instance: Instance, join: DimJoin) -> bool:
    symbol = instance.undefined_symbol(join.outer)
    if symbol is not None:
        instance.sizes[symbol] = join_sizes(
            instance.store, [instance.size(part) for part in join.inners]
        )
    return symbol is not None


def _define_equal(instance: Instance, equation: DimEq) -> bool:
    symbol = instance.undefined_symbol(equation.left)
    if symbol is None or symbol in set(variables(equation.right)):
        return False
    right = instance.size(equation.right)
    if symbol_of(equation.right) in instance.shared:  # then the program has labels
        instance.sizes[symbol] = axis = fresh()
        equate(instance.store, axis, right)
        return True
    value = instance.store.dim(right)
    if type(value) is int and value < instance.store.least:
        raise instance.store.conflict(
            f"expected a size of at least {instance.store.least}, found {value}", "E0403"
        )
    instance.sizes[symbol] = right
    return True


def _define_sum(instance: Instance, total: Sum) -> bool:
    symbol = instance.undefined_symbol(total.total)
    parts = [instance.store.dim(instance.size(part)) for part in total.parts]
    if symbol is None or instance.store.may_be_ragged:
        return False
    sum_of_parts: Dim = 0
    for part in parts:
        sum_of_parts = sum_of_parts + part
    instance.sizes[symbol] = sum_of_parts
    return True


def _define_axis_stack(instance: Instance, stack: AxisStack) -> bool:
    return _define_row_stack(
        instance, RowStack((stack.total,), tuple([(part,) for part in stack.parts]))
    )


def _define_row_stack(instance: Instance, stack: RowStack) -> bool:
    if instance.store.may_be_ragged:
        return False
    first, *others = map(instance.row, stack.parts)
    for other in others:
        equate_rows(instance.store, first, other)
    instance.match(Pattern.of(stack.total), first)
    return True


def _define_window(instance: Instance, window: Window) -> bool:
    symbol = instance.undefined_symbol(window.outer)
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
    AxisStack: _define_axis_stack,
    RowStack: _define_row_stack,
    Window: _define_window,
}
