"""`from_onnx`: a whole model, from a file or from memory, as a module."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from structir.errors import Diagnostic, warn
from structir.frontend.onnx import ops
from structir.frontend.onnx.importer import UNREADABLE, OnnxImporter, constant
from structir.frontend.onnx.mapped import MappedModel
from structir.frontend.onnx.names import GraphNames, types_of
from structir.frontend.onnx.registry import find_build
from structir.frontend.onnx.tensors import wrong
from structir.frontend.onnx.types import OnnxSymbols, info_of_type, items_of_type
from structir.frontend.onnx.unsupported import check_supported, graphs_of, plain_domain
from structir.frontend.onnx.values import OnnxValue
from structir.ir import dims
from structir.ir.expr import Expr, Tuple, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TensorStructInfo

Infos = dict[str, StructInfo | None]
Model = ModelProto | str | os.PathLike[str]


def from_onnx(
    model: Model,
    *,
    values: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    mapped: bool = False,
) -> IRModule:
    """The module of an ONNX model: `main` takes its inputs and gives its outputs.

    Sizes of inputs that the model names are symbolic variables of these names. `values` are inputs
    that are known now: their parameters are left out. `folder` is where a model in memory keeps
    external data. `progress` is told how many nodes are done, and of how many. With `mapped`, large
    constants stay in the file, mapped into memory: it must not be changed while they are used.
    """
    return imported(model, values=values, folder=folder, progress=progress, mapped=mapped)[0]


def imported(
    model: Model,
    *,
    values: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    everything: bool = False,
    mapped: bool = False,
) -> tuple[IRModule, Infos]:
    """The module of a model, and what is known of all values of its graphs, by their names."""
    ops.load()
    file = _mapped(model) if mapped else None
    proto, home = _read(model, None if folder is None else Path(folder), file)
    where = Path(model).name if isinstance(model, str | os.PathLike) else proto.graph.name
    known = {name: np.asarray(value) for name, value in (values or {}).items()}
    try:
        count = _counter(progress, len(proto.graph.node))
        functions = {(plain_domain(f.domain), f.name): f for f in proto.functions}
        importer = OnnxImporter(functions, home, count, everything, file)
        return _imported(importer, proto, str(where or "model"), known)
    except UNREADABLE as error:  # names that are no text, fields that contradict each other
        raise wrong(f"the model cannot be understood ({type(error).__name__}: {error})") from error


def _imported(
    importer: OnnxImporter, proto: ModelProto, where: str, known: Mapping[str, Any]
) -> tuple[IRModule, Infos]:
    graph = proto.graph
    opsets = {plain_domain(o.domain): int(o.version) for o in proto.opset_import}
    check_supported(graph.node, importer.functions, opsets)
    names = GraphNames({}, opsets, where, types=types_of(graph))
    module = _module(importer, graph, names, known)
    given = {name: value.expr.struct_info for name, value in names.values.items()}
    return module, importer.seen | given


def _counter(progress: Callable[[int, int], None] | None, total: int) -> Callable[[], None]:
    if progress is None:
        return lambda: None
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        progress(min(done, total), total)

    return count


def _mapped(model: Model) -> MappedModel | None:
    """The file of a model, mapped, if it is one and can be mapped."""
    try:
        return None if isinstance(model, ModelProto) else MappedModel(Path(model))
    except (OSError, ValueError):  # one that is empty, or not there: reading it says so
        return None


def _bytes_of(path: Path, file: MappedModel | None) -> bytes:
    """What is to be parsed of a model's file."""
    if file is not None:
        with suppress(ValueError):
            return file.rest()
    return path.read_bytes()


def _read(
    model: Model, folder: Path | None, file: MappedModel | None
) -> tuple[ModelProto, Path | None]:
    """The model, and the folder that its external data must lie in."""
    if isinstance(model, ModelProto):
        return model, folder
    path = Path(model)
    try:
        data = _bytes_of(path, file)
    except OSError as error:
        raise wrong(f"{path.name} cannot be read: {error.strerror}") from error
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, RuntimeError) as error:
        raise wrong(f"{path.name} is no ONNX model, or it is cut off") from error
    if not proto.HasField("graph"):
        raise wrong(f"{path.name} is no ONNX model: it holds no graph")
    return proto, folder or path.parent


def _module(
    importer: OnnxImporter, graph: GraphProto, names: GraphNames, known: Mapping[str, Any]
) -> IRModule:
    importer.constants(graph, names)
    params = _parameters(importer, graph, names, known)
    wanted = [o.name for o in graph.output]
    flat = all(_is_flat(n, names) for n in graph.node)
    builder = importer.builder
    with builder.function("main", params, attrs=_interface(graph, params)):
        with builder.dataflow() if flat else nullcontext():
            scope = attrs.evolve(names, results=frozenset(wanted))
            values = importer.outputs(graph.node, scope, wanted)
            results = [
                _output(importer, v.expr, o) for v, o in zip(values, graph.output, strict=True)
            ]
        if not results:
            raise wrong("the model has no outputs")
        builder.emit_func_output(results[0] if len(results) == 1 else Tuple(tuple(results)))
    return builder.get()


def _is_flat(node: NodeProto, names: GraphNames) -> bool:
    """Whether a node can stand in a dataflow block: no branches are in it."""
    domain = plain_domain(node.domain)
    version = names.opsets.get(domain, 1)
    direct = find_build(domain, node.op_type, version) is not None
    return direct and not any(graphs_of(a) for a in node.attribute)


def _interface(graph: GraphProto, params: list[Var]) -> dict[str, Any]:
    """The names of inputs and outputs as the model has them."""
    return {
        "input_names": tuple([p.name for p in params]),
        "output_names": tuple([o.name for o in graph.output]),
    }


def _parameters(
    importer: OnnxImporter, graph: GraphProto, names: GraphNames, known: Mapping[str, Any]
) -> list[Var]:
    """The inputs as variables; what is known already is a constant."""
    params = []
    for declared in graph.input:
        name = declared.name
        if name in names.values:
            continue  # an initialiser that older models list as an input, too
        if name in known:
            names.values[name] = constant(known[name])
            continue
        var = Var(name, info_of_type(declared.type, importer.symbols, name))
        params.append(var)
        names.values[name] = OnnxValue(var, None, frozenset({name}), items_of_type(declared.type))
    return params


def _output(importer: OnnxImporter, value: Expr, declared: ValueInfoProto) -> Expr:
    """A result of the graph; a declaration that cannot be true is told of."""
    builder = importer.builder
    info = info_of_type(declared.type, OnnxSymbols(), declared.name)
    _validate(declared.name, info, value.struct_info)
    if type(value) is Var:
        return value
    emit = builder.emit_output if builder.scopes[-1].in_dataflow else builder.emit
    return emit(value, declared.name)


def _validate(name: str, declared: Any, found: Any) -> None:
    tensors = isinstance(declared, TensorStructInfo) and isinstance(found, TensorStructInfo)
    if not tensors or declared.dims is None or not isinstance(found.dims, tuple):
        return
    pairs = zip(declared.dims, found.dims, strict=False)
    lies = declared.ndim != found.ndim or any(
        isinstance(d, int) and dims.equal(d, f) is False for d, f in pairs
    )
    if lies:
        warn(
            Diagnostic(f"output {name!r} is declared as {declared}, which it is not").note(
                f"it is {found}"
            )
        )
