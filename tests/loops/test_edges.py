"""Edge cases of ops, for which compiled code and the reference must agree."""

from functools import partial

import ml_dtypes
import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, StructIRError
from tests.runtime.agreement import assert_agree

pytestmark = pytest.mark.sampled(2)


def program(body, *arrays, shapes=None):
    """A module whose parameters `a0`, `a1`, ... fit the arrays, or have the stated shapes."""
    stated = shapes or [str(tuple(map(int, a.shape))) for a in arrays]
    pairs = enumerate(zip(arrays, stated, strict=True))
    params = ", ".join(f'a{k}: R.Tensor({shape}, "{a.dtype}")' for k, (a, shape) in pairs)
    return structir.parse(
        f"@R.function\ndef main({params}):\n    found = {body}\n    return found\n"
    )


def both_ways(body, *arrays, shapes=None):
    """The interpreted result, after the compiled one was found equal to it."""
    module = program(body, *arrays, shapes=shapes)
    wanted = structir.interpret(module, "main", *arrays)
    assert_agree(wanted, structir.compile(module)["main"](*arrays))
    return wanted


@pytest.mark.parametrize("own", ["int8", "int16"])
def test_products_are_summed_in_the_stated_wider_dtype(own):
    left, right = np.full((2, 3), 100, own), np.full((3, 2), 111, own)
    found = both_ways('R.matmul(a0, a1, out_dtype="int32")', left, right)
    np.testing.assert_array_equal(found, np.full((2, 2), 33300, "int32"))


@pytest.mark.parametrize("op", ["variance", "std"])
def test_spread_of_integers_is_rounded_once_at_the_end(op):
    x = np.array([[1, 2, 2], [3, 5, 9]], "int32")
    exact = {"variance": np.var, "std": np.std}[op](x, axis=1)
    found = both_ways(f"R.{op}(a0, axis=1)", x)
    np.testing.assert_array_equal(found, exact.astype("int32"))


def test_a_scatter_by_a_number_of_coordinates_known_at_run_time_is_the_same_compiled():
    data, updates = np.zeros((3, 4), "float32"), np.ones((2, 4), "float32")
    indices = np.array([[2], [0]])
    shapes = ["(3, 4)", '("k", "c")', "(2, 4)"]
    found = both_ways("R.scatter_nd(a0, a1, a2)", data, indices, updates, shapes=shapes)
    np.testing.assert_array_equal(found, np.array([[1] * 4, [0] * 4, [1] * 4], "float32"))
    module = program("R.scatter_nd(a0, a1, a2)", data, indices, updates, shapes=shapes)
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        with pytest.raises(
            StructIRError, match="expected at most 2 coordinates along the last axis, found 5"
        ):
            run(data, np.zeros((2, 5), "int64"), updates)


@pytest.mark.parametrize(
    ("body", "second"),
    [
        ('R.full(R.shape(["n // m"]), R.const(1.0, "float32"))', '("n", "m")'),
        ('R.full(R.shape(["n % m"]), R.const(1.0, "float32"))', '("n", "m")'),
        ("R.add(a0, a1)", '("m", "n // m")'),
        ('R.shape(["n // m"])', '("n", "m")'),
    ],
)
def test_a_size_divided_by_a_size_of_zero_is_named(body, second):
    x, y = np.zeros((3, 0), "float32"), np.zeros((3, 0), "float32")
    y = np.zeros((0, 3), "float32") if "//" in second else y
    module = program(body, x, y, shapes=['("n", "m")', second])
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        with pytest.raises(
            StructIRError, match=r"division by zero in the size n (//|%) m, with n = 3, m = 0"
        ):
            run(x, y)


PLACES = {
    "clip": lambda index, size: min(max(index, 0), size - 1),
    "wrap": lambda index, size: index % size,
    "nan": lambda index, size: index if 0 <= index < size else None,
    "fast": lambda index, size: index if 0 <= index < size else None,
}


@pytest.mark.parametrize("mode", PLACES)
@pytest.mark.parametrize("size", [200, 3])
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_take_modes_out_of_range(mode, size, dtype):
    x = np.arange(2 * size, dtype="float32").reshape(2, size) + 1
    indices = np.array([0, 2, size + 1, -1, -size - 2, 1], "int64").astype(dtype)
    places = [PLACES[mode](int(index), size) for index in indices]
    missing = np.full(2, np.nan if mode == "nan" else 0, "float32")
    expected = np.stack([missing if p is None else x[:, p] for p in places], axis=1)
    for shapes in (None, ['("m", "n")', '("k",)']):
        found = both_ways(f'R.take(a0, a1, axis=1, mode="{mode}")', x, indices, shapes=shapes)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["clip", "wrap", "fast"])
def test_take_from_nothing_gives_zeros(mode):
    x, indices = np.zeros((0,), "float32"), np.array([0, -1, 4])
    for shapes in (None, ['("n",)', '("k",)']):
        found = both_ways(f'R.take(a0, a1, mode="{mode}")', x, indices, shapes=shapes)
        np.testing.assert_array_equal(found, np.zeros(3, "float32"))


def test_integers_have_no_nan_to_take():
    with pytest.raises(DiagnosticError, match="floating-point"):
        program('R.take(a0, a1, mode="nan")', np.zeros(3, "int32"), np.zeros(2, "int64"))


@pytest.mark.parametrize("count", [1, 2])
def test_the_last_of_several_updates_of_one_place_wins(count):
    random = np.random.default_rng(count)
    data = np.zeros((3, 4), "float32")
    indices = random.integers(0, 3, (40, count))
    updates = random.standard_normal((40, *data.shape[count:])).astype("float32")
    expected = data.copy()
    for place, update in zip(indices, updates, strict=True):
        expected[tuple(place)] = update
    found = both_ways("R.scatter_nd(a0, a1, a2)", data, indices, updates)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        ("max_pool2d_backward", [(1, 1, 4, 4), (1, 1, 4, 4)]),
        ("avg_pool2d_backward", [(1, 1, 4, 4), (1, 1, 4, 4)]),
        ("nll_loss_backward", [(), (2, 3)]),
    ],
)
def test_backward_ops_by_name(op, shapes):
    arrays = [np.ones(shape, "float32") for shape in shapes]
    if op == "nll_loss_backward":
        arrays.append(np.array([2, 0]))
    names = ", ".join([f"a{k}" for k in range(len(arrays))])
    both_ways(f"R.grad.{op}({names})", *arrays)


@pytest.mark.parametrize("count", [0, 3])
def test_a_data_dependent_axis_may_be_empty(count):
    x, indices = np.zeros((count, 2), "float32"), np.array([0, 1])
    shapes = ['("n", 2)', "(2,)"]
    found = both_ways("R.one_hot(a1, 1.0, 0.0, R.prim_value(n))", x, indices, shapes=shapes)
    np.testing.assert_array_equal(found, np.eye(2, count))
    with pytest.raises(DiagnosticError, match="depth: expected a positive size, found 0"):
        program("R.one_hot(a0, 1.0, 0.0, 0)", indices)


def test_reshape_infers_a_size_from_unshared_sizes():
    x = np.zeros((0, 3), "float32")
    assert both_ways("R.reshape(a0, R.shape([n, -1]))", x, shapes=['("n", 3)']).shape == (0, 3)
    module = program("R.reshape(a0, R.shape([n, -1]))", x, x, shapes=['("2 * n", 3)', '("n", 3)'])
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        assert run(np.zeros((4, 3), "float32"), np.zeros((2, 3), "float32")).shape == (2, 6)
        with pytest.raises(StructIRError, match="rest_is_0 == 0"):
            run(x, x)


def test_roll_along_several_axes():
    x = np.arange(24.0).reshape(2, 3, 4)
    found = both_ways("R.roll(a0, (1, n), axis=(0, -1))", x, shapes=['("n", 3, "m")'])
    np.testing.assert_array_equal(found, np.roll(x, (1, 2), (0, -1)))
    np.testing.assert_array_equal(both_ways("R.roll(a0, 5, axis=[1, 2])", x), np.roll(x, 5, (1, 2)))
    with pytest.raises(DiagnosticError, match="shift: expected 1 or 2 numbers, found 3"):
        program("R.roll(a0, (1, 2, 3), axis=[1, 2])", x)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8", "uint32"])
def test_integers_are_divided_exactly(dtype):
    least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    whole = [least, least + 3, -7 if least else 7, 0, 5, greatest // 3, greatest - 1, greatest]
    pairs = [(a, b) for a in whole for b in [*whole[1:], 1, 3, 10]]
    exact = [abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1) if b else 0 for a, b in pairs]
    dividends, divisors = (
        np.array([a for a, _ in pairs], dtype),
        np.array([b for _, b in pairs], dtype),
    )
    wanted = np.array([e if e <= greatest else least for e in exact], dtype)
    np.testing.assert_array_equal(both_ways("R.divide(a0, a1)", dividends, divisors), wanted)
    with np.errstate(all="ignore"):
        low, rest = np.floor_divide(dividends, divisors), np.fmod(dividends, divisors)
    np.testing.assert_array_equal(both_ways("R.floor_divide(a0, a1)", dividends, divisors), low)
    np.testing.assert_array_equal(both_ways("R.mod(a0, a1)", dividends, divisors), rest)


def test_float64_is_rounded_once_to_float16():
    ties = (1 + np.arange(2048) * 2.0**-11) * 2.0 ** np.arange(-26, 17)[:, None]
    x = np.concatenate([ties, ties * (1 + 2.0**-45), -ties * (1 - 2.0**-45)]).reshape(-1)
    x = np.concatenate([x, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 5e-324]])
    found = both_ways('R.astype(a0, "float16")', x)
    with np.errstate(over="ignore"):
        wanted = x.astype("float16")
    np.testing.assert_array_equal(found, wanted)
    compiled = structir.compile(program('R.astype(a0, "float16")', x))["main"](x)
    np.testing.assert_array_equal(compiled.view("uint16")[:-3], wanted.view("uint16")[:-3])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("op", ["max_pool2d_backward", "avg_pool2d_backward"])
def test_backward_pools_of_other_layouts(op):
    rng = np.random.default_rng(0)
    grad, data = rng.standard_normal((1, 3, 2, 4)), rng.integers(0, 5, (1, 3, 5, 6)).astype(float)
    numbers = "(3, 2), (2, 1), (0, 0, 0, 0), (1, 2)"
    usual = program(f"R.grad.{op}(a0, a1, {numbers})", grad, data)
    wanted = structir.interpret(usual, "main", grad, data)
    for layout, made in [("NHWC", "NHWC"), ("NCWH", "NHWC")]:
        order = ["NCHW".index(a) for a in layout]
        back = np.ascontiguousarray(grad.transpose(["NCHW".index(a) for a in made]))
        body = f'R.grad.{op}(a0, a1, {numbers}, layout="{layout}", out_layout="{made}")'
        found = both_ways(body, back, np.ascontiguousarray(data.transpose(order)))
        np.testing.assert_allclose(found, wanted.transpose(order))


def test_undetermined_sizes_are_errors():
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    j = T.int64()
    k = T.int64()
    y = R.match_cast(x, R.Tensor((j * k, j + k), "float32"))
    z = R.add(y, y)
    return z
""")
    with pytest.raises(StructIRError, match="match_cast mentions j, k"):
        structir.compile(module)["main"](np.ones((6, 6), "float32"))


@pytest.mark.parametrize(
    ("known", "shape", "wanted"),
    [
        ('("n", "m")', "(k, p)", (0, 0)),
        ('("n", "m")', "(0, 0)", (3, 0)),
        ('("n", "m")', "s", (0, 0)),
        ("ndim=2", "(k, p)", (0, 0)),
        ("ndim=2", "(0, 0)", (3, 0)),
    ],
)
def test_a_size_is_copied_where_0_is_written_and_not_where_it_turns_out(known, shape, wanted):
    x, none = np.zeros((3, 0), "float32"), (0, 0)
    stated = "ndim=2" if shape == "s" else '["k", "p"]'
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor({known}, dtype="float32"), s: R.Shape({stated})):
    k = T.int64()
    p = T.int64()
    return R.reshape(x, {shape})
""")
    for run in (partial(structir.interpret, module, "main"), structir.compile(module)["main"]):
        assert run(x, none).shape == wanted


@pytest.mark.parametrize(
    ("known", "shape", "sizes", "wanted"),
    [
        ("(1,)", "k", (1,), None),
        ("ndim=1", "k", (1,), None),
        ("ndim=1", "s", (1,), None),
        ("ndim=2", "(0, k)", (4, 1), None),
        ("ndim=2", "(0, k)", (4, 0), (4, 0)),
        ('("n", "m")', "(m, -1)", (5, 0), (0, 5)),
        ('("n", "m")', "(k, -1)", (5, 0), None),
    ],
)
def test_a_size_that_turns_out_0_is_refused_where_there_are_elements(known, shape, sizes, wanted):
    x = np.zeros(sizes, "float32")
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor({known}, dtype="float32"), s: R.Shape(["k"])):
    k = T.int64()
    n = T.int64()
    m = T.int64()
    return R.reshape(x, {shape})
""")
    for run in (partial(structir.interpret, module, "main"), structir.compile(module)["main"]):
        if wanted is None:
            with pytest.raises(StructIRError, match=r"^reshape"):
                run(x, (0,))
        else:
            assert run(x, (0,)).shape == wanted


@pytest.mark.parametrize(
    "bounds",
    ["2, 0, {k}", "0, 10, {k}", "10, 0, -{k}", "0, 10, {k} - 3", "{n}, 0, {k} - 2"],
)
def test_ranges_by_steps_of_any_sign(bounds):
    parameters = 'x: R.Tensor(("k",), "int8"), y: R.Tensor(("n",), "int8")'
    lines = [f"def main({parameters}):", "k = T.int64()", "n = T.int64()"]
    lines += [f"return R.arange({bounds.format(k='k', n='n')})"]
    module = structir.parse("@R.function\n" + "\n    ".join(lines) + "\n")
    executable = structir.compile(module)
    for k in range(6):
        given = np.ones(k, "int8"), np.ones(7, "int8")
        start, end, step = eval(f"({bounds.format(k=k, n=7)})")
        if step == 0:
            for run in (partial(structir.interpret, module, "main"), executable["main"]):
                with pytest.raises(StructIRError, match=r"arange.*step_is_0 == 0"):
                    run(*given)
        else:
            wanted = np.arange(start, end, step)
            np.testing.assert_array_equal(structir.interpret(module, "main", *given), wanted)
            np.testing.assert_array_equal(executable["main"](*given), wanted)


def test_narrow_integers_are_put_together_in_a_wider_dtype():
    x = np.array([[1, -2], [1, 1]], ml_dtypes.int2)
    np.testing.assert_array_equal(
        both_ways('R.cumprod(a0, dtype="int32")', x), np.cumprod([1, -2, 1, 1])
    )
    assert both_ways('R.cumsum(a0, dtype="uint64")', x[1:]).tolist() == [1, 2]


@pytest.mark.parametrize("known", ["ndim=1", '("n",)'])
def test_more_elements_than_there_are_is_refused_unless_that_is_known_before(known):
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor({known}, dtype="float32"), y: R.Tensor((3,), dtype="float32")):
    n = T.int64()
    return R.topk(x, k=5, ret_type="values"), R.topk(y, k=5, ret_type="values")
""")
    for run in (partial(structir.interpret, module, "main"), structir.compile(module)["main"]):
        assert [len(part) for part in run(np.ones(6, "f4"), np.ones(3, "f4"))] == [5, 3]
        with pytest.raises(StructIRError, match=r"^topk"):
            run(np.ones(3, "f4"), np.ones(3, "f4"))
