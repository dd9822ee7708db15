"""The loops, names and accesses of a kernel, computed once and kept with the kernel."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.kernel import (
    Assign,
    Branch,
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
)
from structir.loops.accesses import Access, Mention, mentions_of
from structir.loops.distinct import names_of_signature, with_distinct_loops
from structir.loops.refusal import refusal
from structir.projections.kernels.affine_scalars import as_index

Block = tuple[KernelStatement, ...]
_KEPT = "_loop_tree"


class NodeFacts:
    """What is known of nodes, whatever kernel they are in; derived kernels share it."""

    def __init__(
        self,
        mentions: dict[KernelStatement, tuple[Mention, ...]] | None = None,
        symbols: dict[Local, Sym] | None = None,
    ) -> None:
        self.mentions = {} if mentions is None else mentions
        self.symbols = {} if symbols is None else symbols
        self.indices: dict[Element, tuple[Dim | None, ...]] = {}
        self.values: dict[Local, Dim] = {}  # those that `indices` are computed with


class LoopTree:
    """The statements of a kernel with the loops around them, loops and arrays by name, accesses.

    `ancestors` maps each statement to the loops and branches around it, outermost first.
    """

    def __init__(self, kernel: Kernel, facts: NodeFacts) -> None:
        self.kernel, self.facts = kernel, facts
        self.ancestors: dict[KernelStatement, tuple[KernelStatement, ...]] = {}
        self.loops: dict[str, For] = {}
        self.arrays: dict[str, Scratch] = {}
        self.scalars: dict[str, Local] = {}  # assigned, without the variables of loops
        self.names = names_of_signature(kernel)
        self.values: dict[Local, Dim] = {}  # of loop variables and of the ends of a part
        self._visit(kernel.body, ())
        changed = [v for v in self.values if facts.values.get(v, self.values[v]) != self.values[v]]
        if changed:
            self.facts = NodeFacts(facts.mentions, facts.symbols)
        self.facts.values.update(self.values)

    def _visit(self, block: Sequence[KernelStatement], around: tuple[KernelStatement, ...]) -> None:
        for statement in block:
            self.ancestors[statement] = around
            _ENTER.get(type(statement), _enter_nothing)(self, statement)
            for body in blocks_of(statement):
                self._visit(body, (*around, statement))

    # ---- lookup by name

    def loop(self, name: str) -> For:
        """Returns the loop over the variable of this name; raises ScheduleError if none is."""
        return self._named("loop", name, self.loops)  # type: ignore[no-any-return]

    def array(self, name: str) -> Scratch:
        """Returns the local array of this name; raises ScheduleError if there is none."""
        return self._named("local array", name, self.arrays)  # type: ignore[no-any-return]

    def scalar(self, name: str) -> Local:
        """Returns the assigned scalar of this name; raises ScheduleError if there is none."""
        return self._named("scalar", name, self.scalars)  # type: ignore[no-any-return]

    def _named(self, kind: str, name: str, table: dict[str, Any]) -> Any:
        if name in table:
            return table[name]
        close = difflib.get_close_matches(name, table, 1)
        names = ", ".join(f"`{n}`" for n in table) or "none"
        help = f"did you mean `{close[0]}`?" if close else f"the kernel has these: {names}"
        raise refusal("E1115", f"expected the name of a {kind}, found `{name}`", help=help)

    def fresh(self, stem: str, taken: set[str] | None = None) -> str:
        """Returns a name that neither the kernel nor `taken` has, and adds it to `taken`."""
        taken = set() if taken is None else taken
        name, number = stem, 0
        while name in self.names or name in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name)
        return name

    # ---- statements

    def loops_around(self, statement: KernelStatement) -> tuple[For, ...]:
        """Returns the `for` loops around a statement, outermost first."""
        return tuple([s for s in self.ancestors[statement] if isinstance(s, For)])

    def block_of(self, statement: KernelStatement) -> Block:
        """Returns the block that a statement is in."""
        around = self.ancestors[statement]
        blocks = blocks_of(around[-1]) if around else (self.kernel.body,)
        return next(b for b in blocks if any(s is statement for s in b))

    def within(self, block: Sequence[KernelStatement]) -> Iterator[KernelStatement]:
        """Yields the statements of a block and those inside them, in order."""
        for statement in block:
            yield statement
            for body in blocks_of(statement):
                yield from self.within(body)

    def loops_in(self, block: Sequence[KernelStatement]) -> list[For]:
        """Returns the `for` loops of a block and inside it, in order."""
        return [s for s in self.within(block) if isinstance(s, For)]

    # ---- accesses

    def accesses(self, block: Sequence[KernelStatement]) -> list[Access]:
        """Returns what the statements of a block, and those inside them, read and write."""
        return [
            Access(mention, statement, self.loops_around(statement))
            for statement in self.within(block)
            for mention in self.mentions(statement)
        ]

    def mentions(self, statement: KernelStatement) -> tuple[Mention, ...]:
        """Returns what a statement itself reads and writes, without the statements inside it."""
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

    def array_indices(self, element: Element) -> tuple[Dim | None, ...]:
        """Returns the indices of an element along the axes of its array."""
        info: Any = element.array.struct_info
        if element.flat and len(info.dims) != 1:
            return (None,) * len(info.dims)
        return self.indices(element)

    def shape(self, array: Var) -> tuple[Dim, ...]:
        """Returns the sizes of an array."""
        info: Any = array.struct_info
        return tuple(info.dims)

    def has_flat_accesses(self, array: Var) -> bool:
        """Whether elements of an array are accessed by their position among all elements."""
        return array in self._flat_arrays

    @cached_property
    def _flat_arrays(self) -> frozenset[Var]:
        elements = [a.mention.element for a in self.accesses(self.kernel.body)]
        return frozenset([e.array for e in elements if e is not None and e.flat])

    def flat_index(self, element: Element) -> Dim | None:
        """Returns the position of an element among all elements of its array."""
        info: Any = element.array.struct_info
        indices = self.indices(element)
        if element.flat:
            return indices[0]
        position: Dim = 0
        for index, size in zip(indices, info.dims, strict=True):
            if index is None:
                return None
            position = position * size + index
        return position

    def index(self, scalar: Scalar) -> Dim | None:
        """Returns an integer expression as a dim; None if it depends on data."""
        return as_index(scalar, self.values)

    def shift(self, variable: Local) -> int:
        """Returns the number to add to the symbol of a loop variable to get its value."""
        value = self.values.get(variable)
        return value.constant if isinstance(value, dims.Poly) else 0

    def symbol(self, local: Local) -> Sym:
        """Returns the symbol of a loop variable in proofs."""
        symbol = self.facts.symbols.get(local)
        if symbol is None:
            symbol = self.facts.symbols[local] = Sym(local.name)
        return symbol

    def lows(self, loop: For) -> list[Dim]:
        """Returns lower bounds of the variable of a loop; each of them holds."""
        if loop.step > 0:
            return self._bounds(loop.start, "max")
        return [bound + 1 for bound in self._bounds(loop.stop, "max")]

    def highs(self, loop: For) -> list[Dim]:
        """Returns exclusive upper bounds of the variable of a loop; each of them holds."""
        if loop.step > 0:
            return self._bounds(loop.stop, "min")
        return [bound + 1 for bound in self._bounds(loop.start, "min")]

    def _bounds(self, scalar: Any, choice: str) -> list[Dim]:
        if getattr(scalar, "fn", None) == choice:
            return [bound for arg in scalar.args for bound in self._bounds(arg, choice)]
        bound = as_index(scalar, self.values)
        return [] if bound is None else [bound]


def loop_tree(kernel: Kernel) -> LoopTree:
    """Returns the tree of a kernel whose loops have distinct variables."""
    tree: LoopTree | None = kernel.__dict__.get(_KEPT)
    if tree is None:
        tree = kernel.__dict__[_KEPT] = LoopTree(kernel, NodeFacts())
    return tree


def prepared(kernel: Kernel) -> Kernel:
    """Returns a kernel that primitives accept: its loops and names are distinct."""
    if _KEPT in kernel.__dict__:
        return kernel
    distinct = with_distinct_loops(kernel)
    loop_tree(distinct)
    return distinct


def derived(new: Kernel, old: Kernel) -> Kernel:
    """Returns a kernel that a primitive built from another one, with what is known of its nodes."""
    if new is not old and _KEPT not in new.__dict__:
        new.__dict__[_KEPT] = LoopTree(new, loop_tree(old).facts)
    return new


def blocks_of(statement: KernelStatement) -> tuple[Block, ...]:
    """Returns the blocks inside a statement."""
    match statement:
        case For() | While():
            return (statement.body,)
        case Branch():
            return statement.then, statement.otherwise
    return ()


def _enter_nothing(tree: LoopTree, statement: KernelStatement) -> None:
    pass


def _enter_loop(tree: LoopTree, loop: For) -> None:
    variable = loop.variable
    tree.loops[variable.name] = loop
    tree.names.add(variable.name)
    if isinstance(variable, LoopVariable):
        tree.values.update(_counted(tree, variable, tree.lows(loop)))


def _counted(tree: LoopTree, variable: Local, lows: list[Dim]) -> dict[Local, Dim]:
    """The value of a variable as a dim: symbols of dims are never negative."""
    symbol = dims.as_dim(tree.symbol(variable))
    if any(dims.at_least(low, 0) for low in lows):
        return {variable: symbol}
    known = [low for low in lows if isinstance(low, int)]
    return {variable: symbol + max(known)} if known else {}


def _enter_part(tree: LoopTree, part: Part) -> None:
    for end in (part.low, part.high):
        tree.names.add(end.name)
        tree.values[end] = dims.as_dim(tree.symbol(end))


def _enter_assign(tree: LoopTree, assign: Assign) -> None:
    if isinstance(assign.target, Local):
        tree.scalars[assign.target.name] = assign.target
        tree.names.add(assign.target.name)


def _enter_scratch(tree: LoopTree, scratch: Scratch) -> None:
    tree.arrays[scratch.array.name] = scratch
    tree.names.add(scratch.array.name)


_ENTER: dict[type, Any] = {
    For: _enter_loop,
    Part: _enter_part,
    Assign: _enter_assign,
    Scratch: _enter_scratch,
}
