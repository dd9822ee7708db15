"""Reaching definitions of a kernel: which assignments each read of a scalar or element sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from structir.errors import Span
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    SHARED,
    Apply,
    Assign,
    Branch,
    Break,
    Continue,
    Element,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Local,
    Part,
    Prefetch,
    Scalar,
    Scratch,
    Sync,
    While,
    assigned_value,
    nodes_of,
)
from structir.ir.kernel_functions import OF_LANES
from structir.projections.kernels.affine_scalars import as_index, implied
from structir.projections.kernels.coverage import covering_stores
from structir.projections.kernels.definitions import (
    DataIndex,
    Definition,
    Indices,
    KernelFlow,
    KernelLoop,
    LoopValue,
    Reaching,
    Target,
    Use,
)
from structir.projections.kernels.flat_indices import flat_indices
from structir.projections.kernels.flow_state import FlowState, join
from structir.projections.kernels.library_calls import library_accesses
from structir.projections.kernels.loop_ranges import UNKNOWN, LoopRange, loop_range
from structir.projections.spec import Condition

VISITS = 20_000  # limit of visited statements: each loop visits its body twice
LANES = frozenset([row.name for row in OF_LANES])


class TooComplex(Exception):
    """A kernel whose data flow exceeds the limits of the analysis."""


@attrs.frozen(eq=False)
class Place:
    """The position of a statement: its loops, and the conditions and uses that control it.

    The statement executes in each iteration of the loops from depth `certain` on. `path` identifies
    it.
    """

    loops: tuple[KernelLoop, ...] = ()
    conditions: tuple[Condition, ...] = ()
    uses: tuple[Use, ...] = ()
    certain: int = 0
    path: tuple[int, ...] = ()

    def at(self, position: int) -> Place:
        """Returns the place of a statement of this block."""
        return attrs.evolve(self, path=(*self.path, position))

    def inside(self, loop: KernelLoop, jumps: bool = False) -> Place:
        """Returns the place in the body of a loop; `jumps` states whether it may be left early."""
        depth = len(self.loops)
        certain = depth + 1 if jumps else min(self.certain, depth)
        return attrs.evolve(self, loops=(*self.loops, loop), certain=certain)

    def where(self, conditions: Sequence[Condition], uses: Sequence[Use] = ()) -> Place:
        """Returns the place in a branch."""
        return attrs.evolve(
            self,
            conditions=(*self.conditions, *conditions),
            uses=(*self.uses, *uses),
            certain=len(self.loops) + 1,
        )


@attrs.define(eq=False)
class LoopExits:
    """The states at the `break` and `continue` statements of a loop, and the uses that control
    them."""

    loop: KernelLoop
    depth: int
    uses: list[Use] = attrs.Factory(list)
    count: int = 0
    broken: FlowState | None = None
    continued: FlowState | None = None


def flow_of(kernel: Kernel) -> KernelFlow:
    """Returns the data flow of a kernel; raises TooComplex if it exceeds the limits."""
    return DataFlow(kernel).run()


class DataFlow:
    """The analysis of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.definitions: dict[tuple[int, ...], Definition] = {}
        self.loops: dict[tuple[object, ...], KernelLoop] = {}
        self.symbols: dict[tuple[object, ...], Sym] = {}
        self.extents: dict[Sym, Dim] = {}
        self.notes: dict[tuple[object, ...], DataIndex] = {}
        self.loop_values: dict[tuple[int, ...], LoopValue] = {}
        self.exits: list[LoopExits] = []
        self.visits = 0

    def run(self) -> KernelFlow:
        """Visits the kernel, and returns the definitions of each result at its end."""
        state, place = self._launched()
        end = self.block(self.kernel.body, state, place) or FlowState({}, {})
        stores = {} if self.kernel.blocks is None else self._stores()
        results = [stores.get(p, end.reaching(p)) for p in self.kernel.results]
        return KernelFlow(
            tuple(results), self.extents, stores, tuple(self.notes.values()), self.loop_values
        )

    # ---- GPU kernels: a loop over blocks, and one over threads

    def _launched(self) -> tuple[FlowState, Place]:
        place = Place()
        values: dict[Any, Dim | None] = {}
        if self.kernel.blocks is not None:
            counts = (("block", self.kernel.blocks.dim), ("thread", self.kernel.threads))
            for name, extent in counts:
                index = self._symbol((), name, extent)
                place = place.inside(KernelLoop(index, extent))
                values |= {name: dims.as_dim(index), f"{name}s": extent}
        return FlowState({}, values), place

    def _stores(self) -> dict[Target, frozenset[Reaching]]:
        """Returns all stores of each array, since the order of stores of several threads is
        unknown."""
        local = {s.array for s in nodes_of(self.kernel) if isinstance(s, Scratch)}
        stores: dict[Target, list[Reaching]] = {}
        for definition in self.definitions.values():
            if isinstance(definition.target, Var):
                shared = 1 if definition.target in local else 0  # by the threads of one block
                stores.setdefault(definition.target, []).append(Reaching(definition, shared))
        return {target: frozenset(each) for target, each in stores.items()}

    # ---- statements

    def block(
        self, statements: Sequence[KernelStatement], state: FlowState | None, place: Place
    ) -> FlowState | None:
        """Visits statements in order; returns the state after them, None if they never end."""
        for position, statement in enumerate(statements):
            if state is None:
                return None
            self.visits += 1
            if self.visits > VISITS:
                raise TooComplex
            exits = self.exits[-1] if self.exits else None
            before = (exits.count, len(exits.uses)) if exits is not None else (0, 0)
            after = VISITORS[type(statement)](self, statement, state, place.at(position))
            if exits is not None and exits.count > before[0]:
                place = place.where(implied_by_jump(statement, state), exits.uses[before[1] :])
            state = after
        return state

    def assign(self, assign: Assign, state: FlowState, place: Place) -> FlowState:
        """Visits an assignment of a scalar or an element."""
        target = assign.target
        value = assigned_value(assign)
        if isinstance(target, Local):
            index = as_index(value, state.values)
            uses = self.uses(value, state, place) if index is None else []
            return state.defined(self._definition(target, (), uses, place, assign), index)
        indices = self.indices(target, state, place, writes=True)
        uses = [*self.uses(value, state, place), *self._index_uses(target, state, place)]
        return state.defined(self._definition(target.array, indices, uses, place, assign), None)

    def _definition(
        self,
        target: Target,
        indices: Indices,
        uses: Sequence[Use],
        place: Place,
        statement: KernelStatement,
    ) -> Definition:
        key = place.path
        definition = self.definitions.setdefault(key, Definition(target, place.loops))
        definition.loops, definition.indices = place.loops, indices
        definition.uses = (*place.uses, *uses)
        definition.conditions, definition.certain = place.conditions, place.certain
        definition.span = statement.span
        return definition

    def allocate(self, scratch: Scratch, state: FlowState, place: Place) -> FlowState:
        """Visits the allocation of a scratch array."""
        return state if scratch.space == SHARED else state.allocated(scratch.array)

    def part(self, part: Part, state: FlowState, place: Place) -> FlowState:
        """Visits `low, high = T.part(n)`: two unknown numbers from 0 to n."""
        for local in (part.low, part.high):
            index = self._symbol(place.path, local.name, part.extent + 1)
            state = state.known(local, dims.as_dim(index))
        return state

    def library_call(self, call: LibraryCall, state: FlowState, place: Place) -> FlowState:
        """Visits a library call: loops over the elements of its regions."""
        accesses = library_accesses(call, state.values, lambda name: self._symbol(place.path, name))
        inner = place
        for symbol, extent in accesses.loops:
            self.extents[symbol] = extent
            loop = self.loops.setdefault((*place.path, symbol.name), KernelLoop(symbol))
            loop.extent = extent
            inner = inner.inside(loop)
        scalars = [s for a in call.args for s in (a.indices if isinstance(a, Element) else (a,))]
        unknown = [s for s in scalars if as_index(s, state.values) is None]
        uses = [use for scalar in unknown for use in self.uses(scalar, state, place)]
        for element, index in accesses.reads:
            indices = flat_indices(element.array, index, self.ranges())
            self._note(element, indices, False)
            uses.append(self._use(element.array, indices, state, inner, element.span))
        indices = flat_indices(call.written.array, accesses.written, self.ranges())
        self._note(call.written, indices, True)
        definition = self._definition(call.written.array, indices, uses, inner, call)
        return state.defined(definition, None)

    def loop(self, loop: For | While, state: FlowState, place: Place) -> FlowState | None:
        """Visits a loop: once for its definitions, and once with those of earlier iterations."""
        node, reach = self._enter(loop, state, place)
        before = state
        state = state.forget(_assigned(loop))
        kinds = {type(statement) for statement in _jumps(loop.body)}
        jumps = bool(kinds)
        if Break in kinds:  # its iterations decide each other: all are run
            self.loop_values.pop(place.path, None)
        node.covers, node.jumps = reach.covers and not jumps, Break in kinds
        outer, depth = place.inside(node, jumps), len(place.loops)
        head: FlowState | None = state
        ends: list[FlowState | None] = []
        for _ in range(2):
            node.jump_uses.clear()
            exits = LoopExits(node, depth)
            self.exits.append(exits)
            start, inner = self._iteration(loop, reach, head or state, outer)
            end = self.block(loop.body, start, inner)
            self.exits.pop()
            again = join(end, exits.continued)
            head = join(state, again and again.mapped(lambda r: _carried(r, node, depth)))
            ends = [again, exits.broken]
        after = join(*ends)
        return self._leave(loop, node, before, after and _left(after, loop, depth), depth)

    def _iteration(
        self, loop: For | While, reach: LoopRange, state: FlowState, place: Place
    ) -> tuple[FlowState, Place]:
        """Returns the state and the place at the start of an iteration."""
        if isinstance(loop, While):
            uses = self.uses(loop.test, state, place)
            return state, attrs.evolve(place, uses=(*place.uses, *uses))
        uses = [] if reach.value is not None else self._bounds_uses(loop, state, place)
        inner = attrs.evolve(place, uses=(*place.uses, *uses))
        if reach.value is not None:
            return state.known(loop.variable, reach.value), inner
        definition = self._definition(loop.variable, (), (), inner, loop)
        return state.defined(definition, None), inner

    def _bounds_uses(self, loop: For, state: FlowState, place: Place) -> list[Use]:
        """Returns the uses of bounds that depend on data."""
        outer = attrs.evolve(place, loops=place.loops[:-1])
        return [u for s in (loop.start, loop.stop) for u in self.uses(s, state, outer)]

    def _enter(
        self, loop: For | While, state: FlowState, place: Place
    ) -> tuple[KernelLoop, LoopRange]:
        """Returns the node of a loop, and the range of its iterations."""
        node = self.loops.setdefault(place.path, KernelLoop(None))
        if isinstance(loop, While):
            return node, UNKNOWN
        index = self._symbol(place.path, loop.variable.name)
        reach = loop_range(loop, state.values, index, self.ranges())
        node.index, node.extent, node.conditions = reach.index, reach.extent, reach.conditions
        if reach.index is not None:
            self.extents[reach.index] = reach.extent
        if reach.index is not None and reach.value is not None:
            value = LoopValue(reach.index, reach.value, loop.step)
            self.loop_values[place.path] = value
        return node, reach

    def _leave(
        self,
        loop: For | While,
        node: KernelLoop,
        before: FlowState,
        after: FlowState | None,
        depth: int,
    ) -> FlowState | None:
        """Returns the state after a loop, which may have had no iteration."""
        if after is None:
            return before
        covered = {d.target for d in covering_stores(after, node, depth, self.ranges())}
        for target in covered:
            after = after.only(target, node, depth)
        if node.covers and dims.at_least(node.extent, 1):
            return after
        merged = join(before, after)
        assert merged is not None
        kept = {target: after.reaching(target) for target in covered}
        return FlowState({**merged.definitions, **kept}, merged.values)

    def branch(self, branch: Branch, state: FlowState, place: Place) -> FlowState | None:
        """Visits both sides of a conditional."""
        uses = self.uses(branch.test, state, place)
        ends = []
        for side, holds in ((branch.then, True), (branch.otherwise, False)):
            inner = place.at(int(holds)).where(implied(branch.test, state.values, holds), uses)
            ends.append(self.block(side, state, inner))
        return join(*ends)

    def jump(self, statement: Break | Continue, state: FlowState, place: Place) -> None:
        """Visits `break` or `continue`: its uses decide whether later statements are run."""
        exits = self.exits[-1]
        exits.uses.extend(place.uses)
        exits.count += 1
        if isinstance(statement, Break):
            freed = [
                attrs.evolve(u, conditions=(), free_from=exits.depth, until_here=True)
                for u in place.uses
            ]
            exits.loop.jump_uses.extend(freed)
            exits.broken = join(exits.broken, state)
        else:
            exits.continued = join(exits.continued, state)

    def prefetch(self, statement: Prefetch, state: FlowState, place: Place) -> FlowState:
        """Visits a prefetch, which reads its indices only."""
        for index in statement.indices:
            self.uses(index, state, place)
        return state

    def sync(self, statement: Sync, state: FlowState, place: Place) -> FlowState:
        """Visits a barrier."""
        return state

    # ---- uses

    def uses(self, scalar: Scalar, state: FlowState, place: Place) -> list[Use]:
        """Returns the reads of scalars and elements that a value depends on."""
        match scalar:
            case Local():
                if state.values.get(scalar) is not None:
                    return []
                return [self._use(scalar, (), state, place, scalar.span)]
            case Element():
                indices = self.indices(scalar, state, place)
                use = self._use(scalar.array, indices, state, place, scalar.span)
                return [use, *self._index_uses(scalar, state, place)]
            case Apply("select", (test, chosen, other)):
                sides = [(chosen, True), (other, False)]
                uses = self.uses(test, state, place)
                for side, holds in sides:
                    inner = place.where(implied(test, state.values, holds))
                    uses += self.uses(side, state, inner)
                return uses
            case Apply("and" | "or" as fn, args):
                return self._lazy_uses(args, fn == "and", state, place)
            case Apply(fn, args):
                parts = [use for arg in args for use in self.uses(arg, state, place)]
                return [attrs.evolve(u, free_from=1) for u in parts] if fn in LANES else parts
        return []

    def _lazy_uses(
        self, args: Sequence[Scalar], holds: bool, state: FlowState, place: Place
    ) -> list[Use]:
        """Returns the uses of a conjunction or disjunction, with short-circuit evaluation."""
        uses: list[Use] = []
        for arg in args:
            uses += self.uses(arg, state, place)
            place = place.where(implied(arg, state.values, holds))
        return uses

    def _use(
        self, target: Target, indices: Indices, state: FlowState, place: Place, span: Span | None
    ) -> Use:
        return Use(
            target, place.loops, indices, place.conditions, state.reaching(target), span=span
        )

    def indices(
        self, element: Element, state: FlowState, place: Place, writes: bool = False
    ) -> Indices:
        """Returns the index along each axis; None for data-dependent indices."""
        indices: Indices = tuple([as_index(i, state.values) for i in element.indices])
        if element.flat:
            indices = flat_indices(element.array, indices[0], self.ranges())
        self._note(element, indices, writes)
        return indices

    def _note(self, element: Element, indices: Indices, writes: bool) -> None:
        for axis, index in enumerate(indices):
            if index is None:
                key = (element.array, axis, element.span, writes)
                self.notes[key] = DataIndex(element.array, axis, element.span, writes)

    def _index_uses(self, element: Element, state: FlowState, place: Place) -> list[Use]:
        """Returns the uses of the indices that depend on data."""
        unknown = [i for i in element.indices if as_index(i, state.values) is None]
        return [use for index in unknown for use in self.uses(index, state, place)]

    # ---- index variables

    def _symbol(self, path: tuple[int, ...], name: str, extent: Dim | None = None) -> Sym:
        symbol = self.symbols.setdefault((path, name), Sym(name))
        if extent is not None:
            self.extents[symbol] = extent
        return symbol

    def ranges(self) -> dict[Sym, tuple[Dim, Dim]]:
        """Returns the range of each index variable."""
        return {index: (0, extent - 1) for index, extent in self.extents.items()}


def _assigned(loop: For | While) -> list[Local]:
    """Returns the scalars that a loop assigns, and the variables of loops in it."""
    targets = [n.target for n in nodes_of(loop) if isinstance(n, Assign)]
    variables = [n.variable for n in nodes_of(loop) if isinstance(n, For)]
    return [t for t in (*targets, *variables) if isinstance(t, Local)]


def _jumps(statements: Sequence[KernelStatement]) -> Iterator[KernelStatement]:
    """Yields the `break` and `continue` statements of a loop body."""
    for statement in statements:
        match statement:
            case Break() | Continue():
                yield statement
            case Branch(_, then, otherwise):
                yield from _jumps((*then, *otherwise))


def implied_by_jump(statement: KernelStatement, state: FlowState) -> tuple[Condition, ...]:
    """Returns the conditions that hold after a statement of which one side leaves the iteration."""
    if not isinstance(statement, Branch):
        return ()
    ends = [_never_ends(side) for side in (statement.then, statement.otherwise)]
    if ends == [True, False]:
        return implied(statement.test, state.values, False)
    return implied(statement.test, state.values) if ends == [False, True] else ()


def _never_ends(statements: Sequence[KernelStatement]) -> bool:
    return bool(statements) and isinstance(statements[-1], Break | Continue)


def _carried(reaching: Reaching, loop: KernelLoop, depth: int) -> Reaching:
    """Returns a definition at the start of the next iteration of a loop."""
    inside = loop in reaching.definition.loops
    if not inside or (reaching.shared is not None and reaching.shared < depth):
        return reaching
    return Reaching(reaching.definition, depth, True)


def _left(state: FlowState, loop: For | While, depth: int) -> FlowState:
    """Returns the state at the end of a loop as its successors see it."""

    def left(reaching: Reaching) -> Reaching:
        inner = reaching.shared is not None and reaching.shared >= depth
        return Reaching(reaching.definition) if inner else reaching

    return state.mapped(left).forget(_assigned(loop))


VISITORS: dict[type, Callable[[DataFlow, Any, FlowState, Place], FlowState | None]] = {
    Assign: DataFlow.assign,
    Scratch: DataFlow.allocate,
    Part: DataFlow.part,
    LibraryCall: DataFlow.library_call,
    For: DataFlow.loop,
    While: DataFlow.loop,
    Branch: DataFlow.branch,
    Break: DataFlow.jump,
    Continue: DataFlow.jump,
    Prefetch: DataFlow.prefetch,
    Sync: DataFlow.sync,
}
