"""The scope of a graph: its values, opset versions and function attributes by name."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from typing import NamedTuple

import attrs
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto

from structir.errors import Diagnostic, DiagnosticError, Span
from structir.frontend.onnx.values import OnnxValue

FunctionKey = tuple[str, str, str]  # domain, name, overload
Functions = Mapping[FunctionKey, FunctionProto]


class GraphStep(NamedTuple):
    """A graph attribute of a node, which its first output identifies."""

    output: str
    attribute: str


class CallStep(NamedTuple):
    """A call of a function by a node, which its first output identifies."""

    output: str
    function: FunctionKey


ScopePath = tuple[GraphStep | CallStep, ...]  # from the main graph to a nested graph


class ValueKey(NamedTuple):
    """A value of a model: the graph that defines it, and its name."""

    scope: ScopePath
    name: str


@attrs.frozen(eq=False)
class GraphNames:
    """The scope of one graph: values, opset versions, and attributes of the enclosing function."""

    values: MutableMapping[str, OnnxValue]
    opsets: Mapping[str, int]
    where: str
    arguments: Mapping[str, AttributeProto] = attrs.Factory(dict)
    results: frozenset[str] = frozenset()  # values that are visible after the dataflow block
    depth: int = 0
    splits: int = 0  # enclosing conditionals whose branches contain the rest of the graph
    absent: frozenset[str] = frozenset()  # inputs of the enclosing function without an operand
    nodes: Sequence[NodeProto] = ()  # the nodes of the graph
    types: Mapping[str, TypeProto] = attrs.Factory(dict)  # declared types of values
    scope: ScopePath = ()

    def inner(self, graph: GraphProto, where: str, scope: ScopePath) -> GraphNames:
        """Returns the scope of a graph nested in this one."""
        return attrs.evolve(
            self,
            values=ChainMap({}, *scope_maps(self.values)),
            where=where,
            results=frozenset(),
            types=types_of(graph),
            scope=scope,
        )

    def branch(self) -> GraphNames:
        """Returns the scope for one branch of a conditional that contains the rest of this
        graph."""
        values = ChainMap({}, *scope_maps(self.values))
        return attrs.evolve(self, values=values, splits=self.splits + 1)

    def is_present(self, name: str) -> bool:
        """Returns whether a name refers to a value, not to an absent operand."""
        return bool(name) and (name not in self.absent or name in self.values)

    def local_values(self) -> MutableMapping[str, OnnxValue]:
        """Returns the innermost scope: the names that this graph itself defines."""
        return scope_maps(self.values)[0]

    def attributes(self, proto: NodeProto) -> dict[str, AttributeProto]:
        """Returns the attributes of a node, with references to function attributes resolved."""
        results = {}
        for attribute in proto.attribute:
            resolved = attribute
            if attribute.ref_attr_name:
                resolved = self.arguments.get(attribute.ref_attr_name)
            if resolved is not None:
                results[attribute.name] = resolved
        return results


def scope_maps(values: MutableMapping[str, OnnxValue]) -> list[MutableMapping[str, OnnxValue]]:
    return values.maps if isinstance(values, ChainMap) else [values]


def types_of(graph: GraphProto) -> dict[str, TypeProto]:
    """Returns the declared types of the values of a graph, by name."""
    return {v.name: v.type for v in (*graph.value_info, *graph.output)}


def lookup(names: GraphNames, name: str, span: Span | None) -> OnnxValue:
    """Returns the value of a name; raises `DiagnosticError` if no earlier node defines it."""
    value = names.values.get(name)
    if value is None:
        message = f"{name!r} is used before any node defines it"
        raise DiagnosticError(Diagnostic(message, span, code="E0803", label=f"uses {name!r}"))
    return value
