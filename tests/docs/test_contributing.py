"""The op of the contributor's recipe, its one file added to a copy of the package: what the recipe
promises comes true, and the tests that hold for every op are green on it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.compile(r"^```(python|text)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
BODY = re.compile(r"^def (\w+)\(", re.MULTILINE)
EVERY_OP = (
    "tests/ops/test_every_op.py",
    "tests/ops/test_examples.py",
    "tests/ops/test_every_gradient.py",
    "tests/loops/test_every_op.py",
    "tests/projections/test_regions_every_op.py",
)


def blocks() -> list[str]:
    """The new file, the program that uses it, what the program prints."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return [block for _, block in BLOCKS.findall(text)][:3]


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the new file in it."""
    home = tmp_path_factory.mktemp("grown")
    ignored = shutil.ignore_patterns(".*_cache", ".hypothesis")
    for folder in ("structir", "tests", "docs"):
        shutil.copytree(ROOT / folder, home / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", home)
    (home / "structir" / "ops" / "distance.py").write_text(blocks()[0], encoding="utf-8")
    return home


def python(home: Path, *arguments: str) -> str:
    """What Python prints, run in a folder on the package that lies there."""
    run = subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env=os.environ | {"PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_its_program_prints_what_is_said(grown: Path) -> None:
    program = grown / "program.py"
    program.write_text(blocks()[1], encoding="utf-8")
    assert python(grown, str(program)) == blocks()[2]


def test_it_stands_on_the_page_of_ops(grown: Path) -> None:
    python(grown, "-m", "structir.tools.op_page", "ops.md")
    page = (grown / "ops.md").read_text(encoding="utf-8")
    (name,) = BODY.findall(blocks()[0])
    assert f"`R.{name}(x, y)`" in page
    assert name not in (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")


@pytest.mark.exhaustive
def test_the_tests_of_every_op_are_green_on_it(grown: Path) -> None:
    (name,) = BODY.findall(blocks()[0])
    said = python(grown, "-m", "pytest", "-q", "-p", "no:cacheprovider", *only(name, EVERY_OP))
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None and int(passed[1]) >= 2 * len(EVERY_OP)


def only(name: str, files: Sequence[str]) -> list[str]:
    """The tests of files that are about one op, and those of all ops in one."""
    return [*files, "-k", f"{name} or test_every_op_"]
