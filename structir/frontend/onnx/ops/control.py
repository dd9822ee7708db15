"""Mappings of conditionals and loops: nested graphs become branches and loop bodies.

A loop body is a nested function, which may use all values of the enclosing scope. The external
function `loop.iterate` calls it once per iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import attrs

from structir.frontend.onnx.joins import build_branches, cast_checked, common_info, differ
from structir.frontend.onnx.node import ABSENT, OnnxNode, Split
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.scalars import scalar
from structir.frontend.onnx.values import OnnxValue
from structir.frontend.scalars import constant, size_number
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr, StringImm, Tuple, Var
from structir.ir.struct_info import (
    OBJECT,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.script import R

MAX_ROUNDS = 8  # rebuilds of a loop body until its StructInfo is invariant
INDEX = TensorStructInfo((), "int64")
FLAG = TensorStructInfo((), "bool")


@onnx_op("If")
def conditional(node: OnnxNode) -> Any:
    condition = scalar(node, node[0])
    then_graph, else_graph = node.attr("then_branch"), node.attr("else_branch")
    if isinstance(condition, Constant):
        taken_graph, other_graph = (
            (then_graph, else_graph) if condition.data.item() else (else_graph, then_graph)
        )
        node.importer.build_unreachable(lambda: node.build_subgraph(other_graph))
        return node.build_subgraph(taken_graph)
    if len(then_graph.output) != len(else_graph.output):
        output_counts = f"{len(then_graph.output)} and {len(else_graph.output)}"
        node.fail(f"expected branches with the same number of outputs, found {output_counts}")
    builders = [
        lambda g=g: [v.expr for v in node.build_subgraph(g)] for g in (then_graph, else_graph)
    ]
    result = build_branches(node.importer, condition, builders, node.part_name())
    pairs = list(zip(*result.infos, strict=True))
    if any(differ(pair) for pair in pairs):
        # the conditional is built again, with the rest of the graph in its branches
        node.importer.builder.scopes[-1].bindings.pop()
        return Split(node, condition, (then_graph, else_graph))
    return [_cast_to(node, result.var[k], _common(node, pair)) for k, pair in enumerate(pairs)]


def _common(node: OnnxNode, infos: Sequence[Any]) -> StructInfo:
    return common_info(node.importer, node.part_name(), infos)


def _cast_to(node: OnnxNode, value: Expr, info: StructInfo) -> Expr:
    return cast_checked(node.importer, node.part_name(), value, info, node.span)


# ---- loops


@attrs.frozen(eq=False)
class OnnxLoop:
    """A loop: its initial carried values, and the function that builds its body."""

    node: OnnxNode
    carried: tuple[Expr, ...]
    body: Callable[[Expr, Expr, list[Expr]], list[Expr]]  # next condition, carried, outputs

    def run(self, trips: Expr, condition: Expr, length: Dim | None) -> list[Expr]:
        """Returns the final carried values, then the stacked outputs, whose first size is `length`
        if known."""
        builder, node = self.node.importer.builder, self.node
        body, infos, results = self._build_until_invariant()
        step_infos = results[1 + len(self.carried) :]
        empty = Tuple(tuple([self._initial_shape(info) for info in step_infos]))
        dtypes = StringImm(" ".join([info.dtype or "float32" for info in step_infos]))
        carried_infos = [_without_symbols(info) for info in infos]
        stacked_infos = [_with_step_axis(info) for info in step_infos]
        result_info = TupleStructInfo((*carried_infos, *stacked_infos))
        call = R.call_pure_packed(
            "loop.iterate",
            body,
            trips,
            condition,
            Tuple(self.carried),
            empty,
            dtypes,
            sinfo_args=result_info,
        )
        result = builder.emit(call, node.part_name())
        values = [result[k] for k in range(len(result_info.fields))]
        exact_infos = [*infos, *[self._stacked_info(info, length) for info in step_infos]]
        return [_cast_to(node, v, i) for v, i in zip(values, exact_infos, strict=True)]

    def _build_until_invariant(self) -> tuple[Var, list[StructInfo], list[Any]]:
        """Returns the body as a function, the loop-invariant StructInfo of the carried values, and
        the StructInfo of the body's results.

        Rebuilds the body with a weaker StructInfo until every iteration preserves it.
        """
        node, infos = self.node, list[Any]([v.struct_info for v in self.carried])
        for _ in range(MAX_ROUNDS):
            body, results = self._function(infos)
            after = results[1 : 1 + len(infos)]
            in_scope = node.importer.builder.scopes[-1].symbols()
            if all(_is_invariant(i, r, in_scope) for i, r in zip(infos, after, strict=True)):
                return body, infos, results
            node.importer.builder.scopes[-1].bindings.pop()
            infos = [
                i if _is_invariant(i, r, in_scope) else _common(node, [i, r])
                for i, r in zip(infos, after, strict=True)
            ]
        infos = [_without_symbols(i) for i in infos]
        body, results = self._function(infos)
        return body, infos, results

    def _params(self, infos: Sequence[Any]) -> list[Var]:
        names = [f"{self.node.part_name()}_{k}" for k in range(len(infos))]
        carried = [Var(n, _without_symbols(i)) for n, i in zip(names, infos, strict=True)]
        return [Var("step", INDEX), Var("condition", FLAG), *carried]

    def _function(self, infos: Sequence[Any]) -> tuple[Var, list[Any]]:
        """Returns the body as a function, and the StructInfo of its results inside the body."""
        params, results = self._params(infos), list[Any]()

        def build() -> Expr:
            inner = [_cast_to(self.node, v, i) for v, i in zip(params[2:], infos, strict=True)]
            result = self.body(params[0], params[1], inner)
            results.extend([r.struct_info for r in result])
            return Tuple(tuple(result))

        name = f"{self.node.part_name()}_body"
        return self.node.importer.builder.local_function(params, build, name), results

    def _initial_shape(self, info: Any) -> Expr:
        """Returns the shape of a stacked output before the first iteration."""
        in_scope = self.node.importer.builder.scopes[-1].symbols()
        sizes = info.dims if isinstance(info.dims, tuple) else (0,) * (info.ndim or 0)
        initial = [d if dims.syms(d) <= in_scope else 0 for d in sizes]
        return ShapeExpr((0, *initial))

    def _stacked_info(self, info: Any, length: Dim | None) -> StructInfo:
        if info.ndim is None:
            return TensorStructInfo(None, info.dtype)
        symbols, stem = self.node.importer.symbols, self.node.part_name()
        in_scope = self.node.importer.builder.scopes[-1].symbols()
        first = symbols.fresh(f"{stem}_steps") if length is None else length
        sizes = info.dims if isinstance(info.dims, tuple) else (None,) * info.ndim
        inner_sizes = [
            d if d is not None and dims.syms(d) <= in_scope else symbols.fresh(f"{stem}_{k}")
            for k, d in enumerate(sizes)
        ]
        return TensorStructInfo((first, *inner_sizes), info.dtype)


def _without_symbols(info: Any) -> StructInfo:
    """Returns a StructInfo without symbolic sizes, for the signature of a loop body."""
    if not isinstance(info, TensorStructInfo):
        return OBJECT
    is_static = isinstance(info.dims, tuple) and all(isinstance(d, int) for d in info.dims)
    return info if is_static else TensorStructInfo(None, info.dtype, info.ndim)


def _with_step_axis(info: Any) -> StructInfo:
    rank = None if info.ndim is None else info.ndim + 1
    return TensorStructInfo(None, info.dtype, rank)


def _is_invariant(info: Any, after: Any, in_scope: Collection[Sym]) -> bool:
    """Returns whether the StructInfo of a value is invariant under an iteration.

    A symbol that is not in the scope of the loop is the size of an axis that iterations change.
    """
    if not isinstance(info, TensorStructInfo) or not isinstance(after, TensorStructInfo):
        return not isinstance(info, TensorStructInfo)
    if info.dtype != after.dtype or info.ndim != after.ndim:
        return info.dtype in (None, after.dtype) and info.ndim is None
    if not isinstance(info.dims, tuple):
        return True
    if not isinstance(after.dims, tuple):
        return False
    return all(
        _is_free(a, in_scope) or dims.equal(a, b)
        for a, b in zip(info.dims, after.dims, strict=True)
    )


def _is_free(dim: Dim, in_scope: Collection[Sym]) -> bool:
    """Returns whether a size is a symbol that is not in scope."""
    symbol = dims.as_sym(dim)
    return symbol is not None and symbol not in in_scope


@onnx_op("Loop")
def loop(node: OnnxNode) -> list[Expr]:
    graph = node.attr("body")
    names = [i.name for i in graph.input]
    trips = scalar(node, node[0]) if node.has(0) else ABSENT
    condition = scalar(node, node[1]) if node.has(1) else ABSENT
    carried = tuple([node[k] for k in range(2, len(node.values))])
    if len(names) != 2 + len(carried):
        node.fail(f"body: expected {2 + len(carried)} inputs, found {len(names)}")

    def body(step: Expr, next_condition: Expr, inner: list[Expr]) -> list[Expr]:
        arguments = [OnnxValue(v) for v in (step, next_condition, *inner)]
        result = [
            v.expr for v in node.build_subgraph(graph, dict(zip(names, arguments, strict=True)))
        ]
        return [scalar(node, result[0]), *result[1:]]

    return OnnxLoop(node, carried, body).run(trips, condition, None)


@onnx_op("Scan", since=9)
def scan(node: OnnxNode) -> list[Expr]:
    graph, count = node.attr("body"), node.attr("num_scan_inputs")
    states = len(node.values) - count
    outputs = len(node.outputs) - states
    scanned = [
        (node[states + k], axis, reverse)
        for k, (axis, reverse) in enumerate(
            zip(_axes(node, "input", count), _directions(node, "input", count), strict=True)
        )
    ]
    return _build_scan(node, graph, [node[k] for k in range(states)], scanned, outputs)


def _build_scan(
    node: OnnxNode, graph: Any, states: list[Expr], scanned: list[Any], outputs: int
) -> list[Expr]:
    """Builds a Scan as a loop over the elements of the scanned operands."""
    names = [i.name for i in graph.input]
    axes = [node.normalize_axis(a, len(_sizes(node, x))) for x, a, _ in scanned]
    length = _sizes(node, scanned[0][0])[axes[0]] if scanned else 0
    last = size_number(length - 1)

    def body(step: Expr, condition: Expr, inner: list[Expr]) -> list[Expr]:
        reverse_step = node.emit(R.subtract(last, step)) if any(b for *_, b in scanned) else step
        elements = [
            node.emit(R.take(x, reverse_step if reverse else step, axis=index))
            for (x, _, reverse), index in zip(scanned, axes, strict=True)
        ]
        bindings = {n: OnnxValue(v) for n, v in zip(names, [*inner, *elements], strict=True)}
        return [constant(True, "bool"), *[v.expr for v in node.build_subgraph(graph, bindings)]]

    result = OnnxLoop(node, tuple(states), body).run(PrimValue(length), ABSENT, length)
    step_outputs = result[len(states) :]
    layouts = zip(
        step_outputs,
        _axes(node, "output", outputs),
        _directions(node, "output", outputs),
        strict=True,
    )
    return [
        *result[: len(states)],
        *[_move_time_axis(node, x, axis, reverse) for x, axis, reverse in layouts],
    ]


def _sizes(node: OnnxNode, x: Expr) -> tuple[Dim, ...]:
    sizes = node.tensor_info(x).dims
    if not isinstance(sizes, tuple):
        node.fail(f"expected a scanned operand of known rank, found {node.tensor_info(x)}")
    return sizes


def _axes(node: OnnxNode, kind: str, count: int) -> tuple[int, ...]:
    return tuple(node.attr(f"scan_{kind}_axes", None) or (0,) * count)


def _directions(node: OnnxNode, kind: str, count: int) -> tuple[int, ...]:
    name = "directions" if node.version < 9 else f"scan_{kind}_directions"
    return tuple(node.attr(name, None) or (0,) * count)


def _move_time_axis(node: OnnxNode, x: Expr, axis: int, reverse: int) -> Expr:
    """Returns a scan output with its time axis moved to the requested axis."""
    x = R.flip(x, axis=0) if reverse else x
    rank = node.tensor_info(x).ndim or 1
    axis_index = node.normalize_axis(axis, rank)
    if axis_index == 0:
        return x
    order = [*range(1, axis_index + 1), 0, *range(axis_index + 1, rank)]
    return R.permute_dims(x, order)


@onnx_op("Scan")
def scan_of_batches(node: OnnxNode) -> list[Any]:
    """Builds Scan of opset 8, which scans each sequence of a batch."""
    graph, count = node.attr("body"), node.attr("num_scan_inputs")
    if node.has(0):
        node.fail("operand 0 (sequence_lens) is not supported: expected no operand")
    values = [node[k] for k in range(1, len(node.values))]
    batch = _sizes(node, values[0])[0]
    if not isinstance(batch, int):
        node.fail(
            f"Scan of opset 8: expected a static batch size, found {dims.text(batch)}",
            node.static_size_hint(1),
        )
    states = len(values) - count
    directions = _directions(node, "input", count)
    outputs = len(node.outputs) - states
    batch_results = []
    for k in range(batch):
        elements: list[Expr] = [node.emit(R.take(v, constant(k), axis=0)) for v in values]
        scanned = [
            (x, 0, reverse) for x, reverse in zip(elements[states:], directions, strict=True)
        ]
        batch_results.append(_build_scan(node, graph, elements[:states], scanned, outputs))
    return [R.stack(Tuple(tuple(column)), axis=0) for column in zip(*batch_results, strict=True)]
