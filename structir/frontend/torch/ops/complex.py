"""Mappings of ops on complex tensors; most apply the mapping of real tensors to each part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

from structir.frontend.scalars import number
from structir.frontend.torch.complex import (
    ComplexTensor,
    as_complex,
    conjugate_of,
    join_pairs,
    map_parts,
    on_parts,
    split_pairs,
)
from structir.frontend.torch.node import FxNode, are_equal
from structir.frontend.torch.registry import complex_op, find_build, torch_op, view_of
from structir.frontend.torch.scalars import as_tensor, cast
from structir.ir import dims
from structir.ir.expr import Expr, ShapeExpr, Tuple
from structir.script import R


def real_build(node: FxNode) -> Callable[[FxNode], Any]:
    build = find_build(node.spec.target)
    if build is None:
        node.fail("no mapping of this op for the parts of complex tensors")
    return build


# ---- linear ops: the same for each part

LINEAR = """
view.default reshape _unsafe_view flatten unflatten view_as
reshape_as ravel _reshape_alias unsqueeze squeeze permute
transpose.int swapaxes swapdims t numpy_T mT movedim
moveaxis expand expand_as broadcast_to repeat tile repeat_interleave slice.Tensor
narrow.default unbind.int split split_with_sizes
chunk tensor_split unsafe_split unsafe_chunk diagonal
as_strided unfold cat concat concatenate stack hstack vstack dstack column_stack
atleast_1d atleast_2d atleast_3d flip fliplr flipud roll rot90 meshgrid fft_fftshift
fft_ifftshift broadcast_tensors index_select take gather take_along_dim index.Tensor
_unsafe_index.Tensor index_put _unsafe_index_put _index_put_impl masked_select masked_scatter
select.int slice_scatter select_scatter index_add index_copy index_fill scatter
scatter_add pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d
replication_pad1d replication_pad2d replication_pad3d tril triu diag diag_embed trace diff where
masked_fill full full_like new_full fill zeros zeros_like new_zeros zero empty empty_like
new_empty empty_strided new_empty_strided empty_permuted scalar_tensor clone contiguous alias
detach detach_ lift lift_fresh positive resolve_conj
resolve_neg requires_grad_ copy add sub subtract rsub neg negative sum mean cumsum nansum
"""


@complex_op(*LINEAR.split())
def linear_in_parts(node: FxNode) -> Any:
    """Builds an op for each part; a new tensor of a real dtype, such as of `zeros_like`, once."""
    if "dtype" in node.spec.args and not node.meta().is_complex:
        return of_real_part(node)
    return on_parts(node, real_build(node))


@complex_op("sym_size.int", "_assert_tensor_metadata")
def of_real_part(node: FxNode) -> Any:
    """Builds an op of the shape only."""
    names = [name for name in node.spec.args if isinstance(node.arg(name), ComplexTensor)]
    return real_build(node)(node.replace({name: node.arg(name).real for name in names}))


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
    build, sums = real_build(node), [None, None]
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
    complex_op(_name)(partial(multiply_parts, names=_factors))


@complex_op("vdot")
def inner_product(node: FxNode) -> ComplexTensor:
    first = conjugate_of(as_complex(node.arg("self"), node.out_dtype()))
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
    result = result if alpha == 1 else times(result, as_complex(alpha, dtype))
    if beta == 0:
        return result
    addend = times(as_complex(node.arg("self"), dtype), as_complex(beta, dtype))
    return with_parts(node, R.add(result.real, addend.real), R.add(result.imag, addend.imag))


def times(a: ComplexTensor, b: ComplexTensor) -> ComplexTensor:
    real = R.subtract(R.multiply(a.real, b.real), R.multiply(a.imag, b.imag))
    return ComplexTensor(real, R.add(R.multiply(a.real, b.imag), R.multiply(a.imag, b.real)))


def quotient(node: FxNode, a: ComplexTensor, b: ComplexTensor) -> ComplexTensor:
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
        result = quotient(node, dividend, bound(node, as_complex(divisor, dtype)))
    else:
        result = map_parts(lambda p: R.divide(p, as_tensor(divisor, dtype)), dividend)
    return with_parts(node, result.real, result.imag)


def bound(node: FxNode, x: ComplexTensor) -> ComplexTensor:
    return ComplexTensor(node.emit(x.real), node.emit(x.imag))


# ---- products along an axis


@complex_op("cumprod")
def running_product(node: FxNode) -> ComplexTensor:
    x = bound(node, as_complex(node.arg("self"), node.out_dtype()))
    return _running_product(node, x, node.axis()) if node.rank() else x


@complex_op("prod")
def product_of_elements(node: FxNode) -> ComplexTensor:
    x, axis = bound(node, as_complex(node.arg("self"), node.out_dtype())), 0
    if not node.rank():
        return x
    if "dim" in node.spec.args:
        axis = node.axis()
    else:
        x = bound(node, map_parts(R.flatten, x))
    result = _running_product(node, x, axis)
    size = node.dims_of(result.real)[axis]
    if size == 0:
        return with_parts(node, number(1, node.out_dtype()), None)
    last = map_parts(lambda p: R.strided_slice(p, [axis], (size - 1,), (size,)), result)
    return last if node.flag("keepdim") else map_parts(lambda p: R.squeeze(p, [axis]), last)


def _running_product(node: FxNode, x: ComplexTensor, axis: int) -> ComplexTensor:
    """Returns the products of the first elements: each step doubles their number."""
    size = node.dims_of(x.real)[axis]
    if not isinstance(size, int):
        node.fail(
            f"axis {axis}: expected a static size, found {dims.text(size)}",
            "export with static sizes: remove its `Dim` from `dynamic_shapes`",
        )
    step = 1
    while step < size:
        first = map_parts(partial(_slice, axis=axis, start=0, end=size - step), x)
        rest = map_parts(partial(_slice, axis=axis, start=step, end=size), x)
        head = map_parts(partial(_slice, axis=axis, start=0, end=step), x)
        products = times(bound(node, first), bound(node, rest))
        x = bound(node, map_parts(lambda a, b: R.concat(Tuple((a, b)), axis=axis), head, products))
        step *= 2
    return x


def _slice(x: Expr, axis: int, start: int, end: int) -> Expr:
    return R.strided_slice(x, [axis], (start,), (end,))


# ---- conversions


complex_op("complex")(lambda node: with_parts(node, node["real"], node["imag"]))


@complex_op("polar")
def from_polar(node: FxNode) -> ComplexTensor:
    radius, angle = node["abs"], node["angle"]
    return with_parts(node, R.multiply(radius, R.cos(angle)), R.multiply(radius, R.sin(angle)))


complex_op("view_as_real")(lambda node: join_pairs(node.arg("self")))
complex_op("view_as_complex")(lambda node: split_pairs(node, node["self"]))
complex_op("real")(lambda node: node.arg("self").real)
complex_op("imag")(lambda node: node.arg("self").imag)


@complex_op("_conj", "conj", "_conj_physical", "conj_physical")
def conjugate(node: FxNode) -> ComplexTensor:
    return bound(node, conjugate_of(node.arg("self")))


torch_op("_neg_view")(lambda node: R.negative(node["self"]))


@complex_op("adjoint", "mH", "matrix_H")
def conjugate_transpose(node: FxNode) -> ComplexTensor:
    return bound(node, conjugate_of(on_parts(node, real_build(node))))


@complex_op("_to_copy", "to", "type_as")
def to_dtype(node: FxNode) -> Any:
    """Builds a conversion; the imaginary part is lost in a conversion to a real dtype."""
    value = as_complex(node.positional()[0], node.out_dtype())
    return value if node.meta().is_complex else value.real


@complex_op("ones", "ones_like", "new_ones", "eye")
def with_zero_imaginary(node: FxNode) -> Any:
    result = node.emit(of_real_part(node))
    return as_complex(result, node.out_dtype()) if node.meta().is_complex else result


# ---- writes to views of parts


@view_of("real")
def write_real(part: FxNode, update: Expr) -> Any:
    base = part.arg("self")
    return ComplexTensor(update, base.imag) if isinstance(base, ComplexTensor) else update


view_of("imag")(lambda part, update: ComplexTensor(part.arg("self").real, update))
view_of("view_as_real")(lambda part, update: split_pairs(part, update))
view_of("view_as_complex")(lambda part, update: join_pairs(update))


@view_of("_conj", "conj", "_neg_view")
def write_conjugate(part: FxNode, update: Any) -> Any:
    if part.is_complex() or "_neg_view" in part.spec.target:
        part.fail(
            "writing to a conjugate in place is not supported",
            "write to a copy: `z.conj().clone()`",
        )
    return update
