"""Kinds of samples of a function: at conditions on sizes, of narrow dtypes, and of equal values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import Any

import attrs

from structir.analysis.variables import walk_values
from structir.ir.dtype import is_float
from structir.ir.expr import GlobalVar
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo
from structir.passes.manager.edge_plan import dtypes_of
from structir.passes.manager.input_sample import InputSample, finite_share, is_varied
from structir.passes.manager.input_search import InputSearch
from structir.passes.manager.input_sizes import Sizes
from structir.passes.manager.input_values import EQUAL_COUNT, InputValues
from structir.passes.manager.mentions import NARROW_FLOATS, WRAPS, Mentions
from structir.passes.manager.size_guards import guarded_sizes

MOST_DIMS = 4  # dims, or parameters, that differ from the others in turn
MOST_WORK = 1 << 27  # operations of a run at large sizes
SIZE_INTEGERS = ("all", "few", "numbers", "clusters", "extreme")  # at sizes of a rewritten program
INFORMATIVE = ("positive", "ascending", "ties", "signed")  # domains where results are all equal
EQUAL_VALUES = (("all_nan", "extreme"), ("constant", "clusters"), ("negative", "zeros"))
NARROW_TURNS = 8
LEAST_BEYOND, MOST_BEYOND = 8, 100  # numbers that sizes exceed
MOST_NUMBERS_BEYOND = 2
MOST_WORK_BEYOND = 1 << 24
HIDDEN = (("one_nan", "numbers"), ("one_infinite", "numbers"), ("one_nan", "few"))
HIDDEN_TRIES = 12
MOST_HIDDEN = 3
LEAST_SIZES = (1, 2, 3, 4, 8)  # of the other dims, where one is large


@attrs.define(eq=False)
class SampleKinds(InputSearch):
    """Samples of several kinds of one function."""

    def guarded(
        self, other: IRModule, changed: Collection[int], mentioned: Mentions
    ) -> Iterator[InputSample]:
        """Yields samples at sizes at which a rewritten program decides otherwise; `changed` has the
        ids of the calls that only one program has."""
        if self.start is None or self.fixed:
            return
        sample, values = self.start
        integers = (*mentioned.integers, *self.mentioned.integers)
        modules = (self.module, other)
        kinds = SIZE_INTEGERS[:2] if self._has_integers() else SIZE_INTEGERS[:1]
        for sizes in guarded_sizes(self.space, modules, self.name, changed, integers, sample.sizes):
            for kind in kinds:
                for each in self._informative(sizes, attrs.evolve(values, integers=kind)):
                    yield each.widened(self.wide)

    def _narrow_floats(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields integral samples of a program with narrow floats, which are often exact: the
        results then differ by the rounding of a cast alone."""
        dtypes = {dtype for param in self.space.params for dtype in dtypes_of(param.struct_info)}
        limits = set(NARROW_FLOATS.values()) & set(self.mentioned.integers)
        for number in range(NARROW_TURNS if limits or dtypes & NARROW_FLOATS.keys() else 0):
            other = attrs.evolve(values, domain="integral_scales", seed=values.seed + number)
            yield from self._tried(sizes, other)

    def _wrapped_counts(self, mentioned: Mentions, values: InputValues) -> Iterator[InputSample]:
        """Yields samples with as many equal elements as the counters of a rewritten program do not
        represent."""
        names = [name for name in self.space.names if name not in self.fixed]
        limits = [number for number in mentioned.integers if number in WRAPS]
        for name in names[:MOST_DIMS]:
            for limit in limits:
                least = [
                    self.space.completed({**dict.fromkeys(names, size), **alike})
                    for size in LEAST_SIZES
                    for alike in [dict.fromkeys(self._alike(name), limit)]
                ]
                sizes = next(filter(self.space.allows, least), None)
                if sizes is not None and self.space.operations(sizes) <= MOST_WORK:
                    yield from self._equal_values({**self.fixed, **sizes}, values)

    def _beyond(self, sizes: Sizes, mentioned: Mentions) -> Iterator[Sizes]:
        """Yields sizes at which all dims are larger than a number, or two if all are too many: an
        index may be compared with it, and with one of another axis."""
        numbers = [n for n in mentioned.integers if LEAST_BEYOND <= n <= MOST_BEYOND]
        firsts = list(dict.fromkeys(first.name for first in self.space.classes.values()))
        names = [name for name in firsts if name not in self.fixed]
        for number in numbers[:MOST_NUMBERS_BEYOND]:
            for among in (names, *combinations(names[-MOST_DIMS:], 2)):
                larger = {
                    each: number + 2 + k
                    for k, name in enumerate(among)
                    for each in self._alike(name)
                }
                other = self.space.completed({**sizes, **larger})
                if self.space.allows(other) and self.space.operations(other) <= MOST_WORK_BEYOND:
                    yield other
                    if len(among) == len(names):
                        break

    def _hidden(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields samples with a NaN or an infinity that no result has: integers and booleans select
        the other elements."""
        count = 0
        for number in range(HIDDEN_TRIES if self._has_integers() else 0):
            domain, integers = HIDDEN[number % len(HIDDEN)]
            other = attrs.evolve(values, domain=domain, integers=integers)
            sample = self.attempt(sizes, attrs.evolve(other, seed=values.seed + number))
            if sample is not None and sample.accepted and finite_share(sample) == 1:
                yield sample
                count += 1
                if count == MOST_HIDDEN:
                    return

    def _equal_values(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields samples whose elements are all equal, or NaN in one parameter."""
        for domain, integers in EQUAL_VALUES:
            yield from self._any(sizes, attrs.evolve(values, domain=domain, integers=integers))
        for number in range(EQUAL_COUNT if self._has_integers() else 0):
            other = attrs.evolve(values, integers="equal", seed=number)
            yield from self._any(sizes, other)
        for name in self.float_params()[:MOST_DIMS]:
            yield from self._any(sizes, attrs.evolve(values, special=(name, "all_nan")))

    def _informative(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        """Yields a sample whose results differ between elements, if some values give one, and those
        tried before."""
        for number, domain in enumerate(("", *INFORMATIVE)):
            other = attrs.evolve(values, domain=domain or values.domain, seed=values.seed + number)
            sample = self.attempt(sizes, other)
            if sample is not None:
                yield sample
            if sample is None or not sample.accepted or is_varied(sample.expected):
                return

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

    def _any(self, sizes: Sizes, values: InputValues) -> Iterator[InputSample]:
        sample = self.attempt(sizes, values)
        if sample is not None:
            yield sample

    def float_params(self) -> list[str]:
        """Returns the tensors of floats among the parameters, if there are several."""
        floats = [
            param.name
            for param in self.space.params
            if isinstance(param.struct_info, TensorStructInfo)
            and is_float(param.struct_info.dtype or "float32")
        ]
        return floats if len(floats) > 1 else []

    def calls_functions(self) -> bool:
        """Whether the function refers to others, which a loop may run."""
        return any(type(node) is GlobalVar for node in walk_values(self.function))

    def is_discrete(self) -> bool:
        """Whether the results are integers and booleans, which hide small differences."""
        return not any(map(is_float, dtypes_of(self.function.ret_struct_info)))

    def _has_integers(self) -> bool:
        """Whether some tensors of the parameters have integers or booleans."""
        dtypes = [dtype for param in self.space.params for dtype in dtypes_of(param.struct_info)]
        return not all(map(is_float, dtypes))

    def _alike(self, name: str) -> list[str]:
        """Returns the dims that must be equal to one."""
        firsts = {sym.name: first for sym, first in self.space.classes.items()}
        return [other for other in firsts if firsts[other] is firsts[name]]
