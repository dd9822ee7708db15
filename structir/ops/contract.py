"""Contractions: matrix products and Einstein sums."""

from __future__ import annotations

from functools import reduce
from operator import mul

from structir.ir.expr import Expr
from structir.ops.attributes import DType, Operands
from structir.ops.define import op
from structir.ops.examples import f32
from structir.ops.given import Given
from structir.ops.layout import permute_dims
from structir.ops.letters import written
from structir.projections.point import Point


def multiplied(given: Given) -> str:
    """`lhs[~b, i, k], rhs[~b, k, j] -> out[~b, i, j]`; an operand of rank 1 is just `k`."""
    left, right = given.rank("lhs"), given.rank("rhs")
    if 0 in (left, right):
        given.reject("a scalar has no axis to multiply along", "use R.multiply")
    if left is None or right is None:
        return "lhs[*s], rhs[*t] -> out[*u] @ out_dtype or T"
    lhs = ["~b", "i", "k"] if left > 1 else ["k"]
    rhs = ["~b", "k", "j"] if right > 1 else ["k"]
    out = lhs[:-1] or rhs[:-2]
    out = [*out, "j"] if right > 1 else out
    return f"{written('lhs', lhs)}, {written('rhs', rhs)} -> {written('out', out)} @ out_dtype or T"


@op(multiplied, reduce="sum", operator="@")
def matmul(lhs: Point, rhs: Point, out_dtype: DType | None = None) -> Point:
    """The matrix product over the last two axes; the axes before them broadcast."""
    return lhs * rhs


@op(
    "x[*s, k], weight[n, k], bias[n] @ T2 or 0 -> out[*s, n] @ out_dtype or T",
    parts=True,
)
def linear(x: Expr, weight: Expr, bias: Expr | None = None, out_dtype: DType | None = None) -> Expr:
    """x times the transposed weight, plus the bias."""
    product = matmul(x, permute_dims(weight), out_dtype=out_dtype)
    return product if bias is None else product + bias


@op("x[i], y[j] -> out[i, j]")
def outer(x: Point, y: Point) -> Point:
    """The product of each element of one vector with each of another."""
    return x * y


def contracted(given: Given) -> str:
    """The subscripts as accesses: `...` is a row that broadcasts."""
    inputs, arrow, output = given["subscripts"].replace(" ", "").partition("->")
    terms = inputs.split(",")
    operands = given.info("operands")
    if len(terms) != len(operands):
        given.reject(f"the subscripts name {len(terms)} operands, but {len(operands)} are given")
    letters = set(inputs) - set(".,")
    if not all(c.isalpha() for c in letters) or not set(output) - {"."} <= letters:
        given.reject(f"not Einstein subscripts: {given['subscripts']}")
    if not arrow:
        once = sorted(c for c in letters if inputs.count(c) == 1)
        output = ("..." if "..." in inputs else "") + "".join(once)
    reads = [
        written(f"operands_{k}", ["~rest" if c == "." else f"~{c} : {c}" for c in _symbols(term)])
        for k, term in enumerate(terms)
    ]
    out = ["~rest" if c == "." else c for c in _symbols(output)]
    return f"{', '.join(reads)} -> {written('out', out)}"


def _symbols(term: str) -> str:
    return term.replace("...", ".")


@op(contracted, reduce="sum")
def einsum(operands: Operands, subscripts: str) -> Point:
    """The sum of products that the subscripts state, as in `ij,jk->ik`."""
    product: Point = reduce(mul, operands)
    return product


matmul.example(f32[2, 3, 4], f32[4, 5])
linear.example(f32[2, 3], f32[4, 3], f32[4])
einsum.example([f32[2, 3], f32[3, 4]], "ij,jk->ik")
outer.example(f32[2], f32[3])
