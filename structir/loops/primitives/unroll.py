"""Writes out the iterations of a loop of few iterations."""

from __future__ import annotations

from structir.ir.kernel import Kernel, KernelStatement
from structir.loops.edits import Names, exchange, fresh_copy, integer
from structir.loops.loop_tree import loop_tree
from structir.loops.nests import refuse_jumps
from structir.loops.primitive import positive, primitive
from structir.loops.refusal import refusal


@primitive
def unroll(kernel: Kernel, loop: str, limit: int = 16) -> Kernel:
    """Replaces a loop by the statements of its iterations; their number must be a constant of at
    most `limit`.

    Loops inside get variables of their own in each iteration: `j`, `j_1`, ...
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    positive(limit, "limit")
    refuse_jumps(old, also_continue=True)
    ends = [tree.index(bound) for bound in (old.start, old.stop)]
    if not isinstance(ends[0], int) or not isinstance(ends[1], int):
        raise refusal(
            "E1116",
            f"expected a constant number of iterations, found `{loop}` from {old.start} to "
            f"{old.stop}",
            old,
            help=f'split off blocks of constant length: `split("{loop}", 4, "peel")`',
        )
    iterations = range(ends[0], ends[1], old.step)
    if len(iterations) > limit:
        raise refusal(
            "E1116",
            f"expected at most {limit} iterations, found {len(iterations)}",
            old,
            help=f'split off a short loop, `split("{loop}", 4)`, or pass `limit={len(iterations)}`',
        )
    names = Names(tree)
    statements: list[KernelStatement] = []
    for position, value in enumerate(iterations):
        values, copied = {old.variable: integer(value)}, names if position else None
        statements += [fresh_copy(copied, statement, values) for statement in old.body]
    return exchange(kernel, old, *statements)


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
