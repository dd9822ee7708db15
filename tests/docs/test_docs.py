"""The Python of the documents runs, in order and in one namespace each, and prints what they say;
so do the commands of their terminals. In what a command shows, `...` stands for any text.

`UPDATE_DOCS=1` writes what was printed into the documents instead of comparing it.
"""

import contextlib
import io
import linecache
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# a block of Python, and right after it, where there is one, what it prints; or a terminal
BLOCKS = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?"
    r"|^```console\n(?P<terminal>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)


def documents() -> list[Path]:
    pages = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
    return [path for path in pages if BLOCKS.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_what_a_document_shows_comes_true(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text, written = path.read_text(encoding="utf-8"), []
    module = ModuleType(f"document_{path.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    namespace = vars(module)
    for block in BLOCKS.finditer(text):
        line = text[: block.start()].count("\n") + 1
        if block["terminal"]:
            made = shown(block["terminal"])
        else:
            made = python(block["code"], line, path.name, namespace)
        if os.environ.get("UPDATE_DOCS"):
            written.append((block, made))
        else:
            assert agrees(block[0], made), f"{path.name}:{line + 1} shows otherwise:\n{made}"
    for block, made in reversed(written):
        if not agrees(block[0], made):
            text = f"{text[: block.start()]}{made}{text[block.end() :]}"
    if written:
        path.write_text(text, encoding="utf-8")


def agrees(stated: str, made: str) -> bool:
    """Whether a document states what was made of it."""
    if not stated.startswith("```console"):
        return stated == made
    pieces = [re.escape(piece) for piece in stated.split("...")]
    return re.fullmatch(".*".join(pieces), made, re.DOTALL) is not None


def python(code: str, line: int, name: str, namespace: dict[str, object]) -> str:
    """A block of Python with what it prints."""
    printed = run(code, line, name, namespace)
    return f"```python\n{code}```\n" + (f"\n```text\n{printed}```\n" if printed else "")


def shown(terminal: str) -> str:
    """A terminal with what its commands show."""
    return "```console\n" + "".join(map(command, COMMAND.findall(terminal))) + "```\n"


def command(line: str) -> str:
    """One command, and what it shows on 100 columns without colours."""
    name, *words = shlex.split(line)
    assert name == "structir", line
    start = "import sys; from structir.tools.cli import main; sys.argv[0] = 'structir'; main()"
    finished = subprocess.run(
        [sys.executable, "-c", start, *words],
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = [each.rstrip() for each in finished.stdout.splitlines()]
    return "\n".join([f"$ {line}", *lines]) + "\n"


def run(code: str, line: int, name: str, namespace: dict[str, object]) -> str:
    """What a block prints. Its lines are numbered as in the document, also for decorators, which
    look for their source."""
    source = "\n" * line + code
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(source, name, "exec"), namespace)
    return out.getvalue()


def test_there_are_documents() -> None:
    assert "struct-info.md" in [path.name for path in documents()]
