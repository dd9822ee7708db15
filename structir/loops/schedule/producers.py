"""Preconditions on the producer loops of a local array, for primitives that move them."""

from __future__ import annotations

from collections.abc import Sequence

from structir.ir.expr import Var
from structir.ir.kernel import (
    Assign,
    For,
    KernelStatement,
    LibraryCall,
    Local,
    LoopVariable,
    Scratch,
    computed_in,
)
from structir.loops.schedule.accesses import Access
from structir.loops.schedule.initialisation import first_uninitialised_read
from structir.loops.schedule.legality import conflicts
from structir.loops.schedule.loop_tree import LoopTree
from structir.loops.schedule.nests import dependence
from structir.loops.schedule.refusal import refusal


def producer(tree: LoopTree, array: Var, uses: list[Access]) -> tuple[Assign, KernelStatement]:
    """Returns the only store to an array, and the outermost loop of its nest."""
    writes = [access for access in uses if access.is_write]
    dtype = str(array.struct_info.dtype)  # type: ignore[attr-defined]
    statements = [access.statement for access in (writes or uses)[:2]]
    help = "name an array that one assignment `row[i, j] = ...` in loops of its own fills"
    if len(writes) != 1 or computed_in(dtype) != dtype:
        message = f"expected one assignment of `{array.name}`, found {len(writes)}"
        raise refusal("E1116", message, *statements or [tree.array(array.name)], help=help)
    store, element = writes[0].statement, writes[0].mention.element
    reads = [a for a in uses if a.statement is store and not a.is_write]
    indices = () if element is None else element.indices
    plain = isinstance(store, Assign) and not store.symbol and not reads
    if not plain or len(set(indices)) < len(indices) or element is None or element.flat:
        message = f"expected `{array.name}` to be assigned at the variables of its loops"
        raise refusal("E1116", message, store, help=help)
    nest: KernelStatement = store
    remaining = set(indices)
    for loop in reversed(tree.ancestors[store]):
        if not isinstance(loop, For) or len(loop.body) != 1 or loop.variable not in remaining:
            break
        remaining.discard(loop.variable)
        nest = loop
    if remaining or not all(isinstance(index, LoopVariable) for index in indices):
        message = f"expected `{array.name}` to be assigned at the variables of its loops"
        raise refusal("E1116", message, store, help=help)
    assert isinstance(store, Assign)
    return store, nest


def require_reads_after(
    tree: LoopTree, array: Var, uses: list[Access], block: Sequence[KernelStatement]
) -> None:
    """Refuses reads before the producer loops, or of elements that they do not write."""
    inside = set(tree.within(block))
    outside = next((a.statement for a in uses if a.statement not in inside), None)
    read = outside or first_uninitialised_read(tree, array, block)
    whole = next(
        (
            a.statement
            for a in uses
            if isinstance(a.statement, LibraryCall | Scratch)
            or (a.mention.element is not None and a.mention.element.flat)
        ),
        None,
    )
    if read is not None or whole is not None:
        raise refusal(
            "E1119",
            f"expected reads of elements of `{array.name}` that the loops before them wrote",
            ("read", read or whole),  # type: ignore[arg-type]
            ("loops", block[0]),
            help="inline an array that is read only after its loops, in the same block",
        )


def refuse_changes(
    tree: LoopTree, store: Assign, uses: list[Access], later: Sequence[KernelStatement]
) -> None:
    """Refuses writes to the operands of a store between its loops and the last read."""
    operands = [a for a in tree.accesses((store,)) if not a.is_write]
    variables = {v for v in store.target.indices if isinstance(v, Local)}  # type: ignore[union-attr]
    operands = [access for access in operands if access.memory not in variables]
    last = max((k for k, s in enumerate(later) for a in uses if _has(tree, s, a)), default=-1)
    pair = next(conflicts(operands, tree.accesses(later[: last + 1]), lambda a, b: True), None)
    if pair is not None:
        raise dependence(
            "an operand changes before the elements are read",
            pair,
            help="inline before the operand is written, or keep the array",
        )


def _has(tree: LoopTree, statement: KernelStatement, access: Access) -> bool:
    return access.statement is statement or statement in tree.ancestors[access.statement]
