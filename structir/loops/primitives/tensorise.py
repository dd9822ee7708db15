"""Replaces a loop nest by a call of a library function that computes the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Literal,
    Local,
    Scalar,
)
from structir.ir.node import Node
from structir.loops.schedule.edits import calculate, exchange, integer
from structir.loops.schedule.legality import read_after
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.products import added_factors
from structir.loops.schedule.refusal import refusal
from structir.loops.schedule.regions import written

DTYPES = ("float32", "float64")


# products are summed in another order
@primitive(changes_rounding=True, exact_option="ordered")
def tensorise(kernel: Kernel, loop: str, ordered: bool = False) -> Kernel:
    """Replaces a loop nest by a call of a library function that computes the same:
    `T.tiled_product` for a matrix product, `T.transpose` for a transposed copy.

    The nest is matched by its accesses, not by names or the order of its loops: one or two loops
    over the elements of the result, around a sum of products over a third loop, or around a copy.
    The sum starts at 0, in a scalar or in the element itself. Each loop variable must be an index
    of its own, and the last index of the result a loop variable.

    With `ordered`, no operation is rounded differently: the nest must add products to the elements
    of the result, in two or three loops in any order, and becomes `T.ordered_product`.
    """
    tree = loop_tree(kernel)
    nest = _nest(tree, tree.loop(loop))
    for match in ORDERED_MATCHES if ordered else MATCHES:
        call = match(nest)
        if call is not None:
            return exchange(kernel, nest.loops[0], call)
    raise _unmatched(nest, nest.body[0])


@attrs.frozen(eq=False)
class _TensorisedNest:
    """Perfectly nested loops, and the statements in the innermost one."""

    tree: LoopTree
    loops: tuple[For, ...]
    body: tuple[KernelStatement, ...]
    variables: frozenset[Sym]  # of these loops, and of those in the body

    def stride(self, element: Element, loop: For | None) -> Dim:
        """Returns the stride of an element along a loop."""
        if loop is None:
            return 0
        symbol, shape = self.tree.symbol(loop.variable), element.array.struct_info.dims  # type: ignore[attr-defined]
        moving = []
        for axis, index in enumerate(self.tree.indices(element)):
            linear = None if index is None else dims.linear(index, symbol)
            if linear is None or linear[0] not in (0, 1):
                raise _unmatched(self, element, f"`{loop.variable.name}` as an index of its own")
            moving += [axis] if linear[0] == 1 else []
        if len(moving) > 1:
            raise _unmatched(self, element, f"one index `{loop.variable.name}`")
        return prod(shape[moving[0] + 1 :]) if moving else 0

    def start(self, element: Element, loops: Sequence[For]) -> Element:
        """Returns the element in the first iteration of loops, as `x.flat[i]`."""
        index: Any = self.tree.flat_index(element)
        firsts = {self.tree.symbol(each.variable): _ends(self, each)[0] for each in loops}
        start = written(self.tree, dims.substitute(index, firsts))
        return Element(element.array, (start,), element.dtype, None, True)

    def order(self, target: Element, count: int) -> tuple[For | None, For] | None:
        """Returns the loop over rows, if there is one, and the loop over columns, whose variable is
        the last index of the result."""
        if len(self.loops) > count or target.flat or not target.indices:
            return None
        fast = [each for each in self.loops if self.stride(target, each) == 1]
        last: Any = self.tree.indices(target)[-1]
        fast = [each for each in fast if self.tree.symbol(each.variable) in dims.syms(last)]
        slow = [each for each in self.loops if each not in fast]
        if len(fast) != 1 or any(self.stride(target, each) == 0 for each in slow):
            return None
        return (slow[0] if slow else None), fast[0]


def _nest(tree: LoopTree, outer: For) -> _TensorisedNest:
    loops = [outer]
    while len(loops[-1].body) == 1 and isinstance(loops[-1].body[0], For):
        loops.append(loops[-1].body[0])
    inner = [s for s in tree.within((outer,)) if isinstance(s, For)]
    variables = frozenset([tree.symbol(each.variable) for each in inner])
    return _TensorisedNest(tree, tuple(loops), loops[-1].body, variables)


def _ends(nest: _TensorisedNest, loop: For) -> tuple[Dim, list[Dim]]:
    """Returns the start and the stops of a loop, which must not depend on other loops of the
    nest."""
    ends = nest.tree.exact_ends(loop)
    is_dependent = ends is not None and any(
        dims.syms(d) & nest.variables for d in (ends[0], *ends[1])
    )
    if ends is None or loop.step != 1 or is_dependent:
        raise _unmatched(nest, loop, "a range in steps of 1 that does not depend on the nest")
    return ends[0], ends[1]


def _count(nest: _TensorisedNest, loop: For | None) -> Scalar:
    if loop is None:
        return integer(1)
    _ends(nest, loop)
    return calculate("sub", loop.stop, loop.start)


def _transpose(nest: _TensorisedNest) -> LibraryCall | None:
    match nest.body:
        case (Assign(Element() as out, Element() as source, ""),):
            pass
        case _:
            return None
    order = nest.order(out, 2)
    if order is None or order[0] is None or not _are_arrays(nest, out, source):
        return None
    rows, columns = order
    if nest.stride(source, rows) != 1 or nest.stride(source, columns) == 0:
        return None
    pairs = (out, rows), (source, columns)
    steps = [written(nest.tree, nest.stride(each, along)) for each, along in pairs]
    elements = [nest.start(each, nest.loops) for each in (out, source)]
    counts = [_count(nest, rows), _count(nest, columns)]
    return LibraryCall("transpose", (*elements, *counts, *steps))


def _product(nest: _TensorisedNest) -> LibraryCall | None:
    product = _sum_of_products(nest)
    if product is None:
        return None
    terms, factors, out, total = product
    if isinstance(total, Local):
        _refuse_live(nest, total)
    return _call("tiled_product", nest, terms, factors, out)


def _ordered_product(nest: _TensorisedNest) -> LibraryCall | None:
    match nest.body:
        case (Assign(Element() as out) as step,):
            factors = added_factors(step, out)
        case _:
            return None
    terms = [each for each in nest.loops if nest.stride(out, each) == 0]
    if factors is None or len(terms) != 1:
        return None
    others = tuple([each for each in nest.loops if each is not terms[0]])
    over = attrs.evolve(nest, loops=others)
    return _call("ordered_product", over, terms[0], factors, out) if others else None


def _call(
    fn: str, nest: _TensorisedNest, terms: For, factors: tuple[Element, Element], out: Element
) -> LibraryCall | None:
    """Returns the product that a nest is, over the elements of the result."""
    order = nest.order(out, 2)
    if order is None or not _are_arrays(nest, out, *factors):
        return None
    rows, columns = order
    if nest.stride(out, terms) != 0:
        return None
    for left, right in (factors, factors[::-1]):
        if nest.stride(left, columns) != 0 or nest.stride(right, rows) != 0:
            continue
        strides = [
            *[written(nest.tree, nest.stride(left, each)) for each in (rows, terms)],
            *[written(nest.tree, nest.stride(right, each)) for each in (terms, columns)],
        ]
        counts = [_count(nest, each) for each in (rows, columns, terms)]
        row = counts[1] if rows is None else written(nest.tree, nest.stride(out, rows))
        elements = [nest.start(each, (*nest.loops, terms)) for each in (left, right, out)]
        return LibraryCall(fn, (*elements, *counts, *strides, row))
    return None


Match = Callable[[_TensorisedNest], LibraryCall | None]
MATCHES: tuple[Match, ...] = (_transpose, _product)
ORDERED_MATCHES: tuple[Match, ...] = (_transpose, _ordered_product)


def _sum_of_products(
    nest: _TensorisedNest,
) -> tuple[For, tuple[Element, Element], Element, Local | Element] | None:
    """Returns the loop over terms, the factors, the result, and where the sum is accumulated."""
    match nest.body:
        case (Assign(total, zero, ""), For() as terms, Assign(Element() as out, value, "")):
            if value is not total or not isinstance(total, Local):
                return None
        case (Assign(Element() as total, zero, ""), For() as terms):
            out = total
        case _:
            return None
    if not _is_zero(zero) or len(terms.body) != 1 or not isinstance(terms.body[0], Assign):
        return None
    factors = added_factors(terms.body[0], total)
    return None if factors is None else (terms, factors, out, total)


def _is_zero(value: Scalar) -> bool:
    if isinstance(value, Apply) and value.fn == "cast":
        (value,) = value.args
    return isinstance(value, Literal) and value.value == 0


def _are_arrays(nest: _TensorisedNest, out: Element, *reads: Element) -> bool:
    """Whether the elements are of arrays of one float dtype in main memory, and the result is not
    read."""
    arrays = [each.array for each in (out, *reads)]
    dtypes = {str(array.struct_info.dtype) for array in arrays}  # type: ignore[attr-defined]
    local = [nest.tree.arrays[a.name] for a in arrays if a.name in nest.tree.arrays]
    is_plain = not any(each.flat for each in (out, *reads))
    is_apart = all(each.array is not out.array for each in reads)
    in_memory = not any(scratch.space for scratch in local)
    return len(dtypes) == 1 and dtypes <= {*DTYPES} and is_plain and is_apart and in_memory


def _refuse_live(nest: _TensorisedNest, total: Local) -> None:
    read = read_after(nest.tree, total, nest.loops[0])
    if read is not None:
        raise refusal(
            "E1119",
            f"`{total.name}` is read after the loops, and the library function does not compute it",
            ("loop", nest.loops[0]),
            ("read", read),
            help="read the element of the result instead",
        )


def _unmatched(nest: _TensorisedNest, node: Node, expected: str = "") -> Exception:
    what = expected or "a matrix product or a transposed copy"
    return refusal(
        "E1116",
        f"expected {what}, found no function of the library that computes this",
        ("loop", nest.loops[0]),
        ("statement", node),
        help="name the outermost loop of `for i: for j: total = 0; for k: total = total + "
        "a[i, k] * b[k, j]; c[i, j] = total`, or of `for i: for j: c[i, j] = a[j, i]`",
    )


tensorise.example(
    """
@I.kernel
def product(
    a: R.Tensor(("n", 64), "float32"),
    b: R.Tensor((64, "m"), "float32"),
    c: R.Tensor(("n", "m"), "float32"),
):
    n = T.int64()
    m = T.int64()
    for i in range(n):
        for j in range(m):
            total = T.float32(0.0)
            for k in range(64):
                total = total + a[i, k] * b[k, j]
            c[i, j] = total
""",
    "i",
)
tensorise.example(
    """
@I.kernel
def product(
    a: R.Tensor(("n", 64), "float32"),
    b: R.Tensor((64, "m"), "float32"),
    c: R.Tensor(("n", "m"), "float32"),
):
    n = T.int64()
    m = T.int64()
    for k in range(64):
        for i in range(n):
            for j in range(m):
                c[i, j] = c[i, j] + a[i, k] * b[k, j]
""",
    "k",
    ordered=True,
)
tensorise.example(
    """
@I.kernel
def turn(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("m", "n"), "float32")):
    n = T.int64()
    m = T.int64()
    for i in range(m):
        for j in range(n):
            out[i, j] = x[j, i]
""",
    "i",
)
