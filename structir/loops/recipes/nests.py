"""The recipe of handwritten kernels: loop order and tiles do not decide how fast they run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from structir.ir import dims
from structir.ir.kernel import (
    Assign,
    Branch,
    Element,
    For,
    KernelStatement,
)
from structir.loops.handle import KernelHandle, TargetInfo, recipe
from structir.loops.recipe_steps import innermost_loops
from structir.loops.schedule.accesses import expressions
from structir.loops.schedule.block_loops import blocked_by
from structir.loops.schedule.bounds import is_in_range
from structir.loops.schedule.loop_tree import LoopTree
from structir.loops.schedule.products import added_factors


@recipe
def nests(kernel: KernelHandle, target: TargetInfo, least: int = 512, fewest: int = 8) -> None:
    """Replaces products by library functions, and makes contiguous stores the innermost loop.

    Tests of loop variables become bounds. Loops over blocks are collapsed where the whole nest is a
    product of at least `least` multiplications, and of at least `fewest` terms and columns. Each
    element receives the same terms in the same order, so results keep every bit. Nests with an
    index that may be out of range keep their order.
    """
    for change in (partial(_replace_products, least=least, fewest=fewest), _move_inward):
        before = len(kernel.steps)
        _inline_indices(kernel)
        _bound_loops(kernel)
        if not change(kernel):
            kernel.undo(len(kernel.steps) - before)
    _bound_loops(kernel)


def _bound_loops(kernel: KernelHandle) -> None:
    """Moves the tests in loops to their bounds, innermost first."""
    for name in reversed(kernel.loops()):
        if isinstance(kernel.tree.loop(name).body[0], Branch):
            kernel.attempt("bound", name)


def _inline_indices(kernel: KernelHandle) -> None:
    """Replaces indices that are assigned in loops by their values, and positions in blocks by
    indices."""
    for name, scalar in list(kernel.tree.scalars.items()):
        if kernel.tree.values.get(scalar) is not None:
            kernel.attempt("inline", name)
    for name in kernel.loops():
        _skew(kernel, name)


def _skew(kernel: KernelHandle, name: str) -> None:
    """Makes a loop over the positions in a block one over indices."""
    tree = kernel.tree
    loop = tree.loop(name)
    symbol = tree.symbol(loop.variable)
    accesses = [a for a in tree.accesses(loop.body) if a.mention.element is not None]
    indices = [i for a in accesses for i in tree.indices(a.mention.element)]  # type: ignore[arg-type]
    known = [index for index in indices if index is not None and symbol in dims.syms(index)]
    for outer in reversed(tree.loops_around(loop)):
        forms = {dims.linear(index, tree.symbol(outer.variable)) for index in known}
        factors = {None if form is None else form[0] for form in forms}
        (factor,) = factors if len(factors) == 1 else (None,)
        if isinstance(factor, int) and factor > 0 and tree.index(loop.start) == 0:
            kernel.attempt("skew", name, outer.variable.name, factor)
            return


# ---- products


def _replace_products(kernel: KernelHandle, least: int, fewest: int) -> bool:
    """Replaces the products of a kernel; returns whether there is one."""
    for scalar in list(kernel.tree.scalars):
        if _is_total(kernel.tree, scalar):
            kernel.attempt("demote", scalar)
    safe: Safe = {}
    _isolate_sums(kernel, safe)
    count, refused = 0, set[str]()
    while True:
        alone = (_loop_of(kernel.tree, s) for s in _sums(kernel.tree, safe))
        inner = (loop.variable.name for loop in alone if loop is not None)
        remaining = [name for name in inner if name not in refused]
        if not remaining:
            return count > 0
        name = remaining[0]
        before = len(kernel.steps)
        if _replace(kernel, _nest_around(kernel.tree, kernel.tree.loop(name)), least, fewest):
            count += 1
        else:
            kernel.undo(len(kernel.steps) - before)
            refused.add(name)


def _is_total(tree: LoopTree, name: str) -> bool:
    """Whether a scalar is a sum of products in a loop that does not contain its first
    assignment."""
    scalar = tree.scalar(name)
    statements = (s for s in tree.within(tree.kernel.body) if isinstance(s, Assign))
    writes = [s for s in statements if s.target is scalar]
    depths = [len(tree.loops_around(s)) for s in writes]
    is_sum = any(added_factors(s, scalar) is not None for s in writes)
    return is_sum and depths[0] < depths[-1]


Safe = dict[KernelStatement, bool]  # by statements of the kernel: are all indices in range?


def _sums(tree: LoopTree, safe: Safe) -> Iterator[Assign]:
    """Yields the statements that add a product to an element in several iterations of a loop, in
    nests with all indices in range."""
    for statement in tree.within(tree.kernel.body):
        if isinstance(statement, Assign) and isinstance(statement.target, Element):
            loops, out = tree.loops_around(statement), statement.target
            if (
                added_factors(statement, out) is not None
                and not all(_depends(tree, out, loop) for loop in loops)
                and _is_safe(tree, statement, safe)
            ):
                yield statement


def _is_safe(tree: LoopTree, statement: KernelStatement, safe: Safe) -> bool:
    """Whether all indices in the outermost loop around a statement are in range, so that no check
    of an index fails, in whatever order."""
    (outer,) = tree.ancestors[statement][:1] or (statement,)
    if outer not in safe:
        safe[outer] = all(
            a.mention.element is None or is_in_range(tree, a.mention.element, a.loops)
            for a in tree.accesses((outer,))
        )
    return safe[outer]


def _isolate_sums(kernel: KernelHandle, safe: Safe) -> None:
    """Distributes loops, so that sums of products are alone in their loops."""
    refused = set[tuple[str, int]]()
    while True:
        tree = kernel.tree
        places = (place for s in _sums(tree, safe) for place in _boundaries(tree, s))
        place = next((p for p in places if p not in refused), None)
        if place is None:
            return
        if not kernel.attempt("fission", *place):
            refused.add(place)


def _boundaries(tree: LoopTree, statement: KernelStatement) -> Iterator[tuple[str, int]]:
    """Yields the loops around a statement that have others, innermost first, and the number of
    statements up to the end or the start of it."""
    inner = statement
    for outer in reversed(tree.ancestors[statement]):
        if isinstance(outer, For):
            at = next(k for k, s in enumerate(outer.body) if s is inner)
            for count in (at + 1, at):
                if 0 < count < len(outer.body):
                    yield outer.variable.name, count
        inner = outer


def _loop_of(tree: LoopTree, statement: KernelStatement) -> For | None:
    """Returns the loop in which a statement is alone."""
    outer = tree.ancestors[statement][-1]
    return outer if isinstance(outer, For) and len(outer.body) == 1 else None


def _nest_around(tree: LoopTree, loop: For) -> list[str]:
    """Returns the perfectly nested loops around the body of a loop, outermost first."""
    names = [loop.variable.name]
    for outer in reversed(tree.ancestors[loop]):
        if not isinstance(outer, For) or len(outer.body) > 1:
            break
        names.insert(0, outer.variable.name)
    return names


def _replace(kernel: KernelHandle, names: list[str], least: int, fewest: int) -> bool:
    """Replaces a nest that adds products by a library function."""
    names = _without_blocks(kernel, names)
    tree = kernel.tree
    loops = [tree.loop(name) for name in names]
    (step,) = loops[-1].body
    assert isinstance(step, Assign) and isinstance(step.target, Element)
    out, factors = step.target, added_factors(step, step.target)
    assert factors is not None
    columns = next((loop for loop in loops if _is_contiguous(tree, out, loop)), None)
    terms = [loop for loop in loops if not _depends(tree, out, loop)]
    if columns is None or not terms:
        return False
    left = factors[1] if _depends(tree, factors[0], columns) else factors[0]
    right = factors[1] if left is factors[0] else factors[0]
    rows = [
        loop
        for loop in loops
        if loop is not columns
        and _depends(tree, out, loop)
        and _depends(tree, left, loop)
        and not _depends(tree, right, loop)
    ]
    inner = [*rows[-1:], terms[-1], columns]
    if _is_small(tree, inner, least) or any(_is_small(tree, [e], fewest) for e in inner[-2:]):
        return False
    order = [loop for loop in loops if loop not in inner] + inner
    wanted = [loop.variable.name for loop in order]
    if wanted != names and not kernel.attempt("reorder", *wanted):
        return False
    return kernel.attempt("tensorise", inner[0].variable.name, ordered=True)


def _without_blocks(kernel: KernelHandle, names: list[str]) -> list[str]:
    """Collapses loops over blocks and over the iterations of a block, where this is legal; returns
    the loops that remain."""
    tree = kernel.tree
    loops = [tree.loop(name) for name in names]
    pairs = {inner: blocked_by(tree, inner, loops[:k]) for k, inner in enumerate(loops)}
    outer = [loop for loop, around in pairs.items() if around is not None]
    inside = {around: loop for loop, around in pairs.items() if around is not None}
    order, blocks = list[For](), list[str]()
    for loop in loops:
        if loop in outer:
            continue
        order.append(loop)
        while order[-1] in inside:
            blocks.append(order[-1].variable.name)
            order.append(inside[order[-1]])
    wanted = [loop.variable.name for loop in order]
    if wanted != names and not kernel.attempt("reorder", *wanted):
        return names
    for name in reversed(blocks):
        if kernel.attempt("collapse", name):
            wanted.remove(name)
    return wanted


def _is_small(tree: LoopTree, loops: list[For], least: int) -> bool:
    """Whether nested loops are known to have less than so many iterations."""
    counts = [tree.trip_count(loop) for loop in loops]
    known = [count for count in counts if isinstance(count, int)]
    return len(known) == len(counts) and prod(known) < least


# ---- order of loops


def _move_inward(kernel: KernelHandle) -> bool:
    """Moves contiguous loops of all nests inward; returns whether there are any."""
    moved, safe = False, Safe()
    for name in innermost_loops(kernel.tree):
        nest = _nest_around(kernel.tree, kernel.tree.loop(name))
        moved = _move_contiguous_inward(kernel, nest, safe) or moved
    return moved


def _move_contiguous_inward(kernel: KernelHandle, names: list[str], safe: Safe) -> bool:
    """Makes the loop along which the stores of a nest are contiguous the innermost one, unless a
    read is not; returns whether the order has changed."""
    tree = kernel.tree
    loops = [tree.loop(name) for name in names]
    stores = [s.target for s in loops[-1].body if isinstance(s, Assign)]
    elements = [e for s in loops[-1].body for e in expressions(s) if isinstance(e, Element)]
    if len(loops) < 2 or len(stores) < len(loops[-1].body):
        return False
    for loop in reversed(loops):
        is_stored = all(isinstance(s, Element) and _is_contiguous(tree, s, loop) for s in stores)
        if is_stored and all(
            _is_contiguous(tree, e, loop) or not _depends(tree, e, loop) for e in elements
        ):
            name = loop.variable.name
            others = [n for n in names if n != name]
            is_legal = loop is not loops[-1] and _is_safe(tree, loop, safe)
            return is_legal and kernel.attempt("reorder", *others, name)
    return False


def _depends(tree: LoopTree, element: Element, loop: For) -> bool:
    """Whether the indices of an element depend on a loop, or on data."""
    symbol = tree.symbol(loop.variable)
    return any(index is None or symbol in dims.syms(index) for index in tree.indices(element))


def _is_contiguous(tree: LoopTree, element: Element, loop: For) -> bool:
    """Whether each iteration of a loop accesses the element after that of the iteration before."""
    indices, symbol = tree.indices(element), tree.symbol(loop.variable)
    if loop.step != 1 or not indices or None in indices:
        return False
    form = dims.linear(indices[-1], symbol)  # type: ignore[arg-type]
    others = {s for index in indices[:-1] for s in dims.syms(index)}  # type: ignore[arg-type]
    return form is not None and form[0] == 1 and symbol not in others
