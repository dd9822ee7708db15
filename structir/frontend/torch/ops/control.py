"""Mappings of conditionals and loops: nested graphs become branches and loop bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.frontend.iteration import ABSENT, iterated, scanned
from structir.frontend.torch.graph import FxGraph, all_graphs, names_of
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, tensor_info
from structir.ir.dim_choice import compare
from structir.ir.dims import Dim
from structir.ir.dtype import is_int
from structir.ir.expr import Constant, Expr, ShapeExpr, Tuple, Var
from structir.ir.requirements import is_condition
from structir.ir.struct_info import TensorStructInfo
from structir.script import R


def _tensors(node: FxNode, values: Sequence[Any], graph: FxGraph) -> list[Expr]:
    """Returns the results of a graph as tensors."""
    result = []
    for value, output in zip(values, graph.outputs, strict=True):
        meta = graph.tensors.get(next(iter(names_of(output)), ""))
        result.append(as_tensor(value, meta.dtype if meta and meta.dtype else "int64"))
    return result


def _cast_to_recorded(node: FxNode, value: Expr, index: int) -> Expr:
    """Returns a result cast to its recorded shape, which is checked at run time."""
    recorded = TensorStructInfo(node.out_dims(index), node.out_dtype(index))
    if value.struct_info == recorded:
        return value
    name = names_of(node.spec.outputs)[index]
    bound = node.emit(value, name)
    return node.host.builder.match_cast(bound, recorded, name, node.span)


@torch_op(":higher_order.cond")
def conditional(node: FxNode) -> list[Expr]:
    condition, then_graph, else_graph, *extra_args = node.positional()
    operands = list(extra_args[0]) if extra_args else []
    condition = node.emit(as_tensor(condition, "bool"))
    if node.dims_of(condition):
        condition = R.reshape(condition, ShapeExpr(()))

    def side(graph: FxGraph) -> Callable[[], Expr]:
        def build() -> Expr:
            values = node.host.build_subgraph(
                graph, operands, f"{node.scope.where}: {node.spec.name}"
            )
            return Tuple(tuple(_tensors(node, values, graph)))

        return build

    result = node.host.builder.if_else(
        condition, side(then_graph), side(else_graph), node.part_name()
    )
    return [_cast_to_recorded(node, result[k], k) for k in range(len(then_graph.outputs))]


# ---- loops


@torch_op(":higher_order.while_loop")
def while_loop(node: FxNode) -> list[Expr]:
    condition, graph, *extra_args = node.positional()
    carried, captured = list(extra_args[0]), list(extra_args[1]) if len(extra_args) > 1 else []
    states = [
        as_tensor(v, "int64" if not isinstance(v, Expr) else node.dtype_of(v)) for v in carried
    ]
    states = [s if isinstance(s, Var) else node.emit(s) for s in states]
    where = f"{node.scope.where}: {node.spec.name}"

    def emit_condition(values: list[Expr]) -> Expr:
        (result,) = node.host.build_subgraph(condition, [*values, *captured], where)
        flag = as_tensor(result, "bool")
        return R.reshape(flag, ShapeExpr(())) if tensor_info(flag).ndim else flag

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        result = node.host.build_subgraph(graph, [*values, *captured], where)
        after: list[Expr] = [node.emit(x) for x in _tensors(node, result, graph)]
        return emit_condition(after), after, []

    start = node.emit(emit_condition(states))
    results = iterated(node.host.builder, node.part_name(), ABSENT, start, states, [], body)
    return [_cast_to_recorded(node, value, k) for k, value in enumerate(results)]


@torch_op(":higher_order.scan")
def scan(node: FxNode) -> list[Expr]:
    graph, initial, tensors, *rest = node.positional()
    return _build_scan(node, graph, initial, tensors, rest)


@torch_op(":higher_order.map_impl")
def map_slices(node: FxNode) -> list[Expr]:
    """Builds `map`: applies a graph to each slice along the first axes."""
    graph, tensors, *rest = node.positional()
    return _build_scan(node, graph, [], tensors, rest)


def _build_scan(
    node: FxNode, graph: FxGraph, initial: Sequence[Expr], tensors: Sequence[Expr], rest: list[Any]
) -> list[Expr]:
    states, tensors = [_bound(node, v) for v in initial], [_bound(node, v) for v in tensors]
    captured = list(rest[0]) if rest and isinstance(rest[0], tuple | list) else []
    where = f"{node.scope.where}: {node.spec.name}"

    def body(values: list[Any]) -> list[Expr]:
        return _tensors(node, node.host.build_subgraph(graph, values, where), graph)

    results = scanned(node.host.builder, node.part_name(), states, tensors, captured, body)
    return [_cast_to_recorded(node, value, k) for k, value in enumerate(results)]


def _bound(node: FxNode, value: Expr) -> Expr:
    return value if isinstance(value, Var | Constant) else node.emit(value)


# ---- sizes and checks


@torch_op("item", "_local_scalar_dense")
def item(node: FxNode) -> Any:
    """Returns a scalar read from a tensor: a number if sizes depend on it, else the tensor."""
    x = node["self"]
    x = R.reshape(x, ShapeExpr(())) if node.rank() else x
    name = names_of(node.spec.outputs)[0]
    recorded = node.scope.graph.scalars.get(name)
    if not isinstance(recorded, str) or not is_int(node.dtype()):
        return x
    if node.host.is_size(recorded):
        size = node.host.symbols.dim(recorded)
        node.bind_sizes(R.expand_dims(cast(x, "int64"), [0]), (size,))
        return size
    if not _is_used(node, name, recorded):
        return x
    parts = node.host.symbols.signed_parts(recorded)
    node.bind_parts(x, parts)
    return parts[0] - parts[1]


def _is_used(node: FxNode, name: str, expression: str) -> bool:
    """Returns whether other numbers or sizes of the graph are computed from a number."""
    for graph in all_graphs(node.scope.graph):
        others = [value for key, value in graph.scalars.items() if key != name]
        sizes = [size for meta in graph.tensors.values() for size in meta.sizes]
        if any(isinstance(text, str) and expression in text for text in others + sizes):
            return True
    return False


ASSERTIONS = (
    "_assert_scalar",
    "_assert_async",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
    "_functional_assert_scalar",
    "_functional_assert_async",
    "_linalg_check_errors",
)


@torch_op(*ASSERTIONS)
def assertion(node: FxNode) -> list[Any]:
    """Requires conditions on sizes and on data, as `torch._check` and `torch._assert_async` state;
    ignores torch's other assertions, since StructIR's ops check their own operands."""
    condition, size = node.arg("self", None), node.arg("size", None)
    conditions = [condition] if is_condition(condition) else []
    data = [condition] if isinstance(condition, Expr) else []
    for low, high in ((node.arg("min", None), size), (size, node.arg("max", None))):
        if isinstance(size, Expr) and low is not None and high is not None:
            data.append(R.less_equal(as_tensor(low, "int64"), as_tensor(high, "int64")))
        elif isinstance(size, Dim) and low is not None and high is not None:
            conditions.append(compare("le", low, high))
    node.require(conditions)
    names = names_of(next(iter(node.spec.args.values()), None))
    for value in data:
        node.require_nonzero(value, f"{names[0]}_holds")
    return []


@torch_op("sym_storage_offset")
def storage_offset(node: FxNode) -> int:
    """Returns 0 for an offset that only assertions use: StructIR's tensors have no storage."""
    if not all([_is_asserted(node.scope.graph, name) for name in names_of(node.spec.outputs)]):
        node.fail(
            "the offset of a tensor in its storage is unknown",
            "remove `storage_offset()` from the model",
        )
    return 0


def _is_asserted(graph: FxGraph, name: str) -> bool:
    """Returns whether only assertions use a symbolic number, or numbers computed from it."""
    if name in names_of(graph.outputs):
        return False
    for user in graph.nodes:
        if name in names_of(tuple(user.args.values())):
            results = names_of(user.outputs)
            is_number = bool(results) and all([result in graph.scalars for result in results])
            is_assertion = user.target.split(".")[1] in ASSERTIONS
            if not is_assertion and not (
                is_number and all(_is_asserted(graph, r) for r in results)
            ):
                return False
    return True
