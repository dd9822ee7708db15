"""The state of the data flow at one statement: definitions that reach it, and known scalars."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import attrs

from structir.ir.dims import Dim
from structir.ir.kernel import Local
from structir.projections.kernels.definitions import Definition, KernelLoop, Reaching, Target

NO_DEFINITIONS: frozenset[Reaching] = frozenset()


@attrs.frozen(eq=False)
class FlowState:
    """The definitions of each scalar and array that reach a statement, and the scalars that are
    known as dims.
    """

    definitions: Mapping[Target, frozenset[Reaching]]
    values: Mapping[Local, Dim | None]

    def reaching(self, target: Target) -> frozenset[Reaching]:
        """Returns the definitions of a scalar or of elements of an array."""
        return self.definitions.get(target, NO_DEFINITIONS)

    def defined(self, definition: Definition, value: Dim | None) -> FlowState:
        """Returns the state after a definition.

        A scalar has no other definition then. An element has no other one of this iteration.
        """
        target = definition.target
        if isinstance(target, Local):
            definitions = {**self.definitions, target: frozenset([Reaching(definition)])}
            return FlowState(definitions, {**self.values, target: value})
        others = [r for r in self.reaching(target) if not _overwrites(definition, r)]
        stored = frozenset([*others, Reaching(definition)])
        return FlowState({**self.definitions, target: stored}, self.values)

    def known(self, variable: Local, value: Dim | None) -> FlowState:
        """Returns the state with the value of a loop variable."""
        definitions = {**self.definitions, variable: NO_DEFINITIONS}
        return FlowState(definitions, {**self.values, variable: value})

    def allocated(self, target: Target) -> FlowState:
        """Returns the state after the allocation of an array."""
        return FlowState({**self.definitions, target: NO_DEFINITIONS}, self.values)

    def forget(self, variables: Collection[Local]) -> FlowState:
        """Returns the state without the values of some scalars."""
        return FlowState(self.definitions, {**self.values, **dict.fromkeys(variables)})

    def mapped(self, change: Callable[[Reaching], Reaching]) -> FlowState:
        """Returns the state with each definition changed."""
        changed = {
            target: frozenset(map(change, reaching))
            for target, reaching in self.definitions.items()
        }
        return FlowState(changed, self.values)

    def only(self, target: Target, inside: KernelLoop, depth: int) -> FlowState:
        """Returns the state without the definitions of an array outside of a loop."""
        inner = [
            r
            for r in self.reaching(target)
            if inside in r.definition.loops and (r.shared is None or r.shared >= depth)
        ]
        return FlowState({**self.definitions, target: frozenset(inner)}, self.values)


def _overwrites(definition: Definition, other: Reaching) -> bool:
    """Whether an element store replaces the value of another one."""
    earlier = other.definition
    same_iteration = other.shared is None and earlier.loops == definition.loops
    return (
        same_iteration
        and None not in definition.indices
        and (earlier.indices == definition.indices)
    )


def join(first: FlowState | None, second: FlowState | None) -> FlowState | None:
    """Returns the state where two paths meet; None stands for an unreachable end."""
    if first is None or second is None or first is second:
        return second if first is None else first
    definitions = {
        target: first.reaching(target) | second.reaching(target)
        for target in {**first.definitions, **second.definitions}
    }
    values = {
        local: value if local in second.values and second.values[local] == value else None
        for local, value in first.values.items()
    }
    return FlowState(definitions, {**dict.fromkeys(second.values), **values})
