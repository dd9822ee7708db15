"""Mappings of reductions, prefix sums, windows and sorts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.special_functions import running_log_sum_exp
from structir.ir.expr import Expr
from structir.lazy import lazy_module
from structir.script import R

np = lazy_module("numpy")
REDUCTIONS: dict[str, Callable[..., Expr]] = {
    "reduce_sum": R.sum,
    "reduce_max": R.max,
    "reduce_min": R.min,
    "reduce_prod": R.prod,
}


@jax_primitive(*REDUCTIONS)
def reduction(equation: Equation) -> Expr:
    axes = [int(axis) for axis in equation.params["axes"]]
    x = equation.args[0]
    if not axes:
        return x
    return cast(equation, REDUCTIONS[equation.name](x, axis=axes))


def cast(equation: Equation, value: Expr) -> Expr:
    """Returns a result in the dtype that JAX recorded."""
    info: Any = value.struct_info
    dtype = equation.out_dtype()
    return value if info.dtype == dtype else R.astype(value, dtype)


@jax_primitive("reduce_and", "reduce_or")
def truth(equation: Equation) -> Expr:
    axes = [int(axis) for axis in equation.params["axes"]]
    if equation.dtype() != "bool":
        equation.fail(f"expected bool, found {equation.dtype()}")
    op = R.min if equation.name == "reduce_and" else R.max
    return R.astype(op(R.astype(equation.args[0], "uint8"), axis=axes), "bool")


@jax_primitive("argmax", "argmin")
def extremum_index(equation: Equation) -> Expr:
    (axis,) = equation.params["axes"]
    op = R.argmax if equation.name == "argmax" else R.argmin
    return cast(equation, op(equation.args[0], axis=int(axis)))


CUMULATIVE: dict[str, Callable[..., Expr]] = {
    "cumsum": R.cumsum,
    "cumprod": R.cumprod,
    "cummax": lambda x, axis: R.cummax(x, axis=axis)[0],
    "cummin": lambda x, axis: R.cummin(x, axis=axis)[0],
}


@jax_primitive(*CUMULATIVE, "cumlogsumexp")
def cumulative(equation: Equation) -> Expr:
    axis, x = int(equation.params["axis"]), equation.args[0]
    is_reverse = equation.params["reverse"]
    if is_reverse:
        x = equation.emit(R.flip(x, axis=axis))
    if equation.name == "cumlogsumexp":
        result = running_log_sum_exp(x, axis, equation.dtype(), equation.emit)
    else:
        result = cast(equation, CUMULATIVE[equation.name](x, axis=axis))
    return R.flip(equation.emit(result), axis=axis) if is_reverse else result


# ---- sorts


@jax_primitive("sort")
def sort(equation: Equation) -> list[Expr]:
    """Builds a stable sort of operands by the first `num_keys` of them."""
    axis, keys = int(equation.params["dimension"]), equation.params["num_keys"]
    if len(equation.args) == 1:
        return [R.sort(equation.args[0], axis=axis)]
    order: Expr | None = None
    for key in reversed(equation.args[:keys]):
        values = key if order is None else R.gather_elements(key, order, axis=axis)
        ranks = equation.emit(R.argsort(equation.emit(values), axis=axis, dtype="int64"))
        ordered = ranks if order is None else R.gather_elements(order, ranks, axis=axis)
        order = equation.emit(ordered)
    return [R.gather_elements(x, order, axis=axis) for x in equation.args]


@jax_primitive("top_k")
def top_k(equation: Equation) -> list[Expr]:
    rank, count = len(equation.dims()), int(equation.params["k"])
    axis = int(equation.params.get("axis", rank - 1)) % rank
    pair = equation.emit(
        R.topk(equation.args[0], k=count, axis=axis, ret_type="both", dtype="int32")
    )
    return [pair[0], pair[1]]


@jax_primitive("approx_top_k")
def approximate_top_k(equation: Equation) -> list[Expr]:
    """Builds the exact largest or smallest elements."""
    params, count = equation.params, int(equation.params["k"])
    axis = int(params["reduction_dimension"]) % len(equation.dims())
    if equation.out_dims()[axis] != count:
        equation.fail(f"expected {count} results, found {equation.out_dims()[axis]}")
    pair = equation.emit(
        R.topk(
            equation.args[0],
            k=count,
            axis=axis,
            ret_type="both",
            largest=bool(params["is_max_k"]),
            dtype="int32",
        )
    )
    return [pair[0], pair[1]]
