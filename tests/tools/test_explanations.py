"""Every error code has an entry, whose programs give the message and no message.

`UPDATE_DOCS=1` writes the messages into the entries instead of comparing them.
"""

import ast
import linecache
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structir
from structir import passes
from structir.analysis import check_well_formed
from structir.errors import DiagnosticWarning, StructIRError
from structir.ir.struct_info import KINDS
from structir.script import I, R, T
from structir.tools.error_page import page
from structir.tools.explanations import FOLDER, Explanation, explanations

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"E\d{4}")
ENTRIES = explanations().values()
every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=[entry.code for entry in ENTRIES])


def run(program: str) -> None:
    """Parses a program in the DSL, or executes Python."""
    if program.startswith(("@", "from structir.script")):
        check_well_formed(structir.parse(program, "model.py"))
        return
    names: dict[str, Any] = {"__name__": "model", "np": np, "structir": structir, "passes": passes}
    exec(compile(program, "model.py", "exec"), names | {"I": I, "R": R, "T": T})


@pytest.fixture(autouse=True)
def in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in a temporary folder with a saved model, since some entries read or write files."""
    shutil.copy(ROOT / "examples" / "scorer.pt2", tmp_path)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def registered_subclasses_are_removed() -> Iterator[None]:
    registered = dict(KINDS)
    yield
    KINDS.clear()
    KINDS.update(registered)


@every_entry
def test_wrong_program_gives_the_message_of_its_code(entry: Explanation) -> None:
    linecache.clearcache()  # other tests have files of the same name
    with pytest.raises((StructIRError, DiagnosticWarning)) as caught:
        run(entry.programs[0])
    message = f"{caught.value}\n"
    if os.environ.get("UPDATE_DOCS"):
        path = FOLDER / f"{entry.code}.md"
        text = path.read_text(encoding="utf-8")
        block = re.compile(r"^```text\n.*?^```\n", re.MULTILINE | re.DOTALL)
        path.write_text(block.sub(lambda _: f"```text\n{message}```\n", text, count=1), "utf-8")
        return
    assert caught.value.code == entry.code
    assert message == entry.message


@every_entry
def test_corrected_program_is_accepted(entry: Explanation) -> None:
    assert entry.programs[1:], "the entry has no corrected program"
    for program in entry.programs[1:]:
        run(program)


def codes_in_source() -> set[str]:
    """Returns the codes that the package's source passes to errors and diagnostics."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "structir").rglob("*.py")]
    strings = (
        node.value
        for text in texts
        if CODE.search(text)  # to parse all modules takes seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {text for text in strings if CODE.fullmatch(text)}


def test_every_code_has_an_entry_and_every_entry_a_code() -> None:
    assert codes_in_source() == set(explanations())


def test_page_lists_every_entry() -> None:
    text = page()
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == text
    assert [entry.code for entry in ENTRIES if f"### {entry.code}:" not in text] == []
