"""Checks values against their declared StructInfo, and binds symbolic dims."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import cache
from reprlib import repr as brief
from typing import Any

import attrs
import numpy as np

from structir.errors import ShapeMismatchError
from structir.interpret.ragged_values import (
    Offsets,
    bind_offsets,
    equations_of,
    ragged_position,
)
from structir.interpret.row_binding import AxisEquation, bind_rows
from structir.interpret.row_binding import mismatch as _mismatch
from structir.interpret.scope import Activation, ForeignTensor, Value
from structir.interpret.shape_help import with_shape_help
from structir.ir import dims
from structir.ir.axes import Axes
from structir.ir.dim_text import display_name, one_message
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import DTYPES, DtypeVar, dtype_name, is_float, is_int, numpy_dtype
from structir.ir.expr import Var
from structir.ir.ragged_array import RaggedArray
from structir.ir.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

DTYPE_OF_LITERAL = {bool: "bool", int: "int64", float: "float32"}
MAX_SIZE = 2**63 - 1  # of 64-bit sizes


@attrs.frozen(eq=False)
class BoundaryFacts:
    """Equations from the values at one boundary, collected before sizes are solved."""

    equations: list[AxisEquation] = attrs.Factory(list)
    shapes: list[tuple[Var, tuple[int, ...], str]] = attrs.Factory(list)  # of shape variables
    rows: list[tuple[Axes, tuple[int, ...], str]] = attrs.Factory(
        list
    )  # of axes with row variables
    dtypes: list[tuple[DtypeVar, str, str]] = attrs.Factory(list)  # of dtype variables
    numbers: list[tuple[DtypeVar, Value, str]] = attrs.Factory(list)  # of Python, without a dtype
    offsets: list[Offsets] = attrs.Factory(list)  # of named ragged axes


@attrs.frozen
class BoundDtype:
    """The dtype of a dtype variable, and the location of the value that bound it."""

    dtype: str
    where: str


def match(declared: Iterable[tuple[StructInfo, Value, str]], scope: Activation) -> None:
    """Checks values against their StructInfo; binds new sizes in the scope.

    Raises ShapeMismatchError.
    """
    items = iter(declared)
    for info, value, where in items:
        if not _matches_exactly(info, value, scope.sizes):
            _match_all([(info, value, where), *items], scope)
            return


def _matches_exactly(info: StructInfo, value: Value, sizes: MutableMapping[Any, Any]) -> bool:
    """Whether arrays match, for shapes of constants and single dims only; binds new dims.

    This fast path serves most calls.
    """
    kind = type(info)
    if kind is TupleStructInfo and type(value) is tuple:
        fields: tuple[StructInfo, ...] = info.fields  # type: ignore[attr-defined]
        pairs = zip(fields, value, strict=False)
        return len(fields) == len(value) and all([_matches_exactly(f, v, sizes) for f, v in pairs])
    if kind is not TensorStructInfo or type(value) is not np.ndarray:
        return kind is ObjectStructInfo
    tensor: Any = info
    if tensor.dtype is not None and _name_of(value.dtype) != tensor.dtype:
        return False
    if tensor.axes is not None or tensor.ndim not in (None, value.ndim):
        return False
    if tensor.dtype_var is not None:  # the other path records its location
        return False
    return tensor.dims is None or _plain_sizes(tensor.dims, value.shape, sizes)


def _plain_sizes(declared: Any, shape: tuple[int, ...], sizes: MutableMapping[Any, Any]) -> bool:
    if type(declared) is not tuple:
        return False
    for dim, size in zip(declared, shape, strict=True):
        if type(dim) is int:
            expected = dim
        else:
            symbol = dims.as_sym(dim)
            if symbol is None:
                return False
            expected = sizes.setdefault(symbol, size)
        if expected != size:
            return False
    return True


def _match_all(declared: Sequence[tuple[StructInfo, Value, str]], scope: Activation) -> None:
    with one_message():
        mismatch = None
        try:
            facts = gathered(declared, scope)
            _solve(facts.equations, scope)
        except ShapeMismatchError as error:
            mismatch = with_shape_help(error, declared)
        if mismatch is not None:  # outside of the handler: it has the context of the caller
            raise mismatch
    for var, shape, where in facts.shapes:
        expected = scope.values.get(var)
        if expected is not None and tuple(expected) != shape:
            raise _mismatch(where, f"the shape {var.name} = {tuple(expected)}", str(shape))


def gathered(declared: Iterable[tuple[StructInfo, Value, str]], scope: Activation) -> BoundaryFacts:
    """Returns the equations between declared and actual sizes; binds row variables."""
    facts = BoundaryFacts()
    for info, value, where in declared:
        _gather(info, value, where, facts)
    _bind_dtypes(facts.dtypes, scope.sizes)
    _bind_numbers(facts.numbers, scope.sizes)
    bind_offsets(facts.offsets, scope.sizes)
    facts.equations.extend(bind_rows(facts.rows, scope.sizes))
    return facts


def _bind_dtypes(
    dtypes: Iterable[tuple[DtypeVar, str, str]], bindings: MutableMapping[Any, Any]
) -> None:
    """Binds each dtype variable to the dtype of its first value; raises for other dtypes."""
    for variable, dtype, where in dtypes:
        bound = bindings.setdefault(variable, BoundDtype(dtype, where))
        if bound.dtype != dtype:
            value = bound.where.rpartition(": ")[2].removeprefix("parameter ")
            raise _mismatch(where, f"dtype {bound.dtype} (bound by {value})", dtype, "E0703")


def _bind_numbers(
    numbers: Iterable[tuple[DtypeVar, Value, str]], bindings: MutableMapping[Any, Any]
) -> None:
    """Checks numbers of Python against the dtypes that other values bind, after all of these.

    The first number of an open variable binds it to the dtype that a literal has.
    """
    for variable, value, where in numbers:
        default = BoundDtype(DTYPE_OF_LITERAL[type(value)], where)
        bound = bindings.setdefault(variable, default)
        if not _has_dtype(value, bound.dtype):
            source = bound.where.rpartition(": ")[2].removeprefix("parameter ")
            expected = f"a number of dtype {bound.dtype} (bound by {source})"
            raise _mismatch(where, expected, described(value), "E0703")


def _gather(info: StructInfo, value: Value, where: str, facts: BoundaryFacts) -> None:
    gather = GATHERERS.get(type(info))
    if gather is not None:
        gather(info, value, where, facts)
    elif hasattr(info, "parts"):  # a StructInfo subclass of a user
        _gather(info.parts(), value, where, facts)


@cache
def _name_of(dtype: Any) -> str:
    """Returns the name of a dtype, memoized: NumPy builds a new string at each access."""
    return str(dtype.name)


def _gather_tensor(info: TensorStructInfo, value: Value, where: str, facts: BoundaryFacts) -> None:
    is_ragged = type(value) is RaggedArray
    if not is_ragged and not isinstance(value, np.ndarray | ForeignTensor):
        raise _mismatch(where, "a tensor", described(value))
    if info.ndim is not None and value.ndim != info.ndim:
        raise _mismatch(where, f"{info.ndim} axes", f"{value.ndim}: shape {value.shape}")
    if info.dtype is not None and _name_of(value.dtype) != info.dtype:
        raise _wrong_dtype(where, str(info.dtype), value.dtype)
    if info.dtype_var is not None:
        facts.dtypes.append((info.dtype_var, _name_of(value.dtype), where))
    if is_ragged or (info.axes is not None and ragged_position(info) is not None):
        equations, offsets = equations_of(info, value, where)
        facts.equations.extend(equations)
        if offsets is not None:
            facts.offsets.append(offsets)
    elif info.axes is not None:
        facts.rows.append((info.axes, value.shape, where))
    elif isinstance(info.dims, Var):
        facts.shapes.append((info.dims, value.shape, where))
    elif info.dims is not None:
        facts.equations.extend(_axis_equations(info.dims, value.shape, where))


def _wrong_dtype(where: str, expected: str, dtype: np.dtype[Any]) -> ShapeMismatchError:
    """Returns the error of a tensor of another dtype, with the conversion of numbers as help."""
    actual = str(dtype.name)
    parameter = where.rpartition(": parameter ")[2]
    if parameter != where and (actual in DTYPES or dtype.hasobject):
        actual += f'\nhelp: pass `np.asarray({parameter}, "{expected}")`'
    return _mismatch(where, f"dtype {expected}", actual, "E0703")


def _gather_shape(info: ShapeStructInfo, value: Value, where: str, facts: BoundaryFacts) -> None:
    numbers = value if isinstance(value, tuple) else (None,)
    numbers = tuple([v for v in numbers if type(v) is not dims.Poly])  # dims while a plan is made
    if not all(_is_integer(v) for v in numbers):
        raise _mismatch(where, "a shape", described(value))
    if any(v > MAX_SIZE for v in numbers):
        raise _mismatch(where, "sizes that fit into 64 bits", str(value))
    if info.ndim is not None and len(value) != info.ndim:
        raise _mismatch(where, f"a shape of {info.ndim} sizes", f"{len(value)}: {value}")
    if info.dims is not None:
        facts.equations.extend(_axis_equations(info.dims, value, where))


def _axis_equations(
    declared: tuple[Dim, ...], actual: tuple[int, ...], where: str
) -> list[AxisEquation]:
    pairs = enumerate(zip(declared, actual, strict=True))
    return [AxisEquation(d, _size(n), f"{where}: axis {axis}") for axis, (d, n) in pairs]


def _size(size: Any) -> Any:
    """Returns a size as an integer; a dim unchanged."""
    return size if type(size) is dims.Poly else int(size)


def _gather_prim(info: PrimStructInfo, value: Value, where: str, facts: BoundaryFacts) -> None:
    if info.dtype_var is not None:
        _gather_open_prim(info.dtype_var, value, where, facts)
    elif not _has_dtype(value, str(info.dtype)):
        raise _mismatch(where, f"a number of dtype {info.dtype}", described(value))
    if info.value is not None:
        facts.equations.append(AxisEquation(info.value, int(value), where))


def _gather_open_prim(variable: DtypeVar, value: Value, where: str, facts: BoundaryFacts) -> None:
    if type(value) in DTYPE_OF_LITERAL:
        facts.numbers.append((variable, value, where))
    elif isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        facts.dtypes.append((variable, dtype_name(value.dtype), where))
    else:
        raise _mismatch(where, f"a number of dtype {variable}", described(value))


def _has_dtype(value: Value, dtype: str) -> bool:
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return bool(dtype_name(value.dtype) == dtype)
    if isinstance(value, bool):
        return dtype == "bool"
    if isinstance(value, int):
        return is_int(dtype) and _fits(value, dtype)
    return isinstance(value, float) and is_float(dtype)


def _fits(value: int, dtype: str) -> bool:
    try:
        return int(np.asarray(value, numpy_dtype(dtype))) == value
    except OverflowError:
        return False


def _gather_tuple(info: TupleStructInfo, value: Value, where: str, facts: BoundaryFacts) -> None:
    if isinstance(value, Mapping) and info.names is not None:
        raise _wrong_keys(info.names, value, where)
    if not isinstance(value, tuple):
        raise _mismatch(where, "a tuple", described(value))
    if len(value) != len(info.fields):
        raise _mismatch(where, f"a tuple of {len(info.fields)}", f"one of {len(value)}")
    keys = info.names or range(len(value))
    for key, field, item in zip(keys, info.fields, value, strict=True):
        part = f".{key}" if info.names else f"[{key}]"
        _gather(field, item, where + part, facts)


def _wrong_keys(names: Sequence[str], value: Mapping[Any, Value], where: str) -> ShapeMismatchError:
    """Returns the error of a dict whose keys are not the names of the fields."""
    missing = [name for name in names if name not in value]
    surplus = [key for key in value if key not in names]
    problems = [f"missing {', '.join(missing)}"] * bool(missing)
    problems += [f"unexpected {', '.join(map(str, surplus))}"] * bool(surplus)
    keys = ", ".join([f"{name!r}: ..." for name in names])
    expected = f"a dict with the keys {', '.join(names)}"
    return _mismatch(where, expected, f"one with {'; '.join(problems)}\nhelp: pass `{{{keys}}}`")


def _gather_function(info: FuncStructInfo, value: Value, where: str, facts: BoundaryFacts) -> None:
    if not callable(value):
        raise _mismatch(where, "a function", described(value))


GATHERERS: dict[type, Callable[[Any, Value, str, BoundaryFacts], None]] = {
    TensorStructInfo: _gather_tensor,
    ShapeStructInfo: _gather_shape,
    PrimStructInfo: _gather_prim,
    TupleStructInfo: _gather_tuple,
    FuncStructInfo: _gather_function,
}


def _is_integer(value: Value) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def described(value: Value) -> str:
    """Describes a value briefly, for messages."""
    if isinstance(value, np.ndarray | ForeignTensor):
        return f"a {value.dtype.name} tensor of shape {value.shape}"
    if isinstance(value, RaggedArray):
        return repr(value)
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if callable(value):
        return "a function"
    if value is None:
        return "None"
    return f"{type(value).__name__} {brief(value)}"


def _solve(equations: list[AxisEquation], scope: Activation) -> None:
    """Checks equations without unknowns, and binds the symbol of those with a single one, until no
    equation remains or none can be used."""
    open_equations, before = equations, len(equations) + 1
    while len(open_equations) < before:
        before = len(open_equations)
        open_equations = [e for e in open_equations if not _is_solved(e, scope)]


def _is_solved(equation: AxisEquation, scope: Activation) -> bool:
    unbound = [s for s in dims.syms(equation.declared) if s not in scope.sizes]
    if len(unbound) == 1:
        return _solve_for(equation, unbound[0], scope)
    if unbound:
        return False
    expected = scope.size(equation.declared)
    if expected != equation.actual:
        raise _mismatch(
            equation.where, _size_text(equation.declared, scope.sizes), str(equation.actual)
        )
    return True


def _solve_for(equation: AxisEquation, unknown: Sym, scope: Activation) -> bool:
    sizes = {s: scope.sizes[s] for s in dims.syms(equation.declared) if s in scope.sizes}
    form = dims.linear(dims.substitute(equation.declared, sizes), unknown)
    coefficient, rest = form or (0, 0)
    if not isinstance(coefficient, int) or not isinstance(rest, int) or not coefficient:
        return False
    value, remainder = divmod(equation.actual - rest, coefficient)
    if remainder or value < 0:
        size_text = _size_text(equation.declared, sizes)
        is_symbol = (coefficient, rest) == (1, 0)
        condition = f"{size_text} >= 0" if is_symbol else f"{size_text} for some {unknown.name}"
        raise _mismatch(equation.where, condition, str(equation.actual))
    scope.sizes[unknown] = value
    return True


def _size_text(dim: Dim, sizes: Mapping[Sym, int]) -> str:
    """Returns the text of a declared size with its value: `n + 1 = 5 (n = 4)`."""
    if isinstance(dim, int):
        return str(dim)
    names = sorted(dims.syms(dim), key=lambda s: s.order)
    values = ", ".join(f"{display_name(s)} = {sizes[s]}" for s in names if s in sizes)
    if any(s not in sizes for s in names):
        return f"{dims.text(dim)} ({values})" if values else dims.text(dim)
    if dims.as_sym(dim) is not None:
        return values
    return f"{dims.text(dim)} = {dims.evaluate(dim, dict(sizes))} ({values})"
