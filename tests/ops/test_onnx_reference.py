"""Windows, resizing and normalizations against ONNX Runtime; ops on whole axes against NumPy."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.ops.calls import evaluated

RNG = np.random.default_rng(5)
TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "int8": TensorProto.INT8}


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


def onnx_result(kind, arrays, opset=18, **attributes):
    """Runs one node in ONNX Runtime."""
    names = [f"x{k}" for k in range(len(arrays))]
    node = helper.make_node(kind, names, ["y"], **attributes)
    inputs = [
        helper.make_tensor_value_info(n, TYPES[a.dtype.name], a.shape)
        for n, a in zip(names, arrays, strict=True)
    ]
    result = onnx_type(kind, arrays)
    output = helper.make_tensor_value_info("y", TYPES[result], None)
    graph = helper.make_graph([node], "graph", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


def onnx_type(kind, arrays):
    return {"QuantizeLinear": arrays[-1].dtype.name, "DequantizeLinear": "float32"}.get(
        kind, arrays[0].dtype.name
    )


def same(result, wanted):
    assert result.shape == wanted.shape
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


CONVOLUTIONS = [  # data, weight, stride, pads, dilation, groups
    ((2, 3, 9, 8), (4, 3, 3, 2), 2, (1, 1, 1, 1), 1, 1),
    ((1, 4, 7, 7), (6, 2, 3, 3), 1, (0, 1, 2, 1), 1, 2),
    ((2, 3, 11), (5, 3, 3), 2, (2, 2), 2, 1),
    ((2, 4, 6, 6), (4, 1, 3, 3), 1, (1, 1, 1, 1), 1, 4),
    ((1, 2, 5, 5, 5), (3, 2, 2, 2, 2), 2, (0,) * 6, 1, 1),
    ((1, 2, 3), (2, 2, 1), 1, (0, 0), 1, 1),
]


@pytest.mark.parametrize(("data", "weight", "stride", "pads", "dilation", "groups"), CONVOLUTIONS)
def test_convolution(data, weight, stride, pads, dilation, groups):
    rank = len(data) - 2
    x, w = floats(*data), floats(*weight)
    numbers = {"strides": [stride] * rank, "dilations": [dilation] * rank, "group": groups}
    wanted = onnx_result("Conv", [x, w], pads=list(pads), **numbers)
    result = evaluated(
        f"nn.conv{rank}d", x, w, strides=stride, padding=pads, dilation=dilation, groups=groups
    )
    same(result, wanted)


def test_convolution_in_other_layouts():
    x, w = floats(2, 4, 7, 6), floats(6, 2, 3, 3)
    wanted = onnx_result("Conv", [x, w], pads=[1, 0, 1, 0], group=2)
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    turned = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)
    result = evaluated("nn.conv2d", *turned, padding=(1, 0), groups=2, **layouts)
    same(result, wanted.transpose(0, 2, 3, 1))


def test_convolution_without_elements():
    assert evaluated("nn.conv2d", floats(0, 3, 5, 5), floats(2, 3, 3, 3)).shape == (0, 2, 3, 3)
    nothing = evaluated("nn.conv1d", floats(1, 0, 5), floats(2, 0, 3))
    np.testing.assert_array_equal(nothing, np.zeros((1, 2, 3)))


@pytest.mark.parametrize(
    ("data", "weight", "stride", "pads", "dilation", "groups", "extra"),
    [
        ((2, 4, 5, 6), (4, 3, 3, 2), 2, (1, 1, 1, 1), 1, 1, 1),
        ((1, 4, 6), (4, 2, 3), 3, (0, 0), 2, 2, 0),
        ((1, 2, 3, 3), (2, 2, 2, 2), 1, (0, 1, 1, 0), 1, 1, 0),
        ((1, 2, 3, 3, 2), (2, 2, 2, 2, 2), 2, (0,) * 6, 1, 1, 1),
    ],
)
def test_transposed_convolution(data, weight, stride, pads, dilation, groups, extra):
    rank = len(data) - 2
    x, w = floats(*data), floats(*weight)
    numbers = {"strides": [stride] * rank, "dilations": [dilation] * rank, "group": groups}
    spare = {"output_padding": [extra] * rank}
    wanted = onnx_result("ConvTranspose", [x, w], pads=list(pads), **numbers, **spare)
    result = evaluated(
        f"nn.conv{rank}d_transpose",
        x,
        w,
        strides=stride,
        padding=pads,
        output_padding=extra,
        dilation=dilation,
        groups=groups,
    )
    same(result, wanted)


@pytest.mark.parametrize(
    ("shape", "size", "stride", "pad", "dilation", "ceil"),
    [
        ((2, 3, 9, 8), (3, 2), 2, 1, 1, False),
        ((1, 2, 10), (3,), 2, 1, 2, False),
        ((1, 2, 7, 7), (3, 3), 2, 0, 1, True),
        ((1, 1, 4, 4, 4), (2, 2, 2), 2, 0, 1, False),
    ],
)
def test_pools(shape, size, stride, pad, dilation, ceil):
    rank = len(size)
    x = floats(*shape)
    numbers = {"strides": [stride] * rank, "pads": [pad] * 2 * rank, "ceil_mode": int(ceil)}
    own = {"pool_size": size, "strides": stride, "padding": pad, "ceil_mode": ceil}
    wide = [dilation] * rank
    wanted = onnx_result("MaxPool", [x], kernel_shape=size, dilations=wide, **numbers)
    same(evaluated(f"nn.max_pool{rank}d", x, dilation=dilation, **own), wanted)
    if dilation > 1:
        return
    for included in (False, True):
        wanted = onnx_result(
            "AveragePool", [x], kernel_shape=size, count_include_pad=int(included), **numbers
        )
        same(evaluated(f"nn.avg_pool{rank}d", x, count_include_pad=included, **own), wanted)


@pytest.mark.parametrize("size", [(3, 4), (1, 1), (7, 9), (10, 2)])
def test_adaptive_pool(size):
    x = floats(2, 3, 7, 9)
    wanted = np.zeros((2, 3, *size), "float32")
    for a, b in np.ndindex(*size):
        rows = slice(a * 7 // size[0], -(-(a + 1) * 7 // size[0]))
        columns = slice(b * 9 // size[1], -(-(b + 1) * 9 // size[1]))
        wanted[:, :, a, b] = x[:, :, rows, columns].mean((2, 3))
    same(evaluated("nn.adaptive_avg_pool2d", x, output_size=size), wanted)


def test_norms_by_channel():
    x, gamma, beta = floats(2, 6, 4, 3), floats(6), floats(6)
    wanted = onnx_result("InstanceNormalization", [x, gamma, beta], epsilon=1e-5)
    same(evaluated("nn.instance_norm", x, gamma, beta, channel_axis=1, axes=(2, 3)), wanted)
    groups = x.reshape(2, 3, 2, 4, 3)
    spread = np.sqrt(groups.var((2, 3, 4), keepdims=True) + 1e-5)
    standard = ((groups - groups.mean((2, 3, 4), keepdims=True)) / spread).reshape(x.shape)
    wanted = standard * gamma[:, None, None] + beta[:, None, None]
    result = evaluated("nn.group_norm", x, gamma, beta, num_groups=3, channel_axis=1, axes=(2, 3))
    same(result, wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_quantization(axis):
    x = floats(3, 3) * 40
    scale, zero = np.array([0.5, 0.25, 1.5], "float32"), np.array([1, -3, 0], "int8")
    wanted = onnx_result("QuantizeLinear", [x, scale, zero], axis=axis)
    result = evaluated("quantize", x, scale, zero, axis=axis)
    np.testing.assert_array_equal(result, wanted)
    back = onnx_result("DequantizeLinear", [wanted, scale, zero], axis=axis)
    same(evaluated("dequantize", wanted, scale, zero, axis=axis), back)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_negative_log_likelihood(reduction, weighted):
    x, targets = floats(4, 3, 2), RNG.integers(0, 3, (4, 2))
    weights = [np.abs(floats(3)) + 0.1] if weighted else []
    wanted = onnx_result(
        "NegativeLogLikelihoodLoss", [x, targets, *weights], reduction=reduction, ignore_index=1
    )
    result = evaluated("nn.nll_loss", x, targets, *weights, reduction=reduction, ignore_index=1)
    same(result, np.asarray(wanted))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting(axis, descending):
    x = RNG.integers(0, 4, (3, 5)).astype("float32")  # many are equal
    sign = -1 if descending else 1
    wanted = np.argsort(sign * x, axis=axis, kind="stable")
    np.testing.assert_array_equal(evaluated("argsort", x, axis=axis, descending=descending), wanted)
    values = np.take_along_axis(x, wanted, axis)
    np.testing.assert_array_equal(evaluated("sort", x, axis=axis, descending=descending), values)
    first = [v.take(range(2), axis) for v in (values, wanted)]
    result = evaluated("topk", x, k=2, axis=axis, largest=descending)
    np.testing.assert_array_equal(result[0], first[0])
    np.testing.assert_array_equal(result[1], first[1])


def test_bucketize():
    edges, x = np.array([0.0, 1.0, 2.5], "float32"), floats(3, 4) * 2
    result = evaluated("bucketize", x, edges)
    np.testing.assert_array_equal(result, np.searchsorted(edges, x))
    assert result.dtype == np.int64


def test_attention():
    q, k, v = floats(2, 3, 2, 4), floats(2, 5, 2, 4), floats(2, 5, 2, 6)
    scores = np.einsum("bshd,buhd->bhsu", q, k) / 2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    same(evaluated("nn.attention", q, k, v), np.einsum("bhsu,buhe->bshe", weights, v))
