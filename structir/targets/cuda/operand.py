"""Loads an operand of a product tile by tile: which thread loads which elements, and what replaces
missing elements."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym, exact_quotient
from structir.loops.program.access import Address, joined_axes
from structir.loops.program.expression import Expression, apply
from structir.loops.program.stage import Guard
from structir.targets.cuda.places import RUN, AxisGroups, Groups, taken_apart
from structir.targets.cuda.writer import LoopScope, indented

SHORT = 16  # shorter runs of terms do not determine the direction of loads


@attrs.frozen
class OperandSource:
    """An element of a buffer, with its address and guards; and the axes of the terms of which a
    tile has a slice."""

    value: Expression
    address: Address
    guards: tuple[Guard, ...]
    terms: tuple[Sym, ...]


@attrs.frozen
class Way:
    """The positions and terms of a tile that a thread loads: runs of terms, runs of neighbours
    across, or elements `apart`."""

    terms: tuple[str, str]
    runs: tuple[str, str]
    single: tuple[str, str]
    apart: str


SQUARE = Way(("line", "part"), ("near", "down"), ("across", "down"), "tile_side")


class TileOperand:
    """Loads an operand into a block tile by tile, from term `start` on. Each thread loads `reach`
    elements."""

    def __init__(
        self,
        source: OperandSource,
        places: AxisGroups,
        reach: int,
        way: Way = SQUARE,
        letter: str = "",
        start: str = "start",
    ) -> None:
        self.source, self.places, self.letter = source, places, letter or places.letter
        self.reach, self.way, self.start = reach, way, start
        self.while_there = ["step < last"] if way is SQUARE else []  # a slice is loaded ahead
        self.extents, self.writer = places.extents, places.writer
        guarded = [dims.syms(guard.value) for guard in source.guards]
        pinned = frozenset().union(*guarded) & self.extents.keys()
        self.terms = joined_axes(source.terms, self.extents, [source.address], pinned)
        line = self._extent(self.terms[-1])
        short = len(self.terms) > 1 and isinstance(line, int) and line < SHORT
        self.along_terms = source.address.coefficient(self.terms[-1][-1]) == 1 and not short
        groups: Groups = self.terms if self.along_terms else places.groups
        self.in_runs = bool(groups) and self._lies_in_runs(groups[-1])
        whole = self.along_terms or self.in_runs
        self.slots = reach // RUN if whole else reach
        self.across, self.term = (
            way.terms if self.along_terms else way.runs if self.in_runs else way.single
        )

    def _extent(self, axes: tuple[Sym, ...]) -> Dim:
        return prod(self.extents[axis] for axis in axes)

    def _lies_in_runs(self, group: tuple[Sym, ...]) -> bool:
        """Whether runs of neighbours are aligned to one access, and are valid as a whole or not at
        all."""
        address = self.source.address
        if address.coefficient(group[-1]) != 1 or address.pinned(self.extents):
            return False
        if any(dims.syms(guard.value) & set(group) for guard in self.source.guards):
            return False
        steps = [step for axis, step in address.coefficients.items() if axis not in group]
        sizes = [self._extent(group), *steps, address.rest]
        return all(exact_quotient(size, RUN) is not None for size in sizes)

    def offset(self, slot: int) -> str:
        """Returns the position across the tile of a thread's slot."""
        step = "far" if self.along_terms or self.in_runs else self.way.apart
        return f"{self.across} + {slot} * {step}" if slot else self.across

    def elements(self) -> Iterator[tuple[str, int, int, int]]:
        """Yields the elements of a thread, each with its register, its slot, and its distance from
        there across the tile and in terms."""
        for k in range(self.reach):
            slot, following = self.place_of(k)
            beyond = (0, following) if self.along_terms else (following, 0)
            yield f"{self.letter}_{k}", slot, *beyond

    def place_of(self, number: int) -> tuple[int, int]:
        """Returns the slot of an element of a thread, and the number of elements before it
        there."""
        return divmod(number, self.reach // self.slots)

    def _slot(self, slot: int) -> str:
        return f"{self.letter}{slot}"

    def head(self) -> list[str]:
        """Declares the layout of a tile in shared memory; the stride of terms avoids bank
        conflicts."""
        return [
            f"{self.pitch} = {self.letter}_wide + {RUN}",
            f"{self.letter}_size = tile_side * {self.pitch}",
        ]

    def positions(self) -> list[str]:
        """Computes the positions of a thread's slots in the operand."""
        lines = [self.places.named(self._slot(s), self.offset(s)) for s in range(self.slots)]
        return [line for each in lines for line in each]

    def name_terms(self, beyond: int) -> list[str]:
        """Returns lines that name the terms of an element, and the names of their axes."""
        name, sizes = f"{self.letter}_term{beyond}", [self._extent(group) for group in self.terms]
        first = f"{self.start} + {self.term}"
        names = [f"{name}_{k}" for k in range(len(sizes))] if len(sizes) > 1 else [name]
        self.writer.name_axes(self.terms, names)
        lines = [f"{name} = {first} + {beyond}" if beyond else f"{name} = {first}"]
        texts = [self.writer.size(size) for size in sizes]
        return lines + (taken_apart(name, names, texts) if len(sizes) > 1 else [])

    def loads(self, dtype: str) -> list[str]:
        """Loads the elements of a tile into registers: a slice of terms from `start` on, zeros
        after the last term."""
        lines = [f"{register} = zero" for register, *_ in self.elements()]
        test, inside = "", list[str]()
        for register, slot, points, term in self.elements():
            naming = self.name_terms(term)
            lines += naming if slot == 0 and points == 0 else []
            self.places.named(self._slot(slot), "")
            self.places.beyond(self._slot(slot), points)
            if not (self.in_runs and (points or term)):
                lines += _under(test, inside)
                test, inside = self._test(slot, term), []
            scope = LoopScope(frozenset(self.extents))
            value = self._element(dtype, scope)
            inside += [*scope.lines, f"{register} = {value}"]
        return [*lines, *_under(test, inside)]

    def _element(self, dtype: str, scope: LoopScope) -> str:
        """Returns the element at the named position."""
        return self.writer.value(apply("cast", (self.source.value,), dtype), [scope])

    def _test(self, slot: int, term: int) -> str:
        """Returns the condition that an element exists."""
        terms = self.writer.size(self._extent(self.source.terms))
        tests = [
            *self.while_there,
            f"{self._slot(slot)} < {self.writer.size(self.places.extent)}",
            f"{self.letter}_term{term} < {terms}",
        ]
        tests += [f"{self.writer.index_text(guard.value)} >= 0" for guard in self.source.guards]
        return " and ".join(tests)

    def stores(self, there: str) -> list[str]:
        """Stores the loaded elements of a thread into the tile at `there`, one term after
        another."""
        lines = [f"{self.letter}_to = {there} + {self.term} * {self.pitch}"]
        for register, slot, points, term in self.elements():
            further = f" + {term} * {self.pitch}" if term else f" + {points}" if points else ""
            lines.append(f"held[{self.letter}_to + {self.offset(slot)}{further}] = {register}")
        return lines

    @property
    def pitch(self) -> str:
        """Returns the stride between the lines of a tile."""
        return f"{self.letter}_pitch"


def _under(test: str, lines: list[str]) -> list[str]:
    return [f"if {test}:", *indented(lines)] if lines else []
