"""Moves the producer loops of a local array into a consumer loop."""

from __future__ import annotations

from typing import Any

from structir.ir import dims
from structir.ir.kernel import VECTOR, For, Kernel, KernelStatement, Scalar
from structir.ir.node import replace
from structir.loops.schedule.accesses import Access
from structir.loops.schedule.edits import exchange_all
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import following
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.producers import producer, refuse_changes, require_reads_after
from structir.loops.schedule.refusal import refusal
from structir.loops.schedule.regions import AxisBounds, expression, extremum, region


@primitive
def compute_at(kernel: Kernel, memory: str, loop: str) -> Kernel:
    """Moves the producer loops of a local array to the start of the body of a consumer loop.

    Each iteration computes only the elements that it reads. Elements that several iterations read
    are recomputed. The array must have one store, indexed by its loop variables, and be read only
    in `loop`, which follows. Refused if an operand of the elements changes before they are read.
    """
    tree = loop_tree(kernel)
    array, target = tree.array(memory).array, tree.loop(loop)
    uses = tree.uses(array)
    uses = [a for a in uses if a.statement is not tree.array(memory)]
    store, nest = producer(tree, array, uses)
    block = tree.block_of(nest)
    later = block[following(block, nest) + 1 :]
    reads = [access for access in uses if not access.is_write]
    _require_reads_inside(tree, reads, nest, target)
    require_reads_after(tree, array, uses, (nest, *later))
    refuse_changes(tree, store, uses, later)
    inside = [read for read in reads if target in read.loops]
    bounds = region(tree, inside, lambda read: _inside(read, target))
    variables = store.target.indices  # type: ignore[union-attr]
    moved = _narrowed(tree, nest, dict(zip(variables, bounds, strict=True)))
    exchanges: dict[KernelStatement, tuple[KernelStatement, ...]] = {nest: ()}
    exchanges[target] = (replace(target, body=(moved, *target.body)),)
    return exchange_all(kernel, exchanges)


def _inside(access: Access, loop: For) -> tuple[For, ...]:
    """Returns the enclosing loops of an access inside an outer loop."""
    return access.loops[access.loops.index(loop) + 1 :]


def _require_reads_inside(
    tree: LoopTree, reads: list[Access], nest: KernelStatement, target: For
) -> None:
    outside = next((r.statement for r in reads if target not in r.loops), None)
    is_apart = target is not nest and target not in tree.ancestors[nest]
    if reads and outside is None and target.kind != VECTOR and is_apart:
        return
    raise refusal(
        "E1116",
        f"expected a plain loop with all reads of the array and not its writes, found `{target}`",
        ("loop", target),
        ("read outside" if outside is not None else "computed by", outside or nest),
        help="name the outermost loop that the reads have in common, before it is vectorised",
    )


def _narrowed(tree: LoopTree, nest: Any, bounds: dict[Any, AxisBounds]) -> Any:
    """Returns the producer loops restricted to the elements that are read."""
    if not isinstance(nest, For):
        return nest
    body = tuple([_narrowed(tree, statement, bounds) for statement in nest.body])
    axis = bounds.get(nest.variable)
    if axis is None or nest.step != 1:
        return replace(nest, body=body)
    start, stop = tree.index(nest.start), tree.index(nest.stop)
    starts, stops = map(list, (axis.starts, axis.stops))
    low = _limits(tree, nest.start, starts, any(_is_least(start, s) for s in starts))
    high = _limits(tree, nest.stop, stops, any(_is_least(s, stop) for s in stops))
    return replace(nest, start=extremum("max", low), stop=extremum("min", high), body=body)


def _is_least(one: Any, other: Any) -> bool:
    return one is not None and other is not None and dims.at_least(other, one) is True


def _limits(tree: LoopTree, old: Scalar, ends: list[Any], implied: bool) -> list[Scalar]:
    """Returns the ends of the restricted range, and the old end unless one of them implies it."""
    new = [e for e in (expression(tree, end) for end in ends) if e is not None]
    return new if implied else [*new, old]


compute_at.example(
    """
@I.kernel
def blur(x: R.Tensor(("n + 2",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    row = T.empty((n + 2,), "float32")
    for i in range(n + 2):
        row[i] = T.exp(x[i])
    for j_0 in range(0, n, 64):
        for j in range(j_0, min(j_0 + 64, n)):
            out[j] = row[j] + row[j + 1] + row[j + 2]
""",
    "row",
    "j_0",
)
