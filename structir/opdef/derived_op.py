"""The base of ops whose calls are derived from a forward call of another op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError, Span, StructInfoError
from structir.ir.expr import Call, Expr, Tuple
from structir.ir.op import Op, find_op, register_op
from structir.ir.struct_info import StructInfo
from structir.lazy import lazy_module
from structir.opdef.memo import memoize
from structir.opdef.parameters import OMITTED
from structir.projections.operand_renaming import rename_reads
from structir.projections.spec import IndexSpec

gradient = lazy_module("structir.opdef.gradient")
reference = lazy_module("structir.opdef.reference")
MAX_ARGUMENTS = 64


@attrs.define(eq=False)
class DerivedDefinition:
    """The definition of an op that delegates to the definition of the forward op `of`.

    The attributes of a call are its own and those of the forward call; if the forward op is derived
    too, the latter are the pairs in `inner`.
    """

    name: str
    own_attributes: tuple[str, ...] = ()
    pure: bool = True
    operator: str | None = None
    hooks: dict[str, Any] = attrs.Factory(dict)
    op: Op = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.op = register_op(self)

    argument_names = tuple([f"argument_{k}" for k in range(MAX_ARGUMENTS)])
    leading = MAX_ARGUMENTS
    of_sizes = (False,) * MAX_ARGUMENTS

    def bind(self, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None) -> Call:
        """Builds a call; `keywords` include the attributes of the forward call."""
        attributes = dict(keywords)
        index = {name: k for k, name in enumerate(self.argument_names)}
        named = {index[n]: attributes.pop(n) for n in {*attributes} & {*index}}
        operands = {**dict(enumerate(args)), **named}
        last = max(operands, default=-1)
        arguments = tuple([self._argument(operands.get(k, ()), span) for k in range(last + 1)])
        frozen: dict[int, Any] = {}
        static = {n: _freeze(v, frozen) for n, v in attributes.items()}
        call = Call(self.op, arguments, static, span=span)
        return Call(self.op, arguments, static, (), memoize(self.deduce, call), span)

    def _argument(self, value: Any, span: Span | None) -> Expr:
        if isinstance(value, Expr):
            return value
        if isinstance(value, tuple | list):
            return OMITTED if not value else Tuple(tuple([self._argument(v, span) for v in value]))
        message = f"expected an expression as argument, found {value!r}"
        raise StructInfoError(Diagnostic(message, span, self.name))

    def deduce(self, call: Call) -> StructInfo:
        """Returns the StructInfo of the result."""
        raise NotImplementedError

    def index_spec(self, call: Call) -> IndexSpec | None:
        """Returns the index spec of a call, or None."""
        raise NotImplementedError

    def error(self, call: Call, message: str) -> StructInfoError:
        """Returns an error at a call."""
        return StructInfoError(Diagnostic(message, call.span, self.name))

    def forward_op(self, call: Call) -> Op:
        """Returns the op of the forward call."""
        name = call.attrs.get("of")
        op = find_op(name) if isinstance(name, str) else None
        if op is None or not hasattr(op.definition, "index_spec"):
            raise self.error(call, f"of: expected the name of an op, found {name!r}")
        return op

    def forward_call(self, call: Call, args: tuple[Expr, ...]) -> Call:
        """Returns the forward call with these arguments."""
        op = self.forward_op(call)
        static = {n: v for n, v in call.attrs.items() if n not in self.own_attributes}
        if is_derived(op):
            static = self._inner(call)
        pairs = zip(op.definition.argument_names, args, strict=False)
        named = {n: a for n, a in pairs if not (isinstance(a, Tuple) and not a.fields)}
        try:
            forward = op.definition.bind((), {**named, **static}, call.span)
        except DiagnosticError as error:
            raise self.error(call, f"invalid forward call of {op.name}: {error}") from None
        return Call(op, args, forward.attrs, (), forward.struct_info, call.span)

    def attributes_for(self, call: Call) -> dict[str, Any]:
        """Returns the attributes that encode a forward call."""
        op: Any = call.op
        encoded = {"inner": tuple(call.attrs.items())} if is_derived(op) else call.attrs
        return {**encoded, "of": op.name}

    def _inner(self, call: Call) -> dict[str, Any]:
        inner = call.attrs.get("inner")
        pairs = inner if isinstance(inner, tuple) else ((),)
        if not all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
            raise self.error(call, f"inner: expected pairs of name and value, found {inner!r}")
        return dict(pairs)

    def decompose(self, call: Call) -> None:
        """Returns None: the op has no decomposition."""

    def adjoint(self, call: Call, result: Expr, cotangent: Any, emit: Any) -> list[Any]:
        """Returns the cotangents of the arguments, derived from the call's own index spec."""
        cotangents: list[Any] = gradient.adjoints(self, call, result, cotangent, emit)
        return cotangents

    def assumptions(self, call: Call) -> tuple[Any, ...]:
        """Returns nothing: the forward call has the same assumptions."""
        return ()

    def reference(self, call: Call, values: tuple[Any, ...]) -> Any:
        """Computes the result with NumPy."""
        return reference.evaluate(self, call, values)


def is_derived(op: Any) -> bool:
    """Whether the calls of an op are derived from those of another op."""
    return isinstance(op.definition, DerivedDefinition)


def differentiable_spec(call: Call) -> IndexSpec | None:
    """Returns the index spec of a call, for differentiation.

    Operands of the call of a derived op are renamed, so that they differ from those of its adjoint.
    """
    op: Any = call.op
    spec: IndexSpec | None = op.definition.index_spec(call)
    if spec is None or not is_derived(op):
        return spec
    return rename_reads(spec, {info.name: f"given {info.name}" for info in spec.operands})


def _freeze(value: Any, frozen: dict[int, Any]) -> Any:
    """Returns a value with tuples in place of lists. Parts that are shared, of calls in attributes
    of calls, are walked once and stay shared; `frozen` holds them by id."""
    if not isinstance(value, list | tuple):
        return value
    result = frozen.get(id(value))
    if result is None:
        parts = [_freeze(part, frozen) for part in value]
        is_frozen = type(value) is tuple and all(a is b for a, b in zip(parts, value, strict=True))
        result = frozen[id(value)] = value if is_frozen else tuple(parts)
    return result
