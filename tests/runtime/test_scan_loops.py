"""Scans whose steps are maps are one kernel, with the results of the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structir
from structir.passes.gradient import gradient

RNG = np.random.default_rng(7)
SIZES = [(1, 1), (1, 5), (2, 3), (7, 16), (40, 17), (300, 4), (5, 2000)]


def numbers(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    return (RNG.standard_normal(shape) * 0.5).astype(dtype)


def program(step: str, main: str) -> Any:
    return structir.infer(structir.parse(f"@R.function(private=True)\n{step}\n@R.function\n{main}"))


def flat(value: Any) -> list[Any]:
    return [v for item in value for v in flat(item)] if isinstance(value, tuple) else [value]


def check(module: Any, *calls: tuple[Any, ...], kernels: int | None = 1, threads: int = 1) -> Any:
    """Compares calls with the interpreter, and counts the kernels of the function."""
    executable = structir.compile(module, num_threads=threads)
    for args in calls:
        with np.errstate(all="ignore"):
            expected = flat(structir.interpret(module, "main", *args))
        for _ in range(3):
            for one, other in zip(flat(executable["main"](*args)), expected, strict=True):
                assert one.dtype == other.dtype and one.shape == other.shape
                np.testing.assert_allclose(
                    one.astype("float64"), other.astype("float64"), rtol=2e-5, atol=2e-5
                )
    if kernels is not None:
        assert "main" in executable.direct
        assert len(executable.plans("main")[0].kernels) == kernels
    return executable


PAIRS = (
    """
def step(a: R.Tensor(("k",), "float32"), b: R.Tensor(("k",), "float32"),
         x: R.Tensor(("k",), "float32"), y: R.Tensor(("k",), "float32"),
         w: R.Tensor(("k",), "float32")):
    c = R.tanh(R.add(R.multiply(a, x), w))
    return (R.add(b, R.multiply(c, y)), a, c, x, R.multiply(c, c))
""",
    """
def main(x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("n", "k"), "float32"),
         w: R.Tensor(("k",), "float32")):
    z = R.scan(step, (w, R.exp(w)), (x, y), (w,))
    return (z[0], z[1], z[2], z[3], z[4])
""",
)


@pytest.mark.parametrize("threads", [1, 2])
def test_states_that_change_places(threads: int) -> None:
    calls = [(numbers((n, k)), numbers((n, k)), numbers((k,))) for n, k in SIZES]
    check(program(*PAIRS), *calls, kernels=2, threads=threads)  # with the exponentials before


def test_new_sizes_and_saved_executables(tmp_path: Path) -> None:
    module = program(*PAIRS)
    executable = structir.compile(module)
    executable.save(tmp_path / "scan.sir")
    loaded = structir.load(tmp_path / "scan.sir")
    for n, k in SIZES:
        args = numbers((n, k)), numbers((n, k)), numbers((k,))
        for one, other in zip(loaded["main"](*args), executable["main"](*args), strict=True):
            np.testing.assert_array_equal(one, other)


MATRICES = (
    """
def step(a: R.Tensor(("p", "k"), "DTYPE"), x: R.Tensor(("p", "k"), "DTYPE"),
         w: R.Tensor(("k",), "DTYPE"), s: R.Tensor((), "DTYPE")):
    b = R.add(R.multiply(a, w), R.multiply(x, s))
    return (b, b)
""",
    """
def main(a: R.Tensor(("p", "k"), "DTYPE"), x: R.Tensor(("n", "p", "k"), "DTYPE"),
         w: R.Tensor(("k",), "DTYPE"), s: R.Tensor((), "DTYPE")):
    z = R.scan(step, (a,), x, (w, s))
    return (z[0], z[1])
""",
)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "int8"])
def test_states_of_two_axes_and_captured_rows(dtype: str) -> None:
    module = program(*[text.replace("DTYPE", dtype) for text in MATRICES])
    calls = []
    for p, k in [(1, 1), (3, 5), (2, 40)]:
        shapes = ((p, k), (9, p, k), (k,), ())
        calls.append(tuple([np.asarray(numbers(s) * 2).astype(dtype) for s in shapes]))
    check(module, *calls)


FLAT = (
    """
def step(a: R.Tensor(("p", "k"), "float32"), b: R.Tensor(("p", "k"), "float32"),
         x: R.Tensor(("p", "k"), "float32"), s: R.Tensor((), "float32"),
         w: R.Tensor(("p", "k"), "float32"), t: R.Tensor((), "float32")):
    c = R.add(R.multiply(a, w), R.multiply(x, s))
    return (R.multiply(R.tanh(b), t), c, c, R.subtract(x, a))
""",
    """
def main(a: R.Tensor(("p", "k"), "float32"), x: R.Tensor(("n", "p", "k"), "float32"),
         s: R.Tensor(("n",), "float32"), t: R.Tensor((), "float32")):
    z = R.scan(step, (a, a), (x, s), (a, t))
    return (z[0], z[1], z[2], z[3])
""",
)


@pytest.mark.parametrize("threads", [1, 2])
def test_states_of_two_axes_in_one_loop(threads: int) -> None:
    module = program(*FLAT)
    calls = []
    for n, p, k in [(1, 1, 1), (4, 3, 5), (2, 17, 4), (3, 100, 70)]:
        calls.append((numbers((p, k)), numbers((n, p, k)), numbers((n,)), np.float32(0.5)))
    calls = [(*args[:3], np.asarray(args[3])) for args in calls]
    executable = check(module, *calls, threads=threads)
    assert ".flat[step * " in executable.source("main")


def test_scalar_states() -> None:
    step = """
def step(a: R.Tensor((), "float64"), x: R.Tensor((), "float64")):
    b = R.add(R.multiply(a, x), x)
    return (b, a)
"""
    main = """
def main(a: R.Tensor((), "float64"), x: R.Tensor(("n",), "float64")):
    z = R.scan(step, (a,), x)
    return (z[0], z[1])
"""
    calls = [(np.asarray(numbers((), "float64")), numbers((n,), "float64")) for n in (1, 2, 100)]
    check(program(step, main), *calls)


def test_no_steps() -> None:
    module = program(*PAIRS)
    args = numbers((0, 4)), numbers((0, 4)), numbers((4,))
    check(module, args, kernels=None)


def test_functions_in_short_rows_stay_in_a_plan() -> None:
    step = """
def step(a: R.Tensor(("p", "k"), "float32"), x: R.Tensor(("p", "k"), "float32"),
         w: R.Tensor(("k",), "float32")):
    b = R.tanh(R.add(R.multiply(a, w), x))
    return (b, b)
"""
    main = """
def main(a: R.Tensor(("p", "k"), "float32"), x: R.Tensor(("n", "p", "k"), "float32"),
         w: R.Tensor(("k",), "float32")):
    z = R.scan(step, (a,), x, (w,))
    return (z[0], z[1])
"""
    args = numbers((5, 3)), numbers((4, 5, 3)), numbers((3,))
    assert "main" not in check(program(step, main), args, kernels=None).direct
    texts = [text.replace('"p", "k"', "5, 40").replace('"k"', "40") for text in (step, main)]
    check(program(*texts), (numbers((5, 40)), numbers((4, 5, 40)), numbers((40,))))


OTHERS = {
    "reduced": "R.add(a, R.sum(x))",
    "shifted": "R.add(a, R.flip(a, axis=0))",
    "cumulative": "R.add(a, R.cumsum(x, axis=0))",
    "reshaped": "R.add(a, R.reshape(R.reshape(x, (1, 4)), (4,)))",
    "flipped slices": "R.add(a, R.flip(x, axis=0))",
}


@pytest.mark.parametrize("value", OTHERS.values(), ids=OTHERS)
def test_other_steps(value: str) -> None:
    step = f"""
def step(a: R.Tensor((4,), "float32"), x: R.Tensor((4,), "float32")):
    b = {value}
    return (b, R.multiply(b, x))
"""
    main = """
def main(a: R.Tensor((4,), "float32"), x: R.Tensor(("n", 4), "float32")):
    z = R.scan(step, (a,), x)
    return (z[0], z[1])
"""
    check(program(step, main), *[(numbers((4,)), numbers((n, 4))) for n in (1, 2, 9)], kernels=None)


def test_a_tensor_that_is_scanned_and_captured() -> None:
    step = """
def step(a: R.Tensor((3,), "float32"), x: R.Tensor((3,), "float32"),
         y: R.Tensor((3,), "float32"), c: R.Tensor((3, 3), "float32"),
         d: R.Tensor((3,), "float32")):
    b = R.add(R.multiply(a, x), R.multiply(R.take(c, R.const(1, "int64"), axis=0), y))
    return (R.add(b, d),)
"""
    main = """
def main(x: R.Tensor((3, 3), "float32"), d: R.Tensor((3,), "float32")):
    z = R.scan(step, (d,), (x, x), (x, d))
    return z[0]
"""
    check(program(step, main), (numbers((3, 3)), numbers((3,))))


def test_scans_in_branches_and_loops() -> None:
    step = """
def step(a: R.Tensor(("k",), "float32"), x: R.Tensor(("k",), "float32")):
    return (R.add(R.multiply(a, x), x),)
"""
    main = """
def main(x: R.Tensor(("n", "k"), "float32"), a: R.Tensor(("k",), "float32"),
         flag: R.Tensor((), "bool")):
    if flag:
        z = R.scan(step, (a,), x)
        y = z[0]
    else:
        y = R.negative(a)
    return (y, R.exp(y))
"""
    flags = [np.asarray(flag) for flag in (True, False)]
    calls = [(numbers((6, 4)), numbers((4,)), flag) for flag in flags]
    check(program(step, main), *calls, kernels=None)


def test_special_values_and_rounding() -> None:
    """States of a narrow dtype are rounded at each step."""
    module = program(*[text.replace("DTYPE", "float16") for text in MATRICES])
    special = np.array([[np.nan, np.inf, -np.inf, 65504, -0.0]], "float16")
    x = np.full((6, 1, 5), 300.5, "float16")
    w = np.array([1.0, 0.5, 2.0, 1.5, -0.0], "float16")
    args = special, x, w, np.asarray(0.3, "float16")
    with np.errstate(all="ignore"):
        expected = structir.interpret(module, "main", *args)
    for one, other in zip(structir.compile(module)["main"](*args), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_gradients_of_scans() -> None:
    step = """
def step(a: R.Tensor(("k",), "float64"), x: R.Tensor(("k",), "float64")):
    b = R.add(R.multiply(a, R.tanh(x)), x)
    return (b, R.multiply(b, a))
"""
    main = """
def main(a: R.Tensor(("k",), "float64"), x: R.Tensor(("n", "k"), "float64")):
    z = R.scan(step, (a,), x)
    return R.add(R.sum(z[0]), R.sum(R.multiply(z[1], z[1])))
"""
    module = gradient.transform(program(step, main), function="main")
    executable = structir.compile(module)
    for n, k in [(1, 1), (5, 3), (20, 9)]:
        args = numbers((k,), "float64"), numbers((n, k), "float64")
        expected = structir.interpret(module, "main_adjoint", *args)
        for one, other in zip(flat(executable["main_adjoint"](*args)), flat(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)
