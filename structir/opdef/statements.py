"""Builds index specs: one statement for each choice of joined index variables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.opdef import index_expr
from structir.opdef.index_expr import ElementRef, IndexExpr, IndexVar
from structir.opdef.index_exprs import JoinSelection, LoopIndices, element_name, elements_of
from structir.opdef.notation import AxisIndex, SideCondition
from structir.projections.monoid import MONOIDS
from structir.projections.out_of_bounds import bounded_index
from structir.projections.scalar_expr import ScalarExpr, operands_of
from structir.projections.spec import (
    AccessIndex,
    Condition,
    IndexSpec,
    OperandInfo,
    Read,
    ResultInfo,
    Statement,
    Write,
)
from structir.system.locks import cached_property


@attrs.frozen(eq=False)
class CallTensor:
    """An operand or result of a call: axes with packs expanded, dims and dtype."""

    name: str
    entries: tuple[AxisIndex, ...]
    dims: tuple[Dim, ...]
    dtype: str | None = None
    path: tuple[int, ...] = ()  # of an operand in the arguments
    member: int | None = None  # index in a list of operands or results


@attrs.frozen(eq=False)
class JoinChoice:
    """A choice of one index variable from each join; each choice is one statement."""

    chosen: JoinSelection = attrs.Factory(dict)
    listed: bool = False  # the only join has an index variable per list member

    @property
    def number(self) -> int | None:
        """Returns the chosen list member if the members are joined, else None."""
        return next(iter(self.chosen.values())) if self.listed else None

    @cached_property
    def chosen_vars(self) -> frozenset[str]:
        """Returns the chosen index variables."""
        return frozenset(group[k] for group, k in self.chosen.items())

    @cached_property
    def unchosen_vars(self) -> frozenset[str]:
        """Returns the other index variables of the joins."""
        return frozenset(n for group in self.chosen for n in group) - self.chosen_vars


class NotOneLoopNest(Exception):
    """The results of an index signature are not computed by one loop nest."""


def _with_shared_writes(statements: list[Statement | None]) -> list[Statement | None]:
    """Returns statements that all combine values where one shares elements with another."""
    nonempty = [statement for statement in statements if statement is not None]
    if len(nonempty) < 2 or all(write.unique for s in nonempty for write in s.writes):
        return statements
    return [
        None
        if s is None
        else attrs.evolve(s, writes=tuple([attrs.evolve(w, unique=False) for w in s.writes]))
        for s in statements
    ]


Values = Callable[[JoinChoice, Sequence[CallTensor], int], "tuple[ScalarExpr | None, ...]"]


@attrs.frozen(eq=False)
class SpecBuilder:
    """The builder of the index spec of a call; `values` evaluates the body for a choice."""

    operands: Sequence[CallTensor]  # without omitted ones
    results: Sequence[CallTensor]
    loops: LoopIndices
    on: Sequence[SideCondition]
    values: Values
    monoid: str | None = None
    base: str | None = None
    out_of_bounds: Mapping[str, str] = attrs.Factory(dict)  # policies, by operand

    @cached_property
    def positions(self) -> dict[str, int]:
        """Returns the position of each operand by name."""
        return {tensor.name: k for k, tensor in enumerate(self.operands)}

    def spec(self, fill: Any = 0) -> IndexSpec:
        """Builds the spec."""
        statements = _with_shared_writes([self.statement(choice) for choice in self.choices()])
        return IndexSpec(
            tuple([OperandInfo(t.name, t.path, t.dims, t.dtype) for t in self.operands]),
            tuple([ResultInfo(t.name, t.dims, t.dtype) for t in self.results]),
            {s: self.loops.extent(s) for s in self.loops.symbols.values()},
            tuple([statement for statement in statements if statement is not None]),
            self.unwritten_value(statements, fill),
            None if self.base is None else self.positions[self.base],
        )

    def unwritten_value(self, statements: Sequence[Statement | None], fill: Any) -> Any:
        """Returns the value of unwritten elements: the identity of the reduction, or `fill`."""
        nonempty = [statement for statement in statements if statement is not None]
        is_unique = all(w.unique for c in nonempty for w in c.writes)
        dtype = self.results[0].dtype
        if self.monoid is None or self.base is not None or not is_unique or dtype is None:
            return fill
        return MONOIDS[self.monoid].of_nothing(dtype)

    def choices(self) -> Iterator[JoinChoice]:
        """Yields the choices of joined index variables; one empty choice without joins."""
        tensors = (*self.operands, *self.results)
        joined = [e for t in tensors for e in t.entries if e.join]
        groups = list(dict.fromkeys(e.join for e in joined))
        listed = len(groups) == 1 and joined[0].listed
        for numbers in itertools.product(*[range(len(group)) for group in groups]):
            yield JoinChoice(dict(zip(groups, numbers, strict=True)), listed)

    def statement(self, choice: JoinChoice) -> Statement | None:
        """Returns the statement of a choice, or None if only the fill remains."""
        operands = [t for t in self.operands if self._belongs(t, choice)]
        results = [(k, t) for k, t in enumerate(self.results) if self._belongs(t, choice)]
        if choice.chosen_vars and not (results and self._is_read(operands, choice)):
            return None
        tensors_read = [t for t in operands if t.name != self.base]
        values = self.values(choice, tensors_read, len(results))
        if len(values) != len(results):
            raise NotOneLoopNest
        writes = [
            self._write(k, t, value, choice) for (k, t), value in zip(results, values, strict=True)
        ]
        conditions = tuple([self.loops.condition(condition) for condition in self.on])
        reads = self._needed([self._read(t, choice) for t in tensors_read], writes, choice)
        whole_axes = dict.fromkeys(
            s for t in (*tensors_read, *self.results) for s in self._whole_indices(t)
        )
        parallel = dict.fromkeys(s for _, t in results for s in self._uses(t.entries, choice))
        reduced = {s for s in self._used(reads, writes, conditions) if s not in parallel}
        if self.base is not None:  # scatter: each element read is written
            parallel |= dict.fromkeys(self.loops.in_order(reduced))
            reduced = set()
        return Statement(
            tuple([s for s in parallel if s not in whole_axes]),
            tuple([s for s in self.loops.in_order(reduced) if s not in whole_axes]),
            tuple(whole_axes),
            reads,
            tuple(writes),
            conditions,
            self.monoid,
        )

    # Loop indices of a choice

    def _uses(self, entries: Iterable[AxisIndex], choice: JoinChoice) -> Iterator[Sym]:
        """Yields the loop indices of an access in order, including those of elements in indices."""
        for entry in entries:
            if entry.join:
                yield self.loops.symbol(entry.join[choice.chosen[entry.join]])
            elif entry.index is not None:
                yield from self._uses_of(entry.index, choice)

    def _uses_of(self, expr: IndexExpr, choice: JoinChoice) -> Iterator[Sym]:
        for leaf in index_expr.leaves(expr):
            if isinstance(leaf, IndexVar):
                yield self.loops.symbol(leaf.name)
            elif isinstance(leaf, ElementRef) and leaf.at is None:
                yield from self._uses(self.operands[self.positions[leaf.operand]].entries, choice)

    def _belongs(self, tensor: CallTensor, choice: JoinChoice) -> bool:
        """Returns whether the statement of a choice accesses a tensor."""
        is_listed = tensor.member is not None and choice.number is not None
        if is_listed and tensor.member != choice.number:  # the common case for long lists
            return False
        if not choice.unchosen_vars:
            return True
        return not any(s.name in choice.unchosen_vars for s in self._uses(tensor.entries, choice))

    def _is_read(self, operands: list[CallTensor], choice: JoinChoice) -> bool:
        """Returns whether operands have the chosen index variables, or a list member is read."""
        used = {s.name for t in operands for s in self._uses(t.entries, choice)}
        has_member = choice.listed and any(t.member is not None for t in operands)
        return has_member or choice.chosen_vars <= used

    def _whole_indices(self, tensor: CallTensor) -> list[Sym]:
        indices = [e.index for e in tensor.entries if e.whole]
        return [self.loops.symbol(i.name) for i in indices if isinstance(i, IndexVar)]

    # Accesses

    def _entries(self, tensor: CallTensor, choice: JoinChoice) -> tuple[AccessIndex, ...]:
        pairs = zip(tensor.entries, tensor.dims, strict=True)
        return tuple([self.loops.entry(e, size, choice.chosen) for e, size in pairs])

    def _read(self, tensor: CallTensor, choice: JoinChoice) -> Read:
        entries = self._entries(tensor, choice)
        policy = self.out_of_bounds.get(tensor.name)
        if policy is not None:
            entries = tuple([bounded_index(entry, policy, tensor.name) for entry in entries])
        return Read(tensor.name, self.positions[tensor.name], entries)

    def _element_read(self, element: ElementRef, choice: JoinChoice) -> Read:
        position = self.positions[element.operand]
        tensor = self.operands[position]
        if element.at is None:
            return self._read(tensor, choice)
        pairs = zip(element.at, tensor.dims, strict=True)
        entries = [self.loops.entry(AxisIndex(at, None), size, choice.chosen) for at, size in pairs]
        return Read(element_name(element), position, tuple(entries))

    def _write(
        self, result: int, tensor: CallTensor, value: ScalarExpr | None, choice: JoinChoice
    ) -> Write:
        entries = self._entries(tensor, choice)
        indices = list(self._uses(tensor.entries, choice))
        unique = self.loops.injective(entries, indices) and self._is_separate(tensor, choice)
        return Write(result, entries, value, unique)

    def _is_separate(self, tensor: CallTensor, choice: JoinChoice) -> bool:
        """Returns whether the statements of other choices write other elements of a result."""
        names = {symbol.name for symbol in self._uses(tensor.entries, choice)}
        return choice.listed or all(
            group[position] in names for group, position in choice.chosen.items()
        )

    def _needed(
        self, reads: list[Read], writes: list[Write], choice: JoinChoice
    ) -> tuple[Read, ...]:
        """Returns the reads that values or indices use, and those that may be out of range."""
        if any(write.value is None for write in writes):
            return tuple(reads)
        elements = self._elements()
        by_name = {read.name: read for read in reads}
        needed = {r.name: r for r in reads if not all(e.inside for e in r.entries)}
        worklist = [w.value for w in writes if w.value is not None]
        accesses = [w.entries for w in writes] + [r.entries for r in needed.values()]
        worklist += [e.data for entries in accesses for e in entries if e.data is not None]
        while worklist:
            for name in operands_of(worklist.pop()) - needed.keys():
                read = by_name.get(name) or self._element_read(elements[name], choice)
                needed[name] = read
                worklist += [e.data for e in read.entries if e.data is not None]
        return tuple(
            [
                *[r for r in reads if r.name in needed],
                *[r for n, r in needed.items() if n not in by_name],
            ]
        )

    def _elements(self) -> dict[str, ElementRef]:
        """Returns the elements of operands in indices, by name."""
        elements: dict[str, ElementRef] = {}
        worklist = [entry for t in (*self.operands, *self.results) for entry in t.entries]
        while worklist:
            new = elements_of(worklist)
            elements |= new
            worklist = [AxisIndex(at, None) for e in new.values() for at in e.at or ()]
        return elements

    def _used(
        self, reads: tuple[Read, ...], writes: list[Write], conditions: tuple[Condition, ...]
    ) -> set[Sym]:
        indices = [e.index_vars for r in reads for e in r.entries]
        indices += [w.index_vars for w in writes]
        sides = [dims.syms(side) for c in conditions for side in (c.left, c.right)]
        return set().union(*indices, *sides)
