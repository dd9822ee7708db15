"""Where an error is, what it says, and how it is shown: spans, diagnostics, exceptions, and the one
renderer."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import attrs

from structir import tracebacks


@attrs.frozen(eq=False, repr=False)
class Source:
    """A text that a program was read from."""

    filename: str
    text: str
    first_line: int = 1  # a decorated function starts in the middle of its file

    def line(self, number: int) -> str:
        """The text of one line, numbered as in the file; empty when there is none."""
        lines = self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # as Python counts
        index = number - self.first_line
        return lines[index] if 0 <= index < len(lines) else ""


@attrs.frozen(eq=False, repr=False)
class Span:
    """A stretch of a source: lines count from 1, columns from 0, the end is exclusive."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.source.filename}:{self.line}:{self.column + 1}"


@attrs.frozen
class Note:
    """A fact that a diagnostic rests on, and where it stands."""

    text: str
    span: Span | None = None


@attrs.frozen
class Diagnostic:
    """One message: what is wrong, where, in which op, resting on which facts, and what to try."""

    message: str
    span: Span | None = None
    op: str | None = None
    notes: tuple[Note, ...] = ()
    hint: str | None = None
    severity: str = "error"

    def note(self, text: str, span: Span | None = None) -> Diagnostic:
        """The same diagnostic resting on one fact more."""
        return attrs.evolve(self, notes=(*self.notes, Note(text, span)))

    def hinted(self, hint: str) -> Diagnostic:
        """The same diagnostic with something to try."""
        return attrs.evolve(self, hint=hint)

    def at(self, span: Span | None) -> Diagnostic:
        """The same diagnostic, placed here unless it has a place already."""
        return self if self.span is not None else attrs.evolve(self, span=span)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(diagnostic: Diagnostic) -> list[str]:
    head = f"{diagnostic.op}: " if diagnostic.op else ""
    lines = [_brief(f"{diagnostic.severity}: {head}{diagnostic.message}")]
    width = 2
    if diagnostic.span is not None:
        width = len(str(diagnostic.span.line))
        lines += _excerpt(diagnostic.span, width)
    for note in diagnostic.notes:
        place = f"   {note.span}" if note.span is not None else ""
        lines.append(f"{' ' * width} = {_brief(note.text)}{place}")
    if diagnostic.hint:
        lines.append(_brief(f"{' ' * width} = hint: {diagnostic.hint}"))
    return lines


def _brief(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} ..."


def _excerpt(span: Span, width: int) -> list[str]:
    code = span.source.line(span.line)
    lines = [f"{' ' * width}--> {span}"]
    if code:
        end = span.end_column if span.end_line == span.line else len(code)
        code, column, end = _around(code, span.column, end)
        carets = "^" * max(end - column, 1)
        gap = " " * width
        lines += [
            f"{gap} |",
            f"{span.line:>{width}} | {code}",
            f"{gap} | {' ' * column}{carets}",
        ]
    return lines


def _around(code: str, column: int, end: int) -> tuple[str, int, int]:
    """What is shown of a line, and where the span stands in it: of a long one, the part around."""
    if len(code) <= LONGEST_LINE:
        return code, column, end
    first = max(column - BEFORE_SPAN, 0)
    last = first + LONGEST_LINE
    left, right = "..." * (first > 0), "..." * (last < len(code))
    moved = first - len(left)
    return left + code[first:last] + right, column - moved, min(end, last) - moved


LONGEST_LINE = 400  # that is shown whole
BEFORE_SPAN = 80  # columns that are shown of a longer one
LONGEST_TEXT = 4000
SHOWN = 20  # diagnostics that one error prints; it holds all of them


class StructIRError(Exception):
    """Every error that StructIR raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """Returns the traceback as IPython shows it."""
        return tracebacks.notebook_lines(self)


tracebacks.install(StructIRError)


class DiagnosticError(StructIRError):
    """A program is wrong; one or several diagnostics say where and why."""

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        if isinstance(diagnostics, Diagnostic):
            diagnostics = (diagnostics,)
        self.diagnostics: Sequence[Diagnostic] = tuple(diagnostics)
        shown = [str(d) for d in self.diagnostics[:SHOWN]]
        if len(self.diagnostics) > SHOWN:
            shown.append(f"and {len(self.diagnostics) - SHOWN} more")
        super().__init__("\n\n".join(shown))


class ParseError(DiagnosticError):
    """The text is not a program."""


class StructInfoError(DiagnosticError):
    """A value cannot have the structure that is asked of it."""


class WellFormedError(DiagnosticError):
    """A program breaks a rule of scoping or of form."""


class PassError(DiagnosticError):
    """A pass broke the program that it was given."""


class ShapeMismatchError(StructIRError):
    """An argument or an intermediate does not have the structure that the program states."""


class OutOfMemoryError(StructIRError, MemoryError):
    """A call needs more memory than there is, or sizes that no memory has."""


class MissingExtraError(StructIRError):
    """An optional part of StructIR is not installed."""


class DiagnosticWarning(UserWarning):
    """Something that cannot be decided is taken on trust."""


def warn(diagnostic: Diagnostic) -> None:
    """Issue a diagnostic as a Python warning."""
    warnings.warn(DiagnosticWarning(str(diagnostic)), stacklevel=2)
