"""Changed ONNX files are imported, or rejected with a diagnostic."""

from __future__ import annotations

import warnings
from functools import cache
from random import Random
from typing import Any

import numpy as np

from structir.errors import DiagnosticError
from structir.frontend.onnx import from_onnx
from structir.lazy import lazy_module
from structir.tools.comparison import Disagreement
from structir.tools.hostile.mutation import changed_bytes
from structir.tools.hostile.private_cache import private_folder

onnx = lazy_module("onnx")
NUMBERS = (0, 1, -1, 2, 5, 1 << 20, 1 << 40, (1 << 63) - 1, -(1 << 63))
NODES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("Conv", "x w b", "c", {"pads": [1, 1, 1, 1]}),
    ("Relu", "c", "r", {}),
    ("MaxPool", "r", "p", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("Shape", "p", "s", {}),
    ("Gather", "s i", "n", {}),
    ("Concat", "n m", "t", {"axis": 0}),
    ("Reshape", "p t", "f", {}),
    ("Gemm", "f g", "h", {}),
    ("Split", "h", "u v", {"axis": 1, "num_outputs": 2}),
    ("Transpose", "u", "o", {"perm": [1, 0]}),
    ("MatMul", "v o", "q", {}),
    ("Softmax", "q", "y", {"axis": -1}),
)


@cache
def _original() -> bytes:
    """Returns a small model of several ops."""
    helper, rng = onnx.helper, np.random.default_rng(3)
    constants = {
        "w": rng.random((2, 1, 3, 3), "f4"),
        "b": np.zeros(2, "f4"),
        "i": np.array([0]),
        "m": np.array([-1]),
        "g": rng.random((8, 6), "f4"),
    }
    nodes = [helper.make_node(op, i.split(), o.split(), **a) for op, i, o, a in NODES]
    x, y = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", ["n", 1, 4, 4]), ("y", None))
    ]
    stored = [onnx.numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "main", [x], [y], stored)
    opset = [helper.make_opsetid("", 21)]
    content: bytes = helper.make_model(graph, opset_imports=opset).SerializeToString()
    return content


def sample(random: Random) -> bytes:
    """Generates a file with changed bytes, nodes, attributes or constants."""
    if random.random() < 0.4:
        return changed_bytes(_original(), random)
    model = onnx.load_from_string(_original())
    for _ in range(random.randint(1, 3)):
        random.choice([_change_node, _change_attribute, _change_constant])(model.graph, random)
    content: bytes = model.SerializeToString()
    return content


def _change_node(graph: Any, random: Random) -> None:
    """Exchanges, removes or adds an operand, or changes the op."""
    node = random.choice(graph.node)
    names = [name for each in graph.node for name in (*each.input, *each.output)]
    how = random.randrange(4)
    if how == 0:
        node.op_type = random.choice(graph.node).op_type
    elif how == 1 and node.input:
        node.input[random.randrange(len(node.input))] = random.choice([*names, ""])
    elif how == 2 and node.input:
        node.input.pop()
    else:
        node.input.append(random.choice(names))


def _change_attribute(graph: Any, random: Random) -> None:
    """Changes an integer of an attribute, its name, or its type."""
    attributes = [a for node in graph.node for a in node.attribute]
    attribute = random.choice(attributes)
    how = random.randrange(4)
    if how == 0:
        attribute.name = random.choice(attributes).name
    elif how == 1:
        attribute.type = random.randrange(15)
    elif how == 2 and attribute.ints:
        attribute.ints[random.randrange(len(attribute.ints))] = random.choice(NUMBERS)
    else:
        attribute.i = random.choice(NUMBERS)


def _change_constant(graph: Any, random: Random) -> None:
    """Changes the shape, the dtype or the elements of a constant."""
    constant = random.choice(graph.initializer)
    how = random.randrange(3)
    if how == 0:
        constant.dims[random.randrange(len(constant.dims))] = random.choice(NUMBERS)
    elif how == 1:
        constant.data_type = random.randrange(30)
    else:
        constant.raw_data = changed_bytes(constant.raw_data, random)


def check(content: bytes) -> None:
    """Imports the file."""
    path = private_folder() / "model.onnx"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = from_onnx(path)
        except DiagnosticError as error:
            str(error)
            return
    if "main" not in module.functions:
        raise Disagreement("the module has no function main")
