"""Dtypes, NumPy values and derivatives of scalar expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, reduce
from typing import TYPE_CHECKING, Any

import attrs

from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.dtype import FLOATS, dtype_name, int_bits, is_float, is_int, wider_int
from structir.lazy import lazy_module
from structir.projections.conversion import convert_dtype
from structir.projections.scalar_expr import (
    FUNCTIONS,
    LoopIndex,
    OperandElement,
    ScalarExpr,
    ScalarExtent,
    ScalarLiteral,
    ScalarOp,
    add,
    as_scalar_expr,
    mul,
)

if TYPE_CHECKING:
    pass

np = lazy_module("numpy")

Array = Any  # a NumPy array of any dtype, bfloat16 among them

# Literals and index variables take the dtype of the other operand.
WEAK_INT, WEAK_FLOAT = "weak int", "weak float"
SETTLED = {WEAK_INT: "int64", WEAK_FLOAT: "float64"}
LITERAL_KINDS = {bool: "bool", int: WEAK_INT, float: WEAK_FLOAT}
WIDE_FLOATS = ("float64", "float32")


def dtype_of(expr: ScalarExpr, dtypes: Mapping[str, str]) -> str:
    """Returns the dtype of a scalar expression; literals alone are int64 or float64."""
    kind = _kind(expr, dtypes)
    return SETTLED.get(kind, kind)


def _kind(expr: ScalarExpr, dtypes: Mapping[str, str]) -> str:
    match expr:
        case OperandElement(name):
            return dtypes[name]
        case ScalarLiteral(value):
            return LITERAL_KINDS[type(value)]
        case ScalarOp(fn, args, dtype):
            return RULES[FUNCTIONS[fn].rule]([_kind(a, dtypes) for a in args], dtype)
        case _:
            return WEAK_INT


def promote_dtypes(kinds: list[str]) -> str:
    """Returns the promoted dtype: floats before integers, wider before narrower, weak last."""
    return reduce(_promote_pair, kinds)


def widened(term: str, total: str) -> bool:
    """Whether terms of one dtype are converted to the dtype of their total before accumulation."""
    if is_int(term) and is_float(total):
        return True
    if is_int(term) and is_int(total):
        return int_bits(term) < int_bits(total)
    floats = is_float(term) and is_float(total)
    return floats and term != total and promote_dtypes([term, total]) == total


@cache
def _promote_pair(a: str, b: str) -> str:
    if a == b:
        return a
    if b in SETTLED:
        a, b = b, a
    if a in SETTLED:
        return _weak_pair(a, b)
    if "bool" in (a, b):
        return b if a == "bool" else a
    floats = {a, b} & FLOATS
    if len(floats) == 2:
        return next((f for f in WIDE_FLOATS if f in floats), "float32")
    if floats:
        return floats.pop()
    return wider_int(a, b)


def _weak_pair(weak: str, other: str) -> str:
    if other in SETTLED:
        return WEAK_FLOAT
    if weak == WEAK_FLOAT:
        return other if is_float(other) else "float64"
    return WEAK_INT if other == "bool" else other


def _promote_to_float(kinds: list[str], _: str | None) -> str:
    kind = promote_dtypes(kinds)
    if is_float(kind):
        return kind
    return WEAK_FLOAT if kind in SETTLED else "float64"


RULES: dict[str, Callable[[list[str], str | None], str]] = {
    "same": lambda kinds, _: promote_dtypes(kinds),
    "float": _promote_to_float,
    "quotient": lambda kinds, _: (
        "float64" if promote_dtypes(kinds) == "bool" else promote_dtypes(kinds)
    ),
    "compare": lambda kinds, _: "bool",
    "logic": lambda kinds, _: "bool",
    "test": lambda kinds, _: "bool",
    "select": lambda kinds, _: promote_dtypes(kinds[1:]),
    "cast": lambda _, dtype: dtype or "float32",
}


def computing_dtype(dtype: str) -> str:
    """Returns the dtype of computations on elements: narrow floats widen to float32."""
    return "float32" if is_float(dtype) and dtype not in WIDE_FLOATS else dtype


@attrs.frozen(eq=False)
class EvaluationPoint:
    """The values at which a scalar expression is evaluated: reads, index variables and sizes."""

    values: Mapping[str, Array]
    index_vars: Mapping[Sym, Array] = attrs.Factory(dict)
    sizes: Mapping[Sym, int] = attrs.Factory(dict)


def evaluate(expr: ScalarExpr, at: EvaluationPoint) -> Array:
    """Returns the value of a scalar expression over arrays that broadcast against each other.

    Narrow floats are computed in float32; the caller rounds the result to the stored dtype.
    """
    with np.errstate(all="ignore"):
        return _evaluate(expr, at)[0]


TypedArray = tuple[Array, str]


def _evaluate(expr: ScalarExpr, at: EvaluationPoint) -> TypedArray:
    results: list[TypedArray] = []
    for node, args in _order(expr):
        results.append(EVALUATORS[type(node)](node, at, [results[k] for k in args]))
    return results[-1]


@lru_cache(4096)
def _order(expr: ScalarExpr) -> tuple[tuple[ScalarExpr, tuple[int, ...]], ...]:
    """Returns the distinct nodes of an expression, operands first, with the positions of their
    operands."""
    positions: dict[ScalarExpr, int] = {}
    by_id: dict[int, int] = {}  # equal nodes share a position, and are compared once
    worklist: list[tuple[ScalarExpr, bool]] = [(expr, False)]
    steps: list[tuple[ScalarExpr, tuple[int, ...]]] = []
    while worklist:
        node, is_ready = worklist.pop()
        if id(node) in by_id:
            continue
        args = node.args if isinstance(node, ScalarOp) else ()
        if not is_ready and args:
            worklist += [(node, True), *[(a, False) for a in reversed(args)]]
            continue
        position = by_id[id(node)] = positions.setdefault(node, len(steps))
        if position == len(steps):
            steps.append((node, tuple([by_id[id(a)] for a in args])))
    return tuple(steps)


def _operand_value(expr: OperandElement, at: EvaluationPoint, _: list[TypedArray]) -> TypedArray:
    value = at.values[expr.name]
    dtype = dtype_name(value.dtype)
    wide = computing_dtype(dtype)
    return (value if wide == dtype else value.astype(wide)), wide


def _index_value(expr: LoopIndex, at: EvaluationPoint, _: list[TypedArray]) -> TypedArray:
    return at.index_vars[expr.index_var], WEAK_INT


def _literal_value(expr: ScalarLiteral, at: EvaluationPoint, _: list[TypedArray]) -> TypedArray:
    kind = LITERAL_KINDS[type(expr.value)]
    return np.asarray(expr.value, SETTLED.get(kind, kind)), kind


def _extent_value(expr: ScalarExtent, at: EvaluationPoint, _: list[TypedArray]) -> TypedArray:
    return np.asarray(dims.evaluate(expr.dim, at.sizes), "int64"), WEAK_INT


def _apply_value(expr: ScalarOp, at: EvaluationPoint, operands: list[TypedArray]) -> TypedArray:
    values, kinds = [v for v, _ in operands], [k for _, k in operands]
    function = FUNCTIONS[expr.fn]
    kind = RULES[function.rule](kinds, expr.dtype)
    kind = kind if kind in SETTLED else computing_dtype(kind)
    return APPLIERS[function.rule](expr, values, kinds, kind), kind


EVALUATORS: dict[type, Callable[..., TypedArray]] = {
    OperandElement: _operand_value,
    LoopIndex: _index_value,
    ScalarLiteral: _literal_value,
    ScalarExtent: _extent_value,
    ScalarOp: _apply_value,
}


def as_kind(value: Array, kind: str) -> Array:
    """Returns an array in the dtype in which values of a kind are computed."""
    dtype = SETTLED.get(kind, kind)
    return value if dtype_name(value.dtype) == dtype else value.astype(dtype)


@cache
def ufunc(name: str | Callable[..., Array]) -> Callable[..., Array]:
    """Returns the NumPy function of a table entry, or the one defined here or in a declaration."""
    if not isinstance(name, str):
        return name
    function = OWN_FUNCTIONS.get(name)
    result: Callable[..., Array] = function if function is not None else getattr(np, name)
    return result


def _same(expr: ScalarOp, values: list[Array], kinds: list[str], kind: str) -> Array:
    if expr.fn in ROUNDINGS and not is_float(kind) and kind != WEAK_FLOAT:
        return values[0]
    if kind == "bool" and expr.fn not in BITWISE:  # NumPy has no arithmetic on booleans
        return ufunc(FUNCTIONS[expr.fn].numpy)(*[v.astype("int8") for v in values]) != 0
    return ufunc(FUNCTIONS[expr.fn].numpy)(*[as_kind(v, kind) for v in values])


def _float(expr: ScalarOp, values: list[Array], kinds: list[str], kind: str) -> Array:
    return ufunc(FUNCTIONS[expr.fn].numpy)(*[as_kind(v, kind) for v in values])


def _compare(expr: ScalarOp, values: list[Array], kinds: list[str], kind: str) -> Array:
    common = promote_dtypes(kinds)
    if is_float(common):
        values = [as_kind(v, common) for v in values]
    return ufunc(FUNCTIONS[expr.fn].numpy)(*values)


def _plain(expr: ScalarOp, values: list[Array], kinds: list[str], kind: str) -> Array:
    return ufunc(FUNCTIONS[expr.fn].numpy)(*values)


def _select(expr: ScalarOp, values: list[Array], kinds: list[str], kind: str) -> Array:
    condition = values[0] if kinds[0] == "bool" else values[0] != 0
    return np.where(condition, as_kind(values[1], kind), as_kind(values[2], kind))


def _cast(expr: ScalarOp, values: list[Array], kinds: list[str], kind: str) -> Array:
    return convert_dtype(values[0], expr.dtype or kind).astype(kind)


APPLIERS: dict[str, Callable[[ScalarOp, list[Array], list[str], str], Array]] = {
    "same": _same,
    "float": _float,
    "quotient": _float,
    "compare": _compare,
    "logic": _plain,
    "test": _plain,
    "select": _select,
    "cast": _cast,
}
ROUNDINGS = frozenset({"ceil", "floor", "round", "trunc"})
BITWISE = frozenset({"bitand", "bitor", "bitxor", "bitnot", "min", "max"})


def _quotient(x: Array, y: Array) -> Array:
    if is_float(dtype_name(x.dtype)):
        return np.divide(x, y)
    low = _floor_divide(x, y)  # 0 for division by zero
    rounded_down = (low * y != x) & (y != 0) & ((x < 0) != (y < 0))
    return low + rounded_down.astype(low.dtype)


def _in_bytes(function: Callable[[Array, Array], Array], x: Array, y: Array) -> Array:
    """Applies a function to integers; those of fewer than 8 bits are computed in 8.

    Division by zero of arrays of these dtypes ends the process in ml_dtypes 0.6.
    """
    dtype = dtype_name(x.dtype)
    if is_float(dtype) or int_bits(dtype) >= 8:
        return function(x, y)
    wide = "uint8" if dtype.startswith("uint") else "int8"
    return function(x.astype(wide), y.astype(wide)).astype(x.dtype)


def _floor_divide(x: Array, y: Array) -> Array:
    return _in_bytes(np.floor_divide, x, y)


OWN_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "quotient": _quotient,
    "floor_divide": _floor_divide,
    "mod": lambda x, y: _in_bytes(np.mod, x, y),
}


def is_own(fn: str) -> bool:
    """Whether NumPy lacks a scalar function."""
    function = FUNCTIONS[fn].numpy
    return not isinstance(function, str) or function in OWN_FUNCTIONS


ZERO, ONE = ScalarLiteral(0), ScalarLiteral(1)


def derivative(expr: ScalarExpr, operand: str) -> ScalarExpr:
    """Returns the partial derivative by one read."""
    return _derivative(expr, operand, {})


def _derivative(expr: ScalarExpr, operand: str, memo: dict[ScalarExpr, ScalarExpr]) -> ScalarExpr:
    if isinstance(expr, OperandElement):
        return ONE if expr.name == operand else ZERO
    if not isinstance(expr, ScalarOp):
        return ZERO
    result = memo.get(expr)
    if result is None:
        result = memo[expr] = _apply_chain_rule(expr, operand, memo)
    return result


def _apply_chain_rule(
    expr: ScalarOp, operand: str, memo: dict[ScalarExpr, ScalarExpr]
) -> ScalarExpr:
    total: ScalarExpr = ZERO
    if expr.dtype is not None and not is_float(expr.dtype):
        return total
    function = FUNCTIONS[expr.fn]
    if function.body is not None and not function.slopes:
        return _derivative(function.body(*expr.args), operand, memo)
    for argument, slope in zip(expr.args, function.slopes, strict=False):
        inner = _derivative(argument, operand, memo)
        outer = None if _is(inner, ZERO) else slope(*expr.args)
        if outer is not None:
            total = _sum(total, _product(as_scalar_expr(outer), inner))
    return total


def _is(expr: ScalarExpr, literal: ScalarLiteral) -> bool:
    return type(expr) is ScalarLiteral and expr == literal


def _product(a: ScalarExpr, b: ScalarExpr) -> ScalarExpr:
    if _is(a, ZERO) or _is(b, ZERO):
        return ZERO
    if _is(a, ONE):
        return b
    return a if _is(b, ONE) else mul(a, b)


def _sum(a: ScalarExpr, b: ScalarExpr) -> ScalarExpr:
    if _is(a, ZERO):
        return b
    return a if _is(b, ZERO) else add(a, b)
