"""Replaces a scalar by the element to which its last value is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.ir.kernel import Assign, Element, Kernel, KernelStatement, Local
from structir.ir.node import replace
from structir.loops.schedule.accesses import expressions
from structir.loops.schedule.edits import exchange_all, substitute
from structir.loops.schedule.initialisation import first_uninitialised_read
from structir.loops.schedule.legality import read_after
from structir.loops.schedule.loop_tree import LoopTree, jumps, loop_tree
from structir.loops.schedule.nests import following
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal


@primitive
def demote(kernel: Kernel, memory: str) -> Kernel:
    """Replaces a scalar by the array element to which it is stored, so that its loops can be
    distributed.

    This is the inverse of scalar replacement. The scalar must be assigned first, stored last, and
    have the dtype of the array, which no statement in between may access.
    """
    tree = loop_tree(kernel)
    scalar = tree.scalar(memory)
    region = _region(tree, scalar)
    store = region[-1]
    assert isinstance(store, Assign)
    target: Any = store.target
    _require_alone(tree, scalar, region)

    def change(part: Any) -> Any:
        return target if part is scalar else None

    changed = [substitute(statement, change) for statement in region[1:]]
    first = replace(region[0], target=target)
    if store.value is scalar:
        del changed[-1]
    exchanges: dict[KernelStatement, Sequence[KernelStatement]] = {s: () for s in region}
    exchanges[region[0]] = (first, *changed)
    return exchange_all(kernel, exchanges)


def _region(tree: LoopTree, scalar: Local) -> tuple[KernelStatement, ...]:
    """Returns the statements of a block from the first assignment of a scalar to its store."""
    uses = [a.statement for a in tree.uses(scalar)]
    first, store = uses[0], uses[-1]
    block = tree.block_of(first)
    is_assigned = isinstance(first, Assign) and first.target is scalar
    is_stored = isinstance(store, Assign) and isinstance(store.target, Element)
    if is_assigned and is_stored and any(s is store for s in block):
        region = block[following(block, first) : following(block, store) + 1]
        if jumps(region) is None:
            return region
    raise refusal(
        "E1116",
        f"expected an assignment of `{scalar.name}` first and a store of it last, in one block",
        ("first", first),
        ("last", store),
        help=f"assign `{scalar.name}` and store it to an element in the same block",
    )


def _require_alone(tree: LoopTree, scalar: Local, region: tuple[KernelStatement, ...]) -> None:
    """Raises ScheduleError unless the element may hold the scalar from its assignment on."""
    store = region[-1]
    target: Any = store.target  # type: ignore[attr-defined]
    others = [a for a in tree.accesses(region[1:]) if a.memory is target.array]
    stray = next((a.statement for a in others if a.statement is not store or not a.is_write), None)
    index = [p for i in target.indices for p in expressions(i)]
    moving = any(isinstance(p, Element) or type(p) is Local for p in index)
    dtype = str(target.array.struct_info.dtype)
    live = first_uninitialised_read(tree, scalar, region) or read_after(tree, scalar, store)
    if stray is None and live is None and not moving and dtype == scalar.dtype:
        return
    raise refusal(
        "E1119",
        f"expected `{scalar.name}` to be stored once, to an element of {scalar.dtype} at indices "
        "of loops that nothing else accesses",
        ("store", store),
        ("access", stray or live or store),
        help="write the result to an array that is not read here",
    )


demote.example(
    """
@I.kernel
def total(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    m = T.int64()
    for i in range(n):
        t = T.float32(1.0)
        for j in range(m):
            t = t + x[i, j]
        out[i] = 2.0 * t
""",
    "t",
)
