"""Programs lowered to kernels: equal results, a source that parses back, fewer ops."""

import numpy as np
import pytest

import structir
from structir.analysis import check_well_formed
from structir.analysis.variables import walk
from structir.errors import ShapeMismatchError
from structir.ir import Call, IRModule, Kernel, Op, structural_equal
from structir.passes import Lower, find_pass
from structir.passes.manager.comparison import same
from structir.script import I, R, T
from structir.tools.generate import random_arguments, random_module
from tests.runtime.agreement import copied


@I.ir_module
class Layer:
    @R.function
    def main(
        x: R.Tensor(("n", 8), "float32"),
        w: R.Tensor((8, 6), "float32"),
        b: R.Tensor((6,), "float32"),
    ):
        n = T.int64()
        with R.dataflow():
            h = R.nn.gelu(R.matmul(x, w) + b)
            y = R.nn.softmax(h)
            z = R.reshape(y, (3 * n, 2))
            s = R.max(R.permute_dims(z), axis=[1])
            R.output(y, s)
        return y, s


def ops(module: IRModule) -> int:
    return sum(isinstance(part, Call) and isinstance(part.op, Op) for part in walk(module))


def kernels(module: IRModule) -> list[Kernel]:
    return [value for value in module.functions.values() if isinstance(value, Kernel)]


def inputs(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.normal(size=shape).astype("float32") for shape in ((n, 8), (8, 6), (6,))]


def test_fused_ops_become_one_kernel() -> None:
    lowered = Lower()(Layer)
    check_well_formed(lowered)
    assert structural_equal(structir.parse(lowered.script()), lowered)
    names = [kernel.name for kernel in kernels(lowered)]
    assert names[0] == "matmul_add_gelu_softmax" and len(names) == 2
    assert ops(lowered) == 1, "memory seen under another shape stays a reshape"
    for n in (1, 5):
        expected = structir.interpret(Layer, "main", *inputs(n))
        for run in (structir.compile(lowered)["main"], structir.compile(Layer)["main"]):
            for result, stated in zip(run(*inputs(n)), expected, strict=True):
                np.testing.assert_allclose(result, stated, 1e-4, 1e-6)
        for result, stated in zip(
            structir.interpret(lowered, "main", *inputs(n)), expected, strict=True
        ):
            np.testing.assert_allclose(result, stated, 1e-4, 1e-6)


def test_a_kernel_can_be_edited() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            return R.exp(x)

    text = Lower()(Module).script()
    assert "T.exp(" in text
    edited = structir.parse(text.replace("T.exp(", "2 * T.floor("))
    x = np.array([1.5, -0.5], "float32")
    assert structir.interpret(edited, "main", x).tolist() == [2, -2]
    assert structir.compile(edited)["main"](x).tolist() == [2, -2]


def test_ops_that_kernels_cannot_express_remain() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "k"), "float32")):
            with R.dataflow():
                a = R.sort(x, axis=1)
                b = R.exp(x)
                c = R.add(x, y)
                R.output(a, b, c)
            return a, b, c

    lowered = Lower()(Module)
    text = lowered.script()
    assert "R.sort(" in text and "R.add(x, y)" in text and "R.exp(" not in text
    again = find_pass("lower")(lowered)
    assert again is lowered


@pytest.mark.parametrize("chunk", range(4))
@pytest.mark.filterwarnings("ignore")
def test_lowered_random_programs_parse_back_and_compute_the_same(chunk: int) -> None:
    before = after = 0
    for seed in range(chunk * 25, chunk * 25 + 15):
        module = random_module(seed, 4)
        lowered = Lower()(module)
        check_well_formed(lowered)
        assert structural_equal(structir.parse(lowered.script()), lowered), seed
        before, after = before + ops(module), after + ops(lowered)
        arguments = random_arguments(module["main"], seed)
        try:
            expected = structir.interpret(module, "main", *copied(arguments))
        except structir.errors.StructIRError:
            continue
        result = structir.interpret(lowered, "main", *copied(arguments))
        assert same(result, expected, 1e-3), seed
    assert after < before / 3


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore")
def test_lowered_programs_compile(seed: int) -> None:
    module = random_module(seed, 3)
    lowered = Lower()(module)
    arguments = random_arguments(module["main"], seed)
    try:
        expected = structir.interpret(lowered, "main", *arguments)
    except structir.errors.StructIRError:
        return
    result = structir.compile(lowered)["main"](*arguments)
    many = isinstance(expected, tuple)
    for one, other in zip(result, expected, strict=True) if many else [(result, expected)]:
        if isinstance(one, np.ndarray) and one.dtype.kind in "fiub":
            wide = one.astype("float64"), np.asarray(other).astype("float64")
            np.testing.assert_allclose(*wide, 1e-3, 1e-4)


def test_other_ops_are_lowered_beside_ones_that_kernels_cannot_express() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            with R.dataflow():
                a = R.exp(R.tanh(x))
                c = R.sort(a, axis=1)
                d = R.nn.softmax(R.abs(c))
                e = R.sum(d * a, axis=1)
                R.output(e)
            return e

    lowered = Lower()(Module)
    assert [k.name for k in kernels(lowered)] == ["tanh_exp", "abs_softmax_multiply_sum"]
    assert ops(lowered) == 1
    x = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    result = structir.interpret(lowered, "main", x)
    np.testing.assert_allclose(result, structir.interpret(Module, "main", x), 1e-5)


OTHER_FORMS = {
    "scan": "R.cumsum(x, axis=1)",
    "scan from the end": "R.cumsum(R.flip(x, axis=1), axis=1)",
    "scan before the term": "R.cumsum(R.exp(x), axis=0, exclusive=True)",
    "product of a scan": "R.cumprod(x, axis=1) + x",
    "border": "R.nn.pad(x, pad_width=(1, 2, 0, 3), pad_value=0.5)",
    "index of the greatest": "R.argmax(x, axis=1)",
    "index of the least": "R.argmin(R.abs(x), axis=0)",
    "average": "R.mean(R.exp(x), axis=1)",
    "windows": "R.nn.max_pool2d(R.reshape(x, (1, 1, n, 5)), pool_size=(2, 2), padding=(1, 1))",
    "triangle": "R.tril(x) + R.triu(x, k=1)",
    "two sources": "R.concat((x, R.exp(x)), axis=1)",
    "scatter": "R.scatter_elements(x, where, R.exp(x), axis=1, reduction='add')",
    "last one stays": "R.scatter_elements(x, where, R.exp(x), axis=1)",
    "gather": "R.take(x, R.argmax(x, axis=0), axis=0)",
}


@pytest.mark.parametrize("value", OTHER_FORMS.values(), ids=OTHER_FORMS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_guards_scans_and_scatters_are_kernels(value: str) -> None:
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(("n", 5), "float32"), where: R.Tensor(("n", 5), "int64")):
    n = T.int64()
    return {value}
""")
    lowered = Lower()(module)
    check_well_formed(lowered)
    assert structural_equal(structir.parse(lowered.script()), lowered)
    assert kernels(lowered) and ops(lowered) <= value.count("reshape"), lowered.script()
    compiled = structir.compile(lowered)["main"]
    for n in (4, 1, 7):
        rng = np.random.default_rng(n)
        x, where = rng.normal(size=(n, 5)).astype("float32"), rng.integers(0, 5, (n, 5))
        x[0, 1] = np.nan if "arg" in value else x[0, 1]
        expected = structir.interpret(module, "main", x, where)
        result = structir.interpret(lowered, "main", x, where)
        np.testing.assert_allclose(result, expected, 1e-5, 1e-6)
        np.testing.assert_allclose(compiled(x, where), result, 1e-5, 1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_values_inside_a_kernel_are_rounded_to_their_dtype(dtype: str) -> None:
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(("n",), "float32")):
    h = R.astype(x, "{dtype}")
    s = R.add(h, R.multiply(h, h))
    return R.astype(s, "float32")
""")
    lowered = Lower()(module)
    assert "I.kernel" in lowered.script()
    x = np.array([300.7, 1.1003, -3.1], "float32")
    expected = structir.interpret(module, "main", x)
    np.testing.assert_array_equal(structir.interpret(lowered, "main", x), expected)
    np.testing.assert_array_equal(structir.compile(lowered)["main"](x), expected)


@pytest.mark.parametrize("name", ["lower", "schedule"])
@pytest.mark.parametrize(
    "value",
    [
        'R.zeros((n - 3,), "float32")',
        "R.strided_slice(x, axes=[0], begin=[2], end=[n - 1], assume_inbound=True)",
    ],
)
def test_sizes_inside_a_kernel_that_may_be_negative_are_required(name: str, value: str) -> None:
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    return R.sum({value})
""")
    lowered = find_pass(name)(module)
    assert ops(lowered) == 0 and structural_equal(structir.parse(lowered.script()), lowered)
    for run in (
        structir.compile(lowered)["main"],
        lambda x: structir.interpret(lowered, "main", x),
    ):
        assert run(np.ones(3, "float32")) == 0
        with pytest.raises(ShapeMismatchError, match="n - 3 >= 0"):
            run(np.ones(2, "float32"))
