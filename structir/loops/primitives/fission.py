"""Splits a loop into two loops over the same range (loop distribution)."""

from __future__ import annotations

from structir.ir.kernel import Kernel, LoopVariable
from structir.ir.node import replace
from structir.loops.schedule.edits import Names, exchange, with_values
from structir.loops.schedule.legality import reversed_pairs
from structir.loops.schedule.loop_tree import loop_tree
from structir.loops.schedule.nests import dependence, refuse_jumps, refuse_varying_bounds
from structir.loops.schedule.primitive import positive, primitive
from structir.loops.schedule.refusal import refusal


@primitive
def fission(kernel: Kernel, loop: str, at: int = 1) -> Kernel:
    """Splits the body of a loop after its first `at` statements into two loops.

    Refused if the first statements depend on the others in an earlier iteration. A scalar that is
    live between both parts must be expanded first (`expand`).
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    positive(at, "at")
    if at >= len(old.body):
        message = f"at: expected a number of statements below {len(old.body)}, found {at}"
        raise refusal("E1115", message, old, help="name a loop of two or more statements")
    refuse_jumps(old, also_continue=True)
    refuse_varying_bounds(tree, old)
    pair = next(reversed_pairs(tree, old, at), None)
    if pair is not None:
        raise dependence(
            f"the loops over `{loop}` would depend on each other",
            pair,
            help=f'give each iteration an element of its own: `expand("{pair[0].memory.name}", '
            f'"{loop}")`',
        )
    variable = LoopVariable(Names(tree).fresh(loop), "int64", old.variable.span)
    tail = [with_values(statement, {old.variable: variable}) for statement in old.body[at:]]
    second = replace(old, variable=variable, body=tuple(tail))
    return exchange(kernel, old, replace(old, body=old.body[:at]), second)


fission.example(
    """
@I.kernel
def two(
    x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")
):
    n = T.int64()
    for i in range(n):
        y[i] = 2.0 * x[i]
        out[i] = y[i] + 1.0
""",
    "i",
)
