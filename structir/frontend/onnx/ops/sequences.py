"""Mappings of sequences and optional values, which are lists at run time."""

from __future__ import annotations

from functools import reduce
from typing import Any

from structir.analysis.lattice import unify_to_lca
from structir.frontend.onnx.node import ABSENT, OnnxNode
from structir.frontend.onnx.ops.control import OnnxLoop
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.types import items_of_type, unsized
from structir.frontend.onnx.values import OnnxValue
from structir.frontend.scalars import constant
from structir.ir.expr import Expr, Tuple
from structir.ir.struct_info import OBJECT, StructInfo, TensorStructInfo, TupleStructInfo
from structir.script import R


def call_list_function(name: str, *args: Expr, info: StructInfo = OBJECT) -> Expr:
    """Calls an external function on lists."""
    return R.call_pure_packed(f"list.{name}", *args, sinfo_args=info)


def items_of(node: OnnxNode, index: int = 0) -> StructInfo:
    """Returns the StructInfo common to the items of a list."""
    value = node.values[index]
    if value is not None and value.items is not None:
        return value.items
    info = node[index].struct_info
    if not isinstance(info, TupleStructInfo) or not info.fields:
        return OBJECT
    return reduce(unify_to_lca, [unsized(f) for f in info.fields])


def list_value(node: OnnxNode, expr: Expr, items: StructInfo) -> OnnxValue:
    """Returns a list value with the StructInfo of its items."""
    return OnnxValue(expr, items=None if items == OBJECT else items)


onnx_op("SequenceConstruct")(lambda node: Tuple(tuple(node.operands)))


@onnx_op("SequenceEmpty")
def empty(node: OnnxNode) -> OnnxValue:
    return (
        OnnxValue(
            call_list_function("empty"), items=items_of_type(node.names.types[node.outputs[0]])
        )
        if (node.outputs[0] in node.names.types)
        else OnnxValue(call_list_function("empty"))
    )


@onnx_op("SequenceAt")
def at(node: OnnxNode) -> Any:
    info = node[0].struct_info
    position = node.elements(1)
    if isinstance(info, TupleStructInfo) and position is not None:
        index = position.item()
        if -len(info.fields) <= index < len(info.fields):
            return node[0][index]
    return _cast_to_declared(node, call_list_function("at", node[0], node[1], info=items_of(node)))


def _cast_to_declared(node: OnnxNode, value: Expr) -> Expr:
    """Returns an item of a list cast to the type that the graph declares for it."""
    declared = node.declared_info(0)
    if value.struct_info != OBJECT or not isinstance(declared, TensorStructInfo):
        return value
    bound = node.emit(value)
    return node.importer.builder.match_cast(bound, declared, node.part_name(), node.span)


@onnx_op("SequenceInsert")
def insert(node: OnnxNode) -> OnnxValue:
    position = [node[2]] if node.has(2) else []
    before, item = items_of(node), unsized(node[1].struct_info)
    items = item if before == OBJECT else unify_to_lca(before, item)
    return list_value(node, call_list_function("insert", node[0], node[1], *position), items)


@onnx_op("SequenceErase")
def erase(node: OnnxNode) -> OnnxValue:
    position = [node[1]] if node.has(1) else []
    return list_value(node, call_list_function("erase", node[0], *position), items_of(node))


onnx_op("SequenceLength")(lambda node: length_of(node, 0))


@onnx_op("ConcatFromSequence")
def concat(node: OnnxNode) -> Expr:
    axis, fields = node.attr("axis"), node[0].struct_info
    if isinstance(fields, TupleStructInfo) and fields.fields:
        parts = Tuple(tuple([node[0][k] for k in range(len(fields.fields))]))
        join = R.stack if node.flag("new_axis") else R.concat
        return join(parts, axis=axis)
    function = "stacked" if node.flag("new_axis") else "joined"
    item = items_of(node)
    info: StructInfo = OBJECT
    if isinstance(item, TensorStructInfo):
        extra_axes = int(node.flag("new_axis"))
        info = TensorStructInfo(
            None, item.dtype, None if item.ndim is None else item.ndim + extra_axes
        )
    return _cast_to_declared(node, call_list_function(function, node[0], constant(axis), info=info))


@onnx_op("SplitToSequence")
def split(node: OnnxNode) -> OnnxValue:
    sizes = node[1] if node.has(1) else ABSENT
    keepdims = constant(node.flag("keepdims", 1) or node.has(1), "bool")
    info = node.info()
    keeps_axis = bool(keepdims.data.item())
    rank = None if info.ndim is None else info.ndim - (not keeps_axis)
    result = call_list_function("parts", node[0], sizes, constant(node.axis("axis")), keepdims)
    return list_value(node, result, TensorStructInfo(None, info.dtype, rank))


onnx_op("Optional")(lambda node: node.values[0] if node.values else call_list_function("nothing"))


@onnx_op("OptionalHasElement")
def has_element(node: OnnxNode) -> Expr:
    if not node.has(0):
        return constant(False, "bool")
    if node[0].struct_info != OBJECT:
        return constant(True, "bool")
    return call_list_function("is_there", node[0], info=TensorStructInfo((), "bool"))


onnx_op("OptionalGetElement")(lambda node: node.values[0])


@onnx_op("SequenceMap")
def sequence_map(node: OnnxNode) -> list[OnnxValue]:
    """Builds SequenceMap: applies a graph to the items of one or more lists; tensor operands are
    shared by all iterations."""
    graph = node.attr("body")
    lists = [k for k in range(len(node.values)) if is_list(node, k)]
    trips = length_of(node, 0)
    infos: list[StructInfo] = [OBJECT] * len(graph.output)

    def body(step: Expr, condition: Expr, inner: list[Expr]) -> list[Expr]:
        bindings = {}
        for index, declared in enumerate(graph.input):
            value = node[index]
            if index in lists:
                item = node.emit(call_list_function("at", value, step, info=items_of(node, index)))
                bindings[declared.name] = node.importer.name_sizes(
                    OnnxValue(item), declared.name, node.span
                )
            else:
                bindings[declared.name] = OnnxValue(value)
        result = [v.expr for v in node.build_subgraph(graph, bindings)]
        infos[:] = [unsized(m.struct_info) for m in result]
        appended = [
            call_list_function("insert", li, m) for li, m in zip(inner, result, strict=True)
        ]
        return [constant(True, "bool"), *appended]

    empties = tuple([node.emit(call_list_function("empty")) for _ in graph.output])
    result = OnnxLoop(node, empties, body).run(trips, ABSENT, None)
    return [list_value(node, m, i) for m, i in zip(result, infos, strict=True)]


def is_list(node: OnnxNode, index: int) -> bool:
    """Returns whether an operand is a list."""
    return not isinstance(node[index].struct_info, TensorStructInfo)


def length_of(node: OnnxNode, index: int) -> Expr:
    """Returns the number of items of a list."""
    info = node[index].struct_info
    if isinstance(info, TupleStructInfo):
        return constant(len(info.fields))
    return node.emit(call_list_function("length", node[index], info=TensorStructInfo((), "int64")))
