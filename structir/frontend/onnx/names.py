"""What names mean inside of a graph."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping

import attrs
from onnx import AttributeProto, GraphProto, NodeProto, TypeProto

from structir.errors import Diagnostic, DiagnosticError, Span
from structir.frontend.onnx.values import OnnxValue


@attrs.frozen(eq=False)
class GraphNames:
    """What names mean in one graph: values, opset versions, and the attributes of the function
    that is being laid open."""

    values: MutableMapping[str, OnnxValue]
    opsets: Mapping[str, int]
    where: str
    arguments: Mapping[str, AttributeProto] = attrs.Factory(dict)
    results: frozenset[str] = frozenset()  # values that are seen after the block
    depth: int = 0
    splits: int = 0  # choices that this graph goes on in
    types: Mapping[str, TypeProto] = attrs.Factory(dict)  # what the graph declares of its values

    def inner(self, graph: GraphProto, where: str) -> GraphNames:
        """The names inside of a graph within this one."""
        values = ChainMap({}, *own_maps(self.values))
        return attrs.evolve(
            self, values=values, where=where, results=frozenset(), types=types_of(graph)
        )

    def branch(self) -> GraphNames:
        """The names of this graph inside of one branch of a choice that it goes on in."""
        values = ChainMap({}, *own_maps(self.values))
        return attrs.evolve(self, values=values, splits=self.splits + 1)

    def own(self) -> MutableMapping[str, OnnxValue]:
        """The names that this graph itself has brought into scope."""
        return own_maps(self.values)[0]

    def attributes(self, proto: NodeProto) -> dict[str, AttributeProto]:
        """The attributes of a node; those that refer to the function's are replaced by them."""
        found = {}
        for attribute in proto.attribute:
            given = attribute
            if attribute.ref_attr_name:
                given = self.arguments.get(attribute.ref_attr_name)
            if given is not None:
                found[attribute.name] = given
        return found


def own_maps(values: MutableMapping[str, OnnxValue]) -> list[MutableMapping[str, OnnxValue]]:
    return values.maps if isinstance(values, ChainMap) else [values]


def types_of(graph: GraphProto) -> dict[str, TypeProto]:
    """What a graph declares of the values that its nodes make."""
    return {v.name: v.type for v in (*graph.value_info, *graph.output)}


def lookup(names: GraphNames, name: str, place: Span | None) -> OnnxValue:
    """What a name stands for."""
    found = names.values.get(name)
    if found is None:
        message = f"{name!r} is used, but no node before this one makes it"
        raise DiagnosticError(
            Diagnostic(message, place, hint="nodes must stand in the order of their use")
        )
    return found
