"""Recurrent layers: the products with the inputs at once, then a kernel for all steps."""

from __future__ import annotations

from functools import reduce
from typing import Any

import attrs
import numpy as np

from structir.frontend.recurrent_kernels import DTYPES, recurrent_kernel
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.shapes import reordered
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import number
from structir.ir.expr import Constant, Expr, ShapeExpr, Tuple
from structir.ir.struct_info import TensorStructInfo
from structir.script import R


@attrs.frozen
class TorchRecurrentKind:
    """A kind of recurrent layer: its kernel, and the order of torch's gates in it."""

    kernel: str
    gates: tuple[int, ...]
    states: int


KINDS = {
    "lstm": TorchRecurrentKind("lstm", (0, 3, 1, 2), 2),
    "gru": TorchRecurrentKind("gru", (1, 0, 2), 1),
    "rnn_tanh": TorchRecurrentKind("rnn", (0,), 1),
    "rnn_relu": TorchRecurrentKind("", (0,), 1),
}


@attrs.frozen(eq=False)
class Weights:
    """The weights of one direction of a layer, transposed, their gates in the kernel's order."""

    own: Expr
    recurrence: Expr
    own_bias: Expr | None
    bias: Expr | None


@torch_op("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def recurrent(node: FxNode) -> list[Expr]:
    kind = KINDS[node.spec.target.split(".")[1]]
    if node.dtype("input") not in DTYPES:
        node.fail(f"recurrent layers of {node.dtype('input')} are not supported")
    if node.flag("train") and float(node.arg("dropout", 0.0)) != 0.0:
        node.fail("dropout between layers in training mode is not supported")
    by_batch = node.flag("batch_first")
    bare = node.rank("input") == 2
    starts = node.arg("hx")
    starts = list(starts) if isinstance(starts, tuple) else [starts]
    x = node["input"]
    if bare:
        x, starts = R.expand_dims(x, [1]), [R.expand_dims(s, [1]) for s in starts]
    elif by_batch:
        x = R.permute_dims(x, [1, 0, 2])
    whole, last = _layers(node, kind, x, starts)
    if bare:
        return [R.squeeze(v, [1]) for v in (whole, *last)]
    return [reordered(whole, [1, 0, 2]) if by_batch else whole, *last]


def _layers(
    node: FxNode, kind: TorchRecurrentKind, x: Expr, starts: list[Expr]
) -> tuple[Expr, list[Expr]]:
    """Returns all layers in turn, each in one or both directions."""
    ways = [False, True] if node.flag("bidirectional") else [False]
    given = list(node.arg("params"))
    each = 4 if node.flag("has_biases", True) else 2
    if len(given) != each * node.plain("num_layers") * len(ways):
        node.fail("layers with projections are not supported")
    last: list[list[Expr]] = []
    for layer in range(node.plain("num_layers")):
        result = []
        for k, back in enumerate(ways):
            index = layer * len(ways) + k
            weights = _weights(node, kind, given[index * each : (index + 1) * each])
            states = [R.take(s, number(index, "int64"), axis=0) for s in starts]
            result.append(_directed(node, kind, node.emit(x), weights, states, back))
        x = result[0][0] if len(result) == 1 else R.concat([m[0] for m in result], axis=2)
        last += [m[1:] for m in result]
    return x, [R.stack(Tuple(tuple(column)), axis=0) for column in zip(*last, strict=True)]


def _weights(node: FxNode, kind: TorchRecurrentKind, given: list[Expr]) -> Weights:
    def turned(x: Expr) -> Expr:
        ordered = _in_order(node, kind, x)
        if isinstance(ordered, Constant):
            return Constant(np.ascontiguousarray(ordered.data.T))
        return node.fold(R.permute_dims(ordered, [1, 0]))

    biases = [node.fold(_in_order(node, kind, b)) for b in given[2:]]
    return Weights(turned(given[0]), turned(given[1]), *(biases or (None, None)))


def _in_order(node: FxNode, kind: TorchRecurrentKind, x: Expr) -> Expr:
    """Returns weights with their gates (axis 0) in the order of the kernel."""
    if kind.gates == (0,):
        return x
    count = len(kind.gates)
    each = node.whole(node.dims_of(x)[0]) // count
    if isinstance(x, Constant):
        apart = x.data.reshape(count, -1, *x.data.shape[1:])
        return Constant(apart[list(kind.gates)].reshape(x.data.shape))
    parts = [R.strided_slice(x, [0], (g * each,), ((g + 1) * each,)) for g in kind.gates]
    return R.concat(parts, axis=0)


def _directed(
    node: FxNode,
    kind: TorchRecurrentKind,
    x: Expr,
    weights: Weights,
    states: list[Expr],
    back: bool,
) -> list[Expr]:
    """Returns all hidden states of one direction, then its last states."""
    gates = R.matmul(x, weights.own)
    gates = node.emit(gates if weights.own_bias is None else R.add(gates, weights.own_bias))
    steps, batch, width = node.dims_of(gates)
    dtype = node.dtype_of(gates)
    bias = weights.bias or R.zeros(ShapeExpr((width,)), dtype)
    states = [node.emit(s) for s in states]
    if not kind.kernel:
        return _unrolled(node, gates, weights, states[0], back)
    hidden = node.dims_of(states[0])[1]
    last = TensorStructInfo((batch, hidden), dtype)
    whole = TensorStructInfo((steps, batch, hidden), dtype)
    kernel = recurrent_kernel(kind.kernel, dtype, back)
    call: Any = R.call_kernel(
        node.host.builder.kernel(kernel),
        (gates, *states, weights.recurrence, bias),
        out_sinfo=(whole, *[last for _ in states]),
    )
    result = node.emit(call)
    return [node.emit(result[k]) for k in range(1 + len(states))]


def _unrolled(node: FxNode, gates: Expr, weights: Weights, state: Expr, back: bool) -> list[Expr]:
    """Unrolls the time steps, for a cell without a kernel."""
    steps = node.dims_of(gates)[0]
    if not isinstance(steps, int):
        node.fail("expected a static number of time steps")
    shown: list[Expr] = []
    for k in reversed(range(steps)) if back else range(steps):
        parts = [R.take(gates, number(k, "int64"), axis=0), R.matmul(state, weights.recurrence)]
        parts += [weights.bias] if weights.bias is not None else []
        state = node.emit(R.nn.relu(reduce(R.add, parts)))
        shown.append(state)
    whole = R.stack(Tuple(tuple(reversed(shown) if back else shown)), axis=0)
    return [node.emit(whole), state]
