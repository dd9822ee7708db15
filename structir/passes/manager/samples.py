"""Generates sample inputs of a function with their results, for comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import attrs

from structir.analysis.purity import is_pure
from structir.analysis.variables import walk_values
from structir.ir.dims import Dim, Poly
from structir.ir.expr import Call, Function, If, MatchCast
from structir.ir.module import IRModule
from structir.passes.manager.data_sizes import with_counts
from structir.passes.manager.edge_plan import (
    NON_FINITE,
    WIDE_DOMAINS,
    edges,
    has_unknown_dtype,
    has_unknown_rank,
    numbers_of,
    scales_of,
)
from structir.passes.manager.input_sample import InputSample
from structir.passes.manager.input_search import TRIES, integer_params
from structir.passes.manager.input_sizes import Sizes, assumptions_of, has_kernels
from structir.passes.manager.input_values import MOST_TRIPS, SCALED, InputValues
from structir.passes.manager.mentions import Mentions
from structir.passes.manager.rejections import wrong_arguments
from structir.passes.manager.sample_kinds import MOST_DIMS, MOST_WORK, SIZE_INTEGERS, SampleKinds
from structir.passes.manager.size_cover import covering_sizes, varied_sizes, violating_sizes

VECTOR = 16  # elements; a larger size has a remainder
LARGE_SIZES = ((61, 64, 24, 20, 18, 48, 42), (19, 40, 32, 28, 21, 48, 64))
MOST_ROOM = 1 << 16  # elements of the inputs of special values
FURTHER = 24  # attempts to vary a result that is constant
FEW_FURTHER = 2  # where a run is slow
FURTHER_DOMAINS = ("signed", "large", "positive", "small", "integral", "above_one")
SCALE_POWERS = range(-3, 5)  # of ten: scales at which the branches that run are compared
BISECTIONS = 7  # to a factor of 1.02
SPAN = 9  # of integers next to a boundary
MOST_BOUNDARY = 1 << 16
MOST_FACTOR = 64
MOST_FACTORS = 3
RANK_SAMPLES = 8  # of functions with parameters of unknown rank
RANK_SEED = 2000
OTHER_DTYPES = ("int32", "float64", "bool")
MOST_COUNTED = 6  # sizes at which numbers of elements are sizes
MOST_COVER = 6  # samples of sizes that compare otherwise than those before
MOST_DIRECTED = 16  # the same, for what a rewritten program mentions
MOST_VARIED = 8  # samples of sizes of several kinds, by dim, where a program mentions others
SIZE_SEEDS = 3  # where all parameters are floats
ZERO_TURNS = 4
FLOAT_TURNS, DISCRETE_TURNS = 1, 4
DIRECTED_VALUES = 10  # samples of the numbers that a rewritten program mentions
MOST_BOUNDS = 4  # numbers of a program with which sizes are compared
BRANCH_SAMPLES = 6  # further samples of a program with conditionals
BRANCH_TRIES = 40  # until each branch has run
BRANCH_SEED = 1000
BRANCH_VALUES = (
    ("signed", "numbers"),
    ("numbers", "few"),
    ("large", "numbers"),
    ("numbers", "numbers"),
    ("negative", "all"),
)
SMALL_SIZES = (2, 3, 5, 4)  # each dim gets the first two in turn


@attrs.define(eq=False)
class Sampler(SampleKinds):
    """The samples of one function."""

    def of(self, module: IRModule) -> Sampler:
        """Returns a sampler of the function in a rewritten module, with the samples so far."""
        if module is self.module:
            return self
        function: Any = module.functions[self.name]
        other = attrs.evolve(self, module=module, function=function)
        other.start, other.tried, other.large = self.start, self.tried, self.large
        other.roomy, other.shapes = self.roomy, self.shapes
        return other

    def samples(self, count: int, edges: bool) -> Iterator[InputSample]:
        """Yields samples of ordinary values, then those at the boundaries of the domain."""
        for sample in self._samples(count, edges):
            is_new = sample.sizes not in self.tried and set(self.space.names) <= sample.sizes.keys()
            if sample.accepted and is_new:
                self.tried.append(sample.sizes)
            yield sample

    def _samples(self, count: int, edges: bool) -> Iterator[InputSample]:
        start = self.start = self.first()
        if start is None:
            return
        sample, values = start
        if self.heavy and edges:
            large = list(self._edges(sample, values, sample))
            yield attrs.evolve(
                sample.widened(self.wide), only_wide=any(each.elements for each in large)
            )
            yield from large
            return
        yield sample.widened(self.wide)
        roomy = sample
        for other in () if self.heavy else self._ordinary(sample, values, count, edges):
            yield other.widened(self.wide)
            if roomy.extent < other.extent <= MOST_ROOM:
                roomy = other
        self.roomy = roomy.sizes
        if edges:
            yield from self._edges(sample, values, roomy)

    def _ordinary(
        self, sample: InputSample, values: InputValues, count: int, edges: bool
    ) -> Iterator[InputSample]:
        """Yields further samples of ordinary values; with `edges`, until each dim was large."""
        number = 1
        for sizes in islice(self._others(sample.sizes), 4 * count):
            if number < count:
                other = self.attempt(sizes, attrs.evolve(values, seed=values.seed + number))
                if other is not None and other.accepted:
                    number += 1
                    yield other
        for sizes in self._large_sizes(sample.sizes) if edges and not self.few else ():
            number += 1
            other = self.attempt(sizes, attrs.evolve(values, seed=values.seed + number))
            if other is not None and other.accepted:
                yield other

    def _large_sizes(self, sizes: Sizes) -> Iterator[Sizes]:
        """Yields sizes in which small dims are large: two at a time, or one where two are too
        many."""
        names = [name for name in sizes if name not in self.fixed]
        free = [name for name in names if sizes[name] <= VECTOR] or names[:1]
        while free:
            pair = self._enlarged(sizes, free[:2])
            large = pair if self.space.work(pair) <= MOST_WORK else self._enlarged(sizes, free[:1])
            free = [name for name in free[1:] if large[name] <= VECTOR]
            if self.space.work(large) <= MOST_WORK:
                yield large

    def _enlarged(self, sizes: Sizes, names: list[str]) -> Sizes:
        """Returns sizes with some dims enlarged, which the program accepts if that is known."""
        for name, among in zip(names, LARGE_SIZES, strict=False):
            choices = [{**sizes, **dict.fromkeys(self._alike(name), size)} for size in among]
            sizes = next(filter(self.space.allows, map(self.space.completed, choices)), choices[0])
        return sizes

    def _others(self, sizes: Sizes) -> Iterator[Sizes]:
        """Yields other sizes, or the same ones if there are none."""
        fixed = {name: size for name, size in self.fixed.items() if name in self.space.names}
        for other in self.space.proposals(fixed, self.seed + 1):
            if other != sizes:
                yield other
        while True:
            yield sizes

    def further(self, sizes: Sizes) -> Iterator[InputSample]:
        """Yields samples of other values and sizes, for a result that does not vary."""
        tries = FEW_FURTHER if self.heavy else FURTHER
        for number, other in enumerate(islice(self._others(sizes), tries)):
            domain = FURTHER_DOMAINS[number % len(FURTHER_DOMAINS)]
            values = InputValues(domain=domain, seed=self.seed + TRIES + number)
            sample = self.attempt(other, values)
            if sample is not None and sample.accepted:
                yield sample

    def _edges(
        self, sample: InputSample, values: InputValues, roomy: InputSample
    ) -> Iterator[InputSample]:
        values = attrs.evolve(values, numbers=numbers_of(self.mentioned))
        for domain, integers in edges(values, self.space.params, self.heavy):
            other = attrs.evolve(values, domain=domain, integers=integers)
            for edge in self._tried(roomy.sizes, other):
                yield edge.widened(self.wide) if domain in WIDE_DOMAINS and not self.heavy else edge
            if domain in NON_FINITE and roomy is not sample:
                yield from self._tried(sample.sizes, other)
        if not self.heavy:
            yield from self._narrow_floats(roomy.sizes, values)
            yield from self._special_parameters(roomy.sizes, values)
            yield from self._alike_parameters(roomy.sizes, values)
            yield from self._unknown_types(sample.sizes, values)
            yield from self._decisions(sample.sizes, values)
            for sizes in self._completed(self._edge_sizes(sample.sizes)):
                yield from self._tried(sizes, values)
                if 1 in sizes.values():
                    yield from self._tried(sizes, attrs.evolve(values, seed=values.seed + 1))
                    yield from self._tried(sizes, attrs.evolve(values, domain="large"))
            bounds = [number for number in self.mentioned.integers if number > max(SMALL_SIZES)]
            exprs = [*self.mentioned.sizes.values()][:MOST_BOUNDS]
            for sizes in self._cover(exprs, bounds[:MOST_BOUNDS], MOST_COVER):
                yield from self._tried(sizes, values)
            yield from self._rejected_inputs(values)
            yield from self._counts(roomy, values)
            self._reject(sample)
        yield from self.rejected

    def _counts(self, sample: InputSample, values: InputValues) -> Iterator[InputSample]:
        """Yields samples of programs with casts, in which a number of elements is a size."""
        if not any(type(node) is MatchCast for node in walk_values(self.module)):
            return
        sizes = [sample.sizes, *self._small_sizes(sample.sizes, [*sample.sizes])]
        for among in [each for each in sizes if self.space.allows(each)][:MOST_COUNTED]:
            other = self.attempt(among, values)
            if other is None:
                continue
            for flat in with_counts(other.flat, [*among.values()]):
                counted = self.run(among, other.nested(flat))
                if counted is not None and counted.accepted:
                    yield counted.widened(self.wide)

    def _alike_parameters(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields samples in which parameters of one shape and dtype have equal values."""
        for domain, integers in (("signed", "clusters"), ("ties", "few"), ("nan", "zeros")):
            if len(self.space.params) > 1:
                other = attrs.evolve(values, domain=domain, integers=integers, alike=True)
                yield from self._tried(sizes, other)

    def _unknown_types(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields samples of several ranks and dtypes, where the parameters leave these open."""
        infos = [param.struct_info for param in self.space.params]
        for number in range(RANK_SAMPLES if any(map(has_unknown_rank, infos)) else 0):
            yield from self._tried(sizes, attrs.evolve(values, seed=RANK_SEED + number))
        for dtype in OTHER_DTYPES if any(map(has_unknown_dtype, infos)) else ():
            for integers in ("few", "all"):
                other = attrs.evolve(values, dtype=dtype, integers=integers)
                yield from self._tried(sizes, other)

    def _cover(self, exprs: Any, numbers: Any, most: int, related: list[Dim] | None = None) -> Any:
        """Returns sizes that compare otherwise than those of the samples so far; with `related`,
        only comparisons with what a rewritten program mentions."""
        if self.fixed or not self.space.names:
            return ()
        return covering_sizes(
            self.space,
            exprs,
            numbers,
            self.tried,
            most,
            only_mentioned=related is not None,
            related=related or (),
        )

    def _decisions(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields samples for what the program decides by data: conditionals, and comparisons with
        its numbers."""
        conditionals = {id(node) for node in walk_values(self.module) if type(node) is If}
        for number in range(BRANCH_TRIES if conditionals else 0):
            known = len(self.branches)
            if number >= BRANCH_SAMPLES and known >= 2 * len(conditionals):
                break
            domain, integers = BRANCH_VALUES[number % len(BRANCH_VALUES)]
            other = attrs.evolve(
                values, domain=domain, integers=integers, seed=BRANCH_SEED + number
            )
            for sample in self._tried(sizes, other):
                if number < BRANCH_SAMPLES or len(self.branches) > known:
                    yield sample
        if conditionals or not is_pure(self.function):
            for sign in (1, -1):
                yield from self._boundaries(sign, sizes, values)
            yield from self._integer_boundaries(sizes, values)
        for scale in scales_of(self.mentioned):
            yield from self._any(sizes, attrs.evolve(values, domain="scaled_negative", scale=scale))

    def _integer_boundaries(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields samples whose integers are all at least, or at most, near a mentioned number."""
        most = MOST_TRIPS if self.loops else MOST_BOUNDARY
        numbers = [number for number in self.mentioned.integers if abs(number) <= most]
        for number in dict.fromkeys([0, *numbers[:MOST_BOUNDS]]):
            for bound in (number - 1, number, number + 1):
                for interval in ((bound, bound + SPAN), (bound - SPAN, bound)):
                    ranges = dict.fromkeys(integer_params(self.function.params), interval)
                    if ranges:
                        yield from self._any(sizes, attrs.evolve(values, ranges=ranges))

    def _boundaries(self, sign: int, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields samples on both sides of the scales at which other branches run, or at which the
        inputs are rejected."""
        scales = [sign * 10.0**power for power in SCALE_POWERS]
        outcomes = [self._at_scale(scale, sizes, values) for scale in scales]
        for k in range(len(scales) - 1):
            low, high = (scales[k], outcomes[k]), (scales[k + 1], outcomes[k + 1])
            if low[1][0] == high[1][0]:
                continue
            for _ in range(BISECTIONS):
                middle = sign * (low[0] * high[0]) ** 0.5
                outcome = self._at_scale(middle, sizes, values)
                low, high = (
                    ((middle, outcome), high)
                    if outcome[0] == low[1][0]
                    else (
                        low,
                        (middle, outcome),
                    )
                )
            yield from (sample for _, (_, sample) in (low, high) if sample is not None)

    def _at_scale(self, scale: float, sizes: Sizes, values: InputValues) -> tuple[Any, Any]:
        """Returns the branches that run for inputs of a scale, and the sample."""
        known, self.branches = self.branches, set()
        sample = self.attempt(sizes, attrs.evolve(values, domain="times", scale=scale))
        signature = (sample is not None and sample.accepted, frozenset(self.branches))
        self.branches |= known
        return signature, sample

    def directed(self, mentioned: Mentions) -> Iterator[InputSample]:
        """Yields samples for the sizes and numbers that a rewritten program mentions, also such
        that the function rejects."""
        for sample in self._directed(mentioned):
            yield sample.widened(self.wide)
        if self.start is not None and not (self.heavy or self.few or self.fixed):
            sample, values = self.start
            most = MOST_VARIED * len(set(self.space.classes.values()))
            for sizes in varied_sizes(self.space, sample.sizes, min(most, 4 * MOST_VARIED)):
                for varied in self._informative(sizes, values):
                    yield varied.widened(self.wide)

    def _directed(self, mentioned: Mentions) -> Iterator[InputSample]:
        if self.start is None or self.heavy:
            return
        sample, values = self.start
        new = numbers_of(mentioned)
        both = (*new, *numbers_of(self.mentioned))
        values = attrs.evolve(values, numbers=new)
        exprs, related = mentioned.sizes.values(), self._related(mentioned.integers)
        kinds = SIZE_INTEGERS if self._has_integers() else SIZE_INTEGERS[:1] * SIZE_SEEDS
        for sizes in self._cover(exprs, mentioned.integers, MOST_DIRECTED, related):
            for number, integers in enumerate(kinds):
                other = attrs.evolve(values, integers=integers, seed=values.seed + number)
                yield from self._informative(sizes, other)
        for sizes in () if self.fixed else self._beyond(sample.sizes, mentioned):
            yield from self._informative(sizes, values)
        yield from self._wrapped_counts(mentioned, values)
        yield from self._any(self.roomy, attrs.evolve(values, domain="half_nan"))
        for name in self.float_params()[:MOST_DIMS]:
            for domain in ("large", "tiny"):
                yield from self._any(sample.sizes, attrs.evolve(values, special=(name, domain)))
            for number in range(ZERO_TURNS):  # times 0
                sizes = self.roomy if number % 2 else sample.sizes
                other = attrs.evolve(values, domain="ties", special=(name, "nan"))
                yield from self._any(sizes, attrs.evolve(other, seed=values.seed + number))
        yield from self._hidden(sample.sizes, attrs.evolve(values, numbers=both))
        if values.numbers:
            other = attrs.evolve(values, domain="numbers", integers="numbers")
            yield from self._any(sample.sizes, attrs.evolve(other, alike=True))
            for number in range(DIRECTED_VALUES):
                numbers = both if number % 3 == 2 else new
                other = attrs.evolve(other, seed=values.seed + number, numbers=numbers)
                yield from self._any(self.roomy if number else sample.sizes, other)
        for scale in scales_of(mentioned):
            for domain in SCALED:
                for integers in ("all", "few") if integer_params(self.function.params) else "-":
                    other = attrs.evolve(values, domain=domain, scale=scale, integers=integers)
                    yield from self._any(sample.sizes, other)
            turns = DISCRETE_TURNS if self.is_discrete() else FLOAT_TURNS
            for name in self.float_params()[:MOST_DIMS]:
                for number, domain in enumerate(("fractions", "signed", "fractions") * turns):
                    other = attrs.evolve(values, domain=domain, special=(name, "scaled_positive"))
                    other = attrs.evolve(other, scale=scale, seed=values.seed + number)
                    yield from self._any(sample.sizes, other)

    def _related(self, numbers: Sequence[int]) -> list[Dim]:
        """Returns multiples of the dims and sums with them, by small numbers of a program."""
        small = [number for number in numbers if 0 < number <= MOST_FACTOR][:MOST_FACTORS]
        symbols = list(self.space.classes) if len(self.space.classes) > 1 else []
        dims = [Poly({(symbol,): 1}, 0) for symbol in symbols]
        return [each for dim in dims for k in small for each in (dim * k, dim + k)]

    def _reject(self, sample: InputSample) -> None:
        """Adds inputs that the program rejects: sizes that violate one condition, and arguments of
        wrong shapes."""
        values = InputValues() if self.start is None else self.start[1]
        wrong = (
            []
            if self.fixed
            else [
                self.attempt(sizes, values) for sizes in violating_sizes(self.space, sample.sizes)
            ]
        )
        wrong += [
            self.run(sample.sizes, arguments) for arguments in wrong_arguments(sample.arguments)
        ]
        known = {id(each) for each in self.rejected}
        self.rejected += [w for w in wrong if w and not w.accepted and id(w) not in known]

    def _special_parameters(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields samples in which one parameter alone is not finite."""
        for name in self.float_params()[:MOST_DIMS]:
            for domain, others in (("infinite", values.domain), ("nan", "ties")):
                special = attrs.evolve(values, domain=others, special=(name, domain))
                yield from self._tried(sizes, special)

    def _edge_sizes(self, sizes: Sizes) -> Iterator[Sizes]:
        """Yields sizes with each dim set to 1, to 0, and increased by one; and with all dims set to
        1."""
        free = [name for name in sizes if name not in self.fixed][:MOST_DIMS]
        if len(free) > 1:
            yield {**sizes, **dict.fromkeys(free, 1)}
        yield from self._small_sizes(sizes, free)
        checks = _may_reject(self.module)
        for name in free:
            alike = self._alike(name)
            yield {**sizes, **dict.fromkeys(alike, 1)}
            yield {**sizes, **dict.fromkeys(alike, 0)}
            yield {**sizes, **dict.fromkeys(alike, sizes[name] + 1)}  # even if it was odd
            if checks and len(alike) > 1:
                yield {**sizes, name: sizes[name] + 1}
                yield {**sizes, name: 1}

    def _completed(self, proposals: Iterator[Sizes]) -> Iterator[Sizes]:
        """Yields sizes, each followed by the same ones with dims that depend on others."""
        for sizes in proposals:
            yield sizes
            if self.space.solved and (completed := self.space.completed(sizes)) != sizes:
                yield completed

    def _small_sizes(self, sizes: Sizes, free: list[str]) -> Iterator[Sizes]:
        """Yields different small sizes, so that each dim is 2 and 3 in turn."""
        firsts = list(dict.fromkeys(tuple(self._alike(name)) for name in free))
        for turn in range(len(SMALL_SIZES) if len(firsts) > 2 else len(firsts) + 1):
            small = dict(sizes)
            for index, alike in enumerate(firsts):
                small |= dict.fromkeys(alike, SMALL_SIZES[(index + turn) % len(SMALL_SIZES)])
            yield self.space.completed(small)

    def _rejected_inputs(self, values: InputValues) -> Iterator[InputSample]:
        """Yields inputs that the casts of the program should reject."""
        params = zip(self.space.params, self.function.params, strict=True)
        if any(a is not b for a, b in params):
            for seed in range(3):
                odd = attrs.evolve(values, seed=values.seed + seed + 1)
                yield from self._tried({}, odd, self.function.params)


def samples_of(
    module: IRModule,
    name: str,
    function: Function,
    count: int = 1,
    seed: int = 0,
    *,
    edges: bool = False,
    sizes: Mapping[str, int] | None = None,
    few: bool | None = None,
) -> Iterator[InputSample]:
    """Yields samples of a function of a module."""
    small = has_kernels(module) if few is None else few
    return Sampler(module, name, function, sizes or {}, seed, small).samples(count, edges)


def answers(
    module: IRModule, name: str, function: Function, count: int, seed: int
) -> Iterator[tuple[list[Any], Any]]:
    """Yields inputs that a function accepts, with its results; fewer if it rejects too many."""
    for sample in samples_of(module, name, function, count, seed):
        yield sample.arguments, sample.expected


def _may_reject(module: IRModule) -> bool:
    """Whether a module depends on sizes that must be checked at run time."""
    return any(
        type(node) is MatchCast or (type(node) is Call and bool(assumptions_of(node)))
        for node in walk_values(module)
    )
