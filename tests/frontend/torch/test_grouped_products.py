"""Grouped products and histograms, of which mixtures of experts consist."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.frontend.torch import from_pt2
from tests.frontend.torch.written import archive, meta, node, program, symbol

GROUPED = ("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default")


def run(stated, *operands):
    """Returns the result of a program, which interpreter and compiled code agree on."""
    module = from_pt2(archive(stated))
    result = structir.interpret(module, "main", *operands)
    compiled = structir.compile(module)["main"](*operands)
    np.testing.assert_allclose(compiled, result, rtol=1e-5, atol=1e-6)
    return result


def grouped(target, lhs, rhs, ends, wanted, dynamic_axis=None):
    values = {"a": meta(*lhs.shape), "b": meta(*rhs.shape), "e": meta(len(ends), dtype="int32")}
    values["y"] = meta(*wanted.shape)
    if dynamic_axis is not None:  # the rows of `a` and of the result
        for name in ("a", "y"):
            values[name] = meta(symbol("s0"), *values[name]["sizes"][1:2])
            values[name]["sizes"][1] = {"as_int": (lhs if name == "a" else wanted).shape[1]}
    names = ["input", "weight"] if "transformers" in target else ["self", "mat2"]
    call = node(target, "y", **dict(zip(names, "ab", strict=True)), offs="e")
    stated = program([call], values, ["a", "b", "e"], ["y"])
    np.testing.assert_allclose(run(stated, lhs, rhs, ends), wanted, rtol=1e-4, atol=1e-5)


counts = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@given(counts, st.integers(0, 2), st.sampled_from(GROUPED), st.booleans(), st.data())
@settings(max_examples=10, deadline=None)
def test_groups_of_rows(sizes, rest, target, dynamic, data):
    """Rows after the last group are zero; a group may be empty."""
    ends = np.cumsum(sizes).astype("int32")
    rows = int(ends[-1]) + rest
    rng = np.random.default_rng(rows)
    lhs = rng.normal(size=(rows, 3)).astype("float32")
    rhs = rng.normal(size=(len(sizes), 3, 5)).astype("float32")
    wanted = np.zeros((rows, 5), "float32")
    for k, end in enumerate(ends):
        wanted[end - sizes[k] : end] = lhs[end - sizes[k] : end] @ rhs[k]
    grouped(target, lhs, rhs, ends, wanted, 0 if dynamic else None)


@given(counts)
@settings(max_examples=4, deadline=None)
def test_groups_of_columns_and_of_terms(sizes):
    ends = np.cumsum(sizes).astype("int32")
    total, rng = int(ends[-1]), np.random.default_rng(len(sizes))
    slices = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    lhs = rng.normal(size=(len(sizes), 2, 3)).astype("float32")
    rhs = rng.normal(size=(3, total)).astype("float32")
    columns = [lhs[k] @ rhs[:, part] for k, part in enumerate(slices)]
    grouped(GROUPED[0], lhs, rhs, ends, np.concatenate(columns, 1))
    lhs = rng.normal(size=(2, total)).astype("float32")
    rhs = rng.normal(size=(total, 3)).astype("float32")
    grouped(GROUPED[0], lhs, rhs, ends, np.stack([lhs[:, p] @ rhs[p] for p in slices]))


def test_only_chosen_matrices_are_read():
    """Compiles to kernels, without a copy of a matrix per row."""
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((3, 4, 64), "float32"),
         g: R.Tensor(("n",), "int64")):
    return R.grouped_matmul(x, w, g)
""")
    exe = structir.compile(module)
    x, w = np.ones((5, 4), "float32"), np.ones((3, 4, 64), "float32")
    w[1] = np.nan
    result = exe["main"](x, w, np.array([0, 2, 2, 0, 3]))
    np.testing.assert_array_equal(result[:, 0], [4, 4, 4, 4, 0])
    assert exe.kernel_count == 1 and not exe.fallbacks
    # the inner loop is along contiguous columns, not along the summed axis
    assert "in T.vectorized(64):" in exe.source("main")


@pytest.mark.parametrize("limits", [{}, {"min": 0, "max": 3}, {"min": -1.5, "max": 2.5}])
@pytest.mark.parametrize("case", ["mixed", "equal", "empty"])
def test_histograms(limits, case):
    x = {
        "mixed": np.array([[0, 1, 2, 3], [-1, 2.5, 9, np.nan]], "float32"),
        "equal": np.full((2, 4), 2, "float32"),
        "empty": np.zeros((0, 4), "float32"),
    }[case]
    if not limits and case == "mixed":
        x[1, 3] = 4
    low, high = (limits["min"], limits["max"]) if limits else (0, 0)
    if not limits:
        low, high = (x.min(), x.max()) if x.size else (0, 1)
        low, high = (low - 1, high + 1) if low == high else (low, high)
    wanted = np.histogram(x[~np.isnan(x)], 4, (float(low), float(high)))[0].astype("float32")
    call = node("aten.histc.default", "y", self="x", bins=4, **limits)
    stated = program([call], {"x": meta(*x.shape), "y": meta(4)}, ["x"], ["y"])
    np.testing.assert_array_equal(run(stated, x), wanted)
