"""The signature of an op: its parameters, read from its body, and the calls that are made through
it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic, Span, StructInfoError
from structir.ir.dtype import is_float, numpy_dtype
from structir.ir.expr import Constant, Expr, PrimValue, Tuple
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo
from structir.lazy import lazy_module
from structir.opdef.attributes import AttributeKind, InvalidAttribute, Operands, kind_of
from structir.opdef.index_exprs import LoopIndices
from structir.projections.scalar_expr import LoopIndex

difflib = lazy_module("difflib")
np = lazy_module("numpy")
NOT_GIVEN = Tuple(())  # an operand that is left out before one that is given
REQUIRED = inspect.Parameter.empty


@attrs.frozen(eq=False)
class Parameter:
    """One parameter of an op: an operand, a list of operands, or an attribute of a kind."""

    name: str
    kind: AttributeKind | None  # None: an operand
    is_list: bool
    default: Any = REQUIRED
    optional: bool = False  # None may be given

    def __str__(self) -> str:
        name = f"[{self.name}, ...]" if self.is_list else self.name
        return name if self.default is REQUIRED else f"{name}={shown(self.default)}"

    @property
    def is_argument(self) -> bool:
        """Whether the value stands among the arguments of the call."""
        return self.kind is None or self.kind.is_argument

    @property
    def must_be_given(self) -> bool:
        """Whether it is an operand that cannot be left out."""
        return self.kind is None and self.default is REQUIRED and not self.optional


@attrs.frozen(eq=False)
class OpSignature:
    """The parameters of an op, in the order in which they are written; the letters that its body
    receives as indices, and the parameter by which it receives all letters, if it has one."""

    op: str
    parameters: tuple[Parameter, ...]
    letters: tuple[str, ...]
    all_letters: str | None = None

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.parameters))})"

    @property
    def hint(self) -> str:
        """How a call is written."""
        return f"it is written R.{self}"

    def wrong(self, message: str, span: Span | None, hint: str = "") -> Diagnostic:
        """What is said of a call that is written otherwise."""
        return Diagnostic(message, span, self.op, hint=hint or self.hint)

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """The parameters whose values are arguments of the call, in order."""
        return tuple([p for p in self.parameters if p.is_argument])

    @property
    def attributes(self) -> tuple[Parameter, ...]:
        """The parameters whose values are static attributes."""
        return tuple([p for p in self.parameters if not p.is_argument])


def shown(value: Any) -> str:
    """The value of an attribute as it is written."""
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def signature_of(op: str, body: Callable[..., Any]) -> OpSignature:
    """The signature that a body states: annotations of a kind are attributes, `Index` a letter,
    `Letters` all of them."""
    hints = typing.get_type_hints(body, include_extras=True)
    parameters, letters, all_letters = [], [], None
    for name, parameter in inspect.signature(body).parameters.items():
        hint = hints.get(name)
        if hint is LoopIndex:
            letters.append(name)
            continue
        if hint is LoopIndices:
            all_letters = name
            continue
        default = parameter.default
        kind = kind_of(hint)
        if kind is not None and not kind.is_argument and default is not REQUIRED:
            default = default if default is None else kind.take(default)
        optional = default is None or type(None) in typing.get_args(hint)
        parameters.append(Parameter(name, kind, hint is Operands, default, optional))
    return OpSignature(op, tuple(parameters), tuple(letters), all_letters)


def bound_values(
    signature: OpSignature, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None
) -> dict[str, Any]:
    """The value given for each parameter, by name; wrong names and numbers are errors."""
    parameters = signature.parameters
    if len(args) > len(parameters):
        message = f"{len(args)} arguments are too many: it takes {len(parameters) or 'none'}"
        raise StructInfoError(signature.wrong(message, span).coded("E0106"))
    values = {p.name: value for p, value in zip(parameters, args, strict=False)}
    known = {p.name for p in parameters}
    for name, value in keywords.items():
        if name not in known:
            raise StructInfoError(_unknown_name(signature, name, span))
        if name in values:
            raise StructInfoError(signature.wrong(f"{name} is given twice", span).coded("E0106"))
        values[name] = value
    missing = [p.name for p in parameters if p.default is REQUIRED and p.name not in values]
    if missing:
        raise StructInfoError(
            signature.wrong(f"{' and '.join(missing)} must be given", span).coded("E0106")
        )
    return values


def _unknown_name(signature: OpSignature, name: str, span: Span | None) -> Diagnostic:
    close = difflib.get_close_matches(name, [p.name for p in signature.parameters], 1)
    hint = f"did you mean {close[0]}?" if close else ""
    return signature.wrong(f"there is no parameter {name}", span, hint).coded("E0106")


def call_parts(
    signature: OpSignature, values: Mapping[str, Any], span: Span | None
) -> tuple[tuple[Expr, ...], dict[str, Any]]:
    """The arguments and the attributes of a call, in their kept forms."""
    args: list[Expr] = []
    attributes: dict[str, Any] = {}
    for parameter in signature.parameters:
        given = parameter.name in values
        value = values.get(parameter.name)
        if parameter.kind is None:
            args.append(_operand(signature, parameter, values, span))
        elif not parameter.kind.is_argument:
            if given:
                taken = _accept(signature, parameter, value, span)
                if taken != parameter.default or type(taken) is not type(parameter.default):
                    attributes[parameter.name] = taken
        elif not given or (value is None and parameter.default is None) or value is NOT_GIVEN:
            args.append(NOT_GIVEN)
        else:
            args.append(_accept(signature, parameter, value, span))
    while args and args[-1] is NOT_GIVEN:
        args.pop()
    return tuple(args), attributes


def _accept(signature: OpSignature, parameter: Parameter, value: Any, span: Span | None) -> Any:
    if value is None and parameter.optional:
        return None
    assert parameter.kind is not None
    try:
        return parameter.kind.take(value)
    except InvalidAttribute as error:
        found = repr(value) if isinstance(value, str) else str(value)
        message = f"{parameter.name} must be {parameter.kind.expected}, not {found}"
        diagnostic = signature.wrong(message, span, str(error)).coded("E0107")
        if isinstance(value, Expr):
            diagnostic = diagnostic.note(f"{parameter.name} is {value.struct_info}", value.span)
        raise StructInfoError(diagnostic) from None


def _operand(
    signature: OpSignature, parameter: Parameter, values: Mapping[str, Any], span: Span | None
) -> Expr:
    value = values.get(parameter.name)
    if isinstance(value, Expr):
        return (
            NOT_GIVEN
            if value is not NOT_GIVEN and _is_nothing(value) and not parameter.is_list
            else value
        )
    if value is None and parameter.default is not REQUIRED:
        return NOT_GIVEN
    if isinstance(value, tuple | list):
        return Tuple(tuple([_as_operand(signature, parameter, v, values, span) for v in value]))
    return _as_operand(signature, parameter, value, values, span)


def _is_nothing(value: Expr) -> bool:
    return isinstance(value, Tuple) and not value.fields


def _as_operand(
    signature: OpSignature,
    parameter: Parameter,
    value: Any,
    values: Mapping[str, Any],
    span: Span | None,
) -> Expr:
    """An expression as it is; a Python number as a scalar of the dtype of the other operands."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool | int | float):
        return _scalar(signature, parameter, value, _scalar_dtype(value, values), span)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return Constant(np.asarray(value))
    message = f"{parameter.name} must be a tensor, not {value!r}"
    raise StructInfoError(signature.wrong(message, span))


def _scalar(
    signature: OpSignature,
    parameter: Parameter,
    value: bool | int | float,
    dtype: str,
    span: Span | None,
) -> Constant:
    try:
        return Constant(np.array(value, numpy_dtype(dtype)))
    except OverflowError:
        message = f"{parameter.name} is {value}, which {dtype} does not hold"
        raise StructInfoError(signature.wrong(message, span)) from None


def _scalar_dtype(value: bool | int | float, values: Mapping[str, Any]) -> str:
    """float32, int64 or bool; the dtype of a tensor beside it, where a number of this kind fits
    it."""
    own = {bool: "bool", int: "int64"}.get(type(value), "float32")
    for other in values.values():
        info = other.struct_info if isinstance(other, Expr) else None
        beside = info.dtype if isinstance(info, TensorStructInfo | PrimStructInfo) else None
        if beside is not None and not isinstance(other, PrimValue):
            fits = is_float(beside) or (type(value) is int and beside != "bool") or own == beside
            return beside if fits else own
    return own
