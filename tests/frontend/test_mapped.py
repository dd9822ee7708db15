"""Memory-mapped models: the same modules as of parsed models, with constants in the file."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import structir
from structir.analysis.variables import walk
from structir.errors import DiagnosticError
from structir.frontend.onnx import from_onnx
from structir.ir.expr import Constant
from structir.printer.files.mapped_memory import release_pages
from tests.frontend.models import FLOAT, made, node, value

TABLE = np.random.default_rng(0).standard_normal((400, 64), np.float32)
WEIGHT = np.random.default_rng(1).standard_normal((64, 300), np.float32)


def model(**changes: Any) -> onnx.ModelProto:
    arrays = {"table": TABLE, "weight": WEIGHT, "small": np.ones(300, np.float32)}
    nodes = [
        node("Gather", "table ids", "rows"),
        node("MatMul", "rows weight", "product"),
        node("Add", "product small", "out"),
    ]
    whole = made(nodes, [value("ids", ["n"], onnx.TensorProto.INT64)], ["out"])
    whole.graph.initializer.extend([numpy_helper.from_array(a, n) for n, a in arrays.items()])
    for name, change in changes.items():
        change(next(t for t in whole.graph.initializer if t.name == name))
    return whole


def stored(folder: Path, **changes: Any) -> Path:
    path = folder / "model.onnx"
    onnx.save(model(**changes), path)
    return path


def in_a_file(data: Any) -> bool:
    while isinstance(data, np.ndarray):
        data = data.base
    return isinstance(data, memoryview) and isinstance(data.obj, mmap.mmap)


def test_large_constants_stay_in_the_file(tmp_path: Path) -> None:
    path = stored(tmp_path)
    module, read = from_onnx(path), from_onnx(path, mapped=False)
    assert structir.structural_equal(module, read)
    held = [n.data for n in walk(module) if isinstance(n, Constant)]
    assert sorted(d.shape for d in held if in_a_file(d)) == [(64, 300), (400, 64)]
    assert not any(in_a_file(n.data) for n in walk(read) if isinstance(n, Constant))
    ids = np.array([3, 399, 0])
    main = structir.compile(module)["main"]
    for _ in range(2):  # pages that are let go come back from the file
        np.testing.assert_allclose(main(ids), TABLE[ids] @ WEIGHT + 1, rtol=1e-4, atol=1e-5)
        for data in held:
            release_pages(data)
    assert all(
        (numpy_helper.to_array(t) == d).all()
        for t in model().graph.initializer
        for d in held
        if d.shape == tuple(t.dims)
    )


def shorten(tensor: Any) -> None:
    tensor.raw_data = tensor.raw_data[:-4]


def retype(tensor: Any) -> None:
    tensor.data_type = 99


@pytest.mark.parametrize("change", [shorten, retype])
def test_same_message_with_and_without_mapping(tmp_path: Path, change: Any) -> None:
    path = stored(tmp_path, weight=change)
    told = []
    for mapped in (False, True):
        with pytest.raises(DiagnosticError) as error:
            from_onnx(path, mapped=mapped)
        told.append(str(error.value))
    assert told[0] == told[1]


@pytest.mark.parametrize("length", [0, 1, 1000, -1])
def test_truncated_files(tmp_path: Path, length: int) -> None:
    path = stored(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DiagnosticError, match="not a valid ONNX model"):
        from_onnx(path)
    with pytest.raises(DiagnosticError, match="cannot read"):
        from_onnx(tmp_path / "missing.onnx")


def test_models_in_memory_and_elements_of_half_a_byte_are_read(tmp_path: Path) -> None:
    assert structir.structural_equal(from_onnx(model()), from_onnx(model(), mapped=False))
    ints = np.arange(1 << 18, dtype=np.int64) % 7
    packed = onnx.helper.make_tensor("packed", onnx.TensorProto.UINT4, [1 << 18], ints)
    nodes = [node("Cast", "packed", "w", to=FLOAT), node("Add", "x w", "out")]
    whole = made(nodes, [value("x", [1 << 18])], ["out"], opset=21)
    whole.graph.initializer.append(packed)
    path = tmp_path / "packed.onnx"
    onnx.save(whole, path)
    module = from_onnx(path)
    assert structir.structural_equal(module, from_onnx(path, mapped=False))


def test_large_external_data_stays_in_its_file(tmp_path: Path) -> None:
    path, data = tmp_path / "model.onnx", tmp_path / "weights" / "all.data"
    data.parent.mkdir()
    onnx.save(model(), path, save_as_external_data=True, location="weights/all.data")
    module, read = from_onnx(path), from_onnx(path, mapped=False)
    assert structir.structural_equal(module, read)
    in_memory = onnx.load(path, load_external_data=False)
    for each in (module, from_onnx(in_memory, folder=tmp_path)):
        held = [n.data for n in walk(each) if isinstance(n, Constant)]
        assert sorted(d.shape for d in held if in_a_file(d)) == [(64, 300), (400, 64)]
    assert not any(in_a_file(n.data) for n in walk(read) if isinstance(n, Constant))
    ids = np.array([3, 399, 0])
    result = structir.compile(module)["main"](ids)
    np.testing.assert_allclose(result, TABLE[ids] @ WEIGHT + 1, rtol=1e-4, atol=1e-5)
    data.write_bytes(data.read_bytes()[:-4])
    for mapped in (True, False):
        with pytest.raises(DiagnosticError, match=r"expected .* bytes, found a range"):
            from_onnx(path, mapped=mapped)
