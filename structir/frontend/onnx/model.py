"""`from_onnx`: imports an ONNX model from a file or from memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy as np
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from structir.errors import Diagnostic, warn
from structir.frontend.onnx import ops
from structir.frontend.onnx.expansion import check_expansion
from structir.frontend.onnx.importer import CONVERSION_ERRORS, OnnxImporter, constant
from structir.frontend.onnx.mapped import MappedModel
from structir.frontend.onnx.names import GraphNames, ValueKey, types_of
from structir.frontend.onnx.registry import find_build
from structir.frontend.onnx.tensors import ExternalFiles, wrong
from structir.frontend.onnx.types import (
    OnnxSymbols,
    Shapes,
    check_values,
    info_of_type,
    items_of_type,
    with_shapes,
    without_shape,
)
from structir.frontend.onnx.unsupported import (
    function_key,
    graphs_of,
    opsets_of,
    plain_domain,
)
from structir.frontend.onnx.values import OnnxValue
from structir.frontend.progress import counter
from structir.ir import dims
from structir.ir.expr import Expr, Tuple, Var
from structir.ir.masked import unmasked
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TensorStructInfo

Infos = dict[ValueKey, StructInfo | None]
Importer = TypeVar("Importer", bound=OnnxImporter)
Model = ModelProto | str | os.PathLike[str]


def from_onnx(
    model: Model,
    *,
    shapes: Shapes | None = None,
    values: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    mapped: bool = True,
) -> IRModule:
    """Imports an ONNX model as a module whose `main` maps its inputs to its outputs.

    Named input sizes (`dim_param`) become symbolic variables of these names. `shapes` declares
    inputs by name, `{"x": ("n", 3, 224, 224)}`: integers, and names of symbolic sizes. It replaces
    the declaration of the model, and the shapes that the model declares for other values are
    ignored. `values` fixes inputs by name: they become constants instead of parameters. `folder`
    holds the external data of a model in memory. `progress(done, total)` is called after each node.
    Large weights are views of the memory-mapped file, which must not change while they are in use;
    `mapped=False` copies them.

    Raises `DiagnosticError` for an invalid file, an op without a mapping, or an invalid node.
    """
    return import_model(
        model, shapes=shapes, values=values, folder=folder, progress=progress, mapped=mapped
    )[0]


def import_model(
    model: Model,
    *,
    shapes: Shapes | None = None,
    values: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    all_branches: bool = False,
    mapped: bool = True,
) -> tuple[IRModule, Infos]:
    """Returns the module of a model, and the StructInfo of all values of its graphs."""
    loaded = load_model(model, folder, mapped)
    importer = loaded.importer(OnnxImporter, progress, all_branches)
    return build_model(importer, loaded, _arrays_of({} if values is None else values), shapes)


def _arrays_of(values: Any) -> dict[str, Any]:
    """Returns the fixed values of inputs as arrays."""
    edit = '`values={"axes": np.array([1])}`'
    if not isinstance(values, Mapping):
        message = f"values: expected a dict of arrays by name, found {type(values).__name__}"
        raise wrong(message, edit)
    arrays = {}
    for name, value in values.items():
        try:
            arrays[name] = np.asarray(unmasked(value))
        except ValueError as error:  # lists of different lengths
            raise wrong(f"values: {name}: expected an array ({error})", edit) from error
    return arrays


@attrs.frozen(eq=False)
class LoadedModel:
    """A parsed model, the folder of its external data, its mapped file, and its name."""

    proto: ModelProto
    folder: Path | None
    file: MappedModel | None
    where: str
    mapped: bool

    def importer(
        self,
        kind: type[Importer],
        progress: Callable[[int, int], None] | None,
        all_branches: bool = False,
    ) -> Importer:
        """Returns an importer of the model."""
        functions = {function_key(f): f for f in self.proto.functions}
        files = ExternalFiles(self.folder, self.mapped)
        count = counter(progress, len(self.proto.graph.node))
        return kind(functions, files, count, all_branches, self.file)


def load_model(
    model: Model, folder: str | os.PathLike[str] | None = None, mapped: bool = True
) -> LoadedModel:
    """Returns a parsed model; large initializers stay in its mapped file."""
    ops.load()
    file = _map_file(model) if mapped else None
    proto, data_folder = _load(model, None if folder is None else Path(folder), file)
    where = Path(model).name if isinstance(model, str | os.PathLike) else proto.graph.name
    return LoadedModel(proto, data_folder, file, str(where or "model"), mapped)


def build_model(
    importer: OnnxImporter,
    loaded: LoadedModel,
    fixed_inputs: Mapping[str, Any],
    shapes: Shapes | None = None,
) -> tuple[IRModule, Infos]:
    """Returns the module that an importer builds, and the StructInfo of all values."""
    graph, opsets = loaded.proto.graph, opsets_of(loaded.proto)
    try:
        importer.check_supported(graph.node, opsets)
        check_expansion(graph.node, importer.functions)
        types, inputs = types_of(graph), list(graph.input)
        constants = {c.name for c in graph.initializer}
        constants |= {sparse.values.name for sparse in graph.sparse_initializer}
        if shapes:
            types = {name: without_shape(declared) for name, declared in types.items()}
            inputs = with_shapes(inputs, shapes, constants | fixed_inputs.keys())
        check_values(inputs, fixed_inputs, constants)
        names = GraphNames({}, opsets, loaded.where, types=types)
        module = _module(importer, graph, inputs, names, fixed_inputs)
    except CONVERSION_ERRORS as error:  # names that are not UTF-8, inconsistent fields
        raise wrong(f"not a valid ONNX model ({type(error).__name__}: {error})") from error
    scope_infos = {ValueKey((), name): v.expr.struct_info for name, v in names.values.items()}
    return module, importer.infos | scope_infos


def _map_file(model: Model) -> MappedModel | None:
    """Returns the memory-mapped file of a model, or None if it cannot be mapped."""
    try:
        return None if isinstance(model, ModelProto) else MappedModel(Path(model))
    except (OSError, ValueError):  # `_load` reports an empty or missing file
        return None


def _bytes_of(path: Path, file: MappedModel | None) -> bytes:
    """Returns the serialized model, without large initializers if it is memory-mapped."""
    if file is not None:
        with suppress(ValueError):
            return file.rest()
    return path.read_bytes()


def _load(
    model: Model, folder: Path | None, file: MappedModel | None
) -> tuple[ModelProto, Path | None]:
    """Returns the parsed model and the folder of its external data."""
    if isinstance(model, ModelProto):
        return model, folder
    path = Path(model)
    try:
        data = _bytes_of(path, file)
    except OSError as error:
        raise wrong(f"cannot read {path.name}: {error.strerror}") from error
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, RuntimeError) as error:
        raise wrong(f"{path.name}: not a valid ONNX model (truncated protobuf?)") from error
    if not proto.HasField("graph"):
        raise wrong(f"{path.name}: not a valid ONNX model: it has no graph")
    return proto, folder or path.parent


def _module(
    importer: OnnxImporter,
    graph: GraphProto,
    inputs: Sequence[ValueInfoProto],
    names: GraphNames,
    fixed_inputs: Mapping[str, Any],
) -> IRModule:
    importer.constants(graph, names)
    params = _parameters(importer, inputs, names, fixed_inputs)
    output_names = [o.name for o in graph.output]
    is_flat = all(_is_flat(n, names) for n in graph.node)
    builder = importer.builder
    with builder.function("main", params, attrs=_interface(graph, params)):
        with builder.dataflow() if is_flat else nullcontext():
            scope = attrs.evolve(names, results=frozenset(output_names))
            values = importer.outputs(graph.node, scope, output_names)
            results = [
                _output(importer, v.expr, name, names.types[name])
                for v, name in zip(values, output_names, strict=True)
            ]
        if not results:
            raise wrong("the graph has no outputs")
        builder.emit_func_output(results[0] if len(results) == 1 else Tuple(tuple(results)))
    return builder.get()


def _is_flat(node: NodeProto, names: GraphNames) -> bool:
    """Returns whether a node can be in a dataflow block: it has no graphs."""
    domain = plain_domain(node.domain)
    version = names.opsets.get(domain, 1)
    direct = find_build(domain, node.op_type, version) is not None
    return direct and not any(graphs_of(a) for a in node.attribute)


def _interface(graph: GraphProto, params: list[Var]) -> dict[str, Any]:
    """Returns the attributes of `main` that record the model's input and output names."""
    return {
        "input_names": tuple([p.name for p in params]),
        "output_names": tuple([o.name for o in graph.output]),
    }


def _parameters(
    importer: OnnxImporter,
    inputs: Sequence[ValueInfoProto],
    names: GraphNames,
    fixed_inputs: Mapping[str, Any],
) -> list[Var]:
    """Returns the parameters of `main`; inputs with a known value become constants."""
    params = []
    is_fixed = names.values.keys() | fixed_inputs.keys()
    importer.symbols.declare([i.type for i in inputs if i.name not in is_fixed])
    for declared in inputs:
        name = declared.name
        if name in names.values:
            continue  # older models also list initializers as inputs
        if name in fixed_inputs:
            names.values[name] = constant(fixed_inputs[name])
            continue
        var = Var(name, info_of_type(declared.type, importer.symbols, name))
        params.append(var)
        names.values[name] = OnnxValue(
            var, None, frozenset({name}), items_of_type(declared.type), onnx_type=declared.type
        )
    return params


def _output(importer: OnnxImporter, value: Expr, name: str, declared: TypeProto) -> Expr:
    """Returns an output of the graph; warns if its declared type contradicts the inferred one."""
    builder = importer.builder
    _validate(name, info_of_type(declared, OnnxSymbols(), name), value.struct_info)
    if type(value) is Var:
        return value
    emit = builder.emit_output if builder.scopes[-1].in_dataflow else builder.emit
    return emit(value, name)


def _validate(name: str, declared: Any, inferred: Any) -> None:
    """Warns if the declared type of an output contradicts the inferred one."""
    tensors = isinstance(declared, TensorStructInfo) and isinstance(inferred, TensorStructInfo)
    if not tensors or declared.dims is None or not isinstance(inferred.dims, tuple):
        return
    pairs = zip(declared.dims, inferred.dims, strict=False)
    contradicts = declared.ndim != inferred.ndim or any(
        isinstance(d, int) and dims.equal(d, f) is False for d, f in pairs
    )
    if contradicts:
        message = f"graph output {name!r}: declared {declared}, inferred {inferred}"
        warn(Diagnostic(message, severity="warning"))
