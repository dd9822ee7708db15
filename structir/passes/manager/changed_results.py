"""The errors of passes that change a result, with the input and the element that differs most."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.errors import Diagnostic
from structir.ir.module import IRModule
from structir.passes.base import Pass
from structir.passes.manager.finite_field import PRIMES
from structir.passes.manager.input_sample import InputSample

SHOWN = 300  # characters of a value in a message
ELEMENTS = 12  # of a result whose differing element is not named, as it is easily seen


def changed_result(
    applied: Pass, name: str, module: IRModule, sample: InputSample, actual: Any
) -> Diagnostic:
    """Returns the error of a pass after which a function has another result for a sample."""
    function: Any = module.functions[name]
    change = f"changes the result of {name}" if sample.accepted else f"removes a check of {name}"
    diagnostic = Diagnostic(f"{applied} {change}", function.span)
    for param, argument in zip(function.params, sample.arguments, strict=True):
        diagnostic = diagnostic.note(f"{param.name} = {_format_value(argument)}", param.span)
    before, after = _format_value(sample.expected), _format_value(actual)
    diagnostic = diagnostic.note(f"before: {before}").note(f"after:  {after}")
    element = _differing_element(sample.expected, actual)
    return diagnostic if element is None else diagnostic.note(element)


def changed_exactly(applied: Pass, name: str, module: IRModule, sample: InputSample) -> Diagnostic:
    """Returns the error of a pass after which a function has other polynomials as results."""
    function: Any = module.functions[name]
    message = f"{applied} changes the result of {name}"
    sizes = ", ".join(f"{size}={value}" for size, value in sample.sizes.items())
    at = f" at {sizes}" if sizes else ""
    return Diagnostic(message, function.span).note(
        f"the results are different polynomials of the inputs: they differ modulo {PRIMES[0]}{at}"
    )


def _differing_element(before: Any, after: Any, path: str = "") -> str | None:
    """Returns the index and the values of the element that differs most, of the first array of many
    elements that differs."""
    if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        fields = enumerate(zip(before, after, strict=True))
        elements = (_differing_element(*pair, f"{path}[{k}]") for k, pair in fields)
        return next(filter(None, elements), None)
    if not isinstance(before, np.ndarray) or not isinstance(after, np.ndarray):
        return None
    if before.shape != after.shape or before.dtype != after.dtype or before.size <= ELEMENTS:
        return None
    index = _most_different(before, after)
    if index is None:
        return None
    where = f"{'result' + path if path else ''}[{', '.join(map(str, index))}]"
    return f"at {where}: {before[index]!s} before, {after[index]!s} after"


def _most_different(before: Any, after: Any) -> tuple[int, ...] | None:
    if before.dtype.kind in "OSU":
        distances = (before != after).astype(np.float64)
    else:
        with np.errstate(all="ignore"):
            wide = before.astype(np.float64), after.astype(np.float64)
            distances = np.abs(wide[0] - wide[1])
            same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
            distances = np.where(same, 0, np.where(np.isnan(distances), np.inf, distances))
    flat = int(np.argmax(distances))
    if not distances.reshape(-1)[flat]:
        return None
    return tuple(int(k) for k in np.unravel_index(flat, before.shape))


def _format_value(value: Any) -> str:
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_format_value, value))})"
    if isinstance(value, np.ndarray):
        text = " ".join(np.array2string(value, precision=6, separator=", ", threshold=40).split())
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
        return f"{shown} {value.dtype} {value.shape}"
    return str(value)
