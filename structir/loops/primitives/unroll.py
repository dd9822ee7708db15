"""Fully unrolls a loop."""

from __future__ import annotations

from structir.ir.kernel import For, Kernel, KernelStatement
from structir.loops.schedule.edits import Names, calculate, exchange, fresh_copy, integer
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import refuse_jumps
from structir.loops.schedule.primitive import positive, primitive
from structir.loops.schedule.refusal import refusal


@primitive
def unroll(kernel: Kernel, loop: str, limit: int = 16) -> Kernel:
    """Fully unrolls a loop whose trip count is a constant of at most `limit`.

    Nested loops get new variables in each copy: `j`, `j_1`, ...
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    positive(limit, "limit")
    refuse_jumps(old, also_continue=True)
    iterations = _iterations(tree, old)
    if iterations is None:
        raise refusal(
            "E1116",
            f"expected a constant number of iterations, found `{loop}` from {old.start} to "
            f"{old.stop}",
            old,
            help=f'split off blocks of constant length: `split("{loop}", 4, "peel")`',
        )
    if len(iterations) > limit:
        raise refusal(
            "E1116",
            f"expected at most {limit} iterations, found {len(iterations)}",
            old,
            help=f'split off a short loop, `split("{loop}", 4)`, or pass `limit={len(iterations)}`',
        )
    names = Names(tree)
    statements: list[KernelStatement] = []
    for position, distance in enumerate(iterations):
        values = {old.variable: calculate("add", old.start, integer(distance))}
        copied = names if position else None
        statements += [fresh_copy(copied, statement, values) for statement in old.body]
    return exchange(kernel, old, *statements)


def _iterations(tree: LoopTree, loop: For) -> range | None:
    """Returns the offsets of the iterations from the first; None if the trip count is not
    constant."""
    start, stop = tree.index(loop.start), tree.index(loop.stop)
    if start is None or stop is None:
        return None
    distance = stop - start
    return range(0, distance, loop.step) if isinstance(distance, int) else None


unroll.example(
    """
@I.kernel
def pairs(x: R.Tensor(("n", 2), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    for i in range(n):
        total = T.float32(0.0)
        for k in range(2):
            total = total + x[i, k]
        out[i] = total
""",
    "k",
)
