"""Types of a node's outputs that ONNX's own schema infers: for strings, lists and skipped nodes."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import onnx
from onnx import TensorProto, TensorShapeProto, TypeProto, numpy_helper

from structir.frontend.onnx.bodies import resolved_proto
from structir.frontend.onnx.node import OnnxNode, schema_of
from structir.frontend.onnx.types import OnnxSymbols, type_of_info
from structir.frontend.onnx.values import OnnxValue
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Constant
from structir.ir.struct_info import TensorStructInfo

INFERENCE_ERRORS = (
    onnx.shape_inference.InferenceError,
    RuntimeError,
    KeyError,
    ValueError,
    TypeError,
)


def is_complete(info: object) -> bool:
    """Returns whether a StructInfo states the ONNX type of a value: a tensor of a dtype."""
    return isinstance(info, TensorStructInfo) and info.dtype is not None


def has_optional_output(node: OnnxNode) -> bool:
    """Returns whether an output of the op may be an optional, which has the StructInfo of its
    element."""
    schema = schema_of(node.domain, node.op_type, node.version)
    return schema is not None and any("optional(" in t for o in schema.outputs for t in o.types)


@attrs.frozen(eq=False)
class NodeTypes:
    """Infers types with ONNX's schemas; sizes have placeholder names during the inference."""

    symbols: OnnxSymbols
    placeholders: dict[str, Dim] = attrs.Factory(dict)

    def scope(self) -> OnnxSymbols:
        """Returns the symbols to read inferred types with: placeholders mean their sizes."""
        result = OnnxSymbols()
        result.by_name = dict(self.placeholders)
        return result

    def inferred(self, node: OnnxNode) -> dict[str, TypeProto]:
        """Returns the types that the schema of a node's op infers; empty if there are none."""
        schema = schema_of(node.domain, node.op_type, node.version)
        if schema is None:
            return {}
        pairs = [(n, v) for n, v in zip(node.inputs, node.values, strict=False) if n and v]
        types = {name: self.type_of(value) for name, value in pairs}
        data = {name: _elements(value) for name, value in pairs if _is_small(value)}
        opsets = [onnx.helper.make_opsetid(node.domain, node.version)]
        try:
            return dict(
                onnx.shape_inference.infer_node_outputs(
                    schema, resolved_proto(node), types, data, opset_imports=opsets
                )
            )
        except INFERENCE_ERRORS:
            return {}

    def type_of(self, value: OnnxValue) -> TypeProto:
        """Returns the ONNX type of a value."""
        info, onnx_type = value.expr.struct_info, value.onnx_type
        if onnx_type is not None and onnx_type.WhichOneof("value") != "tensor_type":
            return onnx_type
        result = type_of_info(info)
        if onnx_type is not None and not is_complete(info):
            result.tensor_type.elem_type = onnx_type.tensor_type.elem_type
        if isinstance(info, TensorStructInfo) and info.ndim is not None:
            self._set_sizes(result, info)
        return result

    def _set_sizes(self, result: TypeProto, info: TensorStructInfo) -> None:
        """Sets the shape of a tensor type; symbolic sizes get placeholder names."""
        result.tensor_type.shape.CopyFrom(TensorShapeProto())
        for size in info.dims if isinstance(info.dims, tuple) else (None,) * (info.ndim or 0):
            dim = result.tensor_type.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            elif size is not None:
                dim.dim_param = self._placeholder(size)

    def _placeholder(self, size: Dim) -> str:
        for name, other in self.placeholders.items():
            if dims.equal(size, other):
                return name
        name = f"size_{len(self.placeholders)}"
        self.placeholders[name] = size
        return name


def _is_small(value: OnnxValue) -> bool:
    return type(value.expr) is Constant and value.expr.data.size <= 64


def _elements(value: OnnxValue) -> TensorProto:
    data: Any = value.expr
    return numpy_helper.from_array(np.asarray(data.data))
