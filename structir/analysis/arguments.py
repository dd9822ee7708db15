"""Arguments of calls: binds them to parameters by position and by name, with defaults.

The function attribute `defaults` maps parameters to constant expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from structir.analysis.calls import are_disjoint
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dtype import is_int, numpy_dtype
from structir.ir.expr import (
    DEFAULTS,
    Constant,
    DataTypeImm,
    Expr,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    Var,
)
from structir.ir.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module

np = lazy_module("numpy")
Defaults = Callable[[], Mapping[str, Any]]


def arguments_of(
    name: str,
    params: Sequence[Var],
    args: Sequence[Any],
    names: Mapping[str, Any],
    defaults: Defaults = dict,
) -> tuple[Any, ...]:
    """Returns the arguments of a call in the order of the parameters: `args` by position, `names`
    by keyword, and defaults of the others.

    Raises DiagnosticError unless each parameter has one argument.
    """
    if not names and len(args) == len(params):
        return tuple(args)
    order = [param.name for param in params]
    for keyword in names:
        if order.count(keyword) != 1:
            raise _unexpected_name(name, keyword, order)
        if keyword in order[: len(args)]:
            message = f"parameter `{keyword}`: expected one argument, found two"
            raise _wrong_call(name, message, f"remove `{keyword}=...`, or name more arguments")
    values = {**defaults(), **names}
    missing = [param for param in order[len(args) :] if param not in values]
    if missing or len(args) > len(params):
        raise _wrong_count(name, order, len(args) + len(names), missing if names else [])
    return (*args, *[values[param] for param in order[len(args) :]])


def check_call(name: str, params: Sequence[Var], args: Sequence[Any]) -> None:
    """Raises DiagnosticError unless each parameter has one positional argument."""
    if len(args) != len(params):
        raise _wrong_count(name, [param.name for param in params], len(args), [])


def defaults_of(function: Any) -> Mapping[str, Expr]:
    """Returns the default of each parameter that has one, as an expression."""
    defaults: Mapping[str, Expr] = getattr(function, "attrs", {}).get(DEFAULTS, {})
    return defaults


def default_values(function: Any) -> dict[str, Any]:
    """Returns the default of each parameter that has one, as a value of an argument."""
    return {name: _value(default) for name, default in defaults_of(function).items()}


def default_of(param: Var, value: Any) -> Expr | None:
    """Converts a constant to the default of a parameter: an expression without variables.

    Numbers and arrays become a constant of the parameter's dtype. Returns None for other values,
    and for a default that no argument of the parameter can be.
    """
    default = _constant(param.struct_info, value)
    if default is None or default.struct_info is None:
        return default if isinstance(default, StringImm | DataTypeImm) else None
    return None if are_disjoint(param.struct_info, default.struct_info) else default


def _constant(info: Any, value: Any) -> Expr | None:
    """Returns a value as an expression without variables, or None."""
    if isinstance(value, Constant | StringImm | DataTypeImm):
        return value
    if isinstance(value, PrimValue | ShapeExpr):
        sizes = value.dims if isinstance(value, ShapeExpr) else (value.value,)
        return value if all([isinstance(size, int | float) for size in sizes]) else None
    if isinstance(value, Tuple):
        value = value.fields
    if isinstance(value, bool | int | float):
        is_tensor = isinstance(info, TensorStructInfo)
        return _scalar(value, info.dtype) if is_tensor else PrimValue(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, tuple | list):
        return _sequence(info, tuple(value))
    return Constant(value) if hasattr(value, "flags") and hasattr(value, "dtype") else None


def _scalar(value: float, dtype: str | None) -> Constant | None:
    """Returns a number as a tensor; None if the dtype is unknown or cannot represent it."""
    if dtype is None or (is_int(dtype) and value != int(value)):
        return None
    try:
        return Constant(np.asarray(value, numpy_dtype(dtype)))
    except OverflowError:
        return None


def _sequence(info: Any, values: tuple[Any, ...]) -> Expr | None:
    """Returns a tuple as the default of a shape, or of a tuple of values."""
    if isinstance(info, ShapeStructInfo):
        return ShapeExpr(values) if all([type(size) is int for size in values]) else None
    fields = info.fields if isinstance(info, TupleStructInfo) else ()
    infos = fields if len(fields) == len(values) else (None,) * len(values)
    items = [_constant(field, value) for field, value in zip(infos, values, strict=True)]
    constants = tuple([item for item in items if item is not None])
    return Tuple(constants) if len(constants) == len(values) else None


def _value(default: Expr) -> Any:
    """Returns the value of an expression without variables."""
    match default:
        case Constant(data=data):
            return data
        case ShapeExpr(dims=dims):
            return dims
        case Tuple(fields=fields):
            return tuple([_value(field) for field in fields])
    return default.value  # type: ignore[attr-defined]


def _unexpected_name(name: str, keyword: str, order: Sequence[str]) -> DiagnosticError:
    """Returns the error of a keyword that names no parameter, or several."""
    message = f"unexpected keyword argument `{keyword}`"
    if keyword == "out" and "out" not in order:
        return _wrong_call(name, f"{message}: results are always new arrays", "remove `out=...`")
    if keyword in order:
        hint = f"pass arguments by position: `{name}({', '.join(order)})`"
        return _wrong_call(name, f"{message}: {order.count(keyword)} parameters have it", hint)
    matches = get_close_matches(keyword, order, 1)
    hint = f"did you mean `{matches[0]}`?" if matches else f"write `{name}({', '.join(order)})`"
    expected = f": expected one of {', '.join(order)}" if order else ""
    return _wrong_call(name, message + expected, hint)


def _wrong_count(
    name: str, order: Sequence[str], count: int, missing: Sequence[str]
) -> DiagnosticError:
    """Returns the error of missing or surplus arguments."""
    expected = "1 argument" if len(order) == 1 else f"{len(order)} arguments"
    absent = f": missing {', '.join([f'`{param}`' for param in missing])}" if missing else ""
    hint = f"write `{name}({', '.join(order)})`"
    return _wrong_call(name, f"expected {expected}, found {count}{absent}", hint)


def _wrong_call(name: str, message: str, hint: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(message, op=name, hint=hint, code="E0704"))
