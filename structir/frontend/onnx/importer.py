"""The graph importer: looks up operands, applies the mapping of each node, binds its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs
import numpy as np
from onnx import GraphProto, NodeProto, TensorProto
from onnx.defs import onnx_opset_version

from structir.errors import Diagnostic, DiagnosticError, Span, StructIRError
from structir.frontend.builder import NodeBuilder, without_op_hint
from structir.frontend.constants import ConstantFolder, all_constant
from structir.frontend.onnx.bodies import arguments_of, body_of
from structir.frontend.onnx.expansion import MAX_DEPTH, MAX_NODES
from structir.frontend.onnx.joins import build_branches, cast_checked, common_info, merge_infos
from structir.frontend.onnx.listing import node_spans
from structir.frontend.onnx.mapped import MappedModel
from structir.frontend.onnx.names import CallStep, Functions, GraphNames, ValueKey, lookup
from structir.frontend.onnx.node import ABSENT, OnnxNode, RunTimeValueError, Split, first_output
from structir.frontend.onnx.ordering import sort_nodes
from structir.frontend.onnx.registry import (
    DEFAULT,
    find_build,
    find_fold,
    find_quantized_build,
)
from structir.frontend.onnx.schema_checks import check_schema
from structir.frontend.onnx.shape_checks import check_shapes
from structir.frontend.onnx.tensors import ExternalFiles, array_of, dense
from structir.frontend.onnx.types import OnnxSymbols
from structir.frontend.onnx.unsupported import (
    check_supported,
    function_key,
    opsets_of,
    plain_domain,
)
from structir.frontend.onnx.values import (
    OnnxValue,
    as_expression,
    constant_elements,
    is_foldable,
    is_foldable_dtype,
)
from structir.interpret.interpreter import Interpreter
from structir.interpret.scope import Activation as RunScope
from structir.ir.expr import Constant, Expr, SeqExpr, Tuple, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

MAX_FOLDED_ELEMENTS = 1 << 16  # elements of a result that is constant-folded
MAX_SPLITS = 5  # nested conditionals that duplicate the rest of the graph; each doubles it
CONVERSION_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    MemoryError,
)


@attrs.frozen(eq=False)
class GraphSchedule:
    """The nodes of a graph, their locations, and the names of the required values."""

    nodes: Sequence[NodeProto]
    spans: Sequence[Span]
    outputs: Sequence[str]


class OnnxImporter(ConstantFolder):
    """Builds the module of a model, node by node."""

    def __init__(
        self,
        functions: Functions,
        files: ExternalFiles,
        progress: Callable[[], None] = lambda: None,
        all_branches: bool = False,
        mapped: MappedModel | None = None,
    ) -> None:
        self.mapped = mapped
        self.builder = NodeBuilder()
        self.functions, self.files, self.progress = functions, files, progress
        self.symbols = OnnxSymbols()
        self.all_branches = all_branches  # also build branches that are never taken
        self.built = 0
        self.unpacked: dict[OnnxNode, Any] = {}  # constants by the node that dequantizes them
        self.infos: dict[ValueKey, StructInfo | None] = {}  # of all values of all graphs

    # ---- graphs

    def check_supported(self, nodes: Iterable[NodeProto], opsets: Mapping[str, int]) -> None:
        """Raises one `DiagnosticError` that lists all ops without a mapping."""
        check_supported(nodes, self.functions, opsets)

    def constants(self, graph: GraphProto, names: GraphNames) -> None:
        """Adds the initializers of a graph to its scope."""
        for tensor in graph.initializer:
            names.values[tensor.name] = self.initializer(tensor)
        for sparse in graph.sparse_initializer:
            names.values[sparse.values.name] = constant(dense(sparse, self.files))

    def initializer(self, tensor: TensorProto) -> OnnxValue:
        """Returns the value of an initializer."""
        view = None if self.mapped is None else self.mapped.array_of(tensor)
        return constant(array_of(tensor, self.files) if view is None else view)

    def outputs(
        self, nodes: Sequence[NodeProto], names: GraphNames, required: Sequence[str]
    ) -> list[OnnxValue]:
        """Builds nodes in topological order; returns the values of the `required` names."""
        nodes = sort_nodes(nodes, names.values.__contains__)
        schedule = GraphSchedule(nodes, node_spans(nodes, names.where), required)
        return self._build_nodes(schedule, 0, attrs.evolve(names, nodes=nodes))

    def _build_nodes(
        self, schedule: GraphSchedule, start: int, names: GraphNames
    ) -> list[OnnxValue]:
        for k in range(start, len(schedule.nodes)):
            split = self.node(schedule.nodes[k], names, schedule.spans[k])
            self.progress()
            if split is not None:
                return self._build_in_branches(split, schedule, k + 1, names)
        return [lookup(names, name, None) for name in schedule.outputs]

    def _build_in_branches(
        self, split: Split, schedule: GraphSchedule, start: int, names: GraphNames
    ) -> list[OnnxValue]:
        """Builds the nodes after a conditional inside each branch, where the ranks are known."""
        node = split.node
        if names.splits >= MAX_SPLITS:
            node.fail(
                f"expected at most {MAX_SPLITS} conditionals with outputs of different ranks, "
                "found more",
                "declare input shapes or fix inputs by `values`: known conditions are resolved",
            )

        outer_infos, branch_infos = self.infos, dict[int, dict[ValueKey, StructInfo | None]]()

        def side(index: int, graph: GraphProto) -> Callable[[], list[Expr]]:
            def build() -> list[Expr]:
                self.infos = branch_infos[index] = {}
                inner = names.branch()
                for name, value in zip(node.outputs, node.build_subgraph(graph), strict=False):
                    inner.values[name] = value
                    self.infos[ValueKey(names.scope, name)] = value.expr.struct_info
                return [v.expr for v in self._build_nodes(schedule, start, inner)]

            return build

        stem = node.part_name()
        builders = [side(index, graph) for index, graph in enumerate(split.graphs)]
        try:
            join = build_branches(self, split.condition, builders, stem)
        finally:
            self.infos = outer_infos
        if join.failing is None:
            outer_infos.update(merge_infos(branch_infos.values()))
        else:
            outer_infos.update(branch_infos[join.failing] | branch_infos[1 - join.failing])
        output_infos = [common_info(self, stem, pair) for pair in zip(*join.infos, strict=True)]
        sources = frozenset() if node.values[0] is None else node.values[0].sources
        return [
            OnnxValue(cast_checked(self, stem, join.var[k], info, node.span), None, sources)
            for k, info in enumerate(output_infos)
        ]

    def build_subgraph(
        self, graph: GraphProto, names: GraphNames, bindings: Mapping[str, OnnxValue]
    ) -> list[OnnxValue]:
        """Builds a nested graph into the current scope; returns its outputs."""
        self.constants(graph, names)
        names.values.update(bindings)
        return self.outputs(graph.node, names, [o.name for o in graph.output])

    def node(self, proto: NodeProto, names: GraphNames, span: Span) -> Split | None:
        """Builds one node. Returns a `Split` if the nodes after it must be built in both
        branches."""
        values = [
            lookup(names, name, span) if names.is_present(name) else None for name in proto.input
        ]
        domain = plain_domain(proto.domain)
        version = names.opsets.get(domain)
        if version is None:
            opset = 1 if domain else onnx_opset_version()
            raise DiagnosticError(
                Diagnostic(
                    f"expected an opset import of domain {domain or 'ai.onnx'!r}, found none",
                    span,
                    proto.op_type,
                    hint=f'`model.opset_import.append(helper.make_opsetid("{domain}", {opset}))`',
                    code="E0805",
                )
            )
        node = OnnxNode(proto, version, values, self, names, span)
        self.built += 1
        if self.built > MAX_NODES:
            node.fail(f"the model expands to more than {MAX_NODES} nodes")
        try:
            with self.builder.at(span):
                if function_key(proto) not in self.functions:
                    node.check_operands()
                    check_schema(node)
                    check_shapes(node)
                results = self._results(node)
                if isinstance(results, Split):
                    return results
                self._bind(node, results)
                return None
        except DiagnosticError as error:
            raise with_span(error, node) from error
        except CONVERSION_ERRORS as error:
            detail = f"{type(error).__name__}: {error}"
            raise DiagnosticError(
                Diagnostic(f"invalid node: {detail}", span, node.op_type, code="E0805")
            ) from error

    def _results(self, node: OnnxNode) -> Sequence[OnnxValue | None] | Split:
        """Returns the values of a node's outputs."""
        sources = frozenset().union(*[v.sources for v in node.values if v is not None])
        build = find_build(node.domain, node.op_type, node.version)
        if function_key(node.proto) in self.functions:
            return self._expand_body(node)
        folded_elements = self._fold_elements(node)
        if folded_elements is not None:
            return [attrs.evolve(folded_elements, sources=sources)]
        build_quantized = find_quantized_build(node.domain, node.op_type)
        quantized = None if build_quantized is None else build_quantized(node)
        if quantized is not None:
            return [as_value(quantized, sources)]
        node.values = [None if v is None else self._unpacked(v) for v in node.values]
        if build is None:
            return self._expand_body(node)
        operands = [v for v in node.values if v is not None]
        if operands and all(type(v.expr) is Constant for v in operands) and not node.graphs:
            folded = self._fold_constants(node, build)
            if folded is not None:
                return folded
        result = build(node)
        if isinstance(result, Split):
            return result
        return [as_value(r, sources) for r in as_list(result)]

    def _fold_elements(self, node: OnnxNode) -> OnnxValue | None:
        """Returns the result of the folding rule if all operands have known elements, else None."""
        fold = find_fold(node.domain, node.op_type)
        if fold is None or any(v is not None and v.elements is None for v in node.values):
            return None
        try:
            elements = fold(node, *[v and v.elements for v in node.values])
        except (RunTimeValueError, *CONVERSION_ERRORS):
            return None  # the mapping itself handles the node or reports the error
        if elements is None:
            return None
        result, dtype = elements
        result = np.asarray(result, object)
        if not is_foldable_dtype(dtype) or not is_foldable(result):
            return None
        return OnnxValue(as_expression(result, dtype), result)

    def _fold_constants(self, node: OnnxNode, build: Any) -> list[OnnxValue | None] | None:
        """Evaluates a node of constant operands if its results are small; else inlines its
        bindings."""
        sequence = self.builder.aside(lambda: Tuple(tuple(_expressions(build(node)))))
        if not all(_small(b.var) for block in sequence.blocks for b in block.bindings):
            return self._inline(sequence)
        try:
            evaluated = Interpreter(IRModule({})).value(sequence, RunScope({}, {}))
        except StructIRError:
            return self._inline(sequence)
        if not all(isinstance(f, np.ndarray | np.generic) or f == () for f in evaluated):
            return self._inline(sequence)
        return [None if isinstance(f, tuple) else constant(np.asarray(f)) for f in evaluated]

    def _unpacked(self, value: OnnxValue) -> OnnxValue:
        """Returns dequantized constants as a constant of floats; other values unchanged."""
        node = value.dequantize
        if node is None or any(type(x) is not Constant for x in node.operands if x is not ABSENT):
            return value
        if node not in self.unpacked:
            build = find_build(DEFAULT, node.op_type, node.version)
            assert build is not None
            self.unpacked[node] = as_value(self.fold_constant(build(node)), frozenset())
        return self.unpacked[node]

    def build_unreachable(self, build: Callable[[], list[OnnxValue]]) -> None:
        """Builds a branch that is never taken, to infer the shapes of its values, and discards
        it."""
        if self.all_branches:
            with suppress(DiagnosticError):
                self.builder.aside(lambda: Tuple(tuple([v.expr for v in build()])))

    def _inline(self, sequence: SeqExpr) -> list[OnnxValue | None]:
        """Appends the bindings of a separate sequence to the current scope and returns its
        results."""
        for binding in sequence.bindings():
            self.builder.scopes[-1].add(binding)
        fields: Any = sequence.body
        return [None if f is ABSENT else as_value(f, frozenset()) for f in fields.fields]

    def _expand_body(self, node: OnnxNode) -> list[OnnxValue | None]:
        """Builds the nodes of a function body in place of a node; returns the node's outputs."""
        if node.names.depth > MAX_DEPTH:
            node.fail(
                f"functions are nested more than {MAX_DEPTH} deep; recursion is not supported"
            )
        body = body_of(node, self.functions)
        values = dict(zip(body.input, node.values, strict=False))
        names = GraphNames(
            {k: v for k, v in values.items() if v is not None},
            {DEFAULT: onnx_opset_version()} | dict(node.names.opsets) | opsets_of(body),
            f"{node.names.where}: {node.op_type}",
            arguments_of(node, body),
            depth=node.names.depth + 1,
            scope=(
                *node.names.scope,
                CallStep(first_output(node.proto), function_key(node.proto)),
            ),
            absent=frozenset(body.input) - {k for k, v in values.items() if v is not None},
        )
        required = [(o, b) for o, b in zip(node.outputs, body.output, strict=False) if o]
        values_of_required = self.outputs(body.node, names, [inner for _, inner in required])
        results = {
            name: value for (name, _), value in zip(required, values_of_required, strict=True)
        }
        return [results.get(name) for name in node.outputs]

    # ---- results

    def _bind(self, node: OnnxNode, results: Iterable[OnnxValue | None]) -> None:
        for name, value in zip(node.outputs, results, strict=False):
            if not name:
                continue
            if value is None:
                node.fail(f"the mapping of this op has no output {name!r}")
            if name in node.names.values and name in node.names.local_values():
                node.fail(f"value {name!r} is defined twice: names must be unique in a graph")
            bound = self._bind_name(value, name, node)
            node.names.values[name] = bound
            self.infos[ValueKey(node.names.scope, name)] = bound.expr.struct_info

    def _bind_name(self, value: OnnxValue, name: str, node: OnnxNode) -> OnnxValue:
        """Binds a value to a variable named `name`; unknown sizes become fresh symbols. Constants
        and dequantized ones are built where they are used."""
        expr = value.expr
        if type(expr) is Constant or (value.dequantize is not None and all_constant(expr)):
            return value
        if self.builder.scopes[-1].in_dataflow and name in node.names.results:
            expr = self.builder.emit_output(expr, name)
        elif not isinstance(expr, Var) or expr.name != name:
            expr = self.builder.emit(expr, name)
        cast = self._cast_to_declared(attrs.evolve(value, expr=expr), name, node)
        return self.name_sizes(cast, name, node.span)

    def _cast_to_declared(self, value: OnnxValue, name: str, node: OnnxNode) -> OnnxValue:
        """Returns a value of unknown rank cast to the shape that its graph declares, if any."""
        info, declared = value.expr.struct_info, node.names.types.get(name)
        if not isinstance(info, TensorStructInfo) or info.ndim is not None or declared is None:
            return value
        sizes = self.symbols.shape_of_type(declared, name)
        if sizes is None:
            return value
        declared_info = TensorStructInfo(sizes, info.dtype)
        cast = self.builder.match_cast(value.expr, declared_info, name, node.span)
        return attrs.evolve(value, expr=cast)

    def name_sizes(self, value: OnnxValue, name: str, span: Span) -> OnnxValue:
        """Returns a value of known rank and unknown sizes cast to fresh symbolic sizes."""
        info = value.expr.struct_info
        if not isinstance(info, TensorStructInfo) or isinstance(info.dims, tuple) or not info.ndim:
            return value
        sizes = [self.symbols.fresh(f"{name}_{i}") for i in range(info.ndim)]
        sized_info = TensorStructInfo(tuple(sizes), info.dtype)
        return attrs.evolve(value, expr=self.builder.match_cast(value.expr, sized_info, name, span))


def as_list(result: Any) -> list[Any]:
    """Returns the result of a mapping as a list of outputs."""
    return list(result) if isinstance(result, list | tuple) else [result]


def _expressions(result: Any) -> list[Expr]:
    """Returns the outputs of a mapping as expressions; a missing output is the empty tuple."""
    outputs = as_list(result)
    return [ABSENT if r is None else r.expr if isinstance(r, OnnxValue) else r for r in outputs]


def as_value(result: Any, sources: frozenset[str]) -> OnnxValue | None:
    """Returns an output of a mapping as an `OnnxValue`."""
    if result is None or isinstance(result, OnnxValue):
        return result
    return OnnxValue(result, constant_elements(result), sources)


def constant(data: np.ndarray[Any, Any]) -> OnnxValue:
    """Returns an array as a constant value with known elements."""
    expr = Constant(data)
    return OnnxValue(expr, constant_elements(expr))


def _small(var: Var) -> bool:
    info: Any = var.struct_info
    fields = info.fields if isinstance(info, TupleStructInfo) else [info]
    return all(
        isinstance(i, TensorStructInfo)
        and isinstance(i.dims, tuple)
        and all(isinstance(d, int) for d in i.dims)
        and math.prod(i.dims) <= MAX_FOLDED_ELEMENTS
        for i in fields
    )


def with_span(error: DiagnosticError, node: OnnxNode) -> DiagnosticError:
    """Returns an error with the node's location and op added where they are missing."""
    if all(d.span is not None for d in error.diagnostics):
        return error
    located = [without_op_hint(d.at(node.span)) for d in error.diagnostics]
    return DiagnosticError([d if d.op else attrs.evolve(d, op=node.op_type) for d in located])
