"""Choices between dims: minimum, maximum, comparisons as 0 or 1, and selection by a condition."""

from __future__ import annotations

from collections.abc import Callable

from structir.ir.dim_proofs import quickly_at_least, quickly_equal
from structir.ir.polynomial import Dim, Interval, Opaque, as_atom, bounds, builds, opaque

# The normal form of a comparison: one of four functions, and whether to swap its operands.
COMPARISONS = {
    "<": ("lt", False),
    "<=": ("le", False),
    ">": ("lt", True),
    ">=": ("le", True),
    "==": ("eq", False),
    "!=": ("ne", False),
    "lt": ("lt", False),
    "le": ("le", False),
    "gt": ("lt", True),
    "ge": ("le", True),
    "eq": ("eq", False),
    "ne": ("ne", False),
}


@builds("min")
def dim_min(*dims: Dim) -> Dim:
    """Returns the minimum of dims."""
    return _chosen("min", dims, lambda dim, other: quickly_at_least(other, dim))


@builds("max")
def dim_max(*dims: Dim) -> Dim:
    """Returns the maximum of dims."""
    return _chosen("max", dims, quickly_at_least)


def _chosen(fn: str, dims: tuple[Dim, ...], beats: Callable[[Dim, Dim], bool]) -> Dim:
    candidates: list[Dim] = []
    for dim in _flat(fn, dims):
        if not any([beats(other, dim) for other in candidates]):
            candidates = [other for other in candidates if not beats(dim, other)]
            candidates.append(dim)
    if len(candidates) > 1:
        candidates = _absorbed(fn, candidates)
    return (
        candidates[0]
        if len(candidates) == 1
        else opaque(fn, tuple(candidates), _choice_bounds(fn, candidates))
    )


def _flat(fn: str, dims: tuple[Dim, ...]) -> list[Dim]:
    """Returns the arguments; an inner call of the same function is replaced by its arguments."""
    flat: list[Dim] = []
    for dim in dims:
        atom = as_atom(dim)
        flat += atom.args if type(atom) is Opaque and atom.fn == fn else (dim,)
    return flat


def _absorbed(fn: str, dims: list[Dim]) -> list[Dim]:
    """Applies the absorption law: `max(n, min(n, m))` is `n`."""
    opposite = "max" if fn == "min" else "min"
    remaining: list[Dim] = []
    for dim in dims:
        atom = as_atom(dim)
        inner = atom.args if type(atom) is Opaque and atom.fn == opposite else ()
        if not any([argument in dims for argument in inner]):
            remaining.append(dim)
    return remaining


def _choice_bounds(fn: str, dims: list[Dim]) -> Interval:
    lows, highs = zip(*map(bounds, dims), strict=True)
    low = [bound for bound in lows if bound is not None]
    high = [bound for bound in highs if bound is not None]
    if fn == "max":
        return max(low, default=None), max(high) if len(high) == len(highs) else None
    return min(low) if len(low) == len(lows) else None, min(high, default=None)


def compare(op: str, first: Dim, second: Dim) -> Dim:
    """Returns 1 if a comparison holds, else 0; `op` is a Python operator or its short name."""
    fn, swapped = COMPARISONS[op]
    return BUILT[fn](second, first) if swapped else BUILT[fn](first, second)


def is_comparison(dim: Dim) -> bool:
    """Whether a dim is 1 if a comparison holds, and 0 otherwise."""
    atom = as_atom(dim)
    return type(atom) is Opaque and atom.fn in BUILT


@builds("lt")
def _less(first: Dim, second: Dim) -> Dim:
    if quickly_at_least(first, second):
        return 0
    return 1 if quickly_at_least(second - 1, first) else opaque("lt", (first, second), (0, 1))


@builds("le")
def _less_or_equal(first: Dim, second: Dim) -> Dim:
    if quickly_at_least(second, first):
        return 1
    return 0 if quickly_at_least(first - 1, second) else opaque("le", (first, second), (0, 1))


@builds("eq")
def _same(first: Dim, second: Dim) -> Dim:
    answer = quickly_equal(first, second)
    return opaque("eq", (first, second), (0, 1)) if answer is None else int(answer)


@builds("ne")
def _different(first: Dim, second: Dim) -> Dim:
    answer = quickly_equal(first, second)
    return opaque("ne", (first, second), (0, 1)) if answer is None else int(not answer)


BUILT = {"lt": _less, "le": _less_or_equal, "eq": _same, "ne": _different}


@builds("select")
def select(condition: Dim, chosen: Dim, other: Dim) -> Dim:
    """Returns `chosen` unless the condition is 0, else `other`."""
    low, high = bounds(condition)
    if low == high == 0 or chosen == other:
        return other
    if (low is not None and low > 0) or (high is not None and high < 0):
        return chosen
    if (chosen, other, low, high) == (1, 0, 0, 1):
        return condition
    if (chosen, other, low, high) == (0, 1, 0, 1):
        return 1 - condition
    either = [chosen, other]
    interval = _choice_bounds("min", either)[0], _choice_bounds("max", either)[1]
    return opaque("select", (condition, chosen, other), interval)
