"""Scalar expressions of the loop IR, with dtypes and hash-consing: equality is identity; and those
of the scalar expressions of index signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import attrs
import numpy as np

from structir.errors import StructIRError
from structir.ir import dims
from structir.ir.dims import Dim, Sym, substitute
from structir.ir.dtype import EXTENDED, INTS, is_float
from structir.ir.kernel import computed_in
from structir.ir.kernel_functions import NARROW, ROUND
from structir.ir.scalar_functions import declared
from structir.loops.program.buffer import Buffer
from structir.projections.conversion import convert_dtype
from structir.projections.scalar_expr import (
    FUNCTIONS,
    LoopIndex,
    OperandElement,
    ScalarExpr,
    ScalarExtent,
    ScalarLiteral,
    ScalarOp,
)
from structir.projections.values import LITERAL_KINDS, RULES, SETTLED, WEAK_INT, promote_dtypes


class Expression:
    """A value at one iteration point. `dtype` is that of the computation."""

    __slots__ = ()
    dtype: str


Entry = Dim | Expression  # an index: over axes and sizes, or loaded from data
E = TypeVar("E", bound=Expression)


@attrs.frozen(eq=False, repr=False)
class Number(Expression):
    """A constant."""

    value: float | int | bool
    dtype: str

    def __repr__(self) -> str:
        return repr(self.value)


@attrs.frozen(eq=False, repr=False)
class Position(Expression):
    """An integer over axes and sizes, as a value."""

    dim: Dim
    dtype: str

    def __repr__(self) -> str:
        return dims.text(self.dim)


@attrs.frozen(eq=False, repr=False)
class Load(Expression):
    """The element of a buffer at an index."""

    buffer: Buffer
    entries: tuple[Entry, ...]
    dtype: str

    def __repr__(self) -> str:
        texts = [repr(e) if isinstance(e, Expression) else dims.text(e) for e in self.entries]
        return f"{self.buffer}[{', '.join(texts)}]"


@attrs.frozen(eq=False, repr=False)
class Operation(Expression):
    """A scalar function of the table; an `exact` one is never replaced by another."""

    fn: str
    args: tuple[Expression, ...]
    dtype: str
    exact: bool = False

    def __repr__(self) -> str:
        return f"{self.fn}({', '.join(map(repr, self.args))})"


@attrs.frozen(eq=False, repr=False)
class Total(Expression):
    """The total of the reduction into a buffer, in the current row."""

    buffer: Buffer
    dtype: str

    def __repr__(self) -> str:
        return f"total({self.buffer})"


_made: WeakValueDictionary[tuple[Any, ...], Expression] = WeakValueDictionary()


def _once(key: tuple[Any, ...], make: Callable[[], E]) -> E:
    node = _made.get(key)
    if node is None:
        node = _made[key] = make()
    return node  # type: ignore[return-value]


def number(value: float | int | bool, dtype: str) -> Number:
    """Returns a constant of a dtype."""
    return _once((Number, repr(value), dtype), lambda: Number(value, dtype))


def position(dim: Dim, dtype: str) -> Expression:
    """Returns an integer over axes and sizes as a value; a plain number if it is constant."""
    if isinstance(dim, int):
        return number(dim, dtype)
    return _once((Position, dim, dtype), lambda: Position(dim, dtype))


def load(buffer: Buffer, entries: tuple[Entry, ...]) -> Load:
    """Returns the element of a buffer at an index."""
    dtype = computed_in(buffer.dtype)
    return _once((Load, buffer, entries), lambda: Load(buffer, entries, dtype))


def apply(fn: str, args: tuple[Expression, ...], dtype: str, exact: bool = False) -> Operation:
    """Applies a scalar function."""
    return _once((Operation, fn, args, dtype, exact), lambda: Operation(fn, args, dtype, exact))


def total(buffer: Buffer) -> Total:
    """Returns the total of the reduction into a buffer."""
    return _once((Total, buffer), lambda: Total(buffer, computed_in(buffer.dtype)))


def axis_dim(axis: Sym) -> Dim:
    """Returns an axis as an index."""
    return dims.as_dim(axis)


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """Returns the children of an expression: arguments, and indices that are loaded from data."""
    kind = type(expression)
    if kind is Operation:
        return expression.args  # type: ignore[attr-defined, no-any-return]
    if kind is Load:
        entries = expression.entries  # type: ignore[attr-defined]
        return tuple([e for e in entries if isinstance(e, Expression)])
    return ()


def walk(expression: Expression) -> list[Expression]:
    """Returns every node below and including one, each once, parents first."""
    nodes: dict[Expression, None] = {}
    todo = [expression]
    while todo:
        node = todo.pop()
        if node not in nodes:
            nodes[node] = None
            todo += parts_of(node)
    return list(nodes)


def loads_of(expression: Expression) -> list[Load]:
    """Returns the loads in an expression, each once."""
    return [node for node in walk(expression) if type(node) is Load]


def symbols_of(expression: Expression) -> frozenset[Sym]:
    """Returns the axes and sizes in the indices of a value."""
    free_sizes: list[Dim] = []
    for node in walk(expression):
        if isinstance(node, Load):
            free_sizes += [entry for entry in node.entries if not isinstance(entry, Expression)]
        elif isinstance(node, Position):
            free_sizes.append(node.dim)
    return frozenset().union(*map(dims.syms, free_sizes))


Leaf = Callable[[Expression], Expression]
OfOperation = Callable[[Operation, tuple[Expression, ...]], Expression]


def bottom_up(
    expression: Expression, operation: OfOperation, leaf: Leaf | None = None
) -> Expression:
    """Returns the expression with `operation` applied to each function application and its new
    arguments, and `leaf` to everything else, once each."""
    return _visited(expression, operation, leaf, {})


# A function of a module: one that calls itself by a captured name is a cycle of references, which
# keeps the expressions until the next garbage collection.
def _visited(
    node: Expression,
    operation: OfOperation,
    leaf: Leaf | None,
    results: dict[Expression, Expression],
) -> Expression:
    if leaf is None and not isinstance(node, Operation):
        return node
    known = results.get(node)
    if known is not None:
        return known
    if isinstance(node, Operation):
        args = tuple([_visited(a, operation, leaf, results) for a in node.args])
        result = operation(node, args)
    else:
        result = node if leaf is None else leaf(node)
    results[node] = result
    return result


def rebuilt(expression: Expression, leaf: Leaf) -> Expression:
    """Returns the expression with `leaf` applied to everything that is no function application,
    once each."""
    return bottom_up(expression, _with_args, leaf)


def _with_args(node: Operation, args: tuple[Expression, ...]) -> Expression:
    changed = any([a is not b for a, b in zip(args, node.args, strict=True)])
    return apply(node.fn, args, node.dtype, node.exact) if changed else node


def exactly(expression: Expression) -> Expression:
    """Returns the expression with all its functions marked as exact."""
    return bottom_up(expression, lambda node, args: apply(node.fn, args, node.dtype, True))


def substituted(
    expression: Expression, replacements: Mapping[Sym, Dim], data: Mapping[Sym, Expression] = {}
) -> Expression | None:
    """Returns the expression at other axes; None if an index loaded from data would enter
    arithmetic.

    `data` maps axes to indices loaded from data, which are allowed only where the axis is alone.
    """
    substitution = _AxisSubstitution(replacements, data)
    result = rebuilt(expression, substitution.leaf)
    return None if substitution.failed else result


@attrs.define(eq=False)
class _AxisSubstitution:
    """The indices that replace axes; `failed` where one loaded from data would enter arithmetic."""

    replacements: Mapping[Sym, Dim]
    data: Mapping[Sym, Expression]
    failed: bool = False

    def leaf(self, node: Expression) -> Expression:
        """Returns a load or a position at other axes."""
        if isinstance(node, Load):
            entries = tuple([self._entry(e) for e in node.entries])
            changed = any([a is not b for a, b in zip(entries, node.entries, strict=True)])
            return load(node.buffer, entries) if changed else node
        if isinstance(node, Position):
            symbol = dims.as_sym(node.dim)
            if symbol is not None and symbol in self.data:
                return apply("cast", (self.data[symbol],), node.dtype)
            self.failed = self.failed or bool(dims.syms(node.dim) & self.data.keys())
            return position(dims.substitute(node.dim, self.replacements), node.dtype)
        return node

    def _entry(self, e: Entry) -> Entry:
        if isinstance(e, Expression):
            return rebuilt(e, self.leaf)
        if self.data and type(e) is not int:
            symbol = dims.as_sym(e)
            if symbol is not None and symbol in self.data:
                return self.data[symbol]
            self.failed = self.failed or bool(dims.syms(e) & self.data.keys())
        return dims.substitute(e, self.replacements)


OF_FLOATS = {"quotient": "div"}  # functions with another name for floats


class NoKernelError(StructIRError):
    """A computation that kernels cannot express; the op's reference runs instead."""


@attrs.frozen
class TypedExpression:
    """An expression and its kind: a dtype, or a weak one that adapts to the other operand."""

    value: Expression
    kind: str


def cast(value: Expression, dtype: str) -> Expression:
    """Returns the value in the computation dtype of elements of this one."""
    target = computed_in(dtype)
    if value.dtype == target:
        return value
    if isinstance(value, Number):
        return number(_number_as(value.value, target), target)
    if dtype == "float16" and value.dtype == "float64":  # it is rounded on the way to memory
        value = apply("to_odd", (value,), "float64")
    return apply("cast", (value,), target)


def _number_as(value: float | int | bool, dtype: str) -> float | int | bool:
    if dtype == "bool":
        return bool(value)
    if is_float(dtype):
        return float(value)
    converted: int = convert_dtype(np.asarray(value), dtype).item()
    return converted


def expression_of(
    point: ScalarExpr,
    reads: Mapping[str, Expression],
    dtypes: Mapping[str, str],
    letters: Mapping[Sym, Dim],
) -> Expression:
    """Returns the expression of a scalar expression, given its reads and its index variables."""
    return _ScalarConversion(reads, dtypes, letters).converted(point).value


@attrs.frozen(eq=False)
class _ScalarConversion:
    """The reads and index variables of a scalar expression, and the expressions of its nodes."""

    reads: Mapping[str, Expression]
    dtypes: Mapping[str, str]
    letters: Mapping[Sym, Dim]
    results: dict[ScalarExpr, TypedExpression] = attrs.Factory(dict)

    def converted(self, node: ScalarExpr) -> TypedExpression:
        """Returns the expression of a node, the same one each time."""
        result = self.results.get(node)
        if result is None:
            result = self.results[node] = self._new(node)
        return result

    def _new(self, node: ScalarExpr) -> TypedExpression:
        match node:
            case OperandElement(name):
                return TypedExpression(self.reads[name], self.dtypes[name])
            case ScalarLiteral(value):
                kind = LITERAL_KINDS[type(value)]
                dtype = SETTLED.get(kind, kind)
                return TypedExpression(number(value, dtype), kind)
            case LoopIndex(letter):
                return TypedExpression(
                    position(self.letters.get(letter, axis_dim(letter)), "int64"), WEAK_INT
                )
            case ScalarExtent(dim):
                return TypedExpression(
                    position(substitute(dim, dict(self.letters)), "int64"), WEAK_INT
                )
            case ScalarOp(fn, args, dtype) if FUNCTIONS[fn].is_inlined:
                return self.converted(FUNCTIONS[fn].inlined(*args))
            case ScalarOp(fn, args, dtype):
                return _applied(fn, [self.converted(a) for a in args], dtype)
        raise NoKernelError(f"no kernel form for {node!r}")


def _applied(fn: str, args: list[TypedExpression], dtype: str | None) -> TypedExpression:
    rule = FUNCTIONS[fn].rule
    kind = RULES[rule]([a.kind for a in args], dtype)
    if fn == "cast":
        return TypedExpression(_explicit_cast(args[0].value, kind), kind)
    settled = SETTLED.get(kind, kind)
    if rule == "logic":
        operands = [_truth(a.value) for a in args]
    elif rule == "select":
        operands = [_truth(args[0].value), *[cast(a.value, settled) for a in args[1:]]]
    else:
        own = promote_dtypes([a.kind for a in args]) if rule in ("compare", "test") else kind
        operands = [cast(a.value, SETTLED.get(own, own)) for a in args]
    result = computed_in(settled)
    if is_float(operands[-1].dtype):
        fn = OF_FLOATS.get(fn, fn)
    _require(fn, operands[-1].dtype)
    _require_dtype(settled)
    return TypedExpression(apply(fn, tuple(operands), result), kind)


def _explicit_cast(value: Expression, dtype: str) -> Expression:
    _require_dtype(dtype)
    cast_value = cast(value, dtype)
    if dtype in NARROW:
        return apply(f"{ROUND}{dtype}", (cast_value,), cast_value.dtype)
    return cast_value


def _truth(value: Expression) -> Expression:
    return cast(value, "bool")


def _require(fn: str, dtype: str) -> None:
    if not is_written(fn, dtype):
        raise NoKernelError(f"{fn} on {dtype} has no kernel form")


def _require_dtype(dtype: str) -> None:
    if dtype in EXTENDED and dtype not in NARROW:
        raise NoKernelError(f"no kernels compute with {dtype}")


# The scalar functions: on which dtypes kernels have them, and their costs.

ALL_KINDS = frozenset({"cast", "select", "lt", "le", "gt", "ge", "eq", "ne", "abs", "min", "max"})
ALL_KINDS |= {"add", "mul", "ceil", "floor", "round", "trunc", "isnan", "isinf", "isfinite"}
BITS = frozenset({"bitand", "bitor", "bitxor", "bitnot"})
NUMBERS = frozenset({"sub", "floordiv", "mod", "neg", "sign"})
FLOATS = NUMBERS | {"div", "to_odd", "accumulate_min", "accumulate_max"}
FLOATS |= {f"{ROUND}{dtype}" for dtype in NARROW}
WHOLE = NUMBERS | BITS | {"quotient", "pow", "shl", "shr"}
BOOLS = BITS | {"and", "or", "xor", "not"}
# Roughly: additions. What is cheaper than this to compute again is not kept between loops.
COSTS = {"div": 4, "floordiv": 6, "quotient": 6, "mod": 6}


def cost_of(fn: str) -> float:
    """How much a scalar function costs, an addition being 1."""
    function = declared().get(fn)
    return COSTS.get(fn, 1) if function is None else function.cost


def is_written(fn: str, operand_dtype: str) -> bool:
    """Whether kernels have this function on this dtype."""
    own = BOOLS if operand_dtype == "bool" else WHOLE if operand_dtype in INTS else FLOATS
    return fn in ALL_KINDS or fn in own or (is_float(operand_dtype) and fn in declared())
