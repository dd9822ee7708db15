"""Kernels compiled in threads are those that are compiled one after another."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import structir
from structir.script import R
from structir.targets.cpu import kernels as together
from structir.targets.cpu.code_generation import pending_kernel
from structir.targets.cpu.kernels import symbol_of
from structir.targets.cpu.prepared import prepared
from tests.runtime.scaled_kernels import scaled


@R.function
def main(x: R.Tensor(("n", 24), "float32"), w: R.Tensor((24, 24), "float32")):
    a = R.nn.softmax(R.matmul(x, w))
    b = R.sum(R.exp(R.permute_dims(x)), axis=1)
    c = R.cumsum(R.nn.gelu(x), axis=0)
    return a, b, c


def test_machine_code_does_not_depend_on_the_thread():
    text, assembled = scaled(2.0)
    pending = [pending_kernel(assembled, symbol_of(text), prepared) for _ in range(2)]
    with ThreadPoolExecutor(1) as executor:
        buffers = executor.submit(pending[0].generate).result(), pending[1].generate()
    one, other = [p.machine_code(b, 0.0) for p, b in zip(pending, buffers, strict=True)]
    assert one.data == other.data
    assert one.symbols == (symbol_of(text),)


def results(monkeypatch, tmp_path):
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path))
    monkeypatch.setattr("structir.targets.cpu.kernels._kernels", {})
    rng = np.random.default_rng(0)
    x, w = rng.random((7, 24), "float32"), rng.random((24, 24), "float32")
    return structir.compile(main)["main"](x, w)


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_kernels_are_the_same_without_threads(monkeypatch, tmp_path):
    expected = results(monkeypatch, tmp_path / "threads")
    monkeypatch.setattr(together, "physical_cores", lambda: 1)
    assert_same(results(monkeypatch, tmp_path / "alone"), expected)


def test_an_error_ends_the_compilation_in_all_threads(monkeypatch, tmp_path):
    monkeypatch.setattr(together, "physical_cores", lambda: 2)
    monkeypatch.setattr(
        together.PendingCode, "generate", lambda self: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        results(monkeypatch, tmp_path / "broken")
    monkeypatch.undo()
    results(monkeypatch, tmp_path / "whole")
