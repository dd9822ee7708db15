"""Mappings expressed with ONNX ops: builds a node as another op of ONNX's default domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto, helper

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import DEFAULT, find_build
from structir.frontend.onnx.shape_checks import check_shapes
from structir.frontend.onnx.values import OnnxValue, constant_elements
from structir.ir.expr import Constant, Expr, Var

VERSION = 21  # opset version of the ops in decompositions


def as_node(
    node: OnnxNode, op: str, operands: Sequence[Expr | None], **attributes: Any
) -> OnnxNode:
    """Returns a node of ONNX's default domain with other operands and some attributes replaced."""
    inherited = [a for name, a in node.attributes.items() if name not in attributes]
    overridden = [helper.make_attribute(k, v) for k, v in attributes.items() if v is not None]
    names = [node.inputs[k] if k < len(node.inputs) else "" for k in range(len(operands))]
    proto = NodeProto(op_type=op, input=names, output=node.outputs, name=node.proto.name)
    proto.attribute.extend([*inherited, *overridden])
    values = [None if x is None else _value(node, x) for x in operands]
    return OnnxNode(proto, VERSION, values, node.importer, node.names, node.span)


def build_as(node: OnnxNode, op: str, *operands: Expr | None, **attributes: Any) -> Any:
    """Builds an op of ONNX's default domain on these operands; returns its outputs."""
    build = find_build(DEFAULT, op, VERSION)
    if build is None:
        node.fail(f"{op}: expected a mapping for opset {VERSION}, found none")
    part = as_node(node, op, operands, **attributes)
    check_shapes(part)
    return build(part)


def build_as_one(node: OnnxNode, op: str, *operands: Expr | None, **attributes: Any) -> Expr:
    """Builds an op of ONNX's default domain on these operands; returns its first output."""
    result = build_as(node, op, *operands, **attributes)
    first = result[0] if isinstance(result, list) else result
    return first.expr if isinstance(first, OnnxValue) else first


def _value(node: OnnxNode, x: Expr) -> OnnxValue:
    x = node.importer.fold_constant(x)
    if isinstance(x, Constant):
        return OnnxValue(x, constant_elements(x))
    return OnnxValue(x if isinstance(x, Var) else node.emit(x))
