"""Stored plans for devices: read as written, or refused; no text of theirs is compiled."""

import copy
import json
from random import Random

import pytest

import structir
from structir.errors import StructIRError
from structir.loops.program.kernel_text import MissingCodeError
from structir.system import cache

pytest.importorskip("cuda.core")

from structir.runtime.files.serialise import NotStoredError, decode, serialise
from structir.targets.cuda import archive, compiler
from structir.targets.cuda.ahead import AheadDevice
from structir.targets.cuda.compiler import GpuCode
from structir.targets.cuda.serialise import DeviceReading, DeviceWriting

TEXT = """
@R.function
def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 32), "float32")):
    n = T.int64()
    y = R.nn.relu(R.matmul(x, w))
    q = R.reshape(x, (1, n, 1, 16))
    return R.sum(R.nn.softmax(y), axis=[0]), R.nn.attention(q, q, q)
"""
MARKER = "__import__('os').mkdir('executed')"
VALUES = [None, True, -1, 1, 1 << 40, 1 << 70, "", [], {}, MARKER, {"dim": 0}, {"Product": []}]


@pytest.fixture
def made(monkeypatch, tmp_path):
    """An executable for an architecture, whose machine code is only a name for it."""
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "_codes", {})
    texts = []

    def code(text, architecture):
        texts.append(text)
        return GpuCode(text.known_as, architecture, "kernel", "", b"code", 0.0)

    monkeypatch.setattr(compiler, "_made", code)
    monkeypatch.chdir(tmp_path)
    yield structir.compile(structir.parse(TEXT), target="cuda", arch="sm_90"), texts
    assert not (tmp_path / "executed").exists()


def reading(said, array):
    return DeviceReading(said, array, AheadDevice("sm_90"), False)


def no_array(_):
    raise KeyError


def test_plans_are_read_as_they_were_written(made):
    executable, _ = made
    functions = [f.stored for f in executable.direct.values()]
    said = serialise(functions, DeviceWriting(no_array))
    assert functions and len(said["functions"]) == len(functions)
    again = decode(json.dumps(said).encode(), reading, no_array)
    for one, other in zip(functions, again, strict=True):
        for form in (False, True)[: 1 + bool(one.region.boundary.equal)]:
            a, b = one.region.recipe(form).kernels, other.region.recipe(form).kernels
            assert [k.known_as for k in a] == [k.known_as for k in b]
            assert all(k.from_file for k in b)


def test_texts_of_files_are_not_compiled(made, monkeypatch):
    executable, texts = made
    functions = [f.stored for f in executable.direct.values()]
    said = serialise(functions, DeviceWriting(no_array))
    (function,) = decode(json.dumps(said).encode(), reading, no_array)
    function.region.prepare()  # with the machine code of this process
    count = len(texts)
    monkeypatch.setattr(compiler, "_codes", {})
    for path in cache.store().root.glob("*/*.entry"):
        path.unlink()
    (function,) = decode(json.dumps(said).encode(), reading, no_array)
    with pytest.raises(MissingCodeError):
        function.region.prepare()
    assert len(texts) == count


def test_mutated_plans_are_refused_or_read(made):
    executable, _ = made
    functions = [f.stored for f in executable.direct.values()]
    whole = serialise(functions, DeviceWriting(no_array))
    rng, refused = Random(3), 0
    for _ in range(300):
        said = copy.deepcopy(whole)
        kernel = rng.choice(said["functions"][0]["recipes"][0]["kernels"])
        at = rng.choice([kernel, kernel["own"], kernel["own"]])
        key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
        at[key] = rng.choice(VALUES)
        try:
            (function,) = decode(json.dumps(said).encode(), reading, no_array)
            function.region.prepare().numbers([3])
        except NotStoredError:
            refused += 1
        except (MissingCodeError, StructIRError):
            pass
    assert refused > 100


def test_a_saved_executable_is_read_without_compiling(made, tmp_path):
    executable, texts = made
    archive.save(executable, tmp_path / "model.sir")
    count = len(texts)
    again = structir.load(tmp_path / "model.sir")
    assert again.function_names == ("main",) and again.plans() and len(texts) == count
