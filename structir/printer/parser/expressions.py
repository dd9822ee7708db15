"""Leaves and operators of a text: names, literals, tuples, fields, arithmetic."""

from __future__ import annotations

import ast
from typing import Any

from structir.analysis.deduction import deduce
from structir.ir.dims import Poly
from structir.ir.expr import OPERATORS, Call, Constant, Expr, TupleGetItem
from structir.ir.op import find_op, registered_ops
from structir.printer import constants
from structir.printer.parser.context import Context
from structir.printer.parser.sizes import (
    BINARY,
    COMPARISONS,
    MAX_BITS,
    is_number,
    static_binary,
    static_compare,
)
from structir.printer.parser.values import argument, path_of, reads, unsupported, value_of
from structir.printer.syntax import METADATA


@reads(ast.Constant)
def _constant(context: Context, node: ast.Constant) -> Any:
    value = node.value
    if type(value) is int and value.bit_length() > MAX_BITS:
        raise context.error(node, f"a number has more than {MOST_BITS} bits")
    if value is None or type(value) in (int, float, bool, str):
        return value
    raise unsupported(context, node, "a value is a number, a bool or a string")


@reads(ast.Name)
def _name(context: Context, node: ast.Name) -> Any:
    value = context.names.get(node.id)
    if isinstance(value, Expr) or type(value) is Poly:
        return value
    return context.lookup(node)


@reads(ast.Tuple, ast.List)
def _tuple(context: Context, node: ast.Tuple | ast.List) -> Any:
    with context.nested(node):
        return tuple([argument(context, item) for item in node.elts])


@reads(ast.Attribute)
def _attribute(context: Context, node: ast.Attribute) -> Any:
    base = node.value
    if isinstance(base, ast.Name) and context.module is not None:
        found = context.module.function_of(context, base.id, node)
        if found is not None:
            return found
    path = path_of(node)
    if path is not None and path.startswith("R."):
        raise context.error(node, f"{path} stands here without being called", f"write {path}(...)")
    hint = "functions of the module are reached as cls.name, ops as R.name"
    hint = f"did you mean R.{node.attr}?" if find_op(node.attr) else hint
    raise context.error(node, f"{ast.unparse(node)} is not part of the language", hint, "E0103")


@reads(ast.Subscript)
def _subscript(context: Context, node: ast.Subscript) -> Any:
    if isinstance(node.value, ast.Name) and node.value.id == METADATA:
        return _referenced_constant(context, node)
    with context.nested(node):
        base = argument(context, node.value)
        index = value_of(context, node.slice)
    if type(index) is not int:
        hint = "the field of a tuple is a constant; elements of a tensor are taken by R.take"
        raise context.error(node, "an index must be a constant integer", hint)
    span = context.source_map.span(node)
    item = TupleGetItem(context.expr(base, node.value), index, None, span)
    info = deduce(item)
    if index < 0:
        index += len(getattr(item.tuple_value.struct_info, "fields", ()))
    return TupleGetItem(item.tuple_value, index, info, span)


def _referenced_constant(context: Context, node: ast.Subscript) -> Constant:
    name = getattr(node.slice, "value", None)
    beside = context.module.constants if context.module is not None else {}
    found = constants.referred_constant(name, beside) if isinstance(name, str) else None
    if found is None:
        hint = "structir.save keeps a text and its constants together; structir.load reads both"
        raise context.error(node, f"the constant {name!r} is not held beside this text", hint)
    return found


@reads(ast.BinOp)
def _binary(context: Context, node: ast.BinOp) -> Any:
    """A chain of operators, leftmost first, however long it is."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    with context.nested(node, len(chain)):
        left = argument(context, chain[-1].left)
        for link in reversed(chain):
            right = argument(context, link.right)
            if is_number(left) and is_number(right):
                left = static_binary(context, link, left, right)
            else:
                symbol = BINARY[type(link.op)][0] if type(link.op) in BINARY else "?"
                left = _operator(context, link, symbol, left, right)
                left = left if link is node else context.atom(left, link)
    return left


def _operator(context: Context, node: ast.expr, symbol: str, *operands: Any) -> Expr:
    op = _operators().get(symbol)
    if op is None:
        raise unsupported(context, node)
    call: Call = op.definition.bind(operands, {}, context.source_map.span(node))
    return call


def _operators() -> Any:
    if not OPERATORS:
        registered_ops()  # ops stand in the table once they are loaded
    return OPERATORS


@reads(ast.UnaryOp)
def _unary(context: Context, node: ast.UnaryOp) -> Any:
    with context.nested(node):
        value = argument(context, node.operand)
    if isinstance(node.op, ast.USub):
        return -value if is_number(value) else _operator(context, node, "neg", value)
    if isinstance(node.op, ast.UAdd):
        return value
    raise unsupported(context, node, "use R.logical_not or R.bitwise_not")


@reads(ast.Compare)
def _compare(context: Context, node: ast.Compare) -> Any:
    if len(node.ops) != 1 or type(node.ops[0]) not in COMPARISONS:
        raise unsupported(context, node, "compare two values at a time: < <= > >= == !=")
    with context.nested(node):
        left, right = argument(context, node.left), argument(context, node.comparators[0])
    if is_number(left) and is_number(right):
        return static_compare(node, left, right)
    return _operator(context, node, COMPARISONS[type(node.ops[0])][0], left, right)
