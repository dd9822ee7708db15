"""Writes results and diagnostics as JSON to the standard output."""

from __future__ import annotations

import json
from math import isfinite
from typing import Annotated, Any

import typer

from structir.errors import Diagnostic, DiagnosticError, Span, StructIRError

Json = Annotated[bool, typer.Option("--json", help="Print the result, or the errors, as JSON.")]
Data = dict[str, Any]


def write(data: Data) -> None:
    """Writes a result; numbers without a JSON form become null."""
    typer.echo(json.dumps(_json_value(data), indent=1, ensure_ascii=False))


def write_errors(error: StructIRError) -> None:
    """Writes the errors instead of a result."""
    write({"errors": errors_data(error)})


def errors_data(error: StructIRError) -> list[Data]:
    """Returns the diagnostics of an error; for an error without any, its text."""
    if isinstance(error, DiagnosticError):
        return [diagnostic_data(diagnostic) for diagnostic in error.diagnostics]
    return [{"severity": "error", "code": error.code, "message": error.message}]


def diagnostic_data(diagnostic: Diagnostic) -> Data:
    """Returns a diagnostic as plain data."""
    fields: dict[str, str | None] = {"severity": diagnostic.severity, "message": diagnostic.message}
    fields |= {
        "label": diagnostic.label,
        "code": diagnostic.code,
        "op": diagnostic.op,
        "hint": diagnostic.hint,
    }
    notes = [{"text": note.text} | _location(note.span) for note in diagnostic.notes]
    return (
        {key: value for key, value in fields.items() if value}
        | _location(diagnostic.span)
        | {"notes": notes}
    )


def _location(span: Span | None) -> Data:
    if span is None:
        return {}
    file, end = span.source.filename, (span.end_line, span.end_column + 1)
    return {"file": file, "line": span.line, "column": span.column + 1, "end": list(end)}


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value
