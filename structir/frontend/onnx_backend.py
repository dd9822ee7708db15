"""ONNX's backend interface for the CPU: `Backend.prepare(model).run(inputs)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper
from onnx.backend.base import Backend as OnnxBackend
from onnx.backend.base import BackendRep

from structir.frontend.onnx.model import from_onnx
from structir.frontend.onnx.node import RunTimeValueError
from structir.frontend.onnx.tensors import wrong
from structir.passes import (
    CommonSubexpressionElimination,
    DeadCodeElimination,
    FoldBatchNorm,
    FoldConstant,
    Sequential,
    Simplify,
)
from structir.targets.compile import compile as compiled

MAX_SPECIALIZED_ELEMENTS = 64  # elements of an input that a program is specialized to
MAX_PROGRAMS = 32  # cached specialized programs
MAX_FOLDED_BYTES = 1 << 30  # bytes of a constant-folded weight


class CompiledModel(BackendRep):
    """A model compiled once for all sizes.

    If the structure of the program depends on the values of small inputs (such as the axes of a
    reduction), one program per combination of values is compiled and cached.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.names = _input_names(model)
        self.specialized_inputs: frozenset[str] = frozenset()
        self.programs: dict[Any, Any] = {}
        try:
            self.programs[()] = self._program({})
        except RunTimeValueError as error:
            self.specialized_inputs = error.inputs

    def _program(self, values: Mapping[str, Any]) -> Any:
        module = from_onnx(self.model, values=values)
        return compiled(for_inference()(module))["main"]

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """Returns the outputs for inputs given in order or by name."""
        arrays = self._by_name(inputs)
        try:
            program = self._program_for(arrays)
            result = program(
                *[v for name, v in arrays.items() if name not in self.specialized_inputs]
            )
        except (MemoryError, OverflowError) as error:
            raise wrong(f"out of memory for a value of the model: {error}", code="E0810") from error
        outputs = len(self.model.graph.output)
        results = result if outputs > 1 else (result,)
        return tuple([list(r) if isinstance(r, tuple) else r for r in results])

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            missing = [n for n in self.names if n not in inputs]
            if missing:
                raise wrong(f"missing inputs: {', '.join(missing)}", code="E0810")
            return {n: _array(inputs[n]) for n in self.names}
        arrays = list(inputs) if isinstance(inputs, Sequence) else [inputs]
        if len(arrays) != len(self.names):
            raise wrong(f"inputs: expected {len(self.names)}, found {len(arrays)}", code="E0810")
        return {n: _array(v) for n, v in zip(self.names, arrays, strict=True)}

    def _program_for(self, arrays: Mapping[str, Any]) -> Any:
        """Returns the program specialized to these inputs, compiled on first use."""
        while True:
            values = {n: arrays[n] for n in sorted(self.specialized_inputs)}
            key = tuple([(v.shape, v.dtype.str, v.tobytes()) for v in values.values()])
            if key in self.programs:
                return self.programs[key]
            try:
                program = self._program(values)
            except RunTimeValueError as error:
                new_inputs = error.inputs - self.specialized_inputs
                if not new_inputs or any(
                    arrays[n].size > MAX_SPECIALIZED_ELEMENTS for n in new_inputs
                ):
                    raise
                self.specialized_inputs |= new_inputs
                continue
            if len(self.programs) >= MAX_PROGRAMS:
                self.programs.clear()
            self.programs[key] = program
            return program


def for_inference() -> Any:
    """Returns the passes to run between the import of a model and its compilation."""
    fold_constant = FoldConstant(max_bytes=MAX_FOLDED_BYTES)
    passes = [DeadCodeElimination(), fold_constant, FoldBatchNorm(), fold_constant, Simplify()]
    return Sequential([*passes, CommonSubexpressionElimination(), DeadCodeElimination()])


def _array(value: Any) -> Any:
    return value if isinstance(value, np.ndarray | list) or value is None else np.asarray(value)


def _input_names(model: ModelProto) -> list[str]:
    """Returns the names of the inputs without an initializer."""
    initializers = {t.name for t in model.graph.initializer}
    initializers |= {t.values.name for t in model.graph.sparse_initializer}
    return [i.name for i in model.graph.input if i.name not in initializers]


class Backend(OnnxBackend):
    """The ONNX backend that runs models on the CPU."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Returns whether a device is supported: only CPU is."""
        return device.split(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **options: Any) -> bool:
        """Returns True: the import itself reports what is unsupported."""
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **options: Any) -> CompiledModel:
        """Imports and compiles a model."""
        if not cls.supports_device(device):
            raise wrong(f"unknown device {device!r}: expected CPU", code="E0810")
        return CompiledModel(model)

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **options: Any
    ) -> tuple[Any, ...]:
        """Compiles a model and returns its outputs for inputs."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """Compiles a single node and returns its outputs for inputs."""
        names = [n for n in node.input if n]
        types = [
            helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(np.asarray(v).dtype), np.asarray(v).shape
            )
            for n, v in zip(names, inputs, strict=True)
        ]
        outputs = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
        graph = helper.make_graph([node], "node", types, outputs)
        opset = options.get("opset_version")
        versions = [helper.make_opsetid(node.domain, opset)] if opset else None
        model = helper.make_model(graph, opset_imports=versions)
        return cls.run_model(model, inputs, device)
