"""Removes complex numbers from a jaxpr: each becomes a pair of arrays of floats.

StructIR has no complex dtype. The jaxpr is evaluated on tracers, with a `Pair` for each complex
value, and traced again. A complex argument or result becomes an array with a last axis of 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.jax.complex_rules import PART_OF, Pair, bound, find_rule, is_complex
from structir.frontend.jax.equation import span_of
from structir.frontend.jax.ops.control import BODIES, CALLS, CUSTOM
from structir.lazy import lazy_module

jax = lazy_module("jax")
jnp = lazy_module("jax.numpy")
lax = lazy_module("jax.lax")
jax_core = lazy_module("jax.extend.core")
source_info = lazy_module("jax._src.source_info_util")
np = lazy_module("numpy")


def without_complex(closed: Any) -> Any:
    """Returns a closed jaxpr of the same function without complex numbers.

    Raises DiagnosticError for a primitive without a rule for complex numbers.
    """
    if not _has_complex(closed.jaxpr):
        return closed

    def function(*arguments: Any) -> list[Any]:
        pairs = zip(closed.jaxpr.invars, arguments, strict=True)
        operands = [_split(x) if is_complex(var.aval) else x for var, x in pairs]
        return [_joined(x) for x in _evaluated(closed.jaxpr, closed.consts, operands)]

    avals = [as_real(var.aval) for var in closed.jaxpr.invars]
    try:
        return jax.make_jaxpr(function)(*avals)
    except DiagnosticError as error:  # JAX adds a note on its frames
        raise DiagnosticError(error.diagnostics) from None


def as_real(aval: Any) -> Any:
    """Returns a description of an array; a complex one has parts along a last axis of 2."""
    if not is_complex(aval):
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype)
    return jax.ShapeDtypeStruct((*aval.shape, 2), PART_OF[str(aval.dtype)])


def _split(x: Any) -> Pair:
    return Pair(x[..., 0], x[..., 1])


def _joined(x: Any) -> Any:
    return jnp.stack(x, axis=-1) if isinstance(x, Pair) else x


def _bodies(equation: Any) -> Iterator[Any]:
    """Yields the jaxprs among the parameters of an equation."""
    for value in equation.params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            inner = getattr(item, "jaxpr", item)
            if hasattr(inner, "eqns"):
                yield inner


def _has_complex(jaxpr: Any) -> bool:
    values = [*jaxpr.invars, *jaxpr.constvars, *jaxpr.outvars]
    return any([is_complex(v.aval) for v in values]) or any(map(_is_complex, jaxpr.eqns))


def _is_complex(equation: Any) -> bool:
    atoms = [*equation.invars, *equation.outvars]
    return any([is_complex(a.aval) for a in atoms]) or any(map(_has_complex, _bodies(equation)))


def _evaluated(jaxpr: Any, consts: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Returns the results of a jaxpr for arrays and pairs."""
    values: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
    values |= {v: _constant(c) for v, c in zip(jaxpr.constvars, consts, strict=True)}

    def read(atom: Any) -> Any:
        return _constant(atom.val) if isinstance(atom, jax_core.Literal) else values[atom]

    for equation in jaxpr.eqns:
        stack = source_info.current_name_stack() + equation.source_info.name_stack
        with source_info.user_context(equation.source_info.traceback, name_stack=stack):
            results = _results(equation, [read(atom) for atom in equation.invars])
        values |= zip(equation.outvars, results, strict=True)
    return [read(atom) for atom in jaxpr.outvars]


def _constant(value: Any) -> Any:
    if not is_complex(value) and not isinstance(value, complex):
        return value
    array = np.asarray(value)
    return Pair(*[jnp.asarray(np.array(part)) for part in (array.real, array.imag)])


def _results(equation: Any, operands: list[Any]) -> list[Any]:
    """Returns the results of an equation: by its primitive if it has no complex values."""
    name = equation.primitive.name
    if name in (*CALLS, *CUSTOM):
        return _body(next(equation.params[b] for b in BODIES if b in equation.params), operands)
    if not _is_complex(equation):
        result = bound(equation, operands)
    elif name in CONTROL:
        return list(CONTROL[name](equation.params, operands))
    else:
        result = _of_rule(equation, operands)
    return list(result) if equation.primitive.multiple_results else [result]


def _of_rule(equation: Any, operands: list[Any]) -> Any:
    name, rule = equation.primitive.name, find_rule(equation.primitive.name)
    if rule is None:
        message = "the primitive has no rule for complex numbers"
        hint = "compute with real parts: `jnp.real(x)`, `jnp.imag(x)`"
        raise DiagnosticError(Diagnostic(message, span_of(equation), name, hint=hint, code="E0801"))
    return rule(equation, *operands)


# ---- calls and control flow


def _body(body: Any, operands: Sequence[Any]) -> list[Any]:
    """Returns the results of a jaxpr, closed or not."""
    return _evaluated(getattr(body, "jaxpr", body), getattr(body, "consts", ()), operands)


def _scan(params: Any, operands: list[Any]) -> list[Any]:
    first, count = params["num_consts"], params["num_carry"]
    constants, states = operands[:first], operands[first : first + count]

    def step(carried: list[Any], elements: list[Any]) -> tuple[list[Any], list[Any]]:
        results = _body(params["jaxpr"], [*constants, *carried, *elements])
        return results[:count], results[count:]

    scanned, options = operands[first + count :], {k: params[k] for k in ("length", "reverse")}
    last, stacked = lax.scan(step, states, scanned, **options)
    return [*last, *stacked]


def _while(params: Any, operands: list[Any]) -> list[Any]:
    first, count = params["cond_nconsts"], params["body_nconsts"]
    tested, constants = operands[:first], operands[first : first + count]
    return lax.while_loop(
        lambda states: _body(params["cond_jaxpr"], [*tested, *states])[0],
        lambda states: _body(params["body_jaxpr"], [*constants, *states]),
        operands[first + count :],
    )


def _conditional(params: Any, operands: list[Any]) -> list[Any]:
    branches = [lambda *x, b=branch: _body(b, x) for branch in params["branches"]]
    return lax.switch(operands[0], branches, *operands[1:])


def _linear_solve(params: Any, operands: list[Any]) -> list[Any]:
    lengths = params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    constants = operands[first : first + lengths.solve]
    return _body(params["jaxprs"].solve, [*constants, *operands[sum(lengths) :]])


# primitive -> its results for parameters and operands
CONTROL: dict[str, Callable[[Any, list[Any]], list[Any]]] = {
    "scan": _scan,
    "while": _while,
    "cond": _conditional,
    "custom_linear_solve": _linear_solve,
}
