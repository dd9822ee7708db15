"""Mappings of reductions by a computation, over axes or windows, of one or several operands.

The computation is associative, as XLA requires, so elements are combined in pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.ops.windows import reduced_windows
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.jax.traced import operands_of, traced
from structir.ir.expr import Expr
from structir.lazy import lazy_module
from structir.script import R

jax = lazy_module("jax")
lax = lazy_module("jax.lax")
jnp = lazy_module("jax.numpy")
jax_core = lazy_module("jax.extend.core")
Arrays = list[Any]
Combine = Callable[[Arrays, Arrays], Arrays]
# Of one operand: the mapping of its windows, and the op that adds the initial value.
NAMED: dict[str, tuple[str, Callable[[Expr, Expr], Expr]]] = {
    "add": ("reduce_window_sum", R.add),
    "mul": ("reduce_window_prod", R.multiply),
    "max": ("reduce_window_max", R.maximum),
    "min": ("reduce_window_min", R.minimum),
}


@jax_primitive("reduce")
def reduction(equation: Equation) -> list[Expr]:
    """Builds a reduction over axes."""
    combine = _combination(equation.params["jaxpr"])
    axes = [int(axis) for axis in equation.params["dimensions"]]

    def reduced(*values: Any) -> Arrays:
        operands, starts = _halves(values)
        return _reduced(operands, starts, combine, axes)

    return traced(equation, reduced, *operands_of(equation))


@jax_primitive("reduce_xor")
def parity(equation: Equation) -> list[Expr]:
    axes = [int(axis) for axis in equation.params["axes"]]

    def combine(left: Arrays, right: Arrays) -> Arrays:
        return [lax.bitwise_xor(left[0], right[0])]

    def reduced(x: Any) -> Arrays:
        return _reduced([x], [jnp.zeros((), x.dtype)], combine, axes)

    return traced(equation, reduced, *operands_of(equation))


def _reduced(operands: Arrays, starts: Arrays, combine: Combine, axes: Sequence[int]) -> Arrays:
    """Returns the combinations of the elements along axes, and of the initial values."""
    rows = [_rows(x, axes) for x in operands]
    total = rows[0].shape[0]
    starts = [jnp.broadcast_to(s, x.shape[1:]) for s, x in zip(starts, rows, strict=True)]
    if not isinstance(total, int):
        return list(lax.scan(lambda state, x: (combine(state, x), None), starts, rows)[0])
    while rows[0].shape[0] > 1:
        rows = _in_pairs(rows, combine)
    return combine(starts, [x[0] for x in rows]) if total else starts


def _rows(x: Any, axes: Sequence[int]) -> Any:
    """Returns an array whose first axis is the axes to reduce."""
    others = [k for k in range(x.ndim) if k not in axes]
    total: Any = 1
    for axis in axes:
        total = total * x.shape[axis]
    return jnp.transpose(x, (*axes, *others)).reshape(total, *[x.shape[k] for k in others])


def _in_pairs(rows: Arrays, combine: Combine) -> Arrays:
    """Returns the combinations of neighbours; a last row without a neighbour is unchanged."""
    even = rows[0].shape[0] // 2 * 2
    combined = combine([x[:even:2] for x in rows], [x[1:even:2] for x in rows])
    return [jnp.concatenate([a, x[even:]]) for a, x in zip(combined, rows, strict=True)]


@jax_primitive("reduce_window")
def windows(equation: Equation) -> list[Expr]:
    """Builds a reduction over windows; padding has the initial value."""
    params = equation.params
    equations = params["jaxpr"].eqns
    name = equations[0].primitive.name if len(equations) == 1 else ""
    if len(equation.args) == 2 and name in NAMED and equation.dtype() != "bool":
        mapping, combined = NAMED[name]
        return [combined(equation.emit(reduced_windows(equation, mapping)), equation.args[1])]
    combine = _combination(jax_core.ClosedJaxpr(params["jaxpr"], params["consts"]))

    def reduced(*values: Any) -> Arrays:
        operands, starts = _halves(values)
        padding = [
            (low, high, base - 1)
            for (low, high), base in zip(params["padding"], params["base_dilation"], strict=True)
        ]
        padded = [lax.pad(x, s, padding) for x, s in zip(operands, starts, strict=True)]
        offsets = product(*[range(n) for n in params["window_dimensions"]])
        shape = _elements(padded[0], [0] * padded[0].ndim, params).shape
        state = [jnp.broadcast_to(s, shape) for s in starts]
        for offset in offsets:
            state = combine(state, [_elements(x, offset, params) for x in padded])
        return state

    return traced(equation, reduced, *operands_of(equation))


def _elements(x: Any, offset: Sequence[int], params: Any) -> Any:
    """Returns the elements at one position of every window."""
    sizes, steps = params["window_dimensions"], params["window_strides"]
    starts, limits = [], []
    for n, k, size, spacing in zip(x.shape, offset, sizes, params["window_dilation"], strict=True):
        starts.append(k * spacing)
        limits.append(n - (size - 1 - k) * spacing)
    return lax.slice(x, starts, limits, steps)


def _halves(values: Sequence[Any]) -> tuple[Arrays, Arrays]:
    """Returns the operands and the initial values."""
    count = len(values) // 2
    return list(values[:count]), list(values[count:])


def _combination(closed: Any) -> Combine:
    """Returns a computation of scalars as one of arrays of equal shapes."""
    scalars = jax_core.jaxpr_as_fun(closed)

    def combine(left: Arrays, right: Arrays) -> Arrays:
        function = scalars
        for _ in range(left[0].ndim):
            function = jax.vmap(function)
        return list(function(*left, *right))

    return combine
