"""Windows, normalizations, images, sorting and losses against ONNX Runtime and NumPy."""

import itertools
from functools import partial

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import structir
from structir.errors import StructIRError
from tests.ops.calls import called, evaluated

RNG = np.random.default_rng(23)
KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "u": TensorProto.UINT8}


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


def whole(limit, *shape):
    return RNG.integers(0, limit, shape).astype("int64")


def onnx(kind, *args, out=TensorProto.FLOAT, version=20, **attributes):
    """Runs one ONNX op in ONNX Runtime."""
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(args)]
    given = {n: a for n, a in zip(names, args, strict=True) if a is not None}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
    ]
    node = helper.make_node(kind, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", out, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    model.ir_version = 9
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, given)[0]


def close(result, wanted, tolerance=2e-5):
    assert result.shape == wanted.shape
    np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)


SPATIAL = {1: (9,), 2: (7, 8), 3: (5, 6, 4)}


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("strides", "pads", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2), (2, 2, 1, 4)],
)
def test_convolution(count, strides, pads, dilation, groups):
    x, w = floats(2, 4, *SPATIAL[count]), floats(8, 4 // groups, *(3, 2, 2)[:count])
    numbers = {"strides": strides, "dilation": dilation, "groups": groups}
    result = evaluated(f"nn.conv{count}d", x, w, padding=[pads] * count, **numbers)
    wanted = onnx(
        "Conv",
        x,
        w,
        strides=[strides] * count,
        pads=[pads] * 2 * count,
        dilations=[dilation] * count,
        group=groups,
    )
    close(result, wanted, 1e-4)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("strides", "pads", "extra", "dilation", "groups"),
    [(1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (2, 0, 0, 2, 1), (3, 1, 2, 1, 2)],
)
def test_transposed_convolution(count, strides, pads, extra, dilation, groups):
    x, w = floats(2, 4, *SPATIAL[count]), floats(4, 3, *(3, 2, 2)[:count])
    numbers = {"strides": strides, "dilation": dilation, "groups": groups}
    result = evaluated(
        f"nn.conv{count}d_transpose", x, w, padding=pads, output_padding=extra, **numbers
    )
    wanted = onnx(
        "ConvTranspose",
        x,
        w,
        strides=[strides] * count,
        pads=[pads] * 2 * count,
        dilations=[dilation] * count,
        output_padding=[extra] * count,
        group=groups,
    )
    close(result, wanted, 1e-4)


def test_layouts_only_reorder_axes():
    x, w = floats(2, 4, 7, 8), floats(6, 4, 3, 3)
    plain = evaluated("nn.conv2d", x, w, padding=1)
    moved = evaluated(
        "nn.conv2d",
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
        np.ascontiguousarray(w.transpose(2, 3, 1, 0)),
        padding=1,
        data_layout="NHWC",
        kernel_layout="HWIO",
        out_layout="NCHW",
    )
    close(moved, plain)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("size", "strides", "pads", "ceil"), [(2, 2, 0, False), (3, 1, 1, False), (2, 2, 0, True)]
)
def test_pools(count, size, strides, pads, ceil):
    x = floats(2, 3, *SPATIAL[count])
    numbers = {"pool_size": size, "strides": strides, "padding": pads, "ceil_mode": ceil}
    stated = {
        "kernel_shape": [size] * count,
        "strides": [strides] * count,
        "pads": [pads] * 2 * count,
        "ceil_mode": int(ceil),
    }
    close(evaluated(f"nn.max_pool{count}d", x, **numbers), onnx("MaxPool", x, **stated))
    close(evaluated(f"nn.avg_pool{count}d", x, **numbers), onnx("AveragePool", x, **stated))
    if not ceil:
        result = evaluated(f"nn.avg_pool{count}d", x, count_include_pad=True, **numbers)
        close(result, onnx("AveragePool", x, count_include_pad=1, **stated))


def test_dilated_max_pool():
    x = floats(2, 3, 9, 9)
    result = evaluated("nn.max_pool2d", x, pool_size=3, dilation=2, strides=2)
    close(result, onnx("MaxPool", x, kernel_shape=[3, 3], dilations=[2, 2], strides=[2, 2]))


@pytest.mark.parametrize("wanted", [1, 2, 3, 5])
def test_adaptive_pool(wanted):
    x = floats(2, 3, 7)
    cuts = [(k * 7 // wanted, -(-(k + 1) * 7 // wanted)) for k in range(wanted)]
    means = np.stack([x[..., a:b].mean(-1) for a, b in cuts], -1)
    close(evaluated("nn.adaptive_avg_pool1d", x, wanted), means)


def test_norms_by_channel():
    x, gamma, beta = floats(2, 6, 3, 5), floats(6), floats(6)
    result = evaluated("nn.instance_norm", x, gamma, beta, 1, (2, 3))
    close(result, onnx("InstanceNormalization", x, gamma, beta, version=18), 1e-4)
    result = evaluated("nn.group_norm", x, gamma, beta, 3, 1, (2, 3))
    close(result, onnx("GroupNormalization", x, gamma, beta, num_groups=3, version=21), 1e-4)
    mean, var = floats(6), np.abs(floats(6)) + 0.1
    result, *running = evaluated("nn.batch_norm", x, gamma, beta, mean, var, training=False)
    close(result, onnx("BatchNormalization", x, gamma, beta, mean, var), 1e-4)
    close(running[0], mean)


def test_batch_norm_in_training_uses_the_batch():
    x, one, zero = floats(4, 3, 5), np.ones(3, "float32"), np.zeros(3, "float32")
    result, mean, var = evaluated("nn.batch_norm", x, one, zero, zero, one, momentum=0.25)
    centre, spread = x.mean((0, 2)), x.var((0, 2))
    close(result, (x - centre[:, None]) / np.sqrt(spread[:, None] + 1e-5), 1e-4)
    close(mean, 0.25 * centre)
    close(var, 0.75 + 0.25 * spread)


@pytest.mark.parametrize("sizes", [(8, 4), (3, 9), (5, 7), (10, 14)])
@pytest.mark.parametrize(
    ("method", "mode", "rounding"),
    [
        ("linear", "half_pixel", None),
        ("linear", "align_corners", None),
        ("linear", "asymmetric", None),
        ("linear", "pytorch_half_pixel", None),
        ("cubic", "half_pixel", None),
        ("cubic", "align_corners", None),
        ("nearest_neighbor", "half_pixel", "round_prefer_floor"),
        ("nearest_neighbor", "asymmetric", "floor"),
        ("nearest_neighbor", "asymmetric", "ceil"),
        ("nearest_neighbor", "half_pixel", "round_prefer_ceil"),
    ],
)
def test_resize(sizes, method, mode, rounding):
    x = floats(1, 2, 5, 7)
    stated = {"nearest_mode": rounding} if rounding else {}
    target = np.array([1, 2, *sizes])
    wanted = onnx(
        "Resize",
        x,
        None,
        None,
        target,
        mode=method.split("_")[0],
        coordinate_transformation_mode=mode,
        **stated,
        version=18,
    )
    result = evaluated(
        "image.resize2d",
        x,
        sizes,
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method=rounding or "round",
    )
    close(result, wanted, 1e-4)


@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [True, False])
def test_grid_sample(method, padding, corners):
    x, grid = floats(2, 3, 5, 6), floats(2, 4, 3, 2) * 0.6
    names = {"bilinear": "linear", "bicubic": "cubic"}
    wanted = onnx(
        "GridSample",
        x,
        grid,
        mode=names.get(method, method),
        padding_mode=padding,
        align_corners=int(corners),
    )
    moved = np.ascontiguousarray(grid.transpose(0, 3, 1, 2))
    result = evaluated(
        "image.grid_sample",
        x,
        moved,
        method=method,
        padding_mode=padding,
        align_corners=corners,
    )
    close(result, wanted, 1e-4)


@pytest.mark.parametrize("corners", [True, False])
def test_affine_grid(corners):
    theta = floats(2, 2, 3)
    wanted = onnx("AffineGrid", theta, np.array([2, 1, 4, 5]), align_corners=int(corners))
    result = evaluated("image.affine_grid", theta, (4, 5), align_corners=corners)
    close(result, wanted.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("ratio", [0, 2])
def test_roi_align(aligned, ratio):
    x, batch = floats(2, 3, 8, 9), np.array([1, 0])
    corners = np.array([[0.5, 1.0, 5.5, 6.0], [2.0, 0.0, 8.0, 3.5]], "float32")
    wanted = onnx(
        "RoiAlign",
        x,
        corners,
        batch,
        output_height=2,
        output_width=2,
        sampling_ratio=ratio,
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )
    rois = np.concatenate([batch[:, None].astype("float32"), corners], 1)
    stated = {"pooled_size": 2, "spatial_scale": 1.0, "sample_ratio": ratio or -1}
    result = evaluated("vision.roi_align", x, rois, aligned=aligned, **stated)
    close(result, wanted, 1e-4)
    greatest = evaluated("vision.roi_align", x, rois, aligned=aligned, mode="max", **stated)
    assert np.all(greatest >= result - 1e-6)


def test_roi_pool():
    x = floats(2, 3, 8, 9)
    corners = np.array([[0, 1, 5, 6], [2, 0, 8, 3]], "float32")
    rois = np.concatenate([np.array([[1.0], [0.0]], "float32"), corners], 1)
    wanted = onnx("MaxRoiPool", x, rois, pooled_shape=[2, 3], spatial_scale=1.0)
    close(evaluated("vision.roi_pool", x, rois, (2, 3), 1.0), wanted)


def test_overlapping_boxes_are_suppressed():
    boxes = np.abs(floats(2, 6, 4)) * 2
    boxes[..., 2:] += boxes[..., :2]
    scores = RNG.random((2, 3, 6)).astype("float32")
    limits = [np.array(3), np.array(0.3, "float32"), np.array(0.2, "float32")]
    picks, count = measured("vision.all_class_non_max_suppression", boxes, scores, *limits)
    limits[0] = limits[0].reshape(1)
    wanted = onnx(
        "NonMaxSuppression", boxes, scores, *[x.reshape(1) for x in limits], out=TensorProto.INT64
    )
    assert {tuple(row) for row in picks[: count[0]]} == {tuple(row) for row in wanted}


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [True, False])
def test_nll_loss(reduction, weighted):
    x, targets, weights = floats(3, 5, 4), whole(5, 3, 4), np.abs(floats(5))
    weights = weights if weighted else None
    wanted = onnx(
        "NegativeLogLikelihoodLoss", x, targets, weights, reduction=reduction, ignore_index=2
    )
    args = [x, targets] if weights is None else [x, targets, weights]
    result = evaluated("nn.nll_loss", *args, reduction=reduction, ignore_index=2)
    close(result, wanted)


def test_quantization():
    x = floats(3, 4) * 50
    scale, zero = np.array([0.5, 1.0, 2.0, 0.25], "float32"), np.array([3, 128, 0, 7], "uint8")
    wanted = onnx("QuantizeLinear", x, scale, zero, out=TensorProto.UINT8, axis=1)
    result = evaluated("quantize", x, scale, zero, axis=1, out_dtype="uint8")
    np.testing.assert_array_equal(result, wanted)
    back = onnx("DequantizeLinear", wanted, scale, zero, axis=1)
    close(evaluated("dequantize", wanted, scale, zero, axis=1), back)


def test_attention():
    q, k, v, bias = floats(2, 3, 2, 4), floats(2, 5, 2, 4), floats(2, 5, 2, 6), floats(2, 1, 3, 5)

    def wanted(mask):
        scores = np.einsum("bshd,buhd->bhsu", q, k) / 2 + mask
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
        return np.einsum("bhsu,buhe->bshe", weights, v)

    close(evaluated("nn.attention", q, k, v), wanted(0))
    close(evaluated("nn.attention", q, k, v, bias), wanted(bias))
    rows, columns = np.arange(3)[:, None], np.arange(5)
    for causal, offset in (("TopLeft", 0), ("BottomRight", 2)):
        hidden = columns > rows + offset
        result = evaluated("nn.attention", q, k, v, causal_mask=causal)
        close(result, wanted(np.where(hidden, -np.inf, 0)))
        hidden = hidden | (columns <= rows + offset - 2)
        result = evaluated("nn.attention", q, k, v, causal_mask=causal, window_size=2)
        close(result, wanted(np.where(hidden, -np.inf, 0)))


def test_attention_of_packed_sequences():
    q, k, v = floats(1, 7, 2, 4), floats(1, 7, 2, 4), floats(1, 7, 2, 3)
    starts = np.array([0, 3, 7], "int32")
    result = evaluated("nn.attention_var_len", q, k, v, starts, np.array(4, "int32"))
    for a, b in ((0, 3), (3, 7)):
        part = [np.ascontiguousarray(x[:, a:b]) for x in (q, k, v)]
        close(result[:, a:b], evaluated("nn.attention", *part))


@pytest.mark.parametrize("descending", [True, False])
def test_sorting(descending):
    x = RNG.integers(0, 5, (3, 8)).astype("float32")
    sign = -1 if descending else 1
    wanted = np.argsort(sign * x, -1, kind="stable")
    np.testing.assert_array_equal(evaluated("argsort", x, -1, descending), wanted)
    sorted_ = np.take_along_axis(x, wanted, -1)
    np.testing.assert_array_equal(evaluated("sort", x, -1, descending), sorted_)
    values, positions = evaluated("topk", x, 3, 1, "both", descending)
    np.testing.assert_array_equal(values, sorted_[:, :3])
    np.testing.assert_array_equal(positions, wanted[:, :3])
    np.testing.assert_array_equal(evaluated("sort", x, 0, descending), sign * np.sort(sign * x, 0))


def test_median():
    x = floats(3, 5, 7)
    value, position = evaluated("median", x, axis=1)
    np.testing.assert_array_equal(value, np.median(x, 1))
    np.testing.assert_array_equal(np.take_along_axis(x, position[:, None], 1)[:, 0], value)
    assert evaluated("median", x) == np.median(x)


MEDIAN = """
@R.function
def main(x: R.Tensor(("n", "k"), "{}")):
    return R.median(x, axis=(0, 1), keepdims=True)
"""


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_the_median_of_no_elements(dtype):
    module = structir.parse(MEDIAN.format(dtype))
    for run in (structir.compile(module), partial(structir.interpret, module, "main")):
        if dtype == "float32":
            assert np.isnan(run(np.zeros((2, 0), dtype))).tolist() == [[True]]
        else:
            with pytest.raises(StructIRError):
                run(np.zeros((2, 0), dtype))
    assert [r.size for r in evaluated("median", np.zeros((0, 0), dtype), axis=1)] == [0, 0]
    with pytest.raises(StructIRError, match="at least 1 element"):
        evaluated("median", np.zeros((2, 0), dtype), axis=1)


def measured(name, *args, **keywords):
    """Evaluates an op with a data-dependent result size."""
    call, values = called(name, *args, **keywords)
    return call.op.definition.reference(call, values)


def test_unique_and_nonzero():
    x = RNG.integers(0, 4, (3, 5))
    result = measured("unique", x, return_index=True, return_inverse=True, return_counts=True)
    wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for one, other in zip(result, wanted, strict=True):
        np.testing.assert_array_equal(one, other.reshape(one.shape))
    np.testing.assert_array_equal(measured("nonzero", x), np.array(np.nonzero(x)))
    edges = np.array([0, 1, 3])
    np.testing.assert_array_equal(evaluated("bucketize", x, edges), np.searchsorted(edges, x))


def test_windows_and_scans():
    wanted = onnx("HammingWindow", np.array(9), periodic=0)
    close(evaluated("hamming_window", 9, False, 25 / 46, 21 / 46, "float32"), wanted)
    x = floats(3, 4)
    close(evaluated("cumprod", x, axis=1), np.cumprod(x, 1))
    close(evaluated("cumsum", x, axis=0, exclusive=True), np.cumsum(x, 0) - x)
    a = floats(3, 4)
    for sign in (1, -1):
        wanted = np.zeros((3, 4))
        for i, j in itertools.combinations(range(3, -1, -1), 2):
            wanted[:, i] += x[:, ::sign][:, j] * np.prod(a[:, ::sign][:, j + 1 : i], axis=1)
        recurrence = evaluated("linear_recurrence", a, x, axis=1, reverse=sign < 0)
        close(recurrence, wanted[:, ::sign])
    close(evaluated("log_add_exp", x, x[::-1]), np.logaddexp(x, x[::-1]))


def test_backward_pools_are_adjoints():
    x = floats(2, 3, 7, 6)
    numbers = {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 0, 1, 1)}
    for name in ("max_pool2d", "avg_pool2d"):
        y = evaluated(f"nn.{name}", x, **numbers)
        up, step = floats(*y.shape), floats(*x.shape) * 1e-3
        grad = evaluated(f"grad.{name}_backward", up, x, **numbers)
        moved = evaluated(f"nn.{name}", x + step, **numbers).astype("float64")
        close(np.sum((moved - y) * up), np.sum(grad.astype("float64") * step), 1e-4)


def test_take_and_loss_backward():
    x, ids, up = floats(5, 4), whole(5, 3), floats(3, 4)
    wanted = np.zeros_like(x)
    np.add.at(wanted, ids, up)
    close(evaluated("grad.take_backward", up, x, ids, axis=0), wanted)
    x, targets, weights = floats(3, 5), whole(5, 3), np.abs(floats(5))
    up = np.array(2.0, "float32")
    grad = evaluated("grad.nll_loss_backward", up, x, targets, weights)
    step = floats(3, 5)
    change = evaluated("nn.nll_loss", x + step, targets, weights) - evaluated(
        "nn.nll_loss", x, targets, weights
    )
    close(np.sum(grad * step), up * change, 1e-4)


def test_sums_to_the_same_shape_keep_the_sign_of_zeros():
    x = -np.zeros((1, 3), "float32")
    for result in (
        evaluated("collapse_sum_like", x, x),
        evaluated("collapse_sum_to", x, shape=(1, 3)),
    ):
        assert np.signbit(result).all()
