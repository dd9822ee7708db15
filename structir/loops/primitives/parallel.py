"""Parallelises the outermost loop over threads."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import Apply, For, Kernel, Local, Part, Scratch
from structir.ir.node import replace
from structir.loops.schedule.edits import Names, calculate, exchange, integer
from structir.loops.schedule.initialisation import first_uninitialised_read, is_filled
from structir.loops.schedule.legality import conflicts, is_private, meets_later
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import dependence, refuse_jumps
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal


@primitive(changes_rounding=True)  # parallel kernels are compiled with fused multiply-add
def parallel(kernel: Kernel, loop: str, partial: bool = False) -> Kernel:
    """Divides the iterations of a loop into parts, `low, high = T.part(n)`, which threads execute.

    The loop must count from 0 and be the whole kernel. Refused if iterations depend on each other.
    The loop must write all elements of the results, which a kernel with parts does not initialise.
    With `partial`, elements that the kernel does not write keep their values.
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    _require_whole_kernel(tree, old)
    refuse_jumps(old)
    _refuse_dependences(tree, old)
    _require_filled_results(tree, old, partial)
    stop = _count(tree, old)
    names = Names(tree)
    low, high = [Local(names.fresh(name), "int64") for name in ("low", "high")]
    step, ends = integer(old.step), (low, high)
    start, end = [calculate("mul", bound, step) for bound in ends]
    if old.step > 1:
        end = Apply("min", (end, old.stop), "int64")
    part = Part(low, high, dims.ceildiv(stop, old.step))
    return exchange(kernel, old, part, replace(old, start=start, stop=end))


def _count(tree: LoopTree, loop: For) -> Dim:
    """Returns the stop of a loop from 0; raises ScheduleError for other loops."""
    stop = tree.index(loop.stop)
    if loop.step < 1 or tree.index(loop.start) != 0 or stop is None:
        name = loop.variable.name
        raise refusal(
            "E1116",
            f"expected a loop from 0 to a size, found {loop.start} to {loop.stop} in steps of "
            f"{loop.step}",
            loop,
            help=f"write `for {name} in range(n):` and compute the index from `{name}`",
        )
    return stop


def _require_whole_kernel(tree: LoopTree, loop: For) -> None:
    statements = [s for s in tree.kernel.body if s is not loop and not isinstance(s, Scratch)]
    other = (*tree.ancestors[loop], *statements, None)[0]
    if other is not None or tree.kernel.body[-1] is not loop:
        raise refusal(
            "E1116",
            f"expected `{loop.variable.name}` as the only statement besides local arrays",
            ("loop", loop),
            ("statement", other or tree.kernel.body[-1]),
            help="fuse the loops of the kernel first, or name the outermost loop",
        )


def _refuse_dependences(tree: LoopTree, loop: For) -> None:
    accesses = tree.accesses(loop.body)
    pairs = conflicts(
        accesses,
        accesses,
        lambda one, other: meets_later(tree, one, other, loop),
        lambda memory: is_private(tree, memory, loop.body, loop),
    )
    pair = next(pairs, None)
    if pair is not None:
        raise dependence(
            f"iterations of `{loop.variable.name}` depend on each other",
            pair,
            help="run a loop in parts whose iterations write different elements",
        )


def _require_filled_results(tree: LoopTree, loop: For, partial: bool) -> None:
    for result in tree.kernel.results:
        read = first_uninitialised_read(tree, result, loop.body)
        if read is None and (partial or is_filled(tree, result, (loop,))):
            continue
        write = next(a for a in tree.accesses((loop,)) if a.memory is result and a.is_write)
        raise refusal(
            "E1119",
            f"expected the loop to fill `{result.name}` before it reads it: a kernel in parts "
            "does not set its results to zero",
            ("access", read or write.statement),
            ("loop", loop),
            help=f"assign every element of `{result.name}` first, such as `{result.name}[i] = 0.0`",
        )


parallel.example(
    """
@I.kernel
def scale(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()
    for i in range(n):
        for j in range(m):
            out[i, j] = 2.0 * x[i, j]
""",
    "i",
)
