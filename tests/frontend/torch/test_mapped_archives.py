"""Memory-mapped `.pt2` archives: the same modules as of archives that are read."""

from __future__ import annotations

import gzip
import io
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structir
from structir.analysis.variables import walk
from structir.errors import DiagnosticError
from structir.frontend.torch import from_pt2
from structir.ir.expr import Constant
from tests.frontend.torch.written import archive, meta, node, program, symbol

N = symbol("s0")
RNG = np.random.default_rng(0)
WEIGHTS = {
    "large": RNG.standard_normal((150, 150), np.float32),
    "transposed": RNG.standard_normal((150, 150), np.float32).T,
    "small": RNG.standard_normal((150, 3), np.float32),
}


def whole() -> bytes:
    names = ["x", "large", "transposed", "small"]
    results = ["x", "a", "b", "c"]
    nodes = [
        node("aten.mm.default", results[k], self=results[k - 1], mat2=names[k]) for k in (1, 2, 3)
    ]
    values = {name: meta(*array.shape) for name, array in WEIGHTS.items()}
    values |= {"x": meta(N, 150), "a": meta(N, 150), "b": meta(N, 150), "c": meta(N, 3)}
    stored = program(nodes, values, ["x"], ["c"], tuple(WEIGHTS))
    return archive(stored, WEIGHTS).getvalue()


def in_a_file(data: Any) -> bool:
    while isinstance(data, np.ndarray):
        data = data.base
    return isinstance(data, memoryview) and isinstance(data.obj, mmap.mmap)


def constants(module: structir.IRModule) -> list[Any]:
    return [n.data for n in walk(module) if isinstance(n, Constant)]


def test_large_weights_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(whole())
    module, copied = from_pt2(path), from_pt2(path, mapped=False)
    assert structir.structural_equal(module, copied)
    assert [in_a_file(d) for d in constants(module)] == [True, False, False]
    assert not any(in_a_file(d) for d in constants(copied))
    with path.open("rb") as file:
        opened = from_pt2(file)
    path.unlink()
    x = np.ones((4, 150), np.float32)
    expected = x @ WEIGHTS["large"] @ WEIGHTS["transposed"] @ WEIGHTS["small"]
    for each in (module, copied, opened):
        result = structir.compile(each)["main"](x)
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-2)


def test_other_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2.gz"
    path.write_bytes(gzip.compress(whole()))
    with gzip.open(path) as file:
        compressed = from_pt2(file)  # type: ignore[arg-type]
    assert structir.structural_equal(compressed, from_pt2(io.BytesIO(whole())))
    assert not any(in_a_file(d) for d in constants(compressed))


@pytest.mark.parametrize("mapped", [True, False])
def test_a_changed_weight_is_rejected(tmp_path: Path, mapped: bool) -> None:
    contents = bytearray(whole())
    contents[contents.index(WEIGHTS["large"].tobytes()) + 70_000] ^= 1
    path = tmp_path / "model.pt2"
    path.write_bytes(contents)
    with pytest.raises(DiagnosticError, match="corrupt data"):
        from_pt2(path, mapped=mapped)
