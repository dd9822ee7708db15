"""Vectorises a loop."""

from __future__ import annotations

from structir.ir.kernel import VECTOR, For, Kernel, Local
from structir.ir.node import replace
from structir.loops.schedule.edits import exchange
from structir.loops.schedule.initialisation import Memory
from structir.loops.schedule.legality import accumulated, conflicts, is_private, meets_later
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import dependence, refuse_jumps
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal


@primitive
def vectorise(kernel: Kernel, loop: str) -> Kernel:
    """Marks a loop as vectorised: `for i in T.vectorized(n)`.

    The remainder is computed with masks if the CPU has them. Refused if iterations depend on each
    other, except through reassociable accumulations (`add_to`, or integers).
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    refuse_jumps(old, also_continue=True)
    inner = next((s for s in tree.within(old.body) if isinstance(s, For)), None)
    if inner is not None:
        raise refusal(
            "E1116",
            f"expected a loop without loops inside, found `{inner.variable.name}` in `{loop}`",
            ("loop", old),
            ("inside", inner),
            help=f'vectorise the innermost loop: `vectorise("{inner.variable.name}")`',
        )
    _refuse_dependences(tree, old)
    return exchange(kernel, old, replace(old, kind=VECTOR))


def _refuse_dependences(tree: LoopTree, loop: For) -> None:
    accesses = tree.accesses(loop.body)
    sums = accumulated(accesses)

    def is_independent(memory: Memory) -> bool:
        # Lanes share arrays, but each lane has its own scalars.
        scalar = isinstance(memory, Local)
        return memory in sums or (scalar and is_private(tree, memory, loop.body, loop))

    pairs = conflicts(
        accesses,
        accesses,
        lambda one, other: meets_later(tree, one, other, loop),
        is_independent,
    )
    pair = next(pairs, None)
    if pair is None:
        return
    name = pair[0].memory.name
    total = any(access.mention.element is None and access.is_write for access in pair)
    help = f'mark the sum as one in any order: `reassociate("{loop.variable.name}")`'
    if not total:
        help = f"vectorise a loop whose iterations write different elements of `{name}`"
    raise dependence(f"iterations of `{loop.variable.name}` depend on each other", pair, help)


vectorise.example(
    """
@I.kernel
def scale(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    for i in range(n):
        out[i] = 2.0 * x[i]
""",
    "i",
)
