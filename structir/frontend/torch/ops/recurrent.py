"""Mappings of recurrent layers: one matrix product for all inputs, then a kernel for all steps."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from structir.frontend.recurrent_kernels import DTYPES, recurrent_kernel
from structir.frontend.recurrent_layers import RELU, recurrent_layer
from structir.frontend.scalars import number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.shapes import reorder_axes
from structir.frontend.torch.registry import torch_op
from structir.ir.expr import Call, Constant, Expr, ShapeExpr, Tuple
from structir.ir.struct_info import TensorStructInfo
from structir.script import R


@attrs.frozen
class TorchRecurrentKind:
    """A kind of recurrent layer: its kernel, and torch's gates in the kernel's order."""

    kernel: str
    gates: tuple[int, ...]
    states: int


KINDS = {
    "lstm": TorchRecurrentKind("lstm", (0, 3, 1, 2), 2),
    "gru": TorchRecurrentKind("gru", (1, 0, 2), 1),
    "rnn_tanh": TorchRecurrentKind("rnn", (0,), 1),
    "rnn_relu": TorchRecurrentKind(RELU, (0,), 1),
}


@attrs.frozen(eq=False)
class Weights:
    """The transposed weights of one direction of a layer, with gates in the kernel's order."""

    own: Expr
    recurrence: Expr
    own_bias: Expr | None
    bias: Expr | None


@torch_op("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def recurrent(node: FxNode) -> list[Expr]:
    kind = KINDS[node.spec.target.split(".")[1]]
    if node.dtype("input") not in DTYPES:
        node.fail(
            f"input: expected {' or '.join(sorted(DTYPES))}, found {node.dtype('input')}",
            "export the model in float32: `model.float()`",
        )
    if node.flag("train") and float(node.arg("dropout", 0.0)) != 0.0:
        node.fail(
            f"dropout in training mode: expected 0.0, found {node.arg('dropout')}",
            "call `model.eval()` before torch.export.export",
        )
    batch_first = node.flag("batch_first")
    is_unbatched = node.rank("input") == 2
    initial = node.arg("hx")
    initial = list(initial) if isinstance(initial, tuple) else [initial]
    x = node["input"]
    if is_unbatched:
        x, initial = R.expand_dims(x, [1]), [R.expand_dims(s, [1]) for s in initial]
    elif batch_first:
        x = R.permute_dims(x, [1, 0, 2])
    hidden_states, last = _layers(node, kind, x, initial)
    if is_unbatched:
        return [R.squeeze(v, [1]) for v in (hidden_states, *last)]
    return [reorder_axes(hidden_states, [1, 0, 2]) if batch_first else hidden_states, *last]


def _layers(
    node: FxNode, kind: TorchRecurrentKind, x: Expr, initial: list[Expr]
) -> tuple[Expr, list[Expr]]:
    """Builds all layers in order, each in one or two directions."""
    directions = [False, True] if node.flag("bidirectional") else [False]
    params = list(node.arg("params"))
    params_per_direction = 4 if node.flag("has_biases", True) else 2
    if len(params) != params_per_direction * node.plain("num_layers") * len(directions):
        node.fail(
            f"expected {params_per_direction} weights per layer and direction, found projections",
            "build the layer with `proj_size=0`",
        )
    last: list[list[Expr]] = []
    for layer in range(node.plain("num_layers")):
        result = []
        for k, reverse in enumerate(directions):
            index = layer * len(directions) + k
            weights = _weights(
                node,
                kind,
                params[index * params_per_direction : (index + 1) * params_per_direction],
            )
            states = [R.take(s, number(index, "int64"), axis=0) for s in initial]
            result.append(_build_direction(node, kind, node.emit(x), weights, states, reverse))
        x = result[0][0] if len(result) == 1 else R.concat([m[0] for m in result], axis=2)
        last += [m[1:] for m in result]
    return x, [R.stack(Tuple(tuple(column)), axis=0) for column in zip(*last, strict=True)]


def _weights(node: FxNode, kind: TorchRecurrentKind, params: list[Expr]) -> Weights:
    def transpose(x: Expr) -> Expr:
        ordered = _in_order(node, kind, x)
        if isinstance(ordered, Constant):
            return Constant(np.ascontiguousarray(ordered.data.T))
        return node.fold(R.permute_dims(ordered, [1, 0]))

    biases = [node.fold(_in_order(node, kind, b)) for b in params[2:]]
    return Weights(transpose(params[0]), transpose(params[1]), *(biases or (None, None)))


def _in_order(node: FxNode, kind: TorchRecurrentKind, x: Expr) -> Expr:
    """Returns weights with their gates (axis 0) in the kernel's order."""
    if kind.gates == (0,):
        return x
    count = len(kind.gates)
    gate_size = node.whole(node.dims_of(x)[0]) // count
    if isinstance(x, Constant):
        by_gate = x.data.reshape(count, -1, *x.data.shape[1:])
        return Constant(by_gate[list(kind.gates)].reshape(x.data.shape))
    parts = [R.strided_slice(x, [0], (g * gate_size,), ((g + 1) * gate_size,)) for g in kind.gates]
    return R.concat(parts, axis=0)


def _build_direction(
    node: FxNode,
    kind: TorchRecurrentKind,
    x: Expr,
    weights: Weights,
    states: list[Expr],
    reverse: bool,
) -> list[Expr]:
    """Returns all hidden states of one direction, then its final states."""
    gates = R.matmul(x, weights.own)
    gates = node.emit(gates if weights.own_bias is None else R.add(gates, weights.own_bias))
    steps, batch, width = node.dims_of(gates)
    dtype = node.dtype_of(gates)
    bias = R.zeros(ShapeExpr((width,)), dtype) if weights.bias is None else weights.bias
    states = [node.emit(s) for s in states]
    hidden = node.dims_of(states[0])[1]
    size = hidden if isinstance(hidden, int) else None
    operands = (gates, *states, weights.recurrence, bias)
    builder = node.host.builder
    if isinstance(weights.recurrence, Constant) and kind.kernel != RELU:
        last = TensorStructInfo((batch, hidden), dtype)
        results = (TensorStructInfo((steps, batch, hidden), dtype), *[last for _ in states])
        kernel = builder.kernel(recurrent_kernel(kind.kernel, dtype, reverse, hidden=size))
        call: Any = R.call_kernel(kernel, operands, out_sinfo=results)
    else:  # for training: the layer has a pullback
        layer, functions = recurrent_layer(kind.kernel, dtype, reverse, size)
        builder.functions.update(functions)
        call = Call(layer, operands)
    result = node.emit(call)
    return [node.emit(result[k]) for k in range(1 + len(states))]
