"""Instances of definitions: the iterations of their loops, in terms of those of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from enum import Enum

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import Local
from structir.projections.kernels.definitions import (
    Definition,
    Indices,
    KernelLoop,
    Reaching,
    Use,
    common_loops,
)
from structir.projections.kernels.index_bounds import bounds
from structir.projections.spec import Condition


class Iterations(Enum):
    """The iterations of a loop in which an instance may be."""

    SAME = "same"  # of a loop without an index
    FREE = "free"  # any
    ORDERED = "ordered"  # any earlier one


FREE, ORDERED, SAME = Iterations.FREE, Iterations.ORDERED, Iterations.SAME
Key = tuple[object, ...]  # per loop: a dim, an equation, or Iterations


class Infeasible(Exception):
    """Conditions that no iteration satisfies."""


@attrs.frozen(eq=False)
class ReachingUse:
    """A use, and one of the definitions that reach it."""

    use: Use
    reaching: Reaching


@attrs.frozen(eq=False)
class DefinitionInstance:
    """A definition in some iterations of its loops.

    `values` gives the number of the iteration of each loop, over the index variables of the store
    and `inner`; `key` describes it per loop.
    """

    definition: Definition
    values: Mapping[Sym, Dim]
    key: Key
    conditions: tuple[Condition, ...] = ()
    inner: tuple[Sym, ...] = ()
    exact: bool = True

    def renamed(self, index: Dim | None) -> Dim | None:
        """Returns an index at this instance."""
        if index is None or isinstance(index, int):
            return index
        return dims.substitute(index, self.values)

    def renamed_all(self, indices: Indices) -> Indices:
        """Returns the indices of an element at this instance."""
        return tuple([self.renamed(index) for index in indices])


@attrs.define(eq=False)
class InstanceBuilder:
    """A builder of instances; `extents` are those of all index variables."""

    extents: dict[Sym, Dim]
    copies: dict[tuple[Sym, int], Sym] = attrs.Factory(dict)

    def root(self, store: Definition) -> DefinitionInstance:
        """Returns a store in an arbitrary iteration."""
        index_vars = [loop.index for loop in store.loops if loop.index is not None]
        values: dict[Sym, Dim] = {s: dims.as_dim(s) for s in index_vars}
        in_store = {s for index in store.indices if index is not None for s in dims.syms(index)}
        key = tuple(
            [FREE if loop.index not in in_store else values[loop.index] for loop in store.loops]
        )
        root = DefinitionInstance(store, values, key, exact=not _may_skip(store))
        return self._constrained(root, _conditions(store))

    def at_use(self, instance: DefinitionInstance, use: Use) -> DefinitionInstance:
        """Returns an instance at one of its uses, which may be in any iteration of some loops."""
        if use.free_from is None:
            return self._constrained(instance, use.conditions)
        values, inner = dict(instance.values), list(instance.inner)
        key = list(instance.key)
        for depth, loop in enumerate(use.loops):
            if depth >= use.free_from:
                key[depth : depth + 1] = [FREE]
                if loop.index is not None:
                    values[loop.index] = dims.as_dim(self._fresh(loop.index, inner))
        freed = attrs.evolve(
            instance, values=values, inner=tuple(inner), key=tuple(key), exact=False
        )
        conditions = [c for loop in use.loops for c in loop.conditions]
        freed = self._constrained(freed, (*conditions, *use.conditions))
        outer = use.loops[use.free_from].index if use.free_from < len(use.loops) else None
        if outer is None or not use.until_here:
            return freed
        order = Condition("le", values[outer], instance.values[outer])
        return self._constrained(freed, [order], False)

    def through(
        self, instance: DefinitionInstance, link: ReachingUse, widened: Key | None = None
    ) -> DefinitionInstance:
        """Returns the instance of a definition that reaches a use.

        Equations for the loops that are not dims in `widened` are dropped.
        """
        use, reaching = link.use, link.reaching
        definition = reaching.definition
        shared = common_loops(use.loops, definition.loops)
        shared = shared if reaching.shared is None else min(shared, reaching.shared)
        inner = list(instance.inner)
        values: dict[Sym, Dim] = {}
        fresh: dict[Sym, KernelLoop] = {}
        for depth, loop in enumerate(definition.loops):
            if loop.index is None:
                continue
            if depth < shared:
                values[loop.index] = instance.values[loop.index]
            else:
                copy = self._fresh(loop.index, inner)
                values[loop.index] = dims.as_dim(copy)
                fresh[copy] = loop
        order = _order(instance, link, values, shared)
        reached = DefinitionInstance(definition, values, (), instance.conditions, tuple(inner))
        equations = list(_equations(instance, link, reached))
        free = _free_variables(definition, values, fresh, widened)
        kept = [(a, b) for a, b in equations if not (dims.syms(a) | dims.syms(b)) & free]
        exact = instance.exact and len(kept) == len(equations)
        kept += [(a, b) for a, b in _previous(link, order) if not dims.syms(a) & free]
        solution, open_equations = _solve(kept, set(fresh) - free)
        values = {s: _substituted(value, solution) for s, value in values.items()}
        unsolved = fresh.keys() - solution.keys()
        exact = exact and (not unsolved or accumulates(definition)) and not _may_skip(definition)
        reached = attrs.evolve(
            reached,
            values=values,
            key=_key(definition, values, shared, unsolved, order, open_equations),
            inner=tuple([s for s in inner if s not in solution]),
            exact=exact,
        )
        conditions = [Condition("eq", a, b) for a, b in open_equations]
        conditions += [Condition("ge", v, 0) for v in solution.values()]
        conditions += [Condition("lt", v, self.extents[s]) for s, v in solution.items()]
        conditions += [Condition("lt", _substituted(a, solution), b) for a, b in order]
        return self._constrained(
            self._constrained(reached, conditions, False), _conditions(definition)
        )

    def _fresh(self, index: Sym, inner: list[Sym]) -> Sym:
        """Returns an unused copy of an index variable."""
        number = 0
        while True:
            copy = self.copies.get((index, number))
            if copy is None:
                copy = self.copies[index, number] = Sym(f"{index.name}_{number + 1}")
                self.extents[copy] = self.extents[index]
            if copy not in inner:
                inner.append(copy)
                return copy
            number += 1

    def _constrained(
        self, instance: DefinitionInstance, conditions: Iterable[Condition], renames: bool = True
    ) -> DefinitionInstance:
        """Returns an instance under more conditions. Raises Infeasible if none satisfies them."""
        known = dict.fromkeys(instance.conditions)
        ranges = {s: (0, extent - 1) for s, extent in self.extents.items()}
        for condition in conditions:
            left, right = condition.left, condition.right
            if renames:
                left, right = instance.renamed(left), instance.renamed(right)  # type: ignore[assignment]
            holds = _truth(condition.op, left, right, ranges)
            if holds is False:
                raise Infeasible
            if holds is None:
                known[Condition(condition.op, left, right)] = None
        return attrs.evolve(instance, conditions=tuple(known))


def _conditions(definition: Definition) -> list[Condition]:
    """Returns the conditions under which a definition is executed."""
    return [*[c for loop in definition.loops for c in loop.conditions], *definition.conditions]


def _may_skip(definition: Definition) -> bool:
    """Whether a loop of a definition may skip iterations."""
    return any([loop.jumps for loop in definition.loops])


def _order(
    instance: DefinitionInstance, link: ReachingUse, values: Mapping[Sym, Dim], shared: int
) -> list[tuple[Dim, Dim]]:
    """Returns the numbers of an earlier and a later iteration of the loop that carries a value."""
    use, reaching = link.use, link.reaching
    if not reaching.ordered or shared >= min(len(use.loops), len(reaching.definition.loops)):
        return []
    loop = reaching.definition.loops[shared]
    if reaching.shared != shared or use.loops[shared] is not loop or loop.index is None:
        return []
    return [(values[loop.index], instance.values[loop.index])]


def _equations(
    instance: DefinitionInstance, link: ReachingUse, reached: DefinitionInstance
) -> Iterator[tuple[Dim, Dim]]:
    """Yields the equations of the indices of a stored and a read element."""
    stored = reached.renamed_all(link.reaching.definition.indices)
    for a, b in zip(stored, instance.renamed_all(link.use.indices), strict=True):
        if a is not None and b is not None and a != b:
            yield a, b


def _previous(link: ReachingUse, order: Sequence[tuple[Dim, Dim]]) -> Iterator[tuple[Dim, Dim]]:
    """Yields the equation of a scalar that each iteration of the loop assigns."""
    definition, depth = link.reaching.definition, link.reaching.shared
    if not isinstance(definition.target, Local) or depth is None or not order:
        return
    if len(definition.loops) == depth + 1 and definition.certain <= depth:
        for earlier, later in order:
            yield earlier, later - 1


def _free_variables(
    definition: Definition,
    values: Mapping[Sym, Dim],
    fresh: Mapping[Sym, KernelLoop],
    widened: Key | None,
) -> set[Sym]:
    """Returns the fresh index variables that equations must not determine."""
    if widened is None:
        return set()
    loops = [loop for loop, key in zip(definition.loops, widened, strict=True) if _is_wide(key)]
    symbols = [dims.as_sym(values[loop.index]) for loop in loops if loop.index is not None]
    return {s for s in symbols if s is not None and s in fresh}


def _is_wide(key: object) -> bool:
    return isinstance(key, Iterations)


def _solve(
    equations: Sequence[tuple[Dim, Dim]], unknown: set[Sym]
) -> tuple[dict[Sym, Dim], list[tuple[Dim, Dim]]]:
    """Solves equations for fresh index variables; returns those that remain."""
    solution: dict[Sym, Dim] = {}
    remaining: list[tuple[Dim, Dim]] = []
    for left, right in equations:
        difference = _substituted(left - right, solution)
        if difference == 0:
            continue
        solved = _isolated(difference, unknown - solution.keys())
        if solved is None:
            remaining.append((_substituted(left, solution), _substituted(right, solution)))
            continue
        index_var, value = solved
        solution = {s: _substituted(v, {index_var: value}) for s, v in solution.items()}
        solution[index_var] = value
    return solution, [(_substituted(a, solution), _substituted(b, solution)) for a, b in remaining]


def _isolated(difference: Dim, unknown: set[Sym]) -> tuple[Sym, Dim] | None:
    """Returns an index variable of factor 1 or -1, and its value where the difference is 0."""
    for index_var in sorted(dims.syms(difference) & unknown, key=lambda s: s.order):
        form = dims.linear(difference, index_var)
        if form is not None and form[0] in (1, -1):
            return index_var, form[1] * -form[0]
    return None


def _substituted(dim: Dim, solution: Mapping[Sym, Dim]) -> Dim:
    return dim if isinstance(dim, int) or not solution else dims.substitute(dim, solution)


def _key(
    definition: Definition,
    values: Mapping[Sym, Dim],
    shared: int,
    fresh: Set[Sym],
    order: Sequence[tuple[Dim, Dim]],
    equations: Sequence[tuple[Dim, Dim]],
) -> Key:
    """Returns the description of an instance, per loop."""
    earlier = {dims.as_sym(a) for a, _ in order}
    key: list[object] = []
    for depth, loop in enumerate(definition.loops):
        if loop.index is None:
            key.append(SAME if depth < shared else FREE)
            continue
        value = values[loop.index]
        index_var = dims.as_sym(value)
        tied = [e for e in equations if index_var in dims.syms(e[0]) | dims.syms(e[1])]
        if tied or index_var not in fresh:
            key.append((value, *tied) if tied else value)
        else:
            key.append(ORDERED if index_var in earlier else FREE)
    return tuple(key)


def accumulates(definition: Definition) -> bool:
    """Whether a definition reads its own target: each of its instances contributes."""
    return any(use.target is definition.target for use in definition.uses)


def _truth(op: str, left: Dim, right: Dim, ranges: Mapping[Sym, tuple[Dim, Dim]]) -> bool | None:
    """Returns whether a condition holds in all iterations, or in none; None if in some."""
    reach = bounds(left - right, ranges)
    if reach is None:
        return None
    low, high = reach
    above, below = dims.at_least(low, 1), dims.at_least(-1, high)
    not_below, not_above = dims.at_least(low, 0), dims.at_least(0, high)
    match op:
        case "lt":
            return True if below else False if not_below else None
        case "le":
            return True if not_above else False if above else None
        case "gt":
            return True if above else False if not_above else None
        case "ge":
            return True if not_below else False if below else None
        case "eq":
            return False if above or below else True if low == high == 0 else None
    return True if above or below else False if low == high == 0 else None
