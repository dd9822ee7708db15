"""Inputs for comparisons: distinct sizes that the program accepts, values in general position, and
the report of comparisons.
"""

from typing import Any

import numpy as np
import pytest

import structir
from structir import passes
from structir.errors import PassError
from structir.ir import IRModule
from structir.passes import PassContext, VerifyResults, pipeline
from structir.passes.manager.input_sample import InputSample
from structir.passes.manager.input_sizes import size_space
from structir.passes.manager.samples import samples_of


def program(params: str, body: str) -> IRModule:
    return structir.parse(f"@R.function\ndef main({params}):\n    {body}\n")


def first(params: str, body: str, **options: Any) -> InputSample:
    module = program(params, body)
    return next(iter(samples_of(module, "main", module["main"], **options)))


def test_sizes_differ_and_every_tensor_has_elements() -> None:
    dims = '("a", "b", "c", "d", 8)'
    sample = first(f'x: R.Tensor({dims}, "float32")', "return R.exp(x)")
    assert len(set(sample.sizes.values())) == 4
    assert max(sample.sizes.values()) > 16
    assert sample.arguments[0].size == sample.elements > 0


@pytest.mark.parametrize(
    ("stated", "holds"),
    [
        ('R.require("n % 4 == 0")', lambda n, m: n % 4 == 0),
        ('R.require("n % 8 == 0", "m >= 2 * n")', lambda n, m: n % 8 == 0 and m >= 2 * n),
        ('R.require("n == 12")', lambda n, m: n == 12),
        ('x = R.match_cast(x, R.Tensor((n, n), "float32"))', lambda n, m: n == m),
        ("y = R.reshape(x, (n // 2, 2, m))", lambda n, m: n % 2 == 0),
        ("y = R.add(x, R.permute_dims(x))", lambda n, m: n == m or 1 in (n, m)),
    ],
)
def test_sizes_satisfy_the_conditions_of_the_program(stated: str, holds: Any) -> None:
    head = "n = T.int64()\n    m = T.int64()\n    "
    sample = first('x: R.Tensor(("n", "m"), "float32")', f"{head}{stated}\n    return R.exp(x)")
    assert sample.elements
    assert holds(sample.sizes["n"], sample.sizes["m"])


def test_every_dim_is_large_in_some_sample() -> None:
    module = program('x: R.Tensor(("a", "b", "c", "d"), "float32")', "return R.exp(x)")
    samples = list(samples_of(module, "main", module["main"], edges=True))
    assert all(max(sample.sizes[dim] for sample in samples) > 16 for dim in "abcd")


def test_large_sizes_do_not_make_a_run_long() -> None:
    params = 'x: R.Tensor(("n * k", "k"), "float32"), y: R.Tensor(("n", "k"), "float32")'
    module = program(params, "return R.cumsum(x)")
    samples = list(samples_of(module, "main", module["main"], edges=True))
    assert max(sample.extent for sample in samples) < 1 << 14


def test_large_values_of_callees_do_not_take_much_memory() -> None:
    module = structir.parse("""
@I.ir_module
class M:
    @R.function(private=True)
    def cube(x: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        v = R.reshape(x, (n * m,))
        u = R.reshape(v, (n * m, 1))
        return R.multiply(R.reshape(v, (n * m, 1, 1)), R.multiply(u, v))

    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        cls = M
        n, m = T.int64(), T.int64()
        return R.sum(cls.cube(x))
""")
    for name in ("cube", "main"):
        space = size_space(module, module[name], False, False)
        sizes = [(each["n"], each["m"]) for each in space.proposals({}, 0)]
        assert len(sizes) > 10
        assert max((n * m) ** 3 for n, m in sizes) < 1 << 25


def test_inputs_with_row_variables_are_small() -> None:
    program = """@R.function
def main(x: R.Tensor(("*r", "n * n", "n", "n"), "float32"), y: R.Tensor(("n",), "float32")):
    return R.exp(y)
"""
    module = structir.parse(program)
    samples = list(samples_of(module, "main", module["main"], 3, 0))
    assert samples
    assert all(np.size(a) <= 1 << 25 for sample in samples for a in sample.arguments)


def test_large_weights_do_not_rule_out_all_sizes() -> None:
    params = 'x: R.Tensor(("n", 2100), "float32"), w: R.Tensor((2100, 2100), "float32")'
    sample = first(params, "return R.add(x, R.max(w, axis=[0]))")
    assert sample.sizes["n"] > 1


def test_one_parameter_alone_is_not_finite() -> None:
    params = 'x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")'
    module = program(params, "return R.add(x, y)")
    samples = samples_of(module, "main", module["main"], edges=True)
    finite = [[bool(np.isfinite(each).all()) for each in s.arguments] for s in samples]
    assert [True, False] in finite and [False, True] in finite


def test_unknown_axes_get_the_sizes_that_a_cast_states() -> None:
    body = 'n = T.int64()\n    y = R.match_cast(x, R.Tensor((n, 7, n + 1), "float64"))\n    '
    sample = first("x: R.Tensor(ndim=3)", f"{body}return R.exp(y)")
    n, seven, more = sample.arguments[0].shape
    assert (seven, more) == (7, n + 1)


def test_floats_are_in_general_position() -> None:
    params = 'x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")'
    x, y = first(params, "return R.add(x, y)").arguments
    for each in (x, y):
        assert each.min() < 0 < each.max()
        assert 0 < np.abs(each[each != 0]).min() < 0.1
        assert np.any((each == np.rint(each)) & (each != 0))
        assert len(np.unique(each)) > each.size / 2
    assert np.std(y) / np.std(x) > 1.1 or np.std(x) / np.std(y) > 1.1


def test_integers_are_of_the_whole_range() -> None:
    sample = first('i: R.Tensor(("n", "m"), "int16")', "return R.add(i, i)")
    assert (sample.arguments[0].min(), sample.arguments[0].max()) == (-(2**15), 2**15 - 1)


@pytest.mark.parametrize("index", ["i", 'R.astype(i, "int64")'])
def test_indices_are_legal_up_to_both_ends(index: str) -> None:
    params = 'x: R.Tensor((11, "d"), "float32"), i: R.Tensor(("b", "s"), "int32")'
    sample = first(params, f"return R.take(x, {index}, axis=0)")
    assert (sample.arguments[1].min(), sample.arguments[1].max()) == (0, 10)


@pytest.mark.parametrize("op", ["log", "sqrt", "rsqrt", "asin", "acosh", "atanh"])
def test_results_are_finite(op: str) -> None:
    sample = first('x: R.Tensor(("n", "m"), "float32")', f"return R.{op}(x)")
    assert sample.elements == sample.arguments[0].size


def test_a_program_that_rejects_all_sizes_is_an_error_with_a_hint() -> None:
    body = 'n = T.int64()\n    R.require("n == 1009")\n    a = R.exp(x)\n    b = R.exp(x)'
    module = program('x: R.Tensor(("n",), "float32")', f"{body}\n    return R.add(a, b)")
    with PassContext([VerifyResults()]), pytest.raises(PassError) as error:
        pipeline("cse")(module)
    (diagnostic,) = error.value.diagnostics
    assert "common_subexpression_elimination: compared nothing" in diagnostic.message
    assert "expected n == 1009" in diagnostic.notes[0].text
    assert "--sizes" in (diagnostic.hint or "")
    comparing = VerifyResults(sizes={"n": 1009})
    with PassContext([comparing]):
        pipeline("cse")(module)
    assert comparing.functions["main"].sizes == {"n": 1009}


@pytest.mark.parametrize(
    "result",
    [
        "R.log(R.multiply(R.exp(x), R.const(-1.0)))",
        "(R.log(R.multiply(R.exp(x), R.const(-1.0))), R.full((0, 3), R.const(1.0)))",
    ],
)
def test_results_that_are_all_nan_are_an_error(result: str) -> None:
    module = program('x: R.Tensor(("n",), "float32")', f"a = R.exp(x)\n    return {result}")
    with PassContext([VerifyResults()]), pytest.raises(PassError, match="compared nothing"):
        pipeline("cse,dce")(module)


def test_comparisons_are_reported() -> None:
    body = "a = R.exp(x)\n    b = R.exp(x)\n    return R.add(a, b)"
    comparing = VerifyResults(inputs=1, edges=False)
    with PassContext([comparing]):
        pipeline("cse,dce")(program('x: R.Tensor(("b", "s"), "float32")', body))
    (line,) = comparing.report()
    assert (
        line == "main: compared at b=3, s=17: 1 result, 51 elements, largest error 0 of the bound"
    )


def test_integer_results_of_composite_ops_differ_by_the_rounding_of_their_parts() -> None:
    module = program('x: R.Tensor(("n", 2), "int64")', "return R.std(x)")
    with PassContext([VerifyResults()]):
        passes.Lower()(module)
    wrong = program('x: R.Tensor(("n", 2), "int64")', 'return R.add(R.std(x), R.const(1, "int64"))')
    with PassContext([VerifyResults()]), pytest.raises(PassError, match="changes the result"):
        passes.Pass("wrong", lambda _: wrong)(module)


def test_a_program_that_rejects_integers_near_0_has_samples() -> None:
    module = structir.parse(
        '@R.function\ndef main(i: R.Tensor(("n",), "int64"), w: R.Tensor(("n",), "float32")):\n'
        '    p = R.nonzero(R.greater(i, R.const(30, "int64")))\n    k = T.int64()\n'
        '    q = R.match_cast(p, R.Tensor((1, k), "int64"))\n    R.require("k >= 1")\n'
        "    return R.take(w, R.squeeze(q, axis=[0]), axis=0)\n"
    )
    samples = list(samples_of(module, "main", module["main"], 2))
    assert samples and all(sample.accepted and sample.elements for sample in samples)


def test_the_element_that_differs_most_is_named() -> None:
    before = program('x: R.Tensor((40, 50), "float32")', "return x, R.exp(x)")
    after = program(
        'x: R.Tensor((40, 50), "float32")',
        "return x, R.where(R.equal(R.reshape(R.arange(0, 2000, 1), (40, 50)), R.const(1713, "
        '"int64")), R.const(7.0), R.exp(x))',
    )
    with PassContext([VerifyResults()]), pytest.raises(PassError) as error:
        passes.Pass("wrong", lambda _: after)(before)
    assert "note: at result[1][34, 13]: " in str(error.value)
    assert ", 7.0 after\n" in str(error.value) + "\n"


def test_kernels_over_a_long_axis_are_compared_and_longer_ones_are_named() -> None:
    module = structir.parse("""@I.ir_module
class M:
    @R.function
    def rows(x: R.Tensor(("b", "s", 384), "float32"), p: R.Tensor(("b", "s"), "float32")):
        return R.sum(x * R.expand_dims(p, axis=[2]), axis=[1])

    @R.function
    def product(x: R.Tensor(("b", 2048), "float32"), w: R.Tensor((2048, 2048), "float32")):
        return R.matmul(x, w)
""")
    verification = passes.VerifyResults(edges=False)
    with passes.PassContext([verification]):
        passes.Lower()(module)
    rows, product = verification.report()
    assert "2 results" in rows
    assert "its kernels take 8,388,608 steps of the interpreter, more than 524,288" in product
