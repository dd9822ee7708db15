"""The graph importer: looks up arguments, applies the mapping of each node, binds its results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from structir.analysis.calls import are_disjoint
from structir.errors import Diagnostic, DiagnosticError, Span
from structir.frontend.builder import NodeBuilder, without_op_hint
from structir.frontend.constants import ConstantFolder
from structir.frontend.torch.clamped_sizes import are_clamped
from structir.frontend.torch.complex import ComplexTensor, map_parts
from structir.frontend.torch.graph import FxGraph, NodeSpec, Ref, is_used, names_of
from structir.frontend.torch.listing import node_spans
from structir.frontend.torch.memory import AliasState, written_names
from structir.frontend.torch.node import FxNode, FxScope
from structir.frontend.torch.registry import changes_metadata, find_build, in_place
from structir.frontend.torch.scalars import cast, tensor_info
from structir.frontend.torch.sizes import TorchSymbols
from structir.frontend.torch.unsupported import RejectedNodeError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import (
    Constant,
    DataflowVar,
    Expr,
    ShapeExpr,
    Var,
)
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

CONVERSION_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
Ranges = Mapping[str, tuple[int | None, int | None]]
MAX_NODES = 300_000  # nodes after expansion: nested graphs can grow exponentially


class TorchImporter(ConstantFolder):
    """Builds the function of an exported program, node by node."""

    def __init__(
        self,
        symbols: TorchSymbols,
        ranges: Ranges,
        progress: Callable[[], None] = lambda: None,
        seed: int = 0,
        accepts_clamped: bool = False,
    ) -> None:
        self.builder = NodeBuilder()
        self.symbols, self.ranges, self.progress = symbols, ranges, progress
        self.memory = AliasState(self)
        self.built, self.seed = 0, seed
        self.accepts_clamped = accepts_clamped  # sizes that differ from the recorded ones at 1

    # ---- graphs

    def run(self, scope: FxScope) -> list[Any]:
        """Builds the nodes of a graph in order; returns the values of its outputs."""
        for spec, span in zip(
            scope.graph.nodes, node_spans(scope.graph.nodes, scope.where), strict=True
        ):
            self.node(spec, scope, span)
            self.progress()
        return [self._resolve(scope, output) for output in scope.graph.outputs]

    def _resolve(self, scope: FxScope, argument: Any) -> Any:
        if isinstance(argument, Ref):
            return self.read(scope, argument.name)
        if isinstance(argument, tuple):
            return tuple([self._resolve(scope, item) for item in argument])
        return argument

    def build_subgraph(self, graph: FxGraph, operands: Sequence[Any], where: str) -> list[Any]:
        """Builds a nested graph into the current scope; returns its outputs."""
        names = [name for graph_input in graph.inputs for name in names_of(graph_input)]
        if len(names) != len(operands):
            raise DiagnosticError(
                Diagnostic(f"{where}: expected {len(names)} operands, found {len(operands)}")
            )
        if written_names(graph, in_place) & set(names):
            raise DiagnosticError(
                Diagnostic(
                    f"{where} writes its operands in place, which is not supported",
                    code="E0805",
                    hint="export a functional program: `ep = ep.run_decompositions()`",
                )
            )
        outer, self.memory = self.memory, AliasState(self)
        try:
            return self.run(FxScope(graph, dict(zip(names, operands, strict=True)), where))
        finally:
            self.memory = outer

    def is_size(self, expression: Any) -> bool:
        """Returns whether a symbolic number is a variable with a lower bound of at least 0."""
        value = self.symbols.number(expression).whole()
        lower_bounds = [
            r[0] for n, r in self.ranges.items() if self.symbols.by_name.get(n) == value
        ]
        return (
            value is not None
            and bool(lower_bounds)
            and lower_bounds[0] is not None
            and lower_bounds[0] >= 0
        )

    def read(self, scope: FxScope, name: str) -> Any:
        """Returns the current value of a name, after the in-place writes so far."""
        if name not in scope.values:
            raise DiagnosticError(
                Diagnostic(f"{name!r} is used before any node defines it", code="E0803")
            )
        return self.memory.read(scope, name)

    # ---- nodes

    def node(self, spec: NodeSpec, scope: FxScope, span: Span) -> None:
        """Builds one node and binds its results."""
        node = FxNode(spec, self, scope, span)
        self.built += 1
        if self.built > MAX_NODES:
            node.fail(f"the program expands to more than {MAX_NODES} nodes")
        try:
            with self.builder.at(span):
                self._build_node(node)
        except RejectedNodeError:  # of a nested graph
            raise
        except DiagnosticError as error:
            raise rejected(error, node) from error
        except CONVERSION_ERRORS as error:
            detail = f"{type(error).__name__}: {error}"
            diagnostic = Diagnostic(f"invalid node: {detail}", span, spec.target, code="E0805")
            raise rejected(DiagnosticError(diagnostic), node) from error

    def _build_node(self, node: FxNode) -> None:
        functional = in_place(node.spec.target)
        is_complex = node.is_complex()
        if functional is not None and find_build(node.spec.target, is_complex) is None:
            self._build_in_place(node, functional)
            return
        names = names_of(node.spec.outputs)
        build = find_build(node.spec.target, is_complex)
        if build is None or (names and all(n in node.scope.graph.scalars for n in names)):
            if not self._bind_scalars(node, names):
                self.bind(node, self.results(node))
            return
        self.bind(node, self.results(node))
        self.memory.record_view(node)

    def _bind_scalars(self, node: FxNode, names: list[str]) -> bool:
        """Binds the symbolic numbers that the program declares; returns False if one has a free
        symbol."""
        in_scope = self.builder.scopes[-1].symbols()
        values: dict[str, Any] = {}
        for name in names:
            ratio = self.symbols.number(node.scope.graph.scalars[name])
            if not (dims.syms(ratio.over) | dims.syms(ratio.under)) <= in_scope:
                if find_build(node.spec.target) is None:
                    node.fail(
                        f"the data-dependent number {name!r} may be negative",
                        "in the model: `torch._check(number >= 0)`",
                    )
                return False
            size = ratio.whole()
            values[name] = ratio if size is None else size
        node.scope.values.update(values)
        return True

    def results(self, node: FxNode) -> list[Any]:
        """Returns the results of the mapping of a node."""
        build = find_build(node.spec.target, node.is_complex())
        assert build is not None  # check_supported has checked every op
        result = build(node)
        if node.recorded_reads and self.accepts_clamped:
            self._require_recorded_operands(node)
        return list(result) if isinstance(result, list | tuple) else [result]

    def _require_recorded_operands(self, node: FxNode) -> None:
        """Checks operands with clamped sizes if the mapping depends on recorded sizes."""
        for name in names_of(tuple(node.spec.args.values())):
            meta = node.scope.graph.tensors.get(name)
            value = node.scope.values.get(name)
            if meta is None or meta.dtype is None or not isinstance(value, Var):
                continue
            info, recorded = value.struct_info, node.recorded_dims(meta)
            if isinstance(info, TensorStructInfo) and self._are_clamped(recorded, info.dims):
                checked = TensorStructInfo(recorded, info.dtype)
                self.builder.match_cast(value, checked, f"{name}_checked", node.span)

    def _are_clamped(self, recorded: Sequence[Dim], inferred: Any) -> bool:
        """Returns whether sizes are recorded for inputs of length 2 and longer."""
        if not self.accepts_clamped or not isinstance(inferred, tuple):
            return False
        by_name = self.symbols.by_name
        bounds = {by_name[name]: low for name, (low, _) in self.ranges.items() if name in by_name}
        return are_clamped(recorded, inferred, bounds)

    def _build_in_place(self, node: FxNode, functional: str) -> None:
        """Builds an in-place op as its functional form and updates the mutated tensor."""
        first = next(iter(node.spec.args.values()), None)
        if not isinstance(first, Ref):
            node.fail(f"expected a tensor of the graph as the operand to write, found {first!r}")
        if changes_metadata(functional):
            self._build_view_in_place(node, functional, first.name)
            return
        old_value = self.read(node.scope, first.name)
        spec = attrs.evolve(node.spec, target=functional)
        new_value = self.results(FxNode(spec, self, node.scope, node.span))[0]
        new_value = map_parts(partial(self._replacement, first.name), new_value, old_value)
        self.memory.write(node, first.name, new_value)
        for name in names_of(node.spec.outputs):
            node.scope.values[name] = self.read(node.scope, first.name)
            self.memory.record_alias(name, first.name)

    def _build_view_in_place(self, node: FxNode, functional: str, name: str) -> None:
        """Builds an op such as `transpose_` as the view of its operand.

        Other views of the operand stay: only its shape changes. torch refers to the tensor by the
        name of the result from here on.
        """
        later = node.scope.graph.nodes[node.scope.graph.nodes.index(node.spec) + 1 :]
        if any([name in names_of(tuple(spec.args.values())) for spec in later]):
            node.fail(
                f"{name!r} is used after its shape has changed",
                f"call `{functional.split('.')[1]}` instead, or export `ep.run_decompositions()`",
            )
        view = FxNode(attrs.evolve(node.spec, target=functional), self, node.scope, node.span)
        self.bind(view, self.results(view))
        self.memory.record_view(view)

    def _replacement(self, name: str, new_value: Expr, old_value: Expr) -> Expr:
        """Returns the new elements of a tensor that a node writes in place."""
        info = tensor_info(old_value)
        new_value = cast(new_value, info.dtype or "float32")
        if isinstance(info.dims, tuple) and tensor_info(new_value).dims != info.dims:
            new_value = R.broadcast_to(new_value, ShapeExpr(info.dims))
        return self.builder.emit(new_value, name)

    def write(self, node: FxNode, name: str, value: Expr) -> None:
        """Updates the value of a name, and of the tensors that share its memory."""
        self.memory.write(node, name, value)

    # ---- results

    def bind(self, node: FxNode, results: Sequence[Any]) -> None:
        """Binds the results of a node to variables of their names."""
        names = names_of(node.spec.outputs)
        for index, (name, value) in enumerate(zip(names, results, strict=False)):
            if value is None and not is_used(node.scope.graph, name):
                continue
            if value is None:
                node.fail(f"the mapping of this op has no result {name!r}")
            node.scope.values[name] = self._bind_name(node, name, value, index)
        if len(results) < len(names):
            node.fail(f"expected {len(names)} results, found {len(results)}")

    def _bind_name(self, node: FxNode, name: str, value: Any, index: int) -> Any:
        if isinstance(value, ComplexTensor):
            return map_parts(lambda part: self._bind_name(node, name, part, index), value)
        if not isinstance(value, Expr) or type(value) is Constant:
            return value
        if name not in node.scope.graph.tensors:
            return value if isinstance(value, Var) else self.builder.emit(value, name)
        if self.builder.scopes[-1].in_dataflow and name in node.scope.results:
            value = self.builder.emit_output(value, name)
        elif not isinstance(value, Var):
            value = self.builder.emit(value, name)
        return self._cast_to_meta(node, name, value, index)

    def _cast_to_meta(self, node: FxNode, name: str, value: Expr, index: int) -> Expr:
        """Casts a value to the shape that torch recorded, if that is more precise.

        This binds data-dependent sizes; simpler expressions of sizes are checked at run time.
        """
        info = value.struct_info
        if not isinstance(info, TensorStructInfo):
            return value
        recorded_dims = node.recorded_dims(node.meta(index))
        recorded = TensorStructInfo(recorded_dims, node.out_dtype(index))
        if are_disjoint(recorded, info):
            node.fail(
                f"result {name!r}: inferred {info}, but the exported program declares {recorded}"
            )
        in_scope = self.builder.scopes[-1].symbols()
        if isinstance(info.dims, tuple) and not any(
            _is_more_precise(recorded_dim, inferred, in_scope)
            for recorded_dim, inferred in zip(recorded_dims, info.dims, strict=True)
        ):
            return value
        if self._are_clamped(recorded_dims, info.dims):
            return value
        return self.builder.match_cast(value, recorded, name, node.span)

    def emit_result(self, value: Any, name: str) -> Expr:
        """Returns a result of the program as a variable that is visible outside its dataflow
        block."""
        if type(value) is Constant:
            value = self.builder.emit_output(value, name) if self._open() else value
        elif isinstance(value, DataflowVar):
            value = self.builder.emit_output(value, name)
        elif not isinstance(value, Var):
            value = (
                self.builder.emit_output(value, name)
                if self._open()
                else self.builder.emit(value, name)
            )
        return value

    def _open(self) -> bool:
        return self.builder.scopes[-1].in_dataflow


def _is_more_precise(recorded: Dim, inferred: Dim, in_scope: Collection[Sym]) -> bool:
    """Returns whether the recorded size has new symbols, or is simpler than the inferred size."""
    if not dims.syms(recorded) <= set(in_scope):
        return True
    return dims.equal(recorded, inferred) is None and len(dims.text(recorded)) < len(
        dims.text(inferred)
    )


def rejected(error: DiagnosticError, node: FxNode) -> RejectedNodeError:
    """Returns an error with the node's location and op added where they are missing."""
    located = [
        d if d.span is not None else without_op_hint(d.at(node.span)) for d in error.diagnostics
    ]
    named = [d if d.op else attrs.evolve(d, op=node.spec.target) for d in located]
    names = frozenset({node.spec.target})
    return RejectedNodeError(named, names, names if node.is_complex() else frozenset())


__all__ = ["CONVERSION_ERRORS", "TorchImporter", "rejected"]
