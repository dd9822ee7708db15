"""Mappings of recurrent layers.

All input products are one matrix product. The time steps run in a kernel, or in a loop for
peepholes, clipping and unusual activations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from structir.frontend.onnx.node import ABSENT, OnnxNode, alternatives
from structir.frontend.onnx.ops.control import OnnxLoop
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.scalars import like
from structir.frontend.recurrent_kernels import DTYPES, recurrent_kernel
from structir.frontend.scalars import constant, number, reshape_to
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple
from structir.ir.kernel import Kernel
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

Activation = Callable[[Expr], Expr]
Cell = Callable[["Layer", Expr, list[Expr]], list[Expr]]  # gates of the input, states -> states


@attrs.frozen(eq=False)
class Layer:
    """One direction of a recurrent layer: its weights and activations."""

    node: OnnxNode
    hidden: int
    recurrence: Expr  # weight of shape (hidden, gates)
    bias: Expr | None  # of shape (gates,), added to the hidden product
    peepholes: Expr | None
    activations: tuple[Activation, ...]
    hidden_product: Activation | None = None  # replaces the matrix product with `recurrence`

    def gate(self, x: Expr, k: int) -> Expr:
        """Returns the k-th gate of gates that are concatenated along the last axis."""
        axis = (self.node.tensor_info(x).ndim or 1) - 1
        cut = (k * self.hidden,), ((k + 1) * self.hidden,)
        return R.strided_slice(x, [axis], *cut)

    def clip(self, x: Expr) -> Expr:
        """Returns a value clipped by the attribute `clip`, if present."""
        limit = self.node.attr("clip", None)
        return x if limit is None else R.clip(x, -limit, limit)

    def apply_activation(self, k: int, x: Expr) -> Expr:
        """Applies the k-th activation to a clipped value."""
        return self.activations[k](self.clip(x))


def _activation(node: OnnxNode, name: str, alpha: float | None, beta: float | None) -> Activation:
    """Returns an activation by its ONNX name."""

    def parameter(value: float | None, default: float) -> Constant:
        return like(node, default if value is None else value)

    zero, one = like(node, 0.0), like(node, 1.0)
    table: dict[str, Activation] = {
        "affine": lambda x: R.add(R.multiply(parameter(alpha, 1.0), x), parameter(beta, 0.0)),
        "elu": lambda x: R.where(
            R.less(x, zero), R.multiply(parameter(alpha, 1.0), R.subtract(R.exp(x), one)), x
        ),
        "hardsigmoid": lambda x: R.clip(
            R.add(R.multiply(parameter(alpha, 0.2), x), parameter(beta, 0.5)), 0.0, 1.0
        ),
        "leakyrelu": lambda x: R.where(R.less(x, zero), R.multiply(parameter(alpha, 0.01), x), x),
        "relu": R.nn.relu,
        "scaledtanh": lambda x: R.multiply(
            parameter(alpha, 1.0), R.tanh(R.multiply(parameter(beta, 1.0), x))
        ),
        "sigmoid": R.sigmoid,
        "softplus": lambda x: R.log_add_exp(x, zero),
        "softsign": lambda x: R.divide(x, R.add(one, R.abs(x))),
        "tanh": R.tanh,
        "thresholdedrelu": lambda x: R.where(R.greater(x, parameter(alpha, 1.0)), x, zero),
    }
    match = table.get(name.lower())
    if match is None:
        node.fail(f"activations: expected {alternatives(table)}, found {name!r}")
    return match


def _rnn_cell(layer: Layer, gates: Expr, states: list[Expr]) -> list[Expr]:
    (h,) = states
    return [layer.apply_activation(0, R.add(gates, _hidden_product(layer, h)))]


def _hidden_product(layer: Layer, h: Expr) -> Expr:
    result = (
        R.matmul(h, layer.recurrence) if layer.hidden_product is None else layer.hidden_product(h)
    )
    return result if layer.bias is None else R.add(result, layer.bias)


def _lstm_cell(layer: Layer, gates: Expr, states: list[Expr]) -> list[Expr]:
    h, c = states
    node = layer.node
    total = node.emit(R.add(gates, _hidden_product(layer, h)))

    def with_peephole(gate: int, hole: int, state: Expr) -> Expr:
        x = layer.gate(total, gate)
        if layer.peepholes is None:
            return x
        return R.add(x, R.multiply(layer.gate(layer.peepholes, hole), state))

    update = layer.apply_activation(0, with_peephole(0, 0, c))
    forget = layer.apply_activation(0, with_peephole(2, 2, c))
    if node.flag("input_forget"):
        forget = R.subtract(like(node, 1.0), update)
    fresh = layer.apply_activation(1, layer.gate(total, 3))
    cell = node.emit(R.add(R.multiply(forget, c), R.multiply(update, fresh)))
    out = layer.apply_activation(0, with_peephole(1, 1, cell))
    return [R.multiply(out, layer.activations[2](cell)), cell]


def _gru_cell(layer: Layer, gates: Expr, states: list[Expr]) -> list[Expr]:
    (h,) = states
    node = layer.node
    products = node.emit(_hidden_product(layer, h))
    update = node.emit(
        layer.apply_activation(0, R.add(layer.gate(gates, 0), layer.gate(products, 0)))
    )
    reset = layer.apply_activation(0, R.add(layer.gate(gates, 1), layer.gate(products, 1)))
    candidate = layer.gate(gates, 2)
    if node.flag("linear_before_reset"):
        fresh = R.add(candidate, R.multiply(reset, layer.gate(products, 2)))
    else:
        candidate_weight = layer.gate(layer.recurrence, 2)
        fresh = R.add(candidate, R.matmul(R.multiply(reset, h), candidate_weight))
        if layer.bias is not None:
            fresh = R.add(fresh, layer.gate(layer.bias, 2))
    fresh = layer.apply_activation(1, fresh)
    retained = R.multiply(update, h)
    return [R.add(R.multiply(R.subtract(like(node, 1.0), update), fresh), retained)]


@attrs.frozen
class OnnxRecurrentKind:
    """A kind of recurrent layer."""

    gates: int
    states: int
    activations: tuple[str, ...]
    cell: Cell


KINDS = {
    "GRU": OnnxRecurrentKind(3, 1, ("Sigmoid", "Tanh"), _gru_cell),
    "LSTM": OnnxRecurrentKind(4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm_cell),
    "RNN": OnnxRecurrentKind(1, 1, ("Tanh",), _rnn_cell),
}


onnx_op("GRU", "LSTM", "RNN")(lambda node: recurrent_layers(node))


@attrs.frozen
class GateProducts:
    """Functions that replace the products of the input and the hidden state with the weights."""

    of_input: Callable[[int, Expr], Expr]
    of_hidden: Callable[[int, Expr], Expr]
    kernel: Callable[
        [int, bool], tuple[Kernel, list[Expr]] | None
    ]  # kernel of all steps and its weights


def recurrent_layers(node: OnnxNode, products: GateProducts | None = None) -> list[Any]:
    """Builds all directions of a recurrent layer."""
    kind = KINDS[node.op_type]
    batch_first = node.flag("layout")
    x = node.emit(R.permute_dims(node[0], [1, 0, 2])) if batch_first else node[0]
    direction = node.attr("direction")
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(
        direction
    )
    if directions is None:
        node.fail(f"unknown direction {direction!r}: expected forward, reverse or bidirectional")
    direction_results = [
        _build_direction(node, kind, x, k, reverse, products)
        for k, reverse in enumerate(directions)
    ]
    hidden_states = R.stack(Tuple(tuple([m[-1] for m in direction_results])), axis=1)
    last = [
        R.stack(Tuple(tuple(column)), axis=0)
        for column in list(zip(*direction_results, strict=True))[:-1]
    ]
    if batch_first:
        hidden_states = R.permute_dims(hidden_states, [2, 0, 1, 3])
        last = [R.permute_dims(v, [1, 0, 2]) for v in last]
    return [hidden_states, *last]


def _build_direction(
    node: OnnxNode,
    kind: OnnxRecurrentKind,
    x: Expr,
    k: int,
    reverse: bool,
    products: GateProducts | None,
) -> list[Expr]:
    """Returns the final states of one direction, then all hidden states along the first axis."""
    steps, batch, _ = _dims(node, x)
    hidden = int(node.attr("hidden_size", node.static_dims(2)[2]))
    if hidden < 1:
        node.fail(f"hidden_size: expected a positive integer, found {hidden}")
    layer, bias = _build_layer(node, kind, hidden, k, products)
    lengths = node.get(4)
    is_plain = _has_kernel(node, kind)
    kernel = (
        products.kernel(k, reverse)
        if products is not None and is_plain and lengths is None
        else None
    )
    is_plain = is_plain and (products is None or kernel is not None)
    if reverse and not is_plain:
        x = _reverse_steps(x, lengths)
    gates = _input_products(node, x, k, products)
    gates = node.emit(gates if bias is None else R.add(gates, bias))
    states = [_initial_state(node, 5 + s, k, batch, hidden) for s in range(kind.states)]
    if kernel is not None:
        return _call_kernel(layer, *kernel, [gates, *states])
    if is_plain:
        return _by_kernel(layer, gates, states, reverse, lengths)

    def body(step: Expr, condition: Expr, inner: list[Expr]) -> list[Expr]:
        step_gates = node.emit(R.take(gates, step, axis=0))
        after = [node.emit(s) for s in kind.cell(layer, step_gates, inner)]
        output = after[0]
        if lengths is not None:
            is_active = R.less(step, R.astype(lengths, "int64"))
            is_active = node.emit(reshape_to(is_active, (batch, 1)))
            output = node.emit(R.where(is_active, output, like(node, 0.0)))
            after = [
                node.emit(R.where(is_active, new, old))
                for new, old in zip(after, inner, strict=True)
            ]
        return [constant(True, "bool"), *after, output]

    result = OnnxLoop(node, tuple(states), body).run(PrimValue(steps), ABSENT, steps)
    *last, hidden_states = result
    return [*last, _reverse_steps(hidden_states, lengths) if reverse else hidden_states]


def _has_kernel(node: OnnxNode, kind: OnnxRecurrentKind) -> bool:
    """Returns whether a kernel implements the layer: default activations, no peepholes, no
    clipping."""
    names = [name.lower() for name in node.attr("activations", None) or ()]
    default_names = [name.lower() for name in kind.activations]
    has_extras = node.attr("clip", None) is not None or node.flag("input_forget")
    has_extras = has_extras or node.has(7)
    return (
        not has_extras
        and names in ([], default_names, default_names * 2)
        and node.dtype() in DTYPES
    )


def _by_kernel(
    layer: Layer, gates: Expr, states: list[Expr], reverse: bool, lengths: Expr | None
) -> list[Expr]:
    """Builds all time steps as a kernel call; returns the final states, then all hidden states."""
    node = layer.node
    name = node.op_type.lower()
    if name == "gru" and not node.flag("linear_before_reset"):
        name = "gru_reset_before"
    kernel = recurrent_kernel(name, node.dtype(), reverse, lengths is not None, layer.hidden)
    first = [] if lengths is None else [node.emit(R.astype(lengths, "int64"))]
    bias = layer.bias
    if bias is None:
        bias = R.zeros(ShapeExpr((_dims(node, gates)[2],)), node.dtype())
    return _call_kernel(layer, kernel, [layer.recurrence, bias], [*first, gates, *states])


def _call_kernel(
    layer: Layer, kernel: Kernel, weights: list[Expr], operands: list[Expr]
) -> list[Expr]:
    """Calls a kernel on the operands, whose last ones are gates and states, and the weights."""
    node, states = layer.node, KINDS[layer.node.op_type].states
    steps, batch, _ = _dims(node, operands[-1 - states])
    last = TensorStructInfo((batch, layer.hidden), node.dtype())
    hidden_states = TensorStructInfo((steps, batch, layer.hidden), node.dtype())
    call = R.call_kernel(
        node.importer.builder.kernel(kernel),
        tuple([node.emit(x) for x in (*operands, *weights)]),
        out_sinfo=(hidden_states, *[last for _ in range(states)]),
    )
    result = node.emit(call)
    return [*[node.emit(result[1 + s]) for s in range(states)], node.emit(result[0])]


def _reverse_steps(x: Expr, lengths: Expr | None) -> Expr:
    """Reverses the time steps, each sequence of a batch up to its own length."""
    if lengths is None:
        return R.flip(x, axis=0)
    return R.reverse_sequence(x, R.astype(lengths, "int64"), seq_axis=0, batch_axis=1)


def _dims(node: OnnxNode, x: Expr) -> tuple[Dim, ...]:
    sizes = node.tensor_info(x).dims
    if not isinstance(sizes, tuple) or len(sizes) != 3:
        node.fail(f"expected an input of rank 3, found {node.tensor_info(x)}")
    return sizes


def _take_direction(node: OnnxNode, x: Expr, k: int) -> Expr:
    """Returns one direction of a weight."""
    return R.take(x, constant(k), axis=0)


def _fold_or_emit(node: OnnxNode, x: Expr) -> Expr:
    value = node.importer.fold_constant(x)
    return value if isinstance(value, Constant) else node.emit(value)


def _input_products(node: OnnxNode, x: Expr, k: int, products: GateProducts | None) -> Expr:
    """Returns the products of the input with the weights of all gates of a direction."""
    if products is not None:
        return products.of_input(k, x)
    return R.matmul(
        x, _fold_or_emit(node, R.permute_dims(_take_direction(node, node[1], k), [1, 0]))
    )


def _build_layer(
    node: OnnxNode, kind: OnnxRecurrentKind, hidden: int, k: int, products: GateProducts | None
) -> tuple[Layer, Expr | None]:
    """Returns the weights of one direction, and the bias of its input products."""
    product: Activation | None = None
    recurrence: Expr = ABSENT
    if products is None:
        recurrence = _fold_or_emit(node, R.permute_dims(_take_direction(node, node[2], k), [1, 0]))
    else:
        product = partial(products.of_hidden, k)
    input_bias = hidden_bias = None
    if node.has(3):
        width = kind.gates * hidden
        biases = _take_direction(node, node[3], k)
        input_bias = _fold_or_emit(node, R.strided_slice(biases, [0], (0,), (width,)))
        hidden_bias = _fold_or_emit(node, R.strided_slice(biases, [0], (width,), (2 * width,)))
    peepholes = _fold_or_emit(node, _take_direction(node, node[7], k)) if node.has(7) else None
    names = node.attr("activations", None) or kind.activations * 2
    activation_count = len(kind.activations)
    alphas, betas = list(node.attr("activation_alpha", ())), list(node.attr("activation_beta", ()))
    activations = []
    for index in range(k * activation_count, (k + 1) * activation_count):
        name = names[index % len(names)]
        alpha = alphas[index] if index < len(alphas) else None
        beta = betas[index] if index < len(betas) else None
        activations.append(_activation(node, name, alpha, beta))
    return Layer(
        node, hidden, recurrence, hidden_bias, peepholes, tuple(activations), product
    ), input_bias


def _initial_state(node: OnnxNode, index: int, k: int, batch: Dim, hidden: int) -> Expr:
    """Returns the initial value of a state: an operand, or zeros."""
    if not node.has(index):
        return R.full(ShapeExpr((batch, hidden)), number(0, node.dtype()))
    axis = 1 if node.flag("layout") else 0
    return node.emit(R.take(node[index], constant(k), axis=axis))
