"""The files, folders and extras that documents name are there."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMED = re.compile(
    r"`((?:structir|tests|examples|benchmarks|docs|\.ci)/[\w./-]*|mkdocs\.yml|Makefile|LICENSE)`"
)
MADE = {"structir/ops/distance.py"}  # by the recipe that names it


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_files_that_a_document_names_are_there(path: Path) -> None:
    named = set(NAMED.findall(path.read_text(encoding="utf-8"))) - MADE
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_readme_names_every_extra() -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    extras = text[text.index("As a library:") :].partition("\n\n")[0]
    named = set(re.findall(r"`([\w-]+)`", extras))
    assert set(metadata["project"]["optional-dependencies"]) <= named
