"""Recurrent layers as functions: a kernel computes them, a loop of ops gives their pullback.

A layer is `layer(gates, *states, weight, bias) -> (hidden_states, *states)`: the products of the
inputs with their weights, the states before the first step, the weights of the states and their
bias. Gates are in the order of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from structir.adjoints.differentiable_leaves import differentiable_leaves
from structir.adjoints.functions import Adjoints
from structir.analysis.derivative_rules import PULLBACK
from structir.analysis.internal_functions import PRIVATE
from structir.build import BlockBuilder
from structir.frontend.recurrent_kernels import CELLS, recurrent_kernel
from structir.frontend.scalars import dims_of
from structir.ir.dims import Dim, sym
from structir.ir.expr import Expr, GlobalVar, ShapeExpr, Tuple, Var
from structir.ir.module import IRModule
from structir.ir.node import Node
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

Functions = Mapping[str, Node]
RELU = "rnn_relu"  # a cell without a kernel


@cache
def recurrent_layer(
    cell: str, dtype: str, backwards: bool, hidden: int | None
) -> tuple[GlobalVar, Functions]:
    """Returns a layer of one direction, and the functions that it consists of.

    A constant size `hidden` is stated in the kernel.
    """
    suffix = [*["backwards"] * backwards, dtype, *([str(hidden)] if hidden is not None else [])]
    name = "_".join([cell, "layer", *suffix])
    builder = BlockBuilder()
    if cell == RELU:
        _build_loop(builder, name, cell, dtype, backwards, hidden)
        return builder.global_var(name), builder.functions
    loop = f"{name}_loop"
    _build_loop(builder, loop, cell, dtype, backwards, hidden)
    function = builder.finished(loop)
    adjoints = Adjoints(IRModule(dict(builder.functions)))
    paths = list(differentiable_leaves(function.ret_struct_info))
    pullback = adjoints.pullback(loop, range(len(function.params)), paths)
    assert pullback is not None
    adjoints.generate_pending()
    kernel = builder.kernel(recurrent_kernel(cell, dtype, backwards, hidden=hidden))
    params = _params(cell, dtype, hidden, (sym("steps"), sym("batch")))
    attributes = {PRIVATE: True, PULLBACK: pullback[0].name}
    with builder.function(name, params, attrs=attributes):
        gates, *states = [dims_of(p) for p in params[:-2]]
        shapes = [(gates[0], *states[0]), *states]
        results = tuple([TensorStructInfo(shape, dtype) for shape in shapes])
        call = R.call_kernel(kernel, tuple(params), out_sinfo=results)
        builder.emit_func_output(builder.emit(call))
    layer = builder.global_var(name)
    del builder.functions[loop]  # only its pullback is used
    return layer, {**builder.functions, **adjoints.generated}


def _build_loop(
    builder: BlockBuilder, name: str, cell: str, dtype: str, backwards: bool, hidden: int | None
) -> None:
    """Builds the layer as a loop of ops, and the function of one step."""
    step = f"{name}_step"
    gates, *states, weight, bias = _params(cell, dtype, hidden, (sym("batch"),))
    with builder.function(step, [*states, gates, weight, bias], attrs={PRIVATE: True}):
        after = _next_states(cell, gates, states, R.add(R.matmul(states[0], weight), bias))
        after = [builder.emit(state) for state in after]
        builder.emit_func_output(Tuple((*after, after[0])))
    gates, *states, weight, bias = params = _params(
        cell, dtype, hidden, (sym("steps"), sym("batch"))
    )
    with builder.function(name, params, attrs={PRIVATE: True}):
        inputs = R.flip(gates, axis=0) if backwards else gates
        operands = (Tuple(tuple(states)), inputs, Tuple((weight, bias)))
        result = builder.emit(R.scan(builder.global_var(step), *operands))
        count = len(states)
        outputs = R.flip(result[count], axis=0) if backwards else result[count]
        builder.emit_func_output(Tuple((outputs, *[result[k] for k in range(count)])))


def _params(cell: str, dtype: str, hidden: int | None, sizes: tuple[Dim, ...]) -> list[Var]:
    """Returns parameters of a layer, or of a step where `sizes` is only the batch."""
    width: Dim = sym("hidden") if hidden is None else hidden
    count, states = (1, ("last",)) if cell == RELU else (CELLS[cell].gates, CELLS[cell].states)
    shapes = {"gates": (*sizes, count * width)}
    shapes |= {state: (sizes[-1], width) for state in states}
    shapes |= {"weight": (width, count * width), "bias": (count * width,)}
    return [Var(name, TensorStructInfo(shape, dtype)) for name, shape in shapes.items()]


def _next_states(cell: str, gates: Var, states: Sequence[Var], product: Expr) -> list[Expr]:
    """Returns the states after a step; `product` is that of the state with its weights."""
    width = dims_of(states[0])[1]

    def part(x: Expr, gate: int) -> Any:
        return R.strided_slice(x, [1], ShapeExpr((gate * width,)), ShapeExpr(((gate + 1) * width,)))

    if cell in (RELU, "rnn"):
        total = R.add(gates, product)
        return [R.nn.relu(total) if cell == RELU else R.tanh(total)]
    if cell == "lstm":
        total = R.add(gates, product)
        update, output, forget = (R.sigmoid(part(total, k)) for k in range(3))
        memory = R.add(R.multiply(forget, states[1]), R.multiply(update, R.tanh(part(total, 3))))
        return [R.multiply(output, R.tanh(memory)), memory]
    update, reset = (R.sigmoid(R.add(part(gates, k), part(product, k))) for k in range(2))
    candidate = R.tanh(R.add(part(gates, 2), R.multiply(reset, part(product, 2))))
    change = R.multiply(update, R.subtract(states[0], candidate))
    return [R.add(candidate, change)]
