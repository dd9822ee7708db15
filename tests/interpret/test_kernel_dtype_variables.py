"""Tests of kernels with dtype variables: text, calls at each dtype, inference and errors."""

from functools import partial

import ml_dtypes
import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ParseError, StructInfoError
from structir.ir import IRModule

KERNELS = """
@I.ir_module
class Module:
    @I.kernel
    def axpy(
        x: R.Tensor(("n",), "'T"), a: R.Prim("'T"), y: R.Tensor(("n",), "'T"),
        out: R.Tensor(("n",), "'T"),
    ):
        row = T.zeros((2,), "'T")
        for i in range(n):
            row[0] = x[i] * a
            s = y[i] + 1
            if s > 3:
                s = s * 2
            out[i] = row[0] + s + T.cast(i, "'T")

    @I.kernel
    def mean(x: R.Tensor(("n",), "'T"), out: R.Tensor((1,), "'T")):
        s = T.cast(0, "'T")
        for j in range(n):
            s += x[j]
        out[0] = s / T.cast(n, "'T") + 0.5

    @R.function
    def main(x: R.Tensor(("n",), "'T"), a: R.Prim("'T"), y: R.Tensor(("n",), "'T")):
        return R.call_kernel(cls.axpy, (x, a, y), out_sinfo=R.Tensor((n,), "'T"))

    @R.function
    def average(x: R.Tensor(("n",), "'T")):
        return R.call_kernel(cls.mean, (x,), out_sinfo=R.Tensor((1,), "'T"))

    @R.function
    def single(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        return R.call_kernel(cls.axpy, (x, 2.0, y), out_sinfo=R.Tensor((n,), "float32"))
"""


@pytest.fixture(scope="module")
def module() -> IRModule:
    return structir.parse(KERNELS)


def test_kernels_with_dtype_variables_parse_back(module: IRModule) -> None:
    assert structir.structural_equal(structir.parse(module.script()), module)
    assert structir.structural_equal(structir.parse(KERNELS.replace("'T", "'Q")), module)
    assert not structir.structural_equal(structir.parse(KERNELS.replace("'T", "float32")), module)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_a_kernel_runs_at_every_dtype(module: IRModule, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x, a = np.arange(3).astype(kind), kind.type(2)
    for run in (structir.compile(module)["main"], partial(structir.interpret, module, "main")):
        result = run(x, a, x)
        assert result.dtype == kind
        np.testing.assert_array_equal(result.astype("float64"), [1, 5, 9])


def test_a_compiled_call_of_a_known_dtype_is_a_call_of_its_instance(module: IRModule) -> None:
    exe = structir.compile(module)
    x = np.arange(3, dtype="float32")
    np.testing.assert_array_equal(exe["single"](x, x), [1, 5, 9])
    assert "def axpy_float32" in exe.source("single")


def test_a_call_determines_the_dtypes_of_its_operands() -> None:
    text = KERNELS.replace('single(x: R.Tensor(("n",), "float32")', 'single(x: R.Tensor(("n",))')
    function = structir.infer(structir.parse(text))["single"]
    assert str(function.params[0].struct_info) == 'R.Tensor((n,), dtype="float32")'


@pytest.mark.parametrize(
    ("body", "dtype", "message"),
    [
        ("x[i] / 2", "int32", "`/`: expected floats, found 'T = int32"),
        ("x[i] + 0.5", "int32", "the number 0.5 is not a value of 'T, which is int32"),
        ("x[i] + 300", "int8", "the number 300 is not a value of 'T, which is int8"),
        ("x[i] & 2", "float32", "`&`: expected integers or booleans, found 'T = float32"),
        ("x[i]", "int4", "'T cannot be int4"),
    ],
)
def test_a_dtype_that_a_kernel_lacks_is_an_error(body: str, dtype: str, message: str) -> None:
    text = f"""
@I.ir_module
class Module:
    @I.kernel
    def f(x: R.Tensor(("n",), "'T"), out: R.Tensor(("n",), "'T")):
        for i in range(n):
            out[i] = {body}

    @R.function
    def main(x: R.Tensor(("n",), "'T")):
        return R.call_kernel(cls.f, (x,), out_sinfo=R.Tensor((n,), "'T"))
"""
    module = structir.parse(text)
    x = np.ones(2).astype(getattr(ml_dtypes, dtype, dtype))
    for run in (structir.compile(module), partial(structir.interpret, module, "main")):
        with pytest.raises(DiagnosticError) as error:
            run(x)
        assert f"E1126]: f: {message}" in str(error.value)


def test_operands_of_different_variables_are_converted_explicitly() -> None:
    text = """
@I.kernel
def f(x: R.Tensor(("n",), "'T"), y: R.Tensor(("n",), "'U"), out: R.Tensor(("n",), "'T")):
    for i in range(n):
        out[i] = x[i] + y[i]
"""
    with pytest.raises(ParseError, match=r"are 'T and 'U(.|\n)*`T.cast\(..., \"'T\"\)`"):
        structir.parse(text)
    structir.parse(text.replace("+ y[i]", '+ T.cast(y[i], "\'T")'))


def test_operands_of_a_call_have_the_dtype_of_their_variable() -> None:
    text = KERNELS.replace(
        'single(x: R.Tensor(("n",), "float32")', 'single(x: R.Tensor(("n",), "int32")'
    )
    with pytest.raises(StructInfoError, match=r'operand 1: expected R.Prim\("int32"\)'):
        structir.parse(text)
