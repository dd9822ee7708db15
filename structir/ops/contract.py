"""Contractions: matrix products and Einstein sums."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import add, mul
from typing import Any, NoReturn

from structir.ir.expr import Call, Expr
from structir.ir.struct_info import TensorStructInfo
from structir.lazy import lazy_module
from structir.opdef.attributes import DType, Operands
from structir.opdef.axis_packs import Excerpt, InvalidCall
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32, i64
from structir.opdef.index_vars import access_text
from structir.ops.elementwise import astype
from structir.ops.layout import permute_dims
from structir.projections.scalar_expr import ScalarExpr

ocannl = lazy_module("structir.opdef.ocannl_subscripts")
subscripts = lazy_module("structir.opdef.subscripts")
subscript_signature = lazy_module("structir.opdef.subscript_signature")
einsum_results = lazy_module("structir.opdef.subscript_results")


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

    Subscripts with `;`, row variables, numbers or expressions name axes by words, as in
    `*s m k; *s k n -> *s m n`; with `=>` they are a specification of OCANNL.
    """
    text, count = call["subscripts"], len(call.info("operands"))
    if subscripts.names_axes(text):
        try:
            parsed = einsum_results.parsed_subscripts(text, count)
            signature: ResolvedSignature = subscript_signature.signature_of_subscripts(
                parsed, "operands"
            )
        except subscripts.SubscriptError as error:
            _reject_subscripts(call, error.message, error.start, error.end, error.hint)
        return signature
    return _letters_signature(call, text, count)


def _reject_subscripts(
    call: CallView, message: str, start: int, end: int, hint: str | None
) -> NoReturn:
    excerpt = Excerpt(call["subscripts"], start, end)
    raise InvalidCall(f"subscripts: {message}", (), hint, "E0309", excerpt)


def _letters_signature(call: CallView, text: str, count: int) -> str:
    """Returns the signature of `ij,jk->ik`."""
    inputs, arrow, output = text.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != count:
        message = f"expected {count} operand term{'s' * (count != 1)}, found {len(terms)}"
        hint = f"write {count} terms, separated by `,`"
        end = text.find("->") if arrow else len(text)
        _reject_subscripts(call, message, 0, max(end, 1), hint)
    labels = set(inputs) - set(".,")
    if not all(c.isalpha() for c in labels) or not set(output) - {"."} <= labels:
        start = _first_unknown(text, labels)
        message = f"expected terms such as 'ij,jk->ik', found {text!r}"
        hint = "use one letter per axis, and letters of the operands in the result: `ij,jk->ik`"
        _reject_subscripts(call, message, start, start + 1, hint)
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


def _first_unknown(text: str, labels: Collection[str]) -> int:
    """Returns the column of the first character that is no letter, or no letter of an operand."""
    arrow = text.find("->")
    for column, char in enumerate(text):
        in_result = 0 <= arrow + 1 < column
        is_mark = char in " .," or arrow <= column <= arrow + 1
        if not is_mark and (not char.isalpha() or (in_result and char not in labels)):
            return column
    return 0


def _symbols(term: str) -> str:
    return term.replace("...", ".")


@op(einsum_signature, reduce="sum")
def einsum(operands: Operands, subscripts: str) -> ScalarExpr:
    """Computes the sum of products for Einstein subscripts such as `ij,jk->ik`."""
    product: ScalarExpr = reduce(mul, operands)
    return product


@op(einsum_signature, reduce="max")
def tropical(operands: Operands, subscripts: str) -> ScalarExpr:
    """Computes the maximum of sums for the subscripts of `einsum`: `2*i+k; k -> i`.

    With one operand it is the maximum over the axes that the result does not have.
    """
    total: ScalarExpr = reduce(add, operands)
    return total


@tropical.with_result
@einsum.with_result
def _(call: Call, result: TensorStructInfo, of_form: bool) -> Call | None:
    """Returns the call with the axes of packs and the sizes that only the result determines."""
    if not subscripts.names_axes(call.attrs["subscripts"]):
        return None
    completed: Call | None = einsum_results.with_result(call, result, of_form)
    return completed


def _open_size_hint(call: Call, name: str) -> str:
    """Returns the edit that determines the size of an index variable."""
    text = call.attrs["subscripts"]
    condition = f"where {name} == 1" if subscripts.WHERE not in text else f", {name} == 1"
    written = f"{text} {condition}".replace(" ,", ",")
    return f"state the size, such as 1: {written!r}, or annotate the result and infer the module"


for declaration in (einsum, tropical):
    declaration.definition.hooks["open_size"] = _open_size_hint

matmul.example(f32[2, 3, 4], f32[4, 5])
linear.example(f32[2, 3], f32[4, 3], f32[4])
einsum.example([f32[2, 3], f32[3, 4]], "ij,jk->ik")
einsum.example([f32[5, 2, 3], f32[5, 3, 4]], "*s m k; *s k n -> *s m n")
tropical.example([f32[2, 3], f32[3, 4]], "i j; j k -> i k")
grouped_matmul.example(f32[4, 3], f32[2, 3, 5], i64[4])
outer.example(f32[2], f32[3])
