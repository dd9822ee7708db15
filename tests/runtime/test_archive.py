"""Saved executables load without compiling; damaged or foreign files are rejected."""

import json
import os
import subprocess
import sys
import warnings
from random import Random

import numpy as np
import pytest
import safetensors

import structir
from structir.errors import DiagnosticError, DiagnosticWarning, ParseError
from structir.ir.module import IRModule
from structir.runtime.executable import Executable
from structir.runtime.files import archive
from structir.runtime.files.cached_plans import CachedPlans

WEIGHTS = np.random.default_rng(0).standard_normal((6, 4), np.float32)


def model():
    text = """
@R.function
def main(x: R.Tensor(("n", 6), "float32")):
    return R.nn.softmax(R.matmul(x, metadata["weights"]))
"""
    return structir.parse(text, constants={"weights": WEIGHTS})


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.sir"
    structir.compile(model()).save(path)
    return path


def check(executable):
    x = np.random.default_rng(1).standard_normal((5, 6), np.float32)
    e = np.exp(x @ WEIGHTS)
    np.testing.assert_allclose(executable["main"](x), e / e.sum(-1, keepdims=True), rtol=1e-4)


def test_it_comes_back_and_computes_the_same(saved):
    loaded = structir.load(saved)
    assert isinstance(loaded, Executable)
    assert structir.structural_equal(loaded.module, model())
    check(loaded)


def test_a_module_in_a_file_is_no_executable(tmp_path):
    structir.save(model(), tmp_path / "module.sir")
    assert isinstance(structir.load(tmp_path / "module.sir"), IRModule)


PROGRAM = """
import sys, numpy as np, structir
from structir.targets.cpu import objects
made = []
objects.to_disk = lambda text, code: made.append(text)
exe = structir.load(sys.argv[1])
exe["main"](np.ones((3, 6), np.float32))
print(len(made), len(objects._codes))
"""


def test_another_process_loads_it_without_compiling(saved):
    environment = {**os.environ, "STRUCTIR_CACHE": "off"}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(saved)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    compiled, loaded = map(int, done.stdout.splitlines()[0].split())
    assert compiled == 0 and loaded >= 3  # a kernel, the entry from Python, the runner


def test_machine_code_of_another_processor_is_not_used(saved, monkeypatch):
    monkeypatch.setattr(archive.identity, "machine_identity", lambda: "another")
    with pytest.warns(DiagnosticWarning, match="compiled for another processor or by other"):
        loaded = structir.load(saved)
    monkeypatch.undo()
    check(loaded)


def test_damaged_machine_code_is_not_used(saved):
    whole = saved.read_bytes()
    place = whole.index(b"structir-cache") + 200
    saved.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.warns(DiagnosticWarning, match="is damaged: compiling again"):
        check(structir.load(saved))


def flipped(path, before, after):
    whole = path.read_bytes()
    assert whole.count(before) >= 1 and len(before) == len(after)
    path.write_bytes(whole.replace(before, after, 1))


def test_damaged_plans_are_not_used(saved):
    flipped(saved, b'"recipes"', b'"recipez"')
    with pytest.warns(DiagnosticWarning, match="is damaged: compiling again"):
        check(structir.load(saved))


@pytest.mark.parametrize("fact", ["structir.kernels", "structir.plans"])
@pytest.mark.parametrize("said", ["", "[", "3", "null", "[[3]]", '"main"', "[" * 100_000])
def test_damaged_facts_are_rejected(saved, fact, said):
    whole = saved.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    head = json.loads(whole[8:end])
    head["__metadata__"][fact] = said
    text = json.dumps(head).encode()
    saved.write_bytes(len(text).to_bytes(8, "little") + text + whole[end:])
    with pytest.warns(DiagnosticWarning, match="is damaged: compiling again"):
        check(structir.load(saved))


def test_bytes_that_are_wrong_anywhere_give_the_same_or_are_refused(saved):
    whole, rng, refused = saved.read_bytes(), Random(5), 0
    head = 8 + int.from_bytes(whole[:8], "little")
    for k in range(40):
        place = rng.randrange(head) if k % 2 else rng.randrange(len(whole))
        saved.write_bytes(whole[:place] + rng.randbytes(1) + whole[place + 1 :])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DiagnosticWarning)
                loaded = structir.load(saved)
        except DiagnosticError as error:
            refused += bool(str(error))
        else:
            assert loaded["main"](np.zeros((2, 6), np.float32)).shape == (2, 4)
    assert refused > 5


@pytest.mark.parametrize("key", [b"structir.kernels", b"structir.machine"])
def test_an_executable_that_has_lost_a_key_is_compiled_again(saved, key):
    flipped(saved, key, key[:-1] + b"z")
    with pytest.warns(DiagnosticWarning, match="compil"):
        loaded = structir.load(saved)
    assert loaded["main"](np.zeros((2, 6), np.float32)).shape == (2, 4)


def test_another_text_than_was_saved_is_refused(saved):
    flipped(saved, b"R.nn.softmax", b"R.nn.softmin")
    with pytest.raises(ParseError, match="modified after saving"):
        structir.load(saved)


@pytest.mark.parametrize("head", [b"", b"\x00" * 8, b"\xff" * 30, b"\x02" + b"\x00" * 7 + b"[]"])
def test_other_files_are_rejected(head, tmp_path):
    (tmp_path / "foreign.sir").write_bytes(head)
    with pytest.raises(ParseError, match="not a StructIR module file"):
        structir.load(tmp_path / "foreign.sir")


def test_arrays_are_where_the_file_is(saved):
    (weights,) = [c for c in CachedPlans(structir.load(saved).module).constants if c.size == 24]
    assert not weights.flags.owndata and not weights.flags.writeable
    (panels,) = structir.load(saved).plans()[0].constants.values()
    assert not panels.flags.owndata and panels.ctypes.data % 64 == 0


def test_each_array_is_stored_once(tmp_path):
    rng = np.random.default_rng(2)
    arrays = {name: rng.standard_normal((600, 600), np.float32) for name in ("a", "b", "c")}
    text = """
@R.function
def main(x: R.Tensor(("n", 600), "float32"), k: R.Tensor((), "int64")):
    rows = R.matmul(R.nn.relu(R.matmul(x, metadata["a"])), R.permute_dims(metadata["b"]))
    return R.add(rows, R.take(metadata["c"], k, axis=0))
"""
    path, args = tmp_path / "model.sir", (np.ones((2, 600), np.float32), np.int64(7))
    executable = structir.compile(structir.parse(text, constants=arrays))
    executable.save(path)
    size = sum(array.nbytes for array in arrays.values())
    assert size < path.stat().st_size < 1.2 * size
    for _ in range(2):
        loaded = structir.load(path)
        np.testing.assert_array_equal(loaded["main"](*args), executable["main"](*args))
        loaded.save(path)
    assert path.stat().st_size < 1.2 * size


def test_others_can_read_the_file(saved):
    with safetensors.safe_open(saved, framework="np") as file:
        arrays = [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118
    assert any(a.shape == WEIGHTS.shape and np.array_equal(a, WEIGHTS) for a in arrays)


def test_it_is_written_over_itself_while_in_use(saved):
    loaded = structir.load(saved)
    loaded.save(saved)
    check(loaded)
    check(structir.load(saved))
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_file_that_is_cut_off_is_refused(saved):
    saved.write_bytes(saved.read_bytes()[:-50])
    with pytest.raises(ParseError, match="not a StructIR module file"):
        structir.load(saved)


def test_a_loaded_one_can_be_saved_again(saved, tmp_path):
    structir.load(saved).save(tmp_path / "again.sir")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(structir.load(tmp_path / "again.sir"))


SAVES = """
import sys
import structir
text = '''
@R.function
def main(x: R.Tensor(("n", 64), "float32")):
    return R.exp(R.matmul(x, R.permute_dims(x)))
'''
structir.compile(structir.parse(text)).save(sys.argv[1])
"""
LOADS = """
import sys
import numpy as np
import structir
from structir.targets.cpu import objects
executable = structir.load(sys.argv[1])
for n in (2, 700, 3):
    executable["main"](np.ones((n, 64), "float32"))
print(sorted(text[:20] for text in objects._codes if objects.key_of(text) not in objects._offered))
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_loaded_executable_compiles_nothing(threads, tmp_path):
    environment = {**os.environ, "STRUCTIR_CACHE": "off", "STRUCTIR_NUM_THREADS": threads}
    for script in (SAVES, LOADS):  # each in a process that has compiled nothing else
        command = [sys.executable, "-c", script, str(tmp_path / "model.sir")]
        finished = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        )
    assert finished.stdout.strip() == "[]"
