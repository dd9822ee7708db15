"""Recurrent layers as kernels, against ONNX Runtime at several sizes, compiled once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import structir
from structir import passes
from structir.analysis.internal_functions import without_derivatives
from structir.build import BlockBuilder
from structir.frontend.onnx import from_onnx
from structir.frontend.onnx_backend import Backend
from structir.frontend.recurrent_layers import recurrent_layer
from structir.ir.expr import Call, Function, Var
from structir.runtime.plans import plan
from structir.script import R
from tests.frontend.models import FLOAT, made, node, value

INT32 = TensorProto.INT32
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FORMS = [(kind, way, 0) for kind in GATES for way in ("forward", "reverse", "bidirectional")]
FORMS += [("GRU", "forward", 1), ("GRU", "bidirectional", 1)]


def layer(kind: str, way: str, after: int, hidden: int = 5, width: int = 3, **more: Any) -> Any:
    """Returns a model of one layer with a bias and initial states."""
    rng = np.random.default_rng(len(kind) + len(way))
    count, gates = (2 if way == "bidirectional" else 1), GATES[kind] * hidden
    sizes = {"w": (count, gates, width), "r": (count, gates, hidden), "b": (count, 2 * gates)}
    constants = {k: rng.standard_normal(s).astype("float32") for k, s in sizes.items()}
    states = "h c" if kind == "LSTM" else "h"
    names = f"x w r b _ {states}"
    results = "y yh yc" if kind == "LSTM" else "y yh"
    attributes = {"linear_before_reset": after} if kind == "GRU" else {}
    made_node = node(kind, names, results, hidden_size=hidden, direction=way, **attributes, **more)
    inputs = [value("x", ["steps", "batch", width], FLOAT)]
    inputs += [value(s, [count, "batch", hidden], FLOAT) for s in states.split()]
    return made([made_node], inputs, results.split(), constants)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", list(GATES))
@pytest.mark.parametrize("way", ["forward", "reverse", "bidirectional"])
def test_sequences_of_several_lengths(kind: str, way: str) -> None:
    model = layer(kind, way, 0)
    model.graph.node[0].input[4] = "lengths"
    model.graph.input.append(value("lengths", ["batch"], INT32))
    assert len(from_onnx(model).functions) > 1
    prepared = Backend.prepare(model)
    for steps, lengths in ((4, [4, 2, 1]), (6, [3, 6])):
        inputs = given(model, steps, len(lengths))
        inputs["lengths"] = np.array(lengths, "int32")
        got = prepared.run(list(inputs.values()))
        for mine, theirs in zip(got, by_runtime(model, inputs), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-5)


def given(model: Any, steps: int, batch: int) -> dict[str, Any]:
    """Returns random inputs of some sizes."""
    rng, sizes = np.random.default_rng(steps), {"steps": steps, "batch": batch}
    shapes = {
        i.name: [sizes.get(d.dim_param) or d.dim_value for d in i.type.tensor_type.shape.dim]
        for i in model.graph.input
    }
    return {name: rng.standard_normal(s).astype("float32") for name, s in shapes.items()}


def by_runtime(model: Any, inputs: dict[str, Any]) -> Any:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("kind", "way", "after"), FORMS)
def test_layers_at_several_sizes(kind: str, way: str, after: int) -> None:
    model = layer(kind, way, after)
    prepared = Backend.prepare(model)
    for steps, batch in ((4, 1), (1, 6), (7, 2)):
        inputs = given(model, steps, batch)
        got = prepared.run(list(inputs.values()))
        for mine, theirs in zip(got, by_runtime(model, inputs), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-5)


def test_a_layer_is_one_kernel_that_its_text_keeps() -> None:
    module = from_onnx(layer("LSTM", "bidirectional", 0))
    assert sorted(module.functions) == ["lstm_backwards_float32_5", "lstm_float32_5", "main"]
    assert structir.structural_equal(structir.parse(module.script()), module)
    inside = structir.compile(module).source("main")
    assert inside.count("# lstm_") == 2
    assert "inside(" not in inside, "an index is checked at every step"


def test_other_activations_take_a_loop() -> None:
    model = layer("RNN", "forward", 0, activations=["Relu"])
    assert sorted(from_onnx(model).functions) == ["main"]
    inputs = given(model, 3, 2)
    got = Backend.prepare(model).run(list(inputs.values()))
    for mine, theirs in zip(got, by_runtime(model, inputs), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("cell", "backwards"), [("lstm", False), ("gru", True), ("rnn", True), ("rnn_relu", False)]
)
def test_layers_have_gradients(cell: str, backwards: bool) -> None:
    """Checks the pullback of a layer by differences along a direction."""
    layer, functions = recurrent_layer(cell, "float64", backwards, 3)
    function = functions[layer.name]
    assert isinstance(function, Function)
    builder = BlockBuilder()
    builder.functions.update(functions)
    params = [Var(p.name, p.struct_info) for p in function.params]
    with builder.function("main", params):
        result = builder.emit(Call(layer, tuple(params)))
        total = R.add(R.sum(R.sin(result[0])), R.sum(R.square(result[1])))
        builder.emit_func_output(builder.emit(total))
    module = builder.get()
    rng = np.random.default_rng(3)
    infos: list[Any] = [p.struct_info for p in params]
    shapes = [[{"steps": 4, "batch": 2}.get(str(n), n) for n in i.dims] for i in infos]
    operands, ways = ([rng.normal(size=[*map(int, s)]) for s in shapes] for _ in range(2))

    def value(step: float) -> float:
        moved = [x + step * way for x, way in zip(operands, ways, strict=True)]
        return float(structir.interpret(module, "main", *moved))

    differentiated = passes.Gradient()(module)
    _, gradients = structir.interpret(differentiated, "main_adjoint", *operands)
    slope = sum(float((g * way).sum()) for g, way in zip(gradients, ways, strict=True))
    h = 1e-5
    np.testing.assert_allclose(slope, (value(h) - value(-h)) / (2 * h), rtol=1e-5)
    assert len(without_derivatives(module).functions) == 3  # main, the layer, its kernel or step


@pytest.mark.parametrize(("kind", "way", "after"), FORMS)
def test_threads_share_the_sequences_of_a_batch(
    kind: str, way: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "MIN_SHARED_NANOSECONDS", 0)
    monkeypatch.setattr(plan, "MIN_SHARED_ELEMENTS", 0)
    model = layer(kind, way, after, hidden=16)
    module = from_onnx(model)
    one = structir.compile(module, num_threads=1)["main"]
    many = structir.compile(module, num_threads=2)
    for batch in (1, 9):
        inputs = list(given(model, 5, batch).values())
        for same, actual in zip(one(*inputs), many["main"](*inputs), strict=True):
            np.testing.assert_array_equal(actual, same)
    bounds = [region._bound.latest()[0] for region in many._regions["main"]]
    parts = [
        chunk
        for bound in bounds
        for text, chunk in zip(bound.plan.texts, bound.chunks, strict=True)
        if any(kind.lower() in origin for origin in text.origins)
    ]
    assert 5 in parts
