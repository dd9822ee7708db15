"""Changed ONNX nodes are rejected, or have the results of ONNX's reference evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

import attrs
import numpy as np

from structir.errors import DiagnosticError, StructIRError
from structir.frontend.onnx import from_onnx
from structir.lazy import lazy_module
from structir.tools.comparison import Disagreement

structir = lazy_module("structir")
onnx = lazy_module("onnx")
reference = lazy_module("onnx.reference")
TEST_SEEDS = 100
MAX_ELEMENTS = 1 << 16  # of one operand: changed attributes must not exhaust memory
FLOAT, INT, BYTE, BOOL = "float32", "int64", "uint8", "bool"
INTEGERS = (0, 1, -1, 2, 3, 7, 65)
NUMBERS = (0.0, 1.0, -1.0, 0.5, 2.0, float("inf"))
STRINGS = ("", "xx", "NOTSET", "none", "linear", "constant")
CLASSES = np.array([[0, 1, 2, 1], [2, 0, 1, 1]])
CAUSES = (ValueError, TypeError, IndexError, KeyError, AssertionError, RuntimeError)


@attrs.frozen
class NodeCase:
    """A node: its op, operands in order, attributes and number of results."""

    op: str
    operands: Mapping[str, np.ndarray[Any, Any]]
    attributes: Mapping[str, Any] = attrs.Factory(dict)
    constants: str = ""  # names of the operands that are initializers
    results: int = 1
    opset: int = 21


def _x(*shape: int, dtype: str = FLOAT) -> np.ndarray[Any, Any]:
    values = np.arange(int(np.prod(shape))).reshape(shape)
    return (values % 7 / 4 + 0.25).astype(dtype) if dtype == FLOAT else (values % 2).astype(dtype)


def _quantized(*names: str) -> dict[str, np.ndarray[Any, Any]]:
    """Returns scalar scales and zero points; names that end in `z` are zero points."""
    return {n: np.array(1, BYTE) if n[-1] == "z" else np.array(0.3, FLOAT) for n in names}


def _image_cases() -> list[NodeCase]:
    image, kernel = _x(1, 2, 5, 5), _x(4, 2, 3, 3)
    vector = {name: _x(2) for name in "sbmv"}
    return [
        NodeCase("Conv", {"x": image, "w": kernel, "b": _x(4)}, {"pads": [1] * 4, "group": 1}),
        NodeCase("ConvTranspose", {"x": image, "w": _x(2, 3, 2, 2)}, {"strides": [2, 2]}),
        NodeCase("MaxPool", {"x": image}, {"kernel_shape": [2, 2], "ceil_mode": 0}),
        NodeCase("AveragePool", {"x": image}, {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}),
        NodeCase("BatchNormalization", {"x": image, **vector}, {"epsilon": 1e-3}),
        NodeCase("InstanceNormalization", {"x": image, "s": _x(2), "b": _x(2)}),
        NodeCase("GroupNormalization", {"x": image, "s": _x(2), "b": _x(2)}, {"num_groups": 2}),
        NodeCase("DeformConv", {"x": image, "w": kernel, "o": _x(1, 18, 3, 3)}, {"group": 1}),
        NodeCase("DepthToSpace", {"x": _x(1, 8, 2, 2)}, {"blocksize": 2, "mode": "DCR"}),
        NodeCase("LpPool", {"x": image}, {"kernel_shape": [2, 2], "p": 2}),
        NodeCase("ConvInteger", {"x": image.astype(BYTE), "w": kernel.astype(BYTE)}, {"group": 1}),
    ]


def _layer_cases() -> list[NodeCase]:
    heads = {name: _x(1, 2, n, 4) for name, n in (("q", 3), ("k", 5), ("v", 5))}
    sides = _quantized("as", "az"), _quantized("bs", "bz", "ys", "yz")
    matrices = {"a": _x(2, 3, dtype=BYTE)} | sides[0] | {"b": _x(3, 4, dtype=BYTE)} | sides[1]
    state = {"x": _x(3, 2, 4), "w": _x(1, 20, 4), "r": _x(1, 20, 5)}
    cache = {"p": _x(1, 2, 4, 3), "u": _x(1, 2, 2, 3), "i": np.array([1])}
    rotary = {"x": _x(1, 2, 3, 4), "c": _x(1, 3, 2), "s": _x(1, 3, 2)}
    return [
        NodeCase("Gemm", {"a": _x(3, 4), "b": _x(4, 5), "c": _x(5)}, {"transA": 0, "alpha": 2.0}),
        NodeCase("PRelu", {"x": _x(2, 3), "s": _x(3)}),
        NodeCase("LayerNormalization", {"x": _x(2, 3, 4), "s": _x(4)}, {"axis": -1}),
        NodeCase("NegativeLogLikelihoodLoss", {"x": _x(2, 3, 4), "t": CLASSES, "w": _x(3)}),
        NodeCase(
            "SoftmaxCrossEntropyLoss", {"x": _x(2, 3, 4), "t": CLASSES}, {"reduction": "mean"}
        ),
        NodeCase("Attention", heads, {"scale": 0.5, "qk_matmul_output_mode": 0}, opset=23),
        NodeCase("TensorScatter", cache, {"mode": "linear"}, "i", opset=24),
        NodeCase("LSTM", state, {"hidden_size": 5}),
        NodeCase("QLinearMatMul", matrices, {}, "az as bz bs yz ys"),
        NodeCase("DequantizeLinear", {"x": _x(2, 3, 4, dtype=BYTE), "s": _x(3)}, {"axis": 1}),
        NodeCase("QuantizeLinear", {"x": _x(2, 3), "s": _x(3)}, {"axis": 1}),
        NodeCase("Dropout", {"x": _x(2, 3), "r": np.array(0.5, FLOAT)}, {}, "r"),
        NodeCase("HannWindow", {"n": np.array(5)}, {"periodic": 1}, "n"),
        NodeCase("RotaryEmbedding", rotary, {"interleaved": 0}, opset=23),
        NodeCase("MatMulInteger", {"a": _x(2, 3, dtype=BYTE), "b": _x(3, 2, dtype=BYTE)}),
    ]


def _movement_cases() -> list[NodeCase]:
    return [
        NodeCase("Transpose", {"x": _x(2, 3, 4)}, {"perm": [2, 0, 1]}),
        NodeCase("Concat", {"x": _x(2, 3), "y": _x(2, 4)}, {"axis": 1}),
        NodeCase("Gather", {"x": _x(4, 3), "i": np.array([0, -1])}, {"axis": 0}, "i"),
        NodeCase("GatherElements", {"x": _x(3, 3), "i": CLASSES[:, :3]}, {"axis": 1}, "i"),
        NodeCase("Expand", {"x": _x(3, 1), "s": np.array([2, 3, 4])}, {}, "s"),
        NodeCase("Tile", {"x": _x(2, 3), "s": np.array([2, 1])}, {}, "s"),
        NodeCase("OneHot", {"x": CLASSES, "d": np.array(3), "v": _x(2)}, {"axis": -1}, "d"),
        NodeCase("TopK", {"x": _x(3, 4), "k": np.array([2])}, {"axis": 1}, "k", 2),
        NodeCase("CumSum", {"x": _x(2, 3), "a": np.array(1)}, {"exclusive": 0}, "a"),
        NodeCase("Compress", {"x": _x(3, 2), "c": _x(3, dtype=BOOL)}, {"axis": 0}),
        NodeCase("Pad", {"x": _x(2, 3), "p": np.array([0, 1, 1, 0])}, {"mode": "edge"}, "p"),
        NodeCase("Trilu", {"x": _x(3, 4), "k": np.array(1)}, {"upper": 1}, "k"),
        NodeCase(
            "ScatterElements", {"x": _x(3, 3), "i": CLASSES[:, :2], "u": _x(2, 2)}, {"axis": 1}
        ),
        NodeCase("ScatterND", {"x": _x(3, 3), "i": np.array([[0], [2]]), "u": _x(2, 3)}, {}, "i"),
        NodeCase("Slice", {"x": _x(4, 3), "s": np.array([1]), "e": np.array([3])}, {}, "s e"),
        NodeCase("Split", {"x": _x(4, 3), "s": np.array([1, 3])}, {"axis": 0}, "s", 2),
        NodeCase("Unsqueeze", {"x": _x(4, 3), "a": np.array([0, 2])}, {}, "a"),
        NodeCase("Reshape", {"x": _x(4, 3), "s": np.array([2, -1])}, {"allowzero": 0}, "s"),
        NodeCase("Softmax", {"x": _x(2, 3)}, {"axis": 1}),
        NodeCase("ReduceSum", {"x": _x(2, 3), "a": np.array([1])}, {"keepdims": 0}, "a"),
        NodeCase("Where", {"c": _x(2, 3, dtype=BOOL), "x": _x(2, 3), "y": _x(3)}),
        NodeCase("Einsum", {"x": _x(2, 3), "y": _x(3, 4)}, {"equation": "ij,jk->ik"}),
    ]


@cache
def _cases() -> list[NodeCase]:
    return [*_image_cases(), *_layer_cases(), *_movement_cases()]


def sample(random: Random) -> NodeCase:
    """Generates a node with one to three changes of its operands and attributes."""
    case = random.choice(_cases())
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        case = random.choice([_change_shape, _change_attribute, _change_operands])(case, random)
    return case


def _change_shape(case: NodeCase, random: Random) -> NodeCase:
    """Changes the rank, a size, the dtype or an element of an operand."""
    if not case.operands:
        return case
    name = random.choice(list(case.operands))
    array = case.operands[name]
    how = random.randrange(5)
    if how == 0:
        array = array[0] if random.random() < 0.5 and array.ndim and array.size else array[None]
    elif how == 1:
        array = array.astype(random.choice([FLOAT, "float64", INT, "int8", BYTE, BOOL]))
    elif how == 2 and array.size:
        array = array.copy()
        array.flat[random.randrange(array.size)] = random.choice([1, 2, 9])
    elif array.ndim:
        axis = random.randrange(array.ndim)
        size = max(array.shape[axis] + random.choice([-1, 1, 2]), 0)
        array = np.take(array, np.arange(size), axis, mode="wrap") if array.size else array
    return attrs.evolve(case, operands={**case.operands, name: array})


def _change_attribute(case: NodeCase, random: Random) -> NodeCase:
    """Changes, adds or removes an attribute."""
    attributes = dict(case.attributes)
    if not attributes or random.random() < 0.1:
        attributes[random.choice(["axis", "unknown", "mode"])] = random.choice([1, "xx", [0]])
        return attrs.evolve(case, attributes=attributes)
    name = random.choice(list(attributes))
    value = attributes.pop(name)
    how = random.randrange(6)
    if how == 0:
        return attrs.evolve(case, attributes=attributes)
    if how == 1:
        value = random.choice([3, 1.5, "xx", [1, 1]])
    elif isinstance(value, list) and how < 4:
        value = value[:-1] if random.random() < 0.5 else [*value, 1]
    elif isinstance(value, list):
        value = [random.choice(INTEGERS) if random.random() < 0.5 else item for item in value]
    else:
        pools = {int: INTEGERS, float: NUMBERS, str: STRINGS}
        value = random.choice(pools[type(value)])
    return attrs.evolve(case, attributes=attributes | ({name: value} if value != [] else {}))


def _change_operands(case: NodeCase, random: Random) -> NodeCase:
    """Removes, repeats or exchanges operands."""
    names = list(case.operands)
    how = random.randrange(3)
    if how == 0 and names:
        names.pop(random.randrange(len(names)))
    elif how == 1 and len(names) > 1:
        a, b = random.sample(range(len(names)), 2)
        names[a], names[b] = names[b], names[a]
    else:
        return attrs.evolve(case, operands={**case.operands, "extra": _x(2, 3)})
    return attrs.evolve(case, operands={name: case.operands[name] for name in names})


def _model(case: NodeCase) -> Any:
    """Returns the model of one node."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    outputs = [f"result{k}" for k in range(case.results)]
    node = helper.make_node(case.op, list(case.operands), outputs, "node", **case.attributes)
    constants = case.constants.split()
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in case.operands.items()
        if n not in constants
    ]
    stored = [numpy_helper.from_array(a, n) for n, a in case.operands.items() if n in constants]
    declared = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([node], "main", inputs, declared, stored)
    opset = [helper.make_opsetid("", case.opset)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10)


def check(case: NodeCase) -> None:
    """Imports the node; compares the results of an accepted one with those of the reference."""
    model = _model(case)
    arguments = [a for n, a in case.operands.items() if n not in case.constants.split()]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            module = from_onnx(model)
        except DiagnosticError as error:
            if case.op not in str(error):
                raise Disagreement(
                    f"{case.op}: the error does not name the node: {error}"
                ) from None
            return
        _require_valid(model)
        try:
            results = structir.interpret(module, "main", *arguments)
        except StructIRError:
            return
        _compare(model, case, results)


def _require_valid(model: Any) -> None:
    """Raises `Disagreement` if ONNX's checker or its shape inference rejects the model."""
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {each.domain: each.version for each in model.opset_import}
    try:
        onnx.checker.check_node(model.graph.node[0], context)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        node = onnx.helper.printable_node(model.graph.node[0])
        raise Disagreement(f"an invalid node is accepted: {node}: {error}") from None


def _compare(model: Any, case: NodeCase, results: Any) -> None:
    """Compares results with those of the reference evaluator, where it accepts the node."""
    constants = case.constants.split()
    inputs = {n: a for n, a in case.operands.items() if n not in constants}
    try:
        expected = reference.ReferenceEvaluator(model).run(None, inputs)
    except CAUSES:
        return
    listed = list(results) if isinstance(results, tuple | list) else [results]
    for actual, value in zip(listed, expected, strict=True):
        same_shape = np.shape(actual) == np.shape(value)
        if not same_shape or not np.allclose(actual, value, 1e-3, 1e-4, equal_nan=True):
            node = onnx.helper.printable_node(model.graph.node[0])
            raise Disagreement(f"{node}: expected {value!r}, found {actual!r}")
