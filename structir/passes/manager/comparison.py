"""Compares two results, up to the effect of rounding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from structir.errors import StructIRError
from structir.ir.dtype import FLOATS, dtype_of
from structir.ir.module import IRModule
from structir.passes.decompose import decompose
from structir.passes.manager.perturbation import PerturbedInterpreter, largest, leaves, perturb

RUNS = range(4)  # seeds of perturbed runs of a program whose results differ
FURTHER_RUNS = range(4, 16)  # if those explain most: each side of a tie is as likely
SLACK = 16  # times the largest change of a perturbed run
DOUBLE = 1e-9  # relative difference of float64 that is accepted without perturbed runs
PERTURBATIONS = {"float32": 2.0**-22, "float64": 2.0**-51}
MOST_ORDINARY = 1e4
MEANINGLESS = 0.01  # error of an element, relative to the largest one
TINY = 1e-150  # float64 below this is 0


def same(expected: Any, actual: Any, tolerance: float) -> bool:
    """Whether two results agree: structure, dtypes and sizes exactly, numbers within tolerance."""
    return difference(expected, actual, tolerance) is not None


def difference(expected: Any, actual: Any, tolerance: float) -> float | None:
    """Returns the largest difference between two results, as a share of what the tolerance permits.

    Returns None if they differ by more than the tolerance, or in structure, dtype or size.
    """
    expected_leaves, actual_leaves = leaves(expected), leaves(actual)
    if len(expected_leaves) != len(actual_leaves):
        return None
    largest = 0.0
    for a, b in zip(expected_leaves, actual_leaves, strict=True):
        if not _alike(a, b):
            return None
        error = _difference(a, b, tolerance) if _is_number(a) else 0.0
        if error is None:
            return None
        largest = max(largest, error)
    return largest


def _is_number(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | int | float)


def _alike(a: Any, b: Any) -> bool:
    """Whether two values have the same dtype and shape, or the same type."""
    if not _is_number(a) or not _is_number(b):
        return type(a) is type(b)
    x, y = np.asarray(a), np.asarray(b)
    return bool(x.dtype == y.dtype and x.shape == y.shape)


def _difference(a: Any, b: Any, tolerance: float) -> float | None:
    x, y = np.asarray(a), np.asarray(b)
    if x.dtype.kind in "biuOSU":
        return 0.0 if np.array_equal(x, y) else None
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    finite = np.isfinite(wide_x)
    tolerance, size = _bound(x, tolerance)
    close = np.isclose(wide_y, wide_x, rtol=tolerance, atol=tolerance * size, equal_nan=True)
    if not close.all():
        return None
    distance = np.abs(wide_x[finite] - wide_y[finite])
    permitted = tolerance * (np.abs(wide_x[finite]) + size)
    return float((distance / np.where(permitted > 0, permitted, 1.0)).max(initial=0.0))


def within_rounding(
    module: IRModule,
    name: str,
    arguments: list[Any],
    expected: Any,
    actual: Any,
    tolerance: float,
    relative: Mapping[str, float] = PERTURBATIONS,
    constants: Set[bytes] = frozenset(),
    unrounded: Any = None,
    exact: bool = True,
    strict: bool = True,
) -> bool:
    """Whether results differ by no more than perturbed runs of the first program, which may amplify
    rounding or be discontinuous; with `constants`, only these are perturbed. Those runs are
    compared with `unrounded` results if the expected ones are those of a program that rounds.
    With `exact`, small integers are not perturbed; with `strict`, neither are the inputs where they
    are compared or rounded to integers.

    Results that are both large are equal if one is not finite: another order of operations may
    overflow elsewhere, or subtract infinities. The largest number is no such result.
    """
    expected_leaves, actual_leaves = leaves(expected), leaves(actual)
    if len(expected_leaves) != len(actual_leaves) or not all(
        map(_alike, expected_leaves, actual_leaves)
    ):
        return False
    own_leaves = expected_leaves if unrounded is None else leaves(unrounded)
    signed = _determines_signs(arguments)

    def far(slack: list[Any]) -> list[int]:
        sides = zip(expected_leaves, actual_leaves, slack, strict=True)
        return [_far(*each, tolerance, signed) if _is_number(each[0]) else 0 for each in sides]

    slack = [np.zeros(np.shape(leaf)) for leaf in own_leaves]
    differing = far(slack)
    for runs in (RUNS, FURTHER_RUNS):
        further = _sensitivity(
            module, name, arguments, own_leaves, relative, runs, constants, exact, strict
        )
        if further is None:
            return True
        slack = [np.fmax(a, b) for a, b in zip(slack, further, strict=True)]
        unexplained = far(slack)
        if not any(unexplained):
            return True
        if 2 * sum(unexplained) > sum(differing):
            break
    differ = [k for k, count in enumerate(unexplained) if count]
    if constants or not all(_is_integer(expected_leaves[k]) for k in differ):
        return False
    # a composite op of integers rounds only inside, where perturbed runs change nothing
    parts = decompose.transform(module)
    moved = _sensitivity(parts, name, arguments, expected_leaves, relative, RUNS)
    return moved is not None and not any(
        _far(expected_leaves[k], actual_leaves[k], moved[k], tolerance) for k in differ
    )


def within_rounding_of_both(
    programs: tuple[IRModule, IRModule],
    name: str,
    arguments: list[Any],
    expected: Any,
    actual: Any,
    tolerance: float,
) -> bool:
    """Whether results differ by the rounding of the first program. One that compares inputs is also
    discontinuous at a tie if the second one compares results of operations that round."""
    before, after = programs
    if within_rounding(before, name, arguments, expected, actual, tolerance):
        return True
    return within_rounding(
        before, name, arguments, expected, actual, tolerance, strict=False
    ) and within_rounding(after, name, arguments, actual, expected, tolerance)


def within_own_error(expected: Any, exact: Any, actual: Any, tolerance: float) -> bool:
    """Whether results differ by no more than the error of the first program itself, whose results
    in float64 are `exact`: a recurrence may amplify rounding in each step."""
    sides = [leaves(value) for value in (expected, exact, actual)]
    if len({len(side) for side in sides}) > 1:
        return False
    for a, wide, b in zip(*sides, strict=True):
        if not _is_number(a) or np.shape(a) != np.shape(wide) or not _alike(a, b):
            return False
        slack = _at_least_typical(_larger(np.zeros(np.shape(a)), wide, a), a)
        if np.max(slack, initial=0.0) > MEANINGLESS * _bound(np.asarray(a), tolerance)[1]:
            slack = np.full_like(slack, np.max(slack))
        if _far(a, b, slack, tolerance):
            return False
    return True


def _is_integer(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "iu"


def _sensitivity(
    module: IRModule,
    name: str,
    arguments: list[Any],
    expected: list[Any],
    relative: Mapping[str, float],
    runs: Iterable[int],
    constants: Set[bytes] = frozenset(),
    exact: bool = True,
    strict: bool = True,
) -> list[Any] | None:
    """Returns how far perturbed runs change each number of a result; None if all fail or have
    results of other sizes."""
    slack, completed = [np.zeros(np.shape(leaf)) for leaf in expected], 0
    for run in runs:
        numbers = np.random.default_rng(run)
        interpreter = PerturbedInterpreter(
            module,
            numbers=numbers,
            wide=relative,
            among=FLOATS,
            exact=exact and not constants,
            constants=constants,
        )
        try:
            with np.errstate(all="ignore"):
                among = () if constants else relative
                inputs = [
                    perturb(argument, numbers, relative, among, exact) for argument in arguments
                ]
                if strict and not constants:
                    pairs = zip(leaves(tuple(inputs)), leaves(tuple(arguments)), strict=True)
                    interpreter.exact_arrays.update({id(a): (a, b) for a, b in pairs})
                function = interpreter.global_function(name)
                perturbed = leaves(interpreter.observed(function(*inputs)))
        except StructIRError:
            continue
        if [np.shape(leaf) for leaf in perturbed] != [np.shape(leaf) for leaf in expected]:
            continue
        completed += 1
        slack = [_larger(s, a, b) for s, a, b in zip(slack, perturbed, expected, strict=True)]
    if not completed:
        return None
    return [_at_least_typical(s, b) for s, b in zip(slack, expected, strict=True)]


def _larger(slack: Any, perturbed: Any, expected: Any) -> Any:
    if not _is_number(expected) or np.asarray(expected).dtype.kind in "OSU":
        return slack
    with np.errstate(all="ignore"):
        step = np.abs(np.asarray(perturbed, np.float64) - np.asarray(expected, np.float64))
    equal = np.asarray(perturbed) == np.asarray(expected)
    return np.fmax(slack, np.where(equal, 0.0, step))


def _at_least_typical(slack: Any, expected: Any) -> Any:
    """Returns the changes, at least the typical relative one: a few runs may round to no change."""
    if not _is_number(expected) or np.asarray(expected).dtype.kind in "biuOSU":
        return slack
    size = np.abs(np.asarray(expected, np.float64))
    counted = np.isfinite(size) & (size > 0)
    if not counted.any():
        return slack
    with np.errstate(all="ignore"):
        typical = np.quantile(slack[counted] / size[counted], 0.5)
        return np.fmax(slack, typical * np.where(counted, size, 0.0))


def _determines_signs(arguments: list[Any]) -> bool:
    """Whether inputs have infinities, and no other numbers whose sums and products overflow: the
    sign of an infinite result does not depend on the order of operations."""
    floats = [
        np.asarray(leaf, np.float64)
        for leaf in leaves(tuple(arguments))
        if isinstance(leaf, np.ndarray) and dtype_of(leaf) in FLOATS
    ]
    sizes = [np.abs(values[np.isfinite(values)]).max(initial=0.0) for values in floats]
    return any(np.isinf(values).any() for values in floats) and max(sizes) < MOST_ORDINARY


def _far(a: Any, b: Any, slack: Any, tolerance: float, signed: bool = False) -> int:
    """Returns the number of elements that differ by more than `slack` and the tolerance."""
    if np.asarray(a).dtype.kind in "OSU":
        return int(not np.array_equal(a, b))
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    with np.errstate(all="ignore"):
        tolerance, size = _bound(np.asarray(a), tolerance)
        exact = np.asarray(a).dtype.kind in "biu"
        allowed = SLACK * slack + (0.0 if exact else tolerance * (np.abs(x) + size))
        close = (np.abs(x - y) <= allowed) & np.isfinite(x)
    overflow = _overflows(np.asarray(a), x) & _overflows(np.asarray(a), y)
    overflow &= ~(np.isfinite(x) & np.isfinite(y) | _is_saturated(np.asarray(a), x))
    if signed:
        overflow &= ~(np.isinf(x) & ~np.isfinite(y) | np.isinf(y) & np.isnan(x))
    undetermined = (slack > np.abs(x) / 2) & ~np.isfinite(y)  # an intermediate value overflows
    return int(np.count_nonzero(~(close | (x == y) | overflow | undetermined)))


def _bound(array: Any, tolerance: float) -> tuple[float, float]:
    """Returns the relative tolerance, and the number to which it applies besides each element.

    Rounding of narrow floats is relative to the largest element, as in sums that cancel. A float64
    differs by the rounding of its own size, or as much as a perturbed run.
    """
    if array.dtype == np.float64:
        return min(tolerance, DOUBLE), TINY
    values = array.astype(np.float64)
    return tolerance, float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _is_saturated(array: Any, values: Any) -> Any:
    """Returns where a value is the largest number: a program saturates on purpose."""
    return array.dtype.kind not in "biu" and np.abs(values) == largest(array.dtype)


def _overflows(array: Any, values: Any) -> Any:
    """Returns where a value is not finite, or may overflow in another order of operations."""
    return array.dtype.kind not in "biu" and ~(np.abs(values) <= largest(array.dtype) ** 0.5)
