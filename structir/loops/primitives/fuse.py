"""Fuses two loops over the same range."""

from __future__ import annotations

from structir.ir.kernel import For, Kernel, LoopVariable
from structir.ir.node import replace
from structir.loops.accesses import Access
from structir.loops.bounds import same_range
from structir.loops.edits import copied, exchange_all, with_values
from structir.loops.initialisation import first_uninitialised_read
from structir.loops.legality import (
    Memory,
    conflicts,
    dependence,
    is_local,
    meets_later,
    read_after,
    require_no_jump,
)
from structir.loops.loop_tree import LoopTree, derived, loop_tree
from structir.loops.primitive import Example, primitive
from structir.loops.refusal import refusal

EXAMPLE = Example(
    'x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32"), '
    'out: R.Tensor(("n",), "float32")',
    """
for i in range(n):
    y[i] = x[i] * 2.0
for j in range(n):
    out[j] = y[j] + x[j]
""",
    ("i", "j"),
)


@primitive(example=EXAMPLE)
def fuse(kernel: Kernel, first: For, second: For) -> Kernel:
    """Fuses a loop and the loop right after it, over the same range, into one.

    An iteration of the second loop must not need what later iterations of the first one do.
    """
    tree = loop_tree(kernel)
    require_following(tree, first, second)
    require_same_range(tree, first, second)
    for loop in (first, second):
        require_no_jump(loop, "fuse")
    variable = first.variable
    assert isinstance(variable, LoopVariable)
    moved = with_values(copied(second.body), {second.variable: variable})
    fused = replace(first, body=(*first.body, *moved), kind="")  # in order, even if both had none
    new = derived(exchange_all(kernel, {first: (fused,), second: ()}), kernel)
    require_fusible(loop_tree(new), fused, len(first.body))
    return new


def require_following(tree: LoopTree, first: For, second: For) -> None:
    """Refuses loops that are not next to each other."""
    names = first.variable.name, second.variable.name
    block = tree.block_of(first)
    index = next(i for i, s in enumerate(block) if s is first)
    if block[index + 1 : index + 2] != (second,):
        after = block[index + 1 : index + 2] or (first,)
        message = f"expected `{names[1]}` right after `{names[0]}`, found another statement"
        help = f"fuse the loops between them first, or move the statement before `{names[0]}`"
        places = (("after it", after[0]), ("second loop", second))
        raise refusal("E1117", message, ("first loop", first), *places, help=help)


def require_same_range(tree: LoopTree, first: For, second: For) -> None:
    """Refuses loops that may have different iterations."""
    if not same_range(tree, first, second):
        message = (
            f"expected equal ranges, found range({first.start}, {first.stop}, {first.step}) "
            f"and range({second.start}, {second.stop}, {second.step})"
        )
        places = (("first loop", first), ("second loop", second))
        help = f"split both loops so that a part has the range of `{first.variable.name}`"
        raise refusal("E1117", message, *places, help=help)


def require_fusible(tree: LoopTree, fused: For, count: int) -> None:
    """Refuses a loop if its statements from `count` on need later iterations of those before.

    Its statements were two loops, one after the other.
    """
    head, tail = tree.accesses(fused.body[:count]), tree.accesses(fused.body[count:])

    def reversed_order(one: Access, other: Access) -> bool:
        return meets_later(tree, other, one, fused)

    def unshared(memory: Memory) -> bool:
        """Whether both parts write a memory of the kernel before they read it."""
        parts = (fused.body[:count], fused.body[count:])
        reads = [first_uninitialised_read(tree, memory, part) for part in parts]
        return is_local(tree, memory) and not any(reads) and not read_after(tree, memory, fused)

    for one, other in conflicts(head, tail, reversed_order, unshared):
        raise dependence(tree, fused, one, other, "have both in one loop")
