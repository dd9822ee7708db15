"""`annotate`: a model with the inferred symbolic shape and dtype of every value."""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from structir.errors import DiagnosticWarning
from structir.frontend.onnx.annotation.dim_names import DimNames
from structir.frontend.onnx.annotation.importer import AnnotatingImporter, SkippedNode
from structir.frontend.onnx.annotation.rewriting import TypeWriter
from structir.frontend.onnx.annotation.value_types import is_known, merge, type_of_value
from structir.frontend.onnx.model import LoadedModel, Model, build_model, load_model
from structir.frontend.onnx.names import CallStep, FunctionKey, GraphStep, ScopePath, ValueKey
from structir.frontend.onnx.node import first_output
from structir.frontend.onnx.unsupported import function_key
from structir.frontend.onnx.wire import Buffer

FUNCTION_TYPES_IR = 10  # IR version since which functions state the types of their values
ScopeTypes = dict[ScopePath, dict[str, TypeProto]]


@attrs.frozen(eq=False)
class AnnotatedModel:
    """A serialized model with types, and the counts of its values."""

    data: bytes
    total: int
    annotated: int
    skipped: Sequence[SkippedNode]

    @property
    def unknown(self) -> int:
        """The number of values without a complete type."""
        return self.total - self.annotated

    @property
    def unsupported(self) -> dict[str, int]:
        """The ops without a mapping, with the number of nodes."""
        counts: dict[str, int] = defaultdict(int)
        for node in self.skipped:
            counts[node.op] += node.unsupported
        return {op: count for op, count in sorted(counts.items()) if count}

    @property
    def reasons(self) -> dict[str, str]:
        """The first reason of each op with a mapping that could not be applied."""
        return {n.op: n.reason.message for n in reversed(self.skipped) if not n.unsupported}

    def proto(self) -> ModelProto:
        """Returns the model."""
        result = ModelProto()
        result.ParseFromString(self.data)
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to a file; references to external data are unchanged."""
        Path(path).write_bytes(self.data)


def annotate(
    model: Model,
    *,
    folder: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AnnotatedModel:
    """Infers the type of every value of an ONNX model, and writes it into `value_info`.

    A computed size is an expression of the input sizes in `dim_param`, such as `2*n + 1`. Values
    of nested graphs and of functions are included. Everything else of the model is unchanged.
    Results of unsupported ops have an unknown type.
    """
    loaded = load_model(model, folder)
    importer = loaded.importer(AnnotatingImporter, progress, all_branches=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)  # wrong declared shapes are replaced
        _, infos = build_model(importer, loaded, {})
    names = DimNames(importer.symbols)
    names.adopt(_declared(loaded.proto.graph, ()), infos)
    types = {
        key: type_of_value(infos.get(key), importer.types.get(key), names)
        for key in infos | importer.types
    }
    proto = loaded.proto
    graphs = dict(_typed(proto.graph.node, proto.graph.input, (), types))
    functions = _function_types(proto, importer.functions, types)
    data = TypeWriter(_serialized(loaded, model), graphs, functions).model()
    results = [*_results(proto.graph.node, (), graphs)]
    for function in proto.functions if functions else ():
        results += _results(function.node, (), functions[function_key(function)])
    return AnnotatedModel(
        data, len(results), sum(map(is_known, results)), list(importer.skipped.values())
    )


def _serialized(loaded: LoadedModel, model: Model) -> Buffer:
    if isinstance(model, ModelProto):
        return model.SerializeToString()
    return loaded.file.data if loaded.file is not None else Path(model).read_bytes()


def _declared(graph: GraphProto, scope: ScopePath) -> dict[ValueKey, TypeProto]:
    values = (*graph.output, *graph.value_info)
    return {ValueKey(scope, v.name): v.type for v in values}


def _typed(
    nodes: Sequence[NodeProto],
    inputs: Iterable[ValueInfoProto],
    scope: ScopePath,
    types: Mapping[ValueKey, TypeProto],
) -> Iterator[tuple[ScopePath, dict[str, TypeProto]]]:
    """Yields the types of the inputs and results of a graph, then of the graphs nested in it."""
    names = [*[i.name for i in inputs], *[o for node in nodes for o in node.output if o]]
    keys = [ValueKey(scope, name) for name in names]
    yield scope, {key.name: types[key] for key in keys if key in types}
    for inner, graph in nested_graphs(nodes, scope):
        yield from _typed(graph.node, graph.input, inner, types)


def nested_graphs(
    nodes: Iterable[NodeProto], scope: ScopePath
) -> Iterator[tuple[ScopePath, GraphProto]]:
    """Yields the graphs directly nested in the nodes of a graph, with their paths."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield (*scope, GraphStep(first_output(node), attribute.name)), attribute.g


def _function_types(
    proto: ModelProto, functions: Iterable[FunctionKey], types: Mapping[ValueKey, TypeProto]
) -> dict[FunctionKey, ScopeTypes]:
    """Returns the types of the values of functions: those that hold for every call."""
    if proto.ir_version < FUNCTION_TYPES_IR:
        return {}
    calls: dict[FunctionKey, dict[ValueKey, list[TypeProto]]] = {f: {} for f in functions}
    for (scope, name), onnx_type in types.items():
        steps = [(k, step) for k, step in enumerate(scope) if isinstance(step, CallStep)]
        if steps and steps[-1][1].function in calls:
            inner = ValueKey(scope[steps[-1][0] + 1 :], name)
            calls[steps[-1][1].function].setdefault(inner, []).append(onnx_type)
    merged = {f: {key: merge(each) for key, each in v.items()} for f, v in calls.items()}
    return {
        key: dict(_typed(function.node, (), (), merged[key]))
        for function in proto.functions
        for key in [function_key(function)]
    }


def _results(
    nodes: Sequence[NodeProto],
    scope: ScopePath,
    graphs: Mapping[ScopePath, Mapping[str, TypeProto]],
) -> Iterator[TypeProto]:
    """Yields the types of the results of all nodes of a graph and of those nested in it."""
    types = graphs.get(scope, {})
    for name in [o for node in nodes for o in node.output if o]:
        yield types.get(name, TypeProto())
    for inner, graph in nested_graphs(nodes, scope):
        yield from _results(graph.node, inner, graphs)
