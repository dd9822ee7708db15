"""An ONNX graph under construction: its nodes, its initializers and unused names."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from structir.export.onnx.dtypes import attribute_dtype, cast_attributes, node_dtypes

Array = np.ndarray[Any, Any]
SHARED_BYTES = 256  # constants up to this size are stored once


class ModelNames:
    """The names in use in a model, and its initializers."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.reserved: set[str] = set()  # names of outputs
        self.initializers: list[TensorProto] = []
        self.shared: dict[tuple[Any, ...], str] = {}
        self.dtypes: dict[str, str] = {}

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
        self.dtypes[name] = array.dtype.name
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
        """Appends a node; returns the names of its outputs.

        Operands of a dtype that the op does not have are cast to a wider one, and the results back.
        Raises `UnsupportedDtype` where there is none.
        """
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        known = self.names.dtypes
        dtypes = node_dtypes(op_type, tuple(map(known.get, inputs)), outputs)
        pairs = zip(inputs, dtypes.casts, strict=True)
        operands = [
            name if dtype is None else self.cast(name, dtype, stem) for name, dtype in pairs
        ]
        present = {key: value for key, value in attributes.items() if value is not None}
        names = [self.names.fresh(stem) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op_type, operands, names, **present))
        self.produced.update(names)
        for k, (dtype, narrow) in enumerate(dtypes.results):
            self.record(names[k], dtype or attribute_dtype(present))
            if narrow is not None:
                names[k] = self.cast(names[k], narrow, stem)
        return names

    def cast(self, name: str, dtype: str, stem: str) -> str:
        """Appends a cast; returns the name of its output."""
        return self.emit("Cast", [name], 1, stem, **cast_attributes(dtype))[0]

    def append_copy(self, value: str, name: str) -> None:
        """Appends a node that copies a value under a name that is in use for it."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.produced.add(name)
        self.record(name, self.names.dtypes.get(value))

    def record(self, name: str, dtype: str | None) -> None:
        """Records the dtype of a value, if it is known."""
        if dtype is not None:
            self.names.dtypes[name] = dtype

    def rename_after(self, count: int, before: str, name: str) -> None:
        """Renames a value in all nodes after the first `count`."""
        for node in self.nodes[count:]:
            for field in (node.input, node.output):
                for k, each in enumerate(field):
                    if each == before:
                        field[k] = name
        self.produced.discard(before)
        self.produced.add(name)
        self.record(name, self.names.dtypes.get(before))

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
