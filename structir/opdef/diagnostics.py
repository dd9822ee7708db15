"""What is said of a wrong call: the op, the letter, the operands with their StructInfo, and a
hint."""

from __future__ import annotations

from structir.errors import Diagnostic, Note, Span
from structir.ir.expr import Expr, Tuple, Var
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.notation import IndexSignature
from structir.opdef.parameters import OpSignature
from structir.opdef.resolution import ResolvedCall


def call_diagnostic(
    signature: OpSignature,
    error: InvalidCall,
    args: tuple[Expr, ...],
    span: Span | None,
    reading: ResolvedCall | None,
) -> Diagnostic:
    """The diagnostic of a wrong call: each fact with the operand that it was read from."""
    notes = [_fact(text, k, args, reading) for text, k, _ in error.facts]
    shown = {k for _, k, _ in error.facts if k is not None}
    if not shown:
        names = [p.name for p in signature.arguments]
        notes += [_operand(name, arg) for name, arg in zip(names, args, strict=False)]
    hint = error.hint
    if hint is None and reading is not None:
        hint = f"the line of {signature.op} is {line_text(reading.line)}"
    return Diagnostic(
        error.message,
        span,
        signature.op,
        tuple(notes),
        hint or signature.hint,
        code=error.code,
    )


def line_text(line: IndexSignature) -> str:
    """A line as it is written, members of a list together."""
    sides = [dict.fromkeys(a.text for a in side) for side in (line.operands, line.results)]
    return " -> ".join([", ".join(side) for side in sides])


def _fact(text: str, k: int | None, args: tuple[Expr, ...], reading: ResolvedCall | None) -> Note:
    if k is None or reading is None:
        return Note(text)
    position, member = reading.paths[k]
    arg = args[position]
    if member is not None and isinstance(arg, Tuple):
        arg = arg.fields[member]
    access = reading.line.operands[k].text
    return Note(f"{text}   from {access}   {_shown(arg)}", arg.span)


def _shown(arg: Expr) -> str:
    info = arg.struct_info
    return f"{arg.name}: {info}" if isinstance(arg, Var) else str(info)


def _operand(name: str, arg: Expr) -> Note:
    if isinstance(arg, Tuple):
        fields = ", ".join([_shown(field) for field in arg.fields])
        return Note(f"{name} is ({fields})", arg.span)
    text = _shown(arg)
    return Note(text if text.startswith(f"{name}: ") else f"{name} is {text}", arg.span)
