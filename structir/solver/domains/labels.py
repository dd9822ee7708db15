"""Labels of axes: unified axes have one label.

A label belongs to an axis, not to a size. In a program with labels, each annotated axis has a size
variable of its own, which represents the axis.
"""

from __future__ import annotations

from structir.ir.polynomial import Dim, Sym
from structir.solver.constraints.constraint import AxisVariable, Label
from structir.solver.domains.reasons import Reason
from structir.solver.domains.terms import symbol_of
from structir.solver.propagation.store import ConstraintStore, rule


def label_of(store: ConstraintStore, axis: Dim) -> str | None:
    """Returns the label of an axis, or None."""
    root = _root(store, axis, [])
    return root if isinstance(root, str) else None


def identity_of(store: ConstraintStore, axis: Dim) -> Sym | str | None:
    """Returns what unified axes have in common, a symbol or a label; None for a composite size."""
    return _root(store, axis, [])


def _root(store: ConstraintStore, axis: Dim, reasons: list[Reason]) -> Sym | str | None:
    root: Sym | str | None = symbol_of(axis)
    while isinstance(root, Sym) and root in store.labels:
        reasons.append(store.label_reasons[root])
        root = store.labels[root]
    return root


def unify_labels(store: ConstraintStore, lhs: Dim, rhs: Dim) -> None:
    """Unifies the labels of two axes. Raises Conflict if they differ."""
    reasons: list[Reason] = []
    root, other_root = _root(store, lhs, reasons), _root(store, rhs, reasons)
    if root is None or other_root is None or root == other_root:
        return
    if isinstance(root, str) and isinstance(other_root, str):
        store.used += reasons
        raise store.conflict(f"cannot unify the axes labelled {root} and {other_root}", "E0406")
    child, parent = (other_root, root) if isinstance(root, str) else (root, other_root)
    store.set(store.label_reasons, child, (store.reason(), *reasons))
    store.set(store.labels, child, parent)


@rule(AxisVariable)
def _(store: ConstraintStore, constraint: AxisVariable) -> bool:
    symbol = symbol_of(constraint.axis)
    if symbol is not None and symbol not in store.dims and symbol not in store.lows:
        store.set(store.lows, symbol, 0)
    return True


@rule(Label)
def _(store: ConstraintStore, constraint: Label) -> bool:
    store.labelled = True
    reasons: list[Reason] = []
    root = _root(store, constraint.axis, reasons)
    if isinstance(root, str) and root != constraint.label:
        store.used += reasons
        raise store.conflict(
            f"cannot unify the axes labelled {root} and {constraint.label}", "E0406"
        )
    if isinstance(root, Sym):
        store.set(store.label_reasons, root, (store.reason(), *reasons))
        store.set(store.labels, root, constraint.label)
    return True
