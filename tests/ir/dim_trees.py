"""Generates random integer expressions, evaluated as dims and as plain Python."""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

from hypothesis import strategies as st

from structir.ir import dims
from structir.ir.dims import Dim, Sym

NAMES = ("n", "m", "k")
VARIABLES = {name: dims.sym(name) for name in NAMES}
SYMS: dict[str, Sym] = {name: s for name, d in VARIABLES.items() if (s := dims.as_sym(d))}

Tree = tuple[Any, ...]
PYTHON: dict[str, Callable[..., int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
}
DIMS: dict[str, Callable[..., Dim]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": dims.floordiv,
    "%": dims.floormod,
    "min": dims.dim_min,
    "max": dims.dim_max,
    "<": lambda a, b: dims.compare("<", a, b),
    "<=": lambda a, b: dims.compare("<=", a, b),
    "==": lambda a, b: dims.compare("==", a, b),
    "!=": lambda a, b: dims.compare("!=", a, b),
}

LEAVES: list[Tree] = [("var", name) for name in NAMES]
LEAVES += [("int", number) for number in (1, 2, 3, 4, 6, -1, -3, 0)]
DIVISORS = [leaf for leaf in LEAVES if leaf != ("int", 0)]


@st.composite
def trees(draw: st.DrawFn, most: int = 6) -> Tree:
    """Generates an expression of several operations, mostly divisions, which are error-prone."""
    parts = [draw(st.sampled_from(LEAVES)) for _ in range(draw(st.integers(2, most)))]
    while len(parts) > 1:
        op = draw(st.sampled_from(["+", "-", "*", "//", "//", "%", "%", "min", "max", "<", "=="]))
        first, second = parts.pop(), parts.pop(draw(st.integers(0, len(parts) - 1)))
        if op in ("//", "%") and draw(st.booleans()):
            parts.append(second)
            second = draw(st.sampled_from(DIVISORS))
        parts.append((op, first, second))
        if draw(st.integers(0, 7)) == 0:
            parts.append(("select", parts.pop(), *draw(st.tuples(*[st.sampled_from(LEAVES)] * 2))))
    return parts[0]


def small_trees() -> Iterator[Tree]:
    """Yields every expression of two operations over a few leaves."""
    leaves = [("var", "n"), ("var", "m"), ("int", 2), ("int", 3), ("int", -1)]
    for inner, outer in product(PYTHON, repeat=2):
        for first, second, third in product(leaves, repeat=3):
            yield outer, (inner, first, second), third
            yield outer, third, (inner, first, second)


points = st.lists(
    st.fixed_dictionaries({name: st.integers(0, 7) | st.integers(0, 60) for name in NAMES}),
    min_size=5,
    max_size=5,
)


def dim_of(tree: Tree) -> Dim:
    match tree:
        case ("var", name):
            return VARIABLES[name]
        case ("int", number):
            return int(number)
        case ("select", condition, chosen, other):
            return dims.select(dim_of(condition), dim_of(chosen), dim_of(other))
    return DIMS[tree[0]](*map(dim_of, tree[1:]))


def value_of(tree: Tree, point: Mapping[str, int]) -> int | None:
    """Evaluates a tree in plain Python; returns None for a division by zero."""
    try:
        return _value(tree, point)
    except ZeroDivisionError:
        return None


def _value(tree: Tree, point: Mapping[str, int]) -> int:
    match tree:
        case ("var", name):
            return point[name]
        case ("int", number):
            return int(number)
        case ("select", condition, chosen, other):
            return _value(chosen if _value(condition, point) else other, point)
    return PYTHON[tree[0]](*[_value(argument, point) for argument in tree[1:]])


def by_sym(point: Mapping[str, int]) -> dict[Sym, int]:
    return {SYMS[name]: value for name, value in point.items()}


_SYMBOLS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_EXCHANGED: dict[type, str] = {ast.Gt: "<", ast.GtE: "<="}


def tree_of_text(text: str) -> Tree:
    """Parses the text of a dim to a tree with Python's parser."""
    return _tree_of_ast(ast.parse(text, mode="eval").body)


def _tree_of_ast(node: ast.expr) -> Tree:
    match node:
        case ast.Constant(value=int(number)):
            return "int", number
        case ast.Name(id=name):
            return "var", name
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return "-", ("int", 0), _tree_of_ast(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return _SYMBOLS[type(op)], _tree_of_ast(left), _tree_of_ast(right)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _EXCHANGED:
            return _EXCHANGED[type(op)], _tree_of_ast(right), _tree_of_ast(left)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _SYMBOLS[type(op)], _tree_of_ast(left), _tree_of_ast(right)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="T"), attr="if_then_else"), args=args):
            return ("select", *map(_tree_of_ast, args))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="T"), attr=fn), args=[first, *rest]):
            tree = _tree_of_ast(first)
            for argument in rest:
                tree = (fn, tree, _tree_of_ast(argument))
            return tree
    raise ValueError(ast.dump(node))
