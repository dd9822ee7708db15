"""An index of a kernel: its loops, names and accesses, memoized on the kernel."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Branch,
    Break,
    Continue,
    Element,
    For,
    Kernel,
    KernelStatement,
    Local,
    LoopVariable,
    Part,
    Scalar,
    Scratch,
    While,
    nodes_of,
)
from structir.loops.schedule.accesses import Access, Mention, mentions_of
from structir.loops.schedule.distinct import names_of_signature, with_distinct_loops
from structir.loops.schedule.refusal import refusal
from structir.projections.kernels.affine_scalars import INDEX_DTYPE, as_index
from structir.system.locks import cached_property

Block = tuple[KernelStatement, ...]
_KEPT = "_loop_tree"


class NodeFacts:
    """Memoized facts about nodes, shared by the kernels that primitives derive."""

    def __init__(self, symbols: dict[Local, Sym] | None = None) -> None:
        self.mentions: dict[KernelStatement, tuple[Mention, ...]] = {}
        self.symbols: dict[Local, Sym] = {} if symbols is None else symbols
        self.indices: dict[Element, tuple[Dim | None, ...]] = {}
        self.values: dict[Local, Dim | None] = {}  # the values from which `indices` are computed

    def agree_with(self, values: dict[Local, Dim | None]) -> bool:
        """Whether variables have the same values in all kernels that share the facts."""
        return all(self.values.get(local, value) == value for local, value in values.items())


class LoopTree:
    """The statements of a kernel with their enclosing loops, lookup by name, and accesses.

    `ancestors` maps each statement to the enclosing loops and branches, outermost first.
    """

    def __init__(self, kernel: Kernel, facts: NodeFacts) -> None:
        self.kernel, self.facts = kernel, facts
        self.ancestors: dict[KernelStatement, tuple[KernelStatement, ...]] = {}
        self.loops: dict[str, For] = {}
        self.arrays: dict[str, Scratch] = {}
        self.scalars: dict[str, Local] = {}  # assigned scalars, without loop variables
        self.names = names_of_signature(kernel)
        self.values: dict[Local, Dim | None] = {}  # of loop variables, ends of a part, and indices
        self.assignments = Counter(_assigned_indices(kernel.body))
        self._visit(kernel.body, ())
        if not facts.agree_with(self.values):
            self.facts = NodeFacts(facts.symbols)
        self.facts.values.update(self.values)

    def _visit(self, block: Sequence[KernelStatement], around: tuple[KernelStatement, ...]) -> None:
        for statement in block:
            self.ancestors[statement] = around
            _ENTER.get(type(statement), _enter_nothing)(self, statement)
            for body in blocks_of(statement):
                self._visit(body, (*around, statement))

    # ---- lookup by name

    def loop(self, name: str) -> For:
        """Returns the loop of this name; raises ScheduleError if there is none."""
        return self._named("loop", name, self.loops)  # type: ignore[no-any-return]

    def array(self, name: str) -> Scratch:
        """Returns the local array of this name; raises ScheduleError if there is none."""
        return self._named("local array", name, self.arrays)  # type: ignore[no-any-return]

    def scalar(self, name: str) -> Local:
        """Returns the assigned scalar of this name; raises ScheduleError if there is none."""
        return self._named("scalar", name, self.scalars)  # type: ignore[no-any-return]

    def _named(self, kind: str, name: str, table: dict[str, Any]) -> Any:
        if isinstance(name, str) and name in table:
            return table[name]
        close = difflib.get_close_matches(str(name), table, 1)
        names = ", ".join(f"`{n}`" for n in table) or "none"
        help = f"did you mean `{close[0]}`?" if close else f"the kernel has these: {names}"
        raise refusal("E1115", f"expected the name of a {kind}, found `{name}`", help=help)

    # ---- statements

    def loops_around(self, statement: KernelStatement) -> tuple[For, ...]:
        """Returns the enclosing `for` loops of a statement, outermost first."""
        return tuple([s for s in self.ancestors[statement] if isinstance(s, For)])

    def block_of(self, statement: KernelStatement) -> Block:
        """Returns the block that contains a statement."""
        around = self.ancestors[statement]
        blocks = blocks_of(around[-1]) if around else (self.kernel.body,)
        return next(b for b in blocks if any(s is statement for s in b))

    def within(self, block: Sequence[KernelStatement]) -> Iterator[KernelStatement]:
        """Yields the statements of a block and their nested statements, in pre-order."""
        return statements_of(block)

    # ---- accesses

    def accesses(self, block: Sequence[KernelStatement]) -> list[Access]:
        """Returns the accesses of a block, including those of nested statements."""
        return [
            Access(mention, statement, self.loops_around(statement))
            for statement in self.within(block)
            for mention in self.mentions(statement)
        ]

    def uses(self, memory: Var | Local) -> list[Access]:
        """Returns the accesses of an array or a scalar."""
        return list(self._uses.get(memory, ()))

    @cached_property
    def _uses(self) -> dict[Var | Local, list[Access]]:
        uses: dict[Var | Local, list[Access]] = {}
        for access in self.accesses(self.kernel.body):
            uses.setdefault(access.memory, []).append(access)
        return uses

    def mentions(self, statement: KernelStatement) -> tuple[Mention, ...]:
        """Returns the accesses of a statement, without those of nested statements."""
        known = self.facts.mentions.get(statement)
        if known is None:
            known = self.facts.mentions[statement] = tuple(mentions_of(statement))
        return known

    def indices(self, element: Element) -> tuple[Dim | None, ...]:
        """Returns the indices of an element as dims; None for one that depends on data."""
        known = self.facts.indices.get(element)
        if known is None:
            known = tuple([as_index(index, self.values) for index in element.indices])
            self.facts.indices[element] = known
        return known

    def index(self, scalar: Scalar) -> Dim | None:
        """Returns an index as a dim; None if it depends on data."""
        return as_index(scalar, self.values)

    def symbol(self, local: Local) -> Sym:
        """Returns the symbol of a loop variable in proofs."""
        symbol = self.facts.symbols.get(local)
        if symbol is None:
            symbol = self.facts.symbols[local] = Sym(local.name)
        return symbol

    def lows(self, loop: For) -> list[Dim]:
        """Returns inclusive lower bounds of a loop variable, all of which hold."""
        if loop.step > 0:
            return self._bounds(loop.start, "max")
        return [bound + 1 for bound in self._bounds(loop.stop, "max")]

    def highs(self, loop: For) -> list[Dim]:
        """Returns exclusive upper bounds of a loop variable, all of which hold."""
        if loop.step > 0:
            return self._bounds(loop.stop, "min")
        return [bound + 1 for bound in self._bounds(loop.start, "min")]

    def _bounds(self, scalar: Any, choice: str) -> list[Dim]:
        if isinstance(scalar, Apply) and scalar.fn == choice:
            return [bound for arg in scalar.args for bound in self._bounds(arg, choice)]
        bound = as_index(scalar, self.values)
        return [] if bound is None else [bound]

    def exact_ends(self, loop: For) -> tuple[Dim, list[Dim], int] | None:
        """Returns the start, the stops and the step of the ascending range of a loop; None if
        unknown.

        The range ends at the smallest of the stops. A loop that descends in steps of 1 is reversed.
        """
        if loop.step < -1:
            return None
        start, stops = as_index(loop.start, self.values), self._all_stops(loop.stop)
        if start is None or stops is None:
            return None
        if loop.step > 0:
            return start, stops, loop.step
        return (stops[0] + 1, [start + 1], 1) if len(stops) == 1 else None

    def trip_count(self, loop: For) -> Dim | None:
        """Returns the trip count of a loop from 0 to a size in steps of 1; None for others."""
        if loop.step != 1 or self.index(loop.start) != 0:
            return None
        stop = self.index(loop.stop)
        is_count = stop is not None and self.is_size(stop) and dims.at_least(stop, 0)
        return stop if is_count else None

    def _all_stops(self, scalar: Any) -> list[Dim] | None:
        if not isinstance(scalar, Apply) or scalar.fn != "min":
            stop = as_index(scalar, self.values)
            return None if stop is None else [stop]
        stops = [self._all_stops(part) for part in scalar.args]
        return None if None in stops else [stop for part in stops for stop in part or ()]

    def runs(self, loop: For) -> bool:
        """Whether a loop has at least one iteration for all sizes."""
        ends = self.exact_ends(loop)
        return ends is not None and all(dims.at_least(stop - ends[0], 1) for stop in ends[1])

    def is_positive(self, loop: For) -> bool:
        """Whether the stop of a loop is at least its start, for all sizes."""
        ends = self.exact_ends(loop)
        return ends is not None and all(dims.at_least(stop, ends[0]) for stop in ends[1])

    def is_size(self, dim: Dim) -> bool:
        """Whether a dim depends only on sizes of the kernel, not on loop variables."""
        return not dims.syms(dim) & set(self.facts.symbols.values())

    def flat_index(self, element: Element) -> Dim | None:
        """Returns the position of an element in row-major order; None if it depends on data."""
        indices = self.indices(element)
        if element.flat or None in indices:
            return indices[0] if element.flat else None
        info: Any = element.array.struct_info
        position: Dim = 0
        for index, size in zip(indices, info.dims, strict=True):
            position = position * size + index
        return position

    @cached_property
    def flat_arrays(self) -> frozenset[Var]:
        """The arrays whose accesses are all of the form `x.flat[i]`."""
        flat: dict[Any, bool] = {}
        for statement in self.within(self.kernel.body):
            for mention in self.mentions(statement):
                if not mention.creates:
                    is_flat = mention.element is not None and mention.element.flat
                    flat[mention.memory] = is_flat and flat.get(mention.memory, True)
        return frozenset([memory for memory, is_flat in flat.items() if is_flat])

    @cached_property
    def results(self) -> frozenset[Var]:
        """The parameters that the kernel writes."""
        return frozenset(self.kernel.results)


def loop_tree(kernel: Kernel) -> LoopTree:
    """Returns the tree of a kernel whose loops have distinct variables."""
    tree = kernel.__dict__.get(_KEPT)
    if tree is None:
        tree = kernel.__dict__[_KEPT] = LoopTree(kernel, NodeFacts())
    return tree


def prepared(kernel: Kernel) -> Kernel:
    """Returns a kernel with distinct loop variables and names, as primitives require."""
    if _KEPT in kernel.__dict__:
        return kernel
    _refuse_assigned_ends(kernel)
    _refuse_synchronized(kernel)
    distinct = with_distinct_loops(kernel)
    loop_tree(distinct)
    return distinct


def _refuse_assigned_ends(kernel: Kernel) -> None:
    """Refuses a kernel that assigns to the ends of its part, which proofs treat as constants."""
    ends = {end for node in kernel.body if isinstance(node, Part) for end in (node.low, node.high)}
    assigns = (n for n in nodes_of(kernel) if isinstance(n, Assign)) if ends else ()
    for assign in assigns:
        if assign.target in ends:
            name = assign.target.name
            raise refusal(
                "E1116",
                f"expected constant ends of the part, found an assignment of `{name}`",
                assign,
                help="assign to a name of its own",
            )


def _refuse_synchronized(kernel: Kernel) -> None:
    """Refuses a kernel whose parts wait for each other, which no proof considers."""
    loop = kernel.synchronized
    if loop is not None:
        raise refusal(
            "E1116",
            "expected a kernel without a synchronized loop",
            loop,
            help=f"write `for {loop.variable.name} in range(...)`, schedule, and restore the loop",
        )


def derive(new: Kernel, old: Kernel) -> Kernel:
    """Indexes a kernel that a primitive derived from another one, sharing the facts of its
    nodes."""
    if new is not old and _KEPT not in new.__dict__:
        new.__dict__[_KEPT] = LoopTree(new, loop_tree(old).facts)
    return new


def blocks_of(statement: KernelStatement) -> tuple[Block, ...]:
    """Returns the blocks nested in a statement."""
    match statement:
        case For() | While():
            return (statement.body,)
        case Branch():
            return statement.then, statement.otherwise
    return ()


def statements_of(block: Sequence[KernelStatement]) -> Iterator[KernelStatement]:
    """Yields the statements of a block and their nested statements, in pre-order."""
    for statement in block:
        yield statement
        for body in blocks_of(statement):
            yield from statements_of(body)


def _enter_nothing(tree: LoopTree, statement: KernelStatement) -> None:
    pass


def _enter_loop(tree: LoopTree, loop: For) -> None:
    variable = loop.variable
    tree.loops[variable.name] = loop
    tree.names.add(variable.name)
    if isinstance(variable, LoopVariable):
        tree.values[variable] = _value(tree, variable, tree.lows(loop))


def _value(tree: LoopTree, variable: Local, lows: list[Dim]) -> Dim | None:
    """Returns the value of a loop variable as a dim; None if it may be negative."""
    is_counted = any(dims.at_least(low, 0) for low in lows)
    return dims.as_dim(tree.symbol(variable)) if is_counted else None


def _enter_part(tree: LoopTree, part: Part) -> None:
    for end in (part.low, part.high):
        tree.names.add(end.name)
        tree.values[end] = dims.as_dim(tree.symbol(end))


def _enter_assign(tree: LoopTree, assign: Assign) -> None:
    if isinstance(assign.target, Local):
        tree.scalars[assign.target.name] = assign.target
        tree.names.add(assign.target.name)
        if assign.target in tree.assignments:
            tree.values[assign.target] = _assigned_value(tree, assign)


def _assigned_value(tree: LoopTree, assign: Assign) -> Dim | None:
    """Returns the value of an index that is assigned once, in terms of loop variables and sizes.

    Every read follows the assignment in the same iteration of its enclosing loops: otherwise the
    name would not be bound on every path.
    """
    is_only = tree.assignments[assign.target] == 1 and not assign.symbol  # type: ignore[index]
    return as_index(assign.value, tree.values) if is_only else None


def _assigned_indices(block: Sequence[KernelStatement]) -> Iterator[Local]:
    """Yields the target of each assignment to an int64 scalar, including nested blocks."""
    for statement in block:
        if isinstance(statement, Assign):
            if isinstance(statement.target, Local) and statement.target.dtype == INDEX_DTYPE:
                yield statement.target
        else:
            for body in blocks_of(statement):
                yield from _assigned_indices(body)


def _enter_scratch(tree: LoopTree, scratch: Scratch) -> None:
    tree.arrays[scratch.array.name] = scratch
    tree.names.add(scratch.array.name)


_ENTER: dict[type, Any] = {
    For: _enter_loop,
    Part: _enter_part,
    Assign: _enter_assign,
    Scratch: _enter_scratch,
}


def jumps(
    block: Sequence[KernelStatement], kinds: type | tuple[type, ...] = (Break, Continue)
) -> KernelStatement | None:
    """Returns a `break` or `continue` of a block, not of a nested loop; None if there is none."""
    todo = list(block)
    while todo:
        statement = todo.pop()
        if isinstance(statement, kinds):
            return statement
        if not isinstance(statement, For | While):
            todo += [s for block in blocks_of(statement) for s in block]
    return None
