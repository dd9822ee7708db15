"""The dispatch from the `ast` of an expression to what it says, and what is not of the language."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from structir.errors import Diagnostic, ParseError
from structir.ir.expr import Expr, Var
from structir.ir.op import find_op
from structir.printer.parser.context import MAX_NESTING, Context

Rule = TypeVar("Rule", bound=Callable[[Context, Any], Any])
RULES: dict[type[ast.AST], Callable[[Context, Any], Any]] = {}


def reads(*kinds: type[ast.AST]) -> Callable[[Rule], Rule]:
    """The decorated function reads expressions of these kinds."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


CONSTRUCT_NAMES: dict[type[ast.AST], str] = {
    ast.Assign: "assignment",
    ast.AugAssign: "assignment with an operator",
    ast.BoolOp: "and/or",
    ast.Compare: "chain of comparisons",
    ast.Delete: "del",
    ast.IfExp: "if expression",
    ast.JoinedStr: "f-string",
    ast.keyword: "**",
    ast.ListComp: "comprehension",
    ast.GeneratorExp: "comprehension",
    ast.NamedExpr: ":=",
    ast.Starred: "*",
    ast.UnaryOp: "not or ~",
    ast.Expr: "expression on its own",
}
UNSUPPORTED: dict[type[ast.AST], str] = {
    ast.BoolOp: "use R.logical_and and R.logical_or",
    ast.IfExp: "write an if statement, or use R.where",
    ast.ListComp: "nothing is executed: write the elements one by one",
    ast.GeneratorExp: "nothing is executed: write the elements one by one",
    ast.Lambda: "write a nested function under @R.function",
    ast.JoinedStr: "nothing is executed: write the string itself",
    ast.Dict: "a dict stands only in R.func_attr and I.module_attrs",
    ast.Starred: "write the elements one by one",
    ast.NamedExpr: "bind the value on a line of its own",
    ast.Slice: "slices are written R.strided_slice(x, axes=..., begin=..., end=...)",
}


def value_of(context: Context, node: ast.expr) -> Any:
    """What an expression says: an Expr to be bound, a size, a static value, a tuple of such."""
    rule = RULES.get(type(node))
    if rule is None:
        raise unsupported(context, node)
    return rule(context, node)


def argument(context: Context, node: ast.expr) -> Any:
    """The same, with every Expr an atom."""
    value = value_of(context, node)
    return context.atom(value, node) if isinstance(value, Expr) else value


def operand(context: Context, node: ast.expr) -> Expr:
    """An argument as an Expr."""
    return context.expr(argument(context, node), node)


def path_of(node: ast.AST) -> str | None:
    """`R.room.op` for the attributes of a name; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < MAX_NESTING:
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def construct_name(node: ast.AST) -> str:
    """What a piece of Python is called."""
    return CONSTRUCT_NAMES.get(type(node), type(node).__name__.lower())


def unsupported(context: Context, node: ast.AST, hint: str | None = None) -> ParseError:
    """The error for Python that is not of the language, with the variables that it mentions."""
    message = f"Python's {word_of(node)} is not part of the language"
    diagnostic = Diagnostic(message, context.source_map.span(node), code="E0103")
    for name in dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name)):
        known = context.names.get(name)
        if isinstance(known, Var):
            diagnostic = diagnostic.note(f"{name}: {known.struct_info}", known.span)
    paths = [path_of(n.func) or "" for n in ast.walk(node) if isinstance(n, ast.Call)]
    op = next((p[2:] for p in paths if p.startswith("R.") and find_op(p[2:])), None)
    default = "the text is read, never executed; see the language's own forms"
    hint = hint or UNSUPPORTED.get(type(node), default)
    return ParseError(attrs.evolve(diagnostic, op=op, hint=hint))
