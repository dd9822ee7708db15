"""Results of ops as PyTorch and ONNX Runtime give them: `python tests/data/independent.py` writes
`independent.npz` anew, in an environment that has torch, onnx and onnxruntime."""

import itertools
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper

RNG = np.random.default_rng(20)
CASES = []
ARRAYS = {}

UNARY = (
    *("abs", "negative", "square", "sign", "ceil", "floor", "round", "trunc", "exp", "sin", "cos"),
    *("tan", "sinh", "cosh", "tanh", "atan", "asinh", "erf", "sigmoid"),
    *("isnan", "isinf", "isfinite"),
)


def reals(*shape):
    return RNG.standard_normal(shape).astype("float32")


def fractions(*shape):
    return RNG.uniform(0.05, 0.95, shape).astype("float32")


def whole(limit, *shape, dtype="int64"):
    return RNG.integers(0, limit, shape).astype(dtype)


def truths(*shape):
    return RNG.random(shape) > 0.5


def plain(value):
    """A value as NumPy, whatever it came as."""
    if isinstance(value, torch.Tensor):
        return value.detach().numpy()
    if isinstance(value, torch.Size):
        return np.array(value)
    if isinstance(value, tuple | list):
        return tuple(plain(v) for v in value)
    return np.asarray(value)


def stored(value):
    """A value for the list of cases: arrays by the number under which they are kept."""
    if isinstance(value, np.ndarray):
        ARRAYS[f"a{len(ARRAYS)}"] = value
        return {"array": f"a{len(ARRAYS) - 1}"}
    if isinstance(value, list):
        return {"list": [stored(v) for v in value]}
    if isinstance(value, tuple):
        return {"tuple": [stored(v) for v in value]}
    return {"value": value}


def case(op, result, *args, by="torch", **keywords):
    """One call, and what it gives elsewhere."""
    CASES.append(
        {
            "op": op,
            "by": by,
            "args": [stored(a) for a in args],
            "keywords": {n: stored(v) for n, v in keywords.items()},
            "result": stored(plain(result)),
        }
    )


def tensors(*arrays):
    return [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]


def like(op, function, *arrays, **keywords):
    """A case of a function on tensors that takes the same operands."""
    case(op, function(*tensors(*arrays)), *arrays, by=f"torch.{name_of(function)}", **keywords)


def name_of(function):
    return getattr(function, "__name__", "Tensor")


def run_onnx(kind, inputs, results=1, opset=18, **attributes):
    """What ONNX Runtime makes of one node."""
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(inputs)]
    outputs = [f"y{k}" for k in range(results)]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, inputs, strict=True)
        if a is not None
    ]
    made = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs]
    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, **attributes)], "g", infos, made
    )
    for info in graph.output:
        info.ClearField("type")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    given = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
    found = session.run(None, given)
    return found[0] if results == 1 else tuple(found)


def by_onnx(op, kind, inputs, *args, results=1, attributes=None, **keywords):
    """A case of an ONNX node."""
    result = run_onnx(kind, inputs, results, **(attributes or {}))
    case(op, result, *args, by=f"onnx.{kind}", **keywords)


def elementwise():
    for op, function in {
        "nn.relu": F.relu,
        "nn.relu6": F.relu6,
        "nn.silu": F.silu,
        "nn.gelu": F.gelu,
        "nn.selu": F.selu,
        "nn.leakyrelu": F.leaky_relu,
        "nn.softplus": F.softplus,
        **{name: getattr(torch, name) for name in UNARY},
    }.items():
        like(op, function, 2 * reals(3, 5))
    case("nn.gelu_tanh", F.gelu(torch.from_numpy(x := reals(7)), approximate="tanh"), x)
    case("nn.softplus", F.softplus(torch.from_numpy(x := 9 * reals(9)), 2.0, 5.0), x, 2.0, 5.0)
    like("nn.prelu", F.prelu, reals(2, 3, 4), reals(3))
    for op in ("log", "sqrt", "rsqrt", "asin", "acos", "atanh"):
        like(op, getattr(torch, op), fractions(4, 3))
    like("acosh", torch.acosh, 1 + fractions(5))
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5], "float32")
    for op in ("isnan", "isinf", "isfinite", "exp", "tanh", "sigmoid", "floor"):
        like(op, getattr(torch, op), special)
    like("round", torch.round, np.array([0.5, 1.5, 2.5, -0.5, -1.5], "float32"))
    case("clip", torch.clamp(torch.from_numpy(x := reals(6)), -0.5, 0.7), x, -0.5, 0.7)
    like("logical_not", torch.logical_not, truths(5))
    like("bitwise_not", torch.bitwise_not, whole(9, 5))
    for dtype in ("int32", "float64", "bool", "float16"):
        x = 3 * reals(4, 2)
        made = torch.from_numpy(x).to(getattr(torch, dtype))
        case("astype", made, x, dtype, by="torch.Tensor.to")
    x = reals(3).astype("float64")
    case("wrap_param", torch.from_numpy(x).to(torch.float32), x, "float32", by="torch.Tensor.to")


def binary():
    pairs = {
        "add": torch.add,
        "subtract": torch.subtract,
        "multiply": torch.multiply,
        "divide": torch.divide,
        "floor_divide": torch.floor_divide,
        "floor_mod": torch.remainder,
        "mod": torch.fmod,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "atan2": torch.atan2,
        "log_add_exp": torch.logaddexp,
        "equal": torch.eq,
        "not_equal": torch.ne,
        "less": torch.lt,
        "less_equal": torch.le,
        "greater": torch.gt,
        "greater_equal": torch.ge,
    }
    for op, function in pairs.items():
        like(op, function, reals(2, 1, 4), reals(3, 1))
    for op in ("floor_divide", "floor_mod", "mod"):
        like(op, pairs[op], whole(9, 6) - 4, np.array([1, -2, 3, -3, 2, 4]))
    for op in ("equal", "less", "greater_equal"):
        like(op, pairs[op], whole(3, 4, 4), whole(3, 4))
    like("power", torch.pow, fractions(3, 1), reals(4))
    for op, function in {
        "bitwise_and": torch.bitwise_and,
        "bitwise_or": torch.bitwise_or,
        "bitwise_xor": torch.bitwise_xor,
        "left_shift": torch.bitwise_left_shift,
        "right_shift": torch.bitwise_right_shift,
    }.items():
        like(op, function, whole(50, 3, 1), whole(5, 4))
    for op in ("logical_and", "logical_or", "logical_xor"):
        like(op, getattr(torch, op), truths(3, 1), truths(4))
    like("where", torch.where, truths(3, 1), reals(4), reals(2, 1, 1))
    x, y, z = reals(3, 4), reals(3, 4), reals(3, 4)
    case("ewise_fma", torch.addcmul(*tensors(z, x, y)), x, y, z, by="torch.addcmul")


def creation():
    for op in ("zeros", "ones"):
        case(op, getattr(torch, op)((2, 3), dtype=torch.int32), (2, 3), "int32")
        like(f"{op}_like", getattr(torch, f"{op}_like"), reals(2, 3))
    fill = np.array(2.5, "float32")
    case("full", torch.full((2, 3), 2.5), (2, 3), fill)
    case("full_like", torch.full((2, 3), 2.5), reals(2, 3), fill, by="torch.full")
    case("eye", torch.eye(3, 5), 3, 5)
    case("eye", torch.diag_embed(torch.ones(3), 1)[:4, :4], 4, 4, 1, by="torch.diag_embed")
    by_onnx("eye_like", "EyeLike", [x := reals(3, 4)], x, k=-1, attributes={"k": -1})
    for numbers in ((5,), (2, 9, 3), (9, 2, -2), (0.0, 1.0, 0.3)):
        case("arange", torch.arange(*numbers), *numbers)
    for periodic in (True, False):
        made = torch.hamming_window(7, periodic, 0.5, 0.4)
        case("hamming_window", made, 7, periodic, 0.5, 0.4)
    for k in (-1, 0, 2):
        for op in ("tril", "triu"):
            x = reals(2, 3, 4)
            case(op, getattr(torch, op)(torch.from_numpy(x), k), x, k)
    for axis in (0, 1, -1):
        ids, values = whole(4, 2, 3), np.array([-1.0, 2.0], "float32")
        one = run_onnx("OneHot", [ids, np.array(4), values], axis=axis)
        case("one_hot", one.astype("float64"), ids, 2.0, -1.0, 4, axis, by="onnx.OneHot")


def moving():
    x = reals(4, 5, 3)
    (t,) = tensors(x)
    case("permute_dims", t.permute(2, 0, 1), x, (2, 0, 1))
    case("expand_dims", t[:, None, :, :, None], x, (1, -1))
    case("squeeze", torch.squeeze(torch.from_numpy(one := reals(1, 3, 1)), 0), one, 0)
    case("flatten", t.flatten(), x)
    case("nn.batch_flatten", t.flatten(1), x)
    big = reals(2, 8, 3, 2)
    case("nn.pixel_shuffle", F.pixel_shuffle(*tensors(big), 2), big, 2)
    case("repeat", t.repeat_interleave(2, 1), x, 2, 1)
    case("tile", t.tile((2, 1, 3)), x, (2, 1, 3))
    case("flip", t.flip(1), x, 1)
    case("roll", t.roll(-3, 0), x, -3, 0)
    case("broadcast_to", t.broadcast_to(2, 4, 5, 3), x, (2, 4, 5, 3))
    case("reshape", t.reshape(6, -1), x, (6, -1))
    case("memory.view", t.view(3, 20), x, (3, 20))
    case("memory.view", t.view(torch.int32), x, None, "int32")
    case("concat", torch.cat([t, t[:2]], 0), [x, x[:2]], 0)
    case("stack", torch.stack([t, 2 * t], 1), [x, 2 * x], 1)
    case("split", torch.tensor_split(t, 2, 0), x, 2, 0)
    case("split", torch.tensor_split(t, [1, 3], 1), x, (1, 3), 1)
    case("meshgrid", torch.meshgrid(t[0, 0], t[0, :, 0], indexing="ij"), [x[0, 0], x[0, :, 0]])
    image = reals(1, 2, 4, 5)
    for mode, own in (
        ("constant", "constant"),
        ("reflect", "reflect"),
        ("replicate", "edge"),
        ("circular", "circular"),
    ):
        made = F.pad(torch.from_numpy(image), (1, 2, 2, 0), mode)
        case("nn.pad", made, image, (0, 0, 0, 0, 2, 0, 1, 2), own, by="torch.nn.functional.pad")
    starts, ends, steps = np.array([3, 0]), np.array([-5, 5]), np.array([-1, 2])
    axes = np.array([0, 1])
    sliced = run_onnx("Slice", [x, starts, ends, axes, steps])
    case("strided_slice", sliced, x, (0, 1), (3, 0), (-5, 5), (-1, 2), by="onnx.Slice")
    bounds = np.array([1, 0, 2]), np.array([4, 5, -5]), np.array([2, 3, -1])
    sliced = run_onnx("Slice", [x, *bounds[:2], np.arange(3), bounds[2]])
    case("dynamic_strided_slice", sliced, x, *bounds, by="onnx.Slice")
    lengths = np.array([2, 5, 1, 0])
    by_onnx(
        "reverse_sequence",
        "ReverseSequence",
        [x, np.maximum(lengths, 1)],
        x,
        np.maximum(lengths, 1),
        attributes={"batch_axis": 0, "time_axis": 1},
    )
    case("size", t.numel(), x)
    case("shape_of", t.shape, x)
    case("shape_to_tensor", torch.tensor([2, 3]), (2, 3))
    case("tensor_to_shape", torch.zeros(2, 3).shape, np.array([2, 3]))
    case("collapse_sum_to", t.sum_to_size(5, 1), x, (5, 1))
    case("collapse_sum_like", t.sum_to_size(5, 1), x, reals(5, 1))
    for op in ("grad.no_grad", "grad.start_checkpoint", "grad.end_checkpoint"):
        case(op, t.detach(), x, by="torch.Tensor.detach")
    case("nn.dropout", (F.dropout(t, 0.5, False), torch.ones_like(t)), x, 0.5)


def indexing():
    x, ids = reals(4, 5, 2), whole(4, 3, 2)
    t, i = tensors(x, ids)
    case("take", t[i], x, ids, 0)
    row = reals(9)
    case("take", torch.take(*tensors(row, ids)), row, ids)
    for axis in (0, 1):
        pick = whole(4, 3, 5, 2)
        case("gather_elements", torch.gather(t, axis, torch.from_numpy(pick)), x, pick, axis)
    by_onnx("gather_nd", "GatherND", [x, pair := whole(4, 3, 2)], x, pair)
    by_onnx(
        "gather_nd",
        "GatherND",
        [x, one := whole(5, 4, 3, 1)],
        x,
        one,
        1,
        attributes={"batch_dims": 1},
    )
    a, b = whole(4, 3, 1), whole(5, 2)
    case("index_tensor", t[tuple(tensors(a, b))], x, [a, b])
    for how, name in (
        ("update", "none"),
        ("add", "add"),
        ("mul", "mul"),
        ("max", "max"),
        ("min", "min"),
    ):
        data, new = reals(4, 3), reals(2, 3)
        ids = np.stack([RNG.permutation(4)[:2] for _ in range(3)], 1)
        if how != "update":
            ids = whole(4, 2, 3)
        by_onnx(
            "scatter_elements",
            "ScatterElements",
            [data, ids, new],
            data,
            ids,
            new,
            0,
            how,
            attributes={"axis": 0, "reduction": name},
        )
        places = np.array([[2], [0]]) if how == "update" else np.array([[2], [2]])
        by_onnx(
            "scatter_nd",
            "ScatterND",
            [data, places, new],
            data,
            places,
            new,
            how,
            attributes={"reduction": name},
        )
    data, values = reals(4, 3), reals(2, 3)
    for add, rows in ((False, np.array([3, 1])), (True, np.array([1, 1]))):
        d, r, v = tensors(data, rows, values)
        case("index_put", d.index_put((r,), v, accumulate=add), data, [rows], values, add)
    data, new = reals(6, 4), reals(3, 4)
    made = torch.slice_scatter(*tensors(data, new), 0, 0, 6, 2)
    case("slice_scatter", made, data, new, 0, 6, 2)
    data = whole(2, 3, 4)
    by_onnx("nonzero", "NonZero", [data], data)
    data = whole(5, 9)
    found = run_onnx("Unique", [data], 4, axis=0, sorted=1)
    case("unique", found, data, True, True, True, True, by="onnx.Unique")
    data = whole(2, 4, 3)
    found = run_onnx("Unique", [data], 4, axis=0, sorted=1)
    case("unique", (found[0], found[3]), data, return_counts=True, axis=0, by="onnx.Unique")


def reducing():
    x = reals(3, 4, 5)
    (t,) = tensors(x)
    for op, function in (
        ("sum", torch.sum),
        ("mean", torch.mean),
        ("max", torch.amax),
        ("min", torch.amin),
    ):
        case(op, function(t, (0, 2), True), x, (0, 2), True, by=f"torch.{function.__name__}")
        case(op, function(t, 1), x, 1, by=f"torch.{function.__name__}")
    case("prod", torch.prod(t, 1), x, 1)
    case("prod", torch.prod(t), x)
    case("variance", torch.var(t, (0, 2), correction=0), x, (0, 2), by="torch.var")
    case("std", torch.std(t, 1, correction=0, keepdim=True), x, 1, True)
    for op in ("argmax", "argmin"):
        case(op, getattr(torch, op)(t, 1), x, 1)
        case(op, getattr(torch, op)(t), x)
    for axis in (0, 2):
        case("cumsum", torch.cumsum(t, axis), x, axis)
        case("cumprod", torch.cumprod(t, axis), x, axis)
    by_onnx("cumsum", "CumSum", [x, np.array(1)], x, 1, None, True, attributes={"exclusive": 1})
    for axis, descending in itertools.product((0, 2), (False, True)):
        few = whole(3, 4, 3, 5).astype("float32")
        made = torch.sort(torch.from_numpy(few), dim=axis, descending=descending, stable=True)
        case("sort", made[0], few, axis, descending)
        if not descending:
            case("argsort", made[1].to(torch.int32), few, axis, descending, by="torch.sort")
    for largest in (True, False):
        made = torch.topk(t, 2, 1, largest)
        case("topk", (made[0], made[1].to(torch.int32)), x, 2, 1, "both", largest)
    case("median", torch.median(t, 2), x, 2)
    case("median", torch.median(t), x)
    edges = np.array([-0.5, 0.1, 0.9], "float32")
    for right in (False, True):
        made = torch.bucketize(*tensors(x, edges), right=right)
        case("bucketize", made, x, edges, False, right)
    chances, uniform, rows = fractions(2, 4), fractions(5, 1), whole(2, 5, 1)
    sums = torch.cumsum(torch.from_numpy(chances / chances.sum(1, keepdims=True)), 1)
    picked = torch.searchsorted(sums[rows[:, 0]], torch.from_numpy(uniform))
    case("multinomial_from_uniform", picked, chances, uniform, rows, by="torch.searchsorted")


def products():
    like("matmul", torch.matmul, reals(2, 1, 3, 4), reals(5, 4, 2))
    like("matmul", torch.matmul, reals(4), reals(2, 4, 3))
    like("linear", F.linear, reals(2, 3, 4), reals(5, 4), reals(5))
    like("outer", torch.outer, reals(3), reals(4))
    for text, shapes in (
        ("bij,bjk->ik", ((2, 3, 4), (2, 4, 5))),
        ("ii->i", ((3, 3),)),
        ("i,j", ((2,), (3,))),
    ):
        arrays = [reals(*s) for s in shapes]
        case("einsum", torch.einsum(text, *tensors(*arrays)), arrays, text)
    spaces = {
        1: ((2, 4, 9), (6, 2, 3)),
        2: ((2, 4, 7, 6), (6, 2, 3, 2)),
        3: ((1, 2, 4, 5, 4), (4, 1, 2, 3, 2)),
    }
    for rank, (data, weight) in spaces.items():
        x, w = reals(*data), reals(*weight)
        how = {"padding": 1, "groups": 2}
        made = getattr(F, f"conv{rank}d")(*tensors(x, w), stride=2, **how)
        case(f"nn.conv{rank}d", made, x, w, strides=2, **how)
        turned = w.reshape(2, weight[0] // 2, *weight[1:]).swapaxes(1, 2)
        turned = np.ascontiguousarray(turned.reshape(data[1], -1, *weight[2:]))
        made = getattr(F, f"conv_transpose{rank}d")(
            *tensors(x, turned), stride=2, output_padding=1, **how
        )
        case(f"nn.conv{rank}d_transpose", made, x, turned, strides=2, output_padding=1, **how)
        size = {"kernel_size": 3, "stride": 2, "padding": 1}
        own = {"pool_size": 3, "strides": 2, "padding": 1}
        wide = reals(*data)
        made = getattr(F, f"max_pool{rank}d")(*tensors(wide), **size)
        case(f"nn.max_pool{rank}d", made, wide, **own)
        for included in (False, True):
            made = getattr(F, f"avg_pool{rank}d")(
                *tensors(wide), count_include_pad=included, **size
            )
            case(f"nn.avg_pool{rank}d", made, wide, count_include_pad=included, **own)
        made = getattr(F, f"adaptive_avg_pool{rank}d")(*tensors(wide), 3)
        case(f"nn.adaptive_avg_pool{rank}d", made, wide, 3)


def networks():
    x, gamma, beta = reals(2, 4, 3, 5), reals(4), reals(4)
    t, g, b = tensors(x, gamma, beta)
    for axis in (1, -1):
        case("nn.softmax", F.softmax(t, axis), x, axis)
        case("nn.log_softmax", F.log_softmax(t, axis), x, axis)
    scale, shift = reals(3, 5), reals(3, 5)
    case(
        "nn.layer_norm", F.layer_norm(t, (3, 5), *tensors(scale, shift)), x, scale, shift, (-2, -1)
    )
    case("nn.rms_norm", F.rms_norm(t, (3, 5), *tensors(scale), 1e-5), x, scale, (-2, -1))
    case("nn.group_norm", F.group_norm(t, 2, g, b), x, gamma, beta, 2, 1, (2, 3))
    case("nn.instance_norm", F.instance_norm(t, weight=g, bias=b), x, gamma, beta, 1, (2, 3))
    mean, var = reals(4), fractions(4)
    made = F.batch_norm(t, *tensors(mean, var), g, b)
    case("nn.batch_norm", (made, mean, var), x, gamma, beta, mean, var, training=False)
    by_onnx(
        "nn.batch_norm",
        "BatchNormalization",
        [x, gamma, beta, mean, var],
        x,
        gamma,
        beta,
        mean,
        var,
        results=3,
        attributes={"momentum": 0.9, "training_mode": 1},
    )
    q, k, v = reals(2, 3, 2, 4), reals(2, 5, 2, 4), reals(2, 5, 2, 6)
    heads = [a.transpose(1, 2) for a in tensors(q, k, v)]
    made = F.scaled_dot_product_attention(*heads).transpose(1, 2)
    case("nn.attention", made, q, k, v, by="torch.nn.functional.scaled_dot_product_attention")
    bias = reals(2, 2, 3, 5)
    made = F.scaled_dot_product_attention(*heads, attn_mask=torch.from_numpy(bias), scale=0.3)
    case("nn.attention", made.transpose(1, 2), q, k, v, bias, 0.3)
    made = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2)
    case("nn.attention", made, q, k, v, causal_mask="TopLeft")
    starts, longest = np.array([0, 2, 5], "int32"), np.array(3, "int32")
    packed = reals(1, 5, 2, 4)
    (p,) = tensors(packed)
    parts = [p[:, a:b].transpose(1, 2) for a, b in itertools.pairwise(starts)]
    made = torch.cat([F.scaled_dot_product_attention(a, a, a).transpose(1, 2) for a in parts], 1)
    case("nn.attention_var_len", made, packed, packed, packed, starts, longest)
    scores, targets, weights = reals(4, 3, 2), whole(3, 4, 2), fractions(3)
    s, y, w = tensors(scores, targets, weights)
    for how in ("none", "sum", "mean"):
        made = F.nll_loss(s, y, w, reduction=how, ignore_index=1)
        case("nn.nll_loss", made, scores, targets, weights, how, 1)
        s.requires_grad_()
        (slope,) = torch.autograd.grad(F.nll_loss(s, y, w, reduction=how, ignore_index=1).sum(), s)
        ones = np.ones(made.shape, "float32")
        case(
            "grad.nll_loss_backward",
            slope,
            ones,
            scores,
            targets,
            weights,
            how,
            1,
            by="torch.autograd",
        )
    a, b = reals(3, 4), fractions(3, 4)
    case("nn.cross_entropy_with_logits", -torch.sum(torch.mul(*tensors(a, b))) / 3, a, b)
    image = reals(1, 2, 6, 5)
    (t,) = tensors(image)
    t.requires_grad_()
    for op, function in (("max", F.max_pool2d), ("avg", F.avg_pool2d)):
        made = function(t, 3, 2, 1, **({"count_include_pad": False} if op == "avg" else {}))
        back = reals(*made.shape)
        (slope,) = torch.autograd.grad(made, t, torch.from_numpy(back))
        windows = ((3, 3), (2, 2), (1, 1, 1, 1))
        case(f"grad.{op}_pool2d_backward", slope, back, image, *windows, by="torch.autograd")
    table, ids = reals(4, 3), np.array([1, 3, 1])
    t, i = tensors(table, ids)
    t.requires_grad_()
    (slope,) = torch.autograd.grad(t[i], t, torch.from_numpy(back := reals(3, 3)))
    case("grad.take_backward", slope, back, table, ids, 0, by="torch.autograd")


def images():
    x = reals(1, 2, 4, 5)
    for (mode, own), where in itertools.product(
        (("nearest", "nearest_neighbor"), ("linear", "linear"), ("cubic", "cubic")),
        ("half_pixel", "align_corners", "asymmetric"),
    ):
        extra = {"nearest_mode": "round_prefer_floor"} if mode == "nearest" else {}
        made = run_onnx(
            "Resize",
            [x, None, None, np.array([1, 2, 7, 3])],
            mode=mode,
            coordinate_transformation_mode=where,
            **extra,
        )
        rounding = {"rounding_method": "round_prefer_floor"} if extra else {}
        case(
            "image.resize2d",
            made,
            x,
            (7, 3),
            method=own,
            coordinate_transformation_mode=where,
            by="onnx.Resize",
            **rounding,
        )
    x = reals(1, 2, 3, 4, 3)
    made = F.interpolate(*tensors(x), size=(5, 2, 4), mode="trilinear")
    case("image.resize3d", made, x, (5, 2, 4), by="torch.nn.functional.interpolate")
    data, grid = reals(2, 3, 4, 5), 2.4 * fractions(2, 2, 3, 3) - 1.2
    places = np.moveaxis(grid, 1, -1)
    for mode, pad, corners in itertools.product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (True, False)
    ):
        made = F.grid_sample(*tensors(data, places), mode, pad, corners)
        case("image.grid_sample", made, data, grid, mode, "NCHW", pad, corners)
    for corners in (True, False):
        maps = reals(2, 2, 3)
        made = F.affine_grid(*tensors(maps), (2, 1, 3, 4), corners).permute(0, 3, 1, 2)
        case("image.affine_grid", made, maps, (3, 4), corners)
    x = 40 * reals(3, 3)
    scale, zero = np.array([0.5, 0.25, 1.5], "float32"), np.array([1, -3, 0], "int8")
    for axis in (0, 1):
        whole_numbers = run_onnx("QuantizeLinear", [x, scale, zero], axis=axis)
        case("quantize", whole_numbers, x, scale, zero, axis, by="onnx.QuantizeLinear")
        made = run_onnx("DequantizeLinear", [whole_numbers, scale, zero], axis=axis)
        case("dequantize", made, whole_numbers, scale, zero, axis, by="onnx.DequantizeLinear")
    x = reals(2, 2, 8, 8)
    rois = np.array([[0, 1, 1, 6, 5], [1, 0, 2, 7, 7]], "float32")
    for aligned, mode in ((False, "avg"), (True, "avg")):
        made = run_onnx(
            "RoiAlign",
            [x, rois[:, 1:], rois[:, 0].astype("int64")],
            coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
            mode=mode,
            output_height=3,
            output_width=2,
            sampling_ratio=2,
            spatial_scale=0.75,
        )
        case(
            "vision.roi_align",
            made,
            x,
            rois,
            (3, 2),
            0.75,
            2,
            aligned,
            "NCHW",
            mode,
            by="onnx.RoiAlign",
        )
    made = run_onnx("MaxRoiPool", [x, rois], pooled_shape=[3, 2], spatial_scale=1.0)
    case("vision.roi_pool", made, x, rois, (3, 2), 1.0, by="onnx.MaxRoiPool")
    corners = fractions(1, 6, 2)
    boxes = np.concatenate([corners, corners + 0.3 + 0.3 * fractions(1, 6, 2)], -1)
    scores = fractions(1, 2, 6)
    limits = np.array(3), np.array(0.3, "float32"), np.array(0.2, "float32")
    picks = run_onnx(
        "NonMaxSuppression", [boxes, scores, limits[0][None], limits[1][None], limits[2][None]]
    )
    total = np.array([len(picks)])
    case(
        "vision.all_class_non_max_suppression",
        (picks, total),
        boxes,
        scores,
        *limits,
        by="onnx.NonMaxSuppression",
    )


def experts():
    rows, matrices, groups = reals(6, 3), reals(4, 3, 5), whole(4, 6)
    x, weight, index = tensors(rows, matrices, groups)
    product = torch.bmm(x[:, None], weight[index])[:, 0]
    case("grouped_matmul", product, rows, matrices, groups, by="torch.bmm")


def algebra():
    x = whole(4, 3, 6).astype("float32")
    for op, axis in itertools.product(("cummax", "cummin"), (0, 1)):
        case(op, tuple(getattr(torch, op)(torch.from_numpy(x), axis)), x, axis)
    a, b = reals(2, 4, 4), reals(2, 4, 3)
    definite = a @ a.swapaxes(1, 2) + np.eye(4, dtype="float32")
    t = torch.from_numpy(definite)
    case("linalg.slogdet", tuple(torch.linalg.slogdet(torch.from_numpy(a))), a)
    case("linalg.solve", torch.linalg.solve(t, torch.from_numpy(b)), definite, b)
    case("linalg.cholesky", torch.linalg.cholesky(t), definite)
    case("linalg.qr", tuple(torch.linalg.qr(torch.from_numpy(b))), b)
    x = np.linspace(-4, 9, 40, dtype="float32")
    case("erfc", torch.special.erfc(torch.from_numpy(x)), x)
    for op in ("exp2", "expm1", "lgamma", "digamma"):
        like(op, getattr(torch.special, "gammaln" if op == "lgamma" else op), x)
    like("log1p", torch.special.log1p, np.linspace(-1, 5, 40, dtype="float32"))
    like("erfinv", torch.special.erfinv, np.linspace(-1, 1, 41, dtype="float32"))
    like("ndtri", torch.special.ndtri, np.linspace(0, 1, 41, dtype="float32"))
    for lower in (True, False):
        solved = torch.linalg.solve_triangular(t, torch.from_numpy(b), upper=not lower)
        case("linalg.solve_triangular", solved, definite, b, lower=lower)
    mask = np.arange(9) % 3 == 1
    for size in (0, 2, 5):
        positions = torch.nonzero_static(torch.from_numpy(mask), size=size)[:, 0]
        case("true_positions", positions, mask, size)


def main():
    for family in (
        elementwise,
        binary,
        creation,
        moving,
        indexing,
        reducing,
        products,
        networks,
        images,
        experts,
        algebra,
    ):
        family()
    versions = {m.__name__: m.__version__ for m in (np, torch, onnx, onnxruntime)}
    said = json.dumps({"versions": versions, "cases": CASES})
    np.savez_compressed(Path(__file__).with_suffix(".npz"), said=np.array(said), **ARRAYS)
    print(len(CASES), "cases of", len({c["op"] for c in CASES}), "ops,", versions)


if __name__ == "__main__":
    main()
