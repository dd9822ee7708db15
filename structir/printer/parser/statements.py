"""From the `ast` of statements to bindings and blocks; after a wrong statement reading goes on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from structir.analysis.calls import contradicts
from structir.analysis.deduction import deduce
from structir.analysis.lattice import FAIL_L0, PASS, base_check
from structir.build import BuilderScope
from structir.errors import DiagnosticError
from structir.ir.dims import Poly
from structir.ir.expr import ATOMS, Expr, If, SeqExpr, Tuple, TupleGetItem, Var
from structir.ir.struct_info import OBJECT, StructInfo, TupleStructInfo
from structir.printer.parser.calls import match_cast
from structir.printer.parser.chunked_parse import LineRun
from structir.printer.parser.context import INVALID, AlreadyReported, Context
from structir.printer.parser.forms import info_of
from structir.printer.parser.functions import is_declaration, local_function
from structir.printer.parser.prim_sizes import bind_prim_sizes
from structir.printer.parser.requirements import require
from structir.printer.parser.values import argument, operand, path_of, unsupported, value_of
from structir.printer.syntax import DATAFLOW, FUNC_ATTR, MATCH_CAST, OUTPUT, REQUIRE

HINTS: dict[type[ast.AST], str] = {
    ast.For: "nothing is executed: repeat by recursion of a function, or write the steps out",
    ast.While: "repeat by recursion of a function of the module",
    ast.AugAssign: "bind the new value to a name: y = y + x",
    ast.Return: "a function returns once, on its last line; a branch gives its value to a name",
    ast.Delete: "values are never deleted",
    ast.Assert: "use R.require for a fact about sizes, R.match_cast for a structure",
    ast.Import: "imports stand outside of functions",
    ast.ImportFrom: "imports stand outside of functions",
    ast.ClassDef: "a module is one class",
}


def read_statements(context: Context, nodes: Sequence[ast.stmt]) -> None:
    """Read statements in order; each error is kept, and what depends on it is passed over."""
    for node in nodes:
        try:
            read_statement(context, node)
        except AlreadyReported:
            _mark_invalid(context, node)
        except DiagnosticError as error:
            context.report(error, node)
            _mark_invalid(context, node)


def read_statement(context: Context, node: ast.stmt) -> None:
    """Read one statement."""
    rule = _STATEMENTS.get(type(node))
    if rule is None:
        raise unsupported(context, node, HINTS.get(type(node)))
    rule(context, node)


def _mark_invalid(context: Context, node: ast.stmt) -> None:
    """What a wrong statement was to define is known to be wrong."""
    for name in targets(node):
        context.define(name, INVALID)


def targets(node: ast.AST) -> list[str]:
    """The names that a statement defines."""
    match node:
        case ast.Assign(targets=[*items]):
            return [n.id for item in items for n in ast.walk(item) if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            return [name]
        case ast.FunctionDef(name=name):
            return [name]
        case ast.If(body=body, orelse=other):
            return targets(body[-1]) + (targets(other[-1]) if other else [])
        case ast.With(body=body) | ast.For(body=body) | ast.While(body=body):
            return [name for item in body for name in targets(item)]
    return []


# ---- bindings ----------------------------------------------------------------------------------


def _assign(context: Context, node: ast.Assign) -> None:
    target = node.targets[0]
    if len(node.targets) == 1 and type(target) is ast.Name:
        bind(context, target, node.value, None)
    elif len(node.targets) == 1 and isinstance(target, ast.Tuple | ast.List):
        _unpack(context, target, node.value)
    else:
        raise unsupported(context, node, "bind one name, or the names of a tuple's fields")


def _annotated(context: Context, node: ast.AnnAssign) -> None:
    target = node.target
    if not isinstance(target, ast.Name):
        raise unsupported(context, node, "only a name can be bound")
    info = info_of(context, node.annotation)
    if node.value is None:
        context.branch_annotations[target.id] = info
    else:
        bind(context, target, node.value, info)


def bind(
    context: Context, target: ast.Name, value: ast.expr, annotation: StructInfo | None
) -> Var | None:
    """`name: annotation = value`; None for what declares a size or names the module."""
    name = target.id
    if is_declaration(value):
        if type(context.names.get(name)) is not Poly or name not in context.declared_dims:
            context.declare(name)
        return None
    if isinstance(value, ast.Name) and context.names_module(value):
        context.module.aliases.add(name)
        return None
    if isinstance(value, ast.Call) and path_of(value.func) == f"R.{MATCH_CAST}":
        var = match_cast(context, value, name, target, annotation)
    else:
        result = context.expr(value_of(context, value), value)
        result = bind_prim_sizes(context, result) if annotation is None else result
        var = bound(context, result, name, target, annotation)
    context.define(name, var)
    return var


def bound(
    context: Context, value: Expr, name: str, node: ast.AST, annotation: StructInfo | None
) -> Var:
    """A new variable of a value; strict reading has undecided annotations checked when run."""
    if annotation is not None and context.strict and annotation != OBJECT:
        known = deduce(value)
        check = base_check(annotation, known)
        if check not in (PASS, FAIL_L0) and not contradicts(annotation, known):
            operand_ = context.atom(value, node)
            span = context.source_map.span(node)
            return context.emit_cast(operand_, annotation, span, name, node)
    return context.emit(value, name, node, annotation)


def _unpack(context: Context, target: ast.Tuple | ast.List, value: ast.expr) -> None:
    """`a, b = tuple`, and `n, m = T.int64(), T.int64()`."""
    names = [item for item in target.elts if isinstance(item, ast.Name)]
    if len(names) != len(target.elts):
        raise unsupported(context, target, "the fields of a tuple are bound to names")
    if isinstance(value, ast.Tuple) and all(map(is_declaration, value.elts)):
        for name, item in zip(names, value.elts, strict=False):
            bind(context, name, item, None)
        return
    whole = operand(context, value)
    info = deduce(whole)
    if not isinstance(info, TupleStructInfo) or len(info.fields) != len(names):
        raise context.error(value, f"{len(names)} names cannot be given the fields of {info}")
    for index, item in enumerate(names):
        field = TupleGetItem(whole, index, info.fields[index], context.source_map.span(item))
        context.define(item.id, context.emit(field, item.id, item))


def _expression(context: Context, node: ast.Expr) -> None:
    """A value that nothing names: a call for its effect. Docstrings are no bindings."""
    value = node.value
    if isinstance(value, ast.Constant):
        run = context.source_map.run_at(node) if value.value is ... else None
        if run is not None:
            return _run(context, run)
        if isinstance(value.value, str):
            return None
    if isinstance(value, ast.Call):
        path = path_of(value.func)
        if path == f"R.{FUNC_ATTR}":
            return None
        if path == f"R.{REQUIRE}":
            return require(context, value)
        if path == f"R.{OUTPUT}":
            raise context.error(node, "R.output stands at the end of a dataflow block")
    context.emit(context.expr(value_of(context, value), value), "_", value)
    return None


def _run(context: Context, run: LineRun) -> None:
    """Many simple statements, of which only a piece has an `ast` at a time."""
    for nodes, shift in run.pieces():
        with context.source_map.shifted(shift):
            read_statements(context, nodes)


# ---- dataflow ----------------------------------------------------------------------------------


def _dataflow(context: Context, node: ast.With) -> None:
    """`with R.dataflow():` with its `R.output(...)`."""
    if len(node.items) != 1 or not _is_call(node.items[0].context_expr, DATAFLOW):
        raise unsupported(context, node, "the only block is `with R.dataflow():`")
    if context.outputs is not None:
        raise context.error(node, "a dataflow block cannot stand in another")
    output = node.body[-1].value if isinstance(node.body[-1], ast.Expr) else None
    given = output.args if isinstance(output, ast.Call) and _is_call(output, OUTPUT) else None
    names = [item for item in given or () if isinstance(item, ast.Name)]
    context.scope.close_block()
    context.scope.in_dataflow = True
    context.outputs = frozenset([item.id for item in names])
    mark = context.mark()
    try:
        read_statements(context, node.body if given is None else node.body[:-1])
    finally:
        context.outputs = None
        context.scope.close_block()
        context.leave_dataflow(
            mark,
            "{name} is a dataflow variable, used outside its block",
            "list it in R.output(...) to make it seen outside",
        )
    for item in names:
        context.lookup(item)


def _is_call(node: ast.expr, word: str) -> bool:
    return isinstance(node, ast.Call) and path_of(node.func) == f"R.{word}"


# ---- branches ----------------------------------------------------------------------------------


def _if(context: Context, node: ast.If) -> None:
    context.define(*_conditional(context, node))


def _conditional(context: Context, node: ast.If) -> tuple[str, Var]:
    """An if whose branches end by giving one name its value."""
    if context.outputs is not None:
        raise context.error(
            node, "an if cannot stand in a dataflow block", "end the block before it"
        )
    if not node.orelse:
        raise context.error(node, "an if needs an else", "both branches give one name its value")
    names = [targets(body[-1]) for body in (node.body, node.orelse)]
    name = names[0][0] if names[0] else None
    if name is None or names[1][:1] != [name]:
        hint = "let the last line of each branch bind the same name"
        raise context.error(node, "the branches do not give one name its value", hint, "E0105")
    promised = context.branch_annotations.pop(name, None)
    with context.nested(node):
        cond = operand(context, node.test)
        then = _branch(context, node.body)
        other = _branch(context, node.orelse)
    value = If(cond, then, other, None, context.source_map.span(node.test))
    value = If(cond, then, other, deduce(value), value.span)
    return name, context.emit(value, name, node.test, promised)


def _branch(context: Context, nodes: list[ast.stmt]) -> SeqExpr:
    with _region(context, "{name} is bound in a branch only", "let both branches give one name"):
        read_statements(context, nodes[:-1])
        body = _branch_result(context, nodes[-1])
        return context.scope.sequence(body)


@contextmanager
def _region(context: Context, why: str, hint: str) -> Iterator[None]:
    """A sequence of its own inside the open one."""
    outer, mark = context.scope, context.mark()
    context.scope = BuilderScope(outer)
    try:
        yield
    finally:
        context.scope = outer
        context.leave(mark, why, hint)


def _branch_result(context: Context, node: ast.stmt) -> Expr:
    """What a branch gives, from its last line. A value that is known already needs no variable."""
    if isinstance(node, ast.Assign | ast.AnnAssign) and _binds_value(node):
        annotated = isinstance(node, ast.AnnAssign)
        info = info_of(context, node.annotation) if isinstance(node, ast.AnnAssign) else None
        target: Any = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        written: Any = node.value
        value = context.expr(value_of(context, written), written)
        known = type(value) in ATOMS or type(value) is Tuple
        if known and (not annotated or info == deduce(value)):
            return value
        return bound(context, value, target.id, target, info)
    if isinstance(node, ast.If):
        return _conditional(context, node)[1]
    read_statement(context, node)
    given = context.names[targets(node)[0]]
    if not isinstance(given, Expr):
        raise context.error(node, "a branch gives a value, not a symbolic dim")
    return given


def _binds_value(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether a line binds one name to a value, and not by a match_cast."""
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    single = isinstance(node, ast.AnnAssign) or len(node.targets) == 1
    value = node.value
    plain = value is not None and not _is_call(value, MATCH_CAST) and not is_declaration(value)
    return single and plain and isinstance(target, ast.Name)


# ---- functions ---------------------------------------------------------------------------------


def _function(context: Context, node: ast.FunctionDef) -> None:
    var = local_function(context, node, read_body)
    context.define(node.name, var)


def read_body(context: Context, nodes: list[ast.stmt]) -> Expr:
    """The statements of a function, and what it returns."""
    last = nodes[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        hint = "let its last line return a value, or several: return y, z"
        raise context.error(last, "a function ends by returning a value", hint)
    read_statements(context, nodes[:-1])
    return context.expr(argument(context, last.value), last.value)


_STATEMENTS: dict[type[ast.stmt], Callable[[Context, Any], None]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.Expr: _expression,
    ast.With: _dataflow,
    ast.If: _if,
    ast.FunctionDef: _function,
    ast.Pass: lambda context, node: None,
}
