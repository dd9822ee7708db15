"""Chooses the cut of each unit by dynamic programming over the layouts of live values.

Between two units, only the layouts of the values that later units read matter. The search keeps
the cheapest choices for each combination of them. Equal layers, found as repetitions in the
sequence of units, share their transitions: a layer is searched once for each layout of the values
at its start.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import attrs

from structir.distributed.cluster_model import ClusterModel
from structir.distributed.layouts import Layout
from structir.distributed.repetition import segments
from structir.distributed.unit_costs import CostTable
from structir.distributed.unit_cuts import UnitCut, is_partial
from structir.distributed.work_units import Key, WorkUnit

BEAM = 24  # combinations of layouts that are kept after each unit
LayoutState = tuple[Layout, ...]  # of the live values, in order of their definition


class _Choice(NamedTuple):
    """The cheapest choices that lead to a state, as a list linked from its end."""

    cost: float
    last: Any  # the last cut, or the last segment as a choice; None at the start
    before: Any

    def cuts(self) -> tuple[UnitCut, ...]:
        """Returns the cuts in order."""
        cuts: list[UnitCut] = []
        worklist: list[Any] = [self]
        while worklist:
            item = worklist.pop()
            if not isinstance(item, _Choice):
                cuts.append(item)
            elif item.before is not None:
                worklist += [item.before, item.last]
        return tuple(cuts[::-1])


_START = _Choice(0.0, None, None)


class _Candidate(NamedTuple):
    """A cut of a unit for given layouts of its inputs."""

    cut: UnitCut
    cost: float
    moved: tuple[tuple[int, Layout], ...]  # inputs by position, and their layouts afterwards
    outputs: tuple[Layout, ...]


class UnitTime(NamedTuple):
    """The seconds of a unit under a cut, and the bytes that are received for it."""

    compute: float
    transfer: float
    received: int  # by all workers
    weights: int  # the most bytes of weights on a worker

    @property
    def seconds(self) -> float:
        """All seconds."""
        return self.compute + self.transfer


@attrs.frozen(eq=False)
class LayoutSearch:
    """The search of cuts on one mesh.

    The cost is the time of all units, and `price` seconds for each byte of weights on a worker.
    """

    table: CostTable
    stages: tuple[int, ...]
    model: ClusterModel
    weights: frozenset[Key]
    results: frozenset[Key]
    price: float = 0.0
    pinned: Mapping[int, tuple[UnitCut, ...]] = attrs.Factory(dict)  # permitted cuts by unit
    prune: bool = True
    _transitions: dict[Hashable, dict[LayoutState, _Choice]] = attrs.field(factory=dict, init=False)
    _steps: dict[Hashable, list[_Candidate]] = attrs.field(factory=dict, init=False)

    @property
    def units(self) -> tuple[WorkUnit, ...]:
        """The units of the program."""
        return self.table.units

    @cached_property
    def producer(self) -> dict[Key, tuple[int, int]]:
        """The unit of each value, and its position among the outputs."""
        return {k: (u.index, n) for u in self.units for n, k in enumerate(u.outputs)}

    @cached_property
    def last_use(self) -> dict[Key, int]:
        """The last unit that reads each value."""
        return {key: unit.index for unit in self.units for key in unit.inputs}

    def live_after(self, index: int, live: Sequence[Key]) -> tuple[Key, ...]:
        """Returns the values that units after one read."""
        keys = (*live, *self.units[index].outputs)
        return tuple([key for key in keys if self.last_use.get(key, -1) > index])

    @cached_property
    def users(self) -> dict[Key, list[int]]:
        """The units that read each value."""
        users: dict[Key, list[int]] = {}
        for unit in self.units:
            for key in unit.inputs:
                users.setdefault(key, []).append(unit.index)
        return users

    def _slack(self, index: int, live: Sequence[Key]) -> float:
        """Returns the seconds in which every later user receives the whole of each live value: a
        state that costs more than another one and these is never better."""
        seconds = 0.0
        for key in live:
            received = self.table.value_bytes(key)
            uses = sum(user > index for user in self.users[key])
            seconds += uses * self.model.transfer_time(received, self.table.mesh.size)
        return seconds

    def solve(self) -> tuple[UnitCut, ...]:
        """Returns the cheapest cuts."""
        live: tuple[Key, ...] = ()
        states: dict[LayoutState, _Choice] = {(): _START}
        for first, last in segments(self.table.signatures):
            after = live
            for index in range(first, last):
                after = self.live_after(index, after)
            key = self._segment_key(first, last, live, after)
            reached: dict[LayoutState, _Choice] = {}
            for state, choice in states.items():
                for end, part in self._segment(key, first, last, live, state).items():
                    cost = choice.cost + part.cost
                    if end not in reached or cost < reached[end].cost:
                        reached[end] = _Choice(cost, part, choice)
            states, live = _cheapest(reached, self._slack(last - 1, after)), after
        return min(states.values(), key=lambda choice: choice.cost).cuts()

    def _segment_key(
        self, first: int, last: int, live: Sequence[Key], after: Sequence[Key]
    ) -> Hashable:
        """Returns a key that two segments share if their transitions are equal."""
        position: dict[Key, Hashable] = {k: ("live", number) for number, k in enumerate(live)}
        for index in range(first, last):
            for number, key in enumerate(self.units[index].outputs):
                position[key] = (index - first, number)
        tokens = []
        for index in range(first, last):
            unit = self.units[index]
            inputs = tuple([position.get(k, k in self.weights) for k in unit.inputs])
            stages = tuple(
                [
                    self.stages[self.producer[k][0]] == self.stages[index]
                    for k in unit.inputs
                    if k in self.producer
                ]
            )
            pinned = self.pinned.get(index)
            results = tuple([k in self.results for k in unit.outputs])
            tokens.append((self.table.signatures[index], inputs, stages, pinned, results))
        return tuple(tokens), tuple([position[key] for key in after])

    def _segment(
        self, key: Hashable, first: int, last: int, live: tuple[Key, ...], state: LayoutState
    ) -> dict[LayoutState, _Choice]:
        """Returns the states at the end of a segment, with the cheapest choices for each."""
        memo = (key, state)
        if memo not in self._transitions:
            states = {state: _START}
            for index in range(first, last):
                states = self._advance(index, live, states)
                live = self.live_after(index, live)
                states = _cheapest(states, self._slack(index, live))
            self._transitions[memo] = states
        return self._transitions[memo]

    def _advance(
        self, index: int, live: Sequence[Key], states: Mapping[LayoutState, _Choice]
    ) -> dict[LayoutState, _Choice]:
        """Returns the states after a unit."""
        unit = self.units[index]
        place = {key: number for number, key in enumerate(live)}
        after = self.live_after(index, live)
        kept = [place[key] for key in after if key in place]
        outputs = [self.producer[key][1] for key in after if key not in place]
        reads = [(which, place[key]) for which, key in enumerate(unit.inputs) if key in place]
        reached: dict[LayoutState, _Choice] = {}
        for state, choice in states.items():
            layouts = tuple([(which, state[position]) for which, position in reads])
            for candidate in self.candidates(index, layouts):
                end = tuple([state[position] for position in kept])
                if candidate.moved:
                    moves = {place[unit.inputs[which]]: new for which, new in candidate.moved}
                    end = tuple([moves.get(position, state[position]) for position in kept])
                end += tuple([candidate.outputs[k] for k in outputs])
                total = choice.cost + candidate.cost
                if end not in reached or total < reached[end].cost:
                    reached[end] = _Choice(total, candidate.cut, choice)
        return reached

    def candidates(self, index: int, layouts: tuple[tuple[int, Layout], ...]) -> list[_Candidate]:
        """Returns the cuts of a unit to consider for these layouts of its inputs: the cheapest for
        each combination of layouts after it."""
        memo = (self._contexts[index], layouts)
        if memo not in self._steps:
            pinned = self.pinned.get(index)
            cuts = pinned or self.table.cuts(index)
            times = [(cut, self.time(index, cut, layouts)) for cut in cuts]
            if self.prune and pinned is None and not self.table.options_of(index).loops:
                times = self._following(index, times, layouts)
            cheapest: dict[Hashable, _Candidate] = {}
            for cut, time in times:
                candidate = self._candidate(index, cut, layouts, time)
                after = (candidate.moved, candidate.outputs)
                if after not in cheapest or candidate.cost < cheapest[after].cost:
                    cheapest[after] = candidate
            self._steps[memo] = list(cheapest.values())
        return self._steps[memo]

    @cached_property
    def _contexts(self) -> list[Hashable]:
        """For each unit, all that its candidates depend on beside the layouts of its inputs."""
        numbers: dict[Hashable, int] = {}
        contexts: list[Hashable] = []
        for unit in self.units:
            same = [
                self._same_stage(unit.index, which) if key in self.producer else key in self.weights
                for which, key in enumerate(unit.inputs)
            ]
            context = (self.table.signatures[unit.index], tuple(same), self.pinned.get(unit.index))
            contexts.append(numbers.setdefault(context, len(numbers)))
        return contexts

    def _candidate(
        self,
        index: int,
        cut: UnitCut,
        layouts: tuple[tuple[int, Layout], ...],
        time: UnitTime,
    ) -> _Candidate:
        outputs = range(len(self.units[index].outputs))
        return _Candidate(
            cut,
            time.seconds + self.price * time.weights,
            tuple(self._moved(index, cut, layouts).items()),
            tuple([self.table.held_layout(index, k, cut) for k in outputs]),
        )

    def _moved(
        self, index: int, cut: UnitCut, layouts: tuple[tuple[int, Layout], ...]
    ) -> dict[int, Layout]:
        """Returns the layouts of inputs that change because workers receive blocks of them."""
        after = {
            which: self.table.transfer(
                index, cut, which, layout, self._same_stage(index, which)
            ).after
            for which, layout in layouts
            if self._same_stage(index, which)
        }
        return {w: after[w] for w, layout in layouts if w in after and after[w] != layout}

    def _following(
        self,
        index: int,
        times: list[tuple[UnitCut, UnitTime]],
        layouts: tuple[tuple[int, Layout], ...],
    ) -> list[tuple[UnitCut, UnitTime]]:
        """Returns the cuts of a unit without a reduction that use a largest input in place, or all
        cuts if there is none."""
        if not layouts:
            return times
        sizes = {which: self.table.input_size(index, which) for which, _ in layouts}
        largest = [pair for pair in layouts if sizes[pair[0]] == max(sizes.values())]
        following = [
            (cut, time)
            for cut, time in times
            if any(
                not self.table.transfer(
                    index, cut, which, layout, self._same_stage(index, which)
                ).total
                for which, layout in largest
            )
        ]
        return following or times

    def _same_stage(self, index: int, which: int) -> bool:
        producer, _ = self.producer[self.units[index].inputs[which]]
        return self.stages[producer] == self.stages[index]

    def time(self, index: int, cut: UnitCut, layouts: tuple[tuple[int, Layout], ...]) -> UnitTime:
        """Returns the time of a unit under a cut, for these layouts of its computed inputs."""
        cost, model = self.table.cost(index, cut), self.model
        seconds, received, weights = 0.0, 0, 0
        for which, layout in layouts:
            moved = self.table.transfer(index, cut, which, layout, self._same_stage(index, which))
            seconds += model.transfer_time(moved.received, moved.peers)
            received += moved.total
        for which, key in enumerate(self.units[index].inputs):
            if key in self.producer:
                continue
            most, total = self.table.input_bytes(index, cut, which)
            if key in self.weights:
                weights += most
            else:
                seconds += model.transfer_time(most, min(most, 1))
                received += total
        if is_partial(cut):
            seconds += model.transfer_time(*cost.reduced)
            received += cost.reduced_total
        return UnitTime(model.compute_time(cost.operations), seconds, received, weights)

    def times(self, cuts: Sequence[UnitCut]) -> list[UnitTime]:
        """Returns the time of every unit under given cuts."""
        times = []
        held: dict[Key, Layout] = {}
        for unit in self.units:
            index, cut = unit.index, cuts[unit.index]
            reads = [(which, key) for which, key in enumerate(unit.inputs) if key in held]
            layouts = tuple([(which, held[key]) for which, key in reads])
            times.append(self.time(index, cut, layouts))
            moved = self._moved(index, cut, layouts)
            held.update({key: moved[which] for which, key in reads if which in moved})
            for output, key in enumerate(unit.outputs):
                held[key] = self.table.held_layout(index, output, cut)
        return times


def _cheapest(states: dict[LayoutState, _Choice], slack: float) -> dict[LayoutState, _Choice]:
    """Returns the states that may lead to the cheapest choices, at most BEAM of them."""
    limit = min(choice.cost for choice in states.values()) + slack
    kept = {state: choice for state, choice in states.items() if choice.cost <= limit}
    if len(kept) <= BEAM:
        return kept
    return dict(sorted(kept.items(), key=lambda item: item[1].cost)[:BEAM])
