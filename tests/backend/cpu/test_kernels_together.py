"""Kernels compiled in threads are those that numba compiles one after another."""

import numpy as np
import pytest

import structir
from structir.backend.cpu import kernels as together
from structir.backend.cpu.code_generation import pending_code
from structir.backend.cpu.kernels import kernel_names, symbol_of, translate_library
from structir.backend.cpu.operations import UntranslatedError
from structir.script import R


@R.function
def main(x: R.Tensor(("n", 24), "float32"), w: R.Tensor((24, 24), "float32")):
    a = R.nn.softmax(R.matmul(x, w))
    b = R.sum(R.exp(R.permute_dims(x)), axis=1)
    c = R.cumsum(R.nn.gelu(x), axis=0)
    return a, b, c


TEXT = """def kernel(a, lo, hi):
    p0 = float32_pointer(a[0])
    p1 = float32_pointer(a[1])
    for r in range(lo, hi):
        total = float32(0.0)
        for j in range(24):
            total = add_to(total, p0[r * 24 + j])
        p1[r] = square_root(total)
"""


def compiled_alone(text, symbol):
    library = translate_library(text, symbol, kernel_names())
    library.get_pointer_to_function(symbol)
    return library._get_compiled_object()


def test_machine_code_does_not_depend_on_the_thread():
    symbol = symbol_of(TEXT)
    pending = pending_code(translate_library(TEXT, symbol, kernel_names()), symbol)
    code = pending.machine_code(pending.generate(), 0.0)
    assert code.data == compiled_alone(TEXT, symbol)
    assert code.symbols == (symbol,)


def results(monkeypatch, tmp_path):
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path))
    monkeypatch.setattr("structir.backend.cpu.kernels._kernels", {})
    rng = np.random.default_rng(0)
    x, w = rng.random((7, 24), "float32"), rng.random((24, 24), "float32")
    return structir.compile(main)["main"](x, w)


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def untranslated(*args):
    raise UntranslatedError


@pytest.mark.parametrize("reason", ["one core", "a text that only numba compiles"])
def test_kernels_are_the_same_without_threads(monkeypatch, tmp_path, reason):
    expected = results(monkeypatch, tmp_path / "threads")
    if reason == "one core":
        monkeypatch.setattr(together, "physical_cores", lambda: 1)
    else:
        monkeypatch.setattr(together, "physical_cores", lambda: 4)
        monkeypatch.setattr(together, "translate_library", untranslated)
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
