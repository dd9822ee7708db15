"""Labels of axes: axes that are one carry one label.

A label belongs to an axis, not to a size; in a program with labels each axis that the user wrote
has a size variable of its own, and that variable stands for the axis.
"""

from __future__ import annotations

from structir.ir.polynomial import Dim, Sym
from structir.solver.constraints.constraint import Label
from structir.solver.domains.reasons import Reason
from structir.solver.domains.terms import symbol_of
from structir.solver.propagation.store import ConstraintStore, rule


def label_of(store: ConstraintStore, axis: Dim) -> str | None:
    """The label that an axis carries, if any."""
    root = _root(store, axis, [])
    return root if isinstance(root, str) else None


def _root(store: ConstraintStore, axis: Dim, reasons: list[Reason]) -> Sym | str | None:
    root: Sym | str | None = symbol_of(axis)
    while isinstance(root, Sym) and root in store.labels:
        reasons.append(store.label_reasons[root])
        root = store.labels[root]
    return root


def unify_labels(store: ConstraintStore, left: Dim, right: Dim) -> None:
    """Two axes are one, so they carry one label."""
    reasons: list[Reason] = []
    one, other = _root(store, left, reasons), _root(store, right, reasons)
    if one is None or other is None or one == other:
        return
    if isinstance(one, str) and isinstance(other, str):
        store.used += reasons
        raise store.conflict(f"an axis of {one} is not an axis of {other}")
    child, parent = (other, one) if isinstance(one, str) else (one, other)
    store.set(store.label_reasons, child, (store.reason(), *reasons))
    store.set(store.labels, child, parent)


@rule(Label)
def _(store: ConstraintStore, constraint: Label) -> bool:
    store.labelled = True
    reasons: list[Reason] = []
    root = _root(store, constraint.axis, reasons)
    if isinstance(root, str) and root != constraint.label:
        store.used += reasons
        raise store.conflict(f"an axis of {root} is not an axis of {constraint.label}")
    if isinstance(root, Sym):
        store.set(store.label_reasons, root, (store.reason(), *reasons))
        store.set(store.labels, root, constraint.label)
    return True
