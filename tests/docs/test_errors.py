"""The page of errors has every kind there is, and shows each that points into a program."""

import re
from pathlib import Path

from structir import errors

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
SHOWN = re.compile(r"^```text\n(\w+)\n", re.MULTILINE)
KINDS = [value for value in vars(errors).values() if isinstance(value, type)]


def test_every_kind_stands_in_the_table() -> None:
    kinds = [kind for kind in KINDS if issubclass(kind, Exception)]
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert [kind.__name__ for kind in kinds if kind.__name__ not in named] == []


def test_every_kind_that_points_into_a_program_is_shown() -> None:
    kinds = {kind.__name__ for kind in KINDS if issubclass(kind, errors.DiagnosticError)}
    assert kinds <= set(SHOWN.findall(PAGE))
    assert {"ShapeMismatchError", "StructIRError", "DiagnosticWarning"} <= set(SHOWN.findall(PAGE))


def test_every_entry_shows_a_message() -> None:
    entries = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
    assert len(entries) > 25
    assert [entry.splitlines()[0] for entry in entries if "```text\n" not in entry] == []
