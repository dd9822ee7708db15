"""Factors a reduction: partial results for each iteration of a loop, combined after it."""

from __future__ import annotations

from typing import Any

import attrs

from structir.ir.dims import Dim
from structir.ir.dtype import is_float
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    Kernel,
    Literal,
    Local,
    LoopVariable,
    Scalar,
    Scratch,
)
from structir.ir.struct_info import TensorStructInfo
from structir.loops.schedule.accesses import Access
from structir.loops.schedule.edits import (
    Names,
    calculate,
    exchange,
    fold_apply,
    integer,
    substitute,
)
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import iterations_at_most
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal
from structir.loops.schedule.sizes import size
from structir.projections.monoid import MONOIDS

MONOID_OF = {
    **{"add_to": "sum", "multiply_to": "prod", "maximum": "max", "minimum": "min"},
    **{"add": "sum", "mul": "prod", "max": "max", "min": "min"},
}


@primitive(changes_rounding=True)
def rfactor(kernel: Kernel, memory: str, loop: str) -> Kernel:
    """Replaces an accumulated scalar by an array of partial results, one for each iteration of a
    loop, which are combined after the loops.

    The loop must only accumulate to the scalar, by a reassociable function (`add_to`, `maximum`,
    ..., or integers); the outer loops for which this holds too are included. Afterwards `loop` may
    be vectorised, or moved outward. The rounding of float sums may change.
    """
    tree = loop_tree(kernel)
    total, old = tree.scalar(memory), tree.loop(loop)
    accesses = [a for a in tree.accesses((old,)) if a.memory is total]
    fn = _function(tree, total, accesses, old)
    nest = old
    for outer in reversed(tree.ancestors[old]):
        uses = [a for a in tree.accesses((outer,)) if a.memory is total]
        if not isinstance(outer, For) or any(a.mention.order != fn for a in uses):
            break
        if any(old not in a.loops for a in uses):  # outside of `old` there is no partial result
            break
        nest = outer
    extent = iterations_at_most(tree, old)
    names = Names(tree)
    parts = Var(names.fresh(f"{memory}_{loop}"), TensorStructInfo((extent,), total.dtype))
    part = Element(parts, (calculate("sub", old.variable, old.start),), total.dtype)
    inner = substitute(nest, lambda node: part if node is total else None)
    before = _over_parts(
        names, parts, extent, lambda element: Assign(element, _identity(fn, total))
    )
    after = _over_parts(
        names,
        parts,
        extent,
        lambda element: Assign(total, Apply(fn, (total, element), total.dtype)),
    )
    new = exchange(kernel, nest, before, inner, after)
    return attrs.evolve(new, body=(Scratch(parts, zeros=False), *new.body))


def _over_parts(names: Names, parts: Var, extent: Dim, statement: Any) -> For:
    variable = LoopVariable(names.fresh("c"), "int64")
    dtype = str(parts.struct_info.dtype)  # type: ignore[attr-defined]
    body = statement(Element(parts, (variable,), dtype))
    return For(variable, integer(0), size(extent), 1, (body,))


def _identity(fn: str, total: Local) -> Scalar:
    value = MONOIDS[MONOID_OF[fn]].identity(total.dtype)
    dtype = total.dtype if is_float(total.dtype) else "int64"
    return fold_apply(Apply("cast", (Literal(value, dtype),), total.dtype))


def _function(tree: LoopTree, total: Local, accesses: list[Access], loop: For) -> str:
    """Returns the reassociable function by which a loop accumulates to a scalar."""
    orders = {access.mention.order for access in accesses}
    order = next(iter(orders), "")
    is_literal = total.dtype != "uint64" or order != "min"  # the identity is an int64
    if len(orders) == 1 and order in MONOID_OF and is_literal:
        return order
    other = next((a.statement for a in accesses if a.mention.order not in MONOID_OF), None)
    raise refusal(
        "E1117",
        f"expected `{loop.variable.name}` to accumulate to `{total.name}` in any order only",
        ("statement", other or (accesses[0].statement if accesses else loop)),
        ("loop", loop),
        help=f'mark the sum as one in any order: `reassociate("{loop.variable.name}")`',
    )


rfactor.example(
    """
@I.kernel
def total(x: R.Tensor(("n",), "float32"), out: R.Tensor((1,), "float32")):
    n = T.int64()
    t = T.float32(0.0)
    for k_0 in range(0, n, 8):
        for k in range(k_0, min(k_0 + 8, n)):
            t = T.add_to(t, x[k])
    out[0] = t
""",
    "t",
    "k",
)
