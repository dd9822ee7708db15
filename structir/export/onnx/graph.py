"""An ONNX graph under construction: its nodes, its initializers and unused names."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
SHARED_BYTES = 256  # constants up to this size are stored once


class ModelNames:
    """The names in use in a model, and its initializers."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.reserved: set[str] = set()  # names of outputs
        self.initializers: list[TensorProto] = []
        self.shared: dict[tuple[Any, ...], str] = {}

    def fresh(self, stem: str) -> str:
        """Returns an unused name: the stem, with a number if needed."""
        name, count = stem, 0
        while name in self.used or name in self.reserved:
            count += 1
            name = f"{stem}_{count}"
        self.used.add(name)
        return name

    def take(self, name: str) -> str:
        """Returns a reserved name once, else an unused name."""
        if name not in self.reserved:
            return self.fresh(name)
        self.reserved.discard(name)
        self.used.add(name)
        return name

    def constant(self, array: Array, stem: str = "constant") -> str:
        """Returns the name of an initializer with these elements."""
        key = (
            array.dtype.name,
            array.shape,
            array.tobytes() if array.nbytes <= SHARED_BYTES else "",
        )
        if key[2] != "" and key in self.shared:
            return self.shared[key]
        name = self.fresh(stem)
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        if key[2] != "":
            self.shared[key] = name
        return name


class OnnxGraph:
    """The nodes of the main graph, or of one nested in it."""

    def __init__(self, names: ModelNames) -> None:
        self.names = names
        self.nodes: list[NodeProto] = []
        self.values: list[ValueInfoProto] = []
        self.produced: set[str] = set()  # values that nodes of this graph define
        self.described: set[str] = set()  # values with a declared type

    def emit(
        self, op_type: str, inputs: list[str], outputs: int, stem: str, **attributes: Any
    ) -> list[str]:
        """Appends a node; returns the names of its outputs."""
        names = [self.names.fresh(stem) for _ in range(outputs)]
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        present = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op_type, inputs, names, **present))
        self.produced.update(names)
        return names

    def append_copy(self, value: str, name: str) -> None:
        """Appends a node that copies a value under a name that is in use for it."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.produced.add(name)

    def rename_after(self, count: int, before: str, name: str) -> None:
        """Renames a value in all nodes after the first `count`."""
        for node in self.nodes[count:]:
            for field in (node.input, node.output):
                for k, each in enumerate(field):
                    if each == before:
                        field[k] = name
        self.produced.discard(before)
        self.produced.add(name)

    def remove_after(self, count: int) -> set[str]:
        """Removes all nodes after the first `count`; returns the names of their results."""
        names = {name for node in self.nodes[count:] for name in node.output}
        self.produced -= names
        del self.nodes[count:]
        return names

    def proto(
        self, name: str, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]
    ) -> GraphProto:
        """Returns the finished graph, without initializers."""
        listed = {value.name for value in (*inputs, *outputs)}
        values = [value for value in self.values if value.name not in listed]
        return helper.make_graph(self.nodes, name, inputs, outputs, value_info=values)
