"""Damaged `.sir` files are read or rejected with one message."""

import json
import os
import threading
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.ir import BlockBuilder, Constant, IRModule, Var, find_op


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    builder = BlockBuilder()
    weights = Constant(np.arange(300, dtype="float32"))
    x = Var("x", weights.struct_info)
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(find_op("add")(x, weights)))
    path = tmp_path_factory.mktemp("saved") / "module.sir"
    structir.save(builder.get(), path)
    return path.read_bytes()


def damaged(rng: Random, data: bytes) -> bytes:
    """Returns the bytes truncated, extended or partly replaced."""
    chance = rng.random()
    if chance < 0.4:
        return data[: rng.randrange(len(data))]
    if chance < 0.5:
        return data + bytes(rng.randrange(1, 9))
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(min(len(data), 700))] = rng.randrange(256)
    return bytes(changed)


TEXT = '@R.function\ndef main(x: R.Tensor((6,), "float32")):\n    return x\n'
FORM: dict[str, Any] = {"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}
HEADS: dict[str, Any] = {
    "nested arrays": b"[" * 200_000,
    "nested tables": b'{"a":' * 100_000,
    "half a character": b'{"\xff": 1}',
    "a list": [],
    "facts that are a number": {"__metadata__": 3},
    "facts that are a list": {"__metadata__": ["structir"]},
    "a text that is a number": {"__metadata__": {"structir": 3}},
    "sizes that are fractions": {"shape": [2.0, 3.0]},
    "sizes that are texts": {"shape": ["2", 3]},
    "sizes that are nothing": {"shape": [None]},
    "sizes below zero": {"shape": [-2, -3]},
    "sizes beyond memory": {"shape": [2**62, 2**62, 6]},
    "more axes than arrays have": {"shape": [1] * 99 + [6]},
    "an unknown dtype": {"dtype": "F33"},
    "a place outside of the file": {"data_offsets": [2**40, 2**40 + 24]},
    "a place that ends before it begins": {"data_offsets": [24, 0]},
}


def made_file(path: Path, head: Any) -> Path:
    if isinstance(head, dict) and not head.keys() & {"__metadata__"}:
        head = {"__metadata__": {"structir": TEXT}, "a": FORM | head}
    said = head if isinstance(head, bytes) else json.dumps(head).encode()
    path.write_bytes(len(said).to_bytes(8, "little") + said + bytes(24))
    return path


def test_the_file_that_is_spoilt_below_is_right(tmp_path: Path) -> None:
    assert list(structir.load(made_file(tmp_path / "module.sir", {}))) == ["main"]


@pytest.mark.parametrize("name", HEADS)
def test_an_invalid_header(name: str, tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match=r"module\.sir: not a StructIR module file"):
        structir.load(made_file(tmp_path / "module.sir", HEADS[name]))


@pytest.mark.parametrize("target", ["abacus", "../../elsewhere", "cpu"])
def test_an_unknown_backend(target: str, tmp_path: Path) -> None:
    head = {"__metadata__": {"structir": TEXT, "structir.target": target}, "a": FORM}
    with pytest.raises(DiagnosticError, match="unknown backend"):
        structir.load(made_file(tmp_path / "module.sir", head))


def test_a_name_that_would_lie_elsewhere(tmp_path: Path) -> None:
    """A constant is referenced by name, and a name is never a path."""
    text = TEXT.replace("return x", "return R.add(x, metadata['../../outside'])")
    with pytest.raises(DiagnosticError, match="missing constant"):
        structir.load(
            made_file(tmp_path / "module.sir", {"__metadata__": {"structir": text}, "a": FORM})
        )


def test_many_write_one_file_while_it_is_read(tmp_path: Path) -> None:
    """A reader always sees a complete file of one of the writers."""
    path = tmp_path / "module.sir"
    texts = [TEXT.replace("return x", f"return R.multiply(x, {k}.0)") for k in range(4)]
    modules = [structir.parse(text) for text in texts]
    structir.save(modules[0], path)
    wrong: list[object] = []

    def work(module: IRModule) -> None:
        for _ in range(15):
            structir.save(module, path)
            found = structir.load(path)
            if not any(structir.structural_equal(found, each) for each in modules):
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(module,)) for module in modules]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and [each.name for each in tmp_path.iterdir()] == ["module.sir"]


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file(whole: bytes, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "module.sir"
    path.write_bytes(damaged(Random(seed), whole))
    try:
        found = structir.load(path)
    except DiagnosticError as error:
        assert str(error)
    else:
        assert isinstance(found, IRModule)


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        with pytest.raises(FileExistsError, match="not a regular file"):
            structir.save(IRModule(), place)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]
