"""Gradients from adjoint specs and through parts against finite differences."""

import itertools

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError
from structir.ir.dims import as_sym
from structir.opdef.gradient import gradients
from structir.projections.adjoint import adjoint
from structir.projections.spec import product_of_reads
from tests.cases import every_case
from tests.ops.calls import called

RNG = np.random.default_rng(4)
CASES = []


def reals(*shape):
    return RNG.standard_normal(shape)


def positive(*shape):
    return RNG.random(shape) + 0.5


def whole(limit, *shape):
    return RNG.integers(0, limit, shape)


def case(name, args, **keywords):
    shapes = "x".join(str(a.shape) for a in args if isinstance(a, np.ndarray))
    label = f"{name}{shapes}{''.join(f'-{k}={v}' for k, v in keywords.items())}"
    CASES.append(pytest.param(name, args, keywords, id=label.replace(" ", "")))


for name in [
    "exp",
    "tanh",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "asinh",
    "atan",
    "erf",
    "sigmoid",
    "abs",
    "negative",
    "square",
    "floor",
    "nn.relu",
    "nn.silu",
    "nn.gelu",
    "nn.gelu_tanh",
    "nn.softplus",
    "nn.selu",
    "nn.leakyrelu",
]:
    case(name, [reals(3, 4)])
for name in ("log", "sqrt", "rsqrt"):
    case(name, [positive(2, 3)])
for name, shapes in itertools.product(
    (
        "add",
        "subtract",
        "multiply",
        "divide",
        "power",
        "maximum",
        "minimum",
        "atan2",
        "log_add_exp",
    ),
    (((3, 4), (3, 4)), ((3, 1), (2, 1, 4)), ((), (3,)), ((1,), (0,))),
):
    case(name, [positive(*s) for s in shapes])
case("where", [reals(3, 4) > 0, reals(3, 1), reals()])
for name, (shape, axis, keepdims) in itertools.product(
    ("sum", "prod", "max", "min", "mean", "variance", "std"),
    (((3, 4), 1, False), ((2, 3, 4), (0, 2), True), ((2, 3), None, False), ((2, 3), (), False)),
):
    if name == "std" and axis == ():
        continue  # the root of zero has no slope
    case(name, [reals(*shape)], axis=axis, keepdims=keepdims)
for name, axis in itertools.product(("cumsum", "tril", "flip", "softmax"), (0, 1)):
    if name == "tril":
        case(name, [reals(3, 4), axis])
    elif name == "softmax":
        case("nn.softmax", [reals(3, 4)], axis=axis)
        case("nn.log_softmax", [reals(3, 4)], axis=axis)
    else:
        case(name, [reals(3, 4)], axis=axis)
case("cumsum", [reals(2, 3)], axis=1, exclusive=True)
case("cumsum", [reals(2, 3)])
for shapes in (((3, 4), (4, 5)), ((5, 1, 3, 4), (2, 4, 2)), ((4,), (4,)), ((4,), (2, 4, 3))):
    case("matmul", [reals(*s) for s in shapes])
case("linear", [reals(2, 3, 4), reals(5, 4), reals(5)])
case("einsum", [[reals(3, 3)], "ii->i"])
case("einsum", [[reals(2, 3, 4), reals(4), reals(2, 3)], "ijk,k,ij->i"])
for data, weight, pads, groups in (
    ((2, 4, 6, 5), (6, 2, 3, 2), (1, 0, 2, 1), 2),
    ((1, 2, 5), (3, 2, 3), (1, 1), 1),
):
    rank = len(data) - 2
    strides = {"strides": 2, "padding": pads, "groups": groups}
    case(f"nn.conv{rank}d", [reals(*data), reals(*weight)], **strides)
case("nn.conv1d_transpose", [reals(1, 4, 4), reals(4, 2, 3)], strides=2, padding=1, groups=2)
for included in (False, True):
    window = {"pool_size": (3, 2), "strides": 2, "padding": 1}
    case("nn.avg_pool2d", [reals(1, 2, 6, 5)], count_include_pad=included, **window)
case("nn.max_pool2d", [reals(1, 2, 6, 5)], pool_size=(3, 2), strides=2, padding=1)
case("nn.adaptive_avg_pool1d", [reals(1, 2, 7)], output_size=3)
case("permute_dims", [reals(2, 3, 4)], axes=(2, 0, 1))
case("reshape", [reals(6, 4), (8, 3)])
case("reshape", [reals(2, 6), (2, 2, 3)])
case("squeeze", [reals(1, 2, 1)], axis=0)
case("expand_dims", [reals(2, 3)], axis=(0, 2))
case("repeat", [reals(2, 3), 2], axis=1)
case("tile", [reals(2, 3), (2, 2)])
case("roll", [reals(3, 4), 2, 1])
case("broadcast_to", [reals(1, 3), (4, 3)])
case("collapse_sum_to", [reals(2, 3, 4), (3, 1)])
case("concat", [[reals(2, 3), reals(2, 1)]], axis=1)
case("stack", [[reals(2, 3), reals(2, 3)]], axis=1)
case("split", [reals(2, 6), 3, 1])
case("nn.pad", [reals(2, 3), (1, 0, 2, 1)], pad_value=1.5)
case("nn.pad", [reals(3, 4), (1, 0, 2, 1)], pad_mode="reflect")
case("strided_slice", [reals(8, 5), (0, 1), (1, 4), (8, 0)], strides=(3, -1))
case("take", [reals(4, 5), whole(5, 2, 3)], axis=1)
case("gather_elements", [reals(4, 5), whole(4, 2, 5), 0])
case("gather_nd", [reals(4, 5), whole(4, 3, 2), 0])
case("scatter_elements", [reals(4, 5), whole(4, 2, 5), reals(2, 5), 0], reduction="add")
case("scatter_elements", [reals(4, 2), np.array([[1, 0], [2, 3]]), reals(2, 2), 0])
case("scatter_nd", [reals(4, 5), whole(4, 3, 1), reals(3, 5), "add"])
for how in ("update", "add", "mul", "max", "min"):  # some places are written twice
    case("scatter_elements", [reals(4, 5), whole(4, 6, 5), reals(6, 5), 0], reduction=how)
    case("scatter_nd", [reals(4, 5), whole(4, 6, 2), reals(6), how])
    case("scatter_nd", [reals(4, 5), whole(4, 6, 1), reals(6, 5), how])
for accumulate in (False, True):
    case("index_put", [reals(4, 5), [whole(4, 6)], reals(6, 5), accumulate])
    case("index_put", [reals(4, 5), [whole(4, 3, 1), whole(5, 2)], reals(2), accumulate])
for axis, descending in ((0, False), (1, True)):
    case("sort", [reals(4, 3)], axis=axis, descending=descending)
for which in ("both", "values"):
    case("topk", [reals(4, 5)], k=2, axis=0, ret_type=which, largest=which == "both")
case("median", [reals(3, 5)])
case("median", [reals(3, 5)], axis=1, keepdims=True)
case("median", [reals(2, 3, 5)], axis=(0, 2))
steps = [np.array(v) for v in ((0, 4), (6, 0), (2, -1))]
case("dynamic_strided_slice", [reals(6, 5), *steps])
for method, mode in itertools.product(
    ("nearest_neighbor", "linear", "cubic"), ("half_pixel", "align_corners", "asymmetric")
):
    how = {"method": method, "coordinate_transformation_mode": mode}
    case("image.resize2d", [reals(1, 2, 3, 4), (5, 3)], **how)
    case("image.resize2d", [reals(1, 3, 4, 2), (2, 6)], layout="NHWC", **how)
case("image.resize3d", [reals(1, 2, 3, 4, 2), (5, 3, 4)])
for corners in (False, True):
    case("image.affine_grid", [reals(2, 2, 3), (3, 4)], align_corners=corners)
for exclusive in (False, True):
    case("cumprod", [reals(3, 4)], axis=0, exclusive=exclusive)
case("cumprod", [reals(2, 3)])
case("cumprod", [np.array([[0.5, 0, 2], [0, -1, 0]])], axis=1)
for reverse in (False, True):
    case("linear_recurrence", [reals(3, 4), reals(3, 4)], axis=0, reverse=reverse)
for mode in ("clip", "wrap", "nan"):
    case("take", [reals(4, 5), np.array([[0, 3], [1, 3]])], axis=0, mode=mode)
case("einsum", [[reals(2, 3, 4), reals(4, 5), reals(5)], "...k,kl,l->...l"])
case("nn.conv2d_transpose", [reals(1, 2, 3, 4), reals(2, 3, 2, 3)], strides=2, padding=(1, 1))
case("nn.conv3d", [reals(1, 2, 3, 4, 3), reals(2, 2, 2, 2, 2)], padding=1)
case("nn.conv3d_transpose", [reals(1, 2, 2, 2, 2), reals(2, 2, 2, 2, 2)], strides=2)
case("nn.avg_pool2d", [reals(1, 1, 6, 5)], pool_size=3, strides=2, ceil_mode=True)
case("nn.max_pool1d", [reals(1, 2, 7)], pool_size=3, dilation=2, padding=1)
case("nn.max_pool3d", [reals(1, 1, 4, 4, 4)], pool_size=2, strides=2)
case("nn.adaptive_avg_pool2d", [reals(1, 2, 5, 7)], output_size=(2, 3))
case("nn.group_norm", [reals(2, 4, 3), reals(4), reals(4), 2, 1, (2,)])
case("nn.instance_norm", [reals(2, 3, 4), reals(3), reals(3)], channel_axis=1, axes=(2,))
bias = reals(1, 2, 3, 5)
queries, keys = reals(1, 3, 2, 4), reals(1, 5, 2, 4)
case("nn.attention", [queries, keys, keys + 1, bias], causal_mask="BottomRight", scale=0.3)
for reduction in ("none", "sum", "mean"):
    scores, classes = reals(4, 3, 2), whole(3, 4, 2)
    case("nn.nll_loss", [scores, classes, positive(3)], reduction=reduction, ignore_index=1)
case("nn.cross_entropy_with_logits", [reals(3, 4), reals(3, 4)])
case("nn.prelu", [reals(2, 3), reals(3)], axis=1)
case("ewise_fma", [reals(2, 3), reals(2, 3), reals(2, 3)])
case("index_tensor", [reals(4, 5, 2), [whole(4, 3, 1), whole(5, 2)]])
case("reverse_sequence", [reals(3, 4), np.array([2, 4, 1])], seq_axis=1, batch_axis=0)
case("strided_slice", [reals(8, 5), (0,), (6,), (0,)], strides=(-2,))
case("slice_scatter", [reals(6, 4), reals(3, 4), 1, 6, 2, 0])
case("nn.layer_norm", [reals(2, 5), reals(5), reals(5), -1])
case("nn.rms_norm", [reals(2, 5), reals(5), -1])
case("nn.attention", [reals(1, 3, 2, 4), reals(1, 5, 2, 4), reals(1, 5, 2, 6)])
case("nn.nll_loss", [reals(4, 3), whole(3, 4)])


def flattened(value):
    """A result or gradient as one vector."""
    parts = value if isinstance(value, tuple) else (value,)
    return np.concatenate([np.ravel(p) for p in parts])


def shaped(like, rng):
    if isinstance(like, tuple):
        return tuple(shaped(v, rng) for v in like)
    return rng.standard_normal(like.shape)


def moved(value, way, step):
    if isinstance(value, tuple):
        return tuple(moved(v, w, step) for v, w in zip(value, way, strict=True))
    return value + step * way


@every_case(("name", "args", "keywords"), CASES)
def test_gradients_match_differences(name, args, keywords):
    call, values = called(name, *args, **keywords)
    definition = call.op.definition
    result = definition.reference(call, values)
    rng = np.random.default_rng(8)
    back = shaped(result, rng)
    found = gradients(definition, call, values, back)
    checked = 0
    for k, value in enumerate(values):
        if not floating(value):
            continue
        way = shaped(value, rng)
        ends = []
        for step in (1e-6, -1e-6):
            shifted = (*values[:k], moved(value, way, step), *values[k + 1 :])
            ends.append(flattened(definition.reference(call, shifted)) @ flattened(back))
        slope = (ends[0] - ends[1]) / 2e-6
        own = 0.0 if found[k] is None else flattened(found[k]) @ flattened(way)
        assert own == pytest.approx(slope, rel=1e-4, abs=1e-6)
        checked += 1
    assert checked


def floating(value):
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(v, np.ndarray) and v.dtype.kind == "f" for v in value)
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def test_zeros_in_a_product():
    for row, wanted in (([2.0, 0.0, 3.0], [0, 6, 0]), ([0.0, 0.0, 3.0], [0, 0, 0])):
        call, values = called("prod", np.array(row))
        (found,) = gradients(call.op.definition, call, values, np.array(1.0))
        np.testing.assert_array_equal(found, wanted)


def test_ties_of_a_maximum_share():
    call, values = called("max", np.array([3.0, 1.0, 3.0]))
    (found,) = gradients(call.op.definition, call, values, np.array(1.0))
    np.testing.assert_array_equal(found, [0.5, 0, 0.5])


def test_integers_have_none():
    call, values = called("take", np.ones((3, 2)), np.array([0, 2]), axis=0)
    table, ids = gradients(call.op.definition, call, values, np.ones((2, 2)))
    assert ids is None and table.tolist() == [[1, 1], [0, 0], [1, 1]]


def test_zeros_in_a_product_that_is_put_together():
    base, updates, places = np.array([2.0, 3.0, 4.0]), np.array([0.0, 5.0, 0.0, 0.0]), [0, 0, 1, 1]
    call, values = called(
        "scatter_elements", base, np.array(places), updates, axis=0, reduction="mul"
    )
    own, _, new = gradients(call.op.definition, call, values, np.ones(3))
    assert own.tolist() == [0, 0, 1] and new.tolist() == [10, 0, 0, 0]


def test_only_the_last_update_of_a_place_counts():
    call, values = called("scatter_elements", np.zeros(3), np.array([1, 1, 2]), np.ones(3), axis=0)
    own, _, new = gradients(call.op.definition, call, values, np.array([5.0, 6.0, 7.0]))
    assert own.tolist() == [5, 0, 0] and new.tolist() == [0, 6, 7]


PROGRAM = """
@R.function
def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("n",), "float32")):
    z = R.grad.adjoint({})
    return z
"""


def test_an_adjoint_as_text():
    text = 'x, y, of="sum", by=[0], reads=["gradient 0"], axis=[1]'
    function = structir.parse(PROGRAM.format(text))["main"]
    assert str(function.ret_struct_info) == 'R.Tensor((n, 3), dtype="float32")'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x, y", "of: expected the name of an op, found None"),
        ('x, y, of="nonsense", by=[0], reads=["gradient 0"]', "name of an op, found 'nonsense'"),
        ('x, y, of="sum"', "expected `by` as .* found None, None"),
        ('x, y, of="sum", by=[2], reads=["gradient 0"], axis=1', r"`by` as .* found \(2,\)"),
        (
            'x, y, of="sum", by=[0, 0], reads=["gradient 0"], axis=1',
            r"a tensor argument, found \(0, 0\)",
        ),
        (
            'x, y, of="sum", by=[0], reads=["gradient 1"], axis=1',
            "a name such as .* found 'gradient 1'",
        ),
        (
            'x, y, of="sum", by=[0], reads=["gradient 0"], axis=5',
            "forward call of sum: .*axis out of range.* found 5",
        ),
        (
            'x, y, of="sum", by=[0], reads=["gradient 0"], what=5',
            "forward call of sum: .*unexpected keyword argument `what`",
        ),
        (
            'x, x, of="sum", by=[0], reads=["gradient 0"], axis=1',
            r"gradient 0: expected .*\(n,\).* found .*\(n, 3\)",
        ),
        (
            'x, 3, of="sum", by=[0], reads=["gradient 0"], axis=1',
            "expected an expression as argument, found 3",
        ),
    ],
)
def test_an_adjoint_of_no_call_is_refused(text, message):
    with pytest.raises(DiagnosticError, match=message):
        structir.parse(PROGRAM.format(text))


def test_the_gradients_of_a_product_are_products():
    """Nothing stands beside the two factors, so that backends see matrix products."""
    call, _ = called("matmul", reals(2, 3), reals(3, 4))
    spec = call.op.definition.index_spec(call)
    for operand, other in ((0, "rhs"), (1, "lhs")):
        (clause,) = adjoint(spec, operand).spec.statements
        (write,) = clause.writes
        assert product_of_reads(write.value) == (other, "gradient 0")
        assert clause.parallel == tuple(as_sym(entry.index) for entry in write.entries)
