"""Evaluates op calls in NumPy: from the index spec, decomposition, whole-axis body, or hook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from structir.errors import Diagnostic, StructInfoError, rejected
from structir.ir.dims import Dim
from structir.ir.dtype import dtype_of, numpy_dtype
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
from structir.ir.op import Op, clear_on_redeclaration
from structir.ir.struct_info import (
    OBJECT,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.ir.user_rules import checked_rule
from structir.lazy import lazy_module
from structir.opdef import deduction
from structir.opdef.define import shown_name
from structir.opdef.diagnostics import signature_text
from structir.opdef.index_expr import IndexExtent, IndexVar, leaves
from structir.opdef.parameters import OMITTED
from structir.projections.run import run
from structir.projections.spec import IndexSpec
from structir.projections.whole_axes import array_of, run_whole_axes, unexpected_value

if TYPE_CHECKING:
    from structir.opdef.define import SignatureOpDefinition

np = lazy_module("numpy")

Value = Any  # a NumPy array, a tuple of values, a shape as a tuple of ints, a number or a string
Evaluator = Callable[[tuple[Value, ...]], Any]  # from the values of the arguments to the result


def evaluate(definition: SignatureOpDefinition, call: Call, values: tuple[Value, ...]) -> Value:
    """Computes the result of a call.

    Raises StructInfoError where the values do not match the op.
    """
    if "as_written" in definition.hooks:
        values = definition.hooks["as_written"](call, values)
    pairs = zip(call.args, values, strict=True)
    signature = tuple([_signature_of(arg, value) for arg, value in pairs])
    attributes = tuple([(n, type(v), v) for n, v in call.attrs.items()])
    return _evaluator(definition.op, signature, attributes)(values)


# Memo keys of run-time values: kind, shape and dtype determine the StructInfo of the result.


def _signature_of(arg: Expr, value: Value) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return "tensor", value.shape, dtype_of(value)
    if isinstance(value, tuple):
        if _is_shape(arg.struct_info, value) and type(arg) is not Tuple:
            return "shape", tuple(map(int, value))
        return "tuple", tuple([_signature_of(field, v) for field, v in _fields(arg, value)])
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
    field_infos = [infos[k] if k < len(infos) else OBJECT for k in range(len(value))]
    return [(Var("field", info), v) for info, v in zip(field_infos, value, strict=True)]


def _argument(signature: Any) -> Expr:
    """Returns an argument expression with the StructInfo of a value."""
    match signature:
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
    raise TypeError(signature)


# Evaluators. Work that depends on shapes only is done once per memo key.


def concrete(definition: SignatureOpDefinition, call: Call, values: tuple[Value, ...]) -> Call:
    """Returns the call with arguments of the concrete shapes and dtypes of `values`."""
    pairs = zip(call.args, values, strict=True)
    args = tuple([_argument(_signature_of(arg, value)) for arg, value in pairs])
    untyped = Call(definition.op, args, call.attrs)
    return Call(definition.op, args, call.attrs, (), definition.deduce(untyped))


@lru_cache(2048)
def _evaluator(op: Op, signature: tuple[Any, ...], attributes: tuple[Any, ...]) -> Evaluator:
    definition: Any = op.definition
    args = tuple([_argument(s) for s in signature])
    static = {name: value for name, _, value in attributes}
    untyped = Call(op, args, static)
    info = definition.deduce(untyped)
    call = Call(op, args, static, (), info)
    if "reference" in definition.hooks:
        return _hook_evaluator(definition, call, definition.hooks["reference"])
    parts = definition.decompose(call)
    if parts is not None:
        return _decomposition_evaluator(parts, call)
    spec = definition.index_spec(call)
    if spec is None or not (spec.computes or spec.whole):
        _check_pack_ranks(definition, call)
        _check_sizes(definition, call)
        message = "no implementation: expected a scalar body, a decomposition or a reference"
        hint = f"attach a NumPy function: `@{definition.name}.reference`"
        raise StructInfoError(Diagnostic(message, None, definition.name, hint=hint))
    if spec.whole:
        body = _hook_arguments(definition, call)
        return _whole_axis_evaluator(definition, spec, body, info)
    return lambda values: _as_result(run(spec, _operands(spec, values)), info)


clear_on_redeclaration(_evaluator.cache_clear)


def _check_pack_ranks(definition: SignatureOpDefinition, call: Call) -> None:
    """Raises where the ranks of the operands leave the rank of an axis pack open."""
    resolved = definition.resolve(call)
    packs = dict.fromkeys(p for access in resolved.index_signature.operands for p in access.packs)
    unknown = [f"*{pack}" for pack in packs if resolved.pack_ranks.get(pack) is None]
    if unknown:
        message = f"ambiguous ranks: expected one rank for {', '.join(unknown)}, found several"
        note = f"index signature: {signature_text(resolved.index_signature)}"
        pack = unknown[0]
        hint = f"write the axes of `{pack}` as index variables: `{pack[1:]}1 {pack[1:]}2`"
        diagnostic = Diagnostic(message, None, definition.name, hint=hint, code="E0304")
        raise StructInfoError(diagnostic.note(note))


def _check_sizes(definition: SignatureOpDefinition, call: Call) -> None:
    """Raises where the sizes of the operands leave the extent of an index variable open."""
    resolved = definition.resolve(call)
    entries = [e for axes in (*resolved.operands, *resolved.results) for e in axes or ()]
    parts = [part for e in entries for part in (e.index, e.size) if part is not None]
    variables = [leaf for part in parts for leaf in leaves(part)]
    names = dict.fromkeys(v.name for v in variables if isinstance(v, IndexExtent | IndexVar))
    unknown = [name for name in names if name not in resolved.extents]
    open_size = definition.hooks.get("open_size")
    if unknown and open_size is not None:
        message = f"undetermined size: expected one size for {unknown[0]}, found several"
        note = f"index signature: {signature_text(resolved.index_signature)}"
        diagnostic = Diagnostic(message, None, definition.name, hint=open_size(call, unknown[0]))
        raise StructInfoError(diagnostic.coded("E0310").note(note))


def _operands(spec: IndexSpec, values: Sequence[Value]) -> list[Any]:
    return [at_path(values, info.path) for info in spec.operands]


def at_path(values: Sequence[Value], path: tuple[int, ...]) -> Any:
    """Returns the tensor at a path in the argument values of a call."""
    value = values[path[0]]
    return np.asarray(value[path[1]] if len(path) > 1 else value)


def _as_result(arrays: Sequence[Any], info: StructInfo) -> Value:
    if isinstance(info, TupleStructInfo):
        return tuple(arrays)
    return arrays[0]


def _accepted(_: Any) -> bool:
    return True  # values are checked against the StructInfo of the result


@contextmanager
def _named(noun: str, name: str) -> Iterator[None]:
    """Adds to the error of a value which function of which op returned it."""
    try:
        yield
    except StructInfoError as error:
        diagnostic = error.diagnostics[0]
        if diagnostic.code == "E1135" and not diagnostic.op:
            message = f"the {noun}: {diagnostic.message}"
            raise StructInfoError(attrs.evolve(diagnostic, message=message, op=name)) from error
        raise


def _whole_axis_evaluator(
    definition: SignatureOpDefinition,
    spec: IndexSpec,
    values_of: Callable[..., Any],
    info: StructInfo,
) -> Evaluator:
    name = definition.name
    body = checked_rule(definition.body, "body", name, "a value", _accepted)

    def evaluate_values(values: tuple[Value, ...]) -> Value:
        def applied(arrays: Mapping[str, Any]) -> Any:
            _, keywords = values_of(values)
            return body(**{**keywords, **arrays})

        with _named("body", name):
            return _as_result(run_whole_axes(spec, _operands(spec, values), applied), info)

    return evaluate_values


def _hook_arguments(
    definition: SignatureOpDefinition, call: Call
) -> Callable[[tuple[Value, ...]], tuple[list[Any], dict[str, Any]]]:
    """Returns a function from argument values to the operands and attributes of a hook."""
    call_view = deduction.call_arguments(definition, call.args, call.attrs)
    attributes = {**call_view.attributes}
    positions = {p.name: k for k, p in enumerate(definition.signature.arguments)}

    def arguments(values: tuple[Value, ...]) -> tuple[list[Any], dict[str, Any]]:
        operands = []
        for name, info in call_view.operands.items():
            position = positions[name]
            value = values[position] if position < len(values) else None
            if isinstance(info, TensorStructInfo):
                value = np.asarray(value)
            operands.append(None if info is None else value)
        return operands, attributes

    return arguments


REJECTIONS = (ArithmeticError, IndexError, ValueError)  # of invalid operand values


def _hook_evaluator(
    definition: SignatureOpDefinition, call: Call, hook: Callable[..., Any]
) -> Evaluator:
    arguments = _hook_arguments(definition, call)
    name = definition.name
    hook = checked_rule(hook, "reference hook", name, "a value", _accepted, raises=REJECTIONS)

    def evaluate_values(values: tuple[Value, ...]) -> Value:
        operands, attributes = arguments(values)
        try:
            result = hook(*operands, **attributes)
        except REJECTIONS as error:
            rejection = definition.hooks.get("rejects_values") or Diagnostic("")
            raise rejected(rejection, shown_name(definition), str(error)) from error
        with _named("reference hook", name):
            return _convert(result, call.struct_info)

    return evaluate_values


def _convert(value: Value, info: StructInfo | None) -> Value:
    """Converts the result of a hook to the dtypes of its StructInfo; checks its shape."""
    if isinstance(info, TupleStructInfo):
        has_fields = isinstance(value, tuple | list) or np.ndim(value) > 0
        count = len(value) if has_fields else 1
        if count != len(info.fields):
            raise unexpected_value(f"{len(info.fields)} results", str(count))
        return tuple([_convert(v, field) for v, field in zip(value, info.fields, strict=True)])
    if not isinstance(info, TensorStructInfo):
        return value
    array = array_of(value)
    if isinstance(info.dims, tuple) and not _has_shape(array, info.dims):
        raise unexpected_value(f"an array of shape {info.dims}", str(array.shape))
    return array if info.dtype is None else array.astype(numpy_dtype(info.dtype), copy=False)


def _has_shape(array: Any, dims: Sequence[Dim]) -> bool:
    """Whether an array has the constant sizes; others depend on data."""
    return array.ndim == len(dims) and all(
        [
            not isinstance(dim, int) or dim == size
            for dim, size in zip(dims, array.shape, strict=True)
        ]
    )


def _decomposition_evaluator(parts: Expr, call: Call) -> Evaluator:
    """Returns the evaluator of a decomposition."""

    return lambda values: tree_value(parts, call, values, {})


def tree_value(
    parts: Expr, call: Call, values: tuple[Value, ...], cache: dict[int, Value]
) -> Value:
    """Evaluates an expression tree over the arguments of a call; `cache` is keyed by node id."""
    for arg, value in zip(call.args, values, strict=True):
        _bind_argument(arg, value, cache)
    return _tree_value(parts, cache)


def _bind_argument(arg: Expr, value: Value, cache: dict[int, Value]) -> None:
    cache[id(arg)] = value
    if isinstance(arg, Tuple):
        for field, item in zip(arg.fields, value, strict=True):
            _bind_argument(field, item, cache)


def _tree_value(expr: Expr, cache: dict[int, Value]) -> Value:
    if id(expr) in cache:
        return cache[id(expr)]
    value = TREE_VALUES[type(expr)](expr, cache)
    cache[id(expr)] = value
    return value


def _call_value(call: Call, cache: dict[int, Value]) -> Value:
    values = tuple([_tree_value(arg, cache) for arg in call.args])
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    return definition.reference(call, values)


TREE_VALUES: dict[type, Callable[[Any, dict[int, Value]], Value]] = {
    Call: _call_value,
    Constant: lambda expr, cache: expr.data,
    PrimValue: lambda expr, cache: expr.value,
    ShapeExpr: lambda expr, cache: expr.dims,
    StringImm: lambda expr, cache: expr.value,
    DataTypeImm: lambda expr, cache: expr.value,
    Tuple: lambda expr, cache: tuple([_tree_value(f, cache) for f in expr.fields]),
    TupleGetItem: lambda expr, cache: _tree_value(expr.tuple_value, cache)[expr.index],
}
