"""Decompositions of ops: functions that the model defines, and those of ONNX's schemas."""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto, FunctionProto, NodeProto

from structir.frontend.onnx.names import Functions
from structir.frontend.onnx.node import OnnxNode, schema_of
from structir.frontend.onnx.types import type_of_info
from structir.frontend.onnx.unsupported import function_key


def body_of(node: OnnxNode, functions: Functions) -> FunctionProto:
    """Returns the function body of a node's op: the model's own function, else that of ONNX's
    schema."""
    model_body = functions.get(function_key(node.proto))
    if model_body is not None:
        return model_body
    schema = schema_of(node.domain, node.op_type, node.version)
    if schema is None:
        node.fail(
            f"expected an op of opset {node.version}, a function of the model or a mapping, "
            "found none of this name"
        )
    body = _plain_body(schema) or _body_in_context(schema, node)
    if body is None:
        infos = ", ".join([str(v.expr.struct_info) if v else "none" for v in node.values])
        node.fail(f"no mapping or decomposition of this op for operands ({infos})")
    return body


def arguments_of(node: OnnxNode, body: FunctionProto) -> dict[str, AttributeProto]:
    """Returns the attributes that a function body refers to: those of the node over the
    defaults."""
    schema = schema_of(node.domain, node.op_type, node.version)
    declared = schema.attributes.items() if schema is not None else ()
    defaults = {k: a.default_value for k, a in declared if a.default_value.name}
    return defaults | {a.name: a for a in body.attribute_proto} | node.attributes


def _plain_body(schema: Any) -> FunctionProto | None:
    return schema.function_body if schema.has_function else None


def _body_in_context(schema: Any, node: OnnxNode) -> FunctionProto | None:
    """Returns the function body that ONNX generates from the node's attributes and operand
    types."""
    if not schema.has_context_dependent_function:
        return None
    resolved = resolved_proto(node)
    types = [type_of_info(v.expr.struct_info if v else None) for v in node.values]
    if any(t.WhichOneof("value") is None for t, v in zip(types, node.values, strict=True) if v):
        return None
    type_bytes = [t.SerializeToString() for t in types]
    versions = [
        v for v in schema.context_dependent_function_opset_versions if v <= node.version
    ] or list(schema.context_dependent_function_opset_versions)
    result = schema.get_context_dependent_function_with_opset_version(
        max(versions), resolved.SerializeToString(), type_bytes
    )
    if not result:
        return None
    body = FunctionProto()
    body.ParseFromString(result)
    return body


def resolved_proto(node: OnnxNode) -> NodeProto:
    """Returns a node with the values of the function attributes that it refers to."""
    resolved = NodeProto()
    resolved.CopyFrom(node.proto)
    del resolved.attribute[:]
    for name, attribute in node.attributes.items():
        copy = resolved.attribute.add()
        copy.CopyFrom(attribute)
        copy.name = name
    return resolved
