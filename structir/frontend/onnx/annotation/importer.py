"""An importer for annotation: results of nodes that it cannot build have an unknown StructInfo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from onnx import GraphProto, NodeProto, TensorProto, TypeProto

from structir.errors import Diagnostic, DiagnosticError, Span
from structir.frontend.onnx.annotation.node_types import (
    NodeTypes,
    has_optional_output,
    is_complete,
)
from structir.frontend.onnx.importer import OnnxImporter
from structir.frontend.onnx.names import CallStep, GraphNames, ValueKey, lookup
from structir.frontend.onnx.node import OnnxNode, RunTimeValueError, Split, first_output
from structir.frontend.onnx.types import OnnxSymbols, info_of_type
from structir.frontend.onnx.unsupported import function_key, is_supported, plain_domain
from structir.frontend.onnx.values import OnnxValue
from structir.ir.expr import Expr, StringImm
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.script import R

BRANCHES = ("then_branch", "else_branch")


@attrs.frozen
class SkippedNode:
    """A node whose results have an unknown StructInfo, and the reason."""

    op: str
    reason: Diagnostic
    unsupported: bool


class AnnotatingImporter(OnnxImporter):
    """Builds a model to infer its types; a node that it cannot build does not end the import."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.types: dict[ValueKey, TypeProto] = {}  # of values without a complete StructInfo
        self.skipped: dict[ValueKey, SkippedNode] = {}  # by first output
        self.node_types = NodeTypes(self.symbols)

    def check_supported(self, nodes: Iterable[NodeProto], opsets: Mapping[str, int]) -> None:
        """Accepts every op: `node` skips those without a mapping."""

    def initializer(self, tensor: TensorProto) -> OnnxValue:
        """Returns the value of an initializer; strings have no dtype."""
        if tensor.data_type != TensorProto.STRING:
            return super().initializer(tensor)
        onnx_type = TypeProto()
        onnx_type.tensor_type.elem_type = TensorProto.STRING
        return OnnxValue(_opaque(TensorStructInfo(tuple(tensor.dims))), onnx_type=onnx_type)

    # ---- nodes

    def node(self, proto: NodeProto, names: GraphNames, span: Span) -> Split | None:
        """Builds one node, or gives its outputs an unknown StructInfo."""
        supported = function_key(proto) in self.functions or is_supported(proto, names.opsets)
        try:
            if supported:
                return super().node(proto, names, span)
            reason = Diagnostic("no mapping of this op", span, proto.op_type)
        except RunTimeValueError as error:
            reason = error.diagnostics[0]
        except DiagnosticError as error:
            reason = error.diagnostics[0]
            if reason.code == "E0803" or _in_branch(names):
                raise  # a branch that is invalid is never taken
        self._skip(proto, names, span, SkippedNode(op_name(proto), reason, not supported))
        return None

    def _skip(self, proto: NodeProto, names: GraphNames, span: Span, skipped: SkippedNode) -> None:
        """Binds the outputs of a node to values of the types that ONNX's schema infers."""
        values = [
            lookup(names, name, span) if names.is_present(name) else None for name in proto.input
        ]
        version = names.opsets.get(plain_domain(proto.domain), 1)
        node = OnnxNode(proto, version, values, self, names, span)
        self.skipped[ValueKey(names.scope, first_output(proto))] = skipped
        inferred = self.node_types.inferred(node)
        with self.builder.at(span):
            for name in filter(None, node.outputs):
                names.local_values().pop(name, None)
                info = self._info_of(name, inferred, names)
                bound = self._bind_opaque(info, name, span)
                names.values[name] = bound
                self.infos[ValueKey(names.scope, name)] = bound.expr.struct_info
        self._complete(node, node.outputs, inferred)

    def _info_of(
        self, name: str, inferred: Mapping[str, TypeProto], names: GraphNames
    ) -> StructInfo:
        """Returns the StructInfo of a result that ONNX's schema infers, or the model declares."""
        onnx_type = inferred.get(name)
        if onnx_type is not None and onnx_type.WhichOneof("value") is not None:
            return info_of_type(onnx_type, self.node_types.scope(), name)
        declared = names.types.get(name)
        if declared is None or declared.WhichOneof("value") is None:
            return TensorStructInfo(None)
        info = info_of_type(declared, OnnxSymbols(), name)
        if not isinstance(info, TensorStructInfo):
            return info
        return TensorStructInfo(self.symbols.shape_of_type(declared, name), info.dtype)

    def _bind_opaque(self, info: StructInfo, name: str, span: Span) -> OnnxValue:
        """Binds a value of unknown content; its sizes are checked at run time."""
        if not isinstance(info, TensorStructInfo):
            return OnnxValue(self.builder.emit(_opaque(info), name))
        unsized = TensorStructInfo(None, info.dtype, info.ndim)
        value = OnnxValue(self.builder.emit(_opaque(unsized), name))
        if not isinstance(info.dims, tuple):
            return self.name_sizes(value, name, span)
        return OnnxValue(self.builder.match_cast(value.expr, info, name, span))

    # ---- types

    def build_subgraph(
        self, graph: GraphProto, names: GraphNames, bindings: Mapping[str, OnnxValue]
    ) -> list[OnnxValue]:
        """Builds a nested graph; records the types of its inputs."""
        declared = {i.name: i.type for i in graph.input}
        typed = dict(bindings)
        for name, value in bindings.items():
            info = value.expr.struct_info
            self.infos[ValueKey(names.scope, name)] = info
            if not is_complete(info) and name in declared:
                self.types[ValueKey(names.scope, name)] = declared[name]
                typed[name] = attrs.evolve(value, onnx_type=value.onnx_type or declared[name])
        return super().build_subgraph(graph, names, typed)

    def _bind(self, node: OnnxNode, results: Iterable[OnnxValue | None]) -> None:
        super()._bind(node, results)
        infos = {o: self.infos.get(ValueKey(node.names.scope, o)) for o in node.outputs if o}
        optional = has_optional_output(node)
        incomplete = [o for o, info in infos.items() if optional or not is_complete(info)]
        if incomplete:
            self._complete(node, incomplete, self._inferred(node))

    def _inferred(self, node: OnnxNode) -> Mapping[str, TypeProto]:
        """Returns the types of a node's outputs: of ONNX's schema, or of its graphs or function."""
        if function_key(node.proto) in self.functions:
            body = self.functions[function_key(node.proto)]
            step = CallStep(first_output(node.proto), function_key(node.proto))
            return self._types_in(
                (*node.names.scope, step), zip(node.outputs, body.output, strict=False)
            )
        if not node.graphs:
            return self.node_types.inferred(node)
        return self._types_of_graphs(node)

    def _types_of_graphs(self, node: OnnxNode) -> dict[str, TypeProto]:
        """Returns the types of a node's outputs that its nested graphs state."""
        types: dict[str, TypeProto] = {}
        for name in node.attributes:
            graph = node.attr(name)
            if not isinstance(graph, GraphProto):
                continue
            scope = node.subgraph_scope(graph)
            skip = 1 if node.op_type == "Loop" else 0
            inner = [o.name for o in graph.output][skip:]
            carried = len(inner) if node.op_type == "If" else max(len(node.values) - 2, 0)
            types |= self._types_in(scope, zip(node.outputs, inner[:carried], strict=False))
        return types

    def _types_in(self, scope: Any, pairs: Iterable[tuple[str, str]]) -> dict[str, TypeProto]:
        """Returns the recorded types of inner values by the names of outer values."""
        recorded = [(outer, self.types.get(ValueKey(scope, inner))) for outer, inner in pairs]
        return {outer: value for outer, value in recorded if outer and value is not None}

    def _complete(
        self, node: OnnxNode, outputs: Sequence[str], inferred: Mapping[str, TypeProto]
    ) -> None:
        """Records the ONNX types of outputs whose StructInfo does not state them."""
        for name in filter(None, outputs):
            onnx_type = inferred.get(name) or node.names.types.get(name)
            if onnx_type is None or onnx_type.WhichOneof("value") is None:
                continue
            self.types[ValueKey(node.names.scope, name)] = onnx_type
            value = node.names.values[name]
            node.names.values[name] = attrs.evolve(value, onnx_type=onnx_type)


def op_name(proto: NodeProto) -> str:
    """Returns the name of an op with its domain."""
    domain = plain_domain(proto.domain)
    return f"{domain}::{proto.op_type}" if domain else proto.op_type


def _opaque(info: StructInfo) -> Expr:
    return R.call_pure_packed("onnx.unknown", StringImm(""), sinfo_args=info)


def _in_branch(names: GraphNames) -> bool:
    """Returns whether an invalid node makes one branch of a conditional fail, not the model."""
    return names.splits > 0 or any(step[1] in BRANCHES for step in names.scope)
