"""Mappings of conditionals and loops: nested graphs become branches and loop bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.frontend.torch.graph import FxGraph, names_of
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, number, tensor_info
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr, StringImm, Tuple, Var
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.script import R

INDEX = TensorStructInfo((), "int64")
FLAG = TensorStructInfo((), "bool")
ABSENT = Tuple(())


def _tensors(node: FxNode, values: Sequence[Any], graph: FxGraph) -> list[Expr]:
    """Returns the results of a graph as tensors."""
    result = []
    for value, stated in zip(values, graph.outputs, strict=True):
        meta = graph.tensors.get(next(iter(names_of(stated)), ""))
        result.append(as_tensor(value, meta.dtype if meta and meta.dtype else "int64"))
    return result


def _settled(node: FxNode, value: Expr, index: int) -> Expr:
    """Returns a result cast to its recorded shape, which is checked at run time."""
    stated = TensorStructInfo(node.out_dims(index), node.out_dtype(index))
    if value.struct_info == stated:
        return value
    name = names_of(node.spec.outputs)[index]
    bound = node.emit(value, name)
    return node.host.builder.match_cast(bound, stated, name, node.span)


@torch_op(":higher_order.cond")
def choice(node: FxNode) -> list[Expr]:
    condition, then, other, *rest = node.positional()
    operands = list(rest[0]) if rest else []
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

    result = node.host.builder.if_else(condition, side(then), side(other), node.part_name())
    return [_settled(node, result[k], k) for k in range(len(then.outputs))]


# ---- loops

Body = Callable[[Expr, list[Expr]], tuple[Expr, list[Expr], list[Expr]]]


def _iterated(
    node: FxNode, trips: Expr, first: Expr, carried: list[Expr], grown: list[Any], body: Body
) -> list[Expr]:
    """Returns the carried values after the last step, then the values of all steps along a new
    axis."""
    builder = node.host.builder
    infos = [v.struct_info for v in carried]
    stem = node.part_name()
    params = [Var("step", INDEX), Var("going", FLAG)]
    params += [Var(f"{stem}_{k}", _open(info)) for k, info in enumerate(infos)]

    def build() -> Expr:
        inner: list[Expr] = [
            builder.match_cast(p, i, p.name) if _open(i) != i else p
            for p, i in zip(params[2:], infos, strict=True)
        ]
        going, after, outputs = body(params[0], inner)
        return Tuple((going, *after, *outputs))

    function = builder.local_function(params, build, f"{stem}_body")
    empty = Tuple(tuple([ShapeExpr((0, *sizes)) for sizes, _ in grown]))
    dtypes = StringImm(" ".join([dtype for _, dtype in grown]))
    outputs = [TensorStructInfo(None, dtype, len(sizes) + 1) for sizes, dtype in grown]
    stated = TupleStructInfo((*[_open(i) for i in infos], *outputs))
    call = R.call_pure_packed(
        "loop.iterate",
        function,
        trips,
        first,
        Tuple(tuple(carried)),
        empty,
        dtypes,
        sinfo_args=stated,
    )
    result = builder.emit(call, stem)
    return [_settled(node, result[k], k) for k in range(len(stated.fields))]


def _open(info: Any) -> StructInfo:
    """Returns a StructInfo without symbolic sizes, for the signature of a loop body."""
    if all(isinstance(d, int) for d in info.dims):
        return info
    return TensorStructInfo(None, info.dtype, info.ndim)


@torch_op(":higher_order.while_loop")
def while_loop(node: FxNode) -> list[Expr]:
    condition, graph, *rest = node.positional()
    carried, captured = list(rest[0]), list(rest[1]) if len(rest) > 1 else []
    states = [
        as_tensor(v, "int64" if not isinstance(v, Expr) else node.dtype_of(v)) for v in carried
    ]
    states = [s if isinstance(s, Var) else node.emit(s) for s in states]
    where = f"{node.scope.where}: {node.spec.name}"

    def going(values: list[Expr]) -> Expr:
        (result,) = node.host.build_subgraph(condition, [*values, *captured], where)
        flag = as_tensor(result, "bool")
        return R.reshape(flag, ShapeExpr(())) if tensor_info(flag).ndim else flag

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        result = node.host.build_subgraph(graph, [*values, *captured], where)
        after: list[Expr] = [node.emit(x) for x in _tensors(node, result, graph)]
        return going(after), after, []

    return _iterated(node, ABSENT, node.emit(going(states)), states, [], body)


@torch_op(":higher_order.scan")
def scan(node: FxNode) -> list[Expr]:
    graph, first, read, *rest = node.positional()
    states, read = [_bound(node, v) for v in first], [_bound(node, v) for v in read]
    captured = list(rest[0]) if rest and isinstance(rest[0], tuple) else []
    where = f"{node.scope.where}: {node.spec.name}"
    count = len(states)
    length = node.dims_of(read[0])[0]
    grown = [(node.out_dims(k)[1:], node.out_dtype(k)) for k in range(count, len(graph.outputs))]

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        now = [node.emit(R.take(x, step, axis=0)) for x in read]
        result = _tensors(
            node, node.host.build_subgraph(graph, [*values, *now, *captured], where), graph
        )
        return number(True, "bool"), result[:count], result[count:]

    return _iterated(node, PrimValue(length), ABSENT, states, grown, body)


@torch_op(":higher_order.map_impl")
def mapped(node: FxNode) -> list[Expr]:
    """Returns a graph applied to each slice along the first axes."""
    graph, read, *rest = node.positional()
    read, captured = [_bound(node, v) for v in read], list(rest[0]) if rest else []
    where = f"{node.scope.where}: {node.spec.name}"
    grown = [(node.out_dims(k)[1:], node.out_dtype(k)) for k in range(len(graph.outputs))]

    def body(step: Expr, values: list[Expr]) -> tuple[Expr, list[Expr], list[Expr]]:
        now = [node.emit(R.take(x, step, axis=0)) for x in read]
        result = _tensors(node, node.host.build_subgraph(graph, [*now, *captured], where), graph)
        return number(True, "bool"), [], result

    return _iterated(node, PrimValue(node.dims_of(read[0])[0]), ABSENT, [], grown, body)


def _bound(node: FxNode, value: Expr) -> Expr:
    return value if isinstance(value, Var | Constant) else node.emit(value)


# ---- sizes and checks


@torch_op("item", "_local_scalar_dense")
def item(node: FxNode) -> Any:
    """Returns a number read from a tensor: a size if it is non-negative, else the tensor."""
    x = node["self"]
    x = R.reshape(x, ShapeExpr(())) if node.rank() else x
    name = names_of(node.spec.outputs)[0]
    stated = node.scope.graph.scalars.get(name)
    if node.dtype() == "bool" or stated is None or not node.host.is_size(stated):
        return x
    size = node.host.symbols.dim(stated)
    vector = R.expand_dims(cast(x, "int64"), [0])
    shape = node.emit(R.tensor_to_shape(vector))
    info = R.Shape((size,))
    node.host.builder.match_cast(shape, info, name, node.span)
    return size


@torch_op(
    "_assert_scalar",
    "_assert_async",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
    "_functional_assert_scalar",
    "_functional_assert_async",
)
def assertion(node: FxNode) -> list[Any]:
    """Ignores torch's size assertions: StructIR's ops check their own operands."""
    return []
