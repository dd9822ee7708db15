"""Interpreted kernels give the values of NumPy, elementwise, in the dtype of the operands."""

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ShapeMismatchError, StructIRError
from structir.ir import IRModule


def module(params: str, body: str, stated: str, call: str = "(x,)") -> IRModule:
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return structir.parse(
        f"@I.ir_module\nclass Module:\n    @I.kernel\n    def f({params}):\n{lines}\n"
        '    @R.function\n    def main(x: R.Tensor(("n",), "float32")):\n        n = T.int64()\n'
        f"        return R.call_kernel(f, {call}, out_sinfo={stated})\n"
    )


X = 'x: R.Tensor(("n",), "float32")'
OUT = 'out: R.Tensor(("n",), "float32")'
SAME = 'R.Tensor((n,), "float32")'
VALUES = np.array([1.5, -2.25, 0.1], "float32")


def run(mod: IRModule, *args: np.ndarray) -> np.ndarray:
    result: np.ndarray = structir.interpret(mod, "main", *args)
    return result


def test_arithmetic_is_that_of_the_dtype() -> None:
    mod = module(f"{X}, {OUT}", "for i in range(n):\n    out[i] = x[i] * 0.1 + 1 / 3", SAME)
    third = np.float32(1) / np.float32(3)
    assert np.array_equal(run(mod, VALUES), VALUES * np.float32(0.1) + third)


def test_results_start_as_zeros() -> None:
    mod = module(f"{X}, {OUT}", "if n > 1:\n    out[1] += x[0]", SAME)
    assert run(mod, VALUES).tolist() == [0, 1.5, 0]
    assert run(mod, VALUES[:1]).tolist() == [0]


def test_zero_sizes() -> None:
    mod = module(f"{X}, {OUT}", "for i in range(n):\n    out[i] = x[i]", SAME)
    assert run(mod, VALUES[:0]).shape == (0,)


def test_several_results_and_numbers_that_no_operand_gives() -> None:
    params = (
        f'{X}, count: R.Prim("int64", value="k"), scale: R.Prim("float32"), '
        'a: R.Tensor(("k", "n"), "float32"), b: R.Tensor((), "int64")'
    )
    body = "for i in range(k):\n    for j in range(n):\n        a[i, j] = x[j] * scale\n"
    body += "        b[()] += i"
    stated = '(R.Tensor((n + 1, n), "float32"), R.Tensor((), "int64"))'
    mod = module(params, body, stated, "(x, n + 1, 0.5)")
    a, b = structir.interpret(mod, "main", VALUES)
    assert np.array_equal(a, np.tile(VALUES * np.float32(0.5), (4, 1)))
    assert b == 3 * (0 + 1 + 2 + 3)


def test_the_stated_size_must_be_the_right_one_when_it_runs() -> None:
    params = f'{X}, count: R.Prim("int64", value="k"), out: R.Tensor(("k",), "float32")'
    stated = 'R.Tensor((n * n,), "float32")'
    mod = module(params, "out[0] = 1", stated, "(x, 2 * n)")
    assert run(mod, VALUES[:2]).shape == (4,)
    for call in (lambda: run(mod, VALUES), lambda: structir.compile(mod)["main"](VALUES)):
        with pytest.raises(ShapeMismatchError):
            call()


INDICES = {
    "x[n]": "index 3 is out of range for axis 0 of x, which has size 3",
    "x[T.int64(x[0]) - 2]": "index -1 is out of range for axis 0 of x, which has size 3",
}


@pytest.mark.parametrize("index", INDICES)
def test_an_index_out_of_range_is_reported(index: str) -> None:
    mod = module(f"{X}, {OUT}", f"for i in range(n):\n    out[i] = {index}", SAME)
    for call in (lambda: run(mod, VALUES), lambda: structir.compile(mod)["main"](VALUES)):
        with pytest.raises(DiagnosticError) as caught:
            call()
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.message == INDICES[index] and diagnostic.op == "f"
        assert diagnostic.span is not None and diagnostic.span.line == 6


def test_a_negative_size_of_an_array_of_its_own() -> None:
    body = 'row = T.zeros((n - 2,), "float32")\nout[0] = T.float32(row.shape[0])'
    mod = module(f"{X}, {OUT}", body, SAME)
    for call in (lambda x: run(mod, x), structir.compile(mod)["main"]):
        assert call(VALUES)[0] == 1
        with pytest.raises(ShapeMismatchError, match="axis 0 of row: expected size >= 0, found -1"):
            call(VALUES[:1])


def test_a_kernel_call_fills_the_passed_array() -> None:
    mod = module(f"{X}, {OUT}", "for i in range(n):\n    out[i] = x[i] + 1", SAME)
    for fill in (structir.compile(mod)["f"], lambda *a: structir.interpret(mod, "f", *a)):
        out = np.full(6, 9, "float32")
        fill(VALUES[::-1], out[::2])
        assert np.array_equal(out, np.array([1.1, 9, -1.25, 9, 2.5, 9], "float32"))
        with pytest.raises(StructIRError, match="expected 2 arguments"):
            fill(VALUES)
        with pytest.raises(ShapeMismatchError, match="parameter out"):
            fill(VALUES, np.zeros(4, "float32"))


CONVERSIONS = [
    ("T.int8(x[i])", [float("nan"), 300.0, -300.0, -1.9], [0, 127, -128, -1]),
    ("T.uint8(x[i])", [float("inf"), -0.5, 255.9, -7.0], [255, 0, 255, 0]),
    ("T.int64(x[i])", [1e30, -1e30, 2.5, -2.5], [2**63 - 1, -(2**63), 2, -2]),
]


@pytest.mark.parametrize(("text", "given", "expected"), CONVERSIONS)
def test_conversions_saturate(text: str, given: list[float], expected: list[int]) -> None:
    dtype = text[2:].split("(")[0]
    out = f'out: R.Tensor(("n",), "{dtype}")'
    mod = module(
        f"{X}, {out}", f"for i in range(n):\n    out[i] = {text}", f'R.Tensor((n,), "{dtype}")'
    )
    x = np.array(given, "float32")
    for call in (lambda: run(mod, x), lambda: structir.compile(mod)["main"](x)):
        assert call().tolist() == expected


def test_python_means_min_max_and_division() -> None:
    out = 'out: R.Tensor((6,), "int64")'
    body = "a = T.int64(x[0])\nout[0] = -7 // a\nout[1] = -7 % a\nout[2] = a // (a - a)\n"
    body += "out[3] = T.int64(min(x[1], 1) == 1)\nout[4] = 1 << (a + 61)\nout[5] = -5 >> 80"
    mod = module(f"{X}, {out}", body, 'R.Tensor((6,), "int64")')
    x = np.array([3, np.nan], "float32")
    for call in (lambda: run(mod, x), lambda: structir.compile(mod)["main"](x)):
        assert call().tolist() == [-3, 2, 0, 0, 0, -1]


SEVERAL_TARGETS = (  # statements over a, b, c and out, with the meaning that Python gives them
    "a, b = b, a",
    "a, b, c = c, a, b",
    "a, b = b, a + b",
    "out[a], a = a, 2",
    "a, out[a] = 2, b",
    "out[0], out[1], out[2] = out[2], out[0], out[1]",
    "[a, b] = c, c",
    "a = b = c",
    "rows, = out.shape\na = rows",
    "a_1 = 5\na, b = b, a + a_1",
)


@pytest.mark.parametrize("statement", SEVERAL_TARGETS)
def test_several_targets(statement: str) -> None:
    before, after = "a, b, c = 1, 0, 3", "out[3] = a + 10 * b + 100 * c"
    text = "\n".join(["for i in range(4):\n    out[i] = i", before, statement, after])
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    program = structir.parse(f'@I.kernel\ndef f(out: R.Tensor((4,), "int64")):\n{lines}')
    kernel = program.functions["f"]
    expected = np.zeros(4, "int64")
    exec(text, {"out": expected})
    assert structir.interpret(kernel).tolist() == expected.tolist()
    printed = structir.parse(program.script())
    assert structir.structural_equal(printed, program)


def test_kernels_run_without_a_function() -> None:
    text = """
@I.kernel
def mean(x: R.Tensor(("n",), "'T"), scale: R.Prim("int64"), out: R.Tensor(("n", 2), "'T")):
    for i in range(len(x)):
        out[i, 1] = x[i] + x[i]
        out[i, 0] = T.cast(scale, "'T")
"""
    kernel = structir.parse(text).functions["mean"]
    for dtype in ("int8", "float64"):
        x = np.arange(3).astype(dtype)
        expected = np.stack([np.full(3, 7), 2 * x], 1).astype(dtype)
        results = structir.interpret(kernel, x, 7), structir.compile(kernel)(x, 7)
        assert all(r.dtype == dtype and np.array_equal(r, expected) for r in results)


def test_kernels_whose_results_have_other_sizes_need_a_function() -> None:
    text = f'@I.kernel\ndef f({X}, out: R.Tensor(("m",), "float32")):\n    out[0] = x[0]'
    with pytest.raises(DiagnosticError, match="mentions m, which is not bound"):
        structir.compile(structir.parse(text).functions["f"])


@pytest.mark.parametrize(
    ("rows", "columns"), [(2**62, 0), (0, 2**63 - 1), (-1, 2**62), (2**62, -1)]
)
def test_transposes_of_no_elements_and_any_size(rows: int, columns: int) -> None:
    call = f"T.transpose(out.flat[0], x.flat[0], {rows}, {columns}, 1, 1)"
    mod = module(f"{X}, {OUT}", call, SAME)
    assert run(mod, VALUES).tolist() == [0, 0, 0]
    assert structir.compile(mod)["main"](VALUES).tolist() == [0, 0, 0]
