"""The Python of the documents runs, in order and in one namespace each, and prints what they say.

`UPDATE_DOCS=1` writes what was printed into the documents instead of comparing it.
"""

import contextlib
import io
import linecache
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# a block of Python, and right after it, where there is one, what it prints
BLOCKS = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    pages = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
    return [path for path in pages if "```python\n" in path.read_text()]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_the_python_of_a_document_runs(path: Path) -> None:
    text, written = path.read_text(encoding="utf-8"), []
    namespace: dict[str, object] = {"__name__": path.stem}
    for block in BLOCKS.finditer(text):
        line = text[: block.start(1)].count("\n")
        printed = run(block[1], line, path.name, namespace)
        if os.environ.get("UPDATE_DOCS"):
            written.append((block, printed))
        else:
            stated = block[2] or ""
            assert printed == stated, f"{path.name}:{line + 1} prints otherwise than it says"
    for block, printed in reversed(written):
        shown = f"\n```text\n{printed}```\n" if printed else ""
        text = f"{text[: block.start()]}```python\n{block[1]}```\n{shown}{text[block.end() :]}"
    if written:
        path.write_text(text, encoding="utf-8")


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
