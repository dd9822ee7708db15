"""Steps that recipes share: what is computed again, and which loops are joined."""

from __future__ import annotations

from collections.abc import Sequence

from structir.ir.kernel import Apply, Assign, For, Scalar
from structir.ir.scalar_functions import declared
from structir.loops.accesses import expressions
from structir.loops.handle import KernelHandle
from structir.loops.loop_tree import LoopTree

COSTS = {"div": 4.0, "floordiv": 6.0, "mod": 6.0}  # an addition is 1


def cost(value: Scalar) -> float:
    """Returns the work of a value in additions."""
    applied = [part.fn for part in expressions(value) if isinstance(part, Apply)]
    return sum(_cost_of(fn) for fn in applied)


def _cost_of(fn: str) -> float:
    function = declared().get(fn)
    return COSTS.get(fn, 1.0) if function is None else function.cost


def inline_arrays(kernel: KernelHandle, recompute_below: float) -> None:
    """Inlines local arrays whose elements are cheap, or are read once for each time they are
    written."""
    for name in list(kernel.tree.arrays):
        if _is_cheap(kernel.tree, name, recompute_below):
            kernel.attempt("inline", name)


def _is_cheap(tree: LoopTree, name: str, limit: float) -> bool:
    array = tree.arrays[name].array
    uses = [a for a in tree.accesses(tree.kernel.body) if a.memory is array]
    reads = [access for access in uses if not access.is_write]
    stores = [a.statement for a in uses if a.is_write and isinstance(a.statement, Assign)]
    if len(stores) != 1:
        return False
    depth = len(tree.loops_around(stores[0]))
    is_once = len(reads) == 1 and len(reads[0].loops) == depth
    return is_once or cost(stores[0].value) < limit


def fuse_loops(kernel: KernelHandle) -> None:
    """Joins neighbouring loops over the same range that read common memory, or what the other one
    writes, as far as they may be joined."""
    while any(
        _shares_reads(kernel.tree, *pair) and kernel.attempt("fuse", *pair)
        for pair in _neighbours(kernel.tree)
    ):
        pass


def _shares_reads(tree: LoopTree, first: str, second: str) -> bool:
    accesses = [tree.accesses(tree.loop(name).body) for name in (first, second)]
    memories = [{id(a.memory) for a in each} for each in accesses]
    return any(
        not a.is_write and id(a.memory) in memories[0] & memories[1]
        for each in accesses
        for a in each
    )


def _neighbours(tree: LoopTree) -> list[tuple[str, str]]:
    """Returns pairs of loops, the second of which is the next loop of the same block."""
    pairs, last = [], dict[object, str]()
    for name, loop in tree.loops.items():
        block = tree.ancestors[loop][-1:]
        if block in last:
            pairs.append((last[block], name))
        last[block] = name
    return pairs


def shrink_arrays(kernel: KernelHandle) -> None:
    """Replaces local arrays by scalars, as far as they may be replaced."""
    for name in list(kernel.tree.arrays):
        kernel.attempt("shrink", name)


def collapse_loops(kernel: KernelHandle) -> None:
    """Joins nested loops, the innermost first, where all elements are accessed in even steps."""
    for name in reversed(kernel.loops()):
        known, body = set(kernel.loops()), kernel.tree.loop(name).body
        is_nested = len(body) == 1 and isinstance(body[0], For)
        if is_nested and kernel.attempt("collapse", name):
            joined = next(n for n in kernel.loops() if n not in known)
            if _divides(kernel.tree, joined):
                kernel.undo()


def collapse_rows(kernel: KernelHandle) -> None:
    """Joins the outermost loops around an innermost one, so that parts of the kernel are of all
    rows: there may be few iterations of the first loop."""
    while _has_rows_of_rows(kernel.tree) and kernel.attempt("collapse", kernel.loops()[0]):
        pass


def _has_rows_of_rows(tree: LoopTree) -> bool:
    """Whether the kernel is a loop around a loop around loops, each the only one."""
    first = next(iter(tree.loops.values()), None)
    if first is None or len(first.body) != 1 or not isinstance(first.body[0], For):
        return False
    return any(isinstance(s, For) for s in tree.within(first.body[0].body))


def _divides(tree: LoopTree, name: str) -> bool:
    """Whether a loop takes its variable apart."""
    loop = tree.loop(name)
    parts = [p for s in tree.within(loop.body) for p in expressions(s) if isinstance(p, Apply)]
    return any(p.fn in ("floordiv", "mod") and p.args[0] is loop.variable for p in parts)


def replace_divisions(kernel: KernelHandle, loops: Sequence[str]) -> None:
    """Replaces divisions in loops by products with reciprocals, where they may be replaced."""
    for loop in loops:
        if applies(kernel.tree, loop, "div"):
            kernel.attempt("reciprocal", loop)


def innermost_loops(tree: LoopTree) -> list[str]:
    """Returns the loops that contain no other."""
    return [
        name
        for name, loop in tree.loops.items()
        if not any(isinstance(s, For) for s in tree.within(loop.body))
    ]


def reassociate_sums(kernel: KernelHandle) -> None:
    """Permits any order of the terms that innermost loops accumulate."""
    # ops state no order of their terms, also where their functions are exact
    options = {"exact": False} if kernel.partial else {}
    for loop in innermost_loops(kernel.tree):
        if applies(kernel.tree, loop, "add", "mul", "select"):
            kernel.attempt("reassociate", loop, **options)


def run_in_parts(kernel: KernelHandle) -> None:
    """Runs the outermost loop in parts, if it is all that the kernel does."""
    # operations of generated kernels may be contracted, as those of kernels with parts may
    options = {"partial": True, "exact": False} if kernel.partial else {}
    for loop in kernel.loops()[:1]:
        kernel.attempt("parallel", loop, **options)


def applies(tree: LoopTree, loop: str, *functions: str) -> bool:
    """Whether a loop applies one of some functions."""
    statements = tree.within(tree.loop(loop).body)
    parts = (part for statement in statements for part in expressions(statement))
    return any(isinstance(part, Apply) and part.fn in functions for part in parts)
