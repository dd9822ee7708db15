"""Verifies that passes preserve well-formedness and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from structir.analysis.internal_functions import PRIVATE
from structir.analysis.well_formed import violations
from structir.errors import Diagnostic, PassError, StructIRError
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.passes.base import Instrument, Pass, PassRun
from structir.passes.dead_code_elimination import dead_code_elimination
from structir.passes.manager.comparison import (
    DOUBLE,
    PERTURBATIONS,
    difference,
    within_rounding,
)
from structir.passes.manager.input_sizes import Sizes, has_kernels
from structir.passes.manager.samples import InputSample, Sampler, outcome, samples_of
from structir.passes.manager.widening import (
    WIDE,
    folded_rounding,
    widened_module,
)

SHOWN = 300  # characters of a value in a message


@attrs.define(eq=False)
class VerifyIR(Instrument):
    """An instrument that checks the rules of scope and form after each pass."""

    def end(self, step: PassRun) -> None:
        broken_rules = violations(step.after) if step.changed and step.after is not None else []
        if broken_rules:
            message = f"{step.applied}: the resulting program is not well formed"
            raise PassError([Diagnostic(message, code="E0601"), *broken_rules])


@attrs.define(eq=False)
class ComparisonCounts:
    """The comparisons of one function."""

    sizes: Sizes = attrs.Factory(dict)
    inputs: int = 0
    results: int = 0
    elements: int = 0
    largest: float = 0.0  # difference, as a share of the bound
    rejected: int = 0  # inputs that both programs reject

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        at = f" at {sizes}" if sizes else ""
        more = f" and {_format_count(self.inputs - 1, 'other input')}" if self.inputs > 1 else ""
        rejected = f", {self.rejected} rejected by both" if self.rejected else ""
        return (
            f"compared{at}{more}: {_format_count(self.results, 'result')}, "
            f"{_format_count(self.elements, 'element')}, "
            f"largest error {self.largest:.2g} of the bound{rejected}"
        )


@attrs.define(eq=False)
class VerifyResults(Instrument):
    """An instrument that compares results before and after each pass, on random inputs in the
    reference interpreter.

    Raises PassError for the first pass that changes a result, with the input; for a pass that
    accepts inputs which the program rejected; and for results that cannot be compared.

    Symbolic dims get pairwise different sizes, those of `sizes` by name. There are `inputs` samples
    of ordinary values. With `edges`, there are also samples with large and non-finite values, with
    each dim set to 1 and to 0, and with sizes that the program may reject.
    """

    inputs: int = 2
    seed: int = 0
    sizes: Mapping[str, int] = attrs.Factory(dict)
    edges: bool = True
    compared: int = attrs.field(default=0, init=False)  # equal results
    functions: dict[str, ComparisonCounts] = attrs.field(factory=dict, init=False)
    _latest: IRModule | None = attrs.field(default=None, init=False)
    _samples: dict[str, list[InputSample]] = attrs.field(factory=dict, init=False)
    _few: bool = attrs.field(default=False, init=False)
    _reasons: dict[str, StructIRError | None] = attrs.field(factory=dict, init=False)
    _wide: dict[int, tuple[IRModule, IRModule | None]] = attrs.field(factory=dict, init=False)

    def end(self, step: PassRun) -> None:
        if not step.changed or step.after is None:
            return
        if step.applied.comparable:
            self._prepare(step.before, has_kernels(step.before) or has_kernels(step.after))
            self._wide = {id(m): (m, w) for m, w in self._wide.values() if m is step.before}
            names = [name for name in _public(step.before) if name in _public(step.after)]
            elements = sum([self._function(step, name) for name in names])
            if names and not elements:
                raise PassError(self._compared_nothing(step, names))
            self._latest = step.after

    def report(self) -> list[str]:
        """Returns one line for each function."""
        return [f"{name}: {compared}" for name, compared in self.functions.items()]

    def _prepare(self, module: IRModule, few: bool) -> None:
        """Keeps the samples if the module is the result of the last pass, else discards them."""
        if module is not self._latest or few != self._few:
            self._samples, self._few = {}, few

    def _samples_of(self, module: IRModule, name: str) -> list[InputSample]:
        if name not in self._samples:
            function: Any = module.functions[name]
            sampler = Sampler(module, name, function, self.sizes, self.seed, self._few)
            self._samples[name] = list(sampler.samples(self.inputs, self.edges))
            self._reasons[name] = sampler.reason
        return self._samples[name]

    def _function(self, step: PassRun, name: str) -> int:
        """Compares one function; returns the number of elements compared."""
        total, samples = 0, self._samples_of(step.before, name)
        for index, sample in enumerate(samples):
            error, samples[index] = self._compare(step, name, sample)
            total += self._count(name, sample, error)
        return total

    def _compare(self, step: PassRun, name: str, sample: InputSample) -> tuple[float, InputSample]:
        """Compares one sample; returns the difference and the sample for the next pass."""
        wide_error, following = 0.0, sample
        if sample.wide is not None:
            wide_error, following = self._compare_wide(step, name, sample, sample.wide)
        if following.wide is not None and sample.only_wide:
            return wide_error, following
        assert step.after is not None
        actual = outcome(step.after, name, sample.arguments)
        error = _error(step, name, sample, actual)
        if error is None:
            raise PassError(_changed_result(step.applied, name, step.before, sample, actual))
        result = actual if sample.accepted else sample.expected
        return max(error, wide_error), following.after(result)

    def _widened(self, module: IRModule) -> IRModule | None:
        if id(module) not in self._wide:
            self._wide[id(module)] = module, widened_module(module)
        return self._wide[id(module)][1]

    def _compare_wide(
        self, step: PassRun, name: str, sample: InputSample, wide: InputSample
    ) -> tuple[float, InputSample]:
        """Compares both programs in float64; returns the difference and the sample for the next
        pass, which is not wide if there is no result to compare."""
        assert step.after is not None
        before, after = self._widened(step.before), self._widened(step.after)
        if before is None or after is None:
            return 0.0, attrs.evolve(sample, wide=None)
        if wide.expected is None:
            wide = wide.after(outcome(before, name, wide.arguments))
        actual = outcome(after, name, wide.arguments)
        if not wide.accepted or isinstance(actual, StructIRError):
            return 0.0, attrs.evolve(sample, wide=None)
        error = difference(wide.expected, actual, DOUBLE)
        if error is None:
            if not _within_wide_rounding(step, (before, after), name, wide, actual):
                raise PassError(_changed_result(step.applied, name, step.before, wide, actual))
            error = 1.0
        return error, attrs.evolve(sample, wide=wide.after(actual))

    def _count(self, name: str, sample: InputSample, error: float) -> int:
        compared = self.functions.setdefault(name, ComparisonCounts(sample.sizes))
        if not sample.accepted:
            compared.rejected += 1
            return 0
        self.compared += 1
        compared.inputs = max(compared.inputs, len(self._samples[name]))
        compared.results += 1
        compared.elements += sample.elements
        compared.largest = max(compared.largest, error)
        return sample.elements

    def _compared_nothing(self, step: PassRun, names: list[str]) -> Diagnostic:
        """Returns the error for a pass where no function has a comparable result."""
        function: Any = step.before.functions[names[0]]
        diagnostic = Diagnostic(
            f"{step.applied}: no results to compare: "
            f"{names[0]} has no result with elements for any input",
            function.span,
        )
        for name in names:
            if not self._samples_of(step.before, name):
                diagnostic = diagnostic.note(f"{name}: {self._reasons[name]}"[:SHOWN])
        return diagnostic.hinted(
            "give sizes that it accepts: `--sizes n=4,m=8`, or `VerifyResults(sizes={'n': 4})`"
        )


def _format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _public(module: IRModule) -> list[str]:
    """Returns the functions whose results passes must preserve."""
    return [
        name
        for name, function in module.functions.items()
        if isinstance(function, Function) and not function.attrs.get(PRIVATE)
    ]


def answers(
    module: IRModule, name: str, function: Function, count: int, seed: int
) -> Iterator[tuple[list[Any], Any]]:
    """Yields inputs that a function accepts, with its results; fewer if it rejects too many."""
    for sample in samples_of(module, name, function, count, seed):
        yield sample.arguments, sample.expected


def _within_wide_rounding(
    step: PassRun, programs: tuple[IRModule, IRModule], name: str, wide: InputSample, actual: Any
) -> bool:
    """Returns whether results in float64 differ by rounding: of float64, or of the constants that
    the pass added, to whose dtype it rounded an attribute."""
    before, after = programs
    args, expected = wide.arguments, wide.expected
    folded = 2 * folded_rounding(step.before, step.after)  # type: ignore[arg-type]
    rounding = {WIDE: max(PERTURBATIONS[WIDE], folded)}
    if within_rounding(before, name, args, expected, actual, DOUBLE, rounding):
        return True
    return folded > 0 and within_rounding(after, name, args, actual, expected, DOUBLE, rounding)


def _error(step: PassRun, name: str, sample: InputSample, actual: Any) -> float | None:
    """Returns the difference between the results for a sample; None if it exceeds rounding."""
    if not sample.accepted:
        return 0.0 if _rejects(step, name, sample, actual) else None
    if isinstance(actual, StructIRError):
        return None
    error = difference(sample.expected, actual, step.applied.tolerance)
    if error is None and within_rounding(
        step.before, name, sample.arguments, sample.expected, actual, step.applied.tolerance
    ):
        return 1.0
    return error


def _rejects(step: PassRun, name: str, sample: InputSample, actual: Any) -> bool:
    """Whether a program still rejects an input, except for errors in unused values."""
    if isinstance(actual, StructIRError):
        return True
    without = dead_code_elimination.transform(step.before)
    return not isinstance(outcome(without, name, sample.arguments), StructIRError)


def _changed_result(
    applied: Pass, name: str, module: IRModule, sample: InputSample, actual: Any
) -> Diagnostic:
    function: Any = module.functions[name]
    change = f"changes the result of {name}" if sample.accepted else f"removes a check of {name}"
    diagnostic = Diagnostic(f"{applied} {change}", function.span)
    for param, argument in zip(function.params, sample.arguments, strict=True):
        diagnostic = diagnostic.note(f"{param.name} = {_format_value(argument)}", param.span)
    before, after = _format_value(sample.expected), _format_value(actual)
    return diagnostic.note(f"before: {before}").note(f"after:  {after}")


def _format_value(value: Any) -> str:
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_format_value, value))})"
    if isinstance(value, np.ndarray):
        text = np.array2string(value, precision=6, separator=", ", threshold=40)
        return f"{' '.join(text.split())[:SHOWN]} {value.dtype} {value.shape}"
    return str(value)
