"""`to_onnx`: exports a function of a module as an ONNX model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto, ValueInfoProto, helper

from structir.batching.combinators import expanded
from structir.errors import Diagnostic, DiagnosticError
from structir.export.onnx import ops
from structir.export.onnx.dtypes import OPSET
from structir.export.onnx.functions import (
    FunctionExporter,
    flat,
    main_exporter,
    named_outputs,
)
from structir.ir.expr import Function, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TupleStructInfo, leaf_infos

IR_VERSION = 10
MAX_EMBEDDED_BYTES = 1 << 31  # protobuf's limit: larger models have external data


def to_onnx(module: IRModule, function: str = "main") -> ModelProto:
    """Exports a function of a module as an ONNX model.

    Symbolic dims keep their names, tuples are flattened, and calls of other functions are inlined.
    An op without an ONNX form is decomposed; if that is not possible, `DiagnosticError` names it.
    """
    ops.load()
    module = expanded(module)
    main = module.functions.get(function)
    if not isinstance(main, Function):
        available = ", ".join(module.functions)
        message = f"no function {function} in the module; available: {available}"
        raise DiagnosticError(Diagnostic(message, code="E0811"))
    exporter = main_exporter(module)
    exporter.graph.names.reserved.update(main.attrs.get("output_names") or ())
    inputs = [i for n, param in _input_names(main) for i in _parameter(exporter, n, param)]
    result = flat(exporter.sequence(main.body))
    infos = list(leaf_infos(main.ret_struct_info))
    if len(infos) != len(result):
        infos = list(leaf_infos(main.body.struct_info))
    if len(infos) != len(result):
        exporter.fail(f"the result of {function}: expected tensors, found {main.ret_struct_info}")
    names = named_outputs(exporter, result, _output_names(main, result))
    outputs = [exporter.value_info(n, info) for n, info in zip(names, infos, strict=True)]
    graph = exporter.graph.proto(function, inputs, outputs)
    graph.initializer.extend(exporter.graph.names.initializers)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="structir"
    )


def save_onnx(module: IRModule, path: str | os.PathLike[str], function: str = "main") -> ModelProto:
    """Writes a function of a module to an ONNX file; constants above 2 GB to a file beside it."""
    model = to_onnx(module, function)
    large = sum(len(t.raw_data) for t in model.graph.initializer) >= MAX_EMBEDDED_BYTES - (1 << 20)
    location = f"{Path(path).name}.data" if large else None
    onnx.save(model, os.fspath(path), save_as_external_data=large, location=location)
    return model


def _input_names(main: Function) -> list[tuple[str, Var]]:
    names = main.attrs.get("input_names") or [p.name for p in main.params]
    return [(str(n), p) for n, p in zip(names, main.params, strict=True)]


def _parameter(exporter: FunctionExporter, name: str, param: Var) -> list[ValueInfoProto]:
    """Declares a parameter as inputs: one per field of a tuple."""
    infos: list[ValueInfoProto] = []

    def declare(stem: str, info: StructInfo | None) -> Any:
        if isinstance(info, TupleStructInfo):
            fields = enumerate(info.fields)
            return [declare(f"{stem}_{k}", field) for k, field in fields]
        fresh = exporter.graph.names.fresh(stem)
        declared = exporter.value_info(fresh, info)
        if not declared.type.tensor_type.HasField("shape"):
            exporter.span = param.span
            exporter.fail(
                f"parameter {name}: expected a tensor of known rank and dtype, found {info}",
                f'declare it: `{param.name}: R.Tensor(("n",), "float32")`',
            )
        infos.append(declared)
        return fresh

    names = declare(name, param.struct_info)
    exporter.values[param] = names
    exporter.bind_sizes(names, param.struct_info)
    return infos


def _output_names(main: Function, result: list[str]) -> list[str]:
    names = [str(n) for n in main.attrs.get("output_names") or ()]
    return names if len(names) == len(result) else result
