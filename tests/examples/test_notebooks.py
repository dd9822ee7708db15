"""The notebooks run, and their cells show what is stored in them, but for what is measured.

`UPDATE_DOCS=1` stores what was shown.
"""

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
MOST_BYTES = 100_000


def shown(cell: Any) -> list[str]:
    """The texts that a cell shows; pictures by their kind alone."""
    found = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        text = output.get("text") or data.get("text/plain", "")
        found.append("a picture" if "image/png" in data else text)
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_stored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    stored = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    options = {"coalesce_streams": True, "record_timing": False}
    NotebookClient(run, timeout=120, kernel_name="python3", **options).execute()
    if os.environ.get("UPDATE_DOCS"):
        run.metadata = stored.metadata
        nbformat.write(run, path)
        return
    for old, new in zip(stored.cells, run.cells, strict=True):
        if "measured" not in old.metadata.get("tags", ()):
            assert shown(new) == shown(old), old.source


def test_there_are_three_and_they_are_small() -> None:
    assert len(NOTEBOOKS) == 3
    assert [path.name for path in NOTEBOOKS if path.stat().st_size > MOST_BYTES] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_in_it_is_of_one_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert str(ROOT) not in text
    assert "Traceback" not in text
    assert "Warning" not in text
