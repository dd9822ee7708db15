"""Small ONNX models for tests, and their outputs by ONNX's own evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name: str, shape: Sequence[Any] | None, dtype: int = FLOAT) -> Any:
    """Returns a declared input or output."""
    return helper.make_tensor_value_info(name, dtype, shape)


def made(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 21,
    **more: Any,
) -> ModelProto:
    """Returns a model of nodes; its outputs have no declared type."""
    graph = helper.make_graph(
        list(nodes),
        "small",
        list(inputs),
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Returns a node; operand and result names are separated by spaces, `_` is an absent one."""
    names = [["" if n == "_" else n for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, names[0], names[1], **attributes)


def expected(model: ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """Returns the outputs by ONNX's own evaluator."""
    return list(ReferenceEvaluator(model).run(None, dict(inputs)))
