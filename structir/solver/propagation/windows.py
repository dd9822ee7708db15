"""Solves sliding windows: relates the sizes of input, kernel and result."""

from __future__ import annotations

from structir.ir.polynomial import Dim, Interval
from structir.solver.constraints.constraint import Window
from structir.solver.domains.intervals import interval
from structir.solver.domains.terms import is_ragged, symbol_of
from structir.solver.propagation.arithmetic import equate, require_at_least
from structir.solver.propagation.store import ConstraintStore, rule


@rule(Window)
def _(store: ConstraintStore, window: Window) -> bool:
    inner, kernel = store.dim(window.inner), store.dim(window.kernel)
    if is_ragged(inner) or is_ragged(kernel):
        raise store.conflict("a window cannot slide along a ragged axis", "E0405")
    span = window.span(inner, kernel)
    if type(span) is int:
        equate(store, window.outer, positions(store, window, span))
        return True
    low, high = interval(store, span)
    if low is None or low < 0:
        require_at_least(store, span, 0)
        low, high = interval(store, store.dim(span))
    if window.stride == 1:
        equate(store, window.outer, span + 1)
        return True
    _equate_equal_windows(store, window, span)
    return _propagate_strided(store, window, span, (low, high))


def positions(store: ConstraintStore, window: Window, span: int) -> int:
    """Returns the number of positions of a window that can move by `span`."""
    if span < 0:
        raise store.conflict(f"the window exceeds its axis by {-span}", "E0403")
    return span // window.stride + 1


def _equate_equal_windows(store: ConstraintStore, window: Window, span: Dim) -> None:
    """Equates the numbers of positions of windows with equal spans."""
    key = span, window.stride
    earlier = store.windows.get(key)
    if earlier is None:
        store.set(store.windows, key, (window.outer, store.reason()))
    elif earlier[0] is not window.outer:
        store.used.append(earlier[1])
        equate(store, earlier[0], window.outer)


def _propagate_strided(store: ConstraintStore, window: Window, span: Dim, limits: Interval) -> bool:
    """Propagates bounds between the span and the number of positions of a strided window."""
    stride, outer = window.stride, store.dim(window.outer)
    least, most = interval(store, outer)
    if least is not None and least > 1:
        require_at_least(store, span, stride * (least - 1))
    if most is not None:
        require_at_least(store, -span + (stride * most - 1), 0)
    low, high = limits
    if low is not None and high is not None and low >= 0 and low // stride == high // stride:
        equate(store, outer, low // stride + 1)
        return True
    if symbol_of(outer) is not None:
        if high is not None:
            require_at_least(store, -outer + (high // stride + 1), 0)
        require_at_least(store, outer, max(low or 0, 0) // stride + 1)
    return False
