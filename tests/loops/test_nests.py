"""Handwritten nests keep every bit in whatever loop order and with whatever tiles, and products
among them become calls of the library."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import structir
from structir.ir import dims
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.loops.emit import library
from structir.loops.handle import KernelHandle
from structir.loops.kernel.handwritten import scheduled_nests
from structir.loops.primitives import find_primitive
from structir.loops.recipes.nests import nests as recipe
from structir.loops.schedule.refusal import ScheduleError
from tests.loops.nests import Nest, nests
from tests.loops.running import have_same_bits, parsed, run


def values(kernel: Kernel, sizes: dict[Any, int], seed: int) -> list[np.ndarray]:
    """Returns operands whose sums depend on the order of their terms, and results of zeros."""
    rng, arrays = np.random.default_rng(seed), []
    for param in kernel.params:
        info: Any = param.struct_info
        shape = [dims.evaluate(dim, sizes) for dim in info.dims]
        arrays.append(rng.standard_normal(shape).astype(info.dtype))
    arrays[-1][...] = 0
    return arrays


@given(nests(), st.lists(st.integers(0, 9), min_size=4, max_size=4), st.integers(0, 99))
def test_random_nests_keep_every_bit(nest: Nest, numbers: list[int], seed: int) -> None:
    kernel = parsed(nest.source)
    handle = KernelHandle(kernel, exact=True)
    recipe(handle, least=0, fewest=0)
    symbols = {s for p in kernel.params for d in p.struct_info.dims for s in dims.syms(d)}  # type: ignore[union-attr]
    sizes = dict(zip(sorted(symbols, key=lambda s: s.name), numbers, strict=False))
    arrays = values(kernel, sizes, seed)
    (expected,) = run(kernel, arrays, sizes)
    (result,) = run(handle.node, arrays, sizes)
    assert have_same_bits(result, expected), f"{kernel}\n{handle}"
    assert ("T.ordered_product" in str(handle)) == nest.is_product, f"{kernel}\n{handle}"
    assert structir.structural_equal(parsed(str(handle)), handle.node)
    if seed < 3:
        compiled = arrays[-1].copy()
        structir.compile(IRModule({"f": handle.node}))["f"](*arrays[:-1], compiled)
        assert have_same_bits(compiled, expected), f"{kernel}\n{handle}"


PRODUCT = """
@I.kernel
def product(
    a: R.Tensor((SIZE, SIZE), "float32"),
    b: R.Tensor((SIZE, SIZE), "float32"),
    c: R.Tensor((SIZE, SIZE), "float32"),
):
"""
FORMS = {
    "exact": ("{0}0 + 32", ""),
    "min": ("min({0}0 + 32, SIZE)", ""),
    "if": ("{0}0 + 32", "if {0} < SIZE:"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", ["384", "n"])
@pytest.mark.parametrize("order", ["".join(order) for order in permutations("ijk")])
def test_products_tiled_by_hand_become_one_call(order: str, size: str, form: str) -> None:
    if form == "exact" and size == "n":
        return
    stop, test = FORMS[form]
    lines = [f"for {axis}0 in range(0, SIZE, 32):" for axis in order]
    for axis in order:
        lines.append(f"for {axis} in range({axis}0, {stop.format(axis)}):")
        lines += [test.format(axis)] if test else []
    lines.append("c[i, j] = c[i, j] + a[i, k] * b[k, j]")
    body = "\n".join("    " * (depth + 1) + line for depth, line in enumerate(lines))
    head = PRODUCT.replace("SIZE", f'"{size}"' if size == "n" else size)
    kernel = scheduled_nests(parsed(head + body.replace("SIZE", size)))
    row = f"{size}, {size}, {size}, {size}, 1, {size}, 1, {size}"
    call = f"    T.ordered_product(a.flat[0], b.flat[0], c.flat[0], {row})"
    assert str(kernel).splitlines()[2:] == [call]


def test_other_nests_keep_their_tiles_and_store_contiguously() -> None:
    kernel = parsed(
        """
@I.kernel
def least(
    a: R.Tensor(("n", "p"), "float32"),
    b: R.Tensor(("p", "m"), "float32"),
    c: R.Tensor(("n", "m"), "float32"),
):
    for j0 in range(0, m, 64):
        for j in range(j0, j0 + 64):
            if j < m:
                for i in range(n):
                    for k in range(p):
                        c[i, j] = min(c[i, j], a[i, k] + b[k, j])
"""
    )
    assert (
        "\n".join(str(scheduled_nests(kernel)).splitlines()[2:])
        == """\
    for j0 in range(0, m, 64):
        for i in range(n):
            for k in range(p):
                for j in range(j0, min(j0 + 64, m)):
                    c[i, j] = min(c[i, j], a[i, k] + b[k, j])"""
    )


def test_epilogues_are_separate_loops() -> None:
    kernel = parsed(
        """
@I.kernel
def layer(
    x: R.Tensor(("n", "k"), "float32"),
    w: R.Tensor(("m", "k"), "float32"),
    bias: R.Tensor(("m",), "float32"),
    y: R.Tensor(("n", "m"), "float32"),
):
    for j in range(m):
        for i in range(n):
            total = T.float32(0.0)
            for t in range(k):
                total = total + x[i, t] * w[j, t]
            y[i, j] = max(total + bias[j], 0.0)
"""
    )
    assert (
        "\n".join(str(scheduled_nests(kernel)).splitlines()[2:])
        == """\
    for i in range(n):
        for j in range(m):
            y[i, j] = T.float32(0.0)
    T.ordered_product(x.flat[0], w.flat[0], y.flat[0], n, m, k, k, 1, 1, k, m)
    for i_1 in range(n):
        for j_1 in range(m):
            y[i_1, j_1] = max(y[i_1, j_1] + bias[j_1], 0.0)"""
    )


ELEMENTS = """
@I.kernel
def f(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):
"""
AS_WRITTEN = {
    "an index that may be out of range": """
    for j in range(m):
        for i in range(n + 1):
            out[i, j] = x[i, j]
""",
    "a dependence that goes back": """
    for j in range(1, m):
        for i in range(n - 1):
            out[i, j] = out[i + 1, j - 1] + x[i, j]
""",
    "a loop in vectors": """
    for j in range(m):
        for i in T.vectorized(n):
            out[i, j] = x[i, j]
""",
    "a loop that ends early": """
    for j in range(m):
        for i in range(n):
            if x[i, j] > 0.0:
                break
            out[i, j] = x[i, j]
""",
}


@pytest.mark.parametrize("name", AS_WRITTEN)
def test_nests_stay_as_written(name: str) -> None:
    kernel = parsed(ELEMENTS + AS_WRITTEN[name])
    assert scheduled_nests(kernel) is kernel


def test_ordered_products_are_exact() -> None:
    source = PRODUCT.replace("SIZE", '"n"') + (
        "    for i in range(n):\n        for j in range(n):\n            for k in range(n):\n"
        "                c[i, j] = c[i, j] + a[i, k] * b[k, j]\n"
    )
    tensorise = find_primitive("tensorise")
    with pytest.raises(ScheduleError, match="pass `ordered=True`"):
        tensorise(parsed(source), "i", exact=True)
    assert "T.ordered_product" in str(tensorise(parsed(source), "i", ordered=True, exact=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("strides", ["m, 1", "1, k"])
@pytest.mark.parametrize("has_tiles", [True, False])
def test_ordered_products_add_term_by_term(
    dtype: str, strides: str, has_tiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_tiles:
        monkeypatch.setattr(library, "has_products_of_floats", lambda dtype: False)
    shape = '("k", "m")' if strides == "m, 1" else '("m", "k")'
    f = structir.compile(
        structir.parse(
            f"""
@I.kernel
def f(a: R.Tensor(("n", "k"), "{dtype}"), b: R.Tensor({shape}, "{dtype}"),
      c: R.Tensor(("n", "m"), "{dtype}")):
    for i in range(n):
        for j in range(m):
            c[i, j] = 0.5
    T.ordered_product(a.flat[0], b.flat[0], c.flat[0], n, m, k, k, 1, {strides}, m)
"""
        )
    )["f"]
    rng = np.random.default_rng(0)
    for n, k, m in [(1, 1, 1), (3, 5, 7), (17, 1, 33), (9, 1100, 40), (6, 0, 5), (300, 70, 17)]:
        a, b = (rng.standard_normal(s).astype(dtype) for s in ((n, k), (k, m)))
        expected, c = np.full((n, m), 0.5, dtype), np.zeros((n, m), dtype)
        for column, line in zip(a.T, b, strict=True):
            expected += column[:, None] * line
        f(a, b if strides == "m, 1" else np.ascontiguousarray(b.T), c)
        assert have_same_bits(c, expected)
