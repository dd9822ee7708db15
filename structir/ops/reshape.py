"""Reshape and view: the same elements in row-major order under another shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from math import prod
from operator import mul
from typing import Any

from structir.errors import ShapeMismatchError
from structir.ir.dims import Dim, compare, equal, exact_quotient, floordiv, floormod, text
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Call, Expr
from structir.ir.struct_info import PrimStructInfo
from structir.lazy import lazy_module
from structir.opdef.attributes import DType, Size, SizeOrSizes, Sizes
from structir.opdef.axis_packs import axes_text
from structir.opdef.call_view import CallView, ResolvedSignature, UnknownShape
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, index_vars, where_text
from structir.opdef.shape_eval import UNKNOWN
from structir.projections.scalar_expr import ScalarExpr

np = lazy_module("numpy")
Array = Any
Dims = tuple[Dim, ...]


def product(sizes: Sequence[Dim]) -> Dim:
    """Returns the number of elements of a shape."""
    start: Dim = 1
    return reduce(mul, sizes, start)


def reshape_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with common factors where shapes nest, else with linear indices."""
    target = call["shape"]
    if isinstance(target, UnknownShape):
        return ResolvedSignature("x[*s] -> y[*shape]")
    if target is UNKNOWN:
        return ResolvedSignature("x[*s] -> y[_]")
    if not isinstance(target, tuple):
        target = (target,)
    sizes = call.dims("x")
    _check_target(call, target)
    if sizes is None:
        if any(size in (0, -1) for size in target):
            return ResolvedSignature(f"x[*s] -> {access_text('y', ['_'] * len(target))}")
        where, total = "flat(*s) == total", product(target)
        return ResolvedSignature("x[*s] -> y[*to]", where, "", {"to": target, "total": total})
    to = infer_target(call, sizes, target)
    rest_is_zero = (
        compare("eq", product(_unmatched_sizes(sizes, target)[1]), 0) if -1 in target else 0
    )
    grouped = grouping(sizes, to)
    if grouped is None:
        return _linear_index_signature(len(sizes), to, rest_is_zero)
    in_axes, out_axes, factors = grouped
    checks = [f"f{k} == factors[{k}]" for k in range(len(factors))]
    signature = f"{access_text('x', in_axes)} -> {access_text('y', out_axes)}"
    attributes: dict[str, object] = {"factors": factors}
    total, target_total = product(sizes), product(to)
    if not equal(total, target_total):  # undecidable before run time
        checks.append("total == target_total")
        attributes |= {"total": total, "target_total": target_total}
    if rest_is_zero != 0:  # -1 is ambiguous if the other sizes multiply to 0
        checks.append("rest_is_0 == 0")
        attributes["rest_is_0"] = rest_is_zero
    return ResolvedSignature(signature, where_text(checks), "", attributes)


def _check_target(call: CallView, target: Dims) -> None:
    if any(isinstance(size, int) and size < -1 for size in target):
        message = "shape: expected no negative size except one -1"
        call.reject(f"{message}, found {shape_text(target)}")
    if sum(size == -1 for size in target) > 1:
        first = target.index(-1)
        one = tuple([size for k, size in enumerate(target) if size != -1 or k == first])
        hint = f"write one -1: `{shape_text(one)}`"
        call.reject(f"shape: expected at most one -1, found {shape_text(target)}", hint)


def infer_target(call: CallView, sizes: Dims, target: Dims) -> Dims:
    """Infers -1 and copies sizes for 0 in the target shape; rejects a wrong number of elements.

    A 0 is literal where the operand has no elements.
    """
    total, to = product(sizes), list(target)
    for k, size in enumerate(to):
        if size == 0 and isinstance(size, int) and (total != 0 or -1 in target):
            if k >= len(sizes):
                message = (
                    f"shape: expected a 0 only at axes of x, which it copies, found a 0 at axis {k}"
                    f" for {axes_text(len(sizes))}"
                )
                call.reject(message)
            to[k] = sizes[k]
    if -1 in to:
        total, divisor = [product(part) for part in _unmatched_sizes(sizes, tuple(to))]
        if divisor == 0 or equal(floormod(total, divisor), 0) is False:
            counts = f"{text(product(sizes))} elements to {shape_text(target)}"
            others = f"{text(total)} is not a multiple of {text(divisor)}"
            hint = f"write sizes with {text(product(sizes))} elements in all: `(-1,)`"
            call.reject(f"cannot reshape {counts}: {others}", hint, "E0204")
        exact = exact_quotient(total, divisor)
        to[to.index(-1)] = floordiv(total, divisor) if exact is None else exact
    elif equal(total, product(to)) is False:
        call.reject(
            f"cannot reshape {text(total)} elements to {shape_text(to)} "
            f"({text(product(to))} elements)",
            _inferred_size_hint(total, to)
            or f"write sizes with {text(total)} elements in all: `(-1,)`",
            "E0204",
        )
    return tuple(to)


def shape_text(shape: Sequence[Dim]) -> str:
    """Returns a shape as a tuple."""
    return f"({', '.join(map(text, shape))}{',' * (len(shape) == 1)})"


def _inferred_size_hint(total: Dim, target: list[Dim]) -> str | None:
    """Returns the hint to infer the last size for which the others divide the elements."""
    for axis in reversed(range(len(target))):
        others = product(tuple(target[:axis] + target[axis + 1 :]))
        if others != 0 and exact_quotient(total, others) is not None:
            inferred: list[Dim] = [*target[:axis], -1, *target[axis + 1 :]]
            return f"infer axis {axis}: `{shape_text(inferred)}`"
    return None


def _unmatched_sizes(sizes: Dims, target: Dims) -> tuple[list[Dim], list[Dim]]:
    """Removes the sizes common to both shapes, so that -1 is inferred even if they are 0."""
    copied = [sizes[k] if size == 0 and k < len(sizes) else size for k, size in enumerate(target)]
    return _remove_common(sizes, copied)


def _remove_common(sizes: Sequence[Dim], target: Sequence[Dim]) -> tuple[list[Dim], list[Dim]]:
    old, new = list(sizes), []
    for size in target:
        if size in old:
            old.remove(size)
        elif size != -1:
            new.append(size)
    return old, new


def _linear_index_signature(rank: int, to: Dims, rest_is_zero: Dim) -> ResolvedSignature:
    """Returns the signature for arbitrary shapes, by division and remainder of linear indices."""
    in_variables, out_variables = index_vars(rank, "x"), index_vars(len(to), "y")
    linear_index = f"flat({', '.join(out_variables)})" if out_variables else "0"
    read = []
    for k, variable in enumerate(in_variables):
        inner = " * ".join([f"size({e})" for e in in_variables[k + 1 :]])
        quotient = f"{linear_index} // ({inner})" if inner else linear_index
        read.append(
            f"{quotient} % size({variable}) : {variable}" if k else f"{quotient} : {variable}"
        )
    checks = [f"{e} == to[{k}]" for k, e in enumerate(out_variables)]
    equal_totals = f"{' * '.join(in_variables) or '1'} == {' * '.join(out_variables) or '1'}"
    signature = f"{access_text('x', read)} -> {access_text('y', out_variables)}"
    checks += ["rest_is_0 == 0"] * (rest_is_zero != 0)
    return ResolvedSignature(
        signature, where_text(checks, equal_totals), "", {"to": to, "rest_is_0": rest_is_zero}
    )


def grouping(old: Dims, new: Dims) -> tuple[list[str], list[str], Dims] | None:
    """Factors both shapes into common groups; None where they do not nest.

    (6, 4) -> (2, 12): the suffix products 4, 24 and 12, 24 nest as 4 | 12 | 24, so with the factors
    4, 3 and 2 it is x[flat(f2, f1), f0] -> y[f2, flat(f1, f0)].
    """
    marks: list[Dim] = [1]
    for sizes in (old, new):
        running: Dim = 1
        for size in reversed(sizes):
            running = running * size
            if running == 0:
                return None
            if running not in marks:
                marks.append(running)
    chain = _divisor_chain(marks)
    if chain is None:
        return None
    factors = [exact_quotient(b, a) for a, b in pairwise(chain)]
    known_factors = tuple([f for f in factors if f is not None])
    return _groups(old, chain), _groups(new, chain), known_factors


def _divisor_chain(marks: list[Dim]) -> list[Dim] | None:
    """Orders suffix products so that each divides the next; None where impossible."""
    chain: list[Dim] = []
    remaining = list(marks)
    while remaining:
        least = [
            m for m in remaining if all(exact_quotient(other, m) is not None for other in remaining)
        ]
        if not least:
            return None
        chain.append(least[0])
        remaining.remove(least[0])
    return chain


def _groups(sizes: Dims, chain: list[Dim]) -> list[str]:
    """Returns each axis as the factors between two suffix products."""
    entries: list[str] = []
    start = 0
    mark: Dim = 1
    for size in reversed(sizes):
        mark = mark * size
        end = chain.index(mark)
        names = [f"f{k}" for k in reversed(range(start, end))]
        entries.insert(
            0, names[0] if len(names) == 1 else f"flat({', '.join(names)})" if names else "1"
        )
        start = end
    return entries


@op(reshape_signature, reads_sizes=True)
def reshape(x: ScalarExpr, shape: SizeOrSizes) -> ScalarExpr:
    """Reshapes a tensor. In `shape`, 0 copies a size of the operand, and one -1 is inferred."""
    return x


def resolve_zeros(call: Call, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replaces each literal 0 of the shape; a size that is 0 at run time is literal."""
    shape = values[1] if len(values) > 1 else ()
    target = list(shape) if isinstance(shape, tuple) else [shape]
    if 0 not in target:
        return values
    x, x_dims, static_shape = np.asarray(values[0]), *map(_static_dims, call.args[:2])
    if static_shape is None or (x_dims is not None and product(x_dims) == 0):
        return values
    copied = [k for k, size in enumerate(static_shape) if isinstance(size, int) and size == 0]
    for k in copied:
        if k < x.ndim:
            target[k] = x.shape[k]
    if any(size == 0 and k not in copied for k, size in enumerate(target)):
        target = _infer_empty_target(call, x.shape, target)
    return (x, tuple(target), *values[2:])


def _static_dims(value: Expr) -> Dims | None:
    """Returns the known dims of a tensor, a shape or a number."""
    info: Any = value.struct_info
    if isinstance(info, PrimStructInfo):
        return None if info.value is None else (info.value,)
    return info.dims if isinstance(info.dims, tuple) else None


def _infer_empty_target(call: Call, sizes: Sequence[Any], target: list[Any]) -> list[Any]:
    """Infers -1 in a target with a size that is 0 at run time."""
    elements, divisor = [prod(part) for part in _remove_common(sizes, target)]
    to = [elements // divisor if size == -1 and divisor else size for size in target]
    if -1 in to or prod(sizes):
        name = call.op.name  # type: ignore[attr-defined]
        raise ShapeMismatchError(f"{name}: cannot reshape {tuple(sizes)} to {tuple(target)}")
    return to


reshape.as_written(resolve_zeros)


def view_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of a reshape; a change of dtype or an offset leaves only shapes."""
    if call["shape"] is None:
        return ResolvedSignature("x[*s] -> y[*s] @ dtype or T", sizes=call["dtype"] is not None)
    if isinstance(call["shape"], UnknownShape):
        return ResolvedSignature("x[*s] -> y[*shape] @ dtype or T", sizes=True)
    if call["dtype"] is None and call["relative_byte_offset"] is None:
        return reshape_signature(call)
    return ResolvedSignature("x[*s] -> y[*shape] @ dtype or T", sizes=True)


@op(view_signature, name="memory.view", reads_sizes=True)
def view(
    x: ScalarExpr,
    shape: Sizes | None = None,
    dtype: DType | None = None,
    relative_byte_offset: Size | None = None,
) -> ScalarExpr:
    """Reinterprets the memory of a tensor with another shape or dtype."""
    return x


@view.as_written
def _(call: Call, values: tuple[Any, ...]) -> tuple[Any, ...]:
    reshapes = call.attrs.get("dtype") is None and values[2:] in ((), ((),))
    return resolve_zeros(call, values) if reshapes else values


@view.reference
def _(
    x: Array,
    shape: Any = None,
    dtype: str | None = None,
    relative_byte_offset: int | None = None,
) -> Array:
    start = relative_byte_offset or 0
    if dtype is None and relative_byte_offset is None and shape is not None:
        target = [x.shape[k] if n == 0 and k < x.ndim else n for k, n in enumerate(shape)]
        return x.reshape(shape if x.size == 0 and -1 not in shape else target)
    element_type = x.dtype if dtype is None else numpy_dtype(dtype)
    sizes = x.shape if shape is None else shape
    memory = np.frombuffer(np.ascontiguousarray(x).tobytes(), "uint8")
    count = prod(sizes) if -1 not in sizes else (memory.size - start) // element_type.itemsize
    end = start + count * element_type.itemsize
    if end > memory.size:
        raise ValueError(
            f"expected at most {memory.size} bytes, found {end} bytes up to the end of the view"
        )
    return memory[start:end].view(element_type).reshape(sizes)


reshape.example(f32[6, 4], (2, -1))
reshape.example(f32[6, 4], (8, 3))
view.example(f32[2, 6], (3, 4))
view.example(f32[2, 6], dtype="int32")
view.example(f32[2, 6], (2, 3), "int32", 16)
