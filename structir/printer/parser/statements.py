"""Parses statements to bindings and blocks; an invalid statement does not end parsing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from structir.analysis.deduction import deduce
from structir.analysis.lattice import FAIL_L0, PASS, base_check
from structir.build import BuilderScope
from structir.errors import DiagnosticError
from structir.ir.dims import Poly
from structir.ir.expr import (
    ATOMS,
    Expr,
    If,
    PrimValue,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.struct_info import OBJECT, StructInfo, TupleStructInfo
from structir.printer.parser.augmented import plain_assignment
from structir.printer.parser.calls import match_cast
from structir.printer.parser.chunked_parse import LineRun
from structir.printer.parser.context import (
    INVALID,
    MISSING,
    AlreadyReported,
    Context,
    VariableDeclaration,
)
from structir.printer.parser.element_assignments import assignment_hint
from structir.printer.parser.forms import info_of
from structir.printer.parser.functions import (
    is_declaration,
    is_result_declaration,
    local_function,
)
from structir.printer.parser.macros import Macro
from structir.printer.parser.outputs import reject_rebound_outputs
from structir.printer.parser.prim_sizes import bind_prim_sizes
from structir.printer.parser.requirements import require
from structir.printer.parser.sizes import is_number
from structir.printer.parser.statement_errors import branch_error, leaves, unpack_error
from structir.printer.parser.static_values import static_test, static_value
from structir.printer.parser.unrolling import Exit, alias_of, allowing_exits, assign, leave, unroll
from structir.printer.parser.untyped_constants import typed_number
from structir.printer.parser.values import argument, operand, path_of, unsupported, value_of
from structir.printer.syntax import DATAFLOW, FUNC_ATTR, MATCH_CAST, OUTPUT, REQUIRE

CAST = f"R.{MATCH_CAST}"
SIZES = (Poly, tuple)
NO_EXITS: frozenset[type] = frozenset()
RETURN: frozenset[type] = frozenset({ast.Return})
NULL_VALUE = "R.null_value"  # TVM passes it for an argument that is left out
FUNC_RET_VALUE = "func_ret_value"  # `R.func_ret_value(y)` is `return y` in TVM
HINTS: dict[type[ast.AST], str] = {
    ast.While: "call a recursive function of the module, or use `R.scan`",
    ast.Delete: "remove the statement; values are freed after their last use",
    ast.Assert: '`R.require("n % 4 == 0")` for sizes, `R.match_cast(x, ...)` for a StructInfo',
    ast.Import: "move imports out of the function",
    ast.ImportFrom: "move imports out of the function",
    ast.ClassDef: "write one class per module, under `@I.ir_module`",
}


def read_statements(context: Context, nodes: Sequence[ast.stmt]) -> None:
    """Parses statements in order; records errors, but not those that follow from them."""
    for node in nodes:
        rule = _STATEMENTS.get(type(node), _unsupported)
        try:
            rule(context, node)
        except AlreadyReported:
            _mark_invalid(context, node)
        except DiagnosticError as error:
            context.report(error, node)
            _mark_invalid(context, node)


def read_statement(context: Context, node: ast.stmt) -> None:
    """Parses one statement."""
    _STATEMENTS.get(type(node), _unsupported)(context, node)


def _unsupported(context: Context, node: ast.stmt) -> None:
    raise unsupported(context, node, HINTS.get(type(node)))


def _mark_invalid(context: Context, node: ast.stmt) -> None:
    """Marks the names that an invalid statement binds, so that their uses are not reported."""
    for name in targets(node):
        context.define(name, INVALID)


def targets(node: ast.AST) -> list[str]:
    """Returns the names that a statement binds."""
    match node:
        case ast.Assign(targets=[*items]):
            return [n.id for item in items for n in ast.walk(item) if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            return [name]
        case ast.FunctionDef(name=name):
            return [name]
        case ast.If(body=body, orelse=other):
            return targets(body[-1]) + (targets(other[-1]) if other else [])
        case ast.For(target=target, body=body):
            names = [name for item in reversed(body) for name in targets(item)]
            return names + [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
        case ast.With(body=body) | ast.While(body=body):
            return [name for item in body for name in targets(item)]
    return []


# ---- bindings


def _assign(context: Context, node: ast.Assign) -> None:
    target = node.targets[0]
    if len(node.targets) == 1 and type(target) is ast.Name:
        bind(context, target, node.value, None)
    elif len(node.targets) == 1 and isinstance(target, ast.Tuple | ast.List):
        _unpack(context, target, node.value)
    else:
        raise unsupported(context, node, assignment_hint(context, target, node.value))


def _annotated(context: Context, node: ast.AnnAssign) -> None:
    target = node.target
    if not isinstance(target, ast.Name):
        raise unsupported(context, node, "bind a name: `y: R.Tensor(...) = ...`")
    info = info_of(context, node.annotation)
    if node.value is None:
        context.declarations[target.id] = VariableDeclaration(info, node)
    else:
        bind(context, target, node.value, info)


def bind(
    context: Context, target: ast.Name, value: ast.expr, annotation: StructInfo | None
) -> Var | None:
    """Binds `name: annotation = value`; returns None for a dim, and for an alias.

    An alias is another name of the module, of a value of Python, or of a size.
    """
    name = target.id
    path = path_of(value.func) if type(value) is ast.Call else None
    if path is not None and path.startswith("R."):
        if path == NULL_VALUE:
            context.define(name, None)  # an argument that is left out
            return None
    elif _bind_alias(context, name, value, annotation):
        return None
    declared = context.declared(name) if context.declarations else None
    if declared is not None and annotation is not None:
        message, hint = f"`{name}` is annotated twice", f"remove one: `{name} = ...`"
        raise context.error(target, message, hint, "E0102")
    if path == CAST:
        var = match_cast(
            context,
            value,  # type: ignore[arg-type]
            name,
            target,
            annotation or declared,
        )
    else:
        parsed = value_of(context, value)
        if type(parsed) in SIZES and annotation is declared is None and _is_size(parsed):
            context.define(name, parsed)
            return None
        expr = context.expr(parsed, value)
        expr = bind_prim_sizes(context, expr) if annotation is None else expr
        if (
            isinstance(expr, Var)
            and annotation is None
            and declared is None
            and _is_result_of_macro(context, name, value)
        ):
            context.define(name, expr)
            return expr
        var = bound(context, expr, name, target, annotation, declared)
    context.define(name, var)
    return var


def _bind_alias(
    context: Context, name: str, value: ast.expr, annotation: StructInfo | None
) -> bool:
    """Binds a dim, the module or a value of Python to a name; whether the value is one of them."""
    if is_declaration(value):
        if type(context.names.get(name)) is not Poly or name not in context.declared_dims:
            context.declare(name)
        return True
    if type(value) is ast.Name and context.names_module(value):
        context.module.aliases.add(name)
        return True
    alias = alias_of(context, value) if annotation is None else None
    if alias is None or name in context.declarations:
        return False
    context.define(name, alias)
    return True


def _is_size(value: Any) -> bool:
    """Whether a value is a size or a tuple of sizes, at least one."""
    return type(value) is not tuple or (len(value) > 0 and all(map(is_number, value)))


def _is_result_of_macro(context: Context, name: str, value: ast.expr) -> bool:
    """Whether a variable has a binding already, in an expanded macro; an output needs its own."""
    is_output = context.outputs is not None and name in context.outputs
    is_call = isinstance(value, ast.Call) and not is_output
    return is_call and type(static_value(context, value.func)) is Macro  # type: ignore[attr-defined]


def bound(
    context: Context,
    value: Expr,
    name: str,
    node: ast.AST,
    annotation: StructInfo | None,
    declared: StructInfo | None = None,
) -> Var:
    """Binds a value to a new variable; strict parsing checks undecided annotations at run time."""
    if annotation is None:
        return context.emit(value, name, node, declared=declared)
    value = typed_number(value, annotation)
    if context.strict and annotation != OBJECT:
        inferred = deduce(value)
        check = base_check(annotation, inferred)
        if check not in (PASS, FAIL_L0):
            atom = context.atom(value, node)
            span = context.source_map.span(node)
            return context.emit_cast(atom, annotation, span, name, node)
    var = context.emit(value, name, node, annotation, declared)
    if type(value) is PrimValue:
        context.known_scalars[var] = value.value
    return var


def _unpack(context: Context, target: ast.Tuple | ast.List, value: ast.expr) -> None:
    """Parses `a, b = tuple` and `n, m = T.int64(), T.int64()`."""
    names = [item for item in target.elts if isinstance(item, ast.Name)]
    if len(names) != len(target.elts):
        message = f"expected names to unpack into, found {ast.unparse(target)}"
        raise context.error(target, message, "unpack into names: `a, b = ...`", "E0116")
    if isinstance(value, ast.Tuple) and all(map(is_declaration, value.elts)):
        for name, item in zip(names, value.elts, strict=False):
            bind(context, name, item, None)
        return None
    alias = alias_of(context, value)
    if alias is not None:
        return assign(context, target, alias)
    parsed = argument(context, value)
    if type(parsed) is tuple and (isinstance(value, ast.ListComp | ast.Call) or _is_size(parsed)):
        return assign(context, target, parsed)
    tuple_value = context.expr(parsed, value)
    info = deduce(tuple_value)
    if not isinstance(info, TupleStructInfo) or len(info.fields) != len(names):
        raise unpack_error(context, target, value, tuple_value, info)
    for index, item in enumerate(names):
        field = TupleGetItem(tuple_value, index, info.fields[index], context.source_map.span(item))
        context.define(item.id, context.emit(field, item.id, item))
    return None


def _expression(context: Context, node: ast.Expr) -> None:
    """Parses an expression statement: a call for its effect, or a docstring."""
    value = node.value
    if isinstance(value, ast.Constant):
        run = context.source_map.run_at(node) if value.value is ... else None
        if run is not None:
            return _run(context, run)
        if isinstance(value.value, str):
            return None
    if isinstance(value, ast.Call):
        path = path_of(value.func)
        if path == f"R.{FUNC_ATTR}" or is_result_declaration(value):
            return None
        if path == f"R.{REQUIRE}":
            return require(context, value)
        if path == f"R.{OUTPUT}":
            hint = "make it the last statement of the `with R.dataflow():` block"
            message = "R.output is only allowed as the last statement of a dataflow block"
            raise context.error(node, message, hint, "E0117")
    result = value_of(context, value)
    if result is not None:  # of a macro without `return`
        context.emit(context.expr(result, value), "_", value)
    return None


def _run(context: Context, run: LineRun) -> None:
    """Parses a run of simple statements, one chunk at a time."""
    for nodes, shift in run.chunks():
        with context.source_map.shifted(shift):
            read_statements(context, nodes)


# ---- dataflow


def _dataflow(context: Context, node: ast.With) -> None:
    """Parses `with R.dataflow():` and its `R.output(...)`."""
    if len(node.items) != 1 or not _is_call(node.items[0].context_expr, DATAFLOW):
        raise unsupported(context, node, "the only block is `with R.dataflow():`")
    if context.outputs is not None:
        hint = "remove the inner `with R.dataflow():`"
        raise context.error(node, "dataflow blocks cannot be nested", hint, "E0117")
    output = node.body[-1].value if isinstance(node.body[-1], ast.Expr) else None
    listed = output.args if isinstance(output, ast.Call) and _is_call(output, OUTPUT) else None
    names = [item for item in listed or () if isinstance(item, ast.Name)]
    context.scope.close_block()
    context.scope.in_dataflow = True
    context.outputs = frozenset([item.id for item in names])
    mark = context.mark()
    try:
        with allowing_exits(context, NO_EXITS):
            read_statements(context, node.body if listed is None else node.body[:-1])
        reject_rebound_outputs(context, node)
    finally:
        context.outputs = None
        context.scope.close_block()
        outputs = ", ".join([*(item.id for item in names), "{name}"])
        context.leave_dataflow(
            mark,
            "dataflow variable `{name}` is not visible outside its block",
            f"add it to the outputs: `R.output({outputs})`",
        )
    for item in names:
        context.lookup(item)


def _is_call(node: ast.expr, word: str) -> bool:
    return isinstance(node, ast.Call) and path_of(node.func) == f"R.{word}"


# ---- branches


def _if(context: Context, node: ast.If) -> None:
    holds = static_test(context, node.test)
    if holds is MISSING:
        context.define(*_conditional(context, node))
    else:
        read_statements(context, node.body if holds else node.orelse)


def _taken(context: Context, nodes: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Returns the statements of a branch; a last `if` over values of Python is resolved."""
    *before, last = nodes
    holds = static_test(context, last.test) if isinstance(last, ast.If) else MISSING
    if isinstance(last, ast.If) and holds is not MISSING:
        chosen = last.body if holds else last.orelse
        rest = [*before, *chosen] or [ast.copy_location(ast.Pass(), last)]
        return _taken(context, rest)
    return list(nodes)


def _conditional(context: Context, node: ast.If) -> tuple[str, Var]:
    """Parses an `if` whose branches bind the same last variable; returns its name and value."""
    if context.outputs is not None:
        hint = "end the `with R.dataflow():` block before the `if`"
        raise context.error(node, "`if` is not allowed in a dataflow block", hint, "E0117")
    if not node.orelse and not leaves(node.body[-1]):
        bound_names = targets(node.body[-1]) or ["y"]
        hint = f"add `else:` with the other value: `{bound_names[0]} = ...`"
        raise context.error(node, "expected an `else` branch: `if` has a value", hint, "E0105")
    bodies = _taken(context, node.body), _taken(context, node.orelse or [ast.Pass()])
    names = [targets(body[-1]) for body in bodies]
    name = names[0][0] if names[0] else None
    if name is None or names[1][:1] != [name]:
        raise branch_error(context, node, bodies, names)
    declared = context.declared(name)
    with context.nested(node):
        cond = operand(context, node.test)
        then, other = [_branch(context, body) for body in bodies]
    value = If(cond, then, other, None, context.source_map.span(node.test))
    value = If(cond, then, other, deduce(value), value.span)
    return name, context.emit(value, name, node.test, declared=declared)


def _branch(context: Context, nodes: list[ast.stmt]) -> SeqExpr:
    message = "`{name}` is only visible in its branch of `if`"
    hint = "make it the last variable of both branches: `{name} = ...`"
    with _region(context, message, hint), allowing_exits(context, NO_EXITS):
        read_statements(context, nodes[:-1])
        body = _branch_result(context, nodes[-1])
        return context.scope.sequence(body)


@contextmanager
def _region(context: Context, why: str, hint: str) -> Iterator[None]:
    """Opens a sequence nested in the open one."""
    outer, mark = context.scope, context.mark()
    context.scope = BuilderScope(outer)
    try:
        yield
    finally:
        context.scope = outer
        context.leave(mark, why, hint)


def _branch_result(context: Context, node: ast.stmt) -> Expr:
    """Parses the last statement of a branch to its result; an atom needs no variable."""
    node = plain_assignment(context, node) if isinstance(node, ast.AugAssign) else node
    if isinstance(node, ast.Assign | ast.AnnAssign) and _binds_value(node):
        annotated = isinstance(node, ast.AnnAssign)
        info = info_of(context, node.annotation) if isinstance(node, ast.AnnAssign) else None
        target: Any = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        value_node: Any = node.value
        value = context.expr(value_of(context, value_node), value_node)
        is_atomic = type(value) in ATOMS or type(value) is Tuple
        if is_atomic and (not annotated or info == deduce(value)):
            return value
        return bound(context, value, target.id, target, info)
    if isinstance(node, ast.If):
        return _conditional(context, node)[1]
    read_statement(context, node)
    value = context.names[targets(node)[0]]
    if not isinstance(value, Expr):
        message = "expected a value as the result of a branch, found a symbolic dim"
        raise context.error(node, message, "bind a value last: `y = ...`", "E0105")
    return value


def _binds_value(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether a statement binds one name to a value, other than by a match_cast."""
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    single = isinstance(node, ast.AnnAssign) or len(node.targets) == 1
    value = node.value
    plain = value is not None and not _is_call(value, MATCH_CAST) and not is_declaration(value)
    return single and plain and isinstance(target, ast.Name)


# ---- functions


def _function(context: Context, node: ast.FunctionDef) -> None:
    var = local_function(context, node, read_body)
    context.define(node.name, var)


def read_body(context: Context, nodes: Sequence[ast.stmt]) -> Expr:
    """Parses the statements of a function and returns its result."""
    last = _read_to_return(context, nodes)
    if isinstance(last, ast.Expr) and _is_call(last.value, FUNC_RET_VALUE):
        last = ast.copy_location(ast.Return(*last.value.args[:1]), last)  # type: ignore[attr-defined]
    if not isinstance(last, ast.Return) or last.value is None:
        hint = "end the function with `return y`, or with several values: `return y, z`"
        message = "expected `return` with a value as the last statement of a function"
        raise context.error(last, message, hint, "E0118")
    for name, declaration in context.declarations.items():
        message = f"`{name}` is declared, but no statement binds it"
        hint = f"bind it in the next line: `{name} = ...`, or remove the declaration"
        raise context.error(declaration.node, message, hint, "E0102")
    return context.expr(argument(context, last.value), last.value)


def read_result(context: Context, nodes: Sequence[ast.stmt]) -> Any:
    """Parses the statements of a macro and returns its result, None without `return`."""
    last = _read_to_return(context, nodes)
    value = last.value if isinstance(last, ast.Return) else None
    return None if value is None else value_of(context, value)


def _read_to_return(context: Context, nodes: Sequence[ast.stmt]) -> ast.stmt:
    """Parses the statements of a function; returns the `return` that ends it, or the last one."""
    last = nodes[-1]
    is_result = isinstance(last, ast.Expr) and _is_call(last.value, FUNC_RET_VALUE)
    try:
        with allowing_exits(context, RETURN):
            read_statements(context, nodes[:-1] if is_result else nodes)
    except Exit as left:
        if left.node in nodes[:-1]:
            message = "expected `return` with a value as the last statement of a function"
            hint = "remove the statements after `return`"
            raise context.error(last, message, hint, "E0118") from None
        return left.node
    return last


_STATEMENTS: dict[type[ast.stmt], Callable[[Context, Any], None]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: lambda context, node: _assign(context, plain_assignment(context, node)),
    ast.Expr: _expression,
    ast.With: _dataflow,
    ast.If: _if,
    ast.For: lambda context, node: unroll(context, node, read_statements),
    ast.Break: leave,
    ast.Continue: leave,
    ast.Return: leave,
    ast.FunctionDef: _function,
    ast.Pass: lambda context, node: None,
}
