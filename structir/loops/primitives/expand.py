"""Scalar and array expansion: separate storage for each iteration of a loop."""

from __future__ import annotations

from typing import Any

import attrs

from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel import (
    VECTOR,
    Element,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Local,
    Scratch,
)
from structir.ir.struct_info import TensorStructInfo
from structir.loops.schedule.edits import Names, calculate, exchange_all, substitute
from structir.loops.schedule.initialisation import Memory, first_uninitialised_read
from structir.loops.schedule.legality import read_after
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import iterations_at_most
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal


@primitive
def expand(kernel: Kernel, memory: str, loop: str) -> Kernel:
    """Expands a scalar or a local array by an axis for the iterations of a loop, which enables
    `fission` and `reorder`.

    Refused if an iteration reads a value of another one, or if the value is live after the loop.
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    target: Memory = tree.scalar(memory) if memory in tree.scalars else tree.array(memory).array
    _require_private(tree, target, old)
    _refuse_lanes(tree, target, old)
    extent = iterations_at_most(tree, old)
    info: Any = getattr(target, "struct_info", None)
    shape: tuple[Dim, ...] = () if info is None else tuple(info.dims)
    dtype = target.dtype if isinstance(target, Local) else info.dtype
    wider = Var(Names(tree).fresh(f"{memory}_{loop}"), TensorStructInfo((extent, *shape), dtype))
    position = calculate("sub", old.variable, old.start)

    def change(part: Any) -> Any:
        if part is target and isinstance(part, Local):
            return Element(wider, (position,), part.dtype, part.span)
        if isinstance(part, Element) and part.array is target:
            inner = [substitute(index, change) for index in part.indices]
            return Element(wider, (position, *inner), part.dtype, part.span)
        return None

    exchanges: dict[KernelStatement, tuple[KernelStatement, ...]] = {
        old: (substitute(old, change),)
    }
    inside = len([a for a in tree.accesses((old,)) if a.memory is target])
    uses = tree.uses(target)
    if isinstance(uses[0].statement, Scratch) and len(uses) == inside + 1:
        exchanges[uses[0].statement] = ()
    new = exchange_all(kernel, exchanges)
    return attrs.evolve(new, body=(Scratch(wider, zeros=False), *new.body))


def _require_private(tree: LoopTree, memory: Memory, loop: For) -> None:
    whole = (a for a in tree.accesses((loop,)) if a.memory is memory)
    used = next((a for a in whole), None)
    if used is None:
        message = f"expected `{memory.name}` in `{loop.variable.name}`, found no access of it"
        raise refusal("E1116", message, loop, help="name a loop that contains its accesses")
    read = first_uninitialised_read(tree, memory, loop.body) or read_after(tree, memory, loop)
    if read is not None:
        raise refusal(
            "E1119",
            f"`{memory.name}` is not private to each iteration of `{loop.variable.name}`",
            ("read of another iteration", read),
            ("loop", loop),
            help=f"assign `{memory.name}` in the loop before this statement reads it",
        )
    for access in tree.accesses((loop,)):
        flat = access.mention.element is not None and access.mention.element.flat
        kinds = LibraryCall | Scratch
        if access.memory is memory and (flat or isinstance(access.statement, kinds)):
            raise refusal(
                "E1116",
                f"`{memory.name}` is accessed as a whole",
                ("access", access.statement),
                ("loop", loop),
                help="expand an array that is accessed by elements `x[i, j]`",
            )


def _refuse_lanes(tree: LoopTree, memory: Memory, loop: For) -> None:
    """Refuses a scalar that is private to each lane of a nested vector loop."""
    for access in tree.accesses(loop.body) if isinstance(memory, Local) else ():
        lanes = next((outer for outer in access.loops if outer.kind == VECTOR), loop)
        if access.memory is memory and lanes is not loop and not access.mention.order:
            raise refusal(
                "E1119",
                f"each lane of the vector loop `{lanes.variable.name}` has its own `{memory.name}`",
                ("vector loop", lanes),
                ("access", access.statement),
                help=f"expand over `{lanes.variable.name}` too, or vectorise afterwards",
            )


expand.example(
    """
@I.kernel
def centre(x: R.Tensor(("n", 8), "float32"), out: R.Tensor(("n", 8), "float32")):
    n = T.int64()
    for i in range(n):
        first = x[i, 0]
        for j in range(8):
            out[i, j] = x[i, j] - first
""",
    "first",
    "i",
)
