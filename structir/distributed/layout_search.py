"""Chooses the cut of each unit by dynamic programming over the layouts of live values.

Between two units, only the layouts of the values that later units read matter. The search keeps
the cheapest choices for each combination of them. Equal layers, found as repetitions in the
sequence of units, share one search: after some layers, the combinations and the differences of
their costs are those of the layer before.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from structir.distributed.cluster_model import ClusterModel
from structir.distributed.layouts import Layout
from structir.distributed.repetition import segments
from structir.distributed.unit_costs import CostTable
from structir.distributed.unit_cuts import UnitCut, is_partial
from structir.distributed.work_units import Key, WorkUnit
from structir.system.locks import cached_property

DIGITS = 15  # decimals of seconds to which states of equal layers are compared
BEAM = 256  # combinations of layouts that are kept after each unit
GROUP = 8  # of them, those with the same layout of the largest live value
LayoutState = tuple[Layout, ...]  # of the live values, in order of their definition


class _Choice(NamedTuple):
    """The cheapest choices that lead to a state, as a list linked from its end."""

    cost: float
    last: Any  # the last cut, or the last segment as a choice; None at the start
    before: Any
    start: LayoutState  # at the start of the list

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


_Frontier = dict[LayoutState, _Choice]


class _Candidate(NamedTuple):
    """A cut of a unit for given layouts of its inputs."""

    cut: UnitCut
    cost: float
    moved: tuple[tuple[int, Layout], ...]  # inputs by position, and their layouts afterwards
    outputs: tuple[Layout, ...]


@attrs.define
class _Beam:
    """The states that are kept, the cheapest first; few for each layout of the largest value, so
    that cheap differences of small values do not replace other layouts of it."""

    largest: int | None  # its position in a state
    states: _Frontier = attrs.Factory(dict)
    counts: dict[Layout, int] = attrs.Factory(dict)

    def add(self, state: LayoutState, choice: _Choice) -> None:
        """Adds a state, unless it has been reached or its group is full."""
        if state in self.states:
            return
        group = () if self.largest is None else state[self.largest]
        self.counts[group] = self.counts.get(group, 0) + 1
        if self.counts[group] <= GROUP:
            self.states[state] = choice


_Option = tuple[LayoutState, _Choice, Sequence[_Candidate]]  # a state and its extensions


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
    _times: dict[Hashable, UnitTime] = attrs.Factory(dict)  # shared by the searches on a table
    _transitions: dict[Hashable, _Frontier] = attrs.field(factory=dict, init=False)
    _whole_times: dict[Key, float] = attrs.field(factory=dict, init=False)
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
            users = self.users[key]
            seconds += (len(users) - bisect.bisect_right(users, index)) * self._whole_time(key)
        return seconds

    def _whole_time(self, key: Key) -> float:
        """Returns the seconds in which a worker receives the whole of a value."""
        if key not in self._whole_times:
            received, mesh = self.table.value_bytes(key), self.table.mesh
            self._whole_times[key] = self.model.transfer_time(received, mesh.size)
        return self._whole_times[key]

    def solve(self) -> tuple[UnitCut, ...]:
        """Returns the cheapest cuts."""
        live: tuple[Key, ...] = ()
        frontier: _Frontier = {(): _Choice(0.0, None, None, ())}
        for first, last in segments(self.table.signatures):
            frontier, live = self._segment(first, last, live, frontier)
        return min(frontier.values(), key=lambda choice: choice.cost).cuts()

    def _segment(
        self, first: int, last: int, live: tuple[Key, ...], frontier: _Frontier
    ) -> tuple[_Frontier, tuple[Key, ...]]:
        """Returns the states after a segment, and the values that are live there. Equal segments
        after equal states, but for the time of all, share one search."""
        after = live
        for index in range(first, last):
            after = self.live_after(index, after)
        least = min(choice.cost for choice in frontier.values())
        costs = {state: round(choice.cost - least, DIGITS) for state, choice in frontier.items()}
        memo = (self._segment_key(first, last, live, after), frozenset(costs.items()))
        if memo not in self._transitions:
            states = {state: _Choice(cost, None, None, state) for state, cost in costs.items()}
            for index in range(first, last):
                states = self._advance(index, live, states)
                live = self.live_after(index, live)
            self._transitions[memo] = states
        extended = {}
        for end, part in self._transitions[memo].items():
            before = frontier[part.start]
            extended[end] = _Choice(least + part.cost, part, before, before.start)
        return extended, after

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

    def _advance(self, index: int, live: Sequence[Key], states: _Frontier) -> _Frontier:
        """Returns the states after a unit that may lead to the cheapest choices, at most BEAM."""
        unit = self.units[index]
        place = {key: number for number, key in enumerate(live)}
        after = self.live_after(index, live)
        kept = [place[key] for key in after if key in place]
        outputs = [self.producer[key][1] for key in after if key not in place]
        reads = [(which, place[key]) for which, key in enumerate(unit.inputs) if key in place]
        options = [
            (
                state,
                choice,
                self.candidates(index, tuple([(which, state[place]) for which, place in reads])),
            )
            for state, choice in states.items()
        ]

        def extended(state: LayoutState, candidate: _Candidate) -> LayoutState:
            moves = {place[unit.inputs[which]]: new for which, new in candidate.moved}
            own = [candidate.outputs[k] for k in outputs]
            return (*[moves.get(position, state[position]) for position in kept], *own)

        sizes = [self.table.value_bytes(key) for key in after]
        largest = max(range(len(after)), key=sizes.__getitem__, default=None)
        beam = _Beam(largest)
        for total, (state, choice, _), candidate in _by_cost(options, self._slack(index, after)):
            beam.add(
                extended(state, candidate), _Choice(total, candidate.cut, choice, choice.start)
            )
            if len(beam.states) == BEAM:
                break
        return beam.states

    def candidates(self, index: int, layouts: tuple[tuple[int, Layout], ...]) -> list[_Candidate]:
        """Returns the cuts of a unit to consider for these layouts of its inputs: the cheapest for
        each combination of layouts after it, in order of their cost."""
        memo = (self._contexts[index], layouts)
        if memo not in self._steps:
            pinned = self.pinned.get(index)
            cuts = pinned or self.table.cuts(index)
            times = [(cut, self.time(index, cut, layouts)) for cut in cuts]
            cheapest: dict[Hashable, _Candidate] = {}
            for cut, time in times:
                candidate = self._candidate(index, cut, layouts, time)
                after = (candidate.moved, candidate.outputs)
                if after not in cheapest or candidate.cost < cheapest[after].cost:
                    cheapest[after] = candidate
            self._steps[memo] = sorted(cheapest.values(), key=lambda option: option.cost)
        return self._steps[memo]

    @cached_property
    def _contexts(self) -> list[Hashable]:
        """For each unit, all that its candidates depend on beside the layouts of its inputs."""
        numbers: dict[Hashable, int] = {}
        contexts = [(origin, self.pinned.get(k)) for k, origin in enumerate(self._origins)]
        return [numbers.setdefault(context, len(numbers)) for context in contexts]

    @cached_property
    def _origins(self) -> list[Hashable]:
        """For each unit, its signature, and for each input whether it is computed in another
        stage, computed, a weight or an argument."""
        return [
            (
                self.table.signatures[unit.index],
                tuple(
                    [
                        ("computed", self._same_stage(unit.index, which))
                        if key in self.producer
                        else ("input", key in self.weights)
                        for which, key in enumerate(unit.inputs)
                    ]
                ),
            )
            for unit in self.units
        ]

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

    def _same_stage(self, index: int, which: int) -> bool:
        producer, _ = self.producer[self.units[index].inputs[which]]
        return self.stages[producer] == self.stages[index]

    def time(self, index: int, cut: UnitCut, layouts: tuple[tuple[int, Layout], ...]) -> UnitTime:
        """Returns the time of a unit under a cut, for these layouts of its computed inputs."""
        key = (self._origins[index], cut, layouts)
        time = self._times.get(key)
        if time is None:
            time = self._times[key] = self._time(index, cut, layouts)
        return time

    def _time(self, index: int, cut: UnitCut, layouts: tuple[tuple[int, Layout], ...]) -> UnitTime:
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


def _by_cost(
    options: Sequence[_Option], slack: float
) -> Iterator[tuple[float, _Option, _Candidate]]:
    """Yields the extensions of states by candidates, the cheapest first, within a slack."""
    heap = [(choice.cost + own[0].cost, n, 0) for n, (_, choice, own) in enumerate(options) if own]
    heapq.heapify(heap)
    limit = heap[0][0] + slack if heap else 0.0
    while heap and heap[0][0] <= limit:
        total, number, position = heap[0]
        _, choice, own = options[number]
        yield total, options[number], own[position]
        if position + 1 < len(own):
            following = choice.cost + own[position + 1].cost
            heapq.heapreplace(heap, (following, number, position + 1))
        else:
            heapq.heappop(heap)
