"""What is released: both archives hold what they should and nothing else, and a program that uses
the wheel runs and has types."""

import email
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import structir

ROOT = Path(__file__).parents[1]
USER = ROOT / "tests" / "data" / "typed_program.py"
PROGRAM = ROOT / "tests" / "data" / "typed_dsl.py"  # begins as docs/tour.md says
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
WRONG = {  # a mistake, and what a checker has to see of it
    "structir.parse(3)": "str",
    'structir.infer(structir.parse(TEXT), refined="checks")': "refined",
    "passes.Timing(1)": "argument",
    "structir.infre": "infre",
}


def output(*command: object, folder: Path = ROOT) -> str:
    """What a command prints that must succeed."""
    words = [str(word) for word in command]
    run = subprocess.run(
        words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both archives, the wheel made from the other one."""
    place = tmp_path_factory.mktemp("dist")
    output(sys.executable, "-m", "build", "--no-isolation", "--outdir", place, ROOT)
    return place


@pytest.fixture(scope="module")
def wheel(archives: Path) -> zipfile.ZipFile:
    (path,) = archives.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel, and sees the libraries of this one."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False, symlinks=True)
    libraries = Path(
        sysconfig.get_path("purelib", "venv", {"base": str(place), "platbase": str(place)})
    )
    wheel.extractall(libraries)
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (libraries / "others.pth").write_text("\n".join(here), encoding="utf-8")
    return place / "bin" / "python"


def tracked() -> set[str]:
    """The files of the repository, also those that are new."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    listed = output("git", "ls-files", "--cached", "--others", "--exclude-standard")
    return {name for name in listed.splitlines() if (ROOT / name).exists()}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    own = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert own == {name for name in tracked() if name.startswith("structir/")}
    assert {"structir/py.typed", "structir/__init__.pyi", "structir/passes/__init__.pyi"} <= own


def test_the_source_archive_holds_the_repository_and_nothing_else(archives: Path) -> None:
    (path,) = archives.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {str(PurePosixPath(*Path(name).parts[1:])) for name in archive.getnames()}
    left_out = {".ci/run", ".pre-commit-config.yaml"}
    assert names - {"PKG-INFO"} == tracked() - left_out


def test_no_file_of_the_repository_is_one_that_a_program_made() -> None:
    made = re.compile(r"(^|/)(__pycache__|\.\w+_cache|dist|build|site)/|\.(pyc|entry|so|log)$")
    assert [name for name in tracked() if made.search(name)] == []


def test_the_version_is_a_semantic_one_and_stands_on_top_of_the_changes(
    wheel: zipfile.ZipFile,
) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["Version"] == structir.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", structir.__version__)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (\d+)\.(\d+)\.(\d+)", changes, re.MULTILINE)
    assert ".".join(versions[0]) == structir.__version__.partition("-")[0]
    numbers = [tuple(map(int, version)) for version in versions]
    assert numbers == sorted(numbers, reverse=True)


def test_what_needs_a_library_names_the_extra_that_has_it(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    metadata = email.message_from_bytes(wheel.read(name))
    needed = metadata.get_all("Requires-Dist", [])
    assert [line for line in needed if not re.search(r"[<>=]|^structir\[", line)] == []


def test_a_program_runs_on_the_wheel(installed: Path, tmp_path: Path) -> None:
    program = shutil.copy(USER, tmp_path / "program.py")
    place = output(installed, "-c", "import structir; print(structir.__file__)", folder=tmp_path)
    assert Path(place.strip()).is_relative_to(installed.parents[1])
    said = output(installed, program, folder=tmp_path)
    assert "unknown op `R.xep`" in said
    assert said.endswith("[[1. 1. 1. 1.]\n [1. 1. 1. 1.]]\n")


def errors_of(command: list[object], folder: Path) -> list[str]:
    """What a type checker finds in the user's program with mistakes at its end, and in one of the
    language, which has none."""
    text = USER.read_text(encoding="utf-8") + "\n".join(WRONG) + "\n"
    (folder / "program.py").write_text(text, encoding="utf-8")
    shutil.copy(PROGRAM, folder / "dsl.py")
    words = [*map(str, command), "program.py", "dsl.py"]
    run = subprocess.run(
        words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    return [line for line in run.stdout.splitlines() if ": error: " in line or " - error: " in line]


def test_programs_of_the_language_begin_as_the_tour_says() -> None:
    head = [line for line in PROGRAM.read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
    assert "\n".join(head) in (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")


def check_errors(found: list[str]) -> None:
    assert len(found) == len(WRONG), found
    for line, word in zip(found, WRONG.values(), strict=True):
        assert word in line


@pytest.mark.exhaustive
@pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed")
def test_mypy_sees_the_types_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    strict = ["--strict", "--config-file=", "--python-executable", installed]
    check_errors(errors_of([sys.executable, "-m", "mypy", *strict], tmp_path))


@pytest.mark.skipif(not shutil.which("pyright"), reason="pyright is not installed")
def test_pyright_sees_the_types_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    check_errors(errors_of(["pyright", "--pythonpath", installed], tmp_path))
