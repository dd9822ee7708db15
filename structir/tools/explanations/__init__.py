"""Entries of error codes: one file `E0123.md` in this folder for each code.

An entry is Markdown: a first line `# E0123: title`, when the error occurs, a wrong program in a
block of Python, its message in a block of text, why it is wrong, and a corrected program in a block
of Python. A program that begins with `@` or `from structir.script` is text for `structir.parse`;
any other is Python that raises the error when it runs.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import attrs

FOLDER = Path(__file__).parent
_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Explanation:
    """The entry of one error code."""

    code: str
    title: str
    text: str  # Markdown without the first line

    @property
    def programs(self) -> list[str]:
        """The wrong program, and the corrected one where there is one."""
        return [body for language, body in _BLOCK.findall(self.text) if language == "python"]

    @property
    def message(self) -> str:
        """The message of the wrong program; empty where the entry has none."""
        return next((body for kind, body in _BLOCK.findall(self.text) if kind == "text"), "")


@cache
def explanations() -> dict[str, Explanation]:
    """Returns all entries by code, in order."""
    entries = map(_read, sorted(FOLDER.glob("E*.md")))
    return {entry.code: entry for entry in entries}


def _read(path: Path) -> Explanation:
    first, _, text = path.read_text(encoding="utf-8").partition("\n")
    code, _, title = first.removeprefix("# ").partition(": ")
    return Explanation(code, title, text.strip() + "\n")
