"""Verifies that passes preserve well-formedness and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from structir.analysis.internal_functions import PRIVATE
from structir.analysis.variables import walk_values
from structir.analysis.well_formed import violations
from structir.errors import Diagnostic, PassError, StructIRError
from structir.ir.expr import Function, GlobalVar
from structir.ir.module import IRModule
from structir.ir.node import ShownAsText
from structir.passes.base import Instrument, PassRun
from structir.passes.dead_code_elimination import dead_code_elimination
from structir.passes.manager.changed_results import changed_exactly, changed_result
from structir.passes.manager.comparison import (
    DOUBLE,
    difference,
    within_own_error,
    within_rounding,
    within_rounding_of_both,
)
from structir.passes.manager.constant_results import (
    ConstantResults,
    constant_results,
    has_no_elements,
    with_variation,
)
from structir.passes.manager.decision_search import DecisionSearch
from structir.passes.manager.decisions import DecisionRecord, changed_decisions
from structir.passes.manager.edge_plan import is_float32, numbers_of
from structir.passes.manager.effects import EffectRecorder, TooManyStepsError
from structir.passes.manager.finite_field import compare_exactly, consists_of_ring_ops
from structir.passes.manager.infinite_products import differs_by_infinities, spreads_nans
from structir.passes.manager.input_sample import InputSample, outcome, outcome_of
from structir.passes.manager.input_sizes import Sizes, has_kernels
from structir.passes.manager.mentions import mentions
from structir.passes.manager.moderate_samples import is_moderate, scaled_samples
from structir.passes.manager.narrowing_casts import cast_models
from structir.passes.manager.row_batches import different_rows
from structir.passes.manager.samples import Sampler
from structir.passes.manager.size_guards import branches_by_size
from structir.passes.manager.value_numbers import calls_differ
from structir.passes.manager.widening import (
    WIDE,
    folded_rounding,
    widened_module,
)

MOST_STEPS = 30_000  # expressions that the runs of directed samples evaluate
SHOWN = 300  # characters of a reason in a message
MOST_CASTS = 4  # samples on which the rounding of casts is compared
MOST_EXACT = 1 << 13  # elements of the inputs that are also compared over finite fields
OTHER_SIZES = "give other sizes: `--sizes n=4,m=8`, or `VerifyResults(sizes={'n': 4})`"


@attrs.define(eq=False)
class VerifyIR(Instrument):
    """An instrument that checks the rules of scope and form after each pass."""

    def end(self, step: PassRun) -> None:
        broken_rules = violations(step.after) if step.changed and step.after is not None else []
        if broken_rules:
            message = f"{step.applied}: the resulting program is not well formed"
            raise PassError([Diagnostic(message, code="E0601"), *broken_rules])


@attrs.define(eq=False, repr=False)
class ComparisonCounts(ShownAsText):
    """The comparisons of one function."""

    sizes: Sizes = attrs.Factory(dict)
    inputs: int = 0
    results: int = 0
    elements: int = 0
    largest: float = 0.0  # difference, as a share of the bound
    rejected: int = 0  # inputs that both programs reject
    exact_error: float | None = None  # of comparisons over finite fields; None if there are none
    constant: list[str] = attrs.Factory(list)  # results that do not distinguish programs

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        at = f" at {sizes}" if sizes else ""
        more = f" and {_format_count(self.inputs - 1, 'other input')}" if self.inputs > 1 else ""
        rejected = f", {self.rejected} rejected by both" if self.rejected else ""
        exact = "" if self.exact_error is None else f"; {_format_exact(self.exact_error)}"
        constant = "".join(f"; {each}" for each in self.constant)
        return (
            f"compared{at}{more}: {_format_count(self.results, 'result')}, "
            f"{_format_count(self.elements, 'element')}, "
            f"largest error {self.largest:.2g} of the bound{rejected}{exact}{constant}"
        )


@attrs.define(eq=False)
class VerifyResults(Instrument):
    """An instrument that compares results before and after each pass, on random inputs in the
    reference interpreter.

    Raises PassError for the first pass that changes a result, with the input; for a pass that
    accepts inputs which the program rejected; and if no result with elements was compared although
    other sizes may give some. Results that have no elements at any size, or that are the same for
    all inputs, are compared exactly and reported; with `strict`, they are errors, too.

    Symbolic dims get pairwise different sizes, those of `sizes` by name. There are `inputs` samples
    of ordinary values. With `edges`, there are also samples with large and non-finite values, with
    each dim set to 1 and to 0, and with sizes that the program may reject. `moderate` is for
    programs that are equal over the reals: it directs no samples at decisions, and skips samples
    with floats that are large or tiny (see `is_moderate`), or with results that are not finite.
    """

    inputs: int = 2
    seed: int = 0
    sizes: Mapping[str, int] = attrs.Factory(dict)
    edges: bool = True
    exact: bool = False
    strict: bool = False
    moderate: bool = False
    compared: int = attrs.field(default=0, init=False)  # equal results
    functions: dict[str, ComparisonCounts] = attrs.field(factory=dict, init=False)
    _latest: IRModule | None = attrs.field(default=None, init=False)
    _samples: dict[str, list[InputSample]] = attrs.field(factory=dict, init=False)
    _origin: IRModule | None = attrs.field(default=None, init=False)
    _originals: dict[str, list[InputSample]] = attrs.field(factory=dict, init=False)
    _few: bool = attrs.field(default=False, init=False)
    _reasons: dict[str, StructIRError | None] = attrs.field(factory=dict, init=False)
    _samplers: dict[str, Sampler] = attrs.field(factory=dict, init=False)
    _wide: dict[int, tuple[IRModule, IRModule | None]] = attrs.field(factory=dict, init=False)
    _interpreters: dict[int, tuple[IRModule, EffectRecorder]] = attrs.field(
        factory=dict, init=False
    )
    _decisions: DecisionRecord | None = attrs.field(default=None, init=False)

    def end(self, step: PassRun) -> None:
        if not step.changed or step.after is None:
            return
        if step.applied.comparable:
            self._prepare(step.before, has_kernels(step.before) or has_kernels(step.after))
            self._wide = {id(m): (m, w) for m, w in self._wide.values() if m is step.before}
            self._interpreters = {}
            both = [name for name in _public(step.before) if name in _public(step.after)]
            nothing = [self._function(step, name) for name in both if _changes(step, name)]
            if len(nothing) == len(both) > 0 and nothing[0] is not None and None not in nothing:
                raise PassError(nothing[0])
            self._latest = step.after

    def report(self) -> list[str]:
        """Returns one line for each function."""
        return [f"{name}: {compared}" for name, compared in self.functions.items()]

    def _prepare(self, module: IRModule, few: bool) -> None:
        """Keeps the samples if the module is the result of the last pass, or that of the first
        one, to which several passes may be applied; else discards them."""
        if few == self._few and module is self._origin:
            self._samples = {name: list(each) for name, each in self._originals.items()}
        elif module is not self._latest or few != self._few:
            self._samples, self._few = {}, few
            self._origin, self._originals = module, {}

    def _samples_of(self, module: IRModule, name: str) -> list[InputSample]:
        if name not in self._samples:
            function: Any = module.functions[name]
            sampler = Sampler(module, name, function, self.sizes, self.seed, self._few)
            samples = list(sampler.samples(self.inputs, self.edges))
            self._samples[name] = (
                with_variation(function, sampler, samples) if self.edges else samples
            )
            self._reasons[name] = sampler.reason
            self._samplers[name] = sampler
            if module is self._origin:
                self._originals[name] = list(self._samples[name])
        return self._samples[name]

    def _function(self, step: PassRun, name: str) -> Diagnostic | None:
        """Compares one function; returns an error if no input is accepted, which is raised unless
        another function was compared or is unchanged."""
        samples = self._samples_of(step.before, name)
        self._decisions = self._changed_decisions(step, name) if self.edges else None
        for index, sample in enumerate(samples):
            error, samples[index] = self._compare(step, name, sample)
            self._count(name, sample, error)
        if self.edges:
            self._compare_casts(step, name, samples)
        for sample in self._directed(step, name, samples) if self.edges else ():
            error, _ = self._compare(step, name, sample)
            self._count(name, sample, error)
            self.functions[name].inputs += 1
        is_exact = self._compare_exactly(step, name, samples)
        return None if is_exact else self._nothing(step, name)

    def _changed_decisions(self, step: PassRun, name: str) -> DecisionRecord | None:
        """Returns a record of the decisions that only one program makes; None if runs are slow."""
        assert step.after is not None
        sampler = self._samplers[name]
        if sampler.heavy or (sampler.few and not has_kernels(step.before)):
            return None
        record = changed_decisions(step.before, step.after, name)
        return record if record.calls else None

    def _directed(
        self, step: PassRun, name: str, samples: list[InputSample]
    ) -> Iterator[InputSample]:
        """Yields samples for the sizes and numbers that only one program mentions, and for the
        decisions that only one makes."""
        assert step.after is not None
        if self._samplers[name].heavy:
            return
        sampler = self._samplers[name].of(step.before)
        # kernels that the pass generates mention only what its functions do
        before = mentions(step.before)
        after = mentions(step.after, kernels=has_kernels(step.before))
        if self.moderate:
            yield from scaled_samples(sampler, samples)
            return
        if mentioned := after.without(before):
            yield from _limited(sampler, sampler.directed(mentioned))
        changed = () if self._decisions is None else self._decisions.calls.keys()
        if changed or branches_by_size(step.before) or branches_by_size(step.after):
            yield from _limited(sampler, sampler.guarded(step.after, changed, after))
        numbers = dict.fromkeys((*numbers_of(after), *numbers_of(before)))
        if calls_differ(step.before, step.after, name):
            yield from different_rows(sampler, step.after, tuple(numbers), mentioned.integers)
        if self._decisions is not None:
            search = DecisionSearch(sampler, self._decisions, tuple(numbers))
            yield from _limited(sampler, search.samples(samples))

    def _nothing(self, step: PassRun, name: str) -> Diagnostic | None:
        """Returns the error for a function that accepts no input; raises PassError for one whose
        results have no elements but may have some, and with `strict` if they cannot vary."""
        function: Any = step.before.functions[name]
        samples, reason = self._samples[name], self._reasons[name]
        diagnostic = Diagnostic(
            f"{step.applied}: compared nothing: {name}: no result has elements for any input",
            function.span,
            code="E0513",
            hint=OTHER_SIZES,
        )
        if not any(sample.elements for sample in samples):
            diagnostic = diagnostic if reason is None else diagnostic.note(str(reason)[:SHOWN])
            counts = self.functions.setdefault(name, ComparisonCounts())
            if not any(sample.accepted for sample in samples):
                counts.constant = ["no input is accepted"]
                if reason is not None and reason.code == diagnostic.code:
                    counts.constant = [reason.message]  # every run is long
                return diagnostic
            if self.strict or not has_no_elements(function.ret_struct_info):
                raise PassError(diagnostic)
            counts.constant = ["the result has no elements at any size"]
            return None
        constant = constant_results(function, samples) if self.edges else ConstantResults()
        if self.strict and constant.is_all:
            message = f"{step.applied}: compared nothing: {name}: its results are the same for all"
            raise PassError(attrs.evolve(diagnostic, message=f"{message} inputs"))
        self.functions[name].constant = list(constant.descriptions)
        return None

    def _compare_casts(self, step: PassRun, name: str, samples: list[InputSample]) -> None:
        """Compares the rounding of casts to narrower floats, if the pass changed such casts."""
        assert step.after is not None
        is_wide = [s for s in samples if s.accepted and s.elements and s.wide is not None]
        models = cast_models(step.before, step.after, name) if is_wide else None
        for sample in is_wide[:MOST_CASTS] if models is not None else ():
            assert models is not None and sample.wide is not None
            results = models.differing(sample.wide)
            if results is not None:
                before, after = results
                wide = attrs.evolve(sample.wide, expected=before)
                raise PassError(changed_result(step.applied, name, step.before, wide, after))

    def _compare_exactly(self, step: PassRun, name: str, samples: list[InputSample]) -> bool:
        """Returns whether a function was compared over finite fields; raises PassError if its
        results differ."""
        sample = next((each for each in samples if each.accepted and each.elements), None)
        before, after = step.before, step.after
        if (
            sample is None
            or after is None
            or not (self.exact or self._is_exact(step, name, sample))
        ):
            return False
        try:
            result = compare_exactly(before, after, name, sample.arguments, self.seed)
        except StructIRError:
            if self.exact:
                raise
            return False
        if not result.equal:
            raise PassError(changed_exactly(step.applied, name, before, sample))
        counts = self.functions[name]
        counts.exact_error = max(counts.exact_error or 0.0, result.error)
        return True

    def _is_exact(self, step: PassRun, name: str, sample: InputSample) -> bool:
        """Whether an exact comparison is cheap, and the pass adds no constants, which it may have
        rounded."""
        assert step.after is not None
        is_small = sample.extent <= MOST_EXACT
        modules = (step.before, step.after)
        is_ring = is_small and all(map(consists_of_ring_ops, modules))
        return is_ring and not folded_rounding(*modules, name)[1]

    def _compare(self, step: PassRun, name: str, sample: InputSample) -> tuple[float, InputSample]:
        """Compares one sample; returns the difference and the sample for the next pass."""
        wide_error, following = 0.0, sample
        if self.moderate and not is_moderate(sample):
            return 0.0, sample
        if sample.wide is not None:
            wide_error, following = self._compare_wide(step, name, sample, sample.wide)
        if following.wide is not None and sample.only_wide:
            return wide_error, following
        assert step.after is not None
        if self._decisions is not None:
            self._decisions.sample = sample
        actual = self._outcome(
            step.after, name, sample.arguments, self._decisions, sample.most_steps
        )
        if isinstance(actual, TooManyStepsError):
            return wide_error, following
        error = _error(step, name, sample, actual)
        if error is None and following.wide is not None and is_float32(step.before):
            exact, tolerance = following.wide.expected, step.applied.tolerance
            if within_own_error(sample.expected, exact, actual, tolerance) or within_rounding(
                step.before, name, sample.arguments, sample.expected, actual, tolerance, exact=False
            ):
                error = 1.0  # no discontinuity, as results in float64 are equal
        if error is None:
            raise PassError(changed_result(step.applied, name, step.before, sample, actual))
        result = actual if sample.accepted else sample.expected
        return max(error, wide_error), following.after(result)

    def _outcome(
        self,
        module: IRModule,
        name: str,
        arguments: list[Any],
        decisions: DecisionRecord | None = None,
        most_steps: int = 0,
    ) -> Any:
        if id(module) not in self._interpreters:
            self._interpreters[id(module)] = module, EffectRecorder(module)
        interpreter = self._interpreters[id(module)][1].renewed(decisions, most_steps)
        return outcome_of(interpreter, name, arguments)

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
            wide = wide.after(self._outcome(before, name, wide.arguments))
        actual = self._outcome(after, name, wide.arguments)
        if not wide.accepted or isinstance(actual, StructIRError):
            return 0.0, attrs.evolve(sample, wide=None)
        error = difference(wide.expected, actual, DOUBLE)
        if error is None:
            if not _within_wide_rounding(
                step, (before, after), name, wide, actual
            ) and not spreads_nans((before, after), name, wide, actual, DOUBLE):
                raise PassError(changed_result(step.applied, name, step.before, wide, actual))
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


def _limited(sampler: Sampler, samples: Iterator[InputSample]) -> Iterator[InputSample]:
    """Yields samples until their runs have evaluated many expressions, as loops do."""
    start = sampler.steps
    for sample in samples:
        yield sample
        if sampler.steps - start > MOST_STEPS:
            return


def _format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _public(module: IRModule) -> list[str]:
    """Returns the functions whose results passes must preserve."""
    return [
        name
        for name, function in module.functions.items()
        if isinstance(function, Function) and not function.attrs.get(PRIVATE)
    ]


def _within_wide_rounding(
    step: PassRun, programs: tuple[IRModule, IRModule], name: str, wide: InputSample, actual: Any
) -> bool:
    """Returns whether results in float64 differ by rounding: of float64, or of the constants that
    the pass added, to whose dtype it rounded an attribute."""
    before, after = programs
    args, expected = wide.arguments, wide.expected
    if within_rounding(before, name, args, expected, actual, DOUBLE) or within_rounding(
        after, name, args, actual, expected, DOUBLE
    ):
        return True
    error, constants = folded_rounding(step.before, step.after, name)  # type: ignore[arg-type]
    rounding = {WIDE: 2 * error}
    return error > 0 and (
        within_rounding(before, name, args, expected, actual, DOUBLE, rounding, constants)
        or within_rounding(after, name, args, actual, expected, DOUBLE, rounding, constants)
    )


def _error(step: PassRun, name: str, sample: InputSample, actual: Any) -> float | None:
    """Returns the difference between the results for a sample; None if it exceeds rounding."""
    if not sample.accepted:
        return 0.0 if _rejects(step, name, sample, actual) else None
    if isinstance(actual, StructIRError):
        return None
    error = difference(sample.expected, actual, step.applied.tolerance)
    assert step.after is not None
    programs, tolerance = (step.before, step.after), step.applied.tolerance
    if error is None and within_rounding_of_both(
        programs, name, sample.arguments, sample.expected, actual, tolerance
    ):
        return 1.0
    if error is None and differs_by_infinities(programs, name, sample, actual, tolerance):
        return 1.0
    return error


def _rejects(step: PassRun, name: str, sample: InputSample, actual: Any) -> bool:
    """Whether a program still rejects an input, except for errors in unused values."""
    if isinstance(actual, StructIRError):
        return True
    without = dead_code_elimination.transform(step.before)
    return not isinstance(outcome(without, name, sample.arguments), StructIRError)


def _changes(step: PassRun, name: str) -> bool:
    """Whether a pass changed a function, or one that it refers to."""
    assert step.after is not None
    before, after = step.before.functions, step.after.functions
    worklist = [name]
    for each in worklist:  # which grows
        if before.get(each) is not after.get(each):
            return True
        callees = {item.name for item in walk_values(before[each]) if isinstance(item, GlobalVar)}
        worklist += sorted(callees.difference(worklist).intersection(before))
    return False


def _format_exact(error: float) -> str:
    bound = "0" if not error else f"{error:.1g}"
    return f"equal over finite fields, with an error probability of at most {bound}"
