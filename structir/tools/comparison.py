"""Compares two results of a program, up to the effect of rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from structir.errors import StructIRError
from structir.ir.module import IRModule
from structir.passes.decompose import decompose
from structir.passes.manager.perturbation import PerturbedInterpreter, leaves, perturb, rounding

PERTURBED_RUNS = 8  # perturbed runs that estimate the effect of rounding on a result
WIDE = {
    "float32": 1e-6,
    "float64": 1e-6,
}  # relative perturbations; narrow dtypes are perturbed by their rounding error

Runner = Callable[..., Any]


class Disagreement(Exception):
    """Two executions of a program give different results."""


def result(runner: Runner, arguments: Sequence[Any]) -> Any:
    """Returns the result of a function, or its StructIRError; other errors propagate."""
    try:
        with np.errstate(all="ignore"):
            return runner(*arguments)
    except StructIRError as error:
        return error


def require_agreement(
    module: IRModule, name: str, arguments: Sequence[Any], expected: Any, found: Any
) -> None:
    """Raises Disagreement unless the results of a function agree.

    Since a program may amplify rounding or be discontinuous, results may differ as much as those of
    perturbed runs in the interpreter.
    """
    if close(found, expected):
        return
    slack = [np.zeros(np.shape(leaf)) for leaf in leaves(expected)]
    parts = decompose(module)  # kernels round composite ops at other places
    for draw in range(PERTURBED_RUNS):
        numbers = np.random.default_rng(draw)
        shaken = PerturbedInterpreter(parts, numbers=numbers, wide=WIDE).global_function(name)
        moved = result(shaken, [perturb(each, numbers, WIDE) for each in arguments])
        if isinstance(moved, StructIRError) or _shapes(moved) != _shapes(expected):
            return  # the result depends on a rounding
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
    """Returns how far each number has moved."""
    with np.errstate(all="ignore"):
        pairs = zip(leaves(moved), leaves(expected), strict=True)
        return [np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)) for a, b in pairs]


def close(found: Any, expected: Any) -> bool:
    """Whether results agree without any allowance for amplified rounding."""
    ours, theirs = leaves(found), leaves(expected)
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(
        same_kind(a, b) and bool(np.all(near(a, b, 0))) for a, b in pairs
    )


def same_kind(a: Any, b: Any) -> bool:
    """Whether two arrays have the same shape and dtype."""
    return np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype


def near(a: Any, b: Any, slack: Any) -> Any:
    """Returns elementwise whether arrays agree within the precision of their dtype and the slack;
    NaN equals NaN."""
    moved = rounding(np.asarray(b), WIDE)
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    with np.errstate(all="ignore"):
        allowed = 1e-4 + 1e-3 * np.abs(y) + 20 * slack + 2 * moved * np.abs(y)
        close_by = np.abs(x - y) <= allowed
    return close_by | (x == y) | (np.isnan(x) & np.isnan(y)) | np.isnan(np.asarray(slack))
