"""Parses calls: of ops, functions, external functions, and forms written as calls."""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs

from structir.analysis.arguments import arguments_of, default_of
from structir.analysis.deduction import check_cast, deduce, warn_of_names
from structir.errors import Diagnostic, DiagnosticError, ParseError
from structir.ir.dtype import DTYPES
from structir.ir.expr import (
    DEFAULTS,
    Call,
    Constant,
    Expr,
    PrimValue,
    Tuple,
    Var,
)
from structir.ir.op import Op, find_op, similar_op_names
from structir.ir.struct_info import (
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
)
from structir.printer import constants
from structir.printer.parser.argument_unification import unify_arguments, unify_loop_arguments
from structir.printer.parser.captured import is_array
from structir.printer.parser.context import MISSING, Context
from structir.printer.parser.curried_calls import curried_op, joined_call
from structir.printer.parser.dtype_arguments import call_like
from structir.printer.parser.edit_checks import is_valid, tensor_info
from structir.printer.parser.extern_calls import read_dps_call, read_packed_call
from structir.printer.parser.foreign_names import foreign_call
from structir.printer.parser.forms import dtype_error, info_of, read_form
from structir.printer.parser.function_operands import is_function_operand, read_function_operand
from structir.printer.parser.index_maps import read_layout_transform
from structir.printer.parser.kernels import read_kernel_call
from structir.printer.parser.macros import Macro
from structir.printer.parser.named_fields import named_fields
from structir.printer.parser.prim_sizes import bound_call
from structir.printer.parser.signatures import is_signature_call, read_signature_call
from structir.printer.parser.sizes import SIZE_EXAMPLE, SIZE_FUNCTIONS, is_number
from structir.printer.parser.statement_errors import callee_error
from structir.printer.parser.static_values import is_of_program, static_value
from structir.printer.parser.tvm_spellings import (
    HINT,
    MOVE,
    VALUES,
    counterpart,
    dtype_of_numbers,
    spelling_of,
)
from structir.printer.parser.unrolling import display, named, program_item, sequence
from structir.printer.parser.untyped_constants import (
    adapt_constants,
    convert_to_typed,
    typed_number,
)
from structir.printer.parser.values import argument, operand, path_of, reads, value_of
from structir.printer.parser.vdevices import read_move
from structir.printer.syntax import (
    CALL_KERNEL,
    CALL_PACKED,
    CALL_PURE_PACKED,
    CONST,
    FUNC_ATTR,
    LEAF_OF_NAME,
    MATCH_CAST,
    OUTPUT,
    REQUIRE,
    SYMBOL_DTYPES,
    TUPLE,
    UNKNOWN_DTYPES,
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
        if path == GLOBAL_VAR and context.module is not None:
            return _global_var(context, node)
        rewritten = _read_as_counterpart(context, func, path, node)
        if rewritten is not None:
            return value_of(context, rewritten)
    elif is_signature_call(node):
        return read_signature_call(context, node)
    elif type(func) is ast.Call and (op := curried_op(node)) is not None:
        with context.nested(node):
            return _call_of_op(context, joined_call(context, node), op)
    elif type(func) is ast.Name and func.id in ("float", "min", "max"):
        value = context.captured(node)
        if value is not MISSING:
            return value
        if func.id == "float":
            return _python_float(context, node)
        if func.id not in context.names:
            return _size_function(context, node, func.id)
    return _call_of_function(context, node)


GLOBAL_VAR = "I.GlobalVar"  # TVM's spelling of `cls.f` outside of the class


def _global_var(context: Context, node: ast.Call) -> Any:
    """Parses `I.GlobalVar("f")` as `cls.f`."""
    name = getattr(node.args[0], "value", None) if len(node.args) == 1 else None
    if not isinstance(name, str):
        message = f"expected the name of a function, found `{ast.unparse(node)}`"
        raise context.error(node, message, '`I.GlobalVar("main")`', "E0106")
    base = ast.copy_location(ast.Name("cls", ast.Load()), node)
    return value_of(context, ast.copy_location(ast.Attribute(base, name, ast.Load()), node))


def _read_as_counterpart(
    context: Context, func: ast.Attribute, path: str | None, node: ast.Call
) -> ast.expr | None:
    """Returns the counterpart of a call of `relax` or of a method, in TVM's spelling."""
    base = func.value
    if isinstance(base, ast.Name) and context.names_module(base):
        return None
    whole = context.names.get(base.id) if isinstance(base, ast.Name) else None
    if func.attr in (getattr(getattr(whole, "struct_info", None), "names", None) or ()):
        return None  # a field, which hides a method
    if is_array(static_value(context, base)):
        return None
    is_relax = path is not None and path.startswith("relax.") and "relax" not in context.names
    return counterpart(path if is_relax and path is not None else f".{func.attr}", node)


def _call_of_language(context: Context, node: ast.Call, name: str) -> Any:
    with context.nested(node):
        rule = _FORM_RULES.get(name)
        if rule is not None:
            return rule(context, node)
        op = find_op(name)
        if op is not None:
            return _call_of_op(context, node, op)
        if name in LEAF_OF_NAME:
            leaf = read_form(context, node, LEAF_OF_NAME[name])
            return typed_number(leaf, PrimStructInfo(dtype_of_numbers(node) or "float32"))
        if info_form(name) is not None:
            text = ast.unparse(node)
            hint = f"annotate a binding: `y: {text} = ...`, or check at run time: "
            hint += f"`R.match_cast(x, {text})`"
            if name == "Tuple":
                hint = f"build a tuple: `R.tuple{text.removeprefix('R.Tuple')}`"
            message = f"expected a value, found the StructInfo R.{name}(...)"
            raise context.error(node, message, hint, "E0119")
        rewritten = counterpart(f"R.{name}", node)
        if rewritten is not None:
            return value_of(context, rewritten)
    raise _no_op(context, node, name)


STATEMENTS = (REQUIRE, FUNC_ATTR, OUTPUT)  # forms without a value


def _no_op(context: Context, node: ast.Call, name: str) -> DiagnosticError:
    spelling = spelling_of(f"R.{name}")
    if spelling is not None:
        message = f"there is no `R.{name}`: {spelling.note}"
        note = spelling.edit or f"write `{spelling.tvm}`"
        if spelling.structir:
            message = f"R.{name}: expected `{spelling.tvm}`, found `{ast.unparse(node)}`"
        rejected = context.error(node.func, message, note, "E0101")
        return _add_call_context(context, rejected, node, name)
    matches = similar_op_names(name)
    hint = f"did you mean {' or '.join(f'`R.{n}`' for n in matches)}?" if matches else None
    if name in STATEMENTS:
        hint = f"write it on a line of its own: `{ast.unparse(node)}`"
    edit = foreign_call(name, node, partial(tensor_info, context), partial(is_valid, context))
    if edit is not None:
        hint = f"write `{edit}`"
    diagnostic = Diagnostic(
        f"unknown op `R.{name}`",
        context.source_map.span(node.func),
        hint=hint or "list the ops with `dir(R)`",
        code="E0101",
    )
    return _add_call_context(context, ParseError(diagnostic), node, name)


UNUSUAL = frozenset({ast.Starred, ast.Lambda, ast.Attribute})  # operands, by their kind


def _call_of_op(context: Context, node: ast.Call, op: Op) -> Any:
    args: list[Any] = []
    written = 0  # functions that are written as operands
    keywords: dict[str, Any] = {}
    of_sizes = op.definition.of_sizes
    takes_sizes = True in of_sizes
    try:
        for index, item in enumerate(node.args):
            if type(item) in UNUSUAL:
                if type(item) is ast.Starred:
                    args += display(context, [item])
                    continue
                if is_function_operand(op, item):
                    written += 1
                    continue
            expects = takes_sizes and index < len(of_sizes) and of_sizes[index]
            if expects is context.expects_sizes:
                args.append(argument(context, item))
            else:
                args.append(context.read_expecting(expects, argument, item))
        if Constant in map(type, args):
            args = adapt_constants(args, node.args[written:] if written else node.args)
        for keyword in node.keywords:
            if keyword.arg is None:
                for name, value in named(context, keyword):
                    keywords[name] = program_item(context, value, keyword.value)
                continue
            value = argument(context, keyword.value)
            if type(value) is str and value in UNKNOWN_DTYPES and keyword.arg.endswith("dtype"):
                continue
            keywords[keyword.arg] = value
        if written:
            args.insert(0, read_function_operand(context, op, node, args, keywords))
        if (values := VALUES.get(op.name)) is not None:
            args = [_renamed(arg, values) for arg in args]
            keywords = {name: _renamed(value, values) for name, value in keywords.items()}
        hooks: Any = op.definition.hooks if context.unifies else None  # type: ignore[attr-defined]
        if hooks and len(args) > 2 and (loop := hooks.get("loop")):
            exprs = [context.expr(arg, item) for arg, item in zip(args, node.args, strict=True)]
            unified = Call(op, tuple(exprs), keywords)
            args = list(unify_loop_arguments(context, loop, unified))
        call = bound_call(context, op, tuple(args), keywords, node)
        known = context.constants
        if known.values and type(call) is Call and (exact := known.in_call(call)) is not call:
            deduce(exact)  # checks constant indices
        return call if values is None or values else convert_to_typed(context, call, node)
    except DiagnosticError as error:
        like = call_like(context, op, args, keywords, context.source_map.span(node))
        if like is not None:
            return like
        raise _add_call_context(context, error, node, op.name) from None


def _renamed(value: Any, values: dict[str, str]) -> Any:
    return values.get(value, value) if type(value) is str else value


def _add_call_context(
    context: Context, error: DiagnosticError, node: ast.Call, name: str
) -> DiagnosticError:
    """Returns the error of a call or of an argument, with the op and the operands' StructInfo."""
    first = error.diagnostics[0]
    labelled = {note.span for note in first.notes}
    for item in node.args:
        var = context.names.get(item.id) if isinstance(item, ast.Name) else None
        if isinstance(var, Var) and var.span not in labelled:
            first = first.note(f"{var.name}: {var.struct_info}", var.span)
    first = attrs.evolve(first, op=first.op or name)
    return type(error)([first, *error.diagnostics[1:]])


def _call_of_function(context: Context, node: ast.Call) -> Any:
    if not is_of_program(context, node.func):
        callee = static_value(context, node.func)
        if type(callee) is Op:
            return _call_of_op(context, node, callee)
        if type(callee) is Macro:
            return context.module.expand_macro(context, callee, node)
        value = context.captured(node)
        value = sequence(context, node) if callee is value is MISSING else value
        if value is not MISSING:
            return value
    with context.nested(node):
        try:
            callee = argument(context, node.func)
        except ParseError as error:
            raise callee_error(node, error) from None
        span = context.source_map.span(node)
        if not isinstance(callee, Expr):
            message = f"expected a function, found {ast.unparse(node.func)}"
            raise context.error(node.func, message, "call an op: `R.name(...)`")
        args = _arguments(context, callee, node)
    call = Call(callee, tuple(unify_arguments(context, callee, args)), span=span)
    params = getattr(callee.struct_info, "params", None) or ()
    for position, (param, arg) in enumerate(zip(params, call.args, strict=False)):
        warn_of_names(param, deduce(arg), f"argument {position}", span)
    return Call(callee, call.args, struct_info=deduce(call), span=span)


def _arguments(context: Context, callee: Expr, node: ast.Call) -> Sequence[Expr]:
    """Parses the arguments of a call of a function in the order of its parameters."""
    args = [context.expr(value, node) for value in display(context, node.args)]
    names: dict[str, Expr] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            for name, value in named(context, keyword):
                item = program_item(context, value, keyword.value)
                names[name] = context.expr(item, keyword.value)
            continue
        names[keyword.arg] = operand(context, keyword.value)
    signature = context.signature_of(callee)
    if signature is None:
        if names:
            text = ", ".join(ast.unparse(k.value) for k in node.keywords)
            hint = f"pass arguments by position: `{ast.unparse(node.func)}(..., {text})`"
            message = "the names of the parameters of a function value are unknown"
            raise context.error(node.keywords[0], message, hint, "E0124")
        return args
    defaults = signature.attrs.get(DEFAULTS, {})
    missing = len(signature.params) - len(args)
    if names or 0 < missing <= len(defaults):  # deduction reports a wrong number
        name = getattr(callee, "name", "")
        try:
            ordered = arguments_of(name, signature.params, args, names, lambda: defaults)
        except DiagnosticError as error:
            span = context.source_map.span(node)
            raise ParseError([d.at(span) for d in error.diagnostics]) from None
        args = list(ordered)
    return [*map(_as_constant, args, signature.params), *args[len(signature.params) :]]


def _as_constant(arg: Expr, param: Var) -> Expr:
    """Returns a number in the dtype of its parameter; as a constant, if that is a scalar tensor."""
    if type(arg) is not PrimValue or not isinstance(param.struct_info, TensorStructInfo):
        return typed_number(arg, param.struct_info)
    constant = default_of(param, arg.value)
    return arg if constant is None else constant


def _const(context: Context, node: ast.Call) -> Constant:
    """Parses `R.const(value, "dtype")`."""
    values = [value_of(context, item) for item in node.args]
    named = {k.arg: value_of(context, k.value) for k in node.keywords}
    names = [*("value", "dtype", "")[: len(values)], *named]
    if len(values) > 2 or sorted(map(str, names)) not in (["value"], ["dtype", "value"]):
        message = f"R.const: expected a value and a dtype, found {ast.unparse(node)}"
        raise context.error(node, message, 'write `R.const([1, 2], "float32")`', "E0106")
    value = values[0] if values else named["value"]
    dtype = values[1] if len(values) > 1 else named.get("dtype")
    if isinstance(value, Constant):  # a captured array
        dtype, value = dtype or value.data.dtype.name, value.data
    if dtype is None and context.module is not None:
        context.module.untyped_constants.append(node)
    if dtype is not None and dtype not in DTYPES:
        raise dtype_error(context, node, dtype)
    try:
        constant = constants.inline_constant(value, dtype)
    except (TypeError, ValueError, OverflowError, DiagnosticError) as error:
        hint = 'write a number, a bool or a list of them: `R.const([1, 2], "float32")`'
        text = ast.unparse(node.args[0] if node.args else node)
        message = f"R.const: expected numbers{f' of dtype {dtype}' if dtype else ''}, found {text}"
        diagnostic = context.error(node, message, hint, "E0107").diagnostics[0]
        why = error.diagnostics[0].message if isinstance(error, DiagnosticError) else str(error)
        raise ParseError(diagnostic.note(why)) from None
    return Constant(constant.data, constant.struct_info, context.source_map.span(node))


def _tuple_call(context: Context, node: ast.Call) -> Tuple:
    nodes, names = named_fields(context, node, node.args)
    fields, span = tuple([operand(context, item) for item in nodes]), context.source_map.span(node)
    try:
        return Tuple(fields, names, span)
    except DiagnosticError as error:
        raise type(error)([d.at(span) for d in error.diagnostics]) from None


def _python_float(context: Context, node: ast.Call) -> float:
    try:
        return float(node.args[0].value)  # type: ignore[attr-defined]
    except (AttributeError, IndexError, TypeError, ValueError):
        message = f'expected `float("inf")` or `float("nan")`, found `{ast.unparse(node)}`'
        hint = "write the number as a literal: `0.5`"
        raise context.error(node, message, hint, "E0107") from None


def _size_function(context: Context, node: ast.Call, name: str) -> Any:
    function = SIZE_FUNCTIONS.get(name)
    rewritten = None if function is not None else counterpart(f"T.{name}", node)
    if rewritten is not None:
        return value_of(context, rewritten)
    if function is None:
        kind = "size function" if node.args else "dim declaration"
        choices = SIZE_FUNCTIONS if node.args else SYMBOL_DTYPES
        matches = difflib.get_close_matches(name, choices, 1)
        hint = f"did you mean `T.{matches[0]}`?" if matches else None
        hint = hint or f"use one of {', '.join(f'T.{choice}' for choice in choices)}"
        raise context.error(node.func, f"unknown {kind} `T.{name}`", hint, "E0120")
    if not node.args:
        hint = "declare the dim in a statement of its own: `n = T.int64()`"
        message = f"a dim cannot be declared inside an expression: found `T.{name}()`"
        raise context.error(node, message, hint, "E0120")
    values = [value_of(context, item) for item in node.args]
    if not all(map(is_number, values)):
        wrong = next(i for i, value in zip(node.args, values, strict=True) if not is_number(value))
        message = f"T.{name}: expected a size, found {ast.unparse(wrong)}"
        raise context.error(wrong, message, SIZE_EXAMPLE, "E0121")
    try:
        return function(*values)
    except DiagnosticError as error:
        first = error.diagnostics[0]
        raise context.error(node, f"T.{name}: {first.message}", first.hint, first.code) from None
    except TypeError:
        count = len(inspect.signature(function).parameters)
        message = f"T.{name}: expected {count} argument{'s' * (count > 1)}, found {len(values)}"
        raise context.error(node, message, SIZE_EXAMPLE, "E0106") from None


def match_cast(
    context: Context,
    node: ast.Call,
    name: str | None = None,
    target: Any = None,
    annotation: StructInfo | None = None,
) -> Var:
    """Parses `R.match_cast(value, info)` and binds it."""
    if len(node.args) != 2 or node.keywords:
        hint = '`y = R.match_cast(x, R.Tensor(("m", 4), "float32"))`'
        argument_count = len(node.args) + len(node.keywords)
        message = (
            f"R.match_cast: expected a value and a StructInfo, found {argument_count} arguments"
        )
        raise context.error(node, message, hint, "E0106")
    value = operand(context, node.args[0])
    with context.binding_sizes():
        info = info_of(context, node.args[1])
    span = context.source_map.span(node)
    check_cast(value, info, span, context.source_map.span(node.args[1]))
    return context.emit_cast(value, info, span, name, target, annotation)


_FORM_RULES: dict[str, Callable[[Context, ast.Call], Any]] = {
    CONST: _const,
    "null_value": lambda context, node: None,
    TUPLE: _tuple_call,
    CALL_PACKED: read_packed_call,
    CALL_PURE_PACKED: read_packed_call,
    "call_dps_packed": read_dps_call,
    "layout_transform": read_layout_transform,
    MOVE: read_move,
    HINT: read_move,
    CALL_KERNEL: read_kernel_call,
    MATCH_CAST: match_cast,
}
