"""Evaluates op calls in NumPy: from the index spec, decomposition, whole-axis body, or hook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from structir.errors import Diagnostic, ShapeMismatchError, StructInfoError
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import (
    Call,
    Constant,
    DataTypeImm,
    Expr,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.op import Op
from structir.ir.struct_info import (
    OBJECT,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module
from structir.opdef import deduction
from structir.opdef.parameters import OMITTED
from structir.projections.run import run
from structir.projections.spec import IndexSpec
from structir.projections.whole import run_whole

if TYPE_CHECKING:
    from structir.opdef.define import SignatureOpDefinition

np = lazy_module("numpy")

Value = Any  # a NumPy array, a tuple of values, a tuple of ints (a shape), a number or a text
Way = Callable[[tuple[Value, ...]], Any]  # from the values of the arguments to the result


def evaluate(definition: SignatureOpDefinition, call: Call, values: tuple[Value, ...]) -> Value:
    """Computes the result of a call.

    Raises StructInfoError where the values do not match the op.
    """
    if "as_written" in definition.hooks:
        values = definition.hooks["as_written"](call, values)
    pairs = zip(call.args, values, strict=True)
    signature = tuple([_signed(arg, value) for arg, value in pairs])
    attributes = tuple([(n, type(v), v) for n, v in call.attrs.items()])
    return _way(definition.op, signature, attributes)(values)


# What is known of a run-time value before it is looked at: enough to deduce the op's result from.


def _signed(arg: Expr, value: Value) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return "tensor", value.shape, value.dtype.name
    if isinstance(value, tuple):
        if _is_shape(arg.struct_info, value) and type(arg) is not Tuple:
            return "shape", tuple(map(int, value))
        return "tuple", tuple([_signed(field, v) for field, v in _fields(arg, value)])
    if isinstance(value, bool | int | float):
        dtype = arg.struct_info.dtype if isinstance(arg.struct_info, PrimStructInfo) else None
        return "number", type(value), value, dtype
    return "text", type(arg) is DataTypeImm, value


def _is_shape(info: StructInfo | None, value: tuple[Value, ...]) -> bool:
    if isinstance(info, ShapeStructInfo | TupleStructInfo):
        return isinstance(info, ShapeStructInfo)
    return all(isinstance(v, int) for v in value)


def _fields(arg: Expr, value: tuple[Value, ...]) -> list[tuple[Expr, Value]]:
    if isinstance(arg, Tuple):
        return list(zip(arg.fields, value, strict=True))
    infos = arg.struct_info.fields if isinstance(arg.struct_info, TupleStructInfo) else ()
    known = [infos[k] if k < len(infos) else OBJECT for k in range(len(value))]
    return [(Var("field", info), v) for info, v in zip(known, value, strict=True)]


def _argument(signed: Any) -> Expr:
    """Returns an argument of which only the structure is known."""
    match signed:
        case ("tensor", shape, dtype):
            return Var("value", TensorStructInfo(shape, dtype))
        case ("shape", sizes):
            return ShapeExpr(sizes)
        case ("tuple", ()):
            return OMITTED
        case ("tuple", fields):
            return Tuple(tuple([_argument(field) for field in fields]))
        case ("number", _, value, None):
            return PrimValue(value)
        case ("number", _, value, dtype):
            exact = value if isinstance(value, int) and not isinstance(value, bool) else None
            return PrimValue(value, PrimStructInfo(dtype, exact))
        case (_, is_dtype, text):
            return DataTypeImm(text) if is_dtype else StringImm(text)
    raise TypeError(signed)


# The ways to a result. Everything that depends on shapes alone is worked out once for each of them.


def concrete(definition: SignatureOpDefinition, call: Call, values: tuple[Value, ...]) -> Call:
    """Returns the call with arguments of the sizes and dtypes of these values."""
    pairs = zip(call.args, values, strict=True)
    args = tuple([_argument(_signed(arg, value)) for arg, value in pairs])
    bare = Call(definition.op, args, call.attrs)
    return Call(definition.op, args, call.attrs, (), definition.deduce(bare))


@lru_cache(2048)
def _way(op: Op, signature: tuple[Any, ...], attributes: tuple[Any, ...]) -> Way:
    definition: Any = op.definition
    args = tuple([_argument(s) for s in signature])
    static = {name: value for name, _, value in attributes}
    bare = Call(op, args, static)
    info = definition.deduce(bare)
    call = Call(op, args, static, (), info)
    if "reference" in definition.hooks:
        return _hooked(definition, call, definition.hooks["reference"])
    parts = definition.decompose(call)
    if parts is not None:
        return _composed(parts, call)
    spec = definition.index_spec(call)
    if spec is None or not (spec.computes or spec.whole):
        message = "no implementation: expected a scalar body, a decomposition or a reference"
        hint = f"attach a NumPy function: `@{definition.name}.reference`"
        raise StructInfoError(Diagnostic(message, None, definition.name, hint=hint))
    if spec.whole:
        body = _hook_arguments(definition, call)
        return _whole(spec, definition.body, body, info)
    return lambda values: _packed(run(spec, _operands(spec, values)), info)


def _operands(spec: IndexSpec, values: Sequence[Value]) -> list[Any]:
    return [at_path(values, info.path) for info in spec.operands]


def at_path(values: Sequence[Value], path: tuple[int, ...]) -> Any:
    """Returns the tensor at a path among the arguments of a call."""
    value = values[path[0]]
    return np.asarray(value[path[1]] if len(path) > 1 else value)


def _packed(arrays: Sequence[Any], info: StructInfo) -> Value:
    if isinstance(info, TupleStructInfo):
        return tuple(arrays)
    return arrays[0]


def _whole(
    spec: IndexSpec, body: Callable[..., Any], values_of: Callable[..., Any], info: StructInfo
) -> Way:
    def way(values: tuple[Value, ...]) -> Value:
        def applied(arrays: Mapping[str, Any]) -> Any:
            _, keywords = values_of(values)
            return body(**{**keywords, **arrays})

        return _packed(run_whole(spec, _operands(spec, values), applied), info)

    return way


def _hook_arguments(
    definition: SignatureOpDefinition, call: Call
) -> Callable[[tuple[Value, ...]], tuple[list[Any], dict[str, Any]]]:
    """Returns a function from values to operands in order (None if omitted) and attributes."""
    given = deduction.call_arguments(definition, call.args, call.attrs)
    reading = {**given.attributes}
    positions = {p.name: k for k, p in enumerate(definition.signature.arguments)}

    def arguments(values: tuple[Value, ...]) -> tuple[list[Any], dict[str, Any]]:
        operands = []
        for name, info in given.operands.items():
            position = positions[name]
            value = values[position] if position < len(values) else None
            if isinstance(info, TensorStructInfo):
                value = np.asarray(value)
            operands.append(None if info is None else value)
        return operands, reading

    return arguments


def _hooked(definition: SignatureOpDefinition, call: Call, hook: Callable[..., Any]) -> Way:
    arguments = _hook_arguments(definition, call)

    def way(values: tuple[Value, ...]) -> Value:
        operands, attributes = arguments(values)
        try:
            made = hook(*operands, **attributes)
        except (
            ArithmeticError,
            IndexError,
            ValueError,
        ) as error:  # values that do not fit the operands
            raise ShapeMismatchError(f"{definition.name}: {error}") from error
        return _stored(made, call.struct_info)

    return way


def _stored(value: Value, info: StructInfo | None) -> Value:
    """Converts the values of a hook to the dtypes of the op."""
    if isinstance(info, TupleStructInfo):
        return tuple([_stored(v, field) for v, field in zip(value, info.fields, strict=True)])
    if not isinstance(info, TensorStructInfo):
        return value
    array = np.asarray(value)
    return array if info.dtype is None else array.astype(numpy_dtype(info.dtype), copy=False)


def _composed(parts: Expr, call: Call) -> Way:
    """Evaluates a decomposition over the arguments of a call."""

    return lambda values: tree_value(parts, call, values, {})


def tree_value(
    parts: Expr, call: Call, values: tuple[Value, ...], known: dict[int, Value]
) -> Value:
    """Evaluates an expression tree over the arguments of a call; `known` caches all nodes."""
    for arg, value in zip(call.args, values, strict=True):
        _learn(arg, value, known)
    return _tree_value(parts, known)


def _learn(arg: Expr, value: Value, known: dict[int, Value]) -> None:
    known[id(arg)] = value
    if isinstance(arg, Tuple):
        for field, item in zip(arg.fields, value, strict=True):
            _learn(field, item, known)


def _tree_value(expr: Expr, known: dict[int, Value]) -> Value:
    if id(expr) in known:
        return known[id(expr)]
    found = TREE_VALUES[type(expr)](expr, known)
    known[id(expr)] = found
    return found


def _call_value(call: Call, known: dict[int, Value]) -> Value:
    values = tuple([_tree_value(arg, known) for arg in call.args])
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    return definition.reference(call, values)


TREE_VALUES: dict[type, Callable[[Any, dict[int, Value]], Value]] = {
    Call: _call_value,
    Constant: lambda expr, known: expr.data,
    PrimValue: lambda expr, known: expr.value,
    ShapeExpr: lambda expr, known: expr.dims,
    StringImm: lambda expr, known: expr.value,
    DataTypeImm: lambda expr, known: expr.value,
    Tuple: lambda expr, known: tuple([_tree_value(f, known) for f in expr.fields]),
    TupleGetItem: lambda expr, known: _tree_value(expr.tuple_value, known)[expr.index],
}
