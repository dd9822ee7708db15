"""E-matching: finds all matches of a pattern among the equal terms of an e-graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from structir.ir.expr import Call, Constant, PrimValue, ShapeExpr, Tuple, TupleGetItem
from structir.ir.struct_info import TupleStructInfo
from structir.rewriting.egraph.graph import EGraph
from structir.rewriting.egraph.terms import INLINE, label_of
from structir.rewriting.matching import (
    MISSING,
    RESULT_DTYPE,
    equals_literal,
    is_own_dtype,
    normalized_literal,
)
from structir.rewriting.pattern_vars import (
    AttributeVar,
    CallPattern,
    ItemPattern,
    MatchedOp,
    OpVar,
    ParallelVar,
    PatternVar,
)


@attrs.frozen
class TermOperand:
    """An operand of a call: a term, in contrast to an attribute."""

    term: int


@attrs.frozen(eq=False)
class PatternInstance:
    """A matched term, with instances of its operands where the pattern determines them."""

    term: int
    operands: tuple[Any, ...]  # of PatternInstance or int
    pattern: int | None = None  # its id


@attrs.frozen(eq=False)
class EMatch:
    """The values of the pattern variables by name, and the matched terms by id of the pattern."""

    bound: dict[str, Any]
    matched: dict[int, int]

    def bind(self, graph: EGraph, name: str, value: Any) -> EMatch | None:
        """Returns this match with a bound variable; None if it has another value."""
        if name not in self.bound:
            return EMatch({**self.bound, name: value}, self.matched)
        return self if _same(graph, self.bound[name], value) else None


Step = tuple[EMatch, Any]  # a match, and the instance of the operand


def _same(graph: EGraph, first: Any, second: Any) -> bool:
    if isinstance(first, TermOperand) and isinstance(second, TermOperand):
        return graph.find(first.term) == graph.find(second.term)
    if type(first) in INLINE and type(second) in INLINE:
        return label_of(first) == label_of(second)
    return type(first) is type(second) and bool(first == second)


def root_matches(graph: EGraph, pattern: Any, number: int) -> Iterator[Step]:
    """Yields the matches of a pattern at a term, with the instance of the pattern."""
    start = EMatch({}, {})
    if type(pattern) is ItemPattern:
        yield from _item_at(graph, pattern, number, start)
    else:
        yield from _call_at(graph, pattern, number, start)


def at(graph: EGraph, pattern: Any, value: Any, match: EMatch) -> Iterator[Step]:
    """Yields the extensions of a match in which a pattern matches an operand or an attribute."""
    return _RULES.get(type(pattern), _literal)(graph, pattern, value, match)


def _members(graph: EGraph, value: Any, kind: type) -> Iterator[int]:
    """Yields the terms of a kind in the class of an operand."""
    if isinstance(value, TermOperand):
        for member in tuple(graph.class_of(value.term).members):
            if type(graph.terms[member].value) is kind:
                yield member


def _pattern_var(graph: EGraph, var: PatternVar, value: Any, match: EMatch) -> Iterator[Step]:
    if isinstance(value, TermOperand):
        number = graph.constant(value.term) if var.constant else graph.preferred(value.term)
        if number is None:
            return
        value = TermOperand(number)
    elif var.constant:
        return
    extended = match.bind(graph, var.name, value)
    if extended is not None:
        first = extended.bound[var.name]
        yield extended, first.term if isinstance(first, TermOperand) else first


def _parallel(graph: EGraph, var: ParallelVar, value: Any, match: EMatch) -> Iterator[Step]:
    if isinstance(value, TermOperand):
        yield EMatch({**match.bound, var.name: value}, match.matched), value.term


def _attribute(graph: EGraph, var: AttributeVar, value: Any, match: EMatch) -> Iterator[Step]:
    instance = value
    if isinstance(value, TermOperand):
        instance = next(_atoms(graph, value), value.term)
        term = graph.terms[instance]
        value = term.value if term.is_atom else value
    extended = match.bind(graph, var.name, value)
    if extended is not None:
        yield extended, instance


def _atoms(graph: EGraph, value: TermOperand) -> Iterator[int]:
    return (member for member in graph.class_of(value.term).members if graph.terms[member].is_atom)


def _item(graph: EGraph, pattern: ItemPattern, value: Any, match: EMatch) -> Iterator[Step]:
    for member in _members(graph, value, TupleGetItem):
        yield from _item_at(graph, pattern, member, match)


def _item_at(graph: EGraph, pattern: ItemPattern, number: int, match: EMatch) -> Iterator[Step]:
    term = graph.terms[number]
    info = graph.info(term.children[0])
    if not isinstance(info, TupleStructInfo):
        return
    assert isinstance(term.value, TupleGetItem)
    if term.value.index != info.index(pattern.index):
        return
    match = EMatch(match.bound, {**match.matched, id(pattern): number})
    for extended, instance in at(graph, pattern.of, TermOperand(term.children[0]), match):
        yield extended, PatternInstance(number, (instance,), id(pattern))


def _call(graph: EGraph, pattern: CallPattern, value: Any, match: EMatch) -> Iterator[Step]:
    earlier = match.matched.get(id(pattern))
    if earlier is not None:
        if isinstance(value, TermOperand) and graph.find(earlier) == graph.find(value.term):
            yield match, earlier
        return
    for member in _members(graph, value, Call):
        yield from _call_at(graph, pattern, member, match)


def _call_at(graph: EGraph, pattern: CallPattern, number: int, match: EMatch) -> Iterator[Step]:
    term = graph.terms[number]
    call: Any = term.value
    is_any = type(pattern.callee) is OpVar
    if not is_any and call.op.definition is not pattern.callee:
        return
    match = EMatch(match.bound, {**match.matched, id(pattern): number})
    steps = (_any_op if is_any else _arguments)(graph, pattern, number, match)
    for extended, operands in steps:
        yield extended, PatternInstance(number, operands, id(pattern))


def _any_op(graph: EGraph, pattern: CallPattern, number: int, match: EMatch) -> Iterator[Step]:
    term = graph.terms[number]
    call: Any = term.value
    if len(term.children) != len(pattern.arguments) or any(call.op.definition.of_sizes):
        return
    extended = match.bind(graph, pattern.callee.name, MatchedOp(call))
    if extended is not None:
        operands = tuple(map(TermOperand, term.children))
        yield from _each(graph, tuple(pattern.arguments.values()), operands, extended)


def _each(
    graph: EGraph, patterns: Sequence[Any], values: Sequence[Any], match: EMatch
) -> Iterator[Step]:
    """Yields the matches of several patterns with several values, and their instances."""
    if not patterns:
        yield match, ()
        return
    for extended, instance in at(graph, patterns[0], values[0], match):
        for complete, others in _each(graph, patterns[1:], values[1:], extended):
            yield complete, (instance, *others)


def _arguments(graph: EGraph, pattern: CallPattern, number: int, match: EMatch) -> Iterator[Step]:
    """Matches the arguments and attributes of a call by parameter."""
    term = graph.terms[number]
    call: Any = term.value
    patterns, values, positions, position = [], [], [], 0
    for parameter in pattern.callee.signature.parameters:
        default = parameter.default
        if parameter.is_argument:
            value = TermOperand(term.children[position]) if position < len(call.args) else default
            where, position = position, position + 1
            if isinstance(value, TermOperand) and _is_omitted(graph, value):
                value = default
        else:
            value, where = call.attrs.get(parameter.name, default), -1
            if parameter.name == RESULT_DTYPE and _is_own_dtype(graph, number, value):
                value = default
        expected = pattern.arguments.get(parameter.name, MISSING)
        if expected is not MISSING:
            patterns.append(normalized_literal(parameter, expected))
            values.append(value)
            positions.append(where)
        elif value is not default:
            return
    for extended, instances in _each(graph, patterns, values, match):
        operands: list[Any] = list(term.children)
        for where, instance in zip(positions, instances, strict=True):
            if 0 <= where < len(operands) and isinstance(instance, int | PatternInstance):
                operands[where] = instance
        yield extended, tuple(operands)


def _is_own_dtype(graph: EGraph, number: int, dtype: Any) -> bool:
    """Returns whether a result dtype is that of every operand of a call."""
    if dtype is None:
        return False
    call: Any = graph.value(number)
    return is_own_dtype(dtype, call)


def _is_omitted(graph: EGraph, value: TermOperand) -> bool:
    """Returns whether an operand is the empty tuple, which stands for an omitted one."""
    term = graph.terms[value.term]
    return type(term.value) is Tuple and not term.children


def _sequence(graph: EGraph, pattern: Any, value: Any, match: EMatch) -> Iterator[Step]:
    """Matches a tuple of operands, a shape, or a tuple attribute."""
    for member in _members(graph, value, Tuple):
        children = graph.terms[member].children
        if len(children) == len(pattern):
            operands = tuple(map(TermOperand, children))
            for extended, instances in _each(graph, tuple(pattern), operands, match):
                yield extended, PatternInstance(member, instances)
    if isinstance(value, TermOperand):
        shapes = [n for n in _atoms(graph, value) if type(graph.terms[n].value) is ShapeExpr]
        raw = [(graph.terms[number].value.dims, number) for number in shapes]  # type: ignore[attr-defined]
    else:
        raw = [(value, value)]
    for values, instance in raw:
        if isinstance(values, tuple) and len(values) == len(pattern):
            for extended, _ in _each(graph, tuple(pattern), values, match):
                yield extended, instance


def _literal(graph: EGraph, pattern: Any, value: Any, match: EMatch) -> Iterator[Step]:
    """Matches a number with a constant whose elements all equal it, other literals by equality."""
    if not isinstance(value, TermOperand):
        if equals_literal(pattern, value):
            yield match, value
        return
    for number in _atoms(graph, value):
        if equals_literal(pattern, graph.terms[number].value):
            yield match, number
            return


def _constant(graph: EGraph, pattern: Constant, value: Any, match: EMatch) -> Iterator[Step]:
    """Matches a constant of the same dtype, shape and elements."""
    for number in _members(graph, value, Constant):
        if label_of(graph.terms[number].value) == label_of(pattern):
            yield match, number


def _shape(graph: EGraph, pattern: ShapeExpr, value: Any, match: EMatch) -> Iterator[Step]:
    return _sequence(graph, pattern.dims, value, match)


def _scalar(graph: EGraph, pattern: PrimValue, value: Any, match: EMatch) -> Iterator[Step]:
    return _literal(graph, pattern.value, value, match)


_RULES: dict[type, Callable[[EGraph, Any, Any, EMatch], Iterator[Step]]] = {
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
