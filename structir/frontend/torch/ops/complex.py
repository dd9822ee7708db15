"""Mappings of ops on complex tensors; most apply the mapping of real tensors to each part."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from structir.frontend.torch.complex import (
    ComplexTensor,
    as_complex,
    join_pairs,
    map_parts,
    on_parts,
    split_pairs,
    zeros_like,
)
from structir.frontend.torch.node import FxNode, are_equal
from structir.frontend.torch.registry import complex_op, find_build, torch_op, view_of
from structir.frontend.torch.scalars import as_tensor, cast, number
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R


def _real_build(node: FxNode) -> Callable[[FxNode], Any]:
    build = find_build(node.spec.target)
    if build is None:
        node.fail("no mapping of this op for the parts of complex tensors")
    return build


# ---- linear ops: the same for each part

LINEAR = """
view.default reshape _unsafe_view _reshape_copy view_copy.default flatten unflatten view_as
reshape_as ravel _reshape_alias unsqueeze unsqueeze_copy squeeze squeeze_copy permute
permute_copy transpose.int transpose_copy.int swapaxes swapdims t t_copy numpy_T mT movedim
moveaxis expand expand_copy expand_as broadcast_to repeat tile repeat_interleave slice.Tensor
slice_copy.Tensor narrow.default narrow_copy unbind.int unbind_copy.int split split_with_sizes
split_copy split_with_sizes_copy chunk tensor_split unsafe_split unsafe_chunk diagonal
diagonal_copy as_strided unfold cat concat concatenate stack hstack vstack dstack column_stack
atleast_1d atleast_2d atleast_3d flip fliplr flipud roll rot90 meshgrid fft_fftshift
fft_ifftshift broadcast_tensors index_select take gather take_along_dim index.Tensor
_unsafe_index.Tensor index_put _unsafe_index_put _index_put_impl masked_select masked_scatter
select.int select_copy.int slice_scatter select_scatter index_add index_copy index_fill scatter
scatter_add pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d
replication_pad1d replication_pad2d replication_pad3d tril triu diag diag_embed trace diff where
masked_fill full full_like new_full fill zeros zeros_like new_zeros zero empty empty_like
new_empty empty_strided new_empty_strided empty_permuted scalar_tensor clone contiguous alias
alias_copy detach detach_ detach_copy lift lift_fresh lift_fresh_copy positive resolve_conj
resolve_neg requires_grad_ copy add sub subtract rsub neg negative sum mean cumsum nansum
"""
complex_op(*LINEAR.split())(lambda node: on_parts(node, _real_build(node)))


@complex_op("sym_size.int", "_assert_tensor_metadata")
def of_real_part(node: FxNode) -> Any:
    """Builds an op of the shape only."""
    names = [name for name in node.spec.args if isinstance(node.arg(name), ComplexTensor)]
    return _real_build(node)(node.replace({name: node.arg(name).real for name in names}))


# ---- products


def with_parts(node: FxNode, real: Expr | None, imag: Expr | None) -> ComplexTensor:
    """Returns a complex result of parts, which broadcast; an absent part is zero."""
    sizes = node.out_dims()
    parts = [None if p is None else cast(p, node.out_dtype()) for p in (real, imag)]
    filled = [number(0, node.out_dtype()) if p is None else p for p in parts]
    return ComplexTensor(
        *[
            node.emit(
                p if are_equal(sizes, node.dims_of(p)) else R.broadcast_to(p, ShapeExpr(sizes))
            )
            for p in filled
        ]
    )


def multiply_parts(node: FxNode, names: Sequence[str]) -> ComplexTensor:
    """Builds an op that is linear in each of several operands, from the products of their parts.

    A product with k imaginary parts has the factor i ** k.
    """
    build, sums = _real_build(node), [None, None]
    for values in product(*[_powers(node.arg(name)) for name in names]):
        power = sum(k for k, _ in values)
        term = node.emit(build(node.replace(dict(zip(names, [v for _, v in values], strict=True)))))
        sums[power % 2] = _accumulate(sums[power % 2], term, is_negative=power % 4 >= 2)
    return with_parts(node, *sums)


def _powers(value: Any) -> list[tuple[int, Any]]:
    """Returns the parts of an operand with their powers of i; a tuple has all combinations."""
    if isinstance(value, tuple):
        combinations = product(*[_powers(item) for item in value])
        return [(sum(k for k, _ in c), tuple([v for _, v in c])) for c in combinations]
    if not isinstance(value, ComplexTensor | complex):
        return [(0, value)]
    return [(0, value.real), (1, value.imag)]


def _accumulate(total: Expr | None, term: Expr, is_negative: bool) -> Any:
    if total is None:
        return R.negative(term) if is_negative else term
    return (R.subtract if is_negative else R.add)(total, term)


FACTORS = {
    "mul": ("self", "other"),
    "multiply": ("self", "other"),
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "matmul": ("self", "other"),
    "linalg_matmul": ("input", "other"),
    "mv": ("self", "vec"),
    "dot": ("self", "tensor"),
    "outer": ("self", "vec2"),
    "ger": ("self", "vec2"),
    "tensordot": ("self", "other"),
    "einsum": ("tensors",),
}
for _name, _factors in FACTORS.items():
    complex_op(_name)(lambda node, factors=_factors: multiply_parts(node, factors))


@complex_op("vdot")
def inner_product(node: FxNode) -> ComplexTensor:
    first = _conjugate(as_complex(node.arg("self"), node.out_dtype()))
    return multiply_parts(node.replace({"self": first}), ("self", "other"))


@complex_op("linear")
def linear(node: FxNode) -> ComplexTensor:
    result = multiply_parts(node.replace({"bias": None}), ("input", "weight"))
    bias = node.arg("bias", None)
    return result if bias is None else map_parts(R.add, result, bias)


@complex_op("addmm", "addmv", "baddbmm", "addr")
def add_product(node: FxNode) -> ComplexTensor:
    factors = [n for n in ("mat1", "mat2", "mat", "vec", "batch1", "batch2", "vec1", "vec2")
               if n in node.spec.args]  # fmt: skip
    dtype, alpha, beta = node.out_dtype(), node.arg("alpha", 1), node.arg("beta", 1)
    result = multiply_parts(node.replace({"alpha": 1, "beta": 0}), factors)
    result = result if alpha == 1 else _times(result, as_complex(alpha, dtype))
    if beta == 0:
        return result
    addend = _times(as_complex(node.arg("self"), dtype), as_complex(beta, dtype))
    return with_parts(node, R.add(result.real, addend.real), R.add(result.imag, addend.imag))


def _times(a: ComplexTensor, b: ComplexTensor) -> ComplexTensor:
    real = R.subtract(R.multiply(a.real, b.real), R.multiply(a.imag, b.imag))
    return ComplexTensor(real, R.add(R.multiply(a.real, b.imag), R.multiply(a.imag, b.real)))


def _quotient(node: FxNode, a: ComplexTensor, b: ComplexTensor) -> ComplexTensor:
    """Returns a / b; b is scaled by its larger part, so that its square does not overflow."""
    scale = node.emit(R.maximum(R.abs(b.real), R.abs(b.imag)))
    p, q = node.emit(R.divide(b.real, scale)), node.emit(R.divide(b.imag, scale))
    norm = node.emit(R.add(R.multiply(b.real, p), R.multiply(b.imag, q)))
    real = R.add(R.multiply(a.real, p), R.multiply(a.imag, q))
    imag = R.subtract(R.multiply(a.imag, p), R.multiply(a.real, q))
    return ComplexTensor(R.divide(real, norm), R.divide(imag, norm))


@complex_op("div", "divide", "true_divide")
def divide(node: FxNode) -> ComplexTensor:
    node.require_default("rounding_mode", None)
    dtype, divisor = node.out_dtype(), node.arg("other")
    dividend = as_complex(node.arg("self"), dtype)
    if isinstance(divisor, ComplexTensor | complex):
        result = _quotient(node, dividend, _bound(node, as_complex(divisor, dtype)))
    else:
        result = map_parts(lambda p: R.divide(p, as_tensor(divisor, dtype)), dividend)
    return with_parts(node, result.real, result.imag)


def _bound(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    return ComplexTensor(node.emit(x.real), node.emit(x.imag))


# ---- conversions


@complex_op("complex")
def from_parts(node: FxNode) -> ComplexTensor:
    return with_parts(node, node["real"], node["imag"])


@complex_op("polar")
def from_polar(node: FxNode) -> ComplexTensor:
    radius, angle = node["abs"], node["angle"]
    return with_parts(node, R.multiply(radius, R.cos(angle)), R.multiply(radius, R.sin(angle)))


@complex_op("view_as_real", "view_as_real_copy")
def to_pairs(node: FxNode) -> Expr:
    return join_pairs(node.arg("self"))


@complex_op("view_as_complex", "view_as_complex_copy")
def from_pairs(node: FxNode) -> ComplexTensor:
    return split_pairs(node, node["self"])


@complex_op("real")
def real_part(node: FxNode) -> Expr:
    return node.arg("self").real


@complex_op("imag")
def imaginary_part(node: FxNode) -> Expr:
    return node.arg("self").imag


def _conjugate(x: ComplexTensor) -> ComplexTensor:
    return ComplexTensor(x.real, R.negative(x.imag))


@complex_op("_conj", "conj", "_conj_copy", "_conj_physical", "conj_physical")
def conjugate(node: FxNode) -> ComplexTensor:
    return _bound(node, _conjugate(node.arg("self")))


@torch_op("_neg_view", "_neg_view_copy")
def negated_view(node: FxNode) -> Expr:
    return R.negative(node["self"])


@complex_op("adjoint", "mH", "matrix_H")
def conjugate_transpose(node: FxNode) -> ComplexTensor:
    return _bound(node, _conjugate(on_parts(node, _real_build(node))))


@complex_op("_to_copy", "to", "type_as")
def to_dtype(node: FxNode) -> Any:
    """Builds a conversion; the imaginary part is lost in a conversion to a real dtype."""
    value = as_complex(node.positional()[0], node.out_dtype())
    return value if node.meta().is_complex else value.real


@complex_op("ones", "ones_like", "new_ones", "eye")
def with_zero_imaginary(node: FxNode) -> ComplexTensor:
    names = [name for name in node.spec.args if isinstance(node.arg(name), ComplexTensor)]
    values = {name: node.arg(name).real for name in names}
    return as_complex(node.emit(_real_build(node)(node.replace(values))), node.out_dtype())


# ---- writes to views of parts


@view_of("real")
def write_real(part: FxNode, update: Expr) -> Any:
    base = part.arg("self")
    return ComplexTensor(update, base.imag) if isinstance(base, ComplexTensor) else update


@view_of("imag")
def write_imaginary(part: FxNode, update: Expr) -> ComplexTensor:
    return ComplexTensor(part.arg("self").real, update)


@view_of("view_as_real")
def write_pairs(part: FxNode, update: Expr) -> ComplexTensor:
    return split_pairs(part, update)


@view_of("view_as_complex")
def write_joined(part: FxNode, update: ComplexTensor) -> Expr:
    return join_pairs(update)


@view_of("_conj", "conj", "_neg_view")
def write_conjugate(part: FxNode, update: Any) -> Any:
    if part.is_complex() or "_neg_view" in part.spec.target:
        part.fail(
            "writing to a conjugate in place is not supported",
            "write to a copy: `z.conj().clone()`",
        )
    return update


# ---- elementwise functions


def magnitude(node: FxNode, x: ComplexTensor) -> Expr:
    """Returns the absolute value, scaled by the larger part so that squares do not overflow."""
    a, b = node.emit(R.abs(x.real)), node.emit(R.abs(x.imag))
    zero, one = (number(k, node.dtype_of(a)) for k in (0, 1))
    larger = node.emit(R.maximum(a, b))
    divisor = R.where(R.logical_and(R.greater(larger, zero), R.isfinite(larger)), larger, one)
    ratio = node.emit(R.divide(R.minimum(a, b), divisor))
    root = node.emit(R.multiply(larger, R.sqrt(R.add(one, R.multiply(ratio, ratio)))))
    is_infinite = R.logical_or(R.isinf(a), R.isinf(b))
    return node.emit(R.where(is_infinite, number(math.inf, node.dtype_of(a)), root))


def _angle(x: ComplexTensor) -> Expr:
    result: Expr = R.atan2(x.imag, x.real)
    return result


@complex_op("abs")
def absolute(node: FxNode) -> Expr:
    return magnitude(node, node.arg("self"))


@complex_op("angle")
def angle(node: FxNode) -> Expr:
    return _angle(node.arg("self"))


@torch_op("angle")
def angle_of_real(node: FxNode) -> Expr:
    x = node.operand("self", node.out_dtype())
    zero, pi = (number(v, node.out_dtype()) for v in (0.0, math.pi))
    return R.where(R.isnan(x), x, R.where(R.less(x, zero), pi, zero))


@complex_op("linalg_vector_norm", "norm", "frobenius_norm", "linalg_norm")
def norm(node: FxNode) -> Any:
    return _real_build(node)(node.replace({"self": magnitude(node, node.arg("self"))}))


@complex_op("var")
def variance(node: FxNode) -> Expr:
    """Builds the variance: the sum of the variances of both parts."""
    parts = on_parts(node, _real_build(node))
    return R.add(parts.real, parts.imag)


@complex_op("std")
def deviation(node: FxNode) -> Expr:
    return magnitude(node, on_parts(node, _real_build(node)))


Function = Callable[[FxNode, ComplexTensor], ComplexTensor]


def _function(*names: str) -> Callable[[Function], Function]:
    """Registers a function of one complex tensor."""

    def register(act: Function) -> Function:
        def build(node: FxNode) -> ComplexTensor:
            result = act(node, as_complex(node.arg("self"), node.out_dtype()))
            return with_parts(node, result.real, result.imag)

        complex_op(*names)(build)
        return act

    return register


@_function("exp")
def exponential(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    radius = node.emit(R.exp(x.real))
    return ComplexTensor(R.multiply(radius, R.cos(x.imag)), R.multiply(radius, R.sin(x.imag)))


@_function("log")
def logarithm(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    return ComplexTensor(R.log(magnitude(node, x)), _angle(x))


def _scaled_logarithm(base: float) -> Function:
    def act(node: FxNode, x: ComplexTensor) -> ComplexTensor:
        factor = number(1 / math.log(base), node.out_dtype())
        return map_parts(lambda p: R.multiply(p, factor), logarithm(node, x))  # type: ignore[no-any-return]

    return act


_function("log2")(_scaled_logarithm(2.0))
_function("log10")(_scaled_logarithm(10.0))


@_function("sqrt")
def square_root(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    """Returns the root with a non-negative real part."""
    dtype = node.dtype_of(x.real)
    zero, half, one = (number(v, dtype) for v in (0.0, 0.5, 1.0))
    total = R.add(magnitude(node, x), R.abs(x.real))
    root = node.emit(R.sqrt(R.multiply(total, half)))
    divisor = R.where(R.greater(root, zero), R.add(root, root), one)
    other = node.emit(R.divide(R.abs(x.imag), divisor))
    is_right = node.emit(R.greater_equal(x.real, zero))
    imag = node.emit(R.where(is_right, other, root))
    signed = R.where(R.less(x.imag, zero), R.negative(imag), imag)
    return ComplexTensor(R.where(is_right, root, other), signed)


@_function("reciprocal")
def reciprocal(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    one = as_complex(1, node.dtype_of(x.real))
    return _quotient(node, one, x)


@_function("rsqrt")
def reciprocal_root(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    return reciprocal(node, _bound(node, square_root(node, x)))


@_function("square")
def square(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    return _times(x, x)


@_function("sgn")
def direction(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    size = magnitude(node, x)
    divisor = R.where(R.equal(size, zeros_like(size)), number(1, node.dtype_of(size)), size)
    divisor = node.emit(divisor)
    return map_parts(lambda p: R.divide(p, divisor), x)  # type: ignore[no-any-return]


@_function("sigmoid")
def sigmoid(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    power = exponential(node, map_parts(R.negative, x))
    shifted = ComplexTensor(R.add(power.real, number(1, node.dtype_of(x.real))), power.imag)
    return reciprocal(node, _bound(node, shifted))


@_function("silu")
def silu(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    return _times(x, _bound(node, sigmoid(node, x)))


@_function("sin")
def sine(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    real = R.multiply(R.sin(x.real), R.cosh(x.imag))
    return ComplexTensor(real, R.multiply(R.cos(x.real), R.sinh(x.imag)))


@_function("cos")
def cosine(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    imag = R.multiply(R.sin(x.real), R.sinh(x.imag))
    return ComplexTensor(R.multiply(R.cos(x.real), R.cosh(x.imag)), R.negative(imag))


@_function("sinh")
def hyperbolic_sine(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    real = R.multiply(R.sinh(x.real), R.cos(x.imag))
    return ComplexTensor(real, R.multiply(R.cosh(x.real), R.sin(x.imag)))


@_function("cosh")
def hyperbolic_cosine(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    real = R.multiply(R.cosh(x.real), R.cos(x.imag))
    return ComplexTensor(real, R.multiply(R.sinh(x.real), R.sin(x.imag)))


@_function("tan")
def tangent(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    """Returns tan(z) = -i tanh(i z)."""
    turned = ComplexTensor(node.emit(R.negative(x.imag)), x.real)
    result = hyperbolic_tangent(node, turned)
    return ComplexTensor(result.imag, R.negative(result.real))


@_function("log1p")
def log_plus_one(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    one = number(1, node.dtype_of(x.real))
    return logarithm(node, ComplexTensor(node.emit(R.add(x.real, one)), x.imag))


@_function("expm1")
def exp_minus_one(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    power = exponential(node, x)
    return ComplexTensor(R.subtract(power.real, number(1, node.dtype_of(x.real))), power.imag)


SATURATED = 40.0  # tanh(x) is 1 in float64 for x above 20; cosh(80) overflows no float32


@_function("tanh")
def hyperbolic_tangent(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    twice = node.emit(R.clip(R.add(x.real, x.real), -SATURATED, SATURATED))
    angle = node.emit(R.add(x.imag, x.imag))
    divisor = node.emit(R.add(R.cosh(twice), R.cos(angle)))
    return ComplexTensor(R.divide(R.sinh(twice), divisor), R.divide(R.sin(angle), divisor))


MAX_PRODUCTS = 64  # exponents up to it are computed by products


@complex_op("pow", "float_power")
def power(node: FxNode) -> ComplexTensor:
    dtype, exponent = node.out_dtype(), node.arg("exponent")
    base = _bound(node, as_complex(node.arg("self"), dtype))
    if isinstance(exponent, int | float):
        whole = int(exponent)
        if whole == exponent and abs(whole) <= MAX_PRODUCTS:
            return with_parts(node, *_pair(_repeated_product(node, base, whole)))
        if exponent == 0.5:
            return with_parts(node, *_pair(square_root(node, base)))
    return with_parts(node, *_pair(_general_power(node, base, as_complex(exponent, dtype))))


def _pair(x: ComplexTensor) -> tuple[Expr, Expr]:
    return x.real, x.imag


def _repeated_product(node: FxNode, base: ComplexTensor, exponent: int) -> ComplexTensor:
    """Returns base ** exponent by repeated squaring."""
    result: ComplexTensor | None = None
    square_power, remaining = base, abs(exponent)
    while remaining:
        if remaining % 2:
            result = square_power if result is None else _bound(node, _times(result, square_power))
        remaining //= 2
        if remaining:
            square_power = _bound(node, _times(square_power, square_power))
    if result is None:
        return as_complex(1, node.out_dtype())
    return result if exponent > 0 else reciprocal(node, result)


def _general_power(node: FxNode, base: ComplexTensor, exponent: ComplexTensor) -> ComplexTensor:
    """Returns exp(exponent * log(base)); powers of zero are zero, except for the exponent 0."""
    zero, one = (number(k, node.out_dtype()) for k in (0, 1))
    is_zero = node.emit(R.equal(R.maximum(R.abs(base.real), R.abs(base.imag)), zero))
    safe_base = ComplexTensor(R.where(is_zero, one, base.real), base.imag)
    angle = _bound(node, logarithm(node, _bound(node, safe_base)))
    result = exponential(node, _bound(node, _times(exponent, angle)))
    is_constant = R.logical_and(R.equal(exponent.real, zero), R.equal(exponent.imag, zero))
    of_zero = R.where(is_constant, one, zero)
    return ComplexTensor(
        R.where(is_zero, of_zero, result.real), R.where(is_zero, zero, result.imag)
    )


# ---- predicates


def _combined(combine: Any) -> Callable[[FxNode], Expr]:
    """Returns the mapping of a predicate that combines those of both parts."""

    def build(node: FxNode) -> Expr:
        result = on_parts(node, _real_build(node))
        return combine(result.real, result.imag)  # type: ignore[no-any-return]

    return build


complex_op("eq", "isfinite", "logical_not")(_combined(R.logical_and))
complex_op("ne", "not_equal", "isnan", "isinf")(_combined(R.logical_or))
