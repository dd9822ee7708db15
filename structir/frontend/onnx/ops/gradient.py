"""Mapping of Gradient: the derivative of one value of a graph with respect to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from onnx import NodeProto

from structir.frontend.onnx.importer import OnnxImporter
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.training import DOMAIN
from structir.frontend.onnx.registry import R, onnx_op
from structir.frontend.onnx.types import identifier
from structir.frontend.onnx.values import OnnxValue
from structir.ir.expr import Call, Constant, GlobalVar, Var
from structir.ir.struct_info import TupleStructInfo
from structir.passes.gradient import gradient


@onnx_op("Gradient", domain=DOMAIN)
def gradient_of(node: OnnxNode) -> list[Any]:
    """Builds Gradient: the part of the graph from the operands to `y` becomes a function, and the
    node a call of its gradient."""
    xs, zs = node.attr("xs"), node.attr("zs", ())
    if len(node.values) != len(xs) + len(zs):
        node.fail(f"expected {len(xs) + len(zs)} operands, found {len(node.values)}")
    adjoint = _gradient_function(node, xs, [*xs, *zs])
    call = node.emit(Call(adjoint, tuple(node.operands)))
    info = call.struct_info
    fields = info.fields if isinstance(info, TupleStructInfo) else ()
    return [call[k] for k in range(len(fields))] if fields else [call]


def _gradient_function(node: OnnxNode, xs: Sequence[str], leaves: Sequence[str]) -> GlobalVar:
    """Adds the function that maps the values of `leaves` to the gradients of `y`."""
    name, target = identifier(f"{node.part_name()}_y"), node.attr("y")
    importer = node.importer
    inner = OnnxImporter(importer.functions, importer.files)
    inner.symbols = importer.symbols
    params = [
        Var(identifier(leaf), value.expr.struct_info)
        for leaf, value in zip(leaves, node.values, strict=True)
        if value is not None
    ]
    values = {k: v for k, v in node.names.values.items() if type(v.expr) is Constant}
    values |= {leaf: OnnxValue(param) for leaf, param in zip(leaves, params, strict=True)}
    names = attrs.evolve(node.names, values=values, results=frozenset())
    with inner.builder.function(name, params):
        (result,) = inner.outputs(nodes_before(target, leaves, node.names.nodes), names, [target])
        total = R.sum(result.expr) if node.tensor_info(result.expr).ndim else result.expr
        inner.builder.emit_func_output(inner.builder.emit(total))
    parameters = " ".join([p.name for p in params[: len(xs)]])
    options = {"function": name, "parameters": parameters, "value_and_grad": False}
    module = gradient.transform(inner.builder.get(), **options)
    importer.builder.functions.update({k: f for k, f in module.functions.items() if k != name})
    return importer.builder.global_var(f"{name}_adjoint")


def nodes_before(target: str, leaves: Sequence[str], nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """Returns the nodes that compute a value from others, in order."""
    required, results = {target}, []
    for proto in reversed(nodes):
        if required.isdisjoint(set(proto.output) - set(leaves)):
            continue
        results.append(proto)
        required.update(proto.input)
        required.update([a.s.decode() for a in proto.attribute if _names_a_target(proto, a.name)])
    return results[::-1]


def _names_a_target(proto: NodeProto, attribute: str) -> bool:
    return proto.op_type == "Gradient" and attribute == "y"
