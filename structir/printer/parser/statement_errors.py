"""Errors of statements and calls: unpacking, branches, and names that are called."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from structir.errors import Diagnostic, ParseError
from structir.ir.expr import Expr
from structir.ir.op import find_op
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.printer.parser.context import Context
from structir.printer.parser.name_hints import BUILTINS, method_hint
from structir.printer.parser.tvm_spellings import spelling_of


def unpack_error(
    context: Context,
    target: ast.Tuple | ast.List,
    value: ast.expr,
    tuple_value: Expr,
    info: StructInfo,
) -> ParseError:
    """Returns the error of unpacking a value into a wrong number of names."""
    count, text = len(target.elts), ast.unparse(value)
    if isinstance(info, TupleStructInfo):
        message = f"cannot unpack {len(info.fields)} values into {count} names"
        names = [f"v{k}" for k in range(len(info.fields))]
        names[:count] = [ast.unparse(name) for name in target.elts][: len(names)]
        comma = "," * (len(names) == 1)
        hint = f"name every field: `{', '.join(names)}{comma} = {text}`"
    else:
        message = f"cannot unpack a value that is not a tuple into {count} names"
        name = ast.unparse(target.elts[0]) if target.elts else "y"
        hint = f"bind it to one name: `{name} = {text}`"
    span = context.source_map.span(target)
    diagnostic = Diagnostic(message, span, hint=hint, code="E0116", label=f"{count} names")
    return ParseError(diagnostic.note(f"{info}", context.source_map.span(value)))


def branch_error(
    context: Context, node: ast.If, bodies: Sequence[list[ast.stmt]], names: list[list[str]]
) -> ParseError:
    """Returns the error of branches whose last statements bind different variables."""
    for body in bodies:
        if leaves(body[-1]):
            return _run_time_exit(context, node, body[-1])
    last = [bound_names[0] if bound_names else None for bound_names in names]
    each = " and ".join(f"`{name}`" if name else "none" for name in last)
    message = f"both branches of `if` must bind the same last variable: found {each}"
    diagnostic = Diagnostic(message, context.source_map.span(node.test), code="E0105")
    for name, body in zip(last, bodies, strict=True):
        text = f"binds `{name}`" if name else "binds no variable"
        diagnostic = diagnostic.note(text, context.source_map.span(body[-1]))
    common = last[0] or last[1] or "y"
    return ParseError(diagnostic.hinted(f"end both branches with `{common} = ...`"))


def leaves(node: ast.stmt) -> bool:
    """Whether a statement leaves an iteration of a loop: `break` or `continue`."""
    return isinstance(node, ast.Break | ast.Continue)


def _run_time_exit(context: Context, node: ast.If, left: ast.stmt) -> ParseError:
    """Returns the error of leaving an unrolled loop under a condition of the program."""
    word = "break" if isinstance(left, ast.Break) else "continue"
    message = f"`{word}`: expected a condition over values of Python, found one of the program"
    hint = f"compare values of Python: `if i == 2: {word}`; for a loop over tensors, call a "
    hint += "recursive function of the module"
    span = context.source_map.span(left)
    diagnostic = Diagnostic(message, span, hint=hint, code="E0103")
    return ParseError(diagnostic.note("this condition", context.source_map.span(node.test)))


def callee_error(call: ast.Call, error: ParseError) -> ParseError:
    """Returns the error of a called name that is no function, with the edit for functions."""
    node, first = call.func, error.diagnostics[0]
    if isinstance(node, ast.Attribute) and first.code == "E0113":
        hint = method_hint(node, call)
        return ParseError([first.hinted(hint), *error.diagnostics[1:]]) if hint else error
    if not isinstance(node, ast.Name) or first.code not in ("E0102", "E0111"):
        return error
    name = node.id
    if first.code == "E0111" and first.message.endswith("found function"):
        hint = f"`@R.macro` above `def {name}(...)`: the call is then its statements"
    elif first.code == "E0111" or (first.hint or "").startswith("did you mean"):
        return error
    elif find_op(name) is not None or spelling_of(f"R.{name}") is not None:
        hint = f"call the op: `R.{name}(...)`"
    else:
        hint = f"call a function of the module, `cls.{name}(...)`, or an op, `R.name(...)`"
        hint = BUILTINS.get(name, hint)
    return ParseError([first.hinted(hint), *error.diagnostics[1:]])
