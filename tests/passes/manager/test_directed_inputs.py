"""Rewrites that are wrong for few inputs: inputs depend on what both programs mention."""

import numpy as np
import pytest

import structir
from structir.errors import PassError
from structir.ir import IRModule
from structir.passes import Pass, PassContext, VerifyResults, pipeline
from structir.passes.manager.mentions import mentions
from structir.passes.manager.samples import samples_of

ONE = 'x: R.Tensor(("n",), "float32")'
TWO = 'x: R.Tensor(("n", "m"), "float32")'
PAIR = 'x: R.Tensor(("n",), "float32"), z: R.Tensor(("n",), "float32")'
INTS = 'i: R.Tensor(("n",), "int32"), j: R.Tensor(("n",), "int32")'
SCATTER = (
    'x: R.Tensor(("n", 2), "float32"), i: R.Tensor((5, 2), "int64"), u: R.Tensor((5, 2), "float32")'
)
FLAG = 'x: R.Tensor((3, 4), "float32"), b: R.Tensor((), "bool"), k: R.Tensor((), "int32")'
IF = "if {}:\n        y = R.exp(x)\n    else:\n        y = {}\n    return y"
ASSERT = (
    'R.call_packed("structir.assert_op", R.less({}, R.const({})), R.str("large"), R.tuple(), '
    "sinfo_args=R.Tuple())\n    return R.exp(R.multiply(x, R.const(0.01)))"
)
PRINT = (
    'R.call_packed("structir.print", R.str("{{}}"), {}, sinfo_args=R.Tuple())\n    return R.exp(x)'
)


def where(first: str, second: str, wrong: str, result: str, op: str = "equal") -> str:
    """Returns a result that is wrong where a comparison of two sizes holds."""
    sizes = [f"R.shape_to_tensor(R.shape([{size}]))" for size in (first, second)]
    return f"y = {result}\n    return R.where(R.{op}({', '.join(sizes)}), {wrong}, y)"


# what is wrong: parameters, the program, the wrong program
WRONG = {
    "two equal sizes": (TWO, "return R.exp(x)", where("n", "m", "R.negative(y)", "R.exp(x)")),
    "a size that is twice another": (
        TWO,
        "return R.exp(x)",
        where("n", "2 * m", "R.negative(y)", "R.exp(x)"),
    ),
    "a product of sizes": (
        TWO,
        "return R.exp(x)",
        where("n * m", "100", "R.negative(y)", "R.exp(x)", "greater"),
    ),
    "one size": (ONE, "return R.exp(x)", where("n", "43", "R.negative(y)", "R.exp(x)")),
    "sizes beyond a tile": (
        ONE,
        "return R.cumsum(x, axis=0)",
        "i = R.arange(0, n, 1, 'int64')\n    c = R.less(i, R.const(128, 'int64'))\n"
        "    return R.where(c, R.cumsum(x, axis=0), x)",
    ),
    "positions that int8 does not hold": (
        ONE,
        'return R.add(R.arange(0, n, 1, "int64"), R.argmax(x, axis=0))',
        'i = R.astype(R.astype(R.arange(0, n, 1, "int64"), "int8"), "int64")\n'
        "    return R.add(i, R.argmax(x, axis=0))",
    ),
    "the first of two maxima": (
        'x: R.Tensor((2, 6), "int32")',
        "return R.argmax(x, axis=1)",
        'j = R.argmax(R.flip(x, axis=1), axis=1)\n    return R.subtract(R.const(5, "int64"), j)',
    ),
    "neighbours that float32 does not distinguish": (
        'x: R.Tensor((3, 6), "int32")',
        "return R.argsort(x, axis=1)",
        'return R.argsort(R.astype(x, "float32"), axis=1)',
    ),
    "a sum that overflows": (
        'i: R.Tensor((300,), "int8")',
        'return R.sum(R.astype(i, "int32"))',
        'return R.astype(R.sum(R.astype(i, "int16")), "int32")',
    ),
    "integers that agree modulo 256": (
        INTS,
        "return R.equal(i, j)",
        'return R.equal(R.astype(i, "uint8"), R.astype(j, "uint8"))',
    ),
    "equal parameters": (
        INTS,
        'return R.min(R.astype(R.equal(i, j), "int32"))',
        "return R.min(R.zeros_like(i))",
    ),
    "NaN in both parameters": (
        PAIR,
        'return R.min(R.astype(R.equal(x, z), "int32"))',
        "e = R.logical_or(R.equal(x, z), R.logical_and(R.isnan(x), R.isnan(z)))\n"
        '    return R.min(R.astype(e, "int32"))',
    ),
    "equal elements": (
        ONE,
        "d = R.subtract(R.max(x), R.min(x))\n"
        "    return R.where(R.equal(d, R.const(0.0)), x, R.divide(x, d))",
        "return R.divide(x, R.subtract(R.max(x), R.min(x)))",
    ),
    "values that cancel": (
        TWO,
        "return R.variance(x, axis=[1])",
        "return R.subtract(R.mean(R.square(x), axis=[1]), R.square(R.mean(x, axis=[1])))",
    ),
    "the last index is not written": (
        SCATTER,
        'return R.scatter_elements(x, i, u, axis=0, reduction="add")',
        "l = R.subtract(R.shape_to_tensor(R.shape([n])), R.const([1], 'int64'))\n"
        "    v = R.where(R.equal(i, l), R.const(0.0), u)\n"
        '    return R.scatter_elements(x, i, v, axis=0, reduction="add")',
    ),
    "repeated indices": (
        SCATTER,
        'return R.scatter_elements(x, i, u, axis=0, reduction="add")',
        "return R.add(x, R.scatter_elements(R.zeros_like(x), i, u, axis=0))",
    ),
    "an index out of range, which reads NaN": (
        'x: R.Tensor(("n", 2), "float32"), i: R.Tensor((5,), "int64")',
        'return R.take(x, i, axis=0, mode="nan")',
        "return R.take(x, i, axis=0)",
    ),
    "a branch": (FLAG, IF.format("b", "R.cos(x)"), IF.format("b", "R.exp(x)")),
    "one trip count": (
        FLAG,
        IF.format('R.equal(k, R.const(77, "int32"))', "R.cos(x)"),
        IF.format('R.equal(k, R.const(78, "int32"))', "R.cos(x)"),
    ),
    "a threshold of a sum": (
        ONE,
        IF.format("R.greater(R.sum(x), R.const(20.0))", "R.cos(x)"),
        IF.format("R.greater(R.sum(x), R.const(22.0))", "R.cos(x)"),
    ),
    "one bound of an assertion": (
        ONE,
        ASSERT.format("R.sum(R.abs(x))", "50.0"),
        ASSERT.format("R.sum(R.abs(x))", "55.0"),
    ),
    "an effect": (ONE, PRINT.format("x"), PRINT.format("R.negative(x)")),
    "an effect that is dropped": (ONE, PRINT.format("x"), "return R.exp(x)"),
    "one of two conditions": (
        TWO,
        'R.require("n % 2 == 0", "m >= n")\n    return R.exp(x)',
        'R.require("n % 2 == 0", "m >= n - 1")\n    return R.exp(x)',
    ),
    "the size of a cast": (
        "x: R.Tensor(ndim=2), z: R.Tensor(ndim=2)",
        'x = R.match_cast(x, R.Tensor((n, m), "float32"))\n'
        '    z = R.match_cast(z, R.Tensor((m, n), "float32"))\n    return R.matmul(x, z)',
        "k = T.int64()\n"
        '    x = R.match_cast(x, R.Tensor((n, m), "float32"))\n'
        '    z = R.match_cast(z, R.Tensor((m, k), "float32"))\n    return R.matmul(x, z)',
    ),
    "one rank": (
        'x: R.Tensor(dtype="float32")',
        "return R.sum(R.exp(x), axis=[-1])",
        "return R.sum(R.exp(x), axis=[0])",
    ),
    "a dtype": (
        'x: R.Tensor(("n",), "\'T")',
        "return R.multiply(x, x)",
        'return R.astype_like(R.astype(R.multiply(x, x), "float32"), x)',
    ),
    "integers of a tuple": (
        'p: R.Tuple(R.Tensor((3,), "int64"), R.Tensor((2,), "float32"))',
        "return R.sum(p[0])",
        'return R.astype(R.sum(R.astype(p[0], "float64")), "int64")',
    ),
    "a tie with a number": (
        ONE,
        "return R.where(R.greater(x, 0.3), x, R.negative(x))",
        "return R.where(R.greater_equal(x, 0.3), x, R.negative(x))",
    ),
    "only negative elements": (
        'x: R.Tensor(("n",), "float32"), a: R.Tensor(("n",), "bool")',
        "return R.max(R.where(a, x, R.const(-1.0)))",
        "return R.max(R.maximum(R.where(a, x, R.const(-1.0)), R.const(-1.0)))",
    ),
    "many elements of a narrow sum": (
        'x: R.Tensor(("n", "m"), "uint8")',
        'return R.sum(R.astype(x, "int32"), axis=[1])',
        'return R.astype(R.sum(R.astype(x, "int16"), axis=[1]), "int32")',
    ),
    "a cast of narrow floats": (
        'x: R.Tensor(("n",), "bfloat16"), k: R.Tensor(("n",), "float16")',
        'return R.astype(R.multiply(R.astype(x, "float32"), R.astype(k, "float32")), "float16")',
        'y = R.multiply(x, R.astype(k, "bfloat16"))\n    return R.astype(y, "float16")',
    ),
}


def module(params: str, body: str) -> IRModule:
    dims = "".join(f"    {dim} = T.int64()\n" for dim in ("n", "m"))
    pure = "(pure=False)" if "call_packed" in body + params else ""
    return structir.parse(f"@R.function{pure}\ndef main({params}):\n{dims}    {body}\n")


def verify(before: IRModule, after: IRModule) -> None:
    with PassContext([VerifyResults()]):
        Pass("rewrite", lambda _: after)(before)


@pytest.mark.parametrize("name", WRONG)
def test_a_rewrite_that_is_wrong_for_few_inputs_is_caught(name: str) -> None:
    params, before, after = WRONG[name]
    with pytest.raises(PassError, match=r"changes the result|removes a check"):
        verify(module(params, before), module(params, after))


@pytest.mark.parametrize("name", WRONG)
def test_an_equal_program_is_accepted(name: str) -> None:
    params, before, _ = WRONG[name]
    verify(module(params, before), module(params, before))


def test_nans_of_zero_times_infinity_are_accepted() -> None:
    params = (
        'x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32"), s: R.Tensor((), "float32")'
    )
    before = module(params, "return R.nn.relu(R.sum(x * w) * s)")
    verify(before, module(params, "return R.nn.relu(R.sum(x * (w * s)))"))


def test_nans_of_explicit_padding_are_accepted() -> None:
    params = 'x: R.Tensor((1, 1, 3, 3), "float32"), f: R.Tensor((1, 1, 3, 3), "float32")'
    before = module(params, "return R.nn.conv2d(x, f, padding=[1, 1, 1, 1])")
    after = "return R.nn.conv2d(R.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]), f)"
    verify(before, module(params, after))


def test_combinators_are_mapped_over_rows() -> None:
    params = 'x: R.Tensor((3, 4), "float32")'
    before = module(params, "return R.map(lambda row: R.sum(row), x)")
    verify(before, module(params, "return R.sum(x, axis=[1])"))


def test_mentions_are_sizes_and_numbers() -> None:
    body = (
        "y = R.reshape(x, (n * m,))\n    z = R.clip(y, -2.5, 7.0)\n"
        '    return R.astype(R.strided_slice(z, axes=[0], begin=[n // 3], end=[n]), "int8")'
    )
    mentioned = mentions(module(TWO, body))
    assert {"n * m", "n // 3", "n"} <= set(mentioned.sizes)
    assert {3, 128} <= set(mentioned.integers) and mentioned.floats == (-2.5, 7.0)
    assert not mentioned.without(mentioned)


def test_a_second_pass_on_the_same_module_uses_the_same_samples() -> None:
    program = module(ONE, "a = R.exp(x)\n    b = R.exp(x)\n    return R.add(a, b)")
    comparing = VerifyResults()
    with PassContext([comparing]):
        pipeline("cse")(program)
        first = {id(sample.arguments[0]) for sample in comparing._samples["main"]}
        pipeline("decompose")(pipeline("cse")(program))
    assert {id(sample.arguments[0]) for sample in comparing._samples["main"]} <= first


def test_integers_near_a_number_fit_the_dtype() -> None:
    program = module(
        'i: R.Tensor(("n",), "uint8"), b: R.Tensor((), "bool")',
        "if b:\n        y = R.add(i, i)\n    else:\n        y = i\n    return y",
    )
    samples = list(samples_of(program, "main", program["main"], edges=True))
    assert {sample.arguments[0].dtype.name for sample in samples} == {"uint8"}


def test_positive_definite_matrices_are_found() -> None:
    program = module('x: R.Tensor(("n", "n"), "float32")', "return R.linalg.cholesky(x)")
    sample = next(iter(samples_of(program, "main", program["main"])))
    assert sample.accepted and sample.elements
    assert np.all(np.linalg.eigvalsh(sample.arguments[0]) > 0)
