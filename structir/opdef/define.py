"""`@op`: what an op declares of itself, and what is derived from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import attrs

from structir.errors import Diagnostic, Span
from structir.ir.expr import NO_ATTRS, Call, Expr
from structir.ir.op import register_op
from structir.ir.struct_info import StructInfo
from structir.lazy import lazy_module
from structir.opdef import deduction
from structir.opdef.declaration import DeclaredOp, LineFunction, is_built_in
from structir.opdef.notation import IndexSignature, NotationError
from structir.opdef.parameters import (
    bound_values,
    call_parts,
)
from structir.opdef.shape_eval import Assumption, ResolvedShapes
from structir.rewriting.pattern_vars import RECORDER

clauses = lazy_module("structir.opdef.index_specs")
declaration = lazy_module("structir.opdef.declaration_checks")
gradient = lazy_module("structir.opdef.gradient")
reference = lazy_module("structir.opdef.reference")

Hook = TypeVar("Hook", bound=Callable[..., Any])


@attrs.define(eq=False, slots=False)
class SignatureOpDefinition(DeclaredOp):
    """What is derived of an op from its line, its body and its hooks."""

    def __attrs_post_init__(self) -> None:
        self.op = register_op(self)

    def __call__(self, *args: Any, **keywords: Any) -> Call:
        """A call of the op."""
        return self.bind(args, keywords, None)

    def bind(self, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None) -> Call:
        """A call from arguments written in the order and under the names of the signature."""
        if RECORDER.open:  # a pattern is being learned, and this call is part of it
            return RECORDER.note(self, args, keywords)  # type: ignore[no-any-return]
        if not keywords and self.takes_as_it_is(args):
            info = deduction.struct_info(self, args, NO_ATTRS, span)
            return Call(self.op, args, NO_ATTRS, (), info, span)
        values = bound_values(self.signature, args, keywords, span)
        parts, attributes = call_parts(self.signature, values, span)
        info = deduction.struct_info(self, parts, attributes, span)
        return Call(self.op, parts, attributes or NO_ATTRS, (), info, span)

    def deduce(self, call: Call) -> StructInfo:
        """The StructInfo of a call's result; raises StructInfoError where the call is wrong."""
        return deduction.struct_info(self, call.args, call.attrs, call.span)

    def resolve(self, call: Call) -> ResolvedShapes:
        """The line at a call: entries without rows, extents, assumptions."""
        return deduction.resolved_call(self, call.args, call.attrs, call.span)

    def assumptions(self, call: Call) -> tuple[Assumption, ...]:
        """The pairs of sizes that must turn out equal when the call runs."""
        if "struct_info" in self.hooks:
            return ()
        return self.resolve(call).assumptions

    def index_spec(self, call: Call) -> Any:
        """The call as loops; None where the op has none."""
        return clauses.index_spec(self, call)

    def decompose(self, call: Call) -> Expr | None:
        """The call as a tree of calls of simpler ops; None for an op that is no composite."""
        own = self.hooks.get("decompose")
        body = own if own is not None else self.body if self.parts else None
        return None if body is None else deduction.decompose(self, body, call)

    def reference(self, call: Call, values: tuple[Any, ...]) -> Any:
        """The result in NumPy, from the values of the arguments."""
        return reference.evaluate(self, call, values)

    def adjoint(
        self, call: Call, result: Expr, cotangent: Any, emit: Callable[[Expr], Expr]
    ) -> list[Any]:
        """For each argument of a call, an expression of what comes back to it where `back` comes
        back to its `result`; None where nothing does. A tuple has a tuple of these. `emit` binds an
        expression and gives its variable, as `BlockBuilder.emit` does; sizes may be symbolic."""
        cotangents: list[Any] = gradient.adjoints(self, call, result, cotangent, emit)
        return cotangents

    def line_of(self, call: Call) -> IndexSignature:
        """The op line at a call, list operands written out."""
        return self.resolve(call).line


@attrs.frozen(eq=False)
class Declaration:
    """An op as its author sees it: called to make calls, and the place to hang hooks."""

    definition: SignatureOpDefinition

    def __call__(self, *args: Any, **keywords: Any) -> Call:
        return self.definition.bind(args, keywords, None)

    def _hook(self, what: str, hook: Hook) -> Hook:
        self.definition.hooks[what] = hook
        return hook

    def reference(self, hook: Hook) -> Hook:
        """The result in NumPy: a function of the operands' arrays and the attributes."""
        return self._hook("reference", hook)

    def as_written(self, hook: Hook) -> Hook:
        """What stands for the values of the arguments, where that depends on how a size is written
        or on what was known of it: a function of the call and the values."""
        return self._hook("as_written", hook)

    def gradient(self, hook: Hook) -> Hook:
        """What comes back to the operands: a function of the call, its result, what comes back to
        that, and `emit`; it gives expressions, in the order of the arguments."""
        return self._hook("gradient", hook)

    def no_gradient(self, why: str) -> None:
        """Say that nothing comes back, as the result does not follow its operands smoothly."""
        self.definition.hooks["no_gradient"] = why

    def checkpoint(self, side: Literal["start", "end"]) -> None:
        """Say that what is computed from a start to an end is computed again on the way back."""
        self.definition.hooks["checkpoint"] = side

    def non_differentiable(self, why: str) -> None:
        """Say that what comes back cannot be told, so that a program that needs it is refused."""
        self.definition.hooks["non_differentiable"] = why

    def struct_info(self, hook: Hook) -> Hook:
        """The StructInfo of a call, in place of what the line says: a function of `Given`."""
        return self._hook("struct_info", hook)

    def region(self, hook: Hook) -> Hook:
        """Which part of each operand a part of the result needs."""
        return self._hook("region", hook)

    def decompose(self, hook: Hook) -> Hook:
        """The tree of calls, in place of the body."""
        return self._hook("decompose", hook)

    def counted(self, hook: Hook) -> Hook:
        """How ops with kernels make its result, `hook(*operands, emit, count, **attributes)`, where
        `count` gives a vector of one number, made before the rest, as a size; None where not."""
        return self._hook("counted", hook)

    def kernel(self, target: str) -> Callable[[Hook], Hook]:
        """A routine of a backend for the whole op."""
        return lambda hook: self._hook(f"kernel.{target}", hook)

    def example(self, *args: Any, **keywords: Any) -> None:
        """Arguments that the op runs with, for tests and documentation."""
        self.definition.samples.append((args, keywords))


def op(
    line: str | LineFunction, *, name: str | None = None, **stated: Any
) -> Callable[[Callable[..., Any]], Declaration]:
    """Declare an op by its line; the function below it is its body and its signature.

        @op("x[*p, [i], *t] @ F -> y[*p, i, *t] @ F", at={"i": "axis"}, parts=True)
        def softmax(x: Expr, axis: Axis = -1) -> Expr: ...

    A name is the body's own unless it is given; see `OpDefinition` for what else may be stated.
    """

    def declare(body: Callable[..., Any]) -> Declaration:
        own = name or body.__name__.rstrip("_")
        if "return" not in body.__annotations__:
            hint = "write `-> Point` for a scalar expression, `-> Expr` for a tree of calls"
            message = "missing return annotation: expected Point, Expr or Array, found none"
            raise NotationError(Diagnostic(message, op=own, hint=f"{hint}, or `-> Array`"))
        if is_built_in(body):  # tests check these: an import has no time for it
            return Declaration(SignatureOpDefinition(own, line, body, **stated))
        declaration.check_name(own)
        made = DeclaredOp(own, line, body, **stated)
        declaration.check_declaration(made)
        return Declaration(SignatureOpDefinition(own, line, body, **stated))

    return declare
