"""Writes types into a serialized model: all bytes of other fields are copied unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs
from onnx import FunctionProto, NodeProto, TypeProto, ValueInfoProto

from structir.frontend.onnx.annotation.value_types import refine
from structir.frontend.onnx.names import FunctionKey, GraphStep, ScopePath
from structir.frontend.onnx.node import first_output
from structir.frontend.onnx.unsupported import function_key
from structir.frontend.onnx.wire import SIZED, Buffer, MessageField, fields_of, length_delimited

# field numbers
MODEL_GRAPH, MODEL_FUNCTION = 7, 25
GRAPH_NODE, GRAPH_INPUT, GRAPH_OUTPUT, GRAPH_VALUE = 1, 11, 12, 13
FUNCTION_NODE, FUNCTION_VALUE = 7, 12
NODE_ATTRIBUTE, ATTRIBUTE_NAME, ATTRIBUTE_GRAPH = 5, 1, 6
VALUE_TYPE = 2

Types = Mapping[str, TypeProto]
Change = Callable[[MessageField], bytes]


@attrs.frozen(eq=False)
class TypeWriter:
    """Rewrites the bytes of a model with the types of its values."""

    data: Buffer
    graphs: Mapping[ScopePath, Types]
    functions: Mapping[FunctionKey, Mapping[ScopePath, Types]]

    def model(self) -> bytes:
        """Returns the serialized model with types."""
        changes = {
            MODEL_GRAPH: lambda f: self._graph(f, (), self.graphs),
            MODEL_FUNCTION: self._function,
        }
        return self._rewritten(0, len(self.data), changes)

    def _graph(
        self, field: MessageField, scope: ScopePath, graphs: Mapping[ScopePath, Types]
    ) -> bytes:
        types = graphs.get(scope, {})
        listed = set[str]()
        changes = {
            GRAPH_NODE: lambda f: self._node(f, scope, graphs),
            GRAPH_INPUT: lambda f: self._value(f, types, listed, keep_names=not scope),
            GRAPH_OUTPUT: lambda f: self._value(f, types, listed),
            GRAPH_VALUE: lambda f: self._value(f, types, listed),
        }
        result = self._rewritten(field.start, field.end, changes)
        return result + self._new_values(GRAPH_VALUE, types, listed)

    def _function(self, field: MessageField) -> bytes:
        function = FunctionProto.FromString(self.data[field.start : field.end])
        graphs = self.functions.get(function_key(function), {})
        types = graphs.get((), {})
        listed = set(function.input)
        changes = {
            FUNCTION_NODE: lambda f: self._node(f, (), graphs),
            FUNCTION_VALUE: lambda f: self._value(f, types, listed),
        }
        result = self._rewritten(field.start, field.end, changes)
        return result + self._new_values(FUNCTION_VALUE, types, listed)

    def _node(
        self, field: MessageField, scope: ScopePath, graphs: Mapping[ScopePath, Types]
    ) -> bytes:
        """Returns a serialized node; only one with nested graphs is parsed."""
        attributes = [f for f in self._fields(field) if f.number == NODE_ATTRIBUTE]
        if not any(f.number == ATTRIBUTE_GRAPH for a in attributes for f in self._fields(a)):
            return self.data[field.start : field.end]
        output = first_output(NodeProto.FromString(self.data[field.start : field.end]))

        def attribute(attribute: MessageField) -> bytes:
            name = [f for f in self._fields(attribute) if f.number == ATTRIBUTE_NAME][-1]
            text = self.data[name.start : name.end].decode()
            inner = (*scope, GraphStep(output, text))
            changes = {ATTRIBUTE_GRAPH: lambda f: self._graph(f, inner, graphs)}
            return self._rewritten(attribute.start, attribute.end, changes)

        return self._rewritten(field.start, field.end, {NODE_ATTRIBUTE: attribute})

    def _value(
        self, field: MessageField, types: Types, listed: set[str], keep_names: bool = False
    ) -> bytes:
        """Returns a serialized value with its type refined; adds its name to `listed`."""
        data = self.data[field.start : field.end]
        value = ValueInfoProto.FromString(data)
        listed.add(value.name)
        inferred = types.get(value.name)
        if inferred is None:
            return data
        refined = refine(value.type, inferred, keep_names)
        if refined == value.type:
            return data
        others = self._rewritten(field.start, field.end, {VALUE_TYPE: None})
        return others + length_delimited(VALUE_TYPE, refined.SerializeToString())

    def _new_values(self, number: int, types: Types, listed: Iterable[str]) -> bytes:
        values = [
            ValueInfoProto(name=name, type=onnx_type).SerializeToString()
            for name, onnx_type in types.items()
            if name not in listed and onnx_type.WhichOneof("value") is not None
        ]
        return b"".join([length_delimited(number, value) for value in values])

    def _fields(self, field: MessageField) -> Iterable[MessageField]:
        return fields_of(self.data, field.start, field.end)

    def _rewritten(self, start: int, end: int, changes: Mapping[int, Change | None]) -> bytes:
        """Returns a message with some of its fields changed, or removed where the change is
        None."""
        parts = []
        for field in fields_of(self.data, start, end):
            if field.kind != SIZED or field.number not in changes:
                parts.append(self.data[field.at : field.end])
                continue
            change = changes[field.number]
            if change is not None:
                parts.append(length_delimited(field.number, change(field)))
        return b"".join(parts)
