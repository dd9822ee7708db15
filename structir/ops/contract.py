"""Contractions: matrix products and Einstein sums."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from itertools import chain, count
from operator import mul
from typing import Any

from structir.ir.expr import Call, Expr
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo
from structir.opdef.attributes import DType, Operands
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32, i64
from structir.opdef.index_vars import access_text, where_text
from structir.opdef.pack_systems import RankEquation, determined_ranks
from structir.ops.elementwise import astype
from structir.ops.layout import permute_dims
from structir.projections.scalar_expr import ScalarExpr

WORD = re.compile(r"[A-Za-z_]\w*")


def matmul_signature(call: CallView) -> str:
    """Returns `lhs[~b, i, k], rhs[~b, k, j] -> out[~b, i, j]`, where a vector operand is `k`."""
    lhs_rank, rhs_rank = call.rank("lhs"), call.rank("rhs")
    if 0 in (lhs_rank, rhs_rank):
        name = "lhs" if lhs_rank == 0 else "rhs"
        hint = "multiply element by element: `R.multiply(lhs, rhs)`"
        call.reject(f"{name}: expected at least 1 axis, found a scalar", hint, "E0304")
    if lhs_rank is None and rhs_rank == 2:  # for any rank of the left operand
        return "lhs[*s, k], rhs[k, j] -> out[*s, j] @ out_dtype or T"
    if lhs_rank is None or rhs_rank is None:
        return "lhs[*s], rhs[*t] -> out[*u] @ out_dtype or T"
    lhs = ["~b", "i", "k"] if lhs_rank > 1 else ["k"]
    rhs = ["~b", "k", "j"] if rhs_rank > 1 else ["k"]
    out = lhs[:-1] or rhs[:-2]
    out = [*out, "j"] if rhs_rank > 1 else out
    operands = f"{access_text('lhs', lhs)}, {access_text('rhs', rhs)}"
    return f"{operands} -> {access_text('out', out)} @ out_dtype or T"


@op(matmul_signature, reduce="sum", operator="@")
def matmul(lhs: ScalarExpr, rhs: ScalarExpr, out_dtype: DType | None = None) -> ScalarExpr:
    """Computes the matrix product over the last two axes; leading axes broadcast."""
    return lhs * rhs


@op(
    "x[*s, k], weight[n, k], bias[n] @ T2 or 0 -> out[*s, n] @ out_dtype or T",
    parts=True,
)
def linear(x: Expr, weight: Expr, bias: Expr | None = None, out_dtype: DType | None = None) -> Expr:
    """Computes x @ weight^T + bias."""
    product = matmul(x, permute_dims(weight), out_dtype=out_dtype)
    if bias is None:
        return product
    info: Any = product.struct_info
    bias_info: Any = bias.struct_info
    differs = info.dtype is not None and info.dtype != bias_info.dtype
    return product + (astype(bias, info.dtype) if differs else bias)


@op("x[i], y[j] -> out[i, j]")
def outer(x: ScalarExpr, y: ScalarExpr) -> ScalarExpr:
    """Computes the outer product of two vectors."""
    return x * y


@op("lhs[i, k], rhs[groups : g, k, j], groups[i] @ I -> out[i, j]", reduce="sum")
def grouped_matmul(lhs: ScalarExpr, rhs: ScalarExpr, groups: ScalarExpr) -> ScalarExpr:
    """Multiplies each row of `lhs` by one matrix of `rhs`: row `i` by `rhs[groups[i]]`.

    The rows of a mixture of experts are multiplied by the matrices of their experts only. A row
    whose index is out of range is zero.
    """
    return lhs * rhs


def einsum_signature(call: CallView) -> str | ResolvedSignature:
    """Translates Einstein subscripts to an index signature; `...` is a broadcasting axis pack.

    Subscripts with axis packs name axes by words: `*s m k; *s k n -> *s m n`. There, a number in an
    operand is an axis of this size, which is summed.
    """
    if set(call["subscripts"]) & set(";*~"):
        return _named_axes_signature(call)
    inputs, arrow, output = call["subscripts"].replace(" ", "").partition("->")
    terms = inputs.split(",")
    operands = call.info("operands")
    if len(terms) != len(operands):
        call.reject(f"subscripts: expected {len(operands)} operand terms, found {len(terms)}")
    labels = set(inputs) - set(".,")
    if not all(c.isalpha() for c in labels) or not set(output) - {"."} <= labels:
        text = call["subscripts"]
        call.reject(f"subscripts: expected terms such as 'ij,jk->ik', found {text!r}")
    if not arrow:
        once = sorted(c for c in labels if inputs.count(c) == 1)
        output = ("..." if "..." in inputs else "") + "".join(once)
    reads = [
        access_text(
            f"operands_{k}", ["~rest" if c == "." else f"~{c} : {c}" for c in _symbols(term)]
        )
        for k, term in enumerate(terms)
    ]
    out = ["~rest" if c == "." else c for c in _symbols(output)]
    return f"{', '.join(reads)} -> {access_text('out', out)}"


def _named_axes_signature(call: CallView) -> ResolvedSignature:
    inputs, arrow, output = call["subscripts"].partition("->")
    terms = inputs.split(";")
    if not arrow:
        text = call["subscripts"]
        call.reject(f"subscripts: expected `->` with axis packs, found {text!r}")
    if len(terms) != len(call.info("operands")):
        count = len(call.info("operands"))
        call.reject(f"subscripts: expected {count} operand terms, found {len(terms)}")
    axis_names = {word for term in terms for word in WORD.findall(term)}
    if not axis_names >= set(WORD.findall(output)) or not all(map(_is_axis, output.split())):
        call.reject(f"subscripts: expected result axes of the operands, found {output.strip()!r}")
    words = [term.split() for term in terms]
    numbers = [(k, n) for k, term in enumerate(words) for n, w in enumerate(term) if w.isdecimal()]
    summed = dict(zip(numbers, _unused_names(axis_names), strict=False))
    reads = [
        access_text(
            f"operands_{k}",
            [_axis_access(call, word, summed.get((k, n), "")) for n, word in enumerate(term)],
        )
        for k, term in enumerate(words)
    ]
    sizes = [f"{name} == {words[k][n]}" for (k, n), name in summed.items()]
    signature = f"{', '.join(reads)} -> {access_text('out', output.split())}"
    return ResolvedSignature(signature, where_text(sizes))


def _unused_names(axis_names: set[str]) -> Iterator[str]:
    """Yields `i`, `j`, ..., `z`, `i1`, `j1`, ... without the names of axes in the subscripts."""
    suffixes = chain([""], map(str, count(1)))
    names = (letter + suffix for suffix in suffixes for letter in "ijklmnopqrstuvwxyz")
    return (name for name in names if name not in axis_names)


def _is_axis(word: str) -> bool:
    return word.lstrip("*~").isidentifier()


def _axis_access(call: CallView, word: str, variable: str) -> str:
    """Returns the index expression of an axis: a pack, a variable, a multiple, or a number."""
    if _is_axis(word):
        return word
    if word.isdecimal():
        return f"{variable} : {word}"
    factor, times, name = word.partition("*")
    if not times or not factor.isdecimal() or not name.isidentifier():
        call.reject(f"subscripts: expected an axis such as `k`, `2*k` or `3`, found {word!r}")
    return f"{word} : {word}"


def _symbols(term: str) -> str:
    return term.replace("...", ".")


@op(einsum_signature, reduce="sum")
def einsum(operands: Operands, subscripts: str) -> ScalarExpr:
    """Computes the sum of products for Einstein subscripts such as `ij,jk->ik`."""
    product: ScalarExpr = reduce(mul, operands)
    return product


@einsum.with_result
def _(call: Call, result: TensorStructInfo) -> Call | None:
    """Returns the call with axes for packs whose ranks the operands leave open: `*o` is `o1 o2`."""
    inputs, arrow, output = call.attrs["subscripts"].partition("->")
    terms = [term.split() for term in (*inputs.split(";"), output)]
    infos = [*[field.struct_info for field in getattr(call.args[0], "fields", ())], result]
    ranks = [info.ndim for info in infos if getattr(info, "ndim", None) is not None]
    if not arrow or "~" in call.attrs["subscripts"] or len(ranks) != len(terms):
        return None
    equations = [_rank_equation(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    packs = {pack for equation in equations for pack in equation.packs}
    known, all_known = determined_ranks(equations[:-1]), determined_ranks(equations)
    if known is None or all_known is None or known.keys() >= packs or all_known.keys() < packs:
        return None
    taken = set(WORD.findall(inputs))
    axes = {pack: _axes_of_pack(pack, rank, taken - {pack}) for pack, rank in all_known.items()}
    written = [" ".join([axes.get(w[1:], w) if w[0] == "*" else w for w in term]) for term in terms]
    subscripts = f"{'; '.join(written[:-1])} -> {written[-1]}"
    return replace(call, attrs={**call.attrs, "subscripts": subscripts})


def _rank_equation(term: Sequence[str], rank: int) -> RankEquation:
    packs = tuple([word[1:] for word in term if word.startswith("*")])
    return RankEquation(packs, rank - len(term) + len(packs))


def _axes_of_pack(pack: str, rank: int, taken: Collection[str]) -> str:
    """Returns the names of the axes of a pack, separated by spaces."""
    stem = pack
    while any(f"{stem}{k + 1}" in taken for k in range(rank)):
        stem += "_"
    return " ".join([f"{stem}{k + 1}" for k in range(rank)])


matmul.example(f32[2, 3, 4], f32[4, 5])
linear.example(f32[2, 3], f32[4, 3], f32[4])
einsum.example([f32[2, 3], f32[3, 4]], "ij,jk->ik")
einsum.example([f32[5, 2, 3], f32[5, 3, 4]], "*s m k; *s k n -> *s m n")
grouped_matmul.example(f32[4, 3], f32[2, 3, 5], i64[4])
outer.example(f32[2], f32[3])
