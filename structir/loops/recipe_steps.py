"""Steps that recipes share: recomputation, loop fusion, and loop collapsing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from structir.ir.kernel import Apply, Assign, For, KernelStatement, Scalar, Scratch
from structir.ir.scalar_functions import declared
from structir.loops.handle import KernelHandle
from structir.loops.schedule.accesses import expressions, is_same_element, reassociable
from structir.loops.schedule.loop_tree import LoopTree

COSTS = {"div": 4.0, "floordiv": 6.0, "mod": 6.0}  # relative to an addition


def cost(value: Scalar) -> float:
    """Returns the cost of a value, in additions."""
    applied = [part.fn for part in expressions(value) if isinstance(part, Apply)]
    return sum(_cost_of(fn) for fn in applied)


def value_cost(value: Scalar) -> float:
    """Returns the cost of a value without that of indices, in additions."""
    if not isinstance(value, Apply):
        return 0.0
    return _cost_of(value.fn) + sum(map(value_cost, value.args))


def _cost_of(fn: str) -> float:
    function = declared().get(fn)
    return COSTS.get(fn, 1.0) if function is None else function.cost


def inline_arrays(
    kernel: KernelHandle, recompute_below: float, cost_of: Callable[[Scalar], float] = cost
) -> None:
    """Inlines local arrays whose elements are cheap, or that have a single read in as many loops as
    their store."""
    for name in list(kernel.tree.arrays):
        if _is_cheap(kernel.tree, name, recompute_below, cost_of):
            kernel.attempt("inline", name)


def _is_cheap(tree: LoopTree, name: str, limit: float, cost_of: Callable[[Scalar], float]) -> bool:
    array = tree.arrays[name].array
    uses = tree.uses(array)
    reads = [access for access in uses if not access.is_write]
    stores = [a.statement for a in uses if a.is_write and isinstance(a.statement, Assign)]
    if len(stores) != 1 or any(a.mention.element is None for a in reads):
        return False
    depth = len(tree.loops_around(stores[0]))
    is_once = len(reads) == 1 and len(reads[0].loops) == depth
    return is_once or cost_of(stores[0].value) < limit


def fuse_loops(kernel: KernelHandle) -> None:
    """Fuses adjacent loops over the same range that share memory, one of them reading, where fusion
    is legal."""
    refused = set[tuple[KernelStatement, ...]]()
    while any(_fuses(kernel, pair, refused) for pair in _neighbours(kernel.tree)):
        pass


def _fuses(
    kernel: KernelHandle, pair: tuple[str, str], refused: set[tuple[KernelStatement, ...]]
) -> bool:
    """Fuses two loops, unless this was refused before, with the same statements between them."""
    tree = kernel.tree
    first, last = map(tree.loop, pair)
    block = tree.block_of(first)
    ends = [number for number, statement in enumerate(block) if statement in (first, last)]
    key = tuple(block[ends[0] : ends[-1] + 1])
    if key in refused or not _shares_reads(tree, *pair):
        return False
    if kernel.attempt("fuse", *pair):
        return True
    refused.add(key)
    return False


def _shares_reads(tree: LoopTree, first: str, second: str) -> bool:
    accesses = [tree.accesses(tree.loop(name).body) for name in (first, second)]
    memories = [{id(a.memory) for a in each} for each in accesses]
    return any(
        not a.is_write and id(a.memory) in memories[0] & memories[1]
        for each in accesses
        for a in each
    )


def _neighbours(tree: LoopTree) -> list[tuple[str, str]]:
    """Returns pairs of consecutive loops of one block."""
    pairs, last = [], dict[object, str]()
    for name, loop in tree.loops.items():
        block = tree.ancestors[loop][-1:]
        if block in last:
            pairs.append((last[block], name))
        last[block] = name
    return pairs


def shrink_arrays(kernel: KernelHandle) -> None:
    """Replaces local arrays by scalars, where this is legal."""
    for name in list(kernel.tree.arrays):
        if _has_one_element(kernel.tree, name):
            kernel.attempt("shrink", name)


def _has_one_element(tree: LoopTree, name: str) -> bool:
    """Whether all accesses of an array have the same indices."""
    array = tree.arrays[name].array
    uses = tree.uses(array)
    elements = [a.mention.element for a in uses if not isinstance(a.statement, Scratch)]
    return bool(elements) and all(is_same_element(elements[0], e) for e in elements)


def collapse_loops(kernel: KernelHandle) -> None:
    """Collapses nested loops, innermost first, unless this adds divisions of the loop variable."""
    for name in reversed(kernel.loops()):
        known = set(kernel.loops())
        if _counts_iterations(kernel.tree, name) and kernel.attempt("collapse", name):
            joined = next(n for n in kernel.loops() if n not in known)
            if _divides(kernel.tree, joined):
                kernel.undo()


def _counts_iterations(tree: LoopTree, name: str) -> bool:
    """Whether a loop and the only statement in it both count from 0."""
    loop = tree.loop(name)
    inner = loop.body[0] if len(loop.body) == 1 else None
    return isinstance(inner, For) and None not in (tree.trip_count(loop), tree.trip_count(inner))


def collapse_rows(kernel: KernelHandle) -> None:
    """Collapses the outermost loops down to the rows, so that threads divide all rows: the first
    loop alone may have few iterations."""
    while _has_rows_of_rows(kernel.tree) and kernel.attempt("collapse", kernel.loops()[0]):
        pass


def _has_rows_of_rows(tree: LoopTree) -> bool:
    """Whether the kernel starts with two perfectly nested loops around a further loop."""
    first = next(iter(tree.loops.values()), None)
    if first is None or len(first.body) != 1 or not isinstance(first.body[0], For):
        return False
    return any(isinstance(s, For) for s in tree.within(first.body[0].body))


def _divides(tree: LoopTree, name: str) -> bool:
    """Whether a loop divides its variable."""
    loop = tree.loop(name)
    parts = [p for s in tree.within(loop.body) for p in expressions(s) if isinstance(p, Apply)]
    return any(p.fn in ("floordiv", "mod") and p.args[0] is loop.variable for p in parts)


def replace_divisions(kernel: KernelHandle, loops: Sequence[str]) -> None:
    """Replaces loop-invariant divisors by reciprocals, where this is legal."""
    for loop in loops:
        if applies(kernel.tree, loop, "div"):
            kernel.attempt("reciprocal", loop)


def innermost_loops(tree: LoopTree) -> list[str]:
    """Returns the loops without nested loops."""
    return [
        name
        for name, loop in tree.loops.items()
        if not any(isinstance(s, For) for s in tree.within(loop.body))
    ]


def reassociate_sums(kernel: KernelHandle) -> None:
    """Marks the accumulations of innermost loops as reorderable."""
    # ops do not specify an order of their terms, even for exact functions
    options = {"exact": False} if kernel.partial else {}
    for loop in innermost_loops(kernel.tree):
        if _accumulates(kernel.tree, loop):
            kernel.attempt("reassociate", loop, **options)


def _accumulates(tree: LoopTree, loop: str) -> bool:
    """Whether a loop has a sum, a product or an extremum whose terms may be reordered."""
    statements = tree.within(tree.loop(loop).body)
    return any(isinstance(s, Assign) and reassociable(s) is not None for s in statements)


def run_in_parts(kernel: KernelHandle) -> None:
    """Parallelises the outermost loop, if it is the whole kernel."""
    # generated kernels permit fused multiply-add, as parallel kernels do
    options = {"partial": True, "exact": False} if kernel.partial else {}
    for loop in kernel.loops()[:1]:
        kernel.attempt("parallel", loop, **options)


def applies(tree: LoopTree, loop: str, *functions: str) -> bool:
    """Whether a loop body applies one of some functions."""
    statements = tree.within(tree.loop(loop).body)
    parts = (part for statement in statements for part in expressions(statement))
    return any(isinstance(part, Apply) and part.fn in functions for part in parts)
