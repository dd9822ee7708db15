"""Calls of a text: of ops, of functions, of opaque functions, and words that look like calls."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from typing import Any

import attrs

from structir.analysis.deduction import deduce
from structir.analysis.lattice import FAIL_L0, base_check
from structir.errors import Diagnostic, DiagnosticError, ParseError, Span, StructInfoError
from structir.ir.dtype import DTYPES, dtype_hint
from structir.ir.expr import (
    Call,
    Constant,
    Expr,
    ExternFunc,
    Tuple,
    Var,
)
from structir.ir.op import Op, find_op, registered_ops
from structir.ir.struct_info import OBJECT, FuncStructInfo, StructInfo
from structir.printer import constants
from structir.printer.parser.context import Context
from structir.printer.parser.forms import info_of, is_info, read_form
from structir.printer.parser.kernels import read_kernel_call
from structir.printer.parser.signatures import is_signature_call, read_signature_call
from structir.printer.parser.sizes import SIZE_FUNCTIONS, is_number
from structir.printer.parser.values import argument, operand, path_of, reads, unsupported, value_of
from structir.printer.syntax import (
    CALL_KERNEL,
    CALL_PACKED,
    CALL_PURE_PACKED,
    CONST,
    LEAF_OF_NAME,
    MATCH_CAST,
    TUPLE,
    info_form,
)


@reads(ast.Call)
def _call(context: Context, node: ast.Call) -> Any:
    func = node.func
    if type(func) is ast.Attribute:
        base = func.value
        if type(base) is ast.Name and base.id == "R":
            return _call_of_language(context, node, func.attr)
        path = path_of(func)
        if path is not None:
            head, _, rest = path.partition(".")
            if head == "R":
                return _call_of_language(context, node, rest)
            if head == "T":
                return _size_function(context, node, rest)
    elif is_signature_call(node):
        return read_signature_call(context, node)
    elif type(func) is ast.Name and func.id == "float":
        return _python_float(context, node)
    return _call_of_function(context, node)


def _call_of_language(context: Context, node: ast.Call, name: str) -> Any:
    with context.nested(node):
        op = find_op(name)
        if op is not None:
            return _call_of_op(context, node, op)
        rule = _FORM_RULES.get(name)
        if rule is not None:
            return rule(context, node)
        if name in LEAF_OF_NAME:
            return read_form(context, node, LEAF_OF_NAME[name])
        if info_form(name) is not None:
            hint = "a struct info stands in annotations, in R.match_cast and in sinfo_args"
            raise context.error(node, f"R.{name}(...) is a struct info, not a value", hint)
    raise _no_op(context, node, name)


def _no_op(context: Context, node: ast.Call, name: str) -> DiagnosticError:
    near = difflib.get_close_matches(name, [op.name for op in registered_ops()], 2)
    hint = f"did you mean {' or '.join(f'R.{n}' for n in near)}?" if near else "dir(R) lists all"
    diagnostic = Diagnostic(
        f"there is no op R.{name}", context.source_map.span(node.func), hint=hint, code="E0101"
    )
    return _add_call_context(context, ParseError(diagnostic), node, name)


def _call_of_op(context: Context, node: ast.Call, op: Op) -> Any:
    given: list[Any] = []
    keywords: dict[str, Any] = {}
    try:
        for item in node.args:
            given.append(argument(context, item))
        for keyword in node.keywords:
            if keyword.arg is None:
                raise unsupported(context, keyword, "write the arguments one by one")
            keywords[keyword.arg] = argument(context, keyword.value)
        return op.definition.bind(tuple(given), keywords, context.source_map.span(node))
    except DiagnosticError as error:
        raise _add_call_context(context, error, node, op.name) from None


def _add_call_context(context: Context, error: DiagnosticError, node: ast.Call, name: str) -> DiagnosticError:
    """The error of a call or of an argument, told with the op and the operands beside it."""
    first = error.diagnostics[0]
    mentioned_names = {note.span for note in first.notes}
    for item in node.args:
        known = context.names.get(item.id) if isinstance(item, ast.Name) else None
        if isinstance(known, Var) and known.span not in mentioned_names:
            first = first.note(f"{known.name}: {known.struct_info}", known.span)
    first = attrs.evolve(first, op=first.op or name)
    return type(error)([first, *error.diagnostics[1:]])


def _call_of_function(context: Context, node: ast.Call) -> Call:
    with context.nested(node):
        callee = argument(context, node.func)
        if node.keywords:
            raise unsupported(context, node.keywords[0], "arguments of a function go by place")
        span = context.source_map.span(node)
        if not isinstance(callee, Expr):
            raise context.error(node.func, f"{ast.unparse(node.func)} is not a function")
        args = [context.expr(argument(context, item), item) for item in node.args]
    call = Call(callee, tuple(args), span=span)
    return Call(callee, call.args, struct_info=deduce(call), span=span)


def _packed(context: Context, node: ast.Call) -> Call:
    """`R.call_packed("name", *args, sinfo_args=...)`, and its pure twin."""
    given = [argument(context, item) for item in node.args]
    if not given or not isinstance(given[0], str):
        raise context.error(node, "the first argument is the name of the function, a string")
    stated: Any = ()
    for keyword in node.keywords:
        if keyword.arg != "sinfo_args":
            raise context.error(keyword, f"{keyword.arg} is not known here", "write sinfo_args=...")
        stated = info_of(context, keyword.value) if is_info(keyword.value) else None
        if stated is None:
            items = getattr(keyword.value, "elts", None)
            if items is None:
                raise context.error(keyword.value, "sinfo_args states the StructInfo of the result")
            stated = tuple([info_of(context, item) for item in items])
    pure = isinstance(node.func, ast.Attribute) and node.func.attr == CALL_PURE_PACKED
    parts = zip(given[1:], node.args[1:], strict=True)
    args = tuple([context.expr(value, item) for value, item in parts])
    infos = (stated,) if isinstance(stated, StructInfo) else stated
    return packed_call(given[0], args, infos, pure, context.source_map.span(node))


def packed_call(
    name: str,
    args: tuple[Expr, ...],
    stated: tuple[StructInfo, ...],
    pure: bool,
    span: Span | None = None,
) -> Call:
    """A call of a function from outside of the program; without effects only if it says so."""
    info = FuncStructInfo(None, OBJECT, True) if pure else None
    callee = ExternFunc(name, info, span)
    call = Call(callee, args, sinfo_args=stated, span=span)
    return Call(callee, args, sinfo_args=stated, struct_info=deduce(call), span=span)


def _const(context: Context, node: ast.Call) -> Constant:
    """`R.const(value, "dtype")`."""
    given = [value_of(context, item) for item in node.args]
    named = {k.arg: value_of(context, k.value) for k in node.keywords}
    value = given[0] if given else named.get("value")
    dtype = given[1] if len(given) > 1 else named.get("dtype")
    if dtype is not None and dtype not in DTYPES:
        raise context.error(node, f"{dtype!r} is not a dtype", dtype_hint(dtype))
    try:
        result = constants.inline_constant(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        hint = 'a constant is a number, a bool or a list of them: R.const([1, 2], "float32")'
        raise context.error(node, f"this is no constant: {error}", hint) from None
    return Constant(result.data, result.struct_info, context.source_map.span(node))


def _tuple_call(context: Context, node: ast.Call) -> Tuple:
    fields = [context.expr(argument(context, item), item) for item in node.args]
    return Tuple(tuple(fields), span=context.source_map.span(node))


def _python_float(context: Context, node: ast.Call) -> float:
    try:
        return float(node.args[0].value)  # type: ignore[attr-defined]
    except (AttributeError, IndexError, TypeError, ValueError):
        raise context.error(node, 'only float("inf") and float("nan") are written so') from None


def _size_function(context: Context, node: ast.Call, name: str) -> Any:
    function = SIZE_FUNCTIONS.get(name)
    if function is None:
        raise context.error(node.func, f"T.{name} is not a function of sizes")
    if not node.args:
        hint = "declare a symbolic dim on a line of its own: n = T.int64()"
        raise context.error(node, f"T.{name}() stands inside an expression", hint)
    given = [value_of(context, item) for item in node.args]
    if not all(map(is_number, given)):
        raise context.error(node, f"T.{name} takes sizes")
    return function(*given)


def match_cast(
    context: Context,
    node: ast.Call,
    name: str | None = None,
    target: Any = None,
    annotation: StructInfo | None = None,
) -> Var:
    """`R.match_cast(value, info)`: a binding of its own kind."""
    if len(node.args) != 2 or node.keywords:
        raise context.error(node, "R.match_cast takes a value and a struct info")
    value = operand(context, node.args[0])
    with context.binding_sizes():
        info = info_of(context, node.args[1])
    span = context.source_map.span(node)
    check_cast(value, info, span, context.source_map.span(node.args[1]))
    return context.emit_cast(value, info, span, name, target, annotation)


def check_cast(value: Expr, info: StructInfo, span: Span, place: Span) -> None:
    """Raise StructInfoError where no value of the one kind can have the other."""
    known = deduce(value)
    if base_check(info, known) is FAIL_L0 and base_check(known, info) is FAIL_L0:
        what = getattr(value, "name", "the value")
        raise StructInfoError(
            Diagnostic(f"{what} can never have this structure", span, MATCH_CAST, code="E0206")
            .note(f"asked for: {info}", place)
            .note(f"{what}: {known}", value.span)
            .hinted("ask for what may hold when it runs; R.astype and R.reshape change a tensor")
        )


_FORM_RULES: dict[str, Callable[[Context, ast.Call], Any]] = {
    CONST: _const,
    TUPLE: _tuple_call,
    CALL_PACKED: _packed,
    CALL_PURE_PACKED: _packed,
    CALL_KERNEL: read_kernel_call,
    MATCH_CAST: match_cast,
}
