"""The mode of saved files, and saving onto symbolic links; for modules and executables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import structir
from structir.ir.module import IRModule

TEXT = '@R.function\ndef main(x: R.Tensor((6,), "float32")):\n    return R.nn.relu(x)\n'
Save = Callable[[Path], None]


def save_module(path: Path) -> None:
    structir.save(structir.parse(TEXT), path)


def save_executable(path: Path) -> None:
    structir.compile(structir.parse(TEXT)).save(path)


@pytest.fixture(params=[save_module, save_executable])
def save(request: pytest.FixtureRequest) -> Save:
    result: Save = request.param
    return result


@pytest.fixture
def umask() -> Iterator[Callable[[int], Any]]:
    before = os.umask(0)
    os.umask(before)
    yield os.umask
    os.umask(before)


def loads(path: Path) -> bool:
    loaded = structir.load(path)
    return (loaded if isinstance(loaded, IRModule) else loaded.module)["main"] is not None


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o002])
def test_the_umask_determines_the_mode(
    tmp_path: Path, save: Save, umask: Callable[[int], Any], mask: int
) -> None:
    umask(mask)
    for _ in range(2):  # a new file, then one that is replaced
        save(tmp_path / "a.sir")
        assert (tmp_path / "a.sir").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_symbolic_link_is_followed(tmp_path: Path, save: Save) -> None:
    folder, link, chain = tmp_path / "inner", tmp_path / "link.sir", tmp_path / "chain.sir"
    folder.mkdir()
    link.symlink_to(Path("inner") / "target.sir")
    chain.symlink_to(link)
    for path in (link, chain):  # the target is missing at first, then it is replaced
        save(path)
        assert link.is_symlink() and chain.is_symlink() and loads(path)
        assert [entry.name for entry in folder.iterdir()] == ["target.sir"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["chain.sir", "inner", "link.sir"]


def test_links_without_a_target_file(tmp_path: Path, save: Save) -> None:
    circle, folder, missing = (tmp_path / name for name in ("circle", "folder", "missing"))
    circle.symlink_to(circle)
    folder.symlink_to(tmp_path)
    missing.symlink_to(tmp_path / "no" / "file.sir")
    for path, error in ((circle, OSError), (folder, FileExistsError), (missing, FileNotFoundError)):
        with pytest.raises(error):
            save(path)
    assert {p.name for p in tmp_path.iterdir()} == {"circle", "folder", "missing"}
