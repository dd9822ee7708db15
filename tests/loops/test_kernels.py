"""Compiled kernels give the results of the interpreter, bit for bit, also as parts of one plan."""

from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import structir
from structir.analysis import check_well_formed
from structir.ir import (
    BlockBuilder,
    IRModule,
    PrimStructInfo,
    PrimValue,
    TensorStructInfo,
    Var,
    structural_equal,
)
from structir.ir.dims import sym
from structir.loops.emit.code import code_of
from structir.script import R
from structir.targets.cpu.kernels import kernel_count
from structir.tools.generate import random_arguments
from structir.tools.kernels import KernelGenerator

DTYPES = ["float32", "float64", "int64", "int32", "bool", "float16", "uint8", "bfloat16", "uint64"]
INEXACT = ("tanh", "sigmoid")  # an own routine when compiled, NumPy's when interpreted


def random_call(seed: int) -> IRModule:
    rng = Random(seed)
    n, m = sym("n"), sym("m")
    infos = [
        TensorStructInfo(
            tuple([rng.choice([n, m, n + m, 3]) for _ in range(rng.choice([1, 1, 2]))]),
            rng.choice(DTYPES),
        )
        for _ in range(rng.randint(1, 3))
    ]
    kernel, stated = KernelGenerator(rng, "random").generate(infos)
    builder = BlockBuilder()
    callee = builder.kernel(kernel)
    params = [Var(f"a{k}", info) for k, info in enumerate(infos)]
    sizes = Var("sizes", TensorStructInfo((n, m), "int8"))
    numbers = [PrimValue(n) for p in kernel.operands if isinstance(p.struct_info, PrimStructInfo)]
    with builder.function("main", [*params, sizes]):
        call = R.call_kernel(callee, (*params, *numbers), out_sinfo=list(stated))
        builder.emit_func_output(builder.emit(call))
    return builder.get()


def assert_same(found: Any, expected: Any, exact: bool) -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape
    a, b = np.asarray(found), np.asarray(expected)
    if exact:
        same = a.tobytes() == b.tobytes()
        assert same or np.array_equal(a.astype("float64"), b.astype("float64"), equal_nan=True)
    else:
        np.testing.assert_allclose(a.astype("float64"), b.astype("float64"), 1e-3, 1e-3)


@pytest.mark.sampled(25)
@pytest.mark.parametrize("seed", range(30))
def test_random_kernels(seed: int) -> None:
    module = random_call(seed)
    check_well_formed(module)
    assert structural_equal(structir.parse(module.script()), module)
    compiled = structir.compile(module)["main"]
    exact = not any(name in module.script() for name in INEXACT)
    for run in range(3):
        arguments = random_arguments(module["main"], 3 * seed + run)
        expected, found = structir.interpret(module, "main", *arguments), compiled(*arguments)
        many = isinstance(expected, tuple)
        pairs = zip(found, expected, strict=True) if many else [(found, expected)]
        for one, other in pairs:
            assert_same(one, other, exact)


def over_dtypes(body: str, dtypes: str) -> dict[str, IRModule]:
    modules = {}
    for dtype in dtypes.split():
        text = f'''
@I.kernel
def f(x: R.Tensor(("n",), "{dtype}"), y: R.Tensor(("n",), "{dtype}"),
      out: R.Tensor(("n",), "{dtype}")):
    for i in range(n):
        {body}

@R.function
def main(x: R.Tensor(("n",), "{dtype}"), y: R.Tensor(("n",), "{dtype}")):
    n = T.int64()
    return R.call_kernel(f, (x, y), out_sinfo=R.Tensor((n,), "{dtype}"))
'''
        modules[dtype] = structir.parse(text)
    return modules


FLOATS = over_dtypes(
    "out[i] = (x[i] * y[i] + 0.1 - y[i] / x[i]) * (x[i] - y[i]) + max(x[i], y[i])",
    "float32 float64 float16 bfloat16",
)
WHOLE = over_dtypes(
    "out[i] = (x[i] * y[i] + (x[i] // y[i]) - x[i] % y[i]) ^ (x[i] << (y[i] & 15)) | abs(-y[i])",
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
)
COMPILED = {dtype: structir.compile(m)["main"] for dtype, m in {**FLOATS, **WHOLE}.items()}
BITS = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), max_size=9)


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE])
@settings(max_examples=40)
@given(bits=BITS)
@example(bits=[(18014398509481983, 1136), (2**64 - 1, 3)])
def test_arithmetic_is_the_same_bit_for_bit(dtype: str, bits: list[tuple[int, int]]) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    words = np.array(bits, "uint64").reshape(-1, 2).astype(f"uint{8 * kind.itemsize}")
    x, y = (np.ascontiguousarray(words[:, side]).view(kind) for side in (0, 1))
    module = (FLOATS | WHOLE)[dtype]
    found, expected = COMPILED[dtype](x, y), structir.interpret(module, "main", x, y)
    assert np.array_equal(
        np.asarray(found, "float64"), np.asarray(expected, "float64"), equal_nan=True
    )
    assert found.dtype == expected.dtype == kind


PIPELINE = """
@I.ir_module
class Module:
    @I.kernel
    def scan(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32"),
             last: R.Tensor(("n",), "float32")):
        for i in range(n):
            total = 0.0
            for j in range(m):
                total += x[i, j]
                out[i, j] = total
            last[i] = total

    @I.kernel
    def pick(x: R.Tensor(("n",), "float32"), where: R.Tensor(("k",), "int64"),
             out: R.Tensor(("k",), "float32")):
        for i in range(k):
            out[i] = x[where[i]]

    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), where: R.Tensor(("k",), "int64")):
        n, m, k = T.int64(), T.int64(), T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.call_kernel(scan, (a,),
                              out_sinfo=[R.Tensor((n, m), "float32"), R.Tensor((n,), "float32")])
            c = R.call_kernel(pick, (b[1], where), out_sinfo=R.Tensor((k,), "float32"))
            d = R.call_kernel(pick, (R.sum(b[0], axis=[1]), where),
                              out_sinfo=R.Tensor((k,), "float32"))
            e = R.log(c) + d
            R.output(e, b)
        return e, b
"""


def arguments(rows: int, columns: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows * 10 + columns)
    where = rng.integers(0, max(rows, 1), 5 if rows else 0)
    return [rng.normal(size=(rows, columns)).astype("float32"), where]


def test_kernels_are_parts_of_one_plan() -> None:
    module = structir.parse(PIPELINE)
    executable = structir.compile(module)
    (plan,) = executable.plans("main")
    before = kernel_count()
    for rows, columns in [(4, 3), (1, 1), (7, 2), (0, 3), (3, 0)]:
        given = arguments(rows, columns)
        expected, found = structir.interpret(module, "main", *given), executable["main"](*given)
        np.testing.assert_allclose(found[0], expected[0], 1e-4, 1e-5)
        for one, other in zip(found[1], expected[1], strict=True):
            np.testing.assert_allclose(one, other, 1e-5, 1e-6)
    assert kernel_count() == before, "one compilation for all sizes"
    assert len(plan.kernels) == len(plan.texts) and executable.kernel_count < len(plan.kernels)


def test_inputs_need_not_be_dense() -> None:
    module = structir.parse(PIPELINE)
    x, where = arguments(6, 8)
    given = [np.asfortranarray(x)[::-1, ::2], np.repeat(where, 2)[::2]]
    expected = structir.interpret(module, "main", *given)
    found = structir.compile(module)["main"](*given)
    np.testing.assert_allclose(found[0], expected[0], 1e-4, 1e-5)


def test_the_source_shows_kernels_under_their_own_names() -> None:
    source = structir.compile(structir.parse(PIPELINE)).source()
    assert "# scan at <string>:" in source
    assert "out[i, j] = total" in source
    assert "x[where[i]]" in source and "#     checks  axis 0 of x" in source
    assert source.count("# same source as kernel") == 1


def test_indices_proved_in_range_are_not_checked() -> None:
    text = """
@I.kernel
def f(x: R.Tensor(("n + k - 1",), "float32"), w: R.Tensor(("k",), "float32"),
      out: R.Tensor(("n",), "float32")):
    last = n - 1
    for i in range(last, -1, -1):
        total = 0.0
        for j in range(w.shape[0]):
            total += x[i + j] * w[k - 1 - j]
        out[i] = total

@R.function
def main(x: R.Tensor(("n + k - 1",), "float32"), w: R.Tensor(("k",), "float32"),
         y: R.Tensor(("n",), "float32")):
    n = T.int64()
    return R.call_kernel(f, (x, w), out_sinfo=R.Tensor((n,), "float32"))
"""
    module = structir.parse(text)
    executable = structir.compile(module)
    assert not code_of(module["f"]).sites and "# checks" not in executable.source()
    x, w, y = (np.arange(size, dtype="float32") for size in (6, 3, 4))
    assert executable["main"](x, w, y).tolist() == np.convolve(x, w, "valid").tolist()


def test_a_kernel_on_data_dependent_values() -> None:
    text = """
@I.ir_module
class Module:
    @I.kernel
    def double(x: R.Tensor(("n",), "float32"), size: R.Prim("int64", value="n"),
               scale: R.Prim("float64"), out: R.Tensor(("n",), "float64")):
        for i in range(n):
            out[i] = T.float64(x[i]) * scale

    @R.function
    def main(x: R.Object, scale: R.Prim("float64")):
        k = T.int64()
        y = R.match_cast(x, R.Tensor((k,), "float32"))
        return R.call_kernel(double, (y, k, scale), out_sinfo=R.Tensor((k,), "float64"))
"""
    module = structir.parse(text)
    executable = structir.compile(module)
    for size in (3, 0, 5):
        x = np.arange(size, dtype="float32")
        expected = structir.interpret(module, "main", x, np.float64(1.1))
        assert np.array_equal(executable["main"](x, np.float64(1.1)), expected)
        assert np.array_equal(expected, x.astype("float64") * 1.1)
