"""Replaces divisions by a loop-invariant value by products with its reciprocal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from structir.ir.dtype import is_float
from structir.ir.kernel import Apply, Assign, Element, For, Kernel, Literal, Local, Scalar
from structir.ir.kernel_functions import rounds_to_integers
from structir.ir.node import replace
from structir.loops.schedule.accesses import expressions, is_same
from structir.loops.schedule.bounds import is_in_range
from structir.loops.schedule.edits import Names, exchange, substitute
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal

ORDERED = frozenset({"abs", "cast", "max", "maximum", "min", "minimum", "neg", "select"})


@primitive(changes_rounding=True)
def reciprocal(kernel: Kernel, loop: str) -> Kernel:
    """Replaces divisions by a loop-invariant divisor by products: the reciprocal is computed once,
    before the loop.

    A divisor with an element is replaced only if the element is provably in bounds, because the
    loop may have no iteration; otherwise assign it to a scalar before the loop. A quotient that is
    rounded to an integer is not replaced: its last bit may change the integer.
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    names, reciprocals = Names(tree), list[tuple[Scalar, Local]]()
    rounded = {id(division) for division in _rounded_divisions(tree)}

    def factor(divisor: Scalar) -> Local:
        known = [scalar for other, scalar in reciprocals if is_same(other, divisor)]
        if not known:
            known = [Local(names.fresh(f"reciprocal_{loop}"), divisor.dtype)]
            reciprocals.append((divisor, known[0]))
        return known[0]

    def change(part: Any) -> Any:
        if id(part) in rounded:
            return None
        match part:
            case Apply("div", (dividend, divisor), dtype) if _is_invariant(tree, divisor, old):
                product = (substitute(dividend, change), factor(divisor))
                return Apply("mul", product, dtype, part.span)
            case Assign(symbol="/", value=divisor) if _is_invariant(tree, divisor, old):
                return replace(part, symbol="*", value=factor(divisor))
        return None

    new = substitute(old, change)
    if not reciprocals:
        raise _nothing_to_replace(tree, old, rounded)
    assigns = [
        Assign(scalar, Apply("div", (_one(divisor), divisor), scalar.dtype))
        for divisor, scalar in reciprocals
    ]
    return exchange(kernel, old, *assigns, new)


def _one(divisor: Scalar) -> Scalar:
    """Returns 1.0 in the dtype of a divisor, with a cast if the source of the divisor has no
    dtype."""
    one = Literal(1.0, divisor.dtype)
    has_dtype = any(
        [
            part.fn == "cast" if isinstance(part, Apply) else type(part) is not Literal
            for part in expressions(divisor)
        ]
    )
    return one if has_dtype else Apply("cast", (one,), divisor.dtype)


def _is_invariant(tree: LoopTree, divisor: Scalar, loop: For) -> bool:
    """Whether a float divisor is loop-invariant and can be evaluated before the loop."""
    inside = [loop.variable, *[s.variable for s in tree.within(loop.body) if isinstance(s, For)]]
    written = [a.memory for a in tree.accesses(loop.body) if a.is_write]
    parts = list(expressions(divisor))
    changes = any(part is other for part in parts for other in (*inside, *written))
    elements = [part for part in parts if isinstance(part, Element)]
    is_readable = all(
        is_in_range(tree, e, tree.loops_around(loop))
        and all(e.array is not memory for memory in written)
        for e in elements
    )
    return is_float(divisor.dtype) and not changes and is_readable


def _rounded_divisions(tree: LoopTree) -> Iterator[Apply | Assign]:
    """Yields the divisions whose quotients are rounded to integers, also through assignments."""
    assigns: dict[int, list[Assign]] = {}
    todo: list[Scalar] = []
    for statement in tree.within(tree.kernel.body):
        if isinstance(statement, Assign):
            assigns.setdefault(_memory(statement.target), []).append(statement)
        for part in expressions(statement):
            if isinstance(part, Apply) and rounds_to_integers(part.fn, part.dtype):
                todo += part.args
    while todo:
        match todo.pop():
            case Apply("div") as division:
                yield division
            case Apply(fn, args) if fn in ORDERED:
                todo += args
            case Local() | Element() as value:
                stores = assigns.pop(_memory(value), [])
                todo += [store.value for store in stores]
                yield from [store for store in stores if store.symbol == "/"]


def _memory(value: Scalar) -> int:
    """Returns the identity of a scalar, or of the array of an element."""
    return id(value.array) if isinstance(value, Element) else id(value)


def _nothing_to_replace(tree: LoopTree, loop: For, rounded: set[int]) -> Exception:
    divisions = [
        (statement, part)
        for statement in tree.within(loop.body)
        for part in expressions(statement)
        if isinstance(part, Apply) and part.fn == "div"
    ]
    name = loop.variable.name
    if not divisions:
        message = f"expected a division of floats in `{name}`, found none"
        return refusal("E1116", message, loop, help="name a loop that contains a division")
    statement, division = divisions[0]
    if id(division) in rounded:
        return refusal(
            "E1116",
            f"expected a quotient that is not rounded to an integer, found `{division}`",
            statement,
            help="keep the division: its last bit may decide which integer results",
        )
    return refusal(
        "E1117",
        f"expected a divisor that `{name}` leaves unchanged, found `{division.args[1]}`",
        ("division", statement),
        ("loop", loop),
        help=f"assign the divisor to a scalar before `{name}`: `d = {division.args[1]}`",
    )


reciprocal.example(
    """
@I.kernel
def scale(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()
    for i in range(n):
        total = T.float32(0.0)
        for k in range(m):
            total = total + x[i, k]
        for j in range(m):
            out[i, j] = x[i, j] / total
""",
    "j",
)
