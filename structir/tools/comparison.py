"""Whether two results of a program are the same as far as rounding can tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from structir.errors import StructIRError
from structir.ir.module import IRModule
from structir.passes.decompose import decompose
from structir.passes.manager.perturbation import PerturbedInterpreter, leaves, nudged, rounding

DRAWS = 8  # nudges of all values that tell how far rounding may move a result
WIDE = {
    "float32": 1e-6,
    "float64": 1e-6,
}  # how far a nudge moves; narrow ones, as far as they round

Runner = Callable[..., Any]


class Disagreement(Exception):
    """Two ways to run a program give different results."""


def result(runner: Runner, arguments: Sequence[Any]) -> Any:
    """What a function gives; an error of StructIR's is a result, any other one is not."""
    try:
        with np.errstate(all="ignore"):
            return runner(*arguments)
    except StructIRError as error:
        return error


def require_agreement(
    module: IRModule, name: str, arguments: Sequence[Any], expected: Any, found: Any
) -> None:
    """Raise Disagreement unless the results of a function agree; a program may amplify rounding, or
    jump, so what a nudge of its values moves in the interpreter may differ as much."""
    if close(found, expected):
        return
    slack = [np.zeros(np.shape(leaf)) for leaf in leaves(expected)]
    parts = decompose(module)  # kernels round composite ops at other places, too
    for draw in range(DRAWS):
        numbers = np.random.default_rng(draw)
        shaken = PerturbedInterpreter(parts, numbers=numbers, wide=WIDE).global_function(name)
        moved = result(shaken, [nudged(each, numbers, WIDE) for each in arguments])
        if isinstance(moved, StructIRError) or _shapes(moved) != _shapes(expected):
            return  # the outcome hangs on a rounding
        slack = [
            np.maximum(s, step) for s, step in zip(slack, _steps(moved, expected), strict=True)
        ]
    pairs = list(zip(leaves(found), leaves(expected), strict=False))
    if len(leaves(found)) != len(leaves(expected)):
        raise Disagreement(f"expected {expected!r}\nfound {found!r}")
    for (a, b), allowed in zip(pairs, slack, strict=True):
        if not same_kind(a, b) or not np.all(near(a, b, allowed)):
            raise Disagreement(f"expected {b!r}\nfound {a!r}")


def _shapes(value: Any) -> list[tuple[int, ...]]:
    return [np.shape(leaf) for leaf in leaves(value)]


def _steps(moved: Any, expected: Any) -> list[Any]:
    """How far each number has moved."""
    with np.errstate(all="ignore"):
        pairs = zip(leaves(moved), leaves(expected), strict=True)
        return [np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)) for a, b in pairs]


def close(found: Any, expected: Any) -> bool:
    """Whether results are alike without any allowance for what the program amplifies."""
    ours, theirs = leaves(found), leaves(expected)
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(
        same_kind(a, b) and bool(np.all(near(a, b, 0))) for a, b in pairs
    )


def same_kind(a: Any, b: Any) -> bool:
    """Whether two arrays have the same shape and dtype."""
    return np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype


def near(a: Any, b: Any, slack: Any) -> Any:
    """Element by element: equal as far as their dtype and the slack tell; NaN equals itself."""
    moved = rounding(np.asarray(b), WIDE)
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    with np.errstate(all="ignore"):
        allowed = 1e-4 + 1e-3 * np.abs(y) + 20 * slack + 2 * moved * np.abs(y)
        close_by = np.abs(x - y) <= allowed
    return close_by | (x == y) | (np.isnan(x) & np.isnan(y)) | np.isnan(np.asarray(slack))
