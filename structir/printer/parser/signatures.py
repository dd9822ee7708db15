"""Parses `R.sig("*s a b; *s b c -> *s a c")(x, y)`: an opaque call with a shape signature."""

from __future__ import annotations

import ast
from typing import Any

from structir.errors import Diagnostic, DiagnosticError, Span, StructInfoError
from structir.ir.dtype import DTYPES
from structir.ir.expr import Call, Expr, ExternFunc
from structir.ir.struct_info import OBJECT, FuncStructInfo, StructInfo, derive_func
from structir.lazy import lazy_module
from structir.printer.parser.context import Context
from structir.printer.parser.forms import dtype_error
from structir.printer.parser.values import argument, path_of, value_of
from structir.printer.syntax import SIG

deduction = lazy_module("structir.solver.program.signature_calls")

OPTIONS = ("signature", "function", "dtype")
HINT = '`R.sig("*s a b; *s b c -> *s a c", function="name")(x, y)`'


@derive_func
def by_signature(call: Call) -> StructInfo:
    """Infers the result of a call from its shape signature."""
    info: StructInfo = deduction.result_of(call)
    return info


def is_signature_call(node: ast.Call) -> bool:
    """Whether a call has the form `R.sig(...)(...)`."""
    return isinstance(node.func, ast.Call) and path_of(node.func.func) == f"R.{SIG}"


def read_signature_call(context: Context, node: ast.Call) -> Call:
    """Parses `R.sig(...)(...)` to a call."""
    head = node.func
    assert isinstance(head, ast.Call)
    options = dict(zip(OPTIONS, [value_of(context, item) for item in head.args], strict=False))
    options |= {str(k.arg): value_of(context, k.value) for k in head.keywords}
    if len(head.args) > len(OPTIONS) or not options.keys() <= set(OPTIONS) or node.keywords:
        message = f"R.{SIG}: expected the arguments {', '.join(OPTIONS)}"
        raise context.error(node, message, HINT, "E0106")
    if not all(isinstance(value, str) for value in options.values()) or "signature" not in options:
        raise context.error(head, f"R.{SIG}: expected strings, signature first", HINT, "E0106")
    if options.get("dtype") not in (None, *DTYPES):
        raise dtype_error(context, head, options["dtype"])
    args = [context.expr(argument(context, item), item) for item in node.args]
    return build_signature_call(options, tuple(args), context.source_map.span(node))


def build_signature_call(
    options: dict[str, Any], args: tuple[Expr, ...], span: Span | None
) -> Call:
    """Returns a call of an external function with a shape signature."""
    known = FuncStructInfo(None, OBJECT, True, by_signature.__name__)
    attributes = dict(options)
    callee = ExternFunc(attributes.pop("function", ""), known, span)
    call = Call(callee, args, attributes, span=span)
    try:
        info = by_signature(call)
    except DiagnosticError as error:
        first = error.diagnostics[0].at(span)
        for arg in args:
            first = first.note(f"{getattr(arg, 'name', 'operand')}: {arg.struct_info}", arg.span)
        diagnostic = Diagnostic(first.message, span, SIG, first.notes, HINT, code=first.code)
        raise StructInfoError(diagnostic) from None
    return Call(callee, args, attributes, struct_info=info, span=span)
