"""Derives op parameters from the Python signatures of bodies, and binds arguments to them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic, Span, StructInfoError
from structir.ir.dtype import DTYPES, is_float, numpy_dtype
from structir.ir.expr import Constant, Expr, PrimValue, Tuple, Var
from structir.ir.masked import unmasked
from structir.ir.op import find_op
from structir.ir.polynomial import Poly
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo
from structir.lazy import lazy_module
from structir.opdef.attributes import AttributeKind, InvalidAttribute, Operands, kind_of
from structir.opdef.call_view import out_of_range
from structir.opdef.index_exprs import LoopIndices
from structir.projections.scalar_expr import LoopIndex

difflib = lazy_module("difflib")
np = lazy_module("numpy")
OMITTED = Tuple(())  # the argument of an omitted operand
REQUIRED = inspect.Parameter.empty

FIXED = frozenset([(dtype,) for dtype in DTYPES])  # dtypes in an index signature, no variables
CONSTANT_LIKE = "constant_like"  # the op of a scalar in the dtype of an operand
CAST, CAST_LIKE = "astype", "astype_like"  # the ops of a size in the dtype of an operand
TORCH_NAMES = {  # parameters of PyTorch, and those of ops
    "dim": ("axis", "axes"),
    "dims": ("axes", "axis"),
    "input": ("x", "data"),
    "keepdim": ("keepdims",),
    "other": ("y", "rhs"),
    "size": ("shape",),
}
INDICES = "indices"  # the operand of indices: a literal is int64 for operands of any dtype


@attrs.frozen(eq=False)
class Parameter:
    """One parameter of an op: an operand, a list of operands, or an attribute."""

    name: str
    kind: AttributeKind | None  # None: an operand
    is_list: bool
    default: Any = REQUIRED
    optional: bool = False  # accepts None

    def __str__(self) -> str:
        name = f"[{self.name}, ...]" if self.is_list else self.name
        return name if self.default is REQUIRED else f"{name}={shown(self.default)}"

    @property
    def is_argument(self) -> bool:
        """Returns whether the value is an argument of the `Call` node."""
        return self.kind is None or self.kind.is_argument

    @property
    def is_required(self) -> bool:
        """Returns whether the parameter is an operand that cannot be omitted."""
        return self.kind is None and self.default is REQUIRED and not self.optional


@attrs.frozen(eq=False)
class OpSignature:
    """The parameters of an op in order, and the body parameters for loop indices.

    `index_params` are annotated `LoopIndex`; `loops_param`, if any, is annotated `LoopIndices`.
    `dtypes` has the dtypes of operands in the index signature, unless that is a function.
    """

    op: str
    parameters: tuple[Parameter, ...]
    index_params: tuple[str, ...]
    loops_param: str | None = None
    dtypes: Mapping[str, tuple[str, ...]] = attrs.Factory(dict)

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.parameters))})"

    @property
    def hint(self) -> str:
        """Returns the hint with the signature of the op."""
        return f"call it as `R.{self}`"

    def diagnostic(self, message: str, span: Span | None, hint: str = "") -> Diagnostic:
        """Returns the diagnostic of a call that does not match the signature."""
        return Diagnostic(message, span, self.op, hint=hint or self.hint)

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """Returns the parameters whose values are arguments of the `Call` node, in order."""
        return tuple([p for p in self.parameters if p.is_argument])

    @property
    def attributes(self) -> tuple[Parameter, ...]:
        """Returns the parameters whose values are static attributes."""
        return tuple([p for p in self.parameters if not p.is_argument])


def shown(value: Any) -> str:
    """Returns an attribute value as source."""
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def signature_of(op: str, body: Callable[..., Any]) -> OpSignature:
    """Derives the parameters of an op from the annotations of its body."""
    hints = typing.get_type_hints(body, include_extras=True)
    parameters, index_params, loops_param = [], [], None
    for name, parameter in inspect.signature(body).parameters.items():
        hint = hints.get(name)
        if hint is LoopIndex:
            index_params.append(name)
            continue
        if hint is LoopIndices:
            loops_param = name
            continue
        default = parameter.default
        kind = kind_of(hint)
        if kind is not None and not kind.is_argument and default is not REQUIRED:
            default = default if default is None else kind.normalize(default)
        optional = default is None or type(None) in typing.get_args(hint)
        parameters.append(Parameter(name, kind, hint is Operands, default, optional))
    return OpSignature(op, tuple(parameters), tuple(index_params), loops_param)


def bound_values(
    signature: OpSignature, args: tuple[Any, ...], keywords: Mapping[str, Any], span: Span | None
) -> dict[str, Any]:
    """Binds arguments to parameter names; raises StructInfoError where Python raises TypeError."""
    parameters = signature.parameters
    if len(args) > len(parameters):
        count = len(parameters)
        message = f"expected {count} argument{'s' * (count != 1)}, found {len(args)}"
        hint = _tuple_hint(signature, args)
        raise StructInfoError(signature.diagnostic(message, span, hint).coded("E0106"))
    values = {p.name: value for p, value in zip(parameters, args, strict=False)}
    names = {p.name for p in parameters}
    for name, value in keywords.items():
        if name not in names:
            raise StructInfoError(_unknown_name(signature, name, span))
        if name in values:
            message = f"expected one value of `{name}`, found two: by position and by keyword"
            raise StructInfoError(signature.diagnostic(message, span).coded("E0106"))
        values[name] = value
    missing = [p for p in parameters if p.default is REQUIRED and p.name not in values]
    if missing:
        noun = "operand" if all(p.kind is None for p in missing) else "argument"
        missing_names = " and ".join([f"`{p.name}`" for p in missing])
        message = f"missing {noun}{'s' * (len(missing) > 1)} {missing_names}"
        raise StructInfoError(signature.diagnostic(message, span).coded("E0106"))
    return values


def _tuple_hint(signature: OpSignature, args: tuple[Any, ...]) -> str:
    """Returns the hint to pass the last arguments as one tuple, if a parameter accepts it."""
    count = sum(p.default is REQUIRED for p in signature.parameters)
    for position in (count - 1, count):
        parameters = signature.parameters[position : position + 1]
        kind = parameters[0].kind if parameters else None
        values = [_source(arg) for arg in args]
        if kind is None or position < 0 or None in values:
            continue
        try:
            kind.normalize(tuple(args[position:]))
        except InvalidAttribute:
            continue
        packed = f"({', '.join(map(str, values[position:]))})"
        call = ", ".join([*map(str, values[:position]), packed])
        return f"pass `{parameters[0].name}` as one tuple: `R.{signature.op}({call})`"
    return ""


def _source(value: Any) -> str | None:
    """Returns the source of a variable or number; None for another argument."""
    if isinstance(value, Var):
        return value.name
    literal = value.value if isinstance(value, PrimValue) else value
    return str(literal) if isinstance(literal, int | float | Poly) else None


def _unknown_name(signature: OpSignature, name: str, span: Span | None) -> Diagnostic:
    names = [p.name for p in signature.parameters]
    close = [known for known in TORCH_NAMES.get(name, ()) if known in names]
    close = close or difflib.get_close_matches(name, names, 1)
    hint = f"did you mean `{close[0]}`?" if close else ""
    message = f"unexpected keyword argument `{name}`"
    return signature.diagnostic(message, span, hint).coded("E0106")


def call_parts(
    signature: OpSignature, values: Mapping[str, Any], span: Span | None
) -> tuple[tuple[Expr, ...], dict[str, Any]]:
    """Splits bound values into the arguments and the static attributes of a `Call`."""
    args: list[Expr] = []
    attributes: dict[str, Any] = {}
    for parameter in signature.parameters:
        is_passed = parameter.name in values
        value = values.get(parameter.name)
        if parameter.kind is None:
            args.append(_operand(signature, parameter, values, span))
        elif not parameter.kind.is_argument:
            if is_passed:
                normalized = _accept(signature, parameter, value, span)
                if normalized != parameter.default or type(normalized) is not type(
                    parameter.default
                ):
                    attributes[parameter.name] = normalized
        elif (
            not is_passed or value is OMITTED or (_is_left_out(value) and parameter.default is None)
        ):
            args.append(OMITTED)
        else:
            args.append(_accept(signature, parameter, value, span))
    while args and args[-1] is OMITTED:
        args.pop()
    return tuple(args), attributes


def _accept(signature: OpSignature, parameter: Parameter, value: Any, span: Span | None) -> Any:
    if parameter.optional and _is_left_out(value):
        return None
    assert parameter.kind is not None
    try:
        return parameter.kind.normalize(value)
    except InvalidAttribute as error:
        message = f"{parameter.name}: expected {parameter.kind.expected}, found {_text(value)}"
        diagnostic = signature.diagnostic(message, span, str(error)).coded("E0107")
        if isinstance(value, Expr):
            diagnostic = diagnostic.note(f"{parameter.name} is {value.struct_info}", value.span)
        raise StructInfoError(diagnostic) from None


def _text(value: Any) -> str:
    """Returns the text of a value, in which a variable has its name."""
    if type(value) is tuple:
        return f"({', '.join([_text(item) for item in value])}{',' * (len(value) == 1)})"
    return repr(value) if isinstance(value, str) else str(value)


def _operand(
    signature: OpSignature, parameter: Parameter, values: Mapping[str, Any], span: Span | None
) -> Expr:
    value = values.get(parameter.name)
    if isinstance(value, Expr):
        return (
            OMITTED
            if value is not OMITTED and _is_nothing(value) and not parameter.is_list
            else value
        )
    if value is None and parameter.default is not REQUIRED:
        return OMITTED
    if isinstance(value, tuple | list):
        return Tuple(tuple([_as_operand(signature, parameter, v, values, span) for v in value]))
    return _as_operand(signature, parameter, value, values, span)


def _is_left_out(value: Any) -> bool:
    return value is None or (isinstance(value, Expr) and _is_nothing(value))


def _is_nothing(value: Expr) -> bool:
    return isinstance(value, Tuple) and not value.fields


def _as_operand(
    signature: OpSignature,
    parameter: Parameter,
    value: Any,
    values: Mapping[str, Any],
    span: Span | None,
) -> Expr:
    """Converts numbers and arrays to constants; returns expressions unchanged."""
    if isinstance(value, Expr):
        return value
    others = {} if parameter.name == INDICES else _beside(signature, parameter, values)
    if isinstance(value, bool | int | float):
        like = _operand_of_variable(value, others)
        if like is not None:
            return like_operand(value, like, span)
        dtype = _known_dtype(value, others) or _default_dtype(value)
        return _scalar(signature, parameter, value, dtype, span)
    if isinstance(value, Poly):
        return _size_beside(value, others, span)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return Constant(np.asarray(unmasked(value)))
    message = f"{parameter.name}: expected a tensor, found {value!r}"
    raise StructInfoError(signature.diagnostic(message, span).coded("E0305"))


def _size_beside(size: Poly, operands: Mapping[str, Any], span: Span | None) -> Expr:
    """Returns a size as a scalar tensor in the dtype of operands; without any, as a number."""
    number = PrimValue(size)
    if not operands:
        return number
    dtype = _known_dtype(1, operands)
    if dtype is None:
        return _call(CAST_LIKE, (number, next(iter(operands.values()))), {}, span)
    return _call(CAST, (number, dtype), {}, span)


def _call(name: str, args: tuple[Any, ...], keywords: dict[str, Any], span: Span | None) -> Expr:
    op = find_op(name)
    assert op is not None
    call: Expr = op.definition.bind(args, keywords, span)
    return call


def _beside(
    signature: OpSignature, parameter: Parameter, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the operands that determine the dtype of a number.

    These have the dtype of the number in the index signature, such as `T`; without one, these are
    all whose dtype is not fixed there, as that of a condition.
    """
    own = signature.dtypes.get(parameter.name)
    others = {name: value for name, value in values.items() if isinstance(value, Expr)}
    same = {n: value for n, value in others.items() if own and signature.dtypes.get(n) == own}
    return same or {
        n: value for n, value in others.items() if signature.dtypes.get(n, own) not in FIXED
    }


def _operand_of_variable(value: bool | int | float, values: Mapping[str, Any]) -> Expr | None:
    """Returns the operand beside which a number has its dtype, which is known at run time only.

    This is the first one with a dtype variable, else one of unknown dtype if no other has a dtype
    that can represent the number.
    """
    unknown = None
    for operand in values.values():
        info = operand.struct_info
        if not isinstance(info, TensorStructInfo | PrimStructInfo):
            continue
        if info.dtype_var is not None:
            return operand  # type: ignore[no-any-return]
        unknown = operand if unknown is None and info.dtype is None else unknown
    return unknown if _known_dtype(value, values) is None else None


def like_operand(value: bool | int | float, operand: Expr, span: Span | None) -> Expr:
    """Returns a number in the dtype of an operand, whose dtype is a variable."""
    return _call(CONSTANT_LIKE, (operand,), {"value": value}, span)


def _scalar(
    signature: OpSignature,
    parameter: Parameter,
    value: bool | int | float,
    dtype: str,
    span: Span | None,
) -> Constant:
    try:
        array = np.array(value, numpy_dtype(dtype))
        array.setflags(write=False)  # a constant would copy a writeable array
        return Constant(array)
    except OverflowError:
        message, hint = out_of_range(parameter.name, value, dtype)
        raise StructInfoError(signature.diagnostic(message, span, hint).coded("E0305")) from None


def _default_dtype(value: bool | int | float) -> str:
    return {bool: "bool", int: "int64"}.get(type(value), "float32")


def _known_dtype(value: bool | int | float, values: Mapping[str, Any]) -> str | None:
    """Returns the dtype of the first other operand that can represent `value`, or None."""
    for operand in values.values():
        info = operand.struct_info if isinstance(operand, Expr) else None
        dtype = info.dtype if isinstance(info, TensorStructInfo | PrimStructInfo) else None
        if dtype is None or isinstance(operand, PrimValue):
            continue
        if (
            is_float(dtype)
            or (type(value) is int and dtype != "bool")
            or dtype == _default_dtype(value)
        ):
            return dtype
    return None
