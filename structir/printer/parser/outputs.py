"""Outputs of dataflow blocks: each name is bound once, or in a loop."""

from __future__ import annotations

import ast

from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, ParseError
from structir.ir.expr import DataflowVar, Expr, Var
from structir.ir.node import replace
from structir.printer.parser.context import Context


def reject_rebound_outputs(context: Context, node: ast.With) -> None:
    """Records an error for each output whose name the block binds more than once.

    A loop may bind it again: the earlier variables are then dataflow variables.
    """
    earlier: dict[str, Var] = {}
    inner: dict[Var, Expr] = {}
    for var in [binding.var for binding in context.scope.bindings]:
        if var.name not in (context.outputs or ()):
            continue
        before = earlier.get(var.name)
        earlier[var.name] = var
        if before is None:
            continue
        if _is_in_loop(context, node, before, var):
            inner[before] = DataflowVar(before.name, before.struct_info, before.span)
            continue
        earlier[var.name] = before
        message = f"R.output: `{var.name}` is bound twice in the dataflow block"
        diagnostic = Diagnostic(message, var.span, code="E0117", label="bound again here")
        diagnostic = diagnostic.note("bound here first", before.span)
        hint = f"rename the first: `{var.name}_1 = ...`"
        context.report(ParseError(diagnostic.hinted(hint)), node)
    if inner:
        renaming = Substitution(inner)
        context.scope.bindings[:] = [
            replace(renaming.binding(b), var=inner.get(b.var, b.var))
            for b in context.scope.bindings
        ]


def _is_in_loop(context: Context, node: ast.With, *bound_vars: Var) -> bool:
    """Whether one of these variables is bound in a loop of the block."""
    loops = [context.source_map.span(n) for n in ast.walk(node) if isinstance(n, ast.For)]
    lines = [var.span.line for var in bound_vars if var.span is not None]
    return any([loop.line <= line <= loop.end_line for loop in loops for line in lines])
