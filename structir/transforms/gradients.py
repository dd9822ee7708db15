"""Gradients of functions: `grad`, `value_and_grad`, `vjp`, `jvp`, `checkpoint` and Jacobians."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from structir.adjoints.functions import Adjoints
from structir.adjoints.tangents import Tangents
from structir.batching.combinators import expanded
from structir.errors import Diagnostic, DiagnosticError, caller_span
from structir.ir.expr import Expr
from structir.ir.module import IRModule
from structir.numpy.creation import eye, zeros_like
from structir.numpy.shaping import reshape
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, as_array, cast, expression, joint_operands, operand
from structir.tracing.context import fields, is_tracing, session
from structir.tracing.trees import TreeStructure, flatten
from structir.transforms.functions import arrays_of, build, call, inline
from structir.transforms.jit import jit, transformed
from structir.transforms.mapping import vmap

Argnums = int | Sequence[int]


def grad(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns the gradient of a function that returns a floating-point scalar.

    The gradient has the structure of argument `argnums`, or is a tuple for several. With `has_aux`
    the function returns `(value, aux)` and the result is `(gradient, aux)`.
    """
    with_value = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def gradient(*args: Any, **keywords: Any) -> Any:
        value, gradients = with_value(*args, **keywords)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def _checked_number(number: Any, args: Sequence[Any]) -> int:
    """Returns the number of an argument; raises DiagnosticError if the call has no such one."""
    if isinstance(number, int) and -len(args) <= number < len(args):
        return number % len(args)
    count = "1 positional argument" if len(args) == 1 else f"{len(args)} positional arguments"
    message = f"argnums: expected a number of one of the {count}, found {number!r}"
    hint = "pass the argument by position, and number it from 0: `argnums=0`"
    raise DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1109"))


def value_and_grad(
    function: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Returns a function that returns the value and the gradient; see `grad`."""

    @transformed(function)
    def both(*args: Any, **keywords: Any) -> Any:
        listed = [argnums] if isinstance(argnums, int) else argnums
        numbers = [_checked_number(k, args) for k in listed]
        chosen = [args[k] for k in numbers]
        leaves, structure = _differentiable(chosen)

        def of_leaves(*values: TracedArray) -> Any:
            arguments = list(args)
            for k, value in zip(numbers, structure.unflatten(values), strict=True):
                arguments[k] = value
            result = function(*arguments, **keywords)
            value, aux = result if has_aux else (result, None)
            return _scalar(value), aux

        traced = build(of_leaves, [leaf.aval for leaf in leaves], "loss")
        operands = traced.operands([expression(leaf) for leaf in leaves])
        adjoints = Adjoints(_module())
        name = session().fresh_name(f"{traced.name}_gradient")
        params = [param.name for param in traced.function.params[: len(leaves)]]
        adjoints.add(name, traced.name, params, 0, with_value=True)
        result, cotangents = fields(_inlined(adjoints.generated, name, operands))
        value, aux = traced.result.unflatten(arrays_of(fields(result)))
        gradients = structure.unflatten(arrays_of(fields(cotangents)))
        gradients = gradients[0] if isinstance(argnums, int) else tuple(gradients)
        return ((value, aux) if has_aux else value), gradients

    return both


def _scalar(value: Any) -> TracedArray:
    array = operand(value)
    if array.ndim or dtypes.category(array.dtype_name) != dtypes.FLOAT:
        message = f"grad: expected a floating-point scalar as result, found {array.aval}"
        hint = "reduce the result: `.sum()` or `.mean()`; for other results, `structir.vjp`"
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E0652"))
    return array


def _differentiable(tree: Any) -> tuple[list[TracedArray], TreeStructure]:
    """Returns the leaves of arguments. Raises DiagnosticError if one is not floating point."""
    leaves, structure = flatten(tree)
    arrays = joint_operands(leaves)
    for array in arrays:
        if dtypes.category(array.dtype_name) != dtypes.FLOAT:
            message = f"cannot differentiate with respect to {array.aval}"
            hint = "choose floating-point arguments by `argnums`, or convert: `x.astype(float)`"
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E0651"))
    return arrays, structure


def _module() -> IRModule:
    functions = session().builder.functions
    module = IRModule({name: value for name, value in functions.items() if value is not None})
    module = expanded(module)
    for name, function in module.functions.items():
        functions.setdefault(name, function)
    return module


def _inlined(generated: dict[str, Any], name: str, operands: list[Expr]) -> Expr:
    """Adds generated functions to the module and copies the body of one."""
    session().builder.functions.update(generated)
    return inline(generated[name], operands)


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Returns the value of a function, and the function from cotangents to those of arguments.

    With `has_aux` the function returns `(value, aux)` and the result is `(value, vjp, aux)`.
    """
    if not is_tracing():
        return _vjp_of_arrays(function, primals, has_aux)
    leaves, structure = _differentiable(list(primals))

    def of_leaves(*values: TracedArray) -> Any:
        result = function(*structure.unflatten(values))
        return result if has_aux else (result, None)

    traced = build(of_leaves, [leaf.aval for leaf in leaves], "primal")
    operands = traced.operands([expression(leaf) for leaf in leaves])
    results = arrays_of(fields(inline(traced.function, operands)))
    value, aux = traced.result.unflatten(results)

    def pullback(cotangent: Any) -> Any:
        """Returns the cotangents of the arguments."""
        value_leaves, value_structure = flatten(value)
        parts = value_structure.flatten_up_to(cotangent)
        paths = [
            (k,)
            for k, leaf in enumerate(value_leaves)
            if dtypes.category(leaf.dtype_name) == dtypes.FLOAT
        ]
        seeds = [expression(cast(as_array(parts[k]), value_leaves[k].dtype_name)) for (k,) in paths]
        adjoints = Adjoints(_module())
        adjoints.used_names |= {*session().builder.functions}
        plan = adjoints.pullback(traced.name, range(len(leaves)), paths)
        assert plan is not None
        adjoints.generate_pending()
        current = [*[expression(leaf) for leaf in leaves]]
        arguments = [*traced.operands(current), *seeds]
        gradients = fields(_inlined(adjoints.generated, plan[0].name, arguments))
        by_leaf = {k: TracedArray(g) for (k, _), g in zip(plan[1], gradients, strict=True)}
        filled = [by_leaf[k] if k in by_leaf else zeros_like(x) for k, x in enumerate(leaves)]
        return tuple(structure.unflatten(filled))

    return (value, pullback, aux) if has_aux else (value, pullback)


def _vjp_of_arrays(function: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    """Returns the results of `vjp` outside of a trace: both are compiled functions."""
    result = jit(function)(*primals)
    value, aux = result if has_aux else (result, None)

    def cotangents(primals: tuple[Any, ...], cotangent: Any) -> Any:
        return vjp(function, *primals, has_aux=has_aux)[1](cotangent)

    pullback = functools.partial(jit(cotangents), primals)
    return (value, pullback, aux) if has_aux else (value, pullback)


def jvp(
    function: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """Returns the value of a function, and its derivative in the direction of tangents."""

    @transformed(function)
    def both(primal_values: Any, tangent_values: Any) -> Any:
        leaves, structure = _differentiable(list(primal_values))
        directions = structure.flatten_up_to(list(tangent_values))

        def of_leaves(*values: TracedArray) -> Any:
            result = function(*structure.unflatten(values))
            return result if has_aux else (result, None)

        traced = build(of_leaves, [leaf.aval for leaf in leaves], "primal")
        operands = traced.operands([expression(leaf) for leaf in leaves])
        forward = Tangents(_module())
        name = session().fresh_name(f"{traced.name}_tangent")
        forward.add(name, traced.name, list(range(len(leaves))))
        pairs = zip(leaves, directions, strict=True)
        operands += [expression(cast(as_array(d), x.dtype_name)) for x, d in pairs]
        results, derivatives = fields(_inlined(forward.generated, name, operands))
        value, aux = traced.result.unflatten(arrays_of(fields(results)))
        tangent, _ = traced.result.unflatten(arrays_of(fields(derivatives)))
        return (value, tangent, aux) if has_aux else (value, tangent)

    return both(tuple(primals), tuple(tangents))


def linearize(function: Callable[..., Any], *primals: Any) -> Any:
    """Returns the value of a function, and the function from tangents to its derivative."""
    value = function(*primals)

    def derivative(*tangents: Any) -> Any:
        """Returns the derivative along tangents."""
        return jvp(function, primals, tangents)[1]

    return value, derivative


def checkpoint(
    function: Callable[..., Any], policy: Any = None, prevent_cse: bool = True
) -> Callable[..., Any]:
    """Returns a function whose intermediate values are recomputed for the gradient.

    `policy` and `prevent_cse` are hints of JAX, which have no effect.
    """

    @transformed(function)
    def recomputed(*args: Any, **keywords: Any) -> Any:
        leaves, structure = flatten(args)
        arrays = [k for k, leaf in enumerate(leaves) if isinstance(leaf, TracedArray)]

        def of_arrays(*values: TracedArray) -> Any:
            filled = list(leaves)
            for k, value in zip(arrays, values, strict=True):
                filled[k] = value
            return function(*structure.unflatten(filled), **keywords)

        traced = build(of_arrays, [leaves[k].aval for k in arrays], "checkpoint")
        operands = traced.operands([expression(leaves[k]) for k in arrays])
        return traced.result.unflatten(arrays_of(call(traced.function, operands, traced.name)))

    return recomputed


remat = checkpoint


# ---- Jacobians


def jacrev(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """Returns the Jacobian, computed by rows with reverse mode."""

    @transformed(function)
    def jacobian(*args: Any) -> Any:
        number = _checked_number(argnums, args)
        x = operand(args[number])

        def of_argument(value: Any) -> Any:
            return function(*args[:number], value, *args[number + 1 :])

        value, pullback = vjp(of_argument, x)
        result = operand(value)
        basis = _basis(result)
        rows = vmap(lambda row: pullback(reshape(row, result.shape))[0])(basis)
        return reshape(rows, (*result.shape, *x.shape))

    return jacobian


def jacfwd(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """Returns the Jacobian, computed by columns with forward mode."""

    @transformed(function)
    def jacobian(*args: Any) -> Any:
        number = _checked_number(argnums, args)
        x = operand(args[number])

        def of_direction(row: Any) -> Any:
            direction = reshape(row, x.shape)
            return jvp(
                lambda value: function(*args[:number], value, *args[number + 1 :]),
                (x,),
                (direction,),
            )[1]

        columns = operand(vmap(of_direction, out_axes=-1)(_basis(x)))
        return reshape(columns, (*columns.shape[:-1], *x.shape))

    return jacobian


jacobian = jacrev


def hessian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """Returns the matrix of second derivatives."""
    return jacfwd(jacrev(function, argnums), argnums)


def _basis(x: TracedArray) -> TracedArray:
    """Returns the unit vectors of the elements of an array, as rows."""
    count = x.size
    return eye(count, dtype=x.dtype_name)
