"""Parses long texts in chunks: a run of simple lines is parsed a few lines at a time.

The `ast` of 100,000 lines takes more than a gigabyte; that of a chunk is negligible.
A run is replaced by `...` and blank lines, so that all other lines keep their numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import attrs

MIN_RUN_LENGTH = 512  # shorter runs are parsed with the rest of the text
CHUNK_LENGTH = 256
SIMPLE_LINE = re.compile(r"[ \t]+\w+ *(?::.*)?= *(?!T\.).*[\w)\]\"]$")
WRAPPER = "if True:\n"


class Unsplittable(Exception):
    """A chunk is not valid Python by itself: the text must be parsed as a whole."""


@attrs.frozen
class LineRun:
    """Lines extracted from a text, and the number of lines before them."""

    lines: list[str]
    before: int

    def chunks(self) -> Iterator[tuple[list[ast.stmt], int]]:
        """Yields the statements of each chunk with the offset of its line numbers."""
        for start in range(0, len(self.lines), CHUNK_LENGTH):
            chunk = WRAPPER + "\n".join(self.lines[start : start + CHUNK_LENGTH])
            try:
                wrapper = ast.parse(chunk).body[0]
            except (SyntaxError, RecursionError, MemoryError, ValueError):
                raise Unsplittable from None
            yield wrapper.body, self.before + start - 1  # type: ignore[attr-defined]


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text, as Python counts them."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def extract_runs(text: str) -> tuple[str, dict[int, LineRun]]:
    """Returns the text with a placeholder for each long run, and the runs by placeholder line."""
    lines = lines_of(text)
    runs: dict[int, LineRun] = {}
    start = 0
    depth = -1  # of the run's lines; -1 outside of runs
    for number, line in enumerate([*lines, ""]):
        line_depth = _depth(line)
        if line_depth == depth and line_depth >= 0:
            continue
        if depth >= 0 and number - start > MIN_RUN_LENGTH:
            # the last line stays, because it is the result of a branch
            runs[start + 1] = LineRun(lines[start : number - 1], start)
        start, depth = number, line_depth
    for run in runs.values():
        first = run.lines[0]
        indent = first[: len(first) - len(first.lstrip())]
        lines[run.before] = f"{indent}..."
        lines[run.before + 1 : run.before + len(run.lines)] = [""] * (len(run.lines) - 1)
    return ("\n".join(lines) if runs else text), runs


def _depth(line: str) -> int:
    """Returns the indentation of a simple line, -1 for any other line."""
    return len(line) - len(line.lstrip()) if SIMPLE_LINE.match(line) else -1
