"""Dependence paths of a kernel: from each store of a result back to the operand elements it reads.

Each path is one statement of an index spec: the write of the store, the read at its end, and the
conditions under which the iterations along the path depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.projections.kernels.definitions import (
    Definition,
    Indices,
    KernelFlow,
    Reaching,
    Use,
)
from structir.projections.kernels.index_bounds import Ranges, bounds
from structir.projections.kernels.instances import (
    FREE,
    ORDERED,
    DefinitionInstance,
    Infeasible,
    InstanceBuilder,
    Key,
    ReachingUse,
    accumulates,
)
from structir.projections.spec import Condition

PATHS = 400  # limits of one kernel
STEPS = 4000


class TooManyPaths(Exception):
    """A kernel whose dependence paths exceed the limits of the analysis."""


@attrs.frozen(eq=False)
class Path:
    """A read of an operand that a store depends on.

    The indices of the store are over the index variables of its loops. Those of the read, and the
    conditions, may also contain the index variables `inner`. None is a data-dependent index.
    """

    store: Definition
    operand: Var
    indices: Indices
    conditions: tuple[Condition, ...]
    inner: tuple[Sym, ...]
    exact: bool
    use: Use


@attrs.frozen(eq=False)
class Visit:
    """A definition that a store depends on, at the iterations of its loops."""

    result: int
    store: Definition
    definition: Definition
    iterations: tuple[tuple[Sym, Dim], ...]
    conditions: tuple[Condition, ...]
    inner: tuple[Sym, ...]


class PathFinder:
    """The search for the paths of one kernel."""

    def __init__(self, flow: KernelFlow, operands: Sequence[Var]) -> None:
        self.flow = flow
        self.operands = frozenset(operands)
        self.instances = InstanceBuilder(dict(flow.extents))
        self.paths: dict[object, Path] = {}
        self.visits: list[Visit] = []
        self.result = 0
        self.seen: set[object] = set()
        self.steps = count()

    def run(self) -> tuple[tuple[Path, ...], ...]:
        """Returns the paths of each result. Raises TooManyPaths where they exceed the limits."""
        paths = []
        for result, reaching in enumerate(self.flow.results):
            self.result = result
            paths.append(self._of_result(reaching))
        return tuple(paths)

    def _of_result(self, reaching: frozenset[Reaching]) -> tuple[Path, ...]:
        self.paths = {}
        stores = sorted({r.definition for r in reaching}, key=lambda d: str(d.span))
        for store in dict.fromkeys(stores):
            self.seen = set()
            try:
                root = self.instances.root(store)
            except Infeasible:  # it is never run
                continue
            root = attrs.evolve(root, exact=root.exact and self._is_certain(store, reaching))
            self._expand(store, root, {store: root.key})
        return tuple(self.paths.values())

    def _expand(
        self,
        root: Definition,
        instance: DefinitionInstance,
        visited: Mapping[Definition, Key],
    ) -> None:
        """Follows the uses of a definition at an instance."""
        definition = instance.definition
        key = (definition, instance.key, frozenset(instance.conditions))
        if key in self.seen:
            return
        self.seen.add(key)
        iterations = tuple(instance.values.items())
        visit = Visit(
            self.result, root, definition, iterations, instance.conditions, instance.inner
        )
        self.visits.append(visit)
        if next(self.steps) > STEPS or len(self.paths) > PATHS:
            raise TooManyPaths
        jumps = [use for loop in definition.loops for use in loop.jump_uses]
        for use in (*definition.uses, *jumps):
            try:
                self._follow(root, use, self.instances.at_use(instance, use), visited)
            except Infeasible:
                continue

    def _follow(
        self,
        root: Definition,
        use: Use,
        instance: DefinitionInstance,
        visited: Mapping[Definition, Key],
    ) -> None:
        """Follows a use to the operand that it reads, or to the definitions that reach it."""
        if use.target in self.operands:
            self._add(root, use, instance)
            return
        all_reaching = self.flow.stores.get(use.target, use.reaching)
        for reaching in all_reaching:
            exact = instance.exact and self._is_certain(reaching.definition, all_reaching)
            at_use = instance if exact else attrs.evolve(instance, exact=False)
            self._follow_definition(root, ReachingUse(use, reaching), at_use, visited)

    def _is_certain(self, definition: Definition, reaching: frozenset[Reaching]) -> bool:
        """Whether no other store may replace the value of a definition."""
        others = {r.definition for r in reaching if r.definition.uses} - {definition}
        if not others or accumulates(definition):
            return True
        ranges = {s: (0, extent - 1) for s, extent in self.instances.extents.items()}
        return all([_are_disjoint(definition.indices, o.indices, ranges) for o in others])

    def _follow_definition(
        self,
        root: Definition,
        link: ReachingUse,
        instance: DefinitionInstance,
        visited: Mapping[Definition, Key],
    ) -> None:
        definition = link.reaching.definition
        before = visited.get(definition)
        try:
            reached = self.instances.through(instance, link)
            if before is not None:
                widened = _widened(before, reached.key)
                if widened == before:
                    return
                reached = self.instances.through(instance, link, widened)
        except Infeasible:
            return
        self._expand(root, reached, {**visited, definition: reached.key})

    def _add(self, root: Definition, use: Use, instance: DefinitionInstance) -> None:
        assert isinstance(use.target, Var)
        indices = instance.renamed_all(use.indices)
        inner = tuple(instance.inner)
        path = Path(root, use.target, indices, instance.conditions, inner, instance.exact, use)
        self.paths.setdefault((root, use.target, indices, frozenset(instance.conditions)), path)


def _are_disjoint(first: Indices, second: Indices, ranges: Ranges) -> bool:
    """Whether two stores never write the same element."""
    for a, b in zip(first, second, strict=True):
        low = None if a is None else bounds(a, ranges)
        high = None if b is None else bounds(b, ranges)
        if low is None or high is None:
            continue
        if dims.at_least(high[0] - low[1], 1) or dims.at_least(low[0] - high[1], 1):
            return True
    return False


def _widened(before: Key, after: Key) -> Key:
    """Returns the description of a further visit, without the equations that differ."""
    return tuple([_wider(a, b) for a, b in zip(before, after, strict=True)])


def _wider(before: object, after: object) -> object:
    if before in (FREE, ORDERED) or before == after:
        return before
    return ORDERED if after is ORDERED else FREE
