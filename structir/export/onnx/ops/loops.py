"""Mappings of loops: `R.scan`, and `loop.iterate`, which imported models use."""

from __future__ import annotations

from typing import Any

from structir.export.onnx.kernels import exports_extern
from structir.ir.expr import Tuple
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo


@exports_extern("loop.iterate")
def loop(exporter: Any, call: Any) -> list[str]:
    """Writes a Loop; the function is its body."""
    body, trips, condition, carried, _, _ = call.args
    closure = exporter.values[body]
    inner = closure.exporter.nested_in(exporter)
    params = closure.function.params
    names = [exporter.graph.names.fresh(p.name) for p in params]
    inputs = [exporter.value_info(n, p.struct_info) for n, p in zip(names, params, strict=True)]
    for name, param in zip(names, params, strict=True):
        inner.values[param] = name
        inner.bind_sizes(name, param.struct_info)
    results = inner.sequence(closure.function.body)
    infos = closure.function.ret_struct_info.fields
    outputs = [inner.fresh_output(name) for name in results]
    typed = [exporter.value_info(n, unsized(i)) for n, i in zip(outputs, infos, strict=True)]
    graph = inner.graph.proto(exporter.graph.names.fresh("body"), inputs, typed)
    operands = [absent_or(exporter, trips), absent_or(exporter, condition)]
    operands += [exporter.value(field) for field in carried.fields]
    count = len(results) - 1
    result: list[str] = exporter.graph.emit("Loop", operands, count, exporter.stem, body=graph)
    return result


@exports_extern("scan")
def scan(exporter: Any, call: Any) -> list[str]:
    """Writes a Scan; the cell is inlined into its body, and captured values are those of the
    enclosing graph."""
    cell, states, x, *captured = call.args
    inner, function = exporter.body_of(cell)
    params = function.params
    count = len(states.struct_info.fields)
    scanned = (
        exporter.value(x) if isinstance(x.struct_info, TupleStructInfo) else [exporter.value(x)]
    )
    last = count + len(scanned)
    names = [exporter.graph.names.fresh(p.name) for p in params[:last]]
    fields = [f for each in captured for f in exporter.value(each)]
    for param, name in zip(params, [*names, *fields], strict=True):
        inner.values[param] = name
        inner.bind_sizes(name, param.struct_info)
    infos = [*states.struct_info.fields, *[p.struct_info for p in params[count:last]]]
    inputs = [exporter.value_info(n, i) for n, i in zip(names, infos, strict=True)]
    result = inner.sequence(function.body)
    results = result if isinstance(result, list) else [result]
    kinds = flat_infos(function.ret_struct_info)
    outputs = [inner.fresh_output(name) for name in results]
    typed = [exporter.value_info(n, unsized(i)) for n, i in zip(outputs, kinds, strict=True)]
    graph = inner.graph.proto(exporter.graph.names.fresh("body"), inputs, typed)
    operands = [*exporter.value(states), *scanned]
    written: list[str] = exporter.graph.emit(
        "Scan", operands, len(results), exporter.stem, body=graph, num_scan_inputs=len(scanned)
    )
    return written


def flat_infos(info: Any) -> list[Any]:
    """Returns the StructInfo of the results of a cell."""
    return list(info.fields) if isinstance(info, TupleStructInfo) else [info]


def absent_or(exporter: Any, operand: Any) -> str:
    """Returns the name of an operand; the empty name for an absent one."""
    return "" if isinstance(operand, Tuple) else str(exporter.value(operand))


def unsized(info: Any) -> Any:
    """Returns the StructInfo of a result of one iteration: its sizes may differ between them."""
    if not isinstance(info, TensorStructInfo):
        return info
    static = isinstance(info.dims, tuple) and all(isinstance(d, int) for d in info.dims)
    return info if static else TensorStructInfo(None, info.dtype, info.ndim)
