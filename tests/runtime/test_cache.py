"""The disk cache: which entries are valid, and the eviction order."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from structir.runtime.files.cached_plans import PACKAGE, stamps
from structir.system.cache import CacheEntry, CacheStore, digest, pack_entry, parse_entry, store
from structir.targets.cpu import objects
from structir.targets.cpu.kernels import kernel
from tests.runtime.scaled_kernels import scaled

KEY = digest("some text")
ENTRY = CacheEntry({"kind": "object", "text": "some text"}, b"machine code" * 20)
TEXT, CODE = scaled(3.0)


@pytest.fixture
def kept(tmp_path):
    return CacheStore(tmp_path, 10**6)


def test_a_written_entry_is_read(kept):
    assert kept.read(KEY) is None
    kept.write(KEY, ENTRY)
    assert kept.read(KEY) == ENTRY
    assert [f.path for f in kept.files()] == [kept.path(KEY)]


def test_plans_depend_on_the_sources_of_all_modules():
    lines = set(stamps(str(PACKAGE)))
    loaded = [m for name, m in sys.modules.items() if name.startswith("structir.")]
    paths = [Path(module.__file__) for module in loaded if getattr(module, "__file__", None)]
    assert any("loops" in path.parts for path in paths)
    for path in paths:
        stat = path.stat()
        assert f"{path.name} {stat.st_size} {stat.st_mtime_ns}" in lines


def test_no_bit_may_be_wrong():
    whole = pack_entry(KEY, ENTRY)
    for place in range(len(whole)):
        wrong = bytearray(whole)
        wrong[place] ^= 0x10
        assert parse_entry(KEY, bytes(wrong)) is None
        assert parse_entry(KEY, whole[:place]) is None
    assert parse_entry(KEY, whole + b"x") is None
    assert parse_entry(digest("another text"), whole) is None


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"{}", os.urandom(500)])
def test_a_broken_file_is_removed(kept, data):
    kept.write(KEY, ENTRY)
    kept.path(KEY).write_bytes(data)
    assert kept.read(KEY) is None
    assert not kept.path(KEY).exists()


def test_an_entry_under_another_key_is_ignored(kept):
    kept.write(KEY, ENTRY)
    other = digest("another text")
    kept.path(other).parent.mkdir(exist_ok=True)
    kept.path(KEY).rename(kept.path(other))
    assert kept.read(other) is None


def test_concurrent_writers_leave_one_valid_entry(kept):
    entries = [CacheEntry({"writer": k}, bytes([k]) * 50_000) for k in range(8)]

    def write(entry):
        for _ in range(20):
            kept.write(KEY, entry)
            assert kept.read(KEY) in entries

    threads = [threading.Thread(target=write, args=(e,)) for e in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.read(KEY) in entries
    assert not list(kept.root.glob("*/*.part"))


def test_least_recently_used_entries_are_evicted_first(tmp_path):
    kept = CacheStore(tmp_path, 5000)
    keys = [digest(str(k)) for k in range(6)]
    for age, key in enumerate(keys):
        kept.write(key, CacheEntry({}, bytes(800)))
        os.utime(kept.path(key), (1000 + age, 1000 + age))
    assert kept.read(keys[0]) is not None  # used now
    assert kept.sweep() == 2
    assert [key in {f.path.stem for f in kept.files()} for key in keys] == [
        True, False, False, True, True, True,
    ]  # fmt: skip


def test_a_place_that_cannot_be_written_costs_nothing_else(tmp_path):
    (tmp_path / "file").write_text("")
    blocked = CacheStore(tmp_path / "file", 1000)
    blocked.write(KEY, ENTRY)
    assert blocked.read(KEY) is None


def test_the_environment_sets_the_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path))
    monkeypatch.setenv("STRUCTIR_CACHE_MAX_BYTES", "77")
    assert (store().root, store().max_bytes) == (tmp_path, 77)
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    assert store() is None


def test_a_cached_kernel_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path))
    assert objects.from_disk(TEXT) is None
    built = kernel(TEXT, lambda: CODE).loaded
    again = objects.from_disk(TEXT)
    assert not built.from_disk and again.from_disk
    assert again.code == built.code or again.code.data == built.code.data
    assert again.addresses[0] not in (0, built.addresses[0])


def test_a_kernel_whose_needs_are_not_here_is_not_loaded():
    code = objects.MachineCode(b"", ("kernel",), ("no_such_function_anywhere",), True, 0.0)
    assert objects.load_code(code) is None


PROGRAM = """
import numpy as np, structir
from structir.targets.cpu.kernels import _kernels
exe = structir.compile(structir.parse('''
@R.function
def main(x: R.Tensor(("n", 5), "float32"), w: R.Tensor((5, 3), "float32")):
    return R.exp(R.matmul(x, w))
'''))
x, w = np.ones((4, 5), np.float32), np.ones((5, 3), np.float32)
np.testing.assert_allclose(exe["main"](x, w), np.exp(x @ w), rtol=1e-5)
print(sum(k.loaded.from_disk for k in _kernels.values()), len(_kernels))
"""


ROUTINES = """
import sys, numpy as np, structir
from structir.targets.cpu.kernels import _kernels
exe = structir.compile(structir.parse('''
@R.function
def main(x: R.Tensor(("n", 5), "float32")):
    return R.tuple(R.sort(x), R.topk(x, k=2))
'''))
x = np.array([[3, 1, 2, 5, 4]], np.float32)
ordered, (largest, places) = exe["main"](x)
assert ordered.tolist() == [[1, 2, 3, 4, 5]]
assert (largest.tolist(), places.tolist()) == ([[5, 4]], [[3, 4]])
print(sum(k.loaded.from_disk for k in _kernels.values()), len(_kernels))
assert ("structir.targets.cpu.point_translation" in sys.modules) == (sys.argv[1] == "new")
"""


def run_program(place, program=PROGRAM, *arguments):
    environment = {**os.environ, "STRUCTIR_CACHE": str(place)}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.split()))


def test_a_second_process_translates_no_function_over_arrays(tmp_path):
    assert run_program(tmp_path, ROUTINES, "new") == (0, 2)
    assert run_program(tmp_path, ROUTINES, "cached") == (2, 2)


def test_a_second_process_compiles_nothing_and_believes_nothing_broken(tmp_path):
    found, kernels = run_program(tmp_path)
    assert found == 0 and kernels >= 1
    assert run_program(tmp_path) == (kernels, kernels)
    for path in tmp_path.glob("*/*.entry"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    assert run_program(tmp_path) == (0, kernels)
