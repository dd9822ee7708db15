"""The ops' derived references against NumPy, SciPy and ONNX Runtime."""

import itertools

import numpy as np
import pytest
from scipy import special

from structir.ir.dtype import numpy_dtype
from tests.cases import every_case
from tests.ops.calls import evaluated

RNG = np.random.default_rng(11)
CASES = []


def floats(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def positive(*shape):
    return (RNG.random(shape) + 0.5).astype("float32")


def whole(limit, *shape, dtype="int64"):
    return RNG.integers(0, limit, shape).astype(dtype)


def case(name, args, wanted, **keywords):
    """Adds a case: the op, its arguments, and the expected result."""
    shapes = "x".join(str(a.shape) for a in args if isinstance(a, np.ndarray))
    label = f"{name}{shapes}{''.join(f'-{k}={v}' for k, v in keywords.items())}"
    CASES.append(pytest.param(name, args, keywords, wanted, id=label.replace(" ", "")))


UNARY = {
    "abs": np.abs,
    "negative": np.negative,
    "square": np.square,
    "exp": np.exp,
    "tanh": np.tanh,
    "erf": special.erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "sigmoid": special.expit,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "sign": np.sign,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "nn.relu": lambda x: np.maximum(x, 0),
    "nn.relu6": lambda x: np.clip(x, 0, 6),
    "nn.silu": lambda x: x * special.expit(x),
    "nn.gelu": lambda x: x * special.ndtr(x),
    "nn.gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "nn.softplus": lambda x: np.logaddexp(0, x),
    "nn.leakyrelu": lambda x: np.where(x > 0, x, 0.01 * x),
    "nn.selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
}
for name, function in UNARY.items():
    for shape in ((3, 4), (), (0, 3), (2, 1, 5)):
        x = floats(*shape)
        case(name, [x], function(x))
for name, function in {
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "acosh": lambda x: np.arccosh(x),
}.items():
    for shape in ((3, 4), ()):
        x = positive(*shape) + (1 if name == "acosh" else 0)
        case(name, [x], function(x))
for name, function in {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh}.items():
    x = (RNG.random((2, 5)) * 1.8 - 0.9).astype("float32")
    case(name, [x], function(x))

BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
    "atan2": np.arctan2,
    "log_add_exp": np.logaddexp,
    "floor_divide": np.floor_divide,
    "mod": np.fmod,
    "floor_mod": np.mod,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
}
BROADCASTS = [
    ((3, 4), (3, 4)),
    ((3, 1), (2, 1, 4)),
    ((), (3,)),
    ((0, 3), (1, 3)),
    ((1,), (0,)),
    ((5, 1, 3), (4, 1)),
]
for (name, function), (left, right) in itertools.product(BINARY.items(), BROADCASTS):
    x, y = positive(*left), positive(*right)
    case(name, [x, y], function(x, y))
for name in ("add", "subtract", "multiply", "floor_divide", "mod", "maximum", "less"):
    x, y = whole(9, 3, 1, dtype="int32") - 4, whole(5, 4, dtype="int32") + 1
    case(name, [x, y], BINARY[name](x, y))
for name, function in {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}.items():
    x, y = whole(100, 3, 1, dtype="int32"), whole(5, 4, dtype="int32")
    case(name, [x, y], function(x, y))
for name, function in {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}.items():
    x, y = floats(3, 1) > 0, floats(4) > 0
    case(name, [x, y], function(x, y))
flags = floats(4) > 0
case("logical_not", [flags], ~flags)
x = floats(3, 4)
case("clip", [x, -0.5, 0.5], np.clip(x, -0.5, 0.5))
for shapes in (((3, 4), (3, 1), ()), ((1,), (0,), (1,)), ((2, 1), (3,), (1, 1))):
    c, x, y = floats(*shapes[0]) > 0, floats(*shapes[1]), floats(*shapes[2])
    case("where", [c, x, y], np.where(c, x, y))
for dtype in ("float16", "int8", "bool", "float64", "bfloat16"):
    x = (floats(3, 4) * 3).astype("float32")
    if dtype != "bfloat16":
        case("astype", [x], x.astype(dtype), dtype=dtype)

# index in the body, creation
for shape, k in itertools.product(((3, 4), (2, 4, 3), (0, 2), (1, 1)), (-1, 0, 2)):
    x = floats(*shape)
    case("tril", [x], np.tril(x, k), k=k)
    case("triu", [x], np.triu(x, k), k=k)
for n, m, k in ((3, 4, 1), (0, 3, 0), (4, 4, -2)):
    case("eye", [n, m, k], np.eye(n, m, k, dtype="float32"))
for start, stop, step in ((2, 10, 3), (0, 0, 1), (5, 2, 1), (0, 7, 2), (9, 2, -3)):
    case("arange", [start, stop, step], np.arange(start, stop, step), dtype="int64")
case("arange", [0.0, 1.0, 0.25], np.arange(0, 1, 0.25, dtype="float32"))
case("zeros", [(2, 0, 3), "int32"], np.zeros((2, 0, 3), "int32"))
case("ones", [(2, 3), "float16"], np.ones((2, 3), "float16"))
case("full", [(2, 3), 7], np.full((2, 3), 7), dtype="int64")
for name, function in {"ones_like": np.ones_like, "zeros_like": np.zeros_like}.items():
    x = floats(2, 3)
    case(name, [x], function(x))
case("full_like", [floats(2, 3), 2.5], np.full((2, 3), 2.5, "float32"))
for shape, axis in (((3,), -1), ((2, 3), 1), ((), -1), ((0, 2), 0)):
    ids = whole(5, *shape)
    wanted = np.moveaxis(np.eye(5, dtype="float32")[ids], -1, axis)
    case("one_hot", [ids, 1.0, 0.0, 5], wanted, axis=axis)

# reductions and scans
REDUCTIONS = [
    ((3, 4), 1, False),
    ((3, 4), None, True),
    ((2, 3, 4), (0, 2), True),
    ((2, 3, 4), (-1,), False),
    ((2, 3), (), False),
    ((0, 3), 1, False),
    ((), None, False),
]
for name, (shape, axis, keepdims) in itertools.product(
    ("sum", "prod", "max", "min", "mean", "variance", "std"), REDUCTIONS
):
    x = floats(*shape)
    function = {"variance": np.var, "std": np.std}.get(name) or getattr(np, name)
    wanted = function(x, axis=axis, keepdims=keepdims)
    case(name, [x], np.asarray(wanted), axis=axis, keepdims=keepdims)
for name, (shape, axis) in itertools.product(
    ("argmax", "argmin"), (((3, 4), 1), ((2, 3, 4), 0), ((3, 4), None), ((1,), 0))
):
    x = floats(*shape)
    case(name, [x], np.asarray(getattr(np, name)(x, axis=axis)), axis=axis)
for name, (shape, axis) in itertools.product(
    ("cumsum", "cumprod"), (((3, 4), 1), ((3, 4), None), ((2, 3, 2), 0), ((0, 3), 0), ((3, 0), 1))
):
    x = floats(*shape)
    case(name, [x], getattr(np, name)(x, axis=axis), axis=axis)
x = floats(3, 4)
case("cumsum", [x], np.cumsum(x, 1) - x, axis=1, exclusive=True)
x = whole(5, 3, 4, dtype="int8")
case("cumsum", [x], np.cumsum(x, 1, dtype="int32"), axis=1, dtype="int32")
case("sum", [x], x.sum(axis=0, dtype="int8"), axis=0)

# contractions
for left, right in (
    ((3, 4), (4, 5)),
    ((5, 1, 3, 4), (2, 4, 6)),
    ((4,), (4,)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4,)),
    ((0, 4), (4, 2)),
    ((3, 0), (0, 2)),
    ((1, 1), (1, 1)),
):
    x, y = floats(*left), floats(*right)
    case("matmul", [x, y], np.asarray(x @ y))
x, y = whole(9, 3, 4, dtype="int32"), whole(9, 4, 2, dtype="int32")
case("matmul", [x, y], x @ y)
x, weight, bias = floats(2, 3, 4), floats(5, 4), floats(5)
case("linear", [x, weight], x @ weight.T)
case("linear", [x, weight, bias], x @ weight.T + bias)
x, y = floats(3), floats(4)
case("outer", [x, y], np.outer(x, y))
for subscripts, *shapes in (
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("ij->ji", (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("...j,j", (2, 3), (3,)),
    ("ijk,k,ij->i", (2, 3, 4), (4,), (2, 3)),
    ("ij->", (2, 0)),
    ("ab,cd->ac", (2, 3), (4, 5)),
):
    xs = [floats(*s) for s in shapes]
    case("einsum", [xs, subscripts], np.asarray(np.einsum(subscripts, *xs)))

# layout
for shape, axes in (((2, 3, 4), (2, 0, 1)), ((2, 3), None), ((0, 3), (1, 0)), ((), None)):
    x = floats(*shape)
    case("permute_dims", [x], np.transpose(x, axes), axes=axes)
for shape, axis in (((2, 3), (0, -1)), ((), (0,)), ((0, 2), 1)):
    x = floats(*shape)
    case("expand_dims", [x], np.expand_dims(x, axis), axis=axis)
for shape, axis in (((1, 2, 1), None), ((1, 2, 1), 0), ((1, 0), (0,))):
    x = floats(*shape)
    case("squeeze", [x], np.squeeze(x, axis), axis=axis)
for shape, target in (
    ((2, 6), (2, 2, 3)),
    ((6, 4), (2, 12)),
    ((6, 4), (8, 3)),
    ((2, 3, 4), (24,)),
    ((24,), (4, 3, 2)),
    ((4, 6, 5), (3, 8, 5)),
    ((1, 3, 1), (3,)),
    ((0, 3), (0, 5)),
    ((), (1, 1)),
    ((2, 12), (-1, 4)),
    ((10, 9), (6, 15)),
):
    x = floats(*shape)
    case("reshape", [x, target], x.reshape(target))
for shape in ((2, 3, 4), (), (0, 3)):
    x = floats(*shape)
    case("flatten", [x], x.reshape(-1))
x = floats(2, 3, 4)
case("nn.batch_flatten", [x], x.reshape(2, 12))
x = floats(2, 8, 3, 2)
shuffled = x.reshape(2, 2, 2, 2, 3, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 4)
case("nn.pixel_shuffle", [x, 2], shuffled)
for shape, count, axis in (((2, 3), 2, 1), ((2, 3), 3, None), ((0, 2), 2, 0)):
    x = floats(*shape)
    case("repeat", [x, count], np.repeat(x, count, axis), axis=axis)
for shape, counts in (((2, 3), (2, 2)), ((2, 3), (3,)), ((3,), (2, 1, 2)), ((2, 0), (1, 2))):
    x = floats(*shape)
    case("tile", [x, counts], np.tile(x, counts))
for shape, axis in (((3, 4), 0), ((3, 4), -1), ((0,), 0)):
    x = floats(*shape)
    case("flip", [x, axis], np.flip(x, axis))
    case("roll", [x, 2, axis], np.roll(x, 2, axis))
    case("roll", [x, -1, axis], np.roll(x, -1, axis))
for axes in ((0, 2), (-1, 0, 1), (1,)):
    x = floats(2, 3, 4)
    case("flip", [x, axes], np.flip(x, axes))
    case("roll", [x, 5, axes], np.roll(x, 5, axes))
    case("roll", [x, (2, -1, 7)[: len(axes)], axes], np.roll(x, (2, -1, 7)[: len(axes)], axes))
for shape, target in (((3,), (2, 3)), ((1, 3), (4, 3)), ((), (2,)), ((1,), (0,))):
    x = floats(*shape)
    case("broadcast_to", [x, target], np.broadcast_to(x, target))
for shape, target in (((2, 3, 4), (3, 1)), ((2, 3), (2, 3)), ((2, 3), (1,))):
    x = floats(*shape)
    wanted = x.sum(tuple(range(len(shape) - len(target))))
    ones = tuple(k for k, n in enumerate(target) if n == 1)
    case("collapse_sum_to", [x, target], wanted.sum(ones, keepdims=True))
x = floats(4, 3)
case("collapse_sum_like", [x, floats(1, 3)], x.sum(0, keepdims=True))

# splitting
for shapes, axis in ((((2, 3), (2, 5)), 1), (((2, 3), (0, 3), (4, 3)), 0), (((3,),), 0)):
    xs = [floats(*s) for s in shapes]
    case("concat", [xs], np.concatenate(xs, axis), axis=axis)
for count, axis in ((2, 0), (3, -1), (1, 1)):
    xs = [floats(2, 3) for _ in range(count)]
    case("stack", [xs], np.stack(xs, axis), axis=axis)
for shape, cuts, axis in (
    ((2, 10, 4), 5, 1),
    ((7, 2), (3,), 0),
    ((6,), 3, 0),
    ((2, 10), (2, 5), 1),
    ((4, 3), (2, 2), 0),
):
    x = floats(*shape)
    case("split", [x, cuts, axis], tuple(np.split(x, cuts, axis)))
x = floats(10)
case("split", [x, 3, 0], tuple(np.split(x, (4, 8))))
for shape, width in (((2, 3), (1, 0, 2, 1)), ((0, 3), (1, 1, 0, 0)), ((4,), (2, 3))):
    x = floats(*shape)
    pairs = list(zip(width[::2], width[1::2], strict=True))
    case("nn.pad", [x, width], np.pad(x, pairs, constant_values=1.5), pad_value=1.5)
    modes = {"edge": "edge", "circular": "wrap", "reflect": "reflect"} if 0 not in shape else {}
    for mode, numpy_mode in modes.items():
        if mode != "reflect" or min(shape) > max(width):
            case("nn.pad", [x, width], np.pad(x, pairs, mode=numpy_mode), pad_mode=mode)
for shape, axes, begin, end, strides in (
    ((8, 9), (0, 1), (1, 0), (8, 4), None),
    ((8,), (0,), (-3,), (100,), None),
    ((8,), (0,), (7,), (-9,), (-2,)),
    ((8,), (0,), (1,), (8,), (3,)),
    ((5, 4), (-1,), (3,), (0,), (-1,)),
    ((0, 4), (0,), (0,), (3,), None),
):
    x = floats(*shape)
    cut = [slice(None)] * len(shape)
    for axis, b, e, s in zip(axes, begin, end, strides or (1,) * len(axes), strict=True):
        cut[axis] = slice(b, None if s < 0 and e < -shape[axis] else e, s)
    case("strided_slice", [x, axes, begin, end], x[tuple(cut)], strides=strides)

# reads and writes at data-dependent indices
for shape, ids_shape, axis in (
    ((4, 5), (3,), 1),
    ((4, 5), (2, 3), 0),
    ((4,), (), 0),
    ((4, 5), (0,), 0),
):
    x, ids = floats(*shape), whole(4, *ids_shape)
    case("take", [x, ids], np.take(x, ids, axis), axis=axis)
x = floats(3, 5)
case("take", [x, np.array([2, 0], "uint8")], x[[2, 0]], axis=0)


def scattered(x, ids, new, axis, add):
    result = x.copy()
    for place in np.ndindex(*ids.shape):
        at = list(place)
        at[axis] = ids[place]
        result[tuple(at)] = result[tuple(at)] + new[place] if add else new[place]
    return result


for shape, ids_shape, axis in (
    ((4, 5), (4, 2), 1),
    ((4, 5), (2, 5), 0),
    ((3, 4, 2), (3, 1, 2), 1),
):
    x, ids = floats(*shape), whole(3, *ids_shape)
    case("gather_elements", [x, ids, axis], np.take_along_axis(x, ids, axis))
    new = floats(*ids_shape)
    for reduction in ("add", "update"):
        wanted = scattered(x, ids, new, axis, reduction == "add")
        case("scatter_elements", [x, ids, new, axis], wanted, reduction=reduction)
for shape, ids_shape in (((4, 5), (3, 1)), ((4, 5, 2), (2, 3, 2))):
    x, ids = floats(*shape), whole(4, *ids_shape)
    new = floats(*ids_shape[:-1], *shape[ids_shape[-1] :])
    wanted = x.copy()
    np.add.at(wanted, tuple(np.moveaxis(ids, -1, 0)), new)
    case("scatter_nd", [x, ids, new, "add"], wanted)
for shape, ids_shape, batch in (
    ((4, 5), (3, 2), 0),
    ((4, 5, 2), (3, 1), 0),
    ((2, 4, 5), (2, 3, 1), 1),
):
    x, ids = floats(*shape), whole(3, *ids_shape)
    if batch:
        wanted = np.stack([x[k][tuple(np.moveaxis(ids[k], -1, 0))] for k in range(shape[0])])
    else:
        wanted = x[tuple(np.moveaxis(ids, -1, 0))]
    case("gather_nd", [x, ids, batch], wanted)
x, i, j = floats(4, 5, 3), whole(4, 2, 1), whole(5, 1, 3)
case("index_tensor", [x, [i, j]], x[i, j])
x, ids, new = floats(4, 5), whole(4, 3), floats(3, 5)
wanted = x.copy()
np.add.at(wanted, ids, new)
case("index_put", [x, [ids], new, True], wanted)
wanted = x.copy()
wanted[2] = new[-1]  # all go to one place: the last stays, and outside of the tensor none does
case("index_put", [x, [np.int64(2)], new], wanted)
case("index_put", [x, [np.int64(4)], new], x)
x, new = floats(6, 4), floats(3, 4)
wanted = x.copy()
wanted[1:6:2] = new
case("slice_scatter", [x, new, 1, 6, 2, 0], wanted)
x = floats(2, 5)
turned = np.stack([x[0, [2, 1, 0, 3, 4]], x[1]])
case("reverse_sequence", [x, np.array([3, 1])], turned)


# normalizations
def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def standard(x, axes):
    spread = np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    return (x - x.mean(axes, keepdims=True)) / spread


for shape, axis in (((3, 4), -1), ((2, 3, 4), 1), ((5,), 0), ((0, 4), 1)):
    x = floats(*shape)
    case("nn.softmax", [x], softmax(x, axis), axis=axis)
    case("nn.log_softmax", [x], np.log(softmax(x, axis)), axis=axis)
x, gamma, beta = floats(2, 3, 5), floats(5), floats(5)
case("nn.layer_norm", [x, gamma, beta, -1], standard(x, (-1,)) * gamma + beta)
case("nn.rms_norm", [x, gamma, -1], x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma)


@every_case(("name", "args", "keywords", "wanted"), CASES)
def test_reference(name, args, keywords, wanted):
    result = evaluated(name, *args, **keywords)
    pairs = zip(result, wanted, strict=True) if isinstance(wanted, tuple) else [(result, wanted)]
    for one, other in pairs:
        assert one.shape == other.shape
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)
        else:
            np.testing.assert_array_equal(one, other)


EPSILON = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-22}


@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize(
    ("name", "shapes", "keywords"),
    [
        ("add", [(3, 4), (4,)], {}),
        ("multiply", [(3, 4), (4,)], {}),
        ("exp", [(3, 4)], {}),
        ("nn.gelu", [(3, 4)], {}),
        ("sum", [(3, 4096)], {"axis": 1}),
        ("mean", [(3, 4096)], {"axis": 1}),
        ("max", [(3, 4)], {"axis": 0}),
        ("cumsum", [(3, 9)], {"axis": 1}),
        ("matmul", [(5, 64), (64, 3)], {}),
        ("permute_dims", [(3, 4)], {}),
        ("flatten", [(3, 4)], {}),
        ("nn.softmax", [(3, 8)], {}),
        ("nn.layer_norm", [(3, 8), (8,), (8,)], {"axes": -1}),
    ],
)
def test_narrow_floats_are_rounded_once(dtype, name, shapes, keywords):
    args = [np.abs(floats(*s)).astype(numpy_dtype(dtype)) for s in shapes]
    result = evaluated(name, *args, **keywords)
    assert result.dtype.name == dtype
    wanted = evaluated(name, *[a.astype("float64") for a in args], **keywords)
    steps = 8 if name.startswith("nn.") else 1  # composites are rounded after each part
    scale = np.maximum(np.abs(wanted), 0.25)
    relative = steps * EPSILON[dtype]
    if name == "matmul":  # the library adds the products in float32, in an order of its own
        relative += shapes[0][-1] * 2**-24
    assert (np.abs(result.astype("float64") - wanted) <= relative * scale).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64", "bool"])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
def test_integers_are_exact(name, dtype):
    x, y = (RNG.integers(0, 2, (3, 4)).astype(dtype) for _ in range(2))
    result = evaluated(name, x, y)
    assert result.dtype.name == dtype
    function = {"add": np.add, "multiply": np.multiply}.get(name) or getattr(np, name)
    np.testing.assert_array_equal(result, function(x, y))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_sums_of_integers_stay_integers(dtype):
    x = RNG.integers(0, 3, (4, 5)).astype(dtype)
    for name in ("sum", "prod", "max", "min"):
        result = evaluated(name, x, axis=0)
        wanted = getattr(np, name)(x, axis=0).astype(dtype)
        np.testing.assert_array_equal(result, wanted)
        assert result.dtype == wanted.dtype
