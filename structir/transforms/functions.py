"""Builds functions of a module from Python functions, and calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from structir.analysis.calls import Binder
from structir.analysis.derivative_rules import rule_names, without_rules
from structir.analysis.substitution import Substitution
from structir.analysis.variables import walk_values
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Constant, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from structir.ir.node import replace
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.tracing.array import TracedArray, expression, operand
from structir.tracing.context import FunctionFrame, Session, fields, session
from structir.tracing.size import size
from structir.tracing.trees import TreeStructure, flatten


@attrs.frozen
class TracedFunction:
    """A function of the module: one parameter for each leaf, then the captured values.

    Its result is a tuple with one field for each leaf of the Python result.
    """

    name: str
    frame: FunctionFrame
    result: TreeStructure

    @property
    def function(self) -> Function:
        """The function of the module."""
        return session().builder.finished(self.name)

    def operands(self, leaves: Sequence[Expr]) -> list[Expr]:
        """Returns the arguments of a call: the leaves, then the captured values."""
        return [*leaves, *session().captured_operands(self.frame)]


def build(
    function: Callable[..., Any], infos: Sequence[StructInfo], stem: str, names: Sequence[str] = ()
) -> TracedFunction:
    """Traces `function(*leaves)` into a private function of the module."""
    current = session()
    name = current.fresh_name(stem)
    current.builder.functions[name] = None  # type: ignore[assignment]  # reserves the name
    stems = [*names, *[f"x{k}" for k in range(len(names), len(infos))]]
    params = [Var(n, info) for n, info in zip(stems, infos, strict=True)]
    with current.function(name, params, private=True) as frame:
        result = function(*[TracedArray(param) for param in params])
        leaves, structure = flatten(result)
        current.close(frame, tuple([bound(expression(operand(leaf))) for leaf in leaves]))
    return TracedFunction(name, frame, structure)


def bound(value: Expr) -> Expr:
    """Returns a variable; a constant is bound to one."""
    return session().builder.emit(value) if isinstance(value, Constant) else value


def call(function: Function, operands: Sequence[Expr], name: str) -> list[Expr]:
    """Calls a function of the module; returns the fields of its result."""
    var = GlobalVar(name, function.struct_info)
    return fields(session().builder.emit(var(*operands)))


def inline(function: Function, operands: Sequence[Expr]) -> Expr:
    """Copies the body of a function of the module; returns its result."""
    binder = Binder(function.struct_info)
    for param, argument in zip(function.params, operands, strict=True):
        if isinstance(argument.struct_info, StructInfo):
            binder.bind(param.struct_info, argument.struct_info)
    copier = Substitution(dims=binder.bindings, fresh=True)
    copier.variables.update(zip(function.params, operands, strict=True))
    session().has_derived = True
    builder = session().builder
    for binding in function.bindings():
        builder.take(copier.binding(binding))
    return copier.part(function.body.body)


def arrays_of(values: Sequence[Expr]) -> list[TracedArray]:
    """Returns expressions as arrays; constants are unchanged."""
    return [TracedArray(value) for value in values]


def nested_fields(value: Expr, structure: StructInfo) -> Iterator[Expr]:
    """Yields the leaves of a nested tuple."""
    if not isinstance(structure, TupleStructInfo):
        yield value
        return
    for field, info in zip(fields(value), structure.fields, strict=True):
        yield from nested_fields(field, info)


# ---- functions with parameters like those of the Python function


def argument(value: Expr) -> Any:
    """Returns the Python value of a parameter: arrays, sizes, tuples and dicts of these."""
    info = value.struct_info
    if isinstance(info, TupleStructInfo):
        builder = session().builder
        items = [
            argument(builder.emit(TupleGetItem(value, k, field)))
            for k, field in enumerate(info.fields)
        ]
        return dict(zip(info.names, items, strict=True)) if info.names else tuple(items)
    if isinstance(info, ShapeStructInfo) and info.dims is not None:
        return tuple([size(dim) for dim in info.dims])
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return size(info.value)
    if isinstance(info, TensorStructInfo) and info.dtype:
        return TracedArray(value)
    message = f"parameter: expected a tensor with a dtype, found {info}"
    hint = 'declare the parameter: `R.Tensor(("n", 4), "float32")`'
    raise DiagnosticError(Diagnostic(message, hint=hint, code="E1109"))


def output(value: Any) -> Expr:
    """Returns the result of a function as an expression, in nested tuples."""
    leaves, structure = flatten(value)
    expressions = iter([bound(expression(operand(leaf))) for leaf in leaves])
    return nested_tuple(structure, expressions)


def nested_tuple(structure: TreeStructure, leaves: Iterator[Expr]) -> Expr:
    """Returns leaves as nested tuples, with the names of dicts and named tuples."""
    if structure.kind is None:
        return next(leaves)
    parts = tuple([nested_tuple(child, leaves) for child in structure.children])
    return Tuple(parts, structure.names)


def nested_info(structure: TreeStructure, leaves: Iterator[StructInfo]) -> StructInfo:
    """Returns the StructInfo of a tree."""
    if structure.kind is None:
        return next(leaves)
    parts = tuple([nested_info(child, leaves) for child in structure.children])
    return TupleStructInfo(parts, structure.names)


def parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """Returns names for the positional parameters of a Python function."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = ()  # type: ignore[assignment]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[k] if k < len(names) else f"x{k}" for k in range(count)]


def reachable(current: Session, roots: Sequence[str]) -> dict[str, Any]:
    """Returns the functions that the named ones refer to, with these."""
    if len(current.builder.functions) == len(roots):
        return dict(current.builder.functions)
    kept: dict[str, Any] = {}
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in kept:
            kept[name] = current.builder.functions[name]
            pending += [var.name for var in global_vars(kept[name])]
            pending += rule_names(kept[name])
    return {name: kept[name] for name in current.builder.functions if name in kept}


def drop_rules(current: Session) -> None:
    """Removes the derivatives that functions declare."""
    traced = current.builder.functions
    for name, function in traced.items():
        if isinstance(function, Function) and rule_names(function):
            traced[name] = replace(function, attrs=without_rules(function.attrs))


def global_vars(function: Any) -> list[GlobalVar]:
    """Returns the references to functions of the module in a function."""
    return [value for value in walk_values(function) if isinstance(value, GlobalVar)]


def signature_of(names: Sequence[str]) -> inspect.Signature:
    """Returns a signature with positional parameters."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind) for name in names])
