"""Functions with derivatives of their own: `custom_vjp` and `custom_jvp`."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from structir.analysis.derivative_rules import PULLBACK, TANGENT
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.node import replace
from structir.numpy.creation import zeros_like
from structir.system.locks import cached_property
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, cast, expression, joint_operands, operand
from structir.tracing.context import session
from structir.tracing.trees import TreeStructure, flatten
from structir.transforms.functions import TracedFunction, arrays_of, build, call
from structir.transforms.jit import transformed


class CustomDerivative(ABC):
    """A function whose derivative is given by other functions."""

    attribute: str

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        self.fun, self.nondiff_argnums = fun, tuple(nondiff_argnums)
        functools.update_wrapper(self, fun)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Applies the function."""
        bound = inspect.signature(self.fun).bind(*args, **keywords)
        bound.apply_defaults()
        return self._compiled(*bound.args)

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        return transformed(self.fun)(self._apply)

    def _apply(self, *args: Any) -> Any:
        """Calls a private function of the module that declares its derivative."""
        arguments = CustomArguments(args, self.nondiff_argnums)
        leaves = joint_operands(arguments.leaves)
        traced = self._traced(arguments, leaves)
        operands = [expression(leaf) for leaf in leaves]
        return traced.result.unflatten(arrays_of(call(traced.function, operands, traced.name)))

    def _traced(self, arguments: CustomArguments, leaves: list[TracedArray]) -> TracedFunction:
        """Returns the function of the module for arguments of these types.

        The rule, which is traced after the function, may call it.
        """
        infos = [leaf.aval for leaf in leaves]
        known = session().functions_by_type
        key = (self, tuple(infos), arguments.structure, tuple(map(_hashable, arguments.others)))
        if key not in known:
            given_name = getattr(self.fun, "__name__", "")
            name = given_name if given_name.isidentifier() else "function"  # of a lambda
            traced = build(lambda *values: self.fun(*arguments.filled(values)), infos, name)
            if traced.operands([]):
                raise _captured(name)
            known[key] = traced
            rule = self._rule(arguments, traced, leaves)
            functions = session().builder.functions
            own = traced.function
            attributes = {**own.attrs, self.attribute: rule.name}
            functions[traced.name] = replace(own, attrs=attributes)
        return known[key]

    @abstractmethod
    def _rule(
        self, arguments: CustomArguments, traced: TracedFunction, leaves: list[TracedArray]
    ) -> TracedFunction:
        """Traces the function that computes the derivative."""

    def _traced_rule(
        self, rule: Callable[..., Any], infos: Sequence[Any], name: str
    ) -> TracedFunction:
        traced = build(rule, infos, f"{name}_{self.attribute}")
        if traced.operands([]):
            raise _captured(f"the {self.attribute} of {name}")
        return traced


def _hashable(value: Any) -> Any:
    return value if isinstance(value, Hashable) else id(value)


class CustomArguments:
    """The arguments of a call: leaves of those that are differentiated, and the others."""

    def __init__(self, args: Sequence[Any], fixed: Sequence[int]) -> None:
        self.args, self.fixed = list(args), [k % len(args) for k in fixed]
        self.positions = [k for k in range(len(args)) if k not in self.fixed]
        self.leaves, self.structure = flatten([args[k] for k in self.positions])

    def filled(self, values: Sequence[Any]) -> list[Any]:
        """Returns all arguments with other leaves."""
        arguments = list(self.args)
        trees = self.structure.unflatten(values)
        for position, value in zip(self.positions, trees, strict=True):
            arguments[position] = value
        return arguments

    @property
    def others(self) -> list[Any]:
        """The arguments that are not differentiated."""
        return [self.args[k] for k in self.fixed]


def _captured(name: str) -> DiagnosticError:
    message = f"{name}: a function with its own derivative uses an array of an outer function"
    hint = "pass the array as an argument"
    return DiagnosticError(Diagnostic(message, hint=hint, code="E1113"))


def _is_float(array: TracedArray) -> bool:
    return dtypes.category(array.dtype_name) == dtypes.FLOAT


def _no_rule(name: str, call: str) -> DiagnosticError:
    message = f"the custom derivative of {name} is not defined"
    return DiagnosticError(Diagnostic(message, hint=f"`{name}.{call}`", code="E1109"))


def _pair(result: Any, name: str) -> tuple[Any, Any]:
    """Returns the two results of a rule; raises DiagnosticError for other results."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        kinds = {"forward": "`(result, residuals)`", "jvp": "`(result, tangent)`"}
        count = f"{len(result)} values" if isinstance(result, tuple | list) else "one value"
        message = f"{name}: expected the pair {kinds[name]}, found {count}"
        hint = "return a pair; residuals may be None"
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E1109"))
    return result[0], result[1]


class custom_vjp(CustomDerivative):  # the name of JAX
    """Makes a function one with a pullback: `f.defvjp(forward, backward)`.

    `forward(*args)` returns the result and residuals. `backward(*others, residuals, cotangent)`
    returns the cotangent of each argument, or None for zero; `others` are the arguments at
    `nondiff_argnums`. Source: `jax.custom_vjp`.
    """

    attribute = PULLBACK
    forward: Callable[..., Any] | None = None
    backward: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any], **hints: Any) -> None:
        """Sets the functions of the derivative; `hints` of JAX have no effect."""
        self.forward, self.backward = fwd, bwd

    def _rule(
        self, arguments: CustomArguments, traced: TracedFunction, leaves: list[TracedArray]
    ) -> TracedFunction:
        forward, backward = self.forward, self.backward
        if forward is None or backward is None:
            raise _no_rule(traced.name, "defvjp(forward, backward)")
        results = [TracedArray(p) for p in _results(traced)]
        floats = [result for result in results if _is_float(result)]

        def pullback(*values: TracedArray) -> Any:
            primals, cotangents = values[: len(leaves)], iter(values[len(leaves) :])
            value, residuals = _pair(forward(*arguments.filled(primals)), "forward")
            parts = [
                next(cotangents) if _is_float(operand(leaf)) else zeros_like(operand(leaf))
                for leaf in flatten(value)[0]
            ]
            cotangent = traced.result.unflatten(parts)
            of_args = backward(*arguments.others, residuals, cotangent)
            if len(of_args) != len(arguments.positions):
                raise _count("backward", len(arguments.positions), len(of_args))
            trees = [
                _leaves(structure, tree)
                for structure, tree in zip(arguments.structure.children, of_args, strict=True)
            ]
            return _cast_to(leaves, [leaf for tree in trees for leaf in tree])

        infos = [leaf.aval for leaf in [*leaves, *floats]]
        return self._traced_rule(pullback, infos, traced.name)


class custom_jvp(CustomDerivative):  # the name of JAX
    """Makes a function one with a tangent: `f.defjvp(jvp)`.

    `jvp(*others, primals, tangents)` returns the result and its tangent. `f.defjvps(jvp_0, ...)`
    sets a function for each argument instead: `jvp_k(tangent_k, result, *args)`, or None for zero.
    Source: `jax.custom_jvp`.
    """

    attribute = TANGENT
    jvp: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any], **hints: Any) -> Callable[..., Any]:
        """Sets the function of the derivative; `hints` of JAX have no effect."""
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets the function of the derivative by each argument."""

        def jvp(*parts: Any) -> Any:
            *others, primals, tangents = parts
            result = self(*primals)
            terms = [
                f(t, result, *others, *primals)
                for f, t in zip(jvps, tangents, strict=True)
                if f is not None
            ]
            total = terms[0] if terms else zeros_like(operand(result))
            for term in terms[1:]:
                total = total + term
            return result, total

        self.jvp = jvp

    def _rule(
        self, arguments: CustomArguments, traced: TracedFunction, leaves: list[TracedArray]
    ) -> TracedFunction:
        jvp = self.jvp
        if jvp is None:
            raise _no_rule(traced.name, "defjvp(jvp)")
        floats = [leaf for leaf in leaves if _is_float(leaf)]

        def tangent(*values: TracedArray) -> Any:
            primals, directions = values[: len(leaves)], iter(values[len(leaves) :])
            moved = [next(directions) if _is_float(x) else zeros_like(x) for x in primals]
            trees = [arguments.structure.unflatten(part) for part in (primals, moved)]
            value, derivative = _pair(jvp(*arguments.others, *map(tuple, trees)), "jvp")
            results = flatten(value)[0]
            parts = _leaves(flatten(value)[1], derivative)
            pairs = zip(results, parts, strict=True)
            kept = [(operand(r), p) for r, p in pairs if _is_float(operand(r))]
            return [*results, *_cast_to([r for r, _ in kept], [p for _, p in kept])]

        infos = [leaf.aval for leaf in [*leaves, *floats]]
        return self._traced_rule(tangent, infos, traced.name)


def _results(traced: TracedFunction) -> Sequence[Any]:
    return traced.function.body.body.fields  # type: ignore[attr-defined]


def _leaves(structure: TreeStructure, tree: Any) -> list[Any]:
    """Returns the leaves of a tree like a structure; None stands for a tree of zeros."""
    if tree is None:
        return [None] * structure.leaves
    return list(structure.flatten_up_to(tree))


def _cast_to(likes: Sequence[TracedArray], values: Sequence[Any]) -> list[TracedArray]:
    """Returns the derivatives of floating-point arrays in their dtypes; zeros for None."""
    return [
        zeros_like(like) if value is None else cast(operand(value), like.dtype_name)
        for like, value in zip(likes, values, strict=True)
        if _is_float(like)
    ]


def _count(name: str, expected: int, found: int) -> DiagnosticError:
    message = f"{name}: expected {expected} cotangents, one for each argument, found {found}"
    hint = "return None for an argument without a derivative"
    return DiagnosticError(Diagnostic(message, hint=hint, code="E1113"))
