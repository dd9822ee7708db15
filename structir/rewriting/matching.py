"""Matches patterns against values through the use-def graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from structir.analysis.purity import is_pure_value
from structir.analysis.variables import walk
from structir.ir.expr import (
    Call,
    Constant,
    DataflowVar,
    Expr,
    Function,
    PrimValue,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.rewriting.pattern_vars import (
    AttributeVar,
    CallPattern,
    ItemPattern,
    MatchedOp,
    OpVar,
    ParallelVar,
    PatternVar,
)

MISSING = object()
NUMBERS = (int, float)  # `0` in a pattern also matches 0.0
RESULT_DTYPE = "out_dtype"  # the attribute of ops with a result dtype of their own


@attrs.define(eq=False)
class UseDefGraph:
    """The values and use counts of the variables in scope."""

    function: Function
    values: dict[Var, Expr] = attrs.Factory(dict)
    dataflow_vars: set[Var] = attrs.Factory(set)  # the dataflow variables in scope
    _uses: Counter[Var] | None = attrs.field(default=None, init=False)

    def value(self, expr: Any) -> Any:
        """Returns the value of a variable, through aliases.

        Other expressions are returned unchanged.
        """
        while isinstance(expr, Var) and expr in self.values:
            expr = self.values[expr]
        return expr

    def name(self, expr: Any) -> Any:
        """Returns the original variable of an alias."""
        while isinstance(expr, Var) and isinstance(self.values.get(expr), Var):
            expr = self.values[expr]
        return expr

    def uses(self, var: Var) -> int:
        """Returns the number of uses of a variable, including those in StructInfos."""
        if self._uses is None:
            self._uses = Counter(item for item in walk(self.function) if isinstance(item, Var))
        return self._uses[var] - 1  # the definition is not a use

    def is_in_scope(self, expr: Any) -> bool:
        """Returns whether an atom is in scope."""
        if isinstance(expr, Tuple):
            return all(map(self.is_in_scope, expr.fields))
        return type(expr) is not DataflowVar or expr in self.dataflow_vars


@attrs.define(eq=False)
class Match:
    """The values matched by pattern variables, by name, and by pattern calls, by id."""

    graph: UseDefGraph
    bound: dict[str, Any] = attrs.Factory(dict)
    matched: dict[int, Any] = attrs.Factory(dict)

    def at(self, pattern: Any, value: Any) -> bool:
        """Returns whether a pattern matches a value."""
        rule = _RULES.get(type(pattern), _literal)
        return rule(self, pattern, value)

    def bind(self, name: str, value: Any) -> bool:
        """Binds a pattern variable; returns whether a bound one has the same value."""
        if name not in self.bound:
            self.bound[name] = value
            return True
        return same_value(self.graph, self.bound[name], value)


def same_value(graph: UseDefGraph, first: Any, second: Any) -> bool:
    """Returns whether operands or attributes are one variable, equal constants or equal sizes."""
    first, second = graph.name(first), graph.name(second)
    if first is second:
        return True
    kind = type(first)
    if kind is not type(second):
        return False
    if kind is Constant:
        a, b = first.data, second.data
        same_type = a.dtype == b.dtype and a.shape == b.shape
        return bool(same_type and a.tobytes() == b.tobytes())
    if not isinstance(first, Expr):
        return bool(first == second)
    for field in ("dims", "value"):  # shapes, scalars
        if hasattr(first, field):
            return bool(getattr(first, field) == getattr(second, field))
    return False


def _pattern_var(match: Match, var: PatternVar, value: Any) -> bool:
    if not match.graph.is_in_scope(value):
        return False
    if var.constant:
        value = match.graph.value(value)
        return isinstance(value, Constant) and match.bind(var.name, value)
    return match.bind(var.name, value)


def _parallel(match: Match, var: ParallelVar, value: Any) -> bool:
    if not match.graph.is_in_scope(value):
        return False
    match.bound[var.name] = value
    return True


def _attribute(match: Match, var: AttributeVar, value: Any) -> bool:
    return match.graph.is_in_scope(value) and match.bind(var.name, value)


def _item(match: Match, pattern: ItemPattern, value: Any) -> bool:
    item = match.graph.value(value)
    info = item.tuple_value.struct_info if isinstance(item, TupleGetItem) else None
    if not isinstance(info, TupleStructInfo) or item.index != info.index(pattern.index):
        return False
    match.matched[id(pattern)] = value
    return match.at(pattern.of, item.tuple_value)


def _call(match: Match, pattern: CallPattern, value: Any) -> bool:
    matched = match.matched.get(id(pattern), MISSING)
    if matched is not MISSING:
        return match.graph.name(matched) is match.graph.name(value)
    call = match.graph.value(value)
    if type(call) is not Call or type(call.op) is not Op or not is_pure_value(call):
        return False
    match.matched[id(pattern)] = value
    if type(pattern.callee) is OpVar:
        return _any_op(match, pattern, call)
    if call.op.definition is not pattern.callee:
        return False
    return _arguments(match, pattern, call)


def _any_op(match: Match, pattern: CallPattern, call: Call) -> bool:
    if len(call.args) != len(pattern.arguments):
        return False
    assert isinstance(call.op, Op)
    if any(call.op.definition.of_sizes):
        return False
    if not match.bind(pattern.callee.name, MatchedOp(call)):
        return False
    return all(map(match.at, pattern.arguments.values(), call.args))


def _arguments(match: Match, pattern: CallPattern, call: Call) -> bool:
    for parameter, argument in _parameters(pattern, call):
        pattern_argument = pattern.arguments.get(parameter.name, MISSING)
        if pattern_argument is MISSING:
            if argument is not parameter.default:
                return False
        elif not match.at(normalized_literal(parameter, pattern_argument), argument):
            return False
    return True


def unmatched_argument(pattern: CallPattern, call: Call) -> str | None:
    """Returns a parameter that a pattern does not mention and a call sets, if any."""
    for parameter, argument in _parameters(pattern, call):
        if parameter.name not in pattern.arguments and argument is not parameter.default:
            name: str = parameter.name
            return name
    return None


def _parameters(pattern: CallPattern, call: Call) -> Iterator[tuple[Any, Any]]:
    """Yields the parameters of an op with the arguments of a call."""
    position = 0
    for parameter in pattern.callee.signature.parameters:
        default = parameter.default
        if parameter.is_argument:
            argument = call.args[position] if position < len(call.args) else default
            position += 1
            if type(argument) is Tuple and not argument.fields:
                argument = default
        else:
            argument = call.attrs.get(parameter.name, default)
            if parameter.name == RESULT_DTYPE and is_own_dtype(argument, call):
                argument = default
        yield parameter, argument


def is_own_dtype(dtype: Any, call: Call) -> bool:
    """Whether a result dtype is that of every tensor operand, as without the attribute."""
    infos = [argument.struct_info for argument in call.args]
    dtypes = {info.dtype for info in infos if isinstance(info, TensorStructInfo)}
    return dtypes == {dtype}


def normalized_literal(parameter: Any, pattern: Any) -> Any:
    """Returns a literal in the normalized form of the attribute."""
    is_pattern = isinstance(pattern, Expr | AttributeVar | tuple | list | None)
    static = parameter.kind is not None and not parameter.is_argument
    return parameter.kind.normalize(pattern) if static and not is_pattern else pattern


def _sequence(match: Match, pattern: Any, value: Any) -> bool:
    """Matches a tuple of operands or a tuple attribute."""
    value = match.graph.value(value)
    if isinstance(value, Tuple):
        value = value.fields
    if isinstance(value, ShapeExpr):
        value = value.dims
    if not isinstance(value, tuple) or len(value) != len(pattern):
        return False
    return all(map(match.at, pattern, value))


def _literal(match: Match, pattern: Any, value: Any) -> bool:
    """Matches a number with a constant whose elements all equal it, other literals by equality."""
    return equals_literal(pattern, match.graph.value(value))


def equals_literal(pattern: Any, value: Any) -> bool:
    """Returns whether a value equals a literal: all elements of a constant, a number, or another
    literal of the same type."""
    if isinstance(value, Constant):
        return value.data.size > 0 and bool((value.data == pattern).all())
    if isinstance(value, PrimValue):
        value = value.value
    if type(value) in NUMBERS and type(pattern) in NUMBERS:
        return bool(value == pattern)
    return type(value) is type(pattern) and bool(value == pattern)


def _constant(match: Match, pattern: Constant, value: Any) -> bool:
    """Matches a constant of the same dtype, shape and elements."""
    return same_value(match.graph, match.graph.value(value), pattern)


def _shape(match: Match, pattern: ShapeExpr, value: Any) -> bool:
    return _sequence(match, pattern.dims, value)


def _scalar(match: Match, pattern: PrimValue, value: Any) -> bool:
    return _literal(match, pattern.value, value)


_RULES: dict[type, Callable[[Match, Any, Any], bool]] = {
    PatternVar: _pattern_var,
    ParallelVar: _parallel,
    AttributeVar: _attribute,
    ItemPattern: _item,
    CallPattern: _call,
    Constant: _constant,
    ShapeExpr: _shape,
    PrimValue: _scalar,
    tuple: _sequence,
    list: _sequence,
}
