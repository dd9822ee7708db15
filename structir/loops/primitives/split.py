"""Strip mining: splits a loop into a loop over blocks and a loop in each block."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.kernel import Apply, For, Kernel, LoopVariable, Scalar
from structir.ir.node import replace
from structir.loops.schedule.edits import Names, calculate, exchange, fresh_copy, integer
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import refuse_jumps, refuse_varying_bounds
from structir.loops.schedule.primitive import positive, primitive
from structir.loops.schedule.refusal import refusal

TAILS = ("guard", "exact", "peel")


@primitive
def split(kernel: Kernel, loop: str, factor: int, tail: str = "guard") -> Kernel:
    """Splits a loop into blocks of `factor` iterations: `for i_0 ...: for i ...`.

    The inner loop keeps its variable, so that indices are unchanged. `tail` selects the handling of
    a partial last block: `guard` bounds the inner loop by `min`, `peel` adds a remainder loop, and
    `exact` requires a trip count that is a multiple of `factor`.
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    positive(factor, "factor")
    if tail not in TAILS:
        message = f'tail: expected "guard", "exact" or "peel", found {tail!r}'
        raise refusal("E1115", message, old, help='write `tail="guard"`')
    refuse_jumps(old)
    refuse_varying_bounds(tree, old)
    names = Names(tree)
    outer = LoopVariable(names.fresh(f"{loop}_0"), "int64")
    step = old.step * factor
    end = calculate("add" if step > 0 else "sub", outer, integer(abs(step)))
    if tail == "peel":
        return _peel(kernel, names, old, replace(old, start=outer, stop=end), step)
    if tail == "guard":
        end = Apply("min" if step > 0 else "max", (end, old.stop), "int64")
    else:
        _require_multiple(tree, old, factor)
    inner = replace(old, start=outer, stop=end)
    return exchange(kernel, old, For(outer, old.start, old.stop, step, (inner,)))


def _require_multiple(tree: LoopTree, loop: For, factor: int) -> None:
    ends = tree.exact_ends(loop)
    if ends is not None and len(ends[1]) == 1:
        count = dims.ceildiv(ends[1][0] - ends[0], ends[2])
        if dims.equal(dims.floormod(count, factor), 0):
            return
    name = loop.variable.name
    raise refusal(
        "E1116",
        f"expected a multiple of {factor} iterations of `{name}` for all sizes",
        loop,
        help=f'use `split("{name}", {factor}, "guard")`, or declare the size as a multiple, '
        f'such as `"{factor} * b"`',
    )


def _peel(kernel: Kernel, names: Names, old: For, block: For, step: int) -> Kernel:
    """Returns the kernel with a loop over whole blocks, followed by a remainder loop."""
    count = calculate("sub", old.stop, old.start)
    if not loop_tree(kernel).is_positive(old):
        count = Apply("max" if step > 0 else "min", (count, integer(0)), "int64")
    whole = calculate("mul", calculate("floordiv", count, integer(step)), integer(step))
    middle: Scalar = calculate("add", old.start, whole)
    outer = block.start
    assert isinstance(outer, LoopVariable)
    rest = fresh_copy(names, replace(old, start=middle))
    return exchange(kernel, old, For(outer, old.start, middle, step, (block,)), rest)


split.example(
    """
@I.kernel
def scale(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    for i in range(n):
        out[i] = 2.0 * x[i]
""",
    "i",
    64,
)
split.example(
    """
@I.kernel
def scale(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    for i in range(n):
        out[i] = 2.0 * x[i]
""",
    "i",
    64,
    tail="peel",
)
