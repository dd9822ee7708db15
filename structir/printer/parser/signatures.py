"""Parses `R.sig("*s a b; *s b c -> *s a c")(x, y)`: an opaque call with a shape signature."""

from __future__ import annotations

import ast
from typing import Any

from structir.errors import Diagnostic, DiagnosticError, ParseError, Span, StructInfoError
from structir.ir.dtype import DTYPES, dtype_hint
from structir.ir.expr import Call, Expr, ExternFunc
from structir.ir.struct_info import OBJECT, FuncStructInfo, StructInfo, derive_func
from structir.lazy import lazy_module
from structir.printer.parser.context import Context
from structir.printer.parser.values import argument, path_of, value_of
from structir.printer.syntax import SIG

deduction = lazy_module("structir.solver.program.signature_calls")
extern_projection = lazy_module("structir.opdef.extern_projection")

OPTIONS = ("signature", "function", "dtype", "index")
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
    if len(head.args) > len(OPTIONS):
        message = f"R.{SIG}: expected at most {len(OPTIONS)} arguments, found {len(head.args)}"
        raise context.error(head, message, HINT, "E0106")
    if node.keywords:
        message = f"R.{SIG}: expected operands by position, found {ast.unparse(node.keywords[0])}"
        raise context.error(node, message, HINT, "E0106")
    if "signature" not in options:
        raise context.error(head, f"R.{SIG}: missing argument `signature`", HINT, "E0106")
    args = [context.expr(argument(context, item), item) for item in node.args]
    return build_signature_call(options, tuple(args), context.source_map.span(node))


def _check_options(options: dict[str, Any], span: Span | None) -> None:
    for name, value in options.items():
        message = None
        if name not in OPTIONS:
            message = f"R.{SIG}: unexpected keyword argument `{name}`"
        elif not isinstance(value, str):
            message = f"R.{SIG}: {name}: expected a string, found {value!r}"
        if message is not None:
            raise ParseError(Diagnostic(message, span, hint=HINT, code="E0106"))
    dtype = options.get("dtype")
    if dtype not in (None, *DTYPES):
        message = f"unknown dtype {dtype!r}"
        raise ParseError(Diagnostic(message, span, hint=dtype_hint(dtype), code="E0122"))


def build_signature_call(
    options: dict[str, Any], args: tuple[Expr, ...], span: Span | None
) -> Call:
    """Returns a call of an external function with a shape signature.

    Raises ParseError for an option that is unknown or not a string.
    """
    _check_options(options, span)
    callee_info = FuncStructInfo(None, OBJECT, True, by_signature.__name__)
    attributes = dict(options)
    callee = ExternFunc(attributes.pop("function", ""), callee_info, span)
    call = Call(callee, args, attributes, span=span)
    try:
        info = by_signature(call)
    except DiagnosticError as error:
        first = error.diagnostics[0].at(span)
        for arg in args:
            first = first.note(f"{getattr(arg, 'name', 'operand')}: {arg.struct_info}", arg.span)
        diagnostic = Diagnostic(first.message, span, SIG, first.notes, HINT, code=first.code)
        raise StructInfoError(diagnostic) from None
    complete = Call(callee, args, attributes, struct_info=info, span=span)
    if "index" in attributes:
        extern_projection.check_declaration(complete)
    return complete
