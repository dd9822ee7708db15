"""Generates sample inputs of a function with their results, for comparisons."""

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
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Call, Function, If, MatchCast, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo
from structir.passes.manager.edge_plan import (
    NON_FINITE,
    WIDE_DOMAINS,
    edges,
    numbers_of,
    scales_of,
)
from structir.passes.manager.effects import EffectRecorder
from structir.passes.manager.input_sizes import (
    Sizes,
    SizeSpace,
    assumptions_of,
    has_kernels,
    size_space,
)
from structir.passes.manager.input_values import (
    DOMAINS,
    NARROW,
    SCALED,
    ArrayGenerator,
    InputValues,
    Range,
)
from structir.passes.manager.legal_indices import IllegalIndexError, IndexChecker, indexed_axes
from structir.passes.manager.mentions import Mentions, mentions
from structir.passes.manager.perturbation import leaves
from structir.passes.manager.rejections import wrong_arguments
from structir.passes.manager.size_cover import covering_sizes, violating_sizes
from structir.passes.manager.widening import has_narrow_floats, widened_value

TRIES = 48  # inputs to try until the program accepts some
MOST_REJECTED = 8  # inputs that the rewritten program should reject as well
MOST_DIMS = 4  # dims that are set to 1, 0 and a wrong size in turn
HEAVY = 1 << 20  # total elements of the inputs beyond which there are fewer samples
EVERYTHING: Range = None
VECTOR = 16  # elements; a larger size has a remainder
LARGE_SIZES = ((61, 64, 24, 20, 18, 48, 42), (19, 40, 32, 28, 21, 48, 64))
MOST_WORK = 1 << 27  # operations of a run at large sizes
MOST_ROOM = 1 << 16  # elements of the inputs of special values
FURTHER = 24  # attempts to vary a result that is constant
FEW_FURTHER = 2  # where a run is slow
FURTHER_DOMAINS = ("signed", "large", "positive", "small", "integral", "above_one")
MOST_COVER = 6  # samples of sizes that compare otherwise than those before
MOST_DIRECTED = 12  # the same, for what a rewritten program mentions
MOST_BOUNDS = 4  # numbers of a program with which sizes are compared
BRANCH_SAMPLES = 6  # further ordinary samples of a program with conditionals
BRANCH_SEED = 1000
SMALL_SIZES = (2, 3, 5, 4)  # each dim gets the first two in turn


@attrs.frozen(eq=False)
class InputSample:
    """The arguments of a function, and its outcome: a result or an error."""

    sizes: Sizes
    arguments: list[Any]
    expected: Any
    wide: InputSample | None = None  # the same arguments in float64; None if not to be compared
    only_wide: bool = False  # whether another sample checks the dtypes of the program

    @property
    def accepted(self) -> bool:
        """Whether the function returns a result."""
        return not isinstance(self.expected, StructIRError)

    @property
    def elements(self) -> int:
        """The number of elements of the result that can be compared, which excludes NaN."""
        return _comparable_elements(self.expected) if self.accepted else 0

    @property
    def extent(self) -> int:
        """The number of elements of the arguments."""
        return sum(int(np.size(leaf)) for leaf in leaves(tuple(self.arguments)))

    def after(self, result: Any) -> InputSample:
        """Returns the same arguments with the result of a rewritten function."""
        return attrs.evolve(self, expected=result)

    def widened(self, large: dict[Any, Any]) -> InputSample:
        """Returns a sample that is compared in float64, too, if it has floats; `large` memoizes
        large arrays."""
        if not self.accepted or not has_narrow_floats((*self.arguments, self.expected)):
            return self
        arguments = [widened_value(argument, large) for argument in self.arguments]
        return attrs.evolve(self, wide=InputSample(self.sizes, arguments, None))


def outcome(module: IRModule, name: str, arguments: list[Any]) -> Any:
    """Returns the result of a function, or the error that it raises."""
    return outcome_of(EffectRecorder(module), name, arguments)


def outcome_of(interpreter: EffectRecorder, name: str, arguments: list[Any]) -> Any:
    """Returns the result of a function in an interpreter with its effects, or the error that it
    raises."""
    try:
        with np.errstate(all="ignore"):
            return interpreter.observed(interpreter.global_function(name)(*arguments))
    except StructIRError as error:
        return error


@attrs.define(eq=False)
class Sampler:
    """A search for samples of one function."""

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
    bounds: dict[int, Any] = attrs.field(factory=dict, init=False)  # of indices, by call
    rejected: list[InputSample] = attrs.field(factory=list, init=False)
    reason: StructIRError | None = attrs.field(default=None, init=False)
    start: tuple[InputSample, InputValues] | None = attrs.field(default=None, init=False)
    tried: list[Sizes] = attrs.field(factory=list, init=False)  # accepted
    indexed: dict[str, Dim] = attrs.field(init=False)  # the axes of parameters of indices
    mentioned: Mentions = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.heavy = _stated_elements(self.function) > HEAVY
        few = self.few or self.heavy
        self.space = size_space(self.module, self.function, few, self.few)
        self.indexed = indexed_axes(self.function)
        self.mentioned = mentions(self.module)

    def of(self, module: IRModule) -> Sampler:
        """Returns a sampler of the function in a rewritten module, with the samples so far."""
        if module is self.module:
            return self
        function: Any = module.functions[self.name]
        other = attrs.evolve(self, module=module, function=function)
        other.start, other.tried, other.large = self.start, self.tried, self.large
        return other

    # Single inputs

    def attempt(self, sizes: Sizes, values: InputValues, params: Any = None) -> InputSample | None:
        """Runs the function on inputs of these sizes and values; None if there are none."""
        if not self.fixed and self.space.is_slow(sizes):
            return None
        chosen = self.space.params if params is None else params
        among = tuple(size for size in self.space.pool if size)
        generator = ArrayGenerator(self._at_sizes(values, sizes), self.large)
        try:
            arguments = random_values(chosen, values.seed, sizes, among=among, draw=generator)
        except StructIRError as error:
            self.reason = error
            return None
        return self._run(sizes, arguments)

    def _run(self, sizes: Sizes, arguments: list[Any]) -> InputSample | None:
        sample = InputSample(sizes, arguments, self.outcome(arguments))
        if isinstance(sample.expected, IllegalIndexError):
            return None
        if not sample.accepted:
            self.reason = self.reason or sample.expected
            if len(self.rejected) < MOST_REJECTED:
                self.rejected.append(sample)
        return sample

    def _at_sizes(self, values: InputValues, sizes: Sizes) -> InputValues:
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

    def outcome(self, arguments: list[Any]) -> Any:
        """Returns the result of the function, or the error that it raises."""
        interpreter = EffectRecorder(self.module)
        if _integer_params(self.function.params):
            interpreter = IndexChecker(self.module, bounds=self.bounds)
        return outcome_of(interpreter, self.name, arguments)

    # The search

    def first(self) -> tuple[InputSample, InputValues] | None:
        """Returns a sample with nonempty tensors and the widest accepted ranges of values.

        Returns a sample with empty tensors if there is no other.
        """
        sample = self._first()
        if sample is None and any(
            a is not b for a, b in zip(self.space.params, self.function.params, strict=True)
        ):
            # a cast in a branch that does not run may contradict another parameter
            self.space = attrs.evolve(self.space, params=self.function.params)
            sample = self._first()
        return sample

    def _first(self) -> tuple[InputSample, InputValues] | None:
        fallback = None
        fixed_sizes = {name: size for name, size in self.fixed.items() if name in self.space.names}
        for number, sizes in enumerate(islice(self.space.proposals(fixed_sizes, self.seed), TRIES)):
            values = InputValues(seed=self.seed + number)
            sample = self.attempt(sizes, values)
            if sample is not None and sample.accepted:
                if sample.elements and _all_have_elements(sample.arguments):
                    return self.widened(sample, values)
                fallback = fallback or (sample, values)
            if not self.space.names and number > TRIES // 4:
                break
        return fallback

    def widened(self, sample: InputSample, values: InputValues) -> tuple[InputSample, InputValues]:
        """Returns a sample of the same sizes with other domains of values."""
        for param in _integer_params(self.space.params):
            sample, values = self._widest(param, sample, values)
        for domain in DOMAINS[1:] if _finite_share(sample) < 1 else ():
            other = attrs.evolve(values, domain=domain)
            candidate = self.attempt(sample.sizes, other)
            if candidate is not None and _finite_share(candidate) > _finite_share(sample):
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

    # Further samples

    def samples(self, count: int, edges: bool) -> Iterator[InputSample]:
        """Yields samples of ordinary values, then those at the boundaries of the domain."""
        for sample in self._samples(count, edges):
            if sample.accepted and sample.sizes not in self.tried:
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
            sizes = next(filter(self.space.allows, choices), choices[0])
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
            yield from self._special_parameters(roomy.sizes, values)
            yield from self._decisions(sample.sizes, values)
            for sizes in self._edge_sizes(sample.sizes):
                yield from self._tried(sizes, values)
                if 1 in sizes.values():
                    yield from self._tried(sizes, attrs.evolve(values, seed=values.seed + 1))
                    yield from self._tried(sizes, attrs.evolve(values, domain="large"))
            bounds = [number for number in self.mentioned.integers if number > max(SMALL_SIZES)]
            exprs = [*self.mentioned.sizes.values()][:MOST_BOUNDS]
            for sizes in self._cover(exprs, bounds[:MOST_BOUNDS], MOST_COVER):
                yield from self._tried(sizes, values)
            yield from self._rejected_inputs(values)
            self._reject(sample)
        yield from self.rejected

    def _cover(self, exprs: Any, numbers: Any, most: int, only_mentioned: bool = False) -> Any:
        """Returns sizes that compare otherwise than those of the samples so far."""
        if self.fixed or not self.space.names:
            return ()
        return covering_sizes(
            self.space, exprs, numbers, self.tried, most, only_mentioned=only_mentioned
        )

    def _decisions(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields samples for what the program decides by data: conditionals, and comparisons with
        its numbers."""
        branches = any(type(node) is If for node in walk_values(self.module))
        for number in range(BRANCH_SAMPLES if branches else 0):
            yield from self._tried(sizes, attrs.evolve(values, seed=BRANCH_SEED + number))
        for scale in scales_of(self.mentioned):
            yield from self._any(
                sizes, attrs.evolve(values, domain="scaled_negative", scale=scale)
            )

    def directed(self, mentioned: Mentions) -> Iterator[InputSample]:
        """Yields samples for the sizes and numbers that a rewritten program mentions, also such
        that the function rejects."""
        if self.start is None or self.heavy:
            return
        sample, values = self.start
        values = attrs.evolve(values, numbers=numbers_of(mentioned))
        exprs = list(mentioned.sizes.values())
        for sizes in self._cover(exprs, mentioned.integers, MOST_DIRECTED, True):
            yield from self._any(sizes, values)
        if values.numbers:
            other = attrs.evolve(values, domain="numbers", integers="numbers")
            yield from self._any(sample.sizes, other)
        for scale in scales_of(mentioned):
            for domain in SCALED:
                yield from self._any(sample.sizes, attrs.evolve(values, domain=domain, scale=scale))

    def _any(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        sample = self.attempt(sizes, values)
        if sample is not None:
            yield sample

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
        wrong += [self._run({}, arguments) for arguments in wrong_arguments(sample.arguments)]
        known = {id(each) for each in self.rejected}
        self.rejected += [w for w in wrong if w and not w.accepted and id(w) not in known]

    def _special_parameters(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields samples in which one parameter alone is not finite."""
        floats = [
            param.name
            for param in self.space.params
            if isinstance(param.struct_info, TensorStructInfo)
            and is_float(param.struct_info.dtype or "float32")
        ]
        for name in floats[:MOST_DIMS] if len(floats) > 1 else ():
            for domain in ("infinite", "nan"):
                yield from self._tried(sizes, attrs.evolve(values, special=(name, domain)))

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

    def _small_sizes(self, sizes: Sizes, free: list[str]) -> Iterator[Sizes]:
        """Yields different small sizes, so that each dim is 2 and 3 in turn."""
        firsts = list(dict.fromkeys(tuple(self._alike(name)) for name in free))
        for turn in range(len(SMALL_SIZES) if len(firsts) > 2 else len(firsts) + 1):
            small = dict(sizes)
            for index, alike in enumerate(firsts):
                small |= dict.fromkeys(alike, SMALL_SIZES[(index + turn) % len(SMALL_SIZES)])
            yield small

    def _alike(self, name: str) -> list[str]:
        """Returns the dims that must be equal to one."""
        firsts = {sym.name: first for sym, first in self.space.classes.items()}
        return [other for other in firsts if firsts[other] is firsts[name]]

    def _rejected_inputs(self, values: InputValues) -> Iterator[InputSample]:
        """Yields inputs that the casts of the program should reject."""
        params = zip(self.space.params, self.function.params, strict=True)
        if any(a is not b for a, b in params):
            for seed in range(3):
                odd = attrs.evolve(values, seed=values.seed + seed + 1)
                yield from self._tried({}, odd, self.function.params)

    def _tried(
        self, sizes: Sizes, values: InputValues, params: Any = None
    ) -> Iterator[InputSample]:
        sample = self.attempt(sizes, values, params)
        if values.integers != "all" and (sample is None or not sample.accepted):
            sample = self.attempt(sizes, attrs.evolve(values, integers="all"), params)
        if sample is None and values.ranges:
            least = attrs.evolve(values, ranges=dict.fromkeys(values.ranges, (0, 0)))
            sample = self.attempt(sizes, least, params)
        if sample is not None and sample.accepted:
            yield sample


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


def _size(dim: Dim, sizes: Sizes) -> int | None:
    """Returns the value of a size; None if it depends on other dims than those of parameters."""
    try:
        return evaluate(dim, {sym: sizes[sym.name] for sym in syms(dim)})
    except (StructIRError, KeyError):
        return None


def _comparable_elements(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_comparable_elements, value))
    return sum(map(_comparable, leaves(value)))


def _comparable(leaf: Any) -> int:
    if not isinstance(leaf, np.ndarray | np.generic):
        return 0 if leaf is None or callable(leaf) else 1
    array = np.asarray(leaf)
    if array.dtype.kind in "biuOSU":
        return array.size
    return int(np.count_nonzero(np.isfinite(array.astype(np.float64, copy=False))))


def _finite_share(sample: InputSample) -> float:
    """Returns the fraction of finite numbers in a result."""
    if not sample.accepted:
        return -1.0
    total = sum(np.size(leaf) for leaf in leaves(sample.expected))
    return sample.elements / total if total else 1.0


def _all_have_elements(arguments: list[Any]) -> bool:
    return all(np.size(leaf) for leaf in leaves(tuple(arguments)) if isinstance(leaf, np.ndarray))


def _stated_elements(function: Function) -> int:
    """Returns the number of elements of all parameters, with symbolic dims omitted."""
    shapes = [getattr(param.struct_info, "dims", None) for param in function.params]
    sizes = [[dim for dim in dims if type(dim) is int] for dims in shapes if type(dims) is tuple]
    return sum(map(math.prod, sizes))


def _integer_params(params: tuple[Var, ...]) -> list[str]:
    """Returns the parameters that hold integers of unknown range."""
    names = []
    for param in params:
        info = param.struct_info
        if isinstance(info, TensorStructInfo) and is_int(info.dtype or "float32"):
            names.append(param.name)
    return names


def _limits(arguments: list[Any]) -> list[int]:
    """Returns the sizes of all axes, which may bound indices."""
    sizes = {size for leaf in leaves(tuple(arguments)) for size in np.shape(leaf)}
    return sorted(size for size in sizes if size > 2)


def _may_reject(module: IRModule) -> bool:
    """Whether a module depends on sizes that must be checked at run time."""
    return any(
        type(node) is MatchCast or (type(node) is Call and bool(assumptions_of(node)))
        for node in walk_values(module)
    )
