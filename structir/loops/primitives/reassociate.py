"""Permits reassociation of accumulated sums, products, maxima and minima."""

from __future__ import annotations

from structir.ir.kernel import Assign, Kernel, KernelStatement
from structir.ir.node import replace
from structir.loops.schedule.accesses import reassociable
from structir.loops.schedule.edits import exchange_all
from structir.loops.schedule.loop_tree import loop_tree
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal


@primitive(changes_rounding=True)
def reassociate(kernel: Kernel, loop: str) -> Kernel:
    """Marks the float accumulations of a loop as reassociable: `t = t + x[i]` becomes
    `t = T.add_to(t, x[i])`; products, maxima and minima likewise.

    `vectorise` and `reorder` then accept the loop. Rounding may change.
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    exchanges: dict[KernelStatement, tuple[KernelStatement, ...]] = {}
    for statement in tree.within(old.body):
        value = reassociable(statement) if isinstance(statement, Assign) else None
        if isinstance(statement, Assign) and value is not None:
            exchanges[statement] = (replace(statement, value=value, symbol=""),)
    if not exchanges:
        raise refusal(
            "E1116",
            f"expected a sum or product of floats in `{loop}`, found none",
            old,
            help="name the loop that contains an assignment such as `t = t + x[i]`",
        )
    return exchange_all(kernel, exchanges)


reassociate.example(
    """
@I.kernel
def total(x: R.Tensor(("n",), "float32"), out: R.Tensor((1,), "float32")):
    n = T.int64()
    t = T.float32(0.0)
    for i in range(n):
        t = t + x[i]
    out[0] = t
""",
    "i",
)
