"""Messages of models that cannot be imported: node, expected and found values, a fix that works."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import structir
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.frontend.onnx import OnnxNode, from_onnx, onnx_op
from structir.frontend.onnx_backend import Backend
from structir.script import R
from tests.frontend.models import INT64, expected, made, node, value

CONSTANTS = {"scales": np.array([1, 1, 2, 2], "f4"), "pads": np.array([0, 1, 0, 1])}
WINDOW = {"kernel_shape": [2, 2]}


def diagnostic_of(model: Any) -> Any:
    """Returns the only diagnostic of a failing import."""
    with pytest.raises(DiagnosticError) as raised:
        from_onnx(model)
    (diagnostic,) = raised.value.diagnostics
    return diagnostic


@pytest.mark.parametrize(
    ("wrong_node", "message"),
    [
        (node("Resize", "z _ scales", "y", mode="sinc"), "mode: expected nearest, linear or cubic"),
        (node("Resize", "z _ scales", "y", nearest_mode="up"), "nearest_mode: expected floor, "),
        (
            node("Resize", "z _ scales", "y", coordinate_transformation_mode="half"),
            "coordinate_transformation_mode: expected align_corners, ",
        ),
        (node("GridSample", "z grid", "y", mode="sinc"), "mode: expected linear, "),
        (node("GridSample", "z grid", "y", padding_mode="wrap"), "padding_mode: expected zeros, "),
        (node("MaxPool", "z", "y", auto_pad="SAME", **WINDOW), "auto_pad: expected NOTSET, "),
        (node("ConvTranspose", "z w", "y", auto_pad="SAME"), "auto_pad: expected NOTSET, "),
        (node("Pad", "x pads", "y", mode="mirror"), "mode: expected constant, edge, reflect or "),
        (node("DepthToSpace", "d", "y", blocksize=2, mode="RCD"), "mode: expected DCR or CRD"),
        (node("LpNormalization", "x", "y", p=3), "p: expected 1 or 2, found 3"),
        (node("BitShift", "i i", "y", direction="UP"), "direction: expected LEFT or RIGHT"),
    ],
    ids=lambda v: v.op_type if hasattr(v, "op_type") else "",
)
def test_unknown_modes_are_rejected_with_the_known_ones(wrong_node: Any, message: str) -> None:
    inputs = [value("x", ["n", 4]), value("z", [1, 1, 4, 4]), value("grid", [1, 4, 4, 2])]
    inputs += [value("w", [1, 1, 2, 2]), value("d", [1, 4, 2, 2])]
    inputs += [value("i", [2], TensorProto.UINT8)]
    diagnostic = diagnostic_of(made([wrong_node], inputs, ["y"], CONSTANTS))
    assert diagnostic.op == wrong_node.op_type and diagnostic.code == "E0805"
    assert message in diagnostic.message and "found" in diagnostic.message


@pytest.mark.parametrize(
    ("wrong_node", "message"),
    [
        (node("MatMul", "x", "y"), "missing operand 1 ('B')"),
        (node("Conv", "x _", "y"), "missing operand 1 ('W')"),
        (node("Where", "x _ x", "y"), "missing operand 1 ('X')"),
        (node("Gather", "_ x", "y"), "missing operand 0 ('data')"),
    ],
    ids=lambda v: v.op_type if hasattr(v, "op_type") else "",
)
def test_a_missing_operand_has_the_name_of_the_schema(wrong_node: Any, message: str) -> None:
    diagnostic = diagnostic_of(made([wrong_node], [value("x", ["n", 4])], ["y"]))
    assert diagnostic.message == message and diagnostic.op == wrong_node.op_type


def test_hints_of_ops_do_not_edit_a_program_that_the_user_has_not_written() -> None:
    inputs = [value("x", [2, 3]), value("w", [2, 3])]
    diagnostic = diagnostic_of(made([node("MatMul", "x w", "y")], inputs, ["y"]))
    assert "contraction dimension mismatch" in diagnostic.message
    assert diagnostic.hint is None


def test_the_hint_for_an_unmapped_op_registers_it() -> None:
    nodes = [node("Twice", "x", "a", domain="mine"), node("Twice", "a", "y", domain="mine")]
    model = made(nodes, [value("x", [2])], ["y"])
    model.opset_import.append(helper.make_opsetid("mine", 1))
    diagnostic = diagnostic_of(model)
    assert [n.text for n in diagnostic.notes] == [
        "2 x mine::Twice, first in `a = mine::Twice(x)`",
    ]
    assert diagnostic.hint == 'register a mapping: `@onnx_op("Twice", domain="mine")`'

    @onnx_op("Twice", domain="mine")
    def twice(node: OnnxNode) -> Any:
        return R.add(node[0], node[0])

    (result,) = Backend.run_model(model, [np.ones(2, "f4")])
    np.testing.assert_array_equal(result, np.full(2, 4, "f4"))
    onnx_op("Twice", domain="mine")(lambda node: R.negative(node[0]))  # replaces the mapping
    (result,) = Backend.run_model(model, [np.ones(2, "f4")])
    np.testing.assert_array_equal(result, np.ones(2, "f4"))


def test_the_hint_for_a_missing_opset_import_adds_it() -> None:
    model = made([node("QuickGelu", "x", "y", domain="com.microsoft")], [value("x", [2])], ["y"])
    diagnostic = diagnostic_of(model)
    assert diagnostic.op == "QuickGelu" and "'com.microsoft', found none" in diagnostic.message
    (edit,) = re.findall("`(.*)`", diagnostic.hint)
    exec(edit, {"model": model, "helper": helper})
    assert "main" in from_onnx(model).functions


def test_the_hint_for_an_unknown_rank_declares_the_input() -> None:
    model = made([node("Flatten", "x", "y", axis=1)], [value("x", None)], ["y"])
    diagnostic = diagnostic_of(model)
    assert "operand 0 ('x'): expected a known rank, found R.Tensor" in diagnostic.message
    (edit,) = re.findall("`(.*)`", diagnostic.hint)
    assert "main" in eval(edit, {"from_onnx": from_onnx, "model": model}).functions


def test_the_hint_for_a_symbolic_size_sets_it() -> None:
    model = made([node("Det", "x", "y")], [value("x", ["n", 4])], ["y"])
    diagnostic = diagnostic_of(model)
    assert "expected a static shape, found (n, 4)" in diagnostic.message
    (edit,) = re.findall("`(.*)`", diagnostic.hint)
    exec(edit, {"model": model})
    assert "main" in from_onnx(model).functions


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_has_the_mode_names_of_opset_16(mode: str) -> None:
    rng = np.random.default_rng(0)
    inputs = {"x": rng.random((1, 2, 5, 6), "f4"), "grid": rng.random((1, 3, 4, 2), "f4") * 2 - 1}
    declared = [value(name, array.shape) for name, array in inputs.items()]
    names = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    old = made([node("GridSample", "x grid", "y", mode=mode)], declared, ["y"], opset=16)
    new = made([node("GridSample", "x grid", "y", mode=names[mode])], declared, ["y"], opset=20)
    (result,) = Backend.run_model(old, inputs)
    np.testing.assert_allclose(result, expected(new, inputs)[0], rtol=1e-5, atol=1e-5)


def test_values_of_the_data_are_named_as_inputs_to_fix() -> None:
    model = made(
        [node("ReduceSum", "x axes", "y")], [value("x", [2, 3]), value("axes", [1], INT64)], ["y"]
    )
    diagnostic = diagnostic_of(model)
    assert diagnostic.hint == 'fix the inputs: `from_onnx(model, values={"axes": ...})`'
    assert "main" in from_onnx(model, values={"axes": np.array([1])}).functions


@pytest.mark.parametrize(
    ("wrong_node", "sizes"),
    [
        (node("Det", "x", "y"), 3),
        (node("Expand", "x s", "y"), 1),
        (node("ConstantOfShape", "s", "y"), 1),
        (node("GatherND", "x i", "y"), 1),
        (node("Reshape", "x s", "y"), 1),
    ],
    ids=lambda v: getattr(v, "op_type", ""),
)
def test_the_edit_of_a_symbolic_size_names_its_input(wrong_node: Any, sizes: int) -> None:
    """The model can be imported after as many edits as it has sizes that must be known."""
    inputs = [value("x", ["a", "b", "c"]), value("s", ["k"], INT64)]
    inputs.append(value("i", ["p", "q", "r"], INT64))
    model = made([wrong_node], inputs, ["y"])
    for _ in range(sizes):
        hint = diagnostic_of(model).hint
        (edit,) = re.findall("`(.*)`", hint)
        exec(edit.replace("= 4", "= 3"), {"model": model})
    from_onnx(model)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Abs", "s", "s2"), node("Reshape", "x s2", "y")],
        [node("Abs", "s", "s2"), node("Expand", "x s2", "y")],
        [node("Abs", "x", "x2"), node("Det", "x2", "y")],
        [node("Neg", "i", "i2"), node("GatherND", "x i2", "y")],
    ],
    ids=lambda v: v[1].op_type,
)
def test_intermediate_values_get_no_edit_of_an_input(nodes: Any) -> None:
    inputs = [value("x", ["a", "b", "c"]), value("s", ["k"], INT64)]
    inputs.append(value("i", ["p", "q", "r"], INT64))
    assert diagnostic_of(made(nodes, inputs, ["y"])).hint is None


def test_strings_for_ops_on_numbers_are_named_as_such() -> None:
    words = np.array([["a", "b"], ["c", "a"]], object)
    strings = helper.make_tensor_value_info("x", TensorProto.STRING, [2, 2])
    with pytest.raises(DiagnosticError, match=r"operand 0 .*expected numbers, found strings") as e:
        from_onnx(made([node("Cast", "x", "y", to=TensorProto.FLOAT)], [strings], ["y"]))
    assert "pass numbers for the strings of `x`" in str(e.value.diagnostics[0].hint)
    module = from_onnx(made([node("Flatten", "x", "y")], [strings], ["y"]))
    message = r"reshape.*: expected numbers, found strings or objects \[E0703\]\nhelp: pass numbers"
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        with pytest.raises(ShapeMismatchError, match=message):
            run(words)
        numbers = np.unique(words, return_inverse=True)[1]
        assert np.array_equal(run(numbers), numbers)
