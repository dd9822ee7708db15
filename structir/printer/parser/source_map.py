"""Maps nodes of the syntax tree to locations in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from structir.errors import Source, Span
from structir.printer.parser.chunked_parse import LineRun, lines_of
from structir.system.locks import cached_property

_new_tuple = tuple.__new__  # without the Python function that a named tuple has for it


class SourceMap:
    """Maps lines and columns of `ast` nodes to spans of a source."""

    def __init__(
        self, source: Source, line_shift: int = 0, runs: Mapping[int, LineRun] | None = None
    ) -> None:
        self.source = source
        self.line_shift = line_shift
        self.runs = runs or {}
        self.lines = lines_of(source.text)
        self.ascii = source.text.isascii()

    def span(self, node: Any) -> Span:
        """Returns the span of a node."""
        shift = self.line_shift
        line, end = node.lineno + shift, node.end_lineno + shift
        start, stop = node.col_offset, node.end_col_offset
        if not self.ascii:
            start, stop = self.column(line, start), self.column(end, stop)
        return _new_tuple(Span, (self.source, line, start, end, stop))

    def run_at(self, node: ast.AST) -> LineRun | None:
        """Returns the run of lines that a placeholder statement replaces, or None."""
        line: int = node.lineno  # type: ignore[attr-defined]
        return self.runs.get(line + self.line_shift - self.source.first_line + 1)

    @contextmanager
    def shifted(self, lines: int) -> Iterator[None]:
        """Shifts the line numbers of nodes while a chunk of the text is parsed."""
        outside, self.line_shift = self.line_shift, lines + self.source.first_line - 1
        try:
            yield
        finally:
            self.line_shift = outside

    def column(self, line: int, offset: int) -> int:
        """Converts a byte offset, as `ast` counts, to a column in characters."""
        text = self.lines[line - self.source.first_line]
        return len(text.encode()[:offset].decode(errors="ignore"))

    @cached_property
    def stems(self) -> frozenset[str]:
        """Returns the names of the text that collide with those of fresh variables."""
        return frozenset(re.findall(r"\b[lg]v\d*\b", self.source.text))

    def on_one_line(self, node: Any) -> str | None:
        """Returns the text of a node on one line of an ASCII source, or None."""
        if node.lineno != node.end_lineno or not self.ascii:
            return None
        index = node.lineno + self.line_shift - self.source.first_line
        line: str = self.lines[index]
        return line[node.col_offset : node.end_col_offset]
