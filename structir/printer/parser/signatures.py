"""`R.sig("*s a b; *s b c -> *s a c")(x, y)`: an opaque call whose sizes are stated."""

from __future__ import annotations

import ast
from typing import Any

from structir.errors import Diagnostic, DiagnosticError, Span, StructInfoError
from structir.ir.dtype import DTYPES, dtype_hint
from structir.ir.expr import Call, Expr, ExternFunc
from structir.ir.struct_info import OBJECT, FuncStructInfo, StructInfo, derive_func
from structir.lazy import lazy_module
from structir.printer.parser.context import Context
from structir.printer.parser.values import argument, path_of, value_of
from structir.printer.syntax import SIG

deduction = lazy_module("structir.solver.program.signature_calls")

OPTIONS = ("signature", "function", "dtype")
HINT = 'write R.sig("*s a b; *s b c -> *s a c", function="name")(x, y)'


@derive_func
def by_signature(call: Call) -> StructInfo:
    """The result of a call whose sizes are stated."""
    info: StructInfo = deduction.result_of(call)
    return info


def is_signature_call(node: ast.Call) -> bool:
    """Whether a call is one of `R.sig(...)`."""
    return isinstance(node.func, ast.Call) and path_of(node.func.func) == f"R.{SIG}"


def read_signature_call(context: Context, node: ast.Call) -> Call:
    """The call that `R.sig(...)(...)` writes."""
    head = node.func
    assert isinstance(head, ast.Call)
    options = dict(zip(OPTIONS, [value_of(context, item) for item in head.args], strict=False))
    options |= {str(k.arg): value_of(context, k.value) for k in head.keywords}
    if len(head.args) > len(OPTIONS) or not options.keys() <= set(OPTIONS) or node.keywords:
        raise context.error(node, f"R.{SIG} takes {', '.join(OPTIONS)}", HINT)
    if not all(isinstance(value, str) for value in options.values()) or "signature" not in options:
        raise context.error(head, f"R.{SIG} takes a signature, a text", HINT)
    if options.get("dtype") not in (None, *DTYPES):
        raise context.error(
            head, f"{options['dtype']!r} is not a dtype", dtype_hint(options["dtype"])
        )
    args = [context.expr(argument(context, item), item) for item in node.args]
    return build_signature_call(options, tuple(args), context.source_map.span(node))


def build_signature_call(
    options: dict[str, Any], args: tuple[Expr, ...], span: Span | None
) -> Call:
    """The call of a function from outside under a signature."""
    known = FuncStructInfo(None, OBJECT, True, by_signature.__name__)
    attributes = dict(options)
    callee = ExternFunc(attributes.pop("function", ""), known, span)
    call = Call(callee, args, attributes, span=span)
    try:
        info = by_signature(call)
    except DiagnosticError as error:
        wrong = error.diagnostics[0].at(span)
        for arg in args:
            wrong = wrong.note(f"{getattr(arg, 'name', 'operand')}: {arg.struct_info}", arg.span)
        raise StructInfoError(Diagnostic(wrong.message, span, SIG, wrong.notes, HINT)) from None
    return Call(callee, args, attributes, struct_info=info, span=span)
