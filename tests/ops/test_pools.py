"""Pools against ONNX Runtime over a grid of attributes, and their gradients against differences."""

from functools import partial
from random import Random

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import structir
from structir import passes

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
CASES, COMPILED, DIFFERENTIATED = 120, 6, 4


def several(random, count, low, high):
    return tuple(random.randint(low, high) for _ in range(count))


def drawn(seed):
    """Generates one pool: its kind, spatial sizes and attributes."""
    random = Random(seed)
    count = random.choice((1, 2, 2, 2, 3))
    pick = partial(several, random, count)
    attributes = {
        "pool_size": pick(2, 3),
        "strides": pick(1, 3),
        "padding": several(random, 2 * count, 0, 1),
        "dilation": random.choice([(1,) * count, (1,) * count, pick(1, 2)]),
        "ceil_mode": random.random() < 0.8,
    }
    kind = random.choice(("max", "avg", "avg"))
    if kind == "avg":
        attributes["count_include_pad"] = random.random() < 0.6
    return kind, pick(5, 9), attributes


def wanted_of(kind, x, attributes):
    names = {"pool_size": "kernel_shape", "padding": "pads", "dilation": "dilations"}
    given = {names.get(k, k): int(v) if v in (True, False) else v for k, v in attributes.items()}
    op = {"max": "MaxPool", "avg": "AveragePool"}[kind]
    node = helper.make_node(op, ["x"], ["y"], **given)
    value = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    graph = helper.make_graph([node], "g", [value("x", shape=x.shape)], [value("y", shape=None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


def written(attributes):
    return "".join(f", {name}={value!r}" for name, value in attributes.items())


def pool(kind, attributes, shape, last, body="y"):
    """Returns a program with one pool; `last` puts the channels last."""
    count = len(shape) - 2
    layout = f", layout='N{SPATIAL[count]}C'" if last else ""
    return structir.parse(
        f"@R.function\ndef main(x: R.Tensor({shape!r}, 'float32')):\n"
        f"    y = R.nn.{kind}_pool{count}d(x{written(attributes)}{layout})\n    return {body}\n"
    )


def moved(x, last):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", range(3))
def test_pools_match_onnx_runtime(chunk):
    for seed in range(chunk, CASES, 3):
        kind, sizes, attributes = drawn(seed)
        x = np.random.default_rng(seed).standard_normal((2, 3, *sizes), "float32")
        wanted = wanted_of(kind, x, attributes)
        last = seed % 2 == 1
        known = moved(x, last).shape
        symbolic = tuple(f"n{k}" for k in range(x.ndim))
        for shape in (known, symbolic):
            module = pool(kind, attributes, shape, last)
            info = module["main"].ret_struct_info
            assert shape is symbolic or info.dims == moved(wanted, last).shape
            runs = [partial(structir.interpret, module, "main")]
            runs += [structir.compile(module)["main"]] if seed < COMPILED else []
            for run in runs:
                np.testing.assert_allclose(
                    run(moved(x, last)), moved(wanted, last), rtol=1e-5, atol=1e-6,
                    err_msg=f"seed {seed}: {kind} {sizes} {attributes}",
                )  # fmt: skip


def test_a_window_that_starts_in_the_end_padding_is_omitted():
    x = np.arange(56, dtype="float32").reshape(1, 1, 7, 8)
    attributes = {"pool_size": (3, 2), "strides": (2, 3), "padding": 1, "ceil_mode": True}
    for kind in ("max", "avg"):
        module = pool(kind, attributes, x.shape, False)
        result = structir.interpret(module, "main", x)
        assert result.shape == (1, 1, 4, 3)
        assert np.isfinite(result).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", range(2))
def test_gradients_of_pools_match_finite_differences(chunk):
    for seed in range(chunk, DIFFERENTIATED, 2):
        random = Random(seed)
        kind, _, attributes = drawn(seed)
        shape = (1, 2, *(random.randint(5, 7) for _ in range(len(attributes["strides"]))))
        rng = np.random.default_rng(seed)
        x = rng.permutation(np.prod(shape)).reshape(shape).astype("float32") / 16
        module = pool(kind, attributes, shape, False, "R.sum(R.square(y))")
        backward = passes.Gradient(parameters="x")(module)
        run = structir.compile(module)["main"]
        gradient = structir.interpret(backward, "main_adjoint", x)[1][0]
        np.testing.assert_allclose(
            structir.compile(backward)["main_adjoint"](x)[1][0], gradient, rtol=1e-4
        )
        for _ in range(8):
            index = tuple(rng.integers(0, n) for n in shape)
            above, below = x.copy(), x.copy()
            above[index] += 1 / 64
            below[index] -= 1 / 64
            slope = (np.float64(run(above)) - np.float64(run(below))) * 32
            np.testing.assert_allclose(gradient[index], slope, rtol=2e-2, atol=2e-2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
def test_backward_ops_match_derived_gradients(seed):
    random = Random(seed)
    kind = ("max", "avg")[seed % 2]
    attributes = {
        "pool_size": (random.randint(2, 3), random.randint(2, 3)),
        "strides": (random.randint(1, 3), random.randint(1, 3)),
        "padding": tuple(random.randint(0, 1) for _ in range(4)),
        "ceil_mode": seed < 3,
        "count_include_pad": seed % 4 < 2,
    }
    x = np.random.default_rng(seed).standard_normal((1, 2, 7, random.randint(5, 9)), "float32")
    module = pool(kind, attributes, x.shape, False)
    y = structir.interpret(module, "main", x)
    backward = passes.Gradient(parameters="x")(
        pool(kind, attributes, x.shape, False, "R.sum(R.square(y))")
    )
    wanted = structir.interpret(backward, "main_adjoint", x)[1][0]
    own = structir.parse(
        f"@R.function\ndef main(g: R.Tensor({y.shape!r}, 'float32'), "
        f"x: R.Tensor({x.shape!r}, 'float32')):\n"
        f"    return R.grad.{kind}_pool2d_backward(g, x{written(attributes)})\n"
    )
    for result in (
        structir.interpret(own, "main", 2 * y, x),
        structir.compile(own)["main"](2 * y, x),
    ):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
