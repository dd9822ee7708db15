"""Generates inputs for decisions with a rare outcome: many elements, and large scalars of loops."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from structir.passes.manager.edge_plan import has_unknown_rank
from structir.passes.manager.input_sample import InputSample
from structir.passes.manager.input_search import integer_params
from structir.passes.manager.input_sizes import Sizes
from structir.passes.manager.samples import Sampler

MANY = (1 << 15, 1 << 13, 1 << 11, 1 << 9)
MOST_WORK = 1 << 23
MOST_DIMS = 2  # that are large in turn
LOW = 3
ROWS = (32,)  # of up to three axes
MANY_VALUES = (  # a domain of floats, a distribution of integers
    ("signed", "all"),
    ("numbers", "numbers"),
    ("times", "scales"),
    ("integral", "few"),
    ("fractions", "all"),
    ("signed", "all"),
    ("integral", "multiples"),
)
FAR_VALUES = ("scales", "numbers", "scales", "all", "scales", "clusters")
FAR_SAMPLES = 36
FAR_STEPS = 1200  # expressions of one run
MOST_ENDLESS = 4  # runs that are given up


def many_elements(sampler: Sampler, numbers: tuple[float, ...]) -> Iterator[InputSample]:
    """Yields samples with so many elements that rare outcomes of elementwise programs occur."""
    if sampler.start is None or sampler.calls_functions():
        return
    start, values = sampler.start
    choices: list[tuple[Sizes, tuple[int, ...]]] = [
        (sizes, ()) for sizes in _large_sizes(sampler, start.sizes)
    ]
    if any(has_unknown_rank(param.struct_info) for param in sampler.space.params):
        choices.append((start.sizes, ROWS))
    for sizes, rows in choices:
        for number, (domain, integers) in enumerate(MANY_VALUES):
            other = attrs.evolve(values, domain=domain, integers=integers, numbers=numbers)
            other = attrs.evolve(other, seed=values.seed + number, scale=10.0 ** (number % 3))
            sample = sampler.attempt(sizes, attrs.evolve(other, rows=rows))
            if sample is not None and sample.accepted:
                yield sample


def _large_sizes(sampler: Sampler, start: Sizes) -> list[Sizes]:
    """Returns sizes in which one dim is as large as runs are short."""
    space = sampler.space
    low = {name: min(size, LOW) for name, size in start.items()}
    chosen: list[tuple[int, Sizes]] = []
    for name in low if not sampler.fixed else ():
        alike = [sym.name for sym in space.classes if space.classes[sym].name == name]
        for size in MANY if alike else ():
            sizes = space.completed({**low, **dict.fromkeys(alike, size)})
            is_short = space.operations(sizes) <= MOST_WORK and not space.is_costly(sizes)
            if is_short and space.allows(sizes):
                chosen.append((size, sizes))
                break
    chosen.sort(key=lambda each: -each[0])
    return [sizes for _, sizes in chosen[:MOST_DIMS]]


def far_scalars(sampler: Sampler, numbers: tuple[float, ...]) -> Iterator[InputSample]:
    """Yields samples with integer scalars of all magnitudes, for which loops end soon."""
    if sampler.start is None or not sampler.loops:
        return
    start, values = sampler.start
    endless = 0
    for number in range(FAR_SAMPLES if integer_params(sampler.function.params) else 0):
        if endless == MOST_ENDLESS:
            return
        other = attrs.evolve(
            values,
            integers=FAR_VALUES[number % len(FAR_VALUES)],
            numbers=numbers,
            seed=values.seed + 31 * number,
            most_steps=FAR_STEPS,
        )
        sample = sampler.attempt(start.sizes, other)
        endless += sample is None
        if sample is not None and sample.accepted:
            yield sample
