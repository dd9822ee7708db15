"""Parser of the range and guard expressions on input sizes that torch checks at each call.

Torch writes them as Python expressions. They are parsed, never executed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping

from structir.errors import DiagnosticError
from structir.frontend.scales import as_fraction
from structir.frontend.torch.sizes import (
    FUNCTIONS,
    MAX_LENGTH,
    Ratio,
    TorchSymbols,
    UnreadableSizeError,
    unreadable,
)
from structir.ir.dims import Dim
from structir.ir.struct_info import PrimStructInfo, StructInfo, TensorStructInfo

# Raised by `ast.parse`, and by size functions with a wrong number of operands.
MALFORMED = (
    SyntaxError,
    RecursionError,
    MemoryError,
    ValueError,
    ArithmeticError,
    TypeError,
    LookupError,
)
Leaf = Callable[[ast.expr], Dim | None]

OPERATORS: dict[type, str] = {
    ast.Add: "Add",
    ast.Mult: "Mul",
    ast.FloorDiv: "FloorDiv",
    ast.Div: "IntTrueDiv",
    ast.Mod: "Mod",
    ast.Pow: "Pow",
    ast.Lt: "StrictLessThan",
    ast.LtE: "LessThan",
    ast.Gt: "StrictGreaterThan",
    ast.GtE: "GreaterThan",
    ast.Eq: "Equality",
    ast.NotEq: "Unequality",
    ast.And: "And",
    ast.Or: "Or",
    ast.Not: "Not",
}
CALLS = {"max": "Max", "min": "Min", "math.floor": "floor", "math.ceil": "ceiling"}
CALLS |= {"torch.sym_max": "Max", "torch.sym_min": "Min"}
CALLS |= {"math.trunc": "TruncToInt", "torch.sym_float": "ToFloat", "float": "ToFloat"}


def range_key(symbols: TorchSymbols, expression: str) -> Dim:
    """Returns the size that a range constrains: a variable, or an expression such as `2*s0 + 1`."""

    def leaf(tree: ast.expr) -> Dim | None:
        return symbols.variable(tree.id) if isinstance(tree, ast.Name) else None

    try:
        return _number(expression, leaf)
    except UnreadableSizeError as error:
        raise unreadable(expression[:100], str(error)) from error


def guard_condition(expression: str, inputs: Mapping[str, StructInfo]) -> Dim:
    """Returns a guard such as `L['x'].size()[0] % 2 == 0` as 1 or 0, from inputs by name."""
    return _number(expression, lambda tree: _input_size(tree, inputs))


def fixed_size(expression: str, inputs: Mapping[str, StructInfo]) -> str | None:
    """Returns `axis 1 of x to 8` for a guard that fixes an axis to one size; None for other
    guards."""
    match _parse(expression):
        case ast.Compare(
            left=ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=path)), slice=ast.Constant(value=int(axis))
            ) as left,
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=int(size))],
        ) if _input_size(left, inputs) == size:
            return f"axis {axis} of {_placeholder(path)} to {size}"
    return None


def is_redundant(expression: str) -> bool:
    """Returns whether a guard of torch's analysis of ops can be dropped: each op checks its sizes.

    Guards with floor divisions or products of sizes, and those that compare by `!=` with 0, 1 or
    another size, would reject sizes that the ops accept. The order of two sizes is checked, as is a
    size that equals a constant: torch has specialized it.
    """
    tree = _parse(expression)
    match tree:
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]):
            other = right.value if isinstance(right, ast.Constant) else 1
            modulo = isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod)
            if other in (0, 1) and not modulo:
                return True
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]):
            if value and isinstance(left, ast.BinOp) and not isinstance(left.op, ast.Mod):
                return False
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]):
            has_bound = any([isinstance(side, ast.Constant) for side in tree.comparators])
            if not has_bound and not isinstance(left, ast.Constant):
                return False
    return any([_has_quotient_or_product(part) for part in ast.walk(tree)])


def _has_quotient_or_product(part: ast.AST) -> bool:
    match part:
        case ast.BinOp(op=ast.FloorDiv()):
            return True
        case ast.BinOp(op=ast.Mod(), right=right):
            return not isinstance(right, ast.Constant)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            return all([any(isinstance(p, ast.Call) for p in ast.walk(s)) for s in (left, right)])
    return False


def _input_size(tree: ast.expr, inputs: Mapping[str, StructInfo]) -> Dim | None:
    """Returns a size of an input, or the value of a scalar input; None for other expressions."""
    match tree:
        case ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=path, attr="size")),
            slice=ast.Constant(value=int(axis)),
        ):
            return _size(inputs.get(_placeholder(path)), axis)
        case ast.Subscript():
            info = inputs.get(_placeholder(tree))
            return info.value if isinstance(info, PrimStructInfo) else None
    return None


def _size(info: StructInfo | None, axis: int) -> Dim | None:
    sizes = info.dims if isinstance(info, TensorStructInfo) else None
    return sizes[axis] if isinstance(sizes, tuple) and 0 <= axis < len(sizes) else None


def _placeholder(path: ast.expr) -> str:
    """Returns the name that torch derives for an input: `L['x'][0]['Key']` is `x_0_key`."""
    keys: list[str] = []
    while not isinstance(path, ast.Name):
        match path:
            case ast.Subscript(slice=ast.Constant(value=key)):
                keys.append(re.sub("[^a-zA-Z0-9]", "_", str(key)).lower())
            case ast.Attribute(attr=key):
                keys.append(key.lower())
            case _:
                return ""
        path = path.value
    return "_".join(reversed(keys)) if path.id == "L" else ""


def _parse(expression: str) -> ast.expr:
    if len(expression) > MAX_LENGTH:
        raise UnreadableSizeError(f"longer than {MAX_LENGTH} characters")
    return ast.parse(expression.strip(), mode="eval").body


def _number(expression: str, leaf: Leaf) -> Dim:
    """Returns the value of a Python expression over sizes."""
    try:
        value = _value(_parse(expression), leaf).whole()
    except DiagnosticError as error:  # a size with too many terms
        raise UnreadableSizeError(error.diagnostics[0].message) from error
    except MALFORMED as error:
        raise UnreadableSizeError("not an expression") from error
    if value is None:
        raise UnreadableSizeError("not provably an integer")
    return value


def _value(tree: ast.expr, leaf: Leaf) -> Ratio:
    size = leaf(tree)
    if size is not None:
        return Ratio(size)
    match tree:
        case ast.Constant(value=bool() | int() | float() as value):
            fraction = as_fraction(value)
            return Ratio(fraction.numerator, fraction.denominator)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(ast.BinOp(left, ast.Add(), ast.UnaryOp(ast.USub(), right)), leaf)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _apply("Mul", [Ratio(-1), _value(operand, leaf)])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return _apply(OPERATORS[type(op)], [_value(left, leaf), _value(right, leaf)])
        case ast.UnaryOp(op=ast.Not() as op, operand=operand):
            return _apply(OPERATORS[type(op)], [_value(operand, leaf)])
        case ast.BoolOp(op=op, values=values):
            return _apply(OPERATORS[type(op)], [_value(v, leaf) for v in values])
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPERATORS:
            return _apply(OPERATORS[type(op)], [_value(left, leaf), _value(right, leaf)])
        case ast.Call(func=func, args=args):
            name = ast.unparse(func)
            name = CALLS.get(name, name)
            if name in FUNCTIONS:
                return _apply(name, [_value(a, leaf) for a in args])
    return _reject(tree)


def _apply(name: str, values: list[Ratio]) -> Ratio:
    """Applies a function to values; for integers, `a < b` becomes `a + 1 <= b`."""
    if name in ("StrictLessThan", "StrictGreaterThan"):
        low, high = values if name == "StrictLessThan" else reversed(values)
        if (first := low.whole()) is not None and high.whole() is not None:
            return FUNCTIONS["LessThan"]([Ratio(first + 1), high])
    return FUNCTIONS[name](values)


def _reject(tree: ast.expr) -> Ratio:
    raise UnreadableSizeError(f"unsupported expression {ast.unparse(tree)[:60]}")
