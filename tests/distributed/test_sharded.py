"""Sharded functions compute the original result, bitwise equal unless a reduction is split."""

from typing import Any

import numpy as np
import pytest

import structir
from structir.distributed import plan, shard
from structir.errors import StructIRError
from structir.ir import BlockBuilder, Call, Constant, Var, find_op
from structir.ir.dims import sym
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

RNG = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype="float32")


def agree(text: str, *args: object, exact: bool = True, **options: object) -> None:
    module = structir.parse(text)
    result = shard(module, **options)(*args)
    expected = structir.compile(module)["main"](*args)
    pairs = zip(
        result if isinstance(result, tuple) else (result,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    )
    for a, b in pairs:
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


ROWS = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), g: R.Tensor(("m",), "float32")):
    with R.dataflow():
        a = R.nn.softmax(x, axis=-1)
        b = R.nn.layer_norm(x, g, g, axes=[-1])
        c = R.add(a, b)
        R.output(c)
    return c
"""


@pytest.mark.parametrize("grid", [(1, 1), (3, 1), (2, 4)])
def test_rows(grid: tuple[int, int]) -> None:
    agree(ROWS, floats(11, 40), floats(40), grid=grid)


PRODUCTS = """
@R.function
def main(x: R.Tensor(("n", 30), "float32"), w: R.Tensor((30, 20), "float32")):
    with R.dataflow():
        a = R.matmul(x, w)
        b = R.nn.gelu(a)
        c = R.permute_dims(b)
        R.output(c)
    return c
"""


def test_products() -> None:
    agree(PRODUCTS, floats(17, 30), floats(30, 20), grid=(3, 2), exact=False)
    agree(PRODUCTS, floats(17, 30), floats(30, 20), workers=4, exact=False)


IMAGES = """
@R.function
def main(x: R.Tensor(("n", 3, "h", "w"), "float32"), k: R.Tensor((4, 3, 3, 3), "float32")):
    with R.dataflow():
        a = R.nn.conv2d(x, k, padding=1, strides=2)
        b = R.nn.relu(a)
        c = R.nn.max_pool2d(b, pool_size=3, padding=1)
        R.output(c)
    return c
"""


@pytest.mark.parametrize("grid", [(2, 1, 1, 1), (1, 2, 3, 2)])
def test_images(grid: tuple[int, ...]) -> None:
    agree(IMAGES, floats(2, 3, 19, 23), floats(4, 3, 3, 3), grid=grid, exact=False)


MANY = """
@R.function
def main(pair: R.Tuple(R.Tensor((6, 8), "float32"), R.Tensor((8,), "float32"))):
    x = pair[0]
    y = pair[1]
    a = R.add(x, y)
    b = R.sum(a, axis=[1])
    c = R.cumsum(x, axis=0)
    return (a, (b, c))
"""


def test_tuples_of_results_with_axes_of_their_own() -> None:
    module = structir.parse(MANY)
    pair = (floats(6, 8), floats(8))
    a, (b, c) = shard(module, grid=(3, 2))(pair)
    whole = structir.interpret(module, "main", pair)
    np.testing.assert_array_equal(a, whole[0])
    np.testing.assert_allclose(b, whole[1][0], rtol=1e-5)
    np.testing.assert_allclose(c, whole[1][1], rtol=1e-5)


CALLS = """
@I.ir_module
class Module:
    @R.function
    def layer(x: R.Tensor(("n", 40), "float32"), w: R.Tensor((40, 40), "float32")):
        h = R.nn.relu(R.matmul(x, w))
        return h

    @R.function
    def main(x: R.Tensor(("n", 40), "float32"), w: R.Tensor((40, 40), "float32")):
        cls = Module
        a = cls.layer(x, w)
        b = cls.layer(a, w)
        return b
"""


def test_called_functions_are_sharded_too() -> None:
    sharded, args = shard(structir.parse(CALLS), grid=(3, 1)), (floats(9, 40), floats(40, 40))
    assert sharded.plan(*args).shards[1].block_of("x") == ((3, 0), (6, 40))
    agree(CALLS, *args, grid=(3, 1), exact=False)


SAME = """
@R.function
def main(pair: R.Tuple(R.Tensor((6,), "float32"), R.Tensor((4,), "float32"))):
    x = pair[0]
    y = pair[1]
    return (x, y, x)
"""


def test_a_value_returned_twice() -> None:
    agree(SAME, (floats(6), floats(4)), grid=(3,))


EMPTY = """
@R.function
def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor((4,), "float32")):
    a = R.exp(x)
    b, c = R.split(y, indices_or_sections=[4])
    return (y, a, c, x)
"""


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_results_without_elements(rows: int) -> None:
    agree(EMPTY, floats(rows, 3), floats(4), grid=(2,))


OTHER_VALUES = {
    "scalars": "return R.exp(x), a, R.prim_value(n + 1), R.prim_value(0.5)",
    "a scalar only": "return a",
    "nothing": "return R.tuple()",
    "texts": 'return R.exp(x), R.str("text"), R.dtype("float32")',
    "shapes": "s = R.shape_of(x)\n    return R.reshape(x, s), (s, (R.sum(x), s))",
    "elements": "s = R.tensor_to_shape(t)\n    return R.full(s, a), s",
    "a size of elements": """s = R.match_cast(R.tensor_to_shape(t), R.Shape((k, 2)))
    return R.full((k, 3), a), R.prim_value(k), R.shape_to_tensor(s)""",
    "fields": "b = pair[1]\n    return R.multiply(pair[0], b), pair, b",
    "an object": "y = R.match_cast(o, R.Tensor((k,), 'float32'))\n    return R.exp(y), o, y",
    "calls": "r = cls.scaled(x, a)\n    return r[0], r[1], r",
    "branches": """if R.max(x) > 0.5:
        r = (R.exp(x), a)
    else:
        r = (R.abs(x), pair[1])
    b = r[1]
    return R.multiply(x, b), b, r""",
    "a scan with captured values": """q = R.exp(x)
    @R.function
    def step(s: R.Tensor(("n",), "float32"), row: R.Tensor(("n",), "float32")):
        r = R.add(s, R.multiply(R.multiply(row, q), a))
        return r, r
    return R.scan(step, (x,), R.reshape(R.concat((x, q)), (2, n)))""",
    "scalars in branches": """if R.max(x) > 0.5:
        s = R.tensor_to_shape(t)
        y = R.sum(R.full(s, a))
    else:
        y = R.sum(x)
    return y, t""",
}
OTHER = """
@R.function(private=True)
def scaled(x: R.Tensor(("n",), "float32"), a: R.Prim("float32")):
    return R.multiply(x, a), a

@R.function
def main(
    x: R.Tensor(("n",), "float32"), a: R.Prim("float32"), t: R.Tensor((2,), "int64"),
    pair: R.Tuple(R.Tensor(("n",), "float32"), R.Prim("float32")), o: R.Object
):
    n, k = T.int64(), T.int64()
    BODY
"""


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_values_that_are_no_tensors(name: str) -> None:
    module = structir.parse(OTHER.replace("BODY", OTHER_VALUES[name]))
    x = floats(5)
    args = (x, 2.5, np.array([4, 2]), (x, 0.5), x)
    expected = structir.interpret(module, "main", *args)
    sharded = shard(module, workers=2)
    assert_equal(sharded(*args), expected)
    assert_equal(sharded.compute(*args), expected)


def assert_equal(actual: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert isinstance(actual, tuple) and len(actual) == len(expected)
        for pair in zip(actual, expected, strict=True):
            assert_equal(*pair)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
    else:
        assert type(actual) is type(expected) and actual == expected


def test_a_closure_as_a_result() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float32")):
    @R.function
    def add(y: R.Tensor(("n",), "float32")):
        return R.add(x, y)
    return R.exp(x), add
""")
    x = floats(4)
    _, add = shard(module, workers=2)(x)
    np.testing.assert_array_equal(add(x), x + x)


def test_a_called_function_with_large_constants() -> None:
    builder = BlockBuilder()
    inner = Var("x", find_op("exp")(Constant(floats(300))).struct_info)
    with builder.function("inner", [inner]):
        builder.emit_func_output(builder.emit(find_op("add")(inner, Constant(floats(300)))))
    outer = Var("y", inner.struct_info)
    with builder.function("outer", [outer]):
        called = builder.emit(Call(builder.global_var("inner"), (outer,)))
        builder.emit_func_output(called)
    module, x = builder.get(), floats(300)
    expected = structir.interpret(module, "inner", x)
    np.testing.assert_array_equal(shard(module, "inner", workers=3)(x), expected)


BRANCH = """
@R.function
def main(x: R.Tensor((6,), "float32"), c: R.Tensor((), "bool")):
    if c:
        a = R.exp(x)
        out = a
    else:
        b = R.flip(x, axis=0)
        out = b
    return out
"""


@pytest.mark.parametrize("condition", [True, False])
def test_branches(condition: bool) -> None:
    agree(BRANCH, floats(6), np.array(condition), grid=(3,))


@pytest.mark.parametrize("op", ["sum", "max", "min", "prod"])
def test_partial_reductions_combine_in_a_tree(op: str) -> None:
    text = f"""
@R.function
def main(x: R.Tensor((6, "m"), "float32")):
    y = R.{op}(x, axis=[1])
    return y
"""
    agree(text, floats(6, 37), grid=(2,), reduce=5, exact=op in ("max", "min"))


def test_a_padded_convolution_split_along_its_reduction() -> None:
    text = """
@R.function
def main(x: R.Tensor((1, 8, 10), "float32"), k: R.Tensor((4, 8, 3), "float32")):
    y = R.nn.conv1d(x, k, padding=1)
    return y
"""
    agree(text, floats(1, 8, 10), floats(4, 8, 3), grid=(1, 2, 2), reduce=4, exact=False)


def test_large_constants_are_sent_in_blocks() -> None:
    weight = floats(30, 20)
    builder = BlockBuilder()
    x = Var("x", structir.parse(PRODUCTS)["main"].params[0].struct_info)
    with builder.function("main", [x]):
        product = builder.emit(find_op("matmul")(x, Constant(weight)))
        builder.emit_func_output(builder.emit(find_op("permute_dims")(product)))
    bound = builder.get()
    sharded = shard(bound, grid=(2, 1))
    x = floats(17, 30)
    assert sharded.plan(x).shards[0].block_of("constant0") == ((0, 0), (30, 10))
    whole = structir.interpret(bound, "main", x)
    np.testing.assert_allclose(sharded(x), whole, rtol=2e-5, atol=2e-5)


def test_equal_shard_functions_are_compiled_once() -> None:
    module = structir.parse(ROWS)
    sharded = shard(module, grid=(4, 1))
    args = floats(16, 40), floats(40)
    plan = sharded.plan(*args)
    place = sharded.worker_state(plan)
    sharded(*args)
    assert len(plan.shards) == 4
    assert len(place.compiled) == 1


def test_invalid_arguments() -> None:
    sharded = shard(structir.parse(ROWS), workers=2)
    with pytest.raises(StructIRError, match="expected 2 arguments, found 1"):
        sharded(floats(4, 5))
    with pytest.raises(StructIRError, match="parameter g: axis 0: expected m = 5, found 6"):
        sharded(floats(4, 5), floats(6))
    with pytest.raises(StructIRError, match="x: expected dtype float32, found float64"):
        sharded(floats(4, 5).astype("float64"), floats(5))
    with pytest.raises(StructIRError, match="no function `other`"):
        shard(structir.parse(ROWS), "other")


def test_a_failing_shard_names_the_op_the_block_and_the_line() -> None:
    text = """
@R.function
def main(x: R.Tensor((8,), "float32")):
    z = R.call_pure_packed("nowhere", x, sinfo_args=(R.Tensor((8,), "float32"),))
    return z
"""
    sharded = shard(structir.parse(text, "model.py"), grid=(4,))
    with pytest.raises(
        StructIRError, match=r"shard 0 of main at model.py:3.*, block \(0,\) to \(2,\)"
    ) as caught:
        sharded(floats(8))
    assert "nowhere" in str(caught.value)


@pytest.mark.parametrize("columns", [5, 8])
def test_sizes_that_follow_from_others_are_checked(columns: int) -> None:
    text = """
@R.function
def main(x: R.Tensor(("n", "2*n"), "float32")):
    return R.exp(x)
"""
    expected = rf"axis 1: expected 2 \* n = 6 \(n = 3\), found {columns}"
    with pytest.raises(StructIRError, match=expected):
        shard(structir.parse(text), workers=2)(floats(3, columns))


def test_dims_and_parameters_of_one_name_are_different() -> None:
    rows, columns = sym("n"), sym("n")
    first, second = (
        Var("x", TensorStructInfo(dims, "float32")) for dims in ((rows, columns), (columns, 3))
    )
    builder = BlockBuilder()
    with builder.function("main", [first, second]):
        builder.emit_func_output(builder.emit(R.exp(builder.emit(R.matmul(first, second)))))
    module = builder.get()
    x, y = floats(8, 5), floats(5, 3)
    sharded = shard(module, grid=(2, 1))
    np.testing.assert_array_equal(sharded(x, y), structir.compile(module)["main"](x, y))
    planned = plan(module, grid=(2, 1), sizes={"n": 8, "n_1": 5})
    assert [shard.inputs for shard in planned.shards] == [
        s.inputs for s in sharded.plan(x, y).shards
    ]
    with pytest.raises(StructIRError, match="parameter x_1: axis 0: expected n_1 = 5, found 6"):
        sharded(x, floats(6, 3))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_narrow_indices_of_scattered_rows_do_not_wrap_around(dtype: str) -> None:
    text = f"""
@R.function
def main(x: R.Tensor((600, 2), "float32"), i: R.Tensor((40, 2), "{dtype}"),
         u: R.Tensor((40, 2), "float32")):
    y = R.scatter_elements(x, i, u, reduction="add")
    return y
"""
    indices = RNG.integers(0, 127, (40, 2)).astype(dtype)
    agree(text, floats(600, 2), indices, floats(40, 2), grid=(7, 1))
