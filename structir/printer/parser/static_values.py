"""Evaluates expressions over values of Python at parse time, without running code of objects.

An expression is static if all its names denote values of Python, or variables of unrolled loops.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

from structir.errors import ParseError
from structir.ir.expr import ATOMS, Expr
from structir.ir.op import find_op
from structir.ir.struct_info import TupleStructInfo
from structir.printer.parser.captured import (
    MAX_ITEMS,
    PLAIN,
    dtype_name,
    is_array,
    is_dict,
    is_scalar,
    is_sequence,
    item_of,
    items_of,
    stored_field,
)
from structir.printer.parser.context import MISSING, Context, PythonValue
from structir.printer.parser.sizes import BINARY, COMPARISONS, static_binary
from structir.printer.parser.static_functions import function_of, method_of
from structir.printer.parser.values import path_of

Rule = Callable[[Context, Any], Any]
NUMBERS = (int, float, bool)
SIMPLE_FORMAT = re.compile(r"0?\d{0,2}d?")
LANGUAGE = ("I", "R", "T")


def static_value(context: Context, node: ast.expr) -> Any:
    """Returns the value of a static expression as Python has it; MISSING for any other."""
    rule = STATIC_RULES.get(type(node))
    return MISSING if rule is None or context.module is None else rule(context, node)


def is_of_program(context: Context, node: ast.expr) -> bool:
    """Whether an expression is a variable or the module, or a part of one: it is not static."""
    while type(node) is ast.Attribute or type(node) is ast.Subscript:
        node = node.value
    if type(node) is not ast.Name:
        return False
    return type(context.names.get(node.id)) in ATOMS or context.names_module(node)


def static_test(context: Context, node: ast.expr) -> Any:
    """Returns whether a static condition holds; MISSING for any other.

    A condition that names no value of Python is a value of the program.
    """
    if not names_values(context, node):
        return MISSING
    value = static_value(context, node)
    return MISSING if value is MISSING else truth(value)


def names_values(context: Context, node: ast.expr) -> bool:
    """Whether an expression names a value of Python, or compares identity, as `x is None`."""
    for item in ast.walk(node):
        if isinstance(item, ast.Is | ast.IsNot):
            return True
        if not isinstance(item, ast.Name) or item.id in LANGUAGE:
            continue
        if _name(context, item) is not MISSING:
            return True
    return False


def truth(value: Any) -> Any:
    """Returns the truth of a plain value or of a collection; MISSING for other objects."""
    value = _plain(value)
    if type(value) in PLAIN or type(value) is range:
        return bool(value)
    if is_sequence(value):
        return len(items_of(value)) > 0
    return dict.__len__(value) > 0 if is_dict(value) else MISSING


def _plain(value: Any) -> Any:
    return value.item() if is_scalar(type(value)) else value


# ---- names, items and fields


def _constant(context: Context, node: ast.Constant) -> Any:
    return node.value if type(node.value) in PLAIN else MISSING


def _name(context: Context, node: ast.Name) -> Any:
    value = context.names.get(node.id, MISSING)
    if value is not MISSING:
        return value.value if type(value) is PythonValue else MISSING
    return context.module.static_name(node.id)


def _attribute(context: Context, node: ast.Attribute) -> Any:
    path = path_of(node)
    if path is not None and path.startswith("R.") and "R" not in context.names:
        op = find_op(path[2:])
        return MISSING if op is None else op
    base = static_value(context, node.value)
    return MISSING if base is MISSING else stored_field(base, node.attr)


def _subscript(context: Context, node: ast.Subscript) -> Any:
    base = static_value(context, node.value)
    if base is MISSING:
        return MISSING
    if isinstance(node.slice, ast.Tuple) and is_array(base):
        return item_of(base, tuple([_key(context, item) for item in node.slice.elts]))
    return item_of(base, _key(context, node.slice))


def _key(context: Context, node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        return _slice(context, node)
    return _plain(static_value(context, node))


def _slice(context: Context, node: ast.Slice) -> Any:
    ends = (node.lower, node.upper, node.step)
    values = [None if end is None else static_value(context, end) for end in ends]
    plain = all([value is None or type(value) is int for value in values])
    return slice(*values) if plain and values[2] != 0 else MISSING


def _display(context: Context, node: ast.Tuple | ast.List) -> Any:
    items: list[Any] = []
    for item in node.elts:
        starred = isinstance(item, ast.Starred)
        value = static_value(context, item.value if isinstance(item, ast.Starred) else item)
        if value is MISSING or (starred and not is_sequence(value)):
            return MISSING
        items += items_of(value) if starred else [value]
    return tuple(items) if len(items) <= MAX_ITEMS else MISSING


# ---- operators


def _binary(context: Context, node: ast.BinOp) -> Any:
    """Evaluates a chain of binary operators from the left, without recursion."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    value = static_value(context, chain[-1].left)
    for link in reversed(chain):
        if value is MISSING:
            break
        value = _operation(context, link, _plain(value), _plain(static_value(context, link.right)))
    return value


def _operation(context: Context, node: ast.BinOp, left: Any, right: Any) -> Any:
    """Evaluates one operator on numbers, or `+` on strings or tuples, or a tuple times a number."""
    if type(left) in NUMBERS and type(right) in NUMBERS:
        return static_binary(context, node, left, right) if type(node.op) in BINARY else MISSING
    if isinstance(node.op, ast.Mult) and is_sequence(left) and type(right) is int:
        items = items_of(left)
        return tuple(items) * right if len(items) * right <= MAX_ITEMS else MISSING
    joins = type(left) is type(right) is str or (is_sequence(left) and is_sequence(right))
    if not isinstance(node.op, ast.Add) or not joins:
        return MISSING
    parts: list[Any] = [
        side if type(side) is str else tuple(items_of(side)) for side in (left, right)
    ]
    return parts[0] + parts[1] if sum(map(len, parts)) <= MAX_ITEMS else MISSING


def _unary(context: Context, node: ast.UnaryOp) -> Any:
    value = static_value(context, node.operand)
    if isinstance(node.op, ast.Not):
        holds = truth(value) if value is not MISSING else MISSING
        return MISSING if holds is MISSING else not holds
    value = _plain(value)
    if type(value) not in NUMBERS or isinstance(node.op, ast.Invert):
        return MISSING
    return -value if isinstance(node.op, ast.USub) else value


def _boolean(context: Context, node: ast.BoolOp) -> Any:
    """Evaluates `and` and `or` from the left; operands after the deciding one are not parsed."""
    value = MISSING
    for item in node.values:
        value = static_value(context, item)
        holds = MISSING if value is MISSING else truth(value)
        if holds is MISSING:
            return MISSING
        if holds is isinstance(node.op, ast.Or):
            return value
    return value


def _conditional(context: Context, node: ast.IfExp) -> Any:
    holds = static_test(context, node.test)
    return (
        MISSING if holds is MISSING else static_value(context, node.body if holds else node.orelse)
    )


def _compare(context: Context, node: ast.Compare) -> Any:
    """Evaluates comparisons; a chain of them is their conjunction."""
    sides = [node.left, *node.comparators]
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        holds = _pair(context, op, left, right)
        if holds is not True:
            return holds
    return True


def _pair(context: Context, op: ast.cmpop, left: ast.expr, right: ast.expr) -> Any:
    if isinstance(op, ast.Is | ast.IsNot):
        same = _is_same(context, left, right)
        return same if same is MISSING else same is isinstance(op, ast.Is)
    values = [_comparable(static_value(context, side)) for side in (left, right)]
    if isinstance(op, ast.In | ast.NotIn):
        contains = _contains(values[0], static_value(context, right))
        return contains if contains is MISSING else contains is isinstance(op, ast.In)
    if any([value is MISSING for value in values]):
        return MISSING
    try:
        return bool(COMPARISONS[type(op)][2](*values))
    except TypeError:  # numbers and strings have no order
        return MISSING


def _is_same(context: Context, left: ast.expr, right: ast.expr) -> Any:
    """Evaluates `x is None`, also of a value of the program, and `x is True`."""
    if not isinstance(right, ast.Constant) or type(right.value) not in (bool, type(None)):
        return MISSING
    value = static_value(context, left)
    if value is MISSING:
        bound = context.names.get(left.id) if isinstance(left, ast.Name) else None
        return False if isinstance(bound, Expr) and right.value is None else MISSING
    return _plain(value) is right.value


def _comparable(value: Any) -> Any:
    """Returns a value that compares without running code of a class, or MISSING."""
    value = _plain(value)
    if type(value) in PLAIN:
        return value
    if is_sequence(value):
        items = tuple([_comparable(item) for item in items_of(value)])
        return MISSING if any([item is MISSING for item in items]) else items
    return value if value is MISSING else dtype_name(value)


def _contains(item: Any, container: Any) -> Any:
    if item is MISSING or container is MISSING:
        return MISSING
    if type(item) is type(container) is str:
        return item in container
    if is_dict(container):
        return type(item) in PLAIN and item in dict.keys(container)
    items = _comparable(container)
    return item in items if type(items) is tuple else MISSING


# ---- calls


def _call(context: Context, node: ast.Call) -> Any:
    """Evaluates `len(x)`, `min(...)` and others of numbers, and `d.get(key)` of a dict."""
    func = node.func
    if isinstance(func, ast.Attribute) and func.attr == "get" and not node.keywords:
        base = static_value(context, func.value)
        key = static_value(context, node.args[0]) if len(node.args) in (1, 2) else MISSING
        if not is_dict(base) or type(key) not in PLAIN:
            return MISSING
        default = static_value(context, node.args[1]) if len(node.args) == 2 else None
        return dict.get(base, key, default)
    if isinstance(func, ast.Attribute):
        return _call_of_library(context, node, func)
    if not isinstance(func, ast.Name) or not is_builtin(context, func) or node.keywords:
        return MISSING
    rule = BUILTINS.get(func.id)
    values = [] if rule is None else [_plain(static_value(context, item)) for item in node.args]
    if func.id == "len" and len(values) == 1:
        return _length(context, node.args[0], values[0])
    if func.id in ("min", "max", "sum") and len(values) == 1 and is_sequence(values[0]):
        values = [_plain(item) for item in items_of(values[0])]
    if rule is None or not values or any([type(value) not in NUMBERS for value in values]):
        return MISSING
    return _evaluated(context, node, rule, values, {})


def _evaluated(
    context: Context, node: ast.Call, rule: Callable[..., Any], values: list[Any], options: Any
) -> Any:
    try:
        return rule(*values, **options)
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        message = f"cannot evaluate {ast.unparse(node)}: {error}"
        hint = f"write the number itself: `{ast.unparse(node.func)}(3)`"
        raise context.error(node, message, hint, "E0107") from None


def _call_of_library(context: Context, node: ast.Call, func: ast.Attribute) -> Any:
    """Evaluates a function of `math` or NumPy: `math.sqrt(2)`, `np.ones(3)`, `w.astype("int8")`."""
    base = static_value(context, func.value)
    rule = method_of(base, func.attr) if is_array(base) or type(base) is str else None
    if type(base) is ModuleType:
        rule = function_of(base, func.attr)
    if rule is None:
        return MISSING
    values = [_argument(static_value(context, item)) for item in node.args]
    options = {str(k.arg): _argument(static_value(context, k.value)) for k in node.keywords}
    if any([value is MISSING for value in (*values, *options.values())]) or "None" in options:
        return MISSING
    return _evaluated(context, node, rule, values, options)


def _argument(value: Any) -> Any:
    """Returns a number, a dtype or nested tuples of numbers; MISSING for any other value."""
    return value if is_array(value) else _comparable(value)


def _length(context: Context, node: ast.expr, value: Any) -> Any:
    """Returns the length of a collection of Python, or of a tuple of the program."""
    if value is MISSING:
        bound = context.names.get(node.id) if isinstance(node, ast.Name) else None
        info = bound.struct_info if isinstance(bound, Expr) else None
        return len(info.fields) if isinstance(info, TupleStructInfo) else MISSING
    if is_sequence(value):
        return len(items_of(value))
    if is_dict(value):
        return dict.__len__(value)
    sized = type(value) in (str, range) or (is_array(value) and value.ndim > 0)
    return len(value) if sized else MISSING


def is_builtin(context: Context, node: ast.Name) -> bool:
    """Whether a name denotes Python's own function, which no other value hides."""
    name = node.id
    return name not in context.names and context.module.static_name(name) is MISSING


BUILTINS: dict[str, Callable[..., Any]] = {
    "len": len,
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "float": float,
    "bool": bool,
    "round": round,
    "sum": lambda *values: sum(values),
}


def _formatted(context: Context, node: ast.JoinedStr) -> Any:
    """Evaluates an f-string of strings and numbers, such as `f"layers.{i}.weight"`."""
    parts: list[str] = []
    for item in node.values:
        if isinstance(item, ast.Constant):
            parts.append(str(item.value))
            continue
        if not isinstance(item, ast.FormattedValue) or item.conversion != -1:
            return MISSING
        spec = _spec(item.format_spec)
        value = MISSING if spec is None else _plain(static_value(context, item.value))
        if type(value) not in (str, int, float, bool):
            return MISSING
        try:
            parts.append(format(value, spec or ""))
        except ValueError as error:
            raise _format_error(context, node, error) from None
    text = "".join(parts)
    return text if len(text) <= MAX_ITEMS else MISSING


def _format_error(context: Context, node: ast.JoinedStr, error: ValueError) -> ParseError:
    message = f"cannot evaluate {ast.unparse(node)}: {error}"
    return context.error(node, message, 'write an integer format: `f"{i:02d}"`', "E0107")


def _spec(node: ast.expr | None) -> str | None:
    """Returns the text of a short integer format; None for any other."""
    if node is None:
        return ""
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    text = "".join([str(getattr(part, "value", "?")) for part in parts])
    return text if SIMPLE_FORMAT.fullmatch(text) else None


STATIC_RULES: dict[type[ast.AST], Rule] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Tuple: _display,
    ast.List: _display,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.IfExp: _conditional,
    ast.Compare: _compare,
    ast.Call: _call,
    ast.JoinedStr: _formatted,
}
