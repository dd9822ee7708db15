"""Opaque ops: NumPy functions with a StructInfo rule and no index signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError, Span, StructInfoError
from structir.ir.expr import NO_ATTRS, Call, Expr, Tuple
from structir.ir.node import replace
from structir.ir.op import Op, register_op
from structir.ir.plain_arrays import plain_values
from structir.ir.struct_info import INFO, OBJECT, StructInfo
from structir.ir.user_rules import checked_rule
from structir.lazy import lazy_module
from structir.opdef.declaration import is_built_in

declaration_checks = lazy_module("structir.opdef.declaration_checks")
Rule = Callable[..., StructInfo]


@attrs.define(eq=False)
class OpaqueDefinition:
    """The definition of an opaque op; keyword-only parameters are static attributes."""

    name: str
    function: Callable[..., Any]
    rule: Rule
    pure: bool = True
    operator: str | None = None
    hooks: dict[str, Any] = attrs.Factory(dict)
    op: Op = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.rule = checked_rule(self.rule, "StructInfo rule", self.name, *INFO)
        self.hooks["reference"] = self.function
        self.op = register_op(self)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Returns the names of the operands, in order."""
        parameters = inspect.signature(self.function).parameters.values()
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return tuple([p.name for p in parameters if p.kind in kinds])

    @property
    def leading(self) -> int:
        """Returns the number of positional operands: all."""
        return len(self.argument_names)

    @property
    def of_sizes(self) -> tuple[bool, ...]:
        """Returns False for each operand: none is a size."""
        return (False,) * len(self.argument_names)

    @property
    def body(self) -> Callable[..., Any]:
        """Returns the function, which determines the package that declares the op."""
        return self.function

    def bind(self, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None) -> Call:
        """Builds a call from positional and keyword arguments."""
        try:
            bound = inspect.signature(self.function).bind(*args, **keywords)
        except TypeError as error:
            signature = inspect.signature(self.function)
            plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
            hint = f"call it as `R.{self.name}{inspect.Signature(plain)}`"
            raise StructInfoError(Diagnostic(str(error), span, self.name, hint=hint)) from None
        values = bound.arguments
        arguments = [values.pop(name) for name in self.argument_names if name in values]
        operands = tuple([as_operand(value) for value in arguments])
        for operand in operands:
            if not isinstance(operand, Expr):
                message = f"expected an expression of the program as operand, found {operand!r}"
                raise StructInfoError(Diagnostic(message, span, self.name))
        call = Call(self.op, operands, values or NO_ATTRS, span=span)
        return replace(call, struct_info=self.deduce(call))

    def deduce(self, call: Call) -> StructInfo:
        """Applies the rule to the StructInfo of the operands and the attributes."""
        infos = [arg.struct_info or OBJECT for arg in call.args]
        try:
            return self.rule(*infos, **call.attrs)
        except DiagnosticError as error:
            diagnostic = attrs.evolve(error.diagnostics[0].at(call.span), op=self.name)
            for name, arg in zip(self.argument_names, call.args, strict=False):
                diagnostic = diagnostic.note(f"{name}: {arg.struct_info}", arg.span)
            raise StructInfoError(diagnostic) from None

    def reference(self, call: Call, values: tuple[Any, ...]) -> Any:
        """Computes the result from the values of the operands."""
        return plain_values(self.function(*values, **call.attrs))

    def assumptions(self, call: Call) -> tuple[Any, ...]:
        """Returns no assumptions."""
        return ()

    def index_spec(self, call: Call) -> None:
        """Returns None: the op has no loops."""

    def decompose(self, call: Call) -> None:
        """Returns None: the op has no decomposition."""


def as_operand(value: Any) -> Any:
    """Returns a list of expressions, also nested, as a `Tuple`, and other values unchanged."""
    if not isinstance(value, tuple | list):
        return value
    fields = tuple(map(as_operand, value))
    return Tuple(fields) if all(isinstance(field, Expr) for field in fields) else value


def opaque_op(rule: Rule, name: str | None = None, *, pure: bool = True) -> Callable[..., Op]:
    """Declares an op by a function of run-time values; `rule` infers the StructInfo of its result.

        @opaque_op(lambda x: x)
        def shuffled(x): ...

    The arguments of `rule` are the operand StructInfos and the attributes. For an invalid call it
    raises StructInfoError, to which the location of the call is added.
    """

    def declare(function: Callable[..., Any]) -> Op:
        op_name = name or function.__name__
        if not is_built_in(function):
            declaration_checks.check_name(op_name)
            declaration_checks.check_opaque(op_name, function, rule)
        return OpaqueDefinition(op_name, function, rule, pure).op

    return declare
