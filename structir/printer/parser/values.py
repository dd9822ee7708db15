"""Dispatches expressions to their parsing rules, and reports Python that is not supported."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import attrs

from structir.errors import Diagnostic, ParseError
from structir.ir.expr import ATOMS, Expr, Var
from structir.ir.registry import RegistrationTable
from structir.printer.parser.context import MAX_NESTING, Context

reads: RegistrationTable[type[ast.AST], Callable[[Context, Any], Any]] = RegistrationTable()

CONSTRUCT_NAMES: dict[type[ast.AST], str] = {
    ast.AnnAssign: "an annotated assignment",
    ast.Assert: "`assert`",
    ast.Assign: "this assignment",
    ast.AsyncFunctionDef: "`async def`",
    ast.AugAssign: "augmented assignment",
    ast.Break: "`break`",
    ast.Call: "this call",
    ast.ClassDef: "`class`",
    ast.Compare: "a chained comparison",
    ast.Constant: "this literal",
    ast.Continue: "`continue`",
    ast.Delete: "`del`",
    ast.Dict: "a dict",
    ast.DictComp: "a comprehension",
    ast.Expr: "an expression statement",
    ast.For: "`for`",
    ast.FunctionDef: "a function definition",
    ast.GeneratorExp: "a comprehension",
    ast.Global: "`global`",
    ast.If: "this `if`",
    ast.IfExp: "a conditional expression",
    ast.Import: "`import`",
    ast.ImportFrom: "`import`",
    ast.JoinedStr: "an f-string",
    ast.Lambda: "`lambda`",
    ast.ListComp: "a comprehension",
    ast.NamedExpr: "`:=`",
    ast.Raise: "`raise`",
    ast.Return: "this `return`",
    ast.SetComp: "a comprehension",
    ast.Slice: "a slice",
    ast.Starred: "`*`",
    ast.Subscript: "this subscript",
    ast.Try: "`try`",
    ast.While: "`while`",
    ast.With: "this `with`",
    ast.keyword: "this keyword argument",
}
OPERATOR_NAMES: dict[type[ast.AST], str] = {
    ast.And: "`and`",
    ast.Or: "`or`",
    ast.Not: "`not`",
    ast.Invert: "`~`",
    ast.In: "`in`",
    ast.NotIn: "`not in`",
    ast.Is: "`is`",
    ast.IsNot: "`is not`",
    ast.BitAnd: "`&`",
    ast.BitOr: "`|`",
    ast.BitXor: "`^`",
    ast.LShift: "`<<`",
    ast.RShift: "`>>`",
}
UNSUPPORTED: dict[type[ast.AST], str] = {
    ast.BoolOp: "combine tensors elementwise: `(x > 0) & (y > 0)`, `(x > 0) | (y > 0)`",
    ast.IfExp: "`R.where(condition, x, y)`, or an `if` statement",
    ast.ListComp: "programs are parsed, not executed: write the elements one by one",
    ast.GeneratorExp: "programs are parsed, not executed: write the elements one by one",
    ast.Lambda: "write a nested function under `@R.function`",
    ast.JoinedStr: "programs are parsed, not executed: write the string itself",
    ast.Dict: "dicts are only allowed in `R.func_attr({...})` and `I.module_attrs({...})`",
    ast.Starred: "write the elements one by one",
    ast.NamedExpr: "bind the value in a statement of its own: `y = ...`",
    ast.Slice: "slice a tensor: `x[0:2]`",
}
IN_FUNCTION = "is not supported in @R.function"
AT_MODULE_LEVEL = "is not allowed at module level"


def value_of(context: Context, node: ast.expr) -> Any:
    """Parses an expression to an Expr, a size, a static value, or a tuple of these."""
    rule = reads.get(type(node))
    if rule is None:
        raise unsupported(context, node)
    return rule(context, node)


def argument(context: Context, node: ast.expr) -> Any:
    """Parses an expression in argument position: every Expr is bound to an atom."""
    value = value_of(context, node)
    if type(value) in ATOMS or not isinstance(value, Expr):
        return value
    return context.atom(value, node)


def operand(context: Context, node: ast.expr) -> Expr:
    """Parses an argument and converts it to an Expr."""
    return context.expr(argument(context, node), node)


def path_of(node: ast.AST) -> str | None:
    """Returns the dotted path of attributes of a name, such as `R.name`, or None."""
    path = ""
    depth = 0
    while type(node) is ast.Attribute and depth < MAX_NESTING:
        path = f".{node.attr}{path}"
        node = node.value
        depth += 1
    return node.id + path if type(node) is ast.Name else None


def construct_name(node: ast.AST) -> str:
    """Returns the name of a Python construct, for messages."""
    operators: list[Any] = (
        node.ops if isinstance(node, ast.Compare) else [getattr(node, "op", None)]
    )
    if len(operators) == 1 and type(operators[0]) in OPERATOR_NAMES:
        return OPERATOR_NAMES[type(operators[0])]
    return CONSTRUCT_NAMES.get(type(node), f"`{ast.unparse(node).splitlines()[0]}`")


def unsupported(
    context: Context, node: ast.AST, hint: str | None = None, why: str = IN_FUNCTION
) -> ParseError:
    """Returns the error for unsupported Python, with the variables that it mentions."""
    message = f"{construct_name(node)} {why}"
    if isinstance(node, ast.For | ast.While) and why is IN_FUNCTION:
        message += " (loops live in @I.kernel)"
    diagnostic = Diagnostic(message, context.source_map.span(node), code="E0103")
    for name in dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name)):
        var = context.names.get(name)
        if isinstance(var, Var):
            diagnostic = diagnostic.note(f"{name}: {var.struct_info}", var.span)
    default = "programs are parsed, not executed: use ops (`R.name(...)`) and bindings (`y = ...`)"
    hint = hint or UNSUPPORTED.get(type(node), default)
    is_statement = isinstance(node, ast.stmt) and why is IN_FUNCTION
    op = context.function if is_statement else None  # a call around an expression names its own
    return ParseError(attrs.evolve(diagnostic, op=op, hint=hint))
