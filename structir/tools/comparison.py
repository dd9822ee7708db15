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
WIDE_DTYPES = {
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
    module: IRModule, name: str, arguments: Sequence[Any], expected: Any, actual: Any
) -> None:
    """Raises Disagreement unless the results of a function agree.

    Since a program may amplify rounding or be discontinuous, results may differ as much as those of
    perturbed runs in the interpreter.
    """
    if agree_closely(actual, expected):
        return
    tolerance = [np.zeros(np.shape(leaf)) for leaf in leaves(expected)]
    decomposed = decompose(module)  # kernels round the parts of composite ops
    for seed in range(PERTURBED_RUNS):
        numbers = np.random.default_rng(seed)
        perturbed = PerturbedInterpreter(
            decomposed, numbers=numbers, wide=WIDE_DTYPES
        ).global_function(name)
        shifted = result(perturbed, [perturb(each, numbers, WIDE_DTYPES) for each in arguments])
        if isinstance(shifted, StructIRError) or _shapes(shifted) != _shapes(expected):
            return  # the result depends on a rounding
        tolerance = [
            np.maximum(s, deviation)
            for s, deviation in zip(tolerance, _deviations(shifted, expected), strict=True)
        ]
    pairs = list(zip(leaves(actual), leaves(expected), strict=False))
    if len(leaves(actual)) != len(leaves(expected)):
        raise Disagreement(f"expected {expected!r}\nfound {actual!r}")
    for (a, b), allowed in zip(pairs, tolerance, strict=True):
        if not same_kind(a, b) or not np.all(are_close(a, b, allowed)):
            raise Disagreement(f"expected {b!r}\nfound {a!r}")


def _shapes(value: Any) -> list[tuple[int, ...]]:
    return [np.shape(leaf) for leaf in leaves(value)]


def _deviations(shifted: Any, expected: Any) -> list[Any]:
    """Returns the absolute deviation of each number."""
    with np.errstate(all="ignore"):
        pairs = zip(leaves(shifted), leaves(expected), strict=True)
        return [np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)) for a, b in pairs]


def agree_closely(actual: Any, expected: Any) -> bool:
    """Returns whether results agree without any allowance for amplified rounding."""
    actual_leaves, expected_leaves = leaves(actual), leaves(expected)
    pairs = zip(actual_leaves, expected_leaves, strict=False)
    return len(actual_leaves) == len(expected_leaves) and all(
        same_kind(a, b) and bool(np.all(are_close(a, b, 0))) for a, b in pairs
    )


def same_kind(a: Any, b: Any) -> bool:
    """Returns whether two arrays have the same shape and dtype."""
    return np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype


def are_close(a: Any, b: Any, tolerance: Any) -> Any:
    """Returns elementwise whether arrays agree within the rounding of their dtype and `tolerance`.

    NaN equals NaN.
    """
    relative = rounding(np.asarray(b), WIDE_DTYPES)
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    with np.errstate(all="ignore"):
        allowed = 1e-4 + 1e-3 * np.abs(y) + 20 * tolerance + 2 * relative * np.abs(y)
        is_close = np.abs(x - y) <= allowed
    return is_close | (x == y) | (np.isnan(x) & np.isnan(y)) | np.isnan(np.asarray(tolerance))
