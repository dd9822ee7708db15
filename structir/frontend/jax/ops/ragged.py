"""Mapping of products whose rows, summed elements or batches are in groups of given sizes."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.jax.traced import operands_of, traced
from structir.frontend.scalars import dims_of, index_range
from structir.ir.expr import Expr
from structir.lazy import lazy_module
from structir.script import R

lax = lazy_module("jax.lax")
jnp = lazy_module("jax.numpy")
ROWS = (((1,), (1,)), ((), ()))  # the contraction of (m, k) and (groups, k, n)


@jax_primitive("ragged_dot_general")
def ragged_product(equation: Equation) -> Expr | list[Expr]:
    """Builds a product: each row has the matrix of its group, or each group of summed elements is
    a result of its own. Rows behind the last group are 0."""
    numbers = equation.params["ragged_dot_dimension_numbers"]
    if len(equation.args) > 3 or equation.params.get("group_offset") is not None:
        equation.fail("group_offset: expected None, found an array")
    pairs = tuple([tuple(map(tuple, sides)) for sides in numbers.dot_dimension_numbers])
    is_of_rows = tuple(numbers.rhs_group_dimensions) == (0,)
    if is_of_rows and pairs == ROWS and len(equation.dims(0)) == 2:
        return _product_of_rows(equation)
    return traced(equation, lambda *x: _product(equation, numbers, *x), *operands_of(equation))


def _product_of_rows(equation: Equation) -> Expr:
    lhs, rhs, sizes = equation.args
    dtype = equation.out_dtype()
    ends = equation.emit(R.cumsum(R.astype(sizes, "int64"), axis=0))
    groups = R.bucketize(index_range(dims_of(lhs)[0]), ends, right=True)
    widened = [x if x.struct_info.dtype == dtype else R.astype(x, dtype) for x in (lhs, rhs)]
    return R.grouped_matmul(*widened, equation.emit(groups))


def _product(equation: Equation, numbers: Any, lhs: Any, rhs: Any, sizes: Any) -> Any:
    """Returns the product by a contraction with the groups of the ragged axis."""
    contraction, batch = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    dtype = equation.params["preferred_element_type"]
    if ragged in batch[0]:
        return lax.dot_general(lhs, rhs, (contraction, batch), preferred_element_type=dtype)
    letters = iter(string.ascii_letters)
    group, *left = [next(letters) for _ in range(lhs.ndim + 1)]
    right = [next(letters) for _ in range(rhs.ndim)]
    for axes in (contraction, batch):
        for a, b in zip(*axes, strict=True):
            right[b] = left[a]
    for axis in numbers.rhs_group_dimensions:
        right[axis] = group
    summed = {left[a] for a in contraction[0]}
    first = [left[a] for a in batch[0]]
    free = [a for a in (*left, *right) if a not in summed and a not in (*first, group)]
    is_contracted = ragged in contraction[0]
    others = contraction[0] if is_contracted else [k for k, a in enumerate(left) if a in free]
    outer = [*batch[0], *others[: list(others).index(ragged)]]
    member = _members(sizes, [lhs.shape[k] for k in outer], lhs.shape[ragged]).astype(lhs.dtype)
    mask = [*[left[k] for k in outer], left[ragged], group]
    result = [group, *first, *free] if is_contracted else [*first, *free]
    subscripts = ",".join(map("".join, (left, right, mask))) + "->" + "".join(result)
    return jnp.einsum(subscripts, lhs, rhs, member, preferred_element_type=dtype)


def _members(sizes: Any, outer: Sequence[Any], count: Any) -> Any:
    """Returns whether each index below `count` is in each group: (*outer, count, groups)."""
    ends = jnp.cumsum(sizes, axis=-1)
    ends = jnp.broadcast_to(ends, (*outer, sizes.shape[-1]))[..., None, :]
    index = jnp.arange(count)[:, None]
    starts = ends - (sizes if sizes.ndim == 1 else sizes[..., None, :])
    return (starts <= index) & (index < ends)
