"""Incorrect passes, each as a program before and after: `VerifyResults` rejects them by default."""

import pytest

import structir
from structir import passes
from structir.errors import PassError
from structir.ir import IRModule
from structir.passes import Pass, PassContext

ONE = 'x: R.Tensor(("n",), "float32")'
TWO = 'x: R.Tensor(("n", "m"), "float32")'
THREE = 'x: R.Tensor(("b", "n", "m"), "float32")'
FOUR = 'x: R.Tensor(("b", "h", "s", "d"), "float32")'
NONE = 'x: R.Tensor((5, 6), "float32")'
PAIR = 'x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")'
INTS = 'i: R.Tensor(("n", "m"), "int32")'
TABLE = 'x: R.Tensor(("v", "d"), "float32"), i: R.Tensor(("b", "s"), "int64")'
ANY = "x: R.Tensor(ndim=2)"

# what is wrong: parameters, the program, the wrong program
WRONG = {
    "a factor of 1.01, no dims": (
        NONE,
        "return R.nn.silu(x)",
        "return R.multiply(R.nn.silu(x), R.const(1.01))",
    ),
    "a factor of 1.01, two dims": (
        TWO,
        "return R.nn.silu(x)",
        "return R.multiply(R.nn.silu(x), R.const(1.01))",
    ),
    "a factor of 1.01, four dims": (
        FOUR,
        "return R.nn.softmax(x, axis=-1)",
        "return R.multiply(R.nn.softmax(x, axis=-1), R.const(1.01))",
    ),
    "a softmax along another axis": (
        THREE,
        "return R.nn.softmax(x, axis=2)",
        "return R.nn.softmax(x, axis=1)",
    ),
    "a factor within the tolerance of float32": (
        THREE,
        "return R.nn.silu(x)",
        "return R.multiply(R.nn.silu(x), R.const(1.00003))",
    ),
    "small values that become 0 next to large ones": (
        TWO,
        "return R.multiply(x, R.const(1000.0))",
        "y = R.multiply(x, R.const(1000.0))\n"
        "    return R.where(R.less(R.abs(y), R.const(1e-2)), R.const(0.0), y)",
    ),
    "an infinity that becomes finite": (
        TWO,
        "return R.cumsum(x, axis=0)",
        "y = R.cumsum(x, axis=0)\n    return R.where(R.isinf(y), R.const(0.0), y)",
    ),
    "a wrong broadcast of a single row": (
        TWO,
        'y = R.match_cast(x, R.Tensor((n, n), "float32"))\n'
        "    return R.subtract(R.permute_dims(y), y)",
        "return R.subtract(R.permute_dims(x), x)",
    ),
    "wrong above 16": (
        FOUR,
        "return R.exp(x)",
        "c = R.shape_to_tensor(R.shape([d]))\n"
        '    o = R.astype(R.greater(c, R.const([16], "int64")), "float32")\n'
        "    return R.add(R.exp(x), o)",
    ),
    "a sum along another axis": (
        FOUR,
        "return R.sum(x, axis=[1], keepdims=True)",
        "return R.multiply(R.sum(x, axis=[2], keepdims=True), "
        "R.sum(R.zeros_like(x), axis=[1], keepdims=True))",
    ),
    "a cumulative sum along another axis": (
        TWO,
        "return R.cumsum(x, axis=0)",
        "return R.cumsum(x, axis=1)",
    ),
    "a flip along another axis": (FOUR, "return R.flip(x, axis=1)", "return R.flip(x, axis=2)"),
    "a mean for a sum": (
        THREE,
        "return R.sum(x, axis=[0])",
        "return R.mean(x, axis=[0])",
    ),
    "a maximum for a minimum": (
        TWO,
        "return R.max(x, axis=[1])",
        "return R.min(x, axis=[1])",
    ),
    "a slice off by one": (
        TWO,
        "return R.strided_slice(x, axes=[1], begin=[0], end=[1])",
        "return R.strided_slice(x, axes=[1], begin=[1], end=[2])",
    ),
    "the last element left out": (
        'x: R.Tensor(("n", 9), "float32")',
        "return R.sum(x, axis=[1])",
        "y = R.strided_slice(x, axes=[1], begin=[0], end=[8])\n    return R.sum(y, axis=[1])",
    ),
    "operands of a difference swapped": (
        PAIR,
        "return R.subtract(x, y)",
        "return R.subtract(y, x)",
    ),
    "operands of a quotient swapped": (PAIR, "return R.divide(x, y)", "return R.divide(y, x)"),
    "operands of a power swapped": (PAIR, "return R.power(x, y)", "return R.power(y, x)"),
    "branches of a choice swapped": (
        PAIR,
        "return R.where(R.greater(x, y), x, y)",
        "return R.where(R.greater(x, y), y, x)",
    ),
    "greater or equal for greater": (
        TWO,
        'return R.astype(R.greater(x, R.const(0.0)), "int32")',
        'return R.astype(R.greater_equal(x, R.const(0.0)), "int32")',
    ),
    "a cast to float16 dropped": (
        TWO,
        'return R.astype(R.astype(x, "float16"), "float32")',
        "return R.multiply(x, R.const(1.0))",
    ),
    "a cast to bfloat16 dropped": (
        THREE,
        'return R.astype(R.astype(x, "bfloat16"), "float32")',
        "return R.multiply(x, R.const(1.0))",
    ),
    "a cast to float32 dropped": (
        'x: R.Tensor(("n", "m"), "float64")',
        'return R.astype(R.astype(x, "float32"), "float64")',
        'return R.multiply(x, R.const(1.0, "float64"))',
    ),
    "a cast to int32 dropped": (
        TWO,
        'return R.astype(R.astype(x, "int32"), "float32")',
        "return R.multiply(x, R.const(1.0))",
    ),
    "a cast to int8 dropped": (
        INTS,
        'return R.astype(R.astype(i, "int8"), "int32")',
        'return R.multiply(i, R.const(1, "int32"))',
    ),
    "rounding for truncation": (TWO, "return R.trunc(x)", "return R.floor(x)"),
    "halves rounded up": (
        TWO,
        "return R.round(x)",
        "return R.floor(R.add(x, R.const(0.5)))",
    ),
    "a sign of 0": (
        TWO,
        "return R.sign(x)",
        "return R.where(R.greater_equal(x, R.const(0.0)), R.const(1.0), R.const(-1.0))",
    ),
    "integers that overflow through a float": (
        INTS,
        'return R.add(i, R.const(1, "int32"))',
        'return R.astype(R.add(R.astype(i, "float64"), R.const(1.0, "float64")), "int32")',
    ),
    "integers that overflow in a product": (
        INTS,
        'return R.astype(R.multiply(i, i), "int64")',
        'j = R.astype(i, "int64")\n    return R.multiply(j, j)',
    ),
    "the least integer": (
        INTS,
        'return R.maximum(i, R.const(-2147483647, "int32"))',
        'return R.multiply(i, R.const(1, "int32"))',
    ),
    "negative integers": (INTS, "return R.abs(i)", 'return R.multiply(i, R.const(1, "int32"))'),
    "a relu for negative values": (
        TWO,
        "return R.nn.relu(x)",
        "return R.multiply(x, R.const(1.0))",
    ),
    "an absolute value": (
        ONE,
        "return R.sqrt(R.multiply(x, x))",
        "return R.multiply(x, R.const(1.0))",
    ),
    "a softmax that overflows": (
        TWO,
        "return R.nn.softmax(x, axis=-1)",
        "e = R.exp(x)\n    return R.divide(e, R.sum(e, axis=[-1], keepdims=True))",
    ),
    "a sigmoid that overflows": (
        TWO,
        "return R.log(R.add(R.exp(R.minimum(x, R.const(80.0))), R.const(1.0)))",
        "return R.log(R.add(R.exp(x), R.const(1.0)))",
    ),
    "a clip of large values": (
        THREE,
        "return R.clip(x, -50.0, 50.0)",
        "return R.multiply(x, R.const(1.0))",
    ),
    "a NaN that is replaced": (
        TWO,
        "return R.where(R.isnan(x), R.const(0.0), x)",
        "return R.multiply(x, R.const(1.0))",
    ),
    "an infinity that is not finite": (
        THREE,
        'return R.astype(R.isfinite(x), "int32")',
        'return R.ones_like(R.astype(R.isnan(x), "int32"))',
    ),
    "x - x is 0 but for infinities": (
        TWO,
        "return R.subtract(x, x)",
        "return R.zeros_like(x)",
    ),
    "wrong at size 1 only": (
        TWO,
        "return R.nn.softmax(x, axis=0)",
        "k = R.max(x, axis=[0], keepdims=True)\n"
        "    c = R.shape_to_tensor(R.shape([n]))\n"
        '    o = R.astype(R.equal(c, R.const([1], "int64")), "float32")\n'
        "    return R.add(R.nn.softmax(x, axis=0), R.multiply(o, R.const(0.5)))",
    ),
    "wrong at other sizes than 1": (
        THREE,
        "return R.sum(x, axis=[0], keepdims=True)",
        "return R.max(x, axis=[0], keepdims=True)",
    ),
    "another row of a table": (
        TABLE,
        "return R.take(x, i, axis=0)",
        "return R.take(R.flip(x, axis=0), i, axis=0)",
    ),
    "the last row of a table": (
        'x: R.Tensor((10, "d"), "float32"), i: R.Tensor(("b", "s"), "int64")',
        "return R.take(x, i, axis=0)",
        'return R.take(x, R.minimum(i, R.const(8, "int64")), axis=0)',
    ),
    "a logarithm with another base": (
        TWO,
        "return R.log(x)",
        "return R.multiply(R.log(x), R.const(1.01))",
    ),
    "an inverse sine": (
        TWO,
        "return R.asin(x)",
        "return R.multiply(R.asin(x), R.const(1.01))",
    ),
    "a matmul of the same shape": (
        'x: R.Tensor(("n", 8, 8), "float32"), y: R.Tensor((8, 8), "float32")',
        "return R.matmul(x, y)",
        "return R.matmul(x, R.permute_dims(y))",
    ),
    "a requirement dropped": (
        TWO,
        'R.require("n % 4 == 0")\n    return R.exp(x)',
        "return R.exp(x)",
    ),
    "a requirement of two dims dropped": (
        THREE,
        'R.require("n <= m")\n    return R.exp(x)',
        "return R.exp(x)",
    ),
    "a cast of sizes dropped": (
        ANY,
        'n = T.int64()\n    y = R.match_cast(x, R.Tensor((n, 4), "float32"))\n    return R.exp(y)',
        "n = T.int64()\n    m = T.int64()\n"
        '    y = R.match_cast(x, R.Tensor((n, m), "float32"))\n    return R.exp(y)',
    ),
    "a cast that equates dims dropped": (
        TWO,
        'y = R.match_cast(x, R.Tensor((n, n), "float32"))\n    return R.exp(y)',
        "return R.exp(x)",
    ),
    "a multiple that a program requires": (
        TWO,
        'R.require("n % 8 == 0")\n    return R.nn.gelu(x)',
        'R.require("n % 8 == 0")\n    return R.multiply(R.nn.gelu(x), R.const(1.01))',
    ),
}

# what is right: parameters, the program, another program
RIGHT = {
    "a sum in another order": (
        'x: R.Tensor(("n", "m", 64), "float32")',
        "return R.sum(R.sum(x, axis=[2]), axis=[1])",
        "return R.sum(R.sum(x, axis=[1]), axis=[1])",
    ),
    "a difference of nearly equal sums": (
        PAIR,
        "return R.subtract(R.add(x, y), x)",
        "return R.add(R.subtract(x, x), y)",
    ),
    "a product of matrices in another order": (
        'x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m", 5), "float32"), '
        'z: R.Tensor((5, "k"), "float32")',
        "return R.matmul(R.matmul(x, y), z)",
        "return R.matmul(x, R.matmul(y, z))",
    ),
    "a stable softmax": (
        FOUR,
        "return R.nn.softmax(x, axis=-1)",
        "e = R.exp(R.subtract(x, R.max(x, axis=[-1], keepdims=True)))\n"
        "    return R.divide(e, R.sum(e, axis=[-1], keepdims=True))",
    ),
    "two roundings of float16": (
        'x: R.Tensor(("n", "m"), "float16")',
        'return R.multiply(R.multiply(x, R.const(3.0, "float16")), R.const(0.7, "float16"))',
        'return R.multiply(x, R.const(2.1, "float16"))',
    ),
    "integers modulo their range": (
        INTS,
        "return R.subtract(R.add(i, i), i)",
        'return R.multiply(i, R.const(1, "int32"))',
    ),
    "the rows of a table, for indices in range": (
        TABLE,
        "return R.exp(R.take(x, i, axis=0))",
        "return R.take(R.exp(x), i, axis=0)",
    ),
}


def program(params: str, body: str) -> IRModule:
    return structir.parse(f"@R.function\ndef main({params}):\n    {body}\n")


def compare(params: str, before: str, after: str) -> passes.VerifyResults:
    wrong = program(params, after)
    comparing = passes.VerifyResults()
    with PassContext([comparing]):
        Pass("turned", lambda module: wrong)(program(params, before))
    return comparing


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_an_incorrect_pass_is_an_error(case: tuple[str, str, str]) -> None:
    with pytest.raises(PassError, match=r"turned (changes the result|removes a check) of main"):
        compare(*case)


@pytest.mark.parametrize("case", RIGHT.values(), ids=RIGHT)
def test_results_of_a_correct_pass_are_compared(case: tuple[str, str, str]) -> None:
    assert compare(*case).functions["main"].elements > 20
