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
from structir.opdef import index_expr
from structir.opdef.index_expr import AttributeRef, ElementRef, IndexExpr, IndexVar
from structir.opdef.notation import AxisIndex, SideCondition
from structir.projections.injectivity import distinguishes
from structir.projections.scalar_expr import (
    LoopIndex,
    OperandElement,
    ScalarExpr,
    ScalarOp,
    as_scalar_expr,
    cast,
    select,
)
from structir.projections.spec import AccessIndex, Condition, affine

JoinSelection = Mapping[tuple[str, ...], int]  # by join: the position of the chosen index variable


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

    def extent(self, symbol: Sym) -> Dim:
        """Returns the extent of a loop index."""
        return self.extents[symbol.name]

    def in_order(self, symbols: Iterable[Sym]) -> list[Sym]:
        """Returns the loop indices in `symbols`, in order of creation."""
        loop_indices = set(self.symbols.values())
        return sorted((s for s in symbols if s in loop_indices), key=lambda s: s.order)

    def index(self, expr: IndexExpr) -> Dim | ScalarExpr:
        """Translates an index to a dim over loop indices, or to a scalar expression."""
        if any(isinstance(leaf, ElementRef) for leaf in index_expr.leaves(expr)):
            leaf = self._scalar_leaf if isinstance(expr, ElementRef) else self._wide_leaf
            return as_scalar_expr(index_expr.evaluate(expr, leaf, SCALAR_FUNCTIONS))
        index: Dim = index_expr.evaluate(expr, self._dim_leaf)
        return index

    def size(self, expr: IndexExpr) -> Dim:
        """Evaluates a size to a dim."""
        size: Dim = index_expr.evaluate(expr, self._dim_leaf)
        return size

    def _dim_leaf(self, leaf: IndexExpr) -> Dim:
        match leaf:
            case IndexVar(name):
                return as_dim(self.symbol(name))
            case index_expr.IndexExtent(name):
                return self.extents[name]
            case AttributeRef(name, path):
                return as_dim(reduce(lambda value, k: value[k], path, self.attributes[name]))
        raise TypeError(f"an index cannot use {leaf}")

    def _scalar_leaf(self, leaf: IndexExpr) -> ScalarExpr:
        match leaf:
            case IndexVar(name):
                return LoopIndex(self.symbol(name))
            case ElementRef():
                return OperandElement(element_name(leaf))
        return as_scalar_expr(self._dim_leaf(leaf))

    def _wide_leaf(self, leaf: IndexExpr) -> ScalarExpr:
        """Casts an element in an index to int64, as narrow dtypes overflow."""
        scalar = self._scalar_leaf(leaf)
        return cast(scalar, "int64") if isinstance(leaf, ElementRef) else scalar

    def entry(self, entry: AxisIndex, size: Dim, chosen: JoinSelection) -> AccessIndex:
        """Translates one axis of an access; `size` is the dim of the axis."""
        if entry.join:
            return AccessIndex(self._joined(entry.join, chosen), size)
        if entry.index is None:
            return AccessIndex(0, size, whole=size != 1)  # no index variable selects an element
        if entry.loose and size == 1:
            return AccessIndex(0, size)
        index = self._index_or_zero(entry.index)
        variable = index_expr.plain_variable(entry.index, entry.size)
        if entry.loose and variable and dims.equal(size, self.extents[variable]):
            return AccessIndex(index, size)  # the axis has the full extent: it does not broadcast
        inside = bool(variable) or entry.loose or self._stays_inside(index, size)
        return AccessIndex(index, size, inside, entry.loose, entry.whole)

    def _index_or_zero(self, expr: IndexExpr) -> Dim | ScalarExpr:
        """Returns an index, or 0 where an empty loop makes it invalid: `i % size(i)`."""
        try:
            return self.index(expr)
        except DiagnosticError:
            if 0 not in self.extents.values():
                raise
            return 0

    def _joined(self, names: tuple[str, ...], chosen: JoinSelection) -> Dim:
        position = chosen[names]
        start: Dim = 0
        for name in names[:position]:
            start = start + self.extents[name]
        return start + as_dim(self.symbol(names[position]))

    def condition(self, condition: SideCondition) -> Condition:
        """Translates a side condition on indices."""
        lhs, rhs = self.index(condition.left), self.index(condition.right)
        if isinstance(lhs, ScalarExpr) or isinstance(rhs, ScalarExpr):
            raise TypeError(f"expected a condition on index variables, found {condition.text}")
        return Condition(condition.op, lhs, rhs)

    def _stays_inside(self, index: Dim | ScalarExpr, size: Dim) -> bool:
        """Returns whether an index is provably in range at every iteration point."""
        if isinstance(index, ScalarExpr):
            return False
        affine_form = affine(index, tuple(self.in_order(dims.syms(index))))
        if affine_form is None:
            atom = as_atom(index)
            if isinstance(atom, Opaque) and atom.fn == "floormod" and atom.args[1] == size:
                return True
            return bool(dims.at_least(index, 0) and dims.at_least(size - 1 - index, 0))
        steps, least = affine_form
        if not steps and index == 0:
            return True  # the constant index 0
        greatest = least
        for symbol, step in steps.items():
            span = step * (self.extent(symbol) - 1)
            if dims.at_least(step, 0):
                greatest = greatest + span
            elif dims.at_least(0, step):
                least = least + span
            else:
                return False
        return bool(dims.at_least(least, 0) and dims.at_least(size - 1 - greatest, 0))

    def injective(self, entries: tuple[AccessIndex, ...], symbols: Iterable[Sym]) -> bool:
        """Returns whether different iteration points provably access different elements."""
        moving_symbols = {s for s in symbols if self.extent(s) != 1}
        distinguished: set[Sym] = set()
        for entry in entries:
            loop_indices = tuple(self.in_order(entry.index_vars))
            affine_form = None if entry.data is not None else affine(entry.dim, loop_indices)
            if affine_form is None or distinguished & set(loop_indices):
                return False
            strides = [(f, n) for s, f in affine_form[0].items() if (n := self.extent(s)) != 1]
            if not distinguishes(strides):
                return False
            distinguished |= set(affine_form[0])
        return distinguished >= moving_symbols


def element_name(element: ElementRef) -> str:
    """Returns the name of an operand element in scalar expressions."""
    return element.operand if element.at is None else repr(element)


def elements_of(entries: Iterable[AxisIndex]) -> dict[str, ElementRef]:
    """Returns the data-dependent reads in indices, by element name."""
    indices = [e.index for e in entries if e.index is not None]
    leaves = [leaf for index in indices for leaf in index_expr.leaves(index)]
    return {element_name(leaf): leaf for leaf in leaves if isinstance(leaf, ElementRef)}


def _function(name: str) -> Callable[..., ScalarExpr]:
    def build(*args: Any) -> ScalarExpr:
        return ScalarOp(name, tuple([as_scalar_expr(a) for a in args]))

    return build


class _Builders(dict[str, Callable[..., ScalarExpr]]):
    """Builders of scalar expressions by function, made on first use."""

    def __missing__(self, name: str) -> Callable[..., ScalarExpr]:
        return _function(name)


SCALAR_FUNCTIONS = _Builders(select=lambda condition, a, b: select(condition, a, b))
