"""Resize by float32 scales at symbolic sizes, compared with ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import structir
from structir.frontend.onnx import from_onnx
from structir.frontend.scales import size_fraction

SCALES = (0.29, 1.3, 1.7)  # the sizes of 1.3 are not those of one fraction


def model() -> onnx.ModelProto:
    """Returns a model that resizes floats by each scale, and bytes by 2."""
    nodes, outputs = [], []
    constants = [helper.make_tensor("two", TensorProto.FLOAT, [4], [1, 1, 2, 2])]
    for k, scale in enumerate(SCALES):
        constants.append(helper.make_tensor(f"s{k}", TensorProto.FLOAT, [4], [1, 1, 1, scale]))
        settings = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        nodes.append(helper.make_node("Resize", ["x", "", f"s{k}"], [f"y{k}"], **settings))
        outputs.append(helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None))
    nodes.append(helper.make_node("Resize", ["b", "", "two"], ["z"], mode="linear"))
    outputs.append(helper.make_tensor_value_info("z", TensorProto.UINT8, None))
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, "n"]),
        helper.make_tensor_value_info("b", TensorProto.UINT8, [1, 1, 5, 7]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_sizes_and_elements_equal_those_of_onnx_runtime() -> None:
    assert [size_fraction(scale, "float32") is None for scale in SCALES] == [
        scale == 1.3 for scale in SCALES
    ]
    graph, rng = model(), np.random.default_rng(0)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    module = from_onnx(graph)
    compiled = structir.compile(module)["main"]
    for n in (10, 17, 50, 90, 100, 200, 700, 1300):
        x = rng.standard_normal((1, 1, 1, n)).astype("float32")
        b = rng.integers(0, 256, (1, 1, 5, 7)).astype("uint8")
        expected = session.run(None, {"x": x, "b": b})
        for results in (structir.interpret(module, "main", x, b), compiled(x, b)):
            for result, reference in zip(results, expected, strict=True):
                assert np.array_equal(result, reference), n
