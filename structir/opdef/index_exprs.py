"""Translates index expressions of signatures to access indices of index specs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import attrs

from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Sym, as_dim
from structir.ir.polynomial import Opaque, as_atom
from structir.opdef import index_expr as formulas
from structir.opdef.index_expr import AttributeRef, ElementRef, IndexExpr, IndexVar
from structir.opdef.notation import AxisIndex as LineEntry
from structir.opdef.notation import SideCondition
from structir.projections.injective import distinguishes
from structir.projections.scalar_expr import (
    FUNCTIONS,
    LoopIndex,
    OperandElement,
    ScalarExpr,
    ScalarOp,
    as_scalar_expr,
    cast,
    select,
)
from structir.projections.spec import AccessIndex, Condition, affine

Chosen = Mapping[tuple[str, ...], int]  # of each group of joined letters, the one a clause is about


@attrs.frozen(eq=False)
class LoopIndices:
    """The loop indices of one call: symbols, created on first use, and extents."""

    extents: Mapping[str, Dim]
    attributes: Mapping[str, Any]
    symbols: dict[str, Sym] = attrs.Factory(dict)

    def symbol(self, name: str) -> Sym:
        """Returns the loop index of an index variable."""
        if name not in self.symbols:
            self.symbols[name] = Sym(name)
        return self.symbols[name]

    def extent(self, letter: Sym) -> Dim:
        """Returns the extent of a loop index."""
        return self.extents[letter.name]

    def in_order(self, symbols: Iterable[Sym]) -> list[Sym]:
        """Returns the loop indices among symbols, in order of creation."""
        own = set(self.symbols.values())
        return sorted((s for s in symbols if s in own), key=lambda s: s.order)

    def index(self, formula: IndexExpr) -> Dim | ScalarExpr:
        """Translates an index to a dim over loop indices, or to a scalar expression."""
        if any(isinstance(leaf, ElementRef) for leaf in formulas.leaves(formula)):
            leaf = self._point_leaf if isinstance(formula, ElementRef) else self._wide_leaf
            return as_scalar_expr(formulas.evaluate(formula, leaf, POINT_FUNCTIONS))
        index: Dim = formulas.evaluate(formula, self._dim_leaf)
        return index

    def size(self, formula: IndexExpr) -> Dim:
        """Evaluates a size to a dim."""
        size: Dim = formulas.evaluate(formula, self._dim_leaf)
        return size

    def _dim_leaf(self, leaf: IndexExpr) -> Dim:
        match leaf:
            case IndexVar(name):
                return as_dim(self.symbol(name))
            case formulas.IndexExtent(name):
                return self.extents[name]
            case AttributeRef(name, path):
                return as_dim(reduce(lambda value, k: value[k], path, self.attributes[name]))
        raise TypeError(f"{leaf} is no part of an index over letters")

    def _point_leaf(self, leaf: IndexExpr) -> ScalarExpr:
        match leaf:
            case IndexVar(name):
                return LoopIndex(self.symbol(name))
            case ElementRef():
                return OperandElement(element_name(leaf))
        return as_scalar_expr(self._dim_leaf(leaf))

    def _wide_leaf(self, leaf: IndexExpr) -> ScalarExpr:
        """Widens a leaf of a data-dependent index: narrow integers may not hold sizes."""
        point = self._point_leaf(leaf)
        return cast(point, "int64") if isinstance(leaf, ElementRef) else point

    def entry(self, entry: LineEntry, size: Dim, chosen: Chosen) -> AccessIndex:
        """Translates one axis of an access, of this size."""
        if entry.join:
            return AccessIndex(self._joined(entry.join, chosen), size)
        if entry.index is None:
            return AccessIndex(0, size, whole=size != 1)  # no letter selects which element it is
        if entry.loose and size == 1:
            return AccessIndex(0, size)
        index = self._index_of_points(entry.index)
        whole_row = entry.loose and entry.index_var is not None
        if whole_row and dims.equal(size, self.extents[entry.index_var or ""]):
            return AccessIndex(index, size)  # as long as the whole row: nothing is left to decide
        inside = entry.index_var is not None or entry.loose or self._stays_inside(index, size)
        return AccessIndex(index, size, inside, entry.loose, entry.whole)

    def _index_of_points(self, formula: IndexExpr) -> Dim | ScalarExpr:
        """Returns an index that may be invalid over an empty loop: `i % size(i)` with size 0."""
        try:
            return self.index(formula)
        except DiagnosticError:
            if 0 not in self.extents.values():
                raise
            return 0

    def _joined(self, names: tuple[str, ...], chosen: Chosen) -> Dim:
        own = chosen[names]
        start: Dim = 0
        for name in names[:own]:
            start = start + self.extents[name]
        return start + as_dim(self.symbol(names[own]))

    def condition(self, relation: SideCondition) -> Condition:
        """Translates a side condition on indices."""
        left, right = self.index(relation.left), self.index(relation.right)
        if isinstance(left, ScalarExpr) or isinstance(right, ScalarExpr):
            raise TypeError(f"a condition compares letters, not data: {relation.text}")
        return Condition(relation.op, left, right)

    def _stays_inside(self, index: Dim | ScalarExpr, size: Dim) -> bool:
        """Returns whether an index is provably in range at every iteration point."""
        if isinstance(index, ScalarExpr):
            return False
        form = affine(index, tuple(self.in_order(dims.syms(index))))
        if form is None:
            atom = as_atom(index)
            return isinstance(atom, Opaque) and atom.fn == "floormod" and atom.args[1] == size
        steps, least = form
        if not steps and index == 0:
            return True  # the only element there is
        greatest = least
        for letter, step in steps.items():
            reach = step * (self.extent(letter) - 1)
            if dims.at_least(step, 0):
                greatest = greatest + reach
            elif dims.at_least(0, step):
                least = least + reach
            else:
                return False
        return bool(dims.at_least(least, 0) and dims.at_least(size - 1 - greatest, 0))

    def injective(self, entries: tuple[AccessIndex, ...], letters: Iterable[Sym]) -> bool:
        """Returns whether different iteration points provably access different elements."""
        wanted = {s for s in letters if self.extent(s) != 1}
        seen: set[Sym] = set()
        for entry in entries:
            own = tuple(self.in_order(entry.letters))
            form = None if entry.data is not None else affine(entry.dim, own)
            if form is None or seen & set(own):
                return False
            moving = [(f, n) for s, f in form[0].items() if (n := self.extent(s)) != 1]
            if not distinguishes(moving):
                return False
            seen |= set(form[0])
        return seen >= wanted


def element_name(element: ElementRef) -> str:
    """Returns the name of an operand element in scalar expressions."""
    return element.operand if element.at is None else repr(element)


def elements_of(entries: Iterable[LineEntry]) -> dict[str, ElementRef]:
    """Returns the data-dependent reads in indices, by element name."""
    indices = [e.index for e in entries if e.index is not None]
    leaves = [leaf for index in indices for leaf in formulas.leaves(index)]
    return {element_name(leaf): leaf for leaf in leaves if isinstance(leaf, ElementRef)}


def _function(name: str) -> Callable[..., ScalarExpr]:
    def build(*args: Any) -> ScalarExpr:
        return ScalarOp(name, tuple([as_scalar_expr(a) for a in args]))

    return build


POINT_FUNCTIONS: Mapping[str, Callable[..., ScalarExpr]] = {
    **{name: _function(name) for name in FUNCTIONS},
    "select": lambda condition, a, b: select(condition, a, b),
}
