"""Long texts in pieces: a run of simple lines is parsed a few at a time, when it is reached.

The `ast` of 100,000 lines takes more than a gigabyte, that of a piece next to nothing.
A run is replaced by `...` and blank lines, so that all other lines keep their numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import attrs

MIN_RUN_LENGTH = 512  # shorter runs are read as they stand
PIECE_LENGTH = 256
SIMPLE_LINE = re.compile(r"[ \t]+\w+ *(?::.*)?= *(?!T\.).*[\w)\]\"]$")
WRAPPER = "if True:\n"


class Unsplittable(Exception):
    """A piece is not Python by itself: the text must be read as a whole."""


@attrs.frozen
class LineRun:
    """Lines that were taken out of a text, and how many lines of the text stand before them."""

    lines: list[str]
    before: int

    def pieces(self) -> Iterator[tuple[list[ast.stmt], int]]:
        """The statements, a piece at a time, each with how far its line numbers are off."""
        for start in range(0, len(self.lines), PIECE_LENGTH):
            piece = WRAPPER + "\n".join(self.lines[start : start + PIECE_LENGTH])
            try:
                wrapper = ast.parse(piece).body[0]
            except (SyntaxError, RecursionError, MemoryError, ValueError):
                raise Unsplittable from None
            yield wrapper.body, self.before + start - 1  # type: ignore[attr-defined]


def lines_of(text: str) -> list[str]:
    """The lines of a text, as Python counts them."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def extract_runs(text: str) -> tuple[str, dict[int, LineRun]]:
    """The text without its long runs, and the runs by the line that stands for each."""
    lines = lines_of(text)
    runs: dict[int, LineRun] = {}
    start = 0
    depth = -1  # of the run's lines; -1 outside of runs
    for number, line in enumerate([*lines, ""]):
        own = _depth(line)
        if own == depth and own >= 0:
            continue
        if (
            depth >= 0 and number - start > MIN_RUN_LENGTH
        ):  # the last line stays: a branch is read from its end
            runs[start + 1] = LineRun(lines[start : number - 1], start)
        start, depth = number, own
    for run in runs.values():
        first = run.lines[0]
        indent = first[: len(first) - len(first.lstrip())]
        lines[run.before] = f"{indent}..."
        lines[run.before + 1 : run.before + len(run.lines)] = [""] * (len(run.lines) - 1)
    return ("\n".join(lines) if runs else text), runs


def _depth(line: str) -> int:
    """How deep a simple line is indented; -1 for any other line."""
    return len(line) - len(line.lstrip()) if SIMPLE_LINE.match(line) else -1
