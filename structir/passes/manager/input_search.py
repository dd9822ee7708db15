"""Searches inputs that a function accepts: sizes, and the widest ranges of values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import walk_values
from structir.errors import StructIRError
from structir.interpret.arguments import random_values
from structir.ir.dims import Dim, evaluate, syms
from structir.ir.dtype import is_int
from structir.ir.expr import Function, GlobalVar, Var
from structir.ir.module import IRModule
from structir.passes.manager.data_sizes import shape_params, with_shapes
from structir.passes.manager.decisions import DecisionRecord
from structir.passes.manager.edge_plan import dtypes_of, has_unknown_rank
from structir.passes.manager.effects import EffectRecorder, TooManyStepsError
from structir.passes.manager.input_sample import (
    InputSample,
    all_have_elements,
    finite_share,
    outcome_of,
)
from structir.passes.manager.input_sizes import Sizes, SizeSpace, has_kernels, size_space
from structir.passes.manager.input_values import DOMAINS, NARROW, ArrayGenerator, InputValues, Range
from structir.passes.manager.kernel_steps import MOST_LONG_STEPS, MOST_STEPS
from structir.passes.manager.legal_indices import IllegalIndexError, IndexChecker, indexed_axes
from structir.passes.manager.mentions import Mentions, mentions
from structir.passes.manager.perturbation import leaves

TRIES = 48  # inputs to try until the program accepts some
MOST_REJECTED = 8  # inputs that the rewritten program should reject as well
HEAVY = 1 << 20  # total elements of the inputs beyond which there are fewer samples
EVERYTHING: Range = None
RANGES: tuple[Range, ...] = (EVERYTHING, (-9, 9), (1, 64), (-1000, 1000))  # if others are rejected
MOST_LOOP_STEPS = 20_000  # expressions of a run of loops, of which some do not end for NaN
MOST_SENTINELS = 4  # integers of the program outside of the range of a parameter
FEW_DOMAINS = 6  # sizes at which other domains are tried
STRICT_DOMAINS = ("definite", "positive", "fractions", "above_one")  # if others are rejected


@attrs.define(eq=False)
class InputSearch:
    """A search for inputs that one function accepts."""

    module: IRModule
    name: str
    function: Function
    fixed: Mapping[str, int]
    seed: int
    few: bool
    space: SizeSpace = attrs.field(init=False)
    heavy: bool = attrs.field(init=False)  # whether a run is slow
    large: dict[Any, Any] = attrs.field(
        factory=dict, init=False
    )  # arrays shared by several samples
    wide: dict[Any, Any] = attrs.field(factory=dict, init=False)  # large arrays in float64
    interpreter: EffectRecorder | None = attrs.field(default=None, init=False)
    given_up: int = attrs.field(default=0, init=False)  # expressions of runs that did not end soon
    branches: set[Any] = attrs.field(factory=set, init=False)  # outcomes of conditionals
    rejected: list[InputSample] = attrs.field(factory=list, init=False)
    reason: StructIRError | None = attrs.field(default=None, init=False)
    start: tuple[InputSample, InputValues] | None = attrs.field(default=None, init=False)
    roomy: Sizes = attrs.field(factory=dict, init=False)  # of a sample with many elements
    tried: list[Sizes] = attrs.field(factory=list, init=False)  # accepted
    indexed: dict[str, Dim] = attrs.field(init=False)  # the axes of parameters of indices
    mentioned: Mentions = attrs.field(init=False)
    decisions: DecisionRecord | None = attrs.field(default=None, init=False)
    shapes: list[int] = attrs.field(factory=list, init=False)  # positions of parameters of sizes
    loops: bool = attrs.field(init=False)  # whether a value may be the trip count of a loop

    def __attrs_post_init__(self) -> None:
        self.heavy = _stated_elements(self.function) > HEAVY
        few = self.few or self.heavy
        self.space = size_space(self.module, self.function, few, self.few)
        self.heavy = self.heavy or self.space.least_steps > MOST_STEPS
        self.indexed = indexed_axes(self.function)
        self.mentioned = mentions(self.module)
        self.loops = has_kernels(self.module) or has_recursion(self.module)

    # Single inputs

    def attempt(self, sizes: Sizes, values: InputValues, params: Any = None) -> InputSample | None:
        """Runs the function on inputs of these sizes and values; None if there are none."""
        if not self.fixed and self.space.is_costly(sizes):
            return None
        chosen = self.space.params if params is None else params
        among = values.rows or tuple(size for size in self.space.pool if size)
        loops = self.loops and not values.most_steps
        values = attrs.evolve(self.at_sizes(values, sizes), loops=loops)
        generator = ArrayGenerator(values, self.large)
        try:
            arguments = random_values(chosen, values.seed, sizes, among=among, draw=generator)
        except StructIRError as error:
            self.reason = error
            return None
        if self.shapes:
            return self._with_shapes(sizes, arguments, values)
        return self.run(sizes, arguments, values.most_steps)

    def _with_shapes(
        self, sizes: Sizes, arguments: list[Any], values: InputValues
    ) -> InputSample | None:
        """Runs the function on arguments of which some are sizes, until it accepts these."""
        sample = None
        for changed in with_shapes(arguments, self.shapes, values.seed):
            sample = self.run(sizes, changed, values.most_steps)
            if sample is not None and sample.accepted and sample.elements:
                break
        return sample

    def run(self, sizes: Sizes, arguments: list[Any], most_steps: int = 0) -> InputSample | None:
        expected = self.outcome(arguments, most_steps)
        sample = InputSample(sizes, arguments, expected, most_steps=16 * most_steps)
        if isinstance(expected, IllegalIndexError | TooManyStepsError):
            return None
        if not sample.accepted:
            self.reason = self.reason or sample.expected
            if len(self.rejected) < MOST_REJECTED:
                self.rejected.append(sample)
        return sample

    def at_sizes(self, values: InputValues, sizes: Sizes) -> InputValues:
        """Returns values whose indices are those of the axes at these sizes, or beyond them."""
        ranges = dict(values.ranges)
        for param in values.ranges.keys() & self.indexed.keys():
            size = _size(self.indexed[param], sizes)
            interval = ranges[param]
            if size is None:
                continue
            if interval is None and values.integers == "beyond":
                ranges[param] = (-1, size)
            elif (interval is None and values.integers == "indices") or (
                interval is not None and interval[0] == 0 < interval[1]
            ):
                ranges[param] = (0, max(size - 1, 0))
        return attrs.evolve(values, ranges=ranges)

    @property
    def steps(self) -> int:
        """The number of expressions that runs evaluated so far, without those given up."""
        return 0 if self.interpreter is None else self.interpreter.steps[0] - self.given_up

    def outcome(self, arguments: list[Any], most_steps: int = 0) -> Any:
        """Returns the result of the function, or the error that it raises."""
        if self.interpreter is None:
            self.interpreter = (
                IndexChecker(self.module)
                if integer_params(self.function.params)
                else EffectRecorder(self.module)
            )
        limit = most_steps or (MOST_LOOP_STEPS if self.loops else 0)
        interpreter = self.interpreter.renewed(self.decisions, limit)
        result = outcome_of(interpreter, self.name, arguments)
        self.given_up += limit if isinstance(result, TooManyStepsError) else 0
        self.branches |= interpreter.branches
        return result

    # The search

    def first(self) -> tuple[InputSample, InputValues] | None:
        """Returns a sample with nonempty tensors and the widest accepted ranges of values.

        Returns a sample with empty tensors if there is no other, and None if every run is long.
        """
        if self.space.least_steps > MOST_LONG_STEPS and not self.fixed:
            message = f"its kernels take {self.space.least_steps:,} steps of the interpreter"
            self.reason = StructIRError(f"{message}, more than {MOST_LONG_STEPS:,}", code="E0513")
            return None
        sample = self._first() or self._in_other_domains() or self._in_other_ranges()
        if sample is None or not sample[0].elements:
            sample = self._of_shapes() or sample
        if sample is None and any(
            a is not b for a, b in zip(self.space.params, self.function.params, strict=True)
        ):
            # a cast in a branch that does not run may contradict another parameter
            self.space = attrs.evolve(self.space, params=self.function.params)
            sample = self._first()
        return sample

    def _of_shapes(self) -> tuple[InputSample, InputValues] | None:
        """Returns a sample of a program that reads the sizes of a result from parameters."""
        self.shapes = shape_params(self.space.params)
        sample = self._first() if self.shapes else None
        if sample is None or not sample[0].elements:
            self.shapes = []
            return None
        return sample

    def _first(self) -> tuple[InputSample, InputValues] | None:
        fallback = None
        fixed_sizes = {name: size for name, size in self.fixed.items() if name in self.space.names}
        proposals = self.space.proposals(fixed_sizes, self.seed)
        if any(has_unknown_rank(param.struct_info) for param in self.space.params):
            proposals = _repeated(proposals)  # each attempt has other ranks
        for number, sizes in enumerate(islice(proposals, TRIES)):
            values = InputValues(seed=self.seed + number)
            sample = self.attempt(sizes, values)
            if sample is not None and sample.accepted:
                if sample.elements and all_have_elements(sample.arguments):
                    return self.widened(sample, values)
                fallback = fallback or (sample, values)
        return fallback

    def _in_other_domains(self) -> tuple[InputSample, InputValues] | None:
        """Returns a sample of a program that rejects values of both signs, such as matrices that
        are not positive definite."""
        fixed = {name: size for name, size in self.fixed.items() if name in self.space.names}
        for sizes in islice(self.space.proposals(fixed, self.seed), FEW_DOMAINS):
            for domain in STRICT_DOMAINS:
                values = InputValues(domain=domain, seed=self.seed)
                sample = self.attempt(sizes, values)
                if sample is not None and sample.accepted and sample.elements:
                    return sample, values
        return None

    def _in_other_ranges(self) -> tuple[InputSample, InputValues] | None:
        """Returns a sample of a program that rejects integers near 0."""
        names = integer_params(self.space.params)
        fixed = {name: size for name, size in self.fixed.items() if name in self.space.names}
        for sizes in islice(self.space.proposals(fixed, self.seed), FEW_DOMAINS if names else 0):
            for interval in RANGES:
                values = InputValues(ranges=dict.fromkeys(names, interval), seed=self.seed)
                sample = self.attempt(sizes, values)
                if sample is not None and sample.accepted and sample.elements:
                    return self.widened(sample, values)
        return None

    def widened(self, sample: InputSample, values: InputValues) -> tuple[InputSample, InputValues]:
        """Returns a sample of the same sizes with other domains of values."""
        for param in integer_params(self.space.params):
            sample, values = self._with_sentinels(param, *self._widest(param, sample, values))
        for domain in DOMAINS[1:] if finite_share(sample) < 1 else ():
            other = attrs.evolve(values, domain=domain)
            candidate = self.attempt(sample.sizes, other)
            if candidate is not None and finite_share(candidate) > finite_share(sample):
                sample, values = candidate, other
        return sample, values

    def _with_sentinels(
        self, param: str, sample: InputSample, values: InputValues
    ) -> tuple[InputSample, InputValues]:
        """Returns values with those integers outside of the range of a parameter that the program
        mentions and accepts."""
        interval = values.ranges.get(param, NARROW)
        if interval is None or self.heavy:
            return sample, values
        outside = [n for n in self.mentioned.integers if not interval[0] <= n <= interval[1]]
        for number in [sign * n for n in outside[:MOST_SENTINELS] for sign in (1, -1)]:
            known = values.sentinels.get(param, ())
            sentinels = {**values.sentinels, param: (*known, number)}
            other = attrs.evolve(values, sentinels=sentinels)
            candidate = self.attempt(sample.sizes, other)
            if (
                candidate is not None
                and candidate.accepted
                and candidate.elements
                and any(np.any(leaf == number) for leaf in candidate.flat)
            ):
                sample, values = candidate, other
        return sample, values

    def _widest(
        self, param: str, sample: InputSample, values: InputValues
    ) -> tuple[InputSample, InputValues]:
        """Returns the widest range of integers for a parameter: all, or indices of some axis."""

        def try_range(interval: Range) -> tuple[InputSample, InputValues] | None:
            other = attrs.evolve(values, ranges={**values.ranges, param: interval})
            sample_found = self.attempt(sample.sizes, other)
            good = (
                sample_found is not None
                and sample_found.accepted
                and sample_found.elements >= sample.elements
            )
            return (sample_found, other) if good and sample_found is not None else None

        full = try_range(EVERYTHING)
        if full is not None:
            return full
        best = sample, values
        limits = _limits(sample.arguments)
        middle = len(limits) - 1  # the longest axis first: that of a lookup table
        while limits:
            sample_found = try_range((0, limits[middle] - 1))
            best = best if sample_found is None else sample_found
            limits = limits[:middle] if sample_found is None else limits[middle + 1 :]
            middle = len(limits) // 2
        widest = best[1].ranges.get(param, NARROW)
        negative = None if widest is None else try_range((-1 - widest[1], widest[1]))
        return best if negative is None else negative


def _repeated(proposals: Iterator[Sizes]) -> Iterator[Sizes]:
    """Yields sizes, and the last ones again and again."""
    sizes: Sizes = {}
    for sizes in proposals:
        yield sizes
    while True:
        yield sizes


def _size(dim: Dim, sizes: Sizes) -> int | None:
    """Returns the value of a size; None if it depends on other dims than those of parameters."""
    try:
        return evaluate(dim, {sym: sizes[sym.name] for sym in syms(dim)})
    except (StructIRError, KeyError):
        return None


def _stated_elements(function: Function) -> int:
    """Returns the number of elements of all parameters, with symbolic dims omitted."""
    shapes = [getattr(param.struct_info, "dims", None) for param in function.params]
    sizes = [[dim for dim in dims if type(dim) is int] for dims in shapes if type(dims) is tuple]
    return sum(map(math.prod, sizes))


def integer_params(params: tuple[Var, ...]) -> list[str]:
    """Returns the parameters that hold integers of unknown range."""
    return [param.name for param in params if any(map(is_int, dtypes_of(param.struct_info)))]


def has_recursion(module: IRModule) -> bool:
    """Whether a function may call itself, through others or not."""
    callees = {
        name: {node.name for node in walk_values(function) if isinstance(node, GlobalVar)}
        for name, function in module.functions.items()
    }
    for name in callees:
        reached, todo = set[str](), [name]
        while todo:
            new = callees.get(todo.pop(), set()) - reached
            reached |= new
            todo += new
        if name in reached:
            return True
    return False


def _limits(arguments: list[Any]) -> list[int]:
    """Returns the sizes of all axes, which may bound indices."""
    sizes = {size for leaf in leaves(tuple(arguments)) for size in np.shape(leaf)}
    return sorted(size for size in sizes if size > 2)
