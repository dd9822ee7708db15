"""Graphs built node by node: operands looked up, the mapping applied, results bound by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from onnx import FunctionProto, GraphProto, NodeProto
from onnx.defs import onnx_opset_version

from structir.errors import Diagnostic, DiagnosticError, Span, StructIRError
from structir.frontend.builder import NodeBuilder
from structir.frontend.constants import all_constant
from structir.frontend.onnx.bodies import arguments_of, body_of
from structir.frontend.onnx.joins import bound, choice_of, common, either
from structir.frontend.onnx.listing import listed
from structir.frontend.onnx.mapped import MappedModel
from structir.frontend.onnx.names import GraphNames, lookup
from structir.frontend.onnx.node import ABSENT, OnnxNode, RunTimeValueError, Split
from structir.frontend.onnx.registry import DEFAULT, find_build, find_carry
from structir.frontend.onnx.tensors import array_of, dense
from structir.frontend.onnx.types import OnnxSymbols
from structir.frontend.onnx.unsupported import plain_domain
from structir.frontend.onnx.values import (
    OnnxValue,
    carried_dtype,
    constant_elements,
    is_carried,
    stated,
)
from structir.interpret.interpreter import Interpreter
from structir.interpret.scope import Activation as RunScope
from structir.ir.expr import Constant, Expr, SeqExpr, Tuple, Var
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

MOST_FOLDED = 1 << 16  # elements of a result that is worked out while importing
MOST_SPLITS = 5  # choices within which a graph goes on: each doubles what follows
MOST_BUILT = 300_000  # nodes; functions within functions can stand for far more than a file holds
DEEPEST = 100  # functions within functions
UNREADABLE = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)


@attrs.frozen(eq=False)
class GraphSchedule:
    """The nodes of a graph, their places, and the values that are wanted of them."""

    nodes: Sequence[NodeProto]
    places: Sequence[Span]
    wanted: Sequence[str]


class OnnxImporter:
    """Builds the functions of one module."""

    def __init__(
        self,
        functions: Mapping[tuple[str, str], FunctionProto],
        folder: Path | None,
        progress: Callable[[], None] = lambda: None,
        everything: bool = False,
        mapped: MappedModel | None = None,
    ) -> None:
        self.mapped = mapped
        self.builder = NodeBuilder()
        self.functions, self.folder, self.progress = functions, folder, progress
        self.symbols = OnnxSymbols()
        self.everything = everything  # branches that no run takes, too
        self.built = 0
        self.seen: dict[str, StructInfo | None] = {}  # of every value of every graph, as built last

    # ---- graphs

    def constants(self, graph: GraphProto, names: GraphNames) -> None:
        """Bring the initialisers of a graph into scope."""
        for tensor in graph.initializer:
            held = None if self.mapped is None else self.mapped.array_of(tensor)
            array = array_of(tensor, self.folder) if held is None else held
            names.values[tensor.name] = constant(array)
        for sparse in graph.sparse_initializer:
            names.values[sparse.values.name] = constant(dense(sparse, self.folder))

    def outputs(
        self, nodes: Sequence[NodeProto], names: GraphNames, wanted: Sequence[str]
    ) -> list[OnnxValue]:
        """Build nodes in order; the values of these names at the end."""
        return self._going_on(GraphSchedule(nodes, listed(nodes, names.where), wanted), 0, names)

    def _going_on(self, steps: GraphSchedule, start: int, names: GraphNames) -> list[OnnxValue]:
        for k in range(start, len(steps.nodes)):
            split = self.node(steps.nodes[k], names, steps.places[k])
            self.progress()
            if split is not None:
                return self._in_both(split, steps, k + 1, names)
        return [lookup(names, name, None) for name in steps.wanted]

    def _in_both(
        self, split: Split, steps: GraphSchedule, start: int, names: GraphNames
    ) -> list[OnnxValue]:
        """What follows a choice, built in each of its branches, where its ranks are known."""
        node = split.node
        if names.splits >= MOST_SPLITS:
            node.fail("the branches have outputs of different ranks, as those of many before it")

        around, parts = self.seen, dict[int, dict[str, StructInfo | None]]()

        def side(number: int, graph: GraphProto) -> Callable[[], list[Expr]]:
            def build() -> list[Expr]:
                self.seen = parts[number] = {}
                inner = names.branch()
                for name, value in zip(node.outputs, node.inside(graph), strict=False):
                    inner.values[name] = value
                    self.seen[name] = value.expr.struct_info
                return [v.expr for v in self._going_on(steps, start, inner)]

            return build

        stem = node.part_name()
        sides = [side(number, graph) for number, graph in enumerate(split.graphs)]
        choice = choice_of(self, split.condition, sides, stem)
        self.seen = around
        if choice.failing is None:
            around.update(either(parts.values()))
        else:
            around.update(parts[choice.failing] | parts[1 - choice.failing])
        joined = [common(self, stem, pair) for pair in zip(*choice.infos, strict=True)]
        return [
            OnnxValue(bound(self, stem, choice.made[k], info, node.place))
            for k, info in enumerate(joined)
        ]

    def inner_graph(
        self, graph: GraphProto, names: GraphNames, given: Mapping[str, OnnxValue]
    ) -> list[OnnxValue]:
        """The results of a graph within another one, built into the open scope."""
        self.constants(graph, names)
        names.values.update(given)
        return self.outputs(graph.node, names, [o.name for o in graph.output])

    def node(self, proto: NodeProto, names: GraphNames, place: Span) -> Split | None:
        """Build one node. A choice that all that follows hangs on is given back."""
        values = [lookup(names, name, place) if name else None for name in proto.input]
        domain = plain_domain(proto.domain)
        version = names.opsets.get(domain)
        if version is None:
            raise DiagnosticError(
                Diagnostic(f"the model imports no opset of {domain or 'ai.onnx'!r}", place)
            )
        node = OnnxNode(proto, version, values, self, names, place)
        self.built += 1
        if self.built > MOST_BUILT:
            node.fail(f"the model unfolds to more than {MOST_BUILT} nodes")
        try:
            with self.builder.at(place):
                results = self._results(node)
                if isinstance(results, Split):
                    return results
                self._bind(node, results)
                return None
        except DiagnosticError as error:
            raise placed(error, node) from error
        except UNREADABLE as error:
            detail = f"{type(error).__name__}: {error}"
            raise DiagnosticError(
                Diagnostic(f"this node cannot be understood ({detail})", place, node.op_type)
            ) from error

    def _results(self, node: OnnxNode) -> Sequence[OnnxValue | None] | Split:
        """The values of a node's outputs."""
        sources = frozenset().union(*[v.sources for v in node.values if v is not None])
        carried = self._carried(node)
        if carried is not None:
            return [attrs.evolve(carried, sources=sources)]
        build = find_build(node.domain, node.op_type, node.version)
        if (node.domain, node.op_type) in self.functions or build is None:
            return self._laid_open(node)
        given = [v for v in node.values if v is not None]
        if given and all(type(v.expr) is Constant for v in given) and not node.graphs:
            folded = self._folded(node, build)
            if folded is not None:
                return folded
        made = build(node)
        if isinstance(made, Split):
            return made
        return [as_value(r, sources) for r in listed_results(made)]

    def _carried(self, node: OnnxNode) -> OnnxValue | None:
        """The result where all operands are known numbers and sizes, and so is it."""
        carry = find_carry(node.domain, node.op_type)
        if carry is None or any(v is not None and v.elements is None for v in node.values):
            return None
        try:
            elements = carry(node, *[v and v.elements for v in node.values])
        except (RunTimeValueError, *UNREADABLE):
            return None  # the mapping itself does what can be done, or says what is wrong
        if elements is None:
            return None
        made, dtype = elements
        made = np.asarray(made, object)
        if not carried_dtype(dtype) or not is_carried(made):
            return None
        return OnnxValue(stated(made, dtype), made)

    def _folded(self, node: OnnxNode, build: Any) -> list[OnnxValue | None] | None:
        """The results worked out now, where all operands are constants and the results small."""
        sequence = self.builder.aside(lambda: Tuple(tuple(_expressions(build(node)))))
        if not all(_small(b.var) for block in sequence.blocks for b in block.bindings):
            return self._kept(sequence)
        try:
            found = Interpreter(IRModule({})).value(sequence, RunScope({}, {}))
        except StructIRError:
            return self._kept(sequence)
        if not all(isinstance(f, np.ndarray | np.generic) or f == () for f in found):
            return self._kept(sequence)
        return [None if isinstance(f, tuple) else constant(np.asarray(f)) for f in found]

    def looked_at(self, build: Callable[[], list[OnnxValue]]) -> None:
        """A branch that no run takes, built aside where the sizes of all values are asked for."""
        if self.everything:
            with suppress(DiagnosticError):
                self.builder.aside(lambda: Tuple(tuple([v.expr for v in build()])))

    def worked_out(self, value: Expr) -> Expr:
        """A value that only constants make, as a constant; any other as it is."""
        if not all_constant(value):
            return value
        found = Interpreter(IRModule({})).value(self.builder.aside(lambda: value), RunScope({}, {}))
        return Constant(np.asarray(found))

    def _kept(self, sequence: SeqExpr) -> list[OnnxValue | None]:
        """A sequence built aside, put into the function after all."""
        for binding in sequence.bindings():
            self.builder.scopes[-1].add(binding)
        fields: Any = sequence.body
        return [None if f is ABSENT else as_value(f, frozenset()) for f in fields.fields]

    def _laid_open(self, node: OnnxNode) -> list[OnnxValue | None]:
        """The outputs of a node that stands for a body of other nodes."""
        if node.names.depth > DEEPEST:
            node.fail(f"functions are nested more than {DEEPEST} deep; does one call itself?")
        body = body_of(node, self.functions)
        values = dict(zip(body.input, node.values, strict=False))
        names = GraphNames(
            {k: v for k, v in values.items() if v is not None},
            {DEFAULT: onnx_opset_version()}
            | dict(node.names.opsets)
            | {plain_domain(o.domain): o.version for o in body.opset_import},
            f"{node.names.where}: {node.op_type}",
            arguments_of(node, body),
            depth=node.names.depth + 1,
        )
        wanted = [(o, b) for o, b in zip(node.outputs, body.output, strict=False) if o]
        made = self.outputs(body.node, names, [inner for _, inner in wanted])
        found = {name: value for (name, _), value in zip(wanted, made, strict=True)}
        return [found.get(name) for name in node.outputs]

    # ---- results

    def _bind(self, node: OnnxNode, results: Iterable[OnnxValue | None]) -> None:
        for name, value in zip(node.outputs, results, strict=False):
            if not name:
                continue
            if value is None:
                node.fail(f"output {name!r} is not made")
            if name in node.names.values and name in node.names.own():
                node.fail(f"{name!r} is defined twice")
            named = self._named(value, name, node)
            node.names.values[name] = named
            self.seen[name] = named.expr.struct_info

    def _named(self, value: OnnxValue, name: str, node: OnnxNode) -> OnnxValue:
        """A value bound to a variable of its name, its sizes given names where they are unknown."""
        expr = value.expr
        if type(expr) is Constant:
            return value
        if self.builder.scopes[-1].in_dataflow and name in node.names.results:
            expr = self.builder.emit_output(expr, name)
        elif not isinstance(expr, Var) or expr.name != name:
            expr = self.builder.emit(expr, name)
        return self.measured(attrs.evolve(value, expr=expr), name, node.place)

    def measured(self, value: OnnxValue, name: str, place: Span) -> OnnxValue:
        """A value of known rank with sizes: unknown ones get names, bound when the program runs."""
        info = value.expr.struct_info
        if not isinstance(info, TensorStructInfo) or isinstance(info.dims, tuple) or not info.ndim:
            return value
        sizes = [self.symbols.fresh(f"{name}_{i}") for i in range(info.ndim)]
        stated = TensorStructInfo(tuple(sizes), info.dtype)
        return attrs.evolve(value, expr=self.builder.match_cast(value.expr, stated, name, place))


def listed_results(made: Any) -> list[Any]:
    """What a mapping gives, as a list of outputs."""
    return list(made) if isinstance(made, list | tuple) else [made]


def _expressions(made: Any) -> list[Expr]:
    """What a mapping gives, as expressions; an output that it does not make is the empty tuple."""
    results = listed_results(made)
    return [ABSENT if r is None else r.expr if isinstance(r, OnnxValue) else r for r in results]


def as_value(result: Any, sources: frozenset[str]) -> OnnxValue | None:
    """An output of a mapping as a value."""
    if result is None or isinstance(result, OnnxValue):
        return result
    return OnnxValue(result, constant_elements(result), sources)


def constant(data: np.ndarray[Any, Any]) -> OnnxValue:
    """A value that is known now."""
    expr = Constant(data)
    return OnnxValue(expr, constant_elements(expr))


def _small(var: Var) -> bool:
    infos: Any = var.struct_info
    fields = infos.fields if isinstance(infos, TupleStructInfo) else [infos]
    return all(
        isinstance(i, TensorStructInfo)
        and isinstance(i.dims, tuple)
        and all(isinstance(d, int) for d in i.dims)
        and math.prod(i.dims) <= MOST_FOLDED
        for i in fields
    )


def placed(error: DiagnosticError, node: OnnxNode) -> DiagnosticError:
    """An error with its node's place, where it has none."""
    if all(d.span is not None for d in error.diagnostics):
        return error
    made = [d.at(node.place) for d in error.diagnostics]
    return DiagnosticError([d if d.op else attrs.evolve(d, op=node.op_type) for d in made])
