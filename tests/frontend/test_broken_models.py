"""Invalid, truncated or hostile models: one diagnostic that names the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from structir.errors import DiagnosticError
from structir.frontend.onnx import from_onnx
from structir.frontend.onnx_backend import Backend
from tests.frontend.models import BOOL, INT64, made, node, value


def message(model: Any, **options: Any) -> str:
    with pytest.raises(DiagnosticError) as caught:
        from_onnx(model, **options)
    return str(caught.value)


def external(location: str, **entries: str) -> Any:
    model = made([node("Add", "x w", "y")], [value("x", [4])], ["y"], {"w": np.ones(4, "f4")})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=text)
    return model


def test_all_unsupported_ops_at_once() -> None:
    nodes = [node("Foo", "x", "a"), node("Foo", "a", "b"), node("Bar", "b", "y")]
    nodes[2].domain = "elsewhere"
    text = message(made(nodes, [value("x", [1])], ["y"]))
    assert "3 nodes of 2 ops" in text
    assert "2 x Foo" in text
    assert "1 x elsewhere::Bar" in text


def test_an_invalid_node_is_shown() -> None:
    nodes = [node("MatMul", "x y", "z", name="product")]
    text = message(made(nodes, [value("x", [2, 3]), value("y", [4, 5])], ["z"]))
    assert "z = MatMul(x, y)  # product" in text
    assert "3" in text and "4" in text


def test_a_value_without_a_producer() -> None:
    assert "'ghost'" in message(made([node("Relu", "ghost", "y")], [value("x", [1])], ["y"]))


def test_a_cycle() -> None:
    nodes = [node("Add", "x b", "a"), node("Relu", "a", "b")]
    assert "'b' is used" in message(made(nodes, [value("x", [1])], ["b"]))


def test_a_function_that_calls_itself() -> None:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    inner = helper.make_node("f", ["a"], ["b"], domain="own")
    function = helper.make_function("own", "f", ["a"], ["b"], [inner], opsets)
    call = helper.make_node("f", ["x"], ["y"], domain="own")
    model = made([call], [value("x", [1])], ["y"], functions=[function])
    model.opset_import.append(helper.make_opsetid("own", 1))
    assert "nested" in message(model)


def test_functions_that_expand_exponentially() -> None:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    functions = []
    for k in range(40):
        op, domain = (f"f{k + 1}", "own") if k < 39 else ("Neg", "")
        body = [
            helper.make_node(op, ["a"], ["b"], domain=domain),
            helper.make_node(op, ["b"], ["c"], domain=domain),
        ]
        functions.append(helper.make_function("own", f"f{k}", ["a"], ["c"], body, opsets))
    call = helper.make_node("f0", ["x"], ["y"], domain="own")
    model = made([call], [value("x", [1])], ["y"], functions=functions)
    model.opset_import.append(helper.make_opsetid("own", 1))
    assert "expands to more than 300000 nodes" in message(model)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "a/../../w.bin", ""])
def test_data_outside_of_the_folder(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(b"0" * 16)
    home = tmp_path / "home"
    home.mkdir()
    onnx.save(external(location), home / "model.onnx")
    assert "outside the model's folder" in message(home / "model.onnx")


@pytest.mark.parametrize("location", ["w" * 5000, "w\0", ".", "missing"])
def test_data_in_no_file(tmp_path: Path, location: str) -> None:
    (tmp_path / "model.onnx").write_bytes(external(location).SerializeToString())
    text = message(tmp_path / "model.onnx")
    assert "external data file" in text
    assert len(text) < 300


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (2**50, "expected a size of at most 1048576, found 1125899906842624"),
        (2**20 + 1, "expected a size of at most 1048576, found 1048577"),
        (0, "dft_length: expected at least 1, found 0"),
        (-3, "dft_length: expected at least 1, found -3"),
    ],
)
def test_transforms_of_invalid_length(length: int, expected: str) -> None:
    model = made([node("DFT", "x n", "y")], [value("x", [1, 8, 1])], ["y"], {"n": np.int64(length)})
    assert expected in message(model)


def test_data_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"0" * 16)
    home = tmp_path / "home"
    home.mkdir()
    (home / "w.bin").symlink_to(tmp_path / "secret")
    onnx.save(external("w.bin"), home / "model.onnx")
    assert "outside the model's folder" in message(home / "model.onnx")


def test_data_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"head" + np.arange(4, dtype="f4").tobytes())
    onnx.save(external("w.bin", offset="4", length="16"), tmp_path / "model.onnx")
    assert len(from_onnx(tmp_path / "model.onnx")["main"].params) == 1
    onnx.save(external("w.bin", offset="8", length="16"), tmp_path / "model.onnx")
    assert "expected 16 bytes" in message(tmp_path / "model.onnx")


def test_a_tensor_with_too_few_bytes() -> None:
    model = made([node("Add", "x w", "y")], [value("x", [4])], ["y"], {"w": np.ones(4, "f4")})
    model.graph.initializer[0].dims[0] = 1 << 50
    assert "found 16" in message(model)


def test_sizes_too_large_to_fold() -> None:
    huge = np.array([1 << 40, 1 << 10], np.int64)
    model = made([node("ConstantOfShape", "s", "y")], [value("x", [1])], ["y"], {"s": huge})
    assert from_onnx(model)["main"].ret_struct_info.dims == (1 << 40, 1 << 10)


def test_a_file_that_is_not_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    assert "has no graph" in message(path)
    path.write_bytes(b"\xff" * 40)
    assert "not a valid ONNX model" in message(path)
    assert "cannot read" in message(tmp_path / "none.onnx")


def whole_model() -> bytes:
    rng = np.random.default_rng(3)
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("Shape", "r", "s"),
        node("Gather", "s i", "n"),
        node("Concat", "n m", "t", axis=0),
        node("Reshape", "r t", "f"),
        node("Gemm", "f g", "y"),
    ]
    constants = {
        "w": rng.random((2, 1, 3, 3), "f4"),
        "b": np.zeros(2, "f4"),
        "i": np.array([0]),
        "m": np.array([-1]),
        "g": rng.random((32, 3), "f4"),
    }
    return made(nodes, [value("x", ["n", 1, 4, 4])], ["y"], constants).SerializeToString()


WHOLE = whole_model()


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.booleans())
@settings(max_examples=150)
def test_damaged_files(tmp_path_factory: Any, place: int, byte: int, cut: bool) -> None:
    """Changes a byte or truncates: the result is a module or a DiagnosticError."""
    path = tmp_path_factory.mktemp("damaged") / "model.onnx"
    changed = WHOLE[:place] if cut else WHOLE[:place] + bytes([byte]) + WHOLE[place + 1 :]
    path.write_bytes(changed)
    try:
        module = from_onnx(path)
    except DiagnosticError:
        return
    assert "main" in module.functions


def test_attributes_of_the_wrong_type() -> None:
    nodes = [node("Transpose", "x", "y", perm="backwards")]
    assert "Transpose" in message(made(nodes, [value("x", [2, 3])], ["y"]))


def test_a_value_defined_twice() -> None:
    nodes = [node("Relu", "x", "y"), node("Neg", "x", "y")]
    assert "defined twice" in message(made(nodes, [value("x", [2])], ["y"]))


def test_operands_that_must_be_constant() -> None:
    inputs = [value("x", [2, 3]), value("axes", [1], INT64)]
    text = message(made([node("ReduceSum", "x axes", "y")], inputs, ["y"]))
    assert "'axes'" in text
    assert "values=" in text


def within(depth: int) -> Any:
    """Returns nested loops."""
    step = node("Relu", "v0", "w0")
    for k in range(depth):
        kept = node("Identity", f"go{k}", f"on{k}")
        entering = [value(f"i{k}", [], INT64), value(f"go{k}", [], BOOL), value(f"v{k}", None)]
        leaving = [value(f"on{k}", [], BOOL), value(f"w{k}", None)]
        body = helper.make_graph([step, kept], f"body{k}", entering, leaving)
        inner = "x" if k == depth - 1 else f"v{k + 1}"
        step = node("Loop", f"trips _ {inner}", "y" if k == depth - 1 else f"w{k + 1}", body=body)
    return made([step], [value("x", ["n", 4])], ["y"], {"trips": np.array(2)})


def test_nested_loops_are_built_once() -> None:
    module = from_onnx(within(20))
    x = np.array([[-1.0, 2.0, 0.0, 3.0]], "f4")
    assert "main" in module.functions
    assert (Backend.run_model(within(3), [x])[0] == np.maximum(x, 0)).all()


@pytest.mark.parametrize(
    ("wrong_node", "expected"),
    [
        (node("Split", "x", "y", num_outputs=1 << 40), "num_outputs"),
        (node("TopK", "x k", "y i"), "found -5"),
        (
            node("MaxPool", "z", "y", kernel_shape=[2, 2], pads=[1 << 40] * 4),
            "pads: expected at most",
        ),
        (node("Scan", "x", "y", num_scan_inputs=5), "body"),
    ],
    ids=lambda v: v.op_type if hasattr(v, "op_type") else "",
)
def test_attributes_out_of_range(wrong_node: Any, expected: str) -> None:
    inputs = [value("x", ["n", 4]), value("z", [1, 1, 5, 5])]
    assert expected in message(made([wrong_node], inputs, ["y"], {"k": np.array([-5])}))


def test_values_too_large_for_memory() -> None:
    sizes = {"s": np.array([1 << 20, 1 << 20, 1 << 10])}
    model = made([node("ConstantOfShape", "s", "y")], [value("x", [1])], ["y"], sizes)
    with pytest.raises(DiagnosticError, match="out of memory"):
        Backend.run_model(model, [np.ones(1, "f4")])
