"""Parses sizes and static values: numbers, symbolic dims and their arithmetic."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from structir.errors import Diagnostic, DiagnosticError, ParseError, Span
from structir.ir import dims
from structir.ir.axes import Labelled, Ragged
from structir.ir.dims import Poly
from structir.printer.parser.context import MISSING, Context
from structir.printer.syntax import ANY_SIZE

BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
    ast.MatMult: ("@", operator.matmul),
}
COMPARISONS: dict[type[ast.cmpop], tuple[str, str, Callable[[Any, Any], Any]]] = {
    ast.Lt: ("<", "lt", operator.lt),
    ast.LtE: ("<=", "le", operator.le),
    ast.Gt: (">", "gt", operator.gt),
    ast.GtE: (">=", "ge", operator.ge),
    ast.Eq: ("==", "eq", operator.eq),
    ast.NotEq: ("!=", "ne", operator.ne),
}
BITWISE: dict[type[ast.operator], str] = {
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
MAX_POWER = 64
MAX_REPEATED = 200  # characters of a size
MAX_BITS = 256  # of a number: Python refuses to print very long integers
NUMBERS = (int, float, bool, Poly)
SIZE_EXAMPLE = "write an integer or an expression over dims: `n`, `2 * n + 1`"


def is_number(value: Any) -> bool:
    """Whether a value is known at compile time: a Python number or a size."""
    return type(value) in NUMBERS


def static_binary(context: Context, node: ast.BinOp, left: Any, right: Any) -> Any:
    """Evaluates an operator on numbers and sizes."""
    if type(node.op) not in BINARY or isinstance(node.op, ast.MatMult):
        message = f"unsupported operator on sizes: {ast.unparse(node)}"
        raise context.error(node, message, "use `+`, `-`, `*`, `//` or `%`", "E0121")
    symbol, function = BINARY[type(node.op)]
    if symbol == "**" and Poly in (type(left), type(right)):
        hint = "write a product: `n * n`"
        raise context.error(
            node, f"powers of sizes are not supported: {ast.unparse(node)}", hint, "E0121"
        )
    if symbol == "**" and not _small_power(left, right):
        message = f"expected an exponent of at most {MAX_POWER}, found {right}"
        hint = f"write an exponent of at most {MAX_POWER}: `2 ** {MAX_POWER}`"
        raise context.error(node, message, hint, "E0109")
    if symbol == "/" and (type(left) is Poly or type(right) is Poly):
        dividend, divisor = ast.unparse(node.left), ast.unparse(node.right)
        hint = f"use floor division: `{dividend} // {divisor}`"
        raise context.error(node, "`/` is not defined on sizes", hint, "E0121")
    try:
        value = function(left, right)
    except TypeError:
        message = f"{ast.unparse(node)}: expected integers and sizes, found {_kinds(left, right)}"
        raise context.error(node, message, SIZE_EXAMPLE, "E0121") from None
    except (ArithmeticError, ValueError) as error:
        message = f"cannot evaluate {ast.unparse(node)}: {error}"
        raise context.error(node, message, SIZE_EXAMPLE, "E0121") from None
    except DiagnosticError as error:
        first = error.diagnostics[0]
        raise context.error(node, first.message, first.hint, first.code) from None
    if type(value) is int and value.bit_length() > MAX_BITS:
        raise ParseError(long_number(value, context.source_map.span(node)))
    return value


def _kinds(*operands: Any) -> str:
    """Describes the operands of an operator: `a size and the value 2.5`."""
    return " and ".join(["a size" if type(v) is Poly else f"the value {v!r}" for v in operands])


def long_number(value: int, span: Span) -> Diagnostic:
    """Returns the error of an integer that Python would refuse to print."""
    message = f"expected a number of at most {MAX_BITS} bits, found one of {value.bit_length()}"
    hint = "write a number that int64 can hold, at most `2 ** 63 - 1`"
    return Diagnostic(message, span, hint=hint, code="E0109")


def _small_power(base: Any, exponent: Any) -> bool:
    return bool(abs(exponent) <= MAX_POWER)


def static_compare(comparison: ast.cmpop, left: Any, right: Any) -> Any:
    """Compares two numbers or sizes; the comparison of sizes may be symbolic."""
    _, word, function = COMPARISONS[type(comparison)]
    if type(left) is Poly or type(right) is Poly:
        return dims.compare(word, left, right)
    return function(left, right)


def _select(condition: Any, then: Any, otherwise: Any) -> Any:
    return dims.select(int(condition) if type(condition) is bool else condition, then, otherwise)


def _truncdiv(dividend: Any, divisor: Any) -> Any:
    """Returns a quotient that is rounded toward zero, of a positive divisor."""
    return _toward_zero(dims.floordiv, dividend, divisor)


def _truncmod(dividend: Any, divisor: Any) -> Any:
    """Returns the remainder of `_truncdiv`, with the sign of the dividend."""
    return _toward_zero(dims.floormod, dividend, divisor)


def _toward_zero(function: Callable[[Any, Any], Any], dividend: Any, divisor: Any) -> Any:
    is_positive = dims.compare("ge", dividend, 0)
    if is_positive == 1:
        return function(dividend, divisor)
    if len(dims.text(dividend)) > MAX_REPEATED:  # the result has the dividend three times
        message = f"expected a dividend of at least 0, found {dims.text(dividend)[:40]}..."
        hint = "use `T.floordiv` and `T.floormod`"
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E0109"))
    return _select(is_positive, function(dividend, divisor), -function(-dividend, divisor))


# Functions of sizes, by their names after `T.`
SIZE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": dims.dim_max,
    "min": dims.dim_min,
    "floordiv": dims.floordiv,
    "floormod": dims.floormod,
    "ceildiv": dims.ceildiv,
    "truncdiv": _truncdiv,
    "truncmod": _truncmod,
    "if_then_else": _select,
    "Select": _select,
    "int64": lambda value: value,
    "int32": lambda value: value,
}


@lru_cache(maxsize=4096)
def parsed_size(text: str) -> tuple[ast.expr, tuple[str, ...]]:
    """Parses a size written as a string; returns its `ast` and the names in it."""
    tree = ast.parse(text.strip(), mode="eval").body
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id != "T"]
    names.sort(key=lambda name: name.col_offset)  # a tree is walked level by level
    return tree, tuple(dict.fromkeys(name.id for name in names))


def size_of_string(context: Context, node: ast.Constant, read: Callable[..., Any]) -> Any:
    """Parses a size written as a string; in signatures, new names become symbolic dims."""
    text = str(node.value)
    dim = context.names.get(text)
    if type(dim) is Poly:
        return dim
    if text == ANY_SIZE:
        return context.any_size()
    try:
        tree, names = parsed_size(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _axis_of_string(context, node, text.strip(), read)
    for name in names:
        if context.declares_strings and _is_free(context, name):
            context.declare(name)
    try:
        return read(context, tree)
    except ParseError as error:
        first = error.diagnostics[0]
        raise context.error(node, first.message, first.hint, first.code) from None


def _axis_of_string(context: Context, node: ast.Constant, text: str, read: Any) -> Any:
    """Parses `*s`, `*`, `*:len` and `n:rgb`: row variables, ragged and labelled axes."""
    size, colon, name = (part.strip() for part in text.partition(":"))
    if colon and not name.isidentifier():
        hint = 'write a name after the colon: `"3:rgb"`'
        raise context.error(node, f"expected a label, found {text!r}", hint, "E0121")
    if size == "*":
        return Ragged(name)
    if size.startswith("*") and not colon and size[1:].isidentifier():
        return context.marked(size)
    if colon and size and not size.startswith("*"):
        inner = ast.copy_location(ast.Constant(size), node)
        return Labelled(size_of_string(context, inner, read), name)
    hint = 'write an integer or an expression over dims: `"n"`, `"2 * n + 1"`'
    raise context.error(node, f"expected a size, found {text!r}", hint, "E0121")


def _is_free(context: Context, name: str) -> bool:
    return context.names.get(name, MISSING) is MISSING
