"""Computes the elements of a local array where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.ir.expr import Var
from structir.ir.kernel import (
    Assign,
    Element,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Local,
    LoopVariable,
    Scratch,
    computed_in,
)
from structir.loops.accesses import Access
from structir.loops.edits import exchange_all, fresh_copy, substitute
from structir.loops.initialisation import first_uninitialised_read
from structir.loops.legality import conflicts
from structir.loops.loop_tree import LoopTree, loop_tree
from structir.loops.nests import dependence, following
from structir.loops.primitive import primitive
from structir.loops.refusal import refusal


@primitive
def inline(kernel: Kernel, memory: str) -> Kernel:
    """Removes a local array, and the loops that fill it: each read computes the element instead.

    The array is written by one assignment at the variables of its loops. Refused if a memory that
    the elements are computed from changes before they are read. A value that is read often is
    computed often: do not inline the operands of products.
    """
    tree = loop_tree(kernel)
    scratch = tree.array(memory)
    array = scratch.array
    uses = [a for a in tree.accesses(kernel.body) if a.memory is array and a.statement != scratch]
    store, nest = _store(tree, array, uses)
    block = tree.block_of(nest)
    later = block[following(block, nest) + 1 :]
    _require_reads_after(tree, array, uses, (nest, *later))
    _refuse_changes(tree, store, uses, later)
    variables = store.target.indices  # type: ignore[union-attr]

    def read(part: Any) -> Any:
        if not isinstance(part, Element) or part.array is not array:
            return None
        indices = [substitute(index, read) for index in part.indices]
        return fresh_copy(None, store.value, dict(zip(variables, indices, strict=True)))

    exchanges: dict[KernelStatement, Sequence[KernelStatement]] = {nest: (), scratch: ()}
    exchanges |= {s: (substitute(s, read),) for s in later}
    return exchange_all(kernel, exchanges)


def _store(tree: LoopTree, array: Var, uses: list[Access]) -> tuple[Assign, KernelStatement]:
    """Returns the assignment that fills an array, and the outermost of its loops."""
    writes = [access for access in uses if access.is_write]
    dtype = str(array.struct_info.dtype)  # type: ignore[attr-defined]
    statements = [access.statement for access in (writes or uses)[:2]]
    help = "inline an array that one assignment `row[i, j] = ...` in loops of its own fills"
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


def _require_reads_after(
    tree: LoopTree, array: Var, uses: list[Access], block: Sequence[KernelStatement]
) -> None:
    """Refuses reads before the loops, or of elements that they do not write."""
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


def _refuse_changes(
    tree: LoopTree, store: Assign, uses: list[Access], later: Sequence[KernelStatement]
) -> None:
    """Refuses writes, after the loops, of the memory that the elements are computed from."""
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


inline.example(
    """
@I.kernel
def chain(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    row = T.empty((n,), "float32")
    for i in range(n):
        row[i] = 2.0 * x[i]
    for j in range(n):
        out[j] = row[j] + 1.0
""",
    "row",
)
