"""Marks the stores of a loop as non-temporal."""

from __future__ import annotations

from structir.ir.kernel import Assign, Element, For, Kernel, KernelStatement
from structir.ir.node import replace
from structir.loops.schedule.edits import exchange_all
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal


@primitive
def stream(kernel: Kernel, loop: str) -> Kernel:
    """Marks the stores of a loop as non-temporal: they bypass the caches where the loop fills whole
    cache lines.

    The loop must have step 1 and only assign. Its variable must be the last index of each store,
    and it must not read the stored arrays. Faster for results that exceed the caches, slower for
    smaller ones.
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    stores = [s for s in old.body if isinstance(s, Assign) and isinstance(s.target, Element)]
    _require_neighbours(tree, old, stores)
    exchanges: dict[KernelStatement, tuple[KernelStatement, ...]] = {
        s: (replace(s, non_temporal=True),) for s in stores
    }
    return exchange_all(kernel, exchanges)


def _require_neighbours(tree: LoopTree, loop: For, stores: list[Assign]) -> None:
    name = loop.variable.name
    other = next((s for s in loop.body if not isinstance(s, Assign)), None)
    if loop.step != 1 or other is not None or not stores:
        raise refusal(
            "E1116",
            f"expected a loop in steps of 1 that only assigns elements, found `{loop}`",
            ("loop", loop),
            ("statement", other or loop),
            help="stream the innermost loop, which fills neighbouring elements",
        )
    for store in stores:
        indices = store.target.indices  # type: ignore[union-attr]
        if store.symbol or not indices or indices[-1] is not loop.variable:
            raise refusal(
                "E1116",
                f"expected a store at `{name}` along the last axis, found `{store.target}`",
                ("store", store),
                ("loop", loop),
                help=f"stream a loop whose variable is the last index, such as `out[i, {name}]`",
            )
    arrays = {store.target.array for store in stores}  # type: ignore[union-attr]
    reads = (a for a in tree.accesses(loop.body) if not a.is_write and a.memory in arrays)
    read = next(reads, None)
    if read is not None:
        raise refusal(
            "E1116",
            f"`{name}` reads `{read.memory.name}`, whose lines would leave the caches",
            ("read", read.statement),
            ("loop", loop),
            help="stream the stores to an array that the loop does not read",
        )


stream.example(
    """
@I.kernel
def scale(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    for i in range(n):
        out[i] = 2.0 * x[i]
""",
    "i",
)
