"""Loop-invariant code motion of a scalar assignment."""

from __future__ import annotations

from structir.ir.kernel import Assign, Element, For, Kernel, Local
from structir.ir.node import replace
from structir.loops.schedule.accesses import expressions
from structir.loops.schedule.bounds import is_in_range
from structir.loops.schedule.edits import exchange
from structir.loops.schedule.initialisation import first_uninitialised_read
from structir.loops.schedule.legality import read_after
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import depends_on, refuse_jumps, refuse_varying_bounds
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal


@primitive
def hoist(kernel: Kernel, memory: str, loop: str) -> Kernel:
    """Moves a loop-invariant assignment of a scalar before the loop.

    Refused if the loop writes an operand of the value. If the loop may have no iteration, all
    elements that the value reads must be in bounds for all sizes.
    """
    tree = loop_tree(kernel)
    target, old = tree.scalar(memory), tree.loop(loop)
    refuse_jumps(old, also_continue=True)
    refuse_varying_bounds(tree, old)
    assign = _assignment(tree, target, old)
    _require_invariant(tree, assign, old)
    _require_safe(tree, assign, old)
    body = tuple([statement for statement in old.body if statement is not assign])
    return exchange(kernel, old, assign, replace(old, body=body))


def _assignment(tree: LoopTree, target: Local, loop: For) -> Assign:
    """Returns the only assignment of a scalar in a loop, which must precede its reads."""
    writes = [a.statement for a in tree.accesses(loop.body) if a.memory is target and a.is_write]
    first = next((w for w in writes if any(w is s for s in loop.body)), None)
    read = first_uninitialised_read(tree, target, loop.body)
    if len(writes) != 1 or not isinstance(first, Assign) or read is not None:
        locations = [*writes[:2], *([read] if read is not None else [])] or [loop]
        raise refusal(
            "E1116",
            f"expected one assignment of `{target.name}` in the body of `{loop.variable.name}`, "
            f"before its reads; found {len(writes)}",
            *locations,
            help="give each assigned value a name of its own",
        )
    return first


def _require_invariant(tree: LoopTree, assign: Assign, loop: For) -> None:
    name = loop.variable.name
    if depends_on(assign.value, loop.variable):
        raise refusal(
            "E1117",
            f"the value depends on `{name}`",
            ("assignment", assign),
            ("loop", loop),
            help=f"hoist a value that does not mention `{name}`",
        )
    operands = {m.memory for m in tree.mentions(assign) if not m.is_write}
    writes = (a for a in tree.accesses(loop.body) if a.is_write and a.memory in operands)
    write = next(writes, None)
    if write is not None:
        raise refusal(
            "E1117",
            f"`{name}` writes `{write.memory.name}`, which the value reads",
            ("read", assign),
            ("write", write.statement),
            help="hoist a value whose operands the loop does not write",
        )


def _require_safe(tree: LoopTree, assign: Assign, loop: For) -> None:
    """Refuses a value that may be out of bounds, or live after the loop, if the loop may have no
    iteration."""
    if tree.runs(loop):
        return
    assert isinstance(assign.target, Local)
    read = read_after(tree, assign.target, loop)
    if read is None and all(_is_safe(tree, part, loop) for part in expressions(assign.value)):
        return
    raise refusal(
        "E1119",
        f"`{loop.variable.name}` may have no iteration, and then must not change "
        f"`{assign.target.name}` or evaluate it",
        ("assignment", assign),
        ("loop", loop) if read is None else ("read after the loop", read),
        help="hoist from a loop of at least one iteration for all sizes",
    )


def _is_safe(tree: LoopTree, part: object, loop: For) -> bool:
    return not isinstance(part, Element) or is_in_range(tree, part, tree.loops_around(loop))


hoist.example(
    """
@I.kernel
def scale(
    x: R.Tensor(("n", 8), "float32"),
    b: R.Tensor(("n",), "float32"),
    out: R.Tensor(("n", 8), "float32"),
):
    n = T.int64()
    for i in range(n):
        for j in range(8):
            factor = T.sqrt(b[i])
            out[i, j] = factor * x[i, j]
""",
    "factor",
    "j",
)
