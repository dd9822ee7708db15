"""Permits reassociation of accumulated sums, products, maxima and minima."""

from __future__ import annotations

from structir.ir.dtype import is_float
from structir.ir.kernel import Apply, Assign, Kernel, KernelStatement, Scalar, assigned_value
from structir.ir.node import replace
from structir.loops.accesses import expressions, is_same
from structir.loops.edits import exchange_all
from structir.loops.loop_tree import loop_tree
from structir.loops.primitive import primitive
from structir.loops.refusal import refusal

ANY_ORDER = {"add": "add_to", "mul": "multiply_to"}
EXTREMA = {"max": "maximum", "min": "minimum"}


@primitive(changes_rounding=True)
def reassociate(kernel: Kernel, loop: str) -> Kernel:
    """Marks the float accumulations of a loop as reassociable: `t = t + x[i]` becomes
    `t = T.add_to(t, x[i])`; products, maxima and minima likewise.

    `vectorise` and `reorder` then accept the loop. Rounding may change.
    """
    tree = loop_tree(kernel)
    old = tree.loop(loop)
    exchanges: dict[KernelStatement, tuple[KernelStatement, ...]] = {}
    for statement in tree.within(old.body):
        value = _any_order(statement) if isinstance(statement, Assign) else None
        if isinstance(statement, Assign) and value is not None:
            exchanges[statement] = (replace(statement, value=value, symbol=""),)
    if not exchanges:
        raise refusal(
            "E1116",
            f"expected a sum or product of floats in `{loop}`, found none",
            old,
            help="name the loop that contains an assignment such as `t = t + x[i]`",
        )
    return exchange_all(kernel, exchanges)


def _any_order(assign: Assign) -> Scalar | None:
    """Returns the reassociable value of an accumulation; None for other assignments."""
    target, value = assign.target, assigned_value(assign)
    if not isinstance(value, Apply) or not is_float(value.dtype):
        return None
    fn, terms = ANY_ORDER.get(value.fn), value.args
    if value.fn == "select":
        fn, terms = _extremum(value, target)
    if fn is None or len(terms) != 2:
        return None
    other = [term for term in terms if not is_same(term, target)]
    if len(other) != 1 or any(is_same(part, target) for part in expressions(other[0])):
        return None
    return Apply(fn, (target, other[0]), value.dtype, value.span)


def _extremum(value: Apply, target: Scalar) -> tuple[str | None, tuple[Scalar, ...]]:
    """Returns the function and the terms of `x if x != x else max(t, x)`."""
    match value.args:
        case Apply("ne", (first, second)), third, Apply(fn, (total, term)) if fn in EXTREMA:
            same = is_same(total, target) and all(is_same(s, term) for s in (first, second, third))
            return (EXTREMA[fn], (total, term)) if same else (None, ())
    return None, ()


reassociate.example(
    """
@I.kernel
def total(x: R.Tensor(("n",), "float32"), out: R.Tensor((1,), "float32")):
    n = T.int64()
    t = T.float32(0.0)
    for i in range(n):
        t = t + x[i]
    out[0] = t
""",
    "i",
)
