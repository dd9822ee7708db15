"""Whether passes keep programs well formed, and keep what they compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from structir.analysis.private import PRIVATE
from structir.analysis.well_formed import breaches
from structir.errors import Diagnostic, PassError, StructIRError
from structir.interpret import interpret
from structir.interpret.arguments import random_arguments
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.passes.base import Instrument, Pass, Step

TRIES = 4  # draws of inputs for each that is wanted; some programs refuse many sizes
SHOWN = 300  # characters of a value in a message


@attrs.define(eq=False)
class WellFormed(Instrument):
    """Checks the rules of scope and form after each pass."""

    def end(self, step: Step) -> None:
        found = breaches(step.after) if step.changed and step.after is not None else []
        if found:
            message = f"the pass {step.applied} leaves a program that is not well formed"
            raise PassError([Diagnostic(message), *found])


@attrs.define(eq=False)
class SameResults(Instrument):
    """Runs the program before and after each pass on drawn inputs, in the reference interpreter.

    The first pass that changes an answer is an error, which names it and shows the input.
    """

    inputs: int = 2
    seed: int = 0
    compared: int = attrs.field(default=0, init=False)  # answers that were the same

    def end(self, step: Step) -> None:
        if not step.changed or not step.applied.comparable or step.after is None:
            return
        for name, function in step.before.functions.items():
            there = isinstance(step.after.functions.get(name), Function)
            if there and isinstance(function, Function) and not function.attrs.get(PRIVATE):
                self._function(step, name, function)

    def _function(self, step: Step, name: str, function: Function) -> None:
        assert step.after is not None
        for arguments, expected in answers(step.before, name, function, self.inputs, self.seed):
            try:
                with np.errstate(all="ignore"):
                    found = interpret(step.after, name, *arguments)
            except StructIRError as error:
                found = error
            if not same(expected, found, step.applied.tolerance):
                raise PassError(_changed(step.applied, name, function, arguments, expected, found))
            self.compared += 1


def answers(
    module: IRModule, name: str, function: Function, count: int, seed: int
) -> Iterator[tuple[list[Any], Any]]:
    """Drawn inputs that a function takes, with its results; fewer if it refuses too many."""
    for number in range(count * TRIES):
        try:
            arguments = random_arguments(function, seed + number)
            with np.errstate(all="ignore"):
                result = interpret(module, name, *arguments)
        except StructIRError:
            continue
        yield arguments, result
        count -= 1
        if not count:
            return


def same(expected: Any, found: Any, tolerance: float) -> bool:
    """Whether two results agree: structure, dtypes and sizes exactly, numbers within tolerance."""
    if isinstance(expected, tuple):
        alike = isinstance(found, tuple) and len(found) == len(expected)
        return alike and all(same(a, b, tolerance) for a, b in zip(expected, found, strict=True))
    if not isinstance(expected, np.ndarray | np.generic | int | float | bool):
        return type(expected) is type(found)
    if isinstance(found, Exception | tuple):
        return False
    a, b = np.asarray(expected), np.asarray(found)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    finite = wide_a[np.isfinite(wide_a)]
    size = float(np.abs(finite).max(initial=1.0))
    return np.allclose(wide_a, wide_b, rtol=tolerance, atol=tolerance * size, equal_nan=True)


def _changed(
    applied: Pass, name: str, function: Function, arguments: list[Any], expected: Any, found: Any
) -> Diagnostic:
    diagnostic = Diagnostic(f"the pass {applied} changes what {name} computes", function.span)
    for param, argument in zip(function.params, arguments, strict=True):
        diagnostic = diagnostic.note(f"{param.name} = {_shown(argument)}", param.span)
    return diagnostic.note(f"before: {_shown(expected)}").note(f"after:  {_shown(found)}")


def _shown(value: Any) -> str:
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    if isinstance(value, np.ndarray):
        text = np.array2string(value, precision=6, separator=", ", threshold=40)
        return f"{' '.join(text.split())[:SHOWN]} {value.dtype} {value.shape}"
    return str(value)
