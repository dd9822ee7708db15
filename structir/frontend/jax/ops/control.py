"""Mappings of calls, conditionals and loops."""

from __future__ import annotations

from typing import Any

from structir.frontend.iteration import ABSENT, iterated
from structir.frontend.jax.equation import Equation, dtype_of
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.scalars import number
from structir.ir.expr import Constant, Expr, PrimValue, Tuple
from structir.script import R

BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
CALLS = ("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "composite")
CUSTOM = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")


@jax_primitive(*CALLS, *CUSTOM)
def call(equation: Equation) -> list[Expr]:
    """Builds a call by inlining it. Custom derivatives have no effect: JAX has applied them."""
    body = next(equation.params[name] for name in BODIES if name in equation.params)
    return _inlined(equation, body, list(equation.args))


def _inlined(equation: Equation, body: Any, operands: list[Expr]) -> list[Expr]:
    """Builds a jaxpr, closed or not."""
    inner = getattr(body, "jaxpr", body)
    return equation.host.inlined(inner, getattr(body, "consts", ()), operands)


@jax_primitive("platform_index")
def platform_index(equation: Equation) -> Expr:
    """Builds the number of the first branch for the CPU, or for every platform."""
    platforms = equation.params["platforms"]
    is_own = [names is None or "cpu" in names for names in platforms]
    return number(is_own.index(True), equation.out_dtype())


@jax_primitive("custom_linear_solve")
def linear_solve(equation: Equation) -> list[Expr]:
    """Builds a linear solve by its own solver."""
    lengths, jaxprs = equation.params["const_lengths"], equation.params["jaxprs"]
    first = lengths.matvec + lengths.vecmat
    constants = equation.args[first : first + lengths.solve]
    right = equation.args[sum(lengths) :]
    return _inlined(equation, jaxprs.solve, [*constants, *right])


@jax_primitive("debug_callback", "debug_print")
def callback(equation: Equation) -> list[Expr]:
    """Ignores prints."""
    return []


@jax_primitive("cond")
def conditional(equation: Equation) -> list[Expr]:
    """Builds a choice among branches; an index outside of them is clamped."""
    index, *operands = equation.args
    branches = list(equation.params["branches"])
    if len(branches) == 1 or isinstance(index, Constant):
        chosen = int(index.data) if isinstance(index, Constant) else 0
        return _inlined(equation, branches[min(max(chosen, 0), len(branches) - 1)], operands)
    result = _among(equation, index, branches, 0, operands)
    return [result[k] for k in range(len(equation.outputs))]


def _among(
    equation: Equation, index: Expr, branches: list[Any], number_of: int, operands: list[Expr]
) -> Expr:
    """Returns the tuple of results of one of the branches, which are numbered from `number_of`."""
    if len(branches) == 1:
        results = _inlined(equation, branches[0], operands)
        return Tuple(tuple([_bound(equation, value) for value in results]))
    test = R.less_equal(index, number(number_of, equation.dtype()))
    return equation.host.builder.if_else(
        _bound(equation, test),
        lambda: _among(equation, index, branches[:1], number_of, operands),
        lambda: _among(equation, index, branches[1:], number_of + 1, operands),
    )


def _bound(equation: Equation, value: Expr) -> Expr:
    if isinstance(value, Constant):
        return equation.host.builder.emit(value)
    return equation.emit(value)


@jax_primitive("while")
def while_loop(equation: Equation) -> list[Expr]:
    params = equation.params
    first, second = params["cond_nconsts"], params["body_nconsts"]
    test_constants = list(equation.args[:first])
    constants = list(equation.args[first : first + second])
    states = [_bound(equation, value) for value in equation.args[first + second :]]

    def flags(values: list[Expr]) -> Expr:
        (flag,) = _inlined(equation, params["cond_jaxpr"], [*test_constants, *values])
        return _bound(equation, flag)

    def condition(values: list[Expr]) -> Expr:
        flag = flags(values)
        return _bound(equation, R.max(flag)) if flag.struct_info.ndim else flag

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        after = _inlined(equation, params["body_jaxpr"], [*constants, *values])
        after = [_bound(equation, value) for value in after]
        going = flags(values)
        if going.struct_info.ndim:  # of a mapped loop: elements that are done keep their values
            pairs = zip(values, after, strict=True)
            after = [_bound(equation, _where(equation, going, b, a)) for a, b in pairs]
        return condition(after), after, []

    builder = equation.host.builder
    return iterated(builder, "while_loop", ABSENT, condition(states), states, [], body)


def _where(equation: Equation, flags: Expr, value: Expr, otherwise: Expr) -> Expr:
    """Returns values where a flag of the leading axes holds."""
    missing = value.struct_info.ndim - flags.struct_info.ndim
    axes = [flags.struct_info.ndim + k for k in range(missing)]
    mask = _bound(equation, R.expand_dims(flags, axes)) if axes else flags
    return R.where(mask, value, otherwise)


@jax_primitive("scan")
def scan(equation: Equation) -> list[Expr]:
    params = equation.params
    constant_count, state_count = params["num_consts"], params["num_carry"]
    constants = list(equation.args[:constant_count])
    states = equation.args[constant_count : constant_count + state_count]
    scanned = [_bound(equation, x) for x in equation.args[constant_count + state_count :]]
    length = equation.dim(params["length"])
    if params["reverse"]:
        scanned = [equation.emit(R.flip(x, axis=0)) for x in scanned]
    stacked = range(state_count, len(equation.outputs))
    outputs = [(equation.out_dims(k)[1:], dtype_of(equation.outputs[k])) for k in stacked]

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        elements = [equation.emit(R.take(x, step, axis=0)) for x in scanned]
        results = _inlined(equation, params["jaxpr"], [*constants, *values, *elements])
        results = [_bound(equation, value) for value in results]
        return number(True, "bool"), results[:state_count], results[state_count:]

    initial = [_bound(equation, value) for value in states]
    loop = ("scan", PrimValue(length), ABSENT, initial, outputs, body)
    results = iterated(equation.host.builder, *loop)
    if params["reverse"]:
        flipped = [R.flip(_sized(equation, results[k], k), axis=0) for k in stacked]
        results = [*results[:state_count], *flipped]
    return results


def _sized(equation: Equation, value: Expr, index: int) -> Expr:
    """Returns a result with the sizes that JAX recorded."""
    return equation.host.recorded(equation, index, value)
