"""Spans, diagnostics, the exception classes, and the renderer of diagnostics."""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Iterable, Sequence
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple

import attrs

from structir import tracebacks


@attrs.frozen(eq=False, repr=False)
class Source:
    """The source text of a program, with its file name."""

    filename: str
    text: str
    first_line: int = 1  # a decorated function starts in the middle of its file

    def line(self, number: int) -> str:
        """Returns one line by its number in the file, or an empty string."""
        lines = self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # as Python counts
        index = number - self.first_line
        return lines[index] if 0 <= index < len(lines) else ""


class Span(NamedTuple):
    """A range of a source: lines count from 1, columns from 0, the end is exclusive.

    Spans compare by identity: several nodes may have the same range.
    """

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        return f"{self.source.filename}:{self.line}:{self.column + 1}"


def caller_span() -> Span | None:
    """Returns the location of the expression that the user's Python code evaluates."""
    frame = tracebacks.user_frame()
    return None if frame is None else _span_at(frame.f_code, frame.f_lasti, frame.f_globals)


def raising_span(error: BaseException) -> Span | None:
    """Returns the location of the user's expression that raised an error, if there is one."""
    entry = tracebacks.user_entry(error.__traceback__)
    if entry is None:
        return None
    return _span_at(entry.tb_frame.f_code, entry.tb_lasti, entry.tb_frame.f_globals)


def code_span(code: CodeType) -> Span:
    """Returns the location of the first line of Python code."""
    lines = linecache.getlines(code.co_filename)
    line = code.co_firstlineno
    text = lines[line - 1] if line <= len(lines) else ""
    column = len(text) - len(text.lstrip())
    end = max(len(text.rstrip()), column + 1)
    return Span(Source(code.co_filename, "".join(lines)), line, column, line, end)


def _span_at(code: CodeType, instruction: int, namespace: dict[str, Any]) -> Span:
    """Returns the location of an instruction of Python code."""
    lines = linecache.getlines(code.co_filename, namespace)
    known = _SPANS.get((code, instruction))
    if known is not None and known[0] is lines:
        return known[1]
    positions = next(islice(code.co_positions(), instruction // 2, None))
    line, end_line, column, end_column = (number or 0 for number in positions)
    span = Span(Source(code.co_filename, "".join(lines)), line, column, end_line, end_column)
    if len(_SPANS) >= MAX_SPANS:
        _SPANS.clear()
    _SPANS[code, instruction] = lines, span
    return span


MAX_SPANS = 10_000
_SPANS: dict[tuple[CodeType, int], tuple[list[str], Span]] = {}  # valid while linecache keeps lines


@attrs.frozen
class Note:
    """A fact about an error. With a span it is printed as a label at that location."""

    text: str
    span: Span | None = None


@attrs.frozen
class Diagnostic:
    """One message: what is wrong, its location, the op, labelled facts, and the help line.

    `code` names the kind of error (`E0301`); `structir explain CODE` prints its entry. A diagnostic
    without a code gets that of the exception class it is raised with.
    """

    message: str
    span: Span | None = None
    op: str | None = None
    notes: tuple[Note, ...] = ()
    hint: str | None = None
    severity: str = "error"
    code: str = ""
    label: str | None = None  # printed beside the carets of `span`

    def note(self, text: str, span: Span | None = None) -> Diagnostic:
        """Returns this diagnostic with one more fact."""
        return attrs.evolve(self, notes=(*self.notes, Note(text, span)))

    def hinted(self, hint: str) -> Diagnostic:
        """Returns this diagnostic with `hint` attached."""
        return attrs.evolve(self, hint=hint)

    def at(self, span: Span | None) -> Diagnostic:
        """Returns this diagnostic with a location, unless it already has one."""
        return self if self.span is not None else attrs.evolve(self, span=span)

    def coded(self, code: str) -> Diagnostic:
        """Returns this diagnostic with an error code, unless it already has one."""
        return self if self.code else attrs.evolve(self, code=code)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(diagnostic: Diagnostic) -> list[str]:
    code = f"[{diagnostic.code}]" if diagnostic.code else ""
    op = f"{diagnostic.op}: " if diagnostic.op else ""
    labels, notes = _split_notes(diagnostic)
    width = max((len(str(label.span.line)) for label in labels), default=2)
    lines = [_brief(f"{diagnostic.severity}{code}: {op}{diagnostic.message}")]
    lines += _excerpts(labels, width)
    lines += [_brief(f"{' ' * width} = note: {note}") for note in notes]
    if diagnostic.hint:
        lines.append(_brief(f"{' ' * width} = help: {diagnostic.hint}"))
    return lines


@attrs.frozen
class _Label:
    """A span to underline: carets for the location of the error, dashes for a fact."""

    span: Span
    text: str
    mark: str = "-"


def _split_notes(diagnostic: Diagnostic) -> tuple[list[_Label], list[str]]:
    """Returns the labels, that of the error first, and the facts that have no source line."""
    labels, notes, label_text = list[_Label](), list[str](), diagnostic.label
    for note in diagnostic.notes:
        span = note.span
        if span is not None and label_text is None and _same_location(span, diagnostic.span):
            label_text = note.text
        elif span is not None and diagnostic.span is not None and span.source.line(span.line):
            labels.append(_Label(span, note.text))
        else:
            notes.append(note.text if span is None else f"{note.text}   {span}")
    if diagnostic.span is not None:
        labels.insert(0, _Label(diagnostic.span, label_text or "", "^"))
    return labels, notes


def _same_location(a: Span, b: Span | None) -> bool:
    return b is not None and a.source is b.source and _extent(a) == _extent(b)


def _extent(span: Span) -> tuple[int, int, int, int]:
    return span.line, span.column, span.end_line, span.end_column


def _excerpts(labels: Sequence[_Label], width: int) -> list[str]:
    """Returns the lines of each source in order, with each label under its span."""
    by_source: dict[str, list[_Label]] = {}
    for label in labels:
        by_source.setdefault(label.span.source.filename, []).append(label)
    lines = list[str]()
    for number, group in enumerate(by_source.values()):
        lines.append(f"{' ' * width}{':::' if number else '-->'} {group[0].span}")
        lines += _excerpt(group, width)
    return lines


def _excerpt(labels: Sequence[_Label], width: int) -> list[str]:
    gap, last, lines = " " * width, 0, list[str]()
    for label in sorted(labels, key=lambda label: (label.span.line, label.mark != "^")):
        span, code = label.span, label.span.source.line(label.span.line)
        if not code:
            continue
        end = span.end_column if span.end_line == span.line else len(code)
        code, column, end = _around(code, span.column, end)
        if span.line != last or len(code) >= LONGEST_LINE:
            lines += [f"{gap} |"] if not last else ["..."] if span.line > last + 1 else []
            lines.append(f"{span.line:>{width}} | {code}")
        marks = label.mark * max(end - column, 1)
        lines.append(_brief(f"{gap} | {' ' * column}{marks} {label.text}".rstrip()))
        last = span.line
    return lines


def _brief(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} ..."


def _around(code: str, column: int, end: int) -> tuple[str, int, int]:
    """Returns the printed part of a line, and the columns of a span in it."""
    if len(code) <= LONGEST_LINE:
        return code, column, end
    first = max(column - BEFORE_SPAN, 0)
    last = first + LONGEST_LINE
    prefix, suffix = "..." * (first > 0), "..." * (last < len(code))
    shift = first - len(prefix)
    return prefix + code[first:last] + suffix, column - shift, min(end, last) - shift


LONGEST_LINE = 400  # characters; a longer line is cut around the span
BEFORE_SPAN = 80  # columns printed before the span of a longer line
LONGEST_TEXT = 4000
SHOWN = 20  # diagnostics printed by one error, which holds all of them


class StructIRError(Exception):
    """The base class of every error that StructIR raises on purpose.

    `code` names the kind of error; `structir explain CODE` prints its entry.
    """

    code = "E0001"

    def __init__(self, message: str = "", *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code

    def __str__(self) -> str:
        headline, newline, help_lines = self.message.partition("\n")
        return f"{headline} [{self.code}]{newline}{help_lines}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles by attributes: constructors of subclasses take others than the message."""
        return _unpickled, (type(self), self.args), self.__dict__

    def _render_traceback_(self) -> list[str]:
        """Returns the traceback as IPython shows it."""
        return tracebacks.notebook_lines(self)


def _unpickled(kind: type[StructIRError], args: tuple[Any, ...]) -> StructIRError:
    return kind.__new__(kind, *args)


tracebacks.install(StructIRError)


class DiagnosticError(StructIRError):
    """A program is invalid; each diagnostic describes one error and its location."""

    code = "E0002"

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        if isinstance(diagnostics, Diagnostic):
            diagnostics = (diagnostics,)
        self.diagnostics: Sequence[Diagnostic] = tuple(d.coded(self.code) for d in diagnostics)
        if self.diagnostics:
            self.code = self.diagnostics[0].code
        shown = [str(d) for d in self.diagnostics[:SHOWN]]
        if len(self.diagnostics) > SHOWN:
            shown.append(f"and {len(self.diagnostics) - SHOWN} more")
        super().__init__("\n\n".join(shown), code=self.code)

    def __str__(self) -> str:
        return self.message


class ParseError(DiagnosticError):
    """The source is not a valid program."""

    code = "E0100"


class StructInfoError(DiagnosticError):
    """A value cannot have the required StructInfo."""

    code = "E0200"


class TruthValueError(StructInfoError, TypeError):
    """A value of a program is used as a Python condition while the program is built."""

    code = "E0215"


class WellFormedError(DiagnosticError):
    """A program violates a rule of scope or of form."""

    code = "E0500"


class PassError(DiagnosticError):
    """A pass produced an invalid or a different program."""

    code = "E0600"


class ShapeMismatchError(StructIRError):
    """At run time, an argument or a value does not have the declared StructInfo."""

    code = "E0700"


LIMITS = "expected operands within the op's limits, found others"


def rejected(rejection: Diagnostic, where: str, message: str = "") -> ShapeMismatchError:
    """Returns the error of a call whose operands an op rejects, as the op declares it."""
    hint = f"\nhelp: {rejection.hint}" if rejection.hint else ""
    text = f"{where}: {message or rejection.message}{hint}"
    return ShapeMismatchError(text, code=rejection.code)


class OutOfMemoryError(StructIRError, MemoryError):
    """A call needs more memory than is available."""

    code = "E0701"


class MissingExtraError(StructIRError):
    """An optional dependency is not installed."""

    code = "E0003"


class DiagnosticWarning(UserWarning):
    """An undecided property is assumed."""

    code = "E0004"


def warn(diagnostic: Diagnostic) -> None:
    """Issues a diagnostic as a Python warning."""
    coded = diagnostic.coded(DiagnosticWarning.code)
    warning = DiagnosticWarning(str(coded))
    warning.code = coded.code
    warnings.warn(warning, stacklevel=2)
