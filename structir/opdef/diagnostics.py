"""Diagnostics of invalid op calls: message, a note per operand, and a hint."""

from __future__ import annotations

import re
from collections.abc import Iterator

from structir.errors import Diagnostic, Note, Span
from structir.ir.expr import Constant, Expr, PrimValue, Tuple, Var
from structir.opdef.axis_packs import Excerpt, InvalidCall
from structir.opdef.notation import IndexSignature
from structir.opdef.parameters import OpSignature
from structir.opdef.resolution import ResolvedCall


def excerpt_span(excerpt: Excerpt, span: Span | None) -> Span | None:
    """Returns the location of a part of a string literal in a call; None where it is unclear."""
    if span is None or span.line != span.end_line:
        return None
    line = span.source.line(span.line)
    code = line[span.column : span.end_column]
    positions = [m.start() + 1 for quote in "'\"" for m in _literals(code, quote, excerpt.text)]
    if len(positions) != 1:
        return None
    column = span.column + positions[0]
    start, end = column + excerpt.start, column + max(excerpt.end, excerpt.start + 1)
    return Span(span.source, span.line, start, span.line, end)


def _literals(code: str, quote: str, text: str) -> Iterator[re.Match[str]]:
    return re.finditer(re.escape(f"{quote}{text}{quote}"), code)


CALL_FORM = ("E0106", "E0305", "E0308")  # codes whose default hint is the signature of the op
ARGUMENT = "{arg}"  # placeholder in a hint: the argument of the last fact


def call_diagnostic(
    signature: OpSignature,
    error: InvalidCall,
    args: tuple[Expr, ...],
    span: Span | None,
    resolved: ResolvedCall | None,
) -> Diagnostic:
    """Returns the diagnostic of an invalid call, with a note at the operand of each fact.

    Without facts, each operand has a note. The index signature is a note if it is resolved.
    """
    notes = [_fact_note(text, k, args, resolved) for text, k, _ in error.facts]
    if all(k is None for _, k, _ in error.facts):
        names = [p.name for p in signature.arguments]
        notes += [_operand_note(name, arg) for name, arg in zip(names, args, strict=False)]
    if resolved is not None:
        notes.append(Note(f"index signature: {signature_text(resolved.index_signature)}"))
    if error.excerpt is not None:
        located = excerpt_span(error.excerpt, span)
        column = f"at column {error.excerpt.start + 1} of {error.excerpt.text!r}"
        notes = [Note(column, located)]
        span = located or span
    hint = _constant_hint(args) if error.code == "E0305" else None
    hint = hint or _hint(error, args, resolved)
    if hint is not None:
        hint = OPERAND.sub(lambda match: _source_of(signature, args, match), hint)
    if hint is None and error.code in CALL_FORM:
        hint = signature.hint
    return Diagnostic(error.message, span, signature.op, tuple(notes), hint, code=error.code)


OPERAND = re.compile(r"\{arg (\w+)(?:\[(\d+)\])?\}")  # in a hint: the operand of this name


def _source_of(signature: OpSignature, args: tuple[Expr, ...], operand: re.Match[str]) -> str:
    """Returns the variable or size that is passed for an operand, else the name of the operand."""
    name, member = operand.groups()
    for parameter, arg in zip(signature.arguments, args, strict=False):
        if parameter.name == name:
            passed = _argument((arg,), (0, None if member is None else int(member)))
            return _source(passed, operand[0][5:-1])
    return name


def _source(arg: Expr, name: str) -> str:
    """Returns the source of a name, a size or a tuple of names; otherwise the name given."""
    if isinstance(arg, Tuple):
        fields = [_source(field, "") for field in arg.fields]
        return f"({', '.join(fields)})" if all(fields) and len(fields) > 1 else name
    if isinstance(arg, PrimValue):
        return str(arg.value)
    return getattr(arg, "name", name)


def _constant_hint(args: tuple[Expr, ...]) -> str | None:
    """Returns the hint for a tuple of numbers in place of a tensor; None without one."""
    for arg in args:
        fields = arg.fields if isinstance(arg, Tuple) else ()
        numbers = [f.data for f in fields if isinstance(f, Constant) and f.data.ndim == 0]
        if numbers and len(numbers) == len(fields):
            values = [number.item() for number in numbers]
            return f'write a constant: `R.const({values}, "{numbers[0].dtype}")`'
    return None


def signature_text(signature: IndexSignature) -> str:
    """Returns an index signature as source; the members of a list operand are one access."""
    sides = (signature.operands, signature.results)
    return " -> ".join([", ".join(dict.fromkeys(a.text for a in side)) for side in sides])


def _hint(error: InvalidCall, args: tuple[Expr, ...], resolved: ResolvedCall | None) -> str | None:
    if error.hint is None or ARGUMENT not in error.hint:
        return error.hint
    index = next((k for _, k, _ in reversed(error.facts) if k is not None), None)
    if index is None or resolved is None:
        return None
    arg = _argument(args, resolved.paths[index])
    name = _source(arg, resolved.index_signature.operands[index].shown)
    return error.hint.replace(ARGUMENT, name)


def shape_hint(
    error: InvalidCall, args: tuple[Expr, ...], resolved: ResolvedCall | None
) -> str | None:
    """Returns a hint to correct the shapes of the operands in the facts; None without any."""
    if resolved is None:
        return None
    operands = dict.fromkeys(k for _, k, _ in error.facts if k is not None)
    named = [_argument(args, resolved.paths[k]) for k in operands]
    names = dict.fromkeys(f"`{arg.name}`" for arg in named if isinstance(arg, Var))
    return f"correct the shape of {' or '.join(names)}" if names else None


def _argument(args: tuple[Expr, ...], path: tuple[int, int | None]) -> Expr:
    arg, member = args[path[0]], path[1]
    return arg.fields[member] if member is not None and isinstance(arg, Tuple) else arg


def _fact_note(
    text: str, k: int | None, args: tuple[Expr, ...], resolved: ResolvedCall | None
) -> Note:
    if k is None or resolved is None:
        return Note(text)
    arg = _argument(args, resolved.paths[k])
    return Note(f"{text}: {_described(arg)}", arg.span)


def _described(arg: Expr) -> str:
    info = arg.struct_info
    return f"{arg.name} is {info}" if isinstance(arg, Var) else str(info)


def _operand_note(name: str, arg: Expr) -> Note:
    if isinstance(arg, Tuple):
        fields = ", ".join([str(field.struct_info) for field in arg.fields])
        return Note(f"{name} is ({fields})", arg.span)
    is_same_name = isinstance(arg, Var) and arg.name == name
    return Note(_described(arg) if is_same_name else f"{name} is {arg.struct_info}", arg.span)
