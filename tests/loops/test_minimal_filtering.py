"""Convolutions by minimal filtering: their sizes, their errors, and the spread of infinities."""

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import structir
from structir.loops.kernel import by_recipe
from structir.loops.products.choice import is_faster_by_minimal_filtering
from structir.loops.rewrite import minimal_filtering
from structir.opdef.define import op
from structir.projections.scalar_expr import ScalarExpr
from structir.targets.cpu.products import has_products_of_floats
from tests.loops.running import arguments, run

pytestmark = pytest.mark.skipif(
    not has_products_of_floats("float32"), reason="no wide fused multiply-add here"
)
FREQUENT = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def always(monkeypatch):
    """Chooses minimal filtering wherever it is possible."""
    monkeypatch.setattr(minimal_filtering, "is_faster_by_minimal_filtering", lambda *_: True)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def convolution(weights, image='("n", channels, "h", "w")', attributes="padding=1", **options):
    """Compiles a convolution by constant weights; the sizes of the image are symbolic."""
    image = image.replace("channels", str(weights.shape[1]))
    text = f"""
@R.function
def main(x: R.Tensor({image}, "float32")):
    w = metadata["w"]
    return R.nn.conv2d(x, w, {attributes})
"""
    return structir.compile(structir.parse(text, constants={"w": weights}), **options)


def is_filtered(executable) -> bool:
    """Whether a program has the 16 products of a tile."""
    return executable.source("main").count("_product(") >= 16


def exact(x, weights, padding=(1, 1, 1, 1)):
    """The convolution in float64."""
    top, left, bottom, right = padding
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weights.astype(np.float64))


def direct(x, weights, padding):
    """The convolution in float32, term by term."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = sliding_window_view(x, (3, 3), (2, 3))
    total = np.zeros((len(x), len(weights), *windows.shape[2:4]), np.float32)
    for c in range(weights.shape[1]):
        for i in range(3):
            for j in range(3):
                total += windows[:, None, c, :, :, i, j] * weights[:, c, i, j, None, None]
    return total


PADDINGS = [(1, 1, 1, 1), (0, 0, 0, 0), (2, 0, 1, 3)]


@FREQUENT
@given(
    channels=st.integers(2, 40),
    filters=st.integers(2, 40),
    padding=st.sampled_from(PADDINGS),
    sizes=st.lists(
        st.tuples(st.integers(0, 3), st.integers(3, 19), st.integers(3, 19)), max_size=4
    ),
    magnitudes=st.tuples(st.integers(-12, 12), st.integers(-12, 12)),
    threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 99),
)
def test_errors_are_near_those_of_the_direct_sums(
    always, channels, filters, padding, sizes, magnitudes, threads, seed
):
    """Errors are relative to the sum of the absolute terms at a result."""
    scales = [np.float32(10.0) ** power for power in magnitudes]
    weights = floats(filters, channels, 3, 3, seed=seed) * scales[0]
    weights *= np.float32(10.0) ** np.random.default_rng(seed).integers(-2, 3, (1, channels, 1, 1))
    executable = convolution(weights, attributes=f"padding={list(padding)}", num_threads=threads)
    for n, h, w in sizes:
        x = floats(n, channels, h, w, seed=seed + 1) * scales[1]
        result, wanted = executable["main"](x), exact(x, weights, padding)
        assert result.shape == wanted.shape
        if not n:
            continue
        bound = exact(np.abs(x), np.abs(weights), padding).max()
        error = np.abs(result - wanted).max() / bound
        known = np.abs(direct(x, weights, padding) - wanted).max() / bound
        assert error <= 4 * known + 4 * np.finfo(np.float32).eps
    executable["main"](floats(1, channels, 3, 3))
    assert is_filtered(executable)
    assert executable.compile_count == 1


def test_no_last_block_of_tiles_is_short(always):
    """It would read the weights of all products for few rows."""
    text = convolution(floats(3, 2, 3, 3)).source("main")
    lines = text[text.index("    for i0 in range(low") :].splitlines()
    loop = lines[: [line.lstrip().startswith("for r ") for line in lines].index(True)]
    program = "\n".join([line[4:] for line in loop] + ["    blocks.append((i0, i1))"])
    for low in (0, 7):
        for count in range(300):
            blocks = list[tuple[int, int]]()
            exec(program, {"low": low, "high": low + count, "blocks": blocks})
            rows = [row for start, stop in blocks for row in range(start, stop)]
            assert rows == list(range(low, low + count))
            sizes = [stop - start for start, stop in blocks]
            assert len(sizes) == bool(count) or min(sizes) >= max(sizes) / 3 >= 8


@pytest.mark.parametrize("size", [3, 6, 20])
def test_the_naive_kernel_of_the_products_by_the_interpreter(always, monkeypatch, size):
    """Its parts run in random order, and memory that is not initialised has NaN."""
    shown = []

    def scheduled(naive, group):
        shown.append((naive, schedule(naive, group)))
        return shown[-1][1]

    schedule = by_recipe.scheduled_by_recipe
    monkeypatch.setattr(by_recipe, "scheduled_by_recipe", scheduled)
    weights = floats(3, 2, 3, 3)
    convolution(weights, f"(1, channels, {size}, {size})", "padding=1")
    ((naive, fast),) = [pair for pair in shown if str(pair[0].kernel).count("_product(") == 16]
    image, filters, out = arguments(naive.kernel, {}, size)
    filters[...] = naive.reads[1].data
    wanted = exact(image.transpose(0, 3, 1, 2), weights, (0, 0, 0, 0))[0].transpose(1, 2, 0)
    for kernel in (naive.kernel, fast.kernel):
        (result,) = run(kernel, [image, filters, out], {}, Random(size))
        np.testing.assert_allclose(result, wanted[: len(out), : out.shape[1]], 1e-5, 1e-5)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_only_results_that_see_an_infinity_are_not_finite(always, value):
    weights, x = floats(20, 8, 3, 3), floats(2, 8, 9, 10, seed=1)
    executable = convolution(weights)
    finite = executable["main"](x).copy()
    for row in range(9):
        for column in range(10):
            changed = x.copy()
            changed[1, 3, row, column] = value
            result = executable["main"](changed)
            sees = np.zeros(result.shape, bool)
            sees[1, :, max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = True
            assert not np.isfinite(result[sees]).any()
            np.testing.assert_array_equal(result[~sees], finite[~sees])


def test_results_are_independent_of_threads_and_of_the_batch(always):
    weights, x = floats(33, 17, 3, 3), floats(5, 17, 21, 18, seed=1)
    one = convolution(weights, num_threads=1)["main"](x)
    np.testing.assert_array_equal(convolution(weights, num_threads=2)["main"](x), one)
    np.testing.assert_array_equal(convolution(weights)["main"](x[3:4]), one[3:4])


def test_an_epilogue_is_fused_with_the_last_transpose(always):
    weights = floats(24, 16, 3, 3)
    text = """
@R.function
def main(x: R.Tensor(("n", 16, 8, 8), "float32"), y: R.Tensor(("n", 24, 8, 8), "float32")):
    c = R.nn.conv2d(x, metadata["w"], padding=1)
    return R.nn.relu(c + metadata["b"] + y)
"""
    bias = floats(1, 24, 1, 1, seed=3)
    executable = structir.compile(structir.parse(text, constants={"w": weights, "b": bias}))
    x, y = floats(2, 16, 8, 8, seed=1), floats(2, 24, 8, 8, seed=2)
    wanted = np.maximum(exact(x, weights) + bias + y, 0)
    np.testing.assert_allclose(executable["main"](x, y), wanted, atol=1e-4)
    assert is_filtered(executable)
    assert executable.kernel_count == 3  # the copy of the image, the products, and the epilogue


FORMS = [
    ("padding=1, strides=2", (32, 16, 3, 3)),
    ("padding=1, dilation=2", (32, 16, 3, 3)),
    ("padding=1, groups=2", (32, 8, 3, 3)),
    ("padding=2", (32, 16, 5, 5)),
    ("padding=1", (32, 16, 1, 3)),
]


@pytest.mark.parametrize(("attributes", "shape"), FORMS)
def test_other_windows_are_direct(always, attributes, shape):
    groups = 2 if "groups" in attributes else 1
    image = f'("n", {shape[1] * groups}, "h", "w")'
    executable = convolution(floats(*shape), image, attributes)
    executable["main"](floats(1, shape[1] * groups, 9, 9))
    assert not is_filtered(executable)


@FREQUENT
@given(
    channels=st.sampled_from([3, 16, 24, 36, 64]),
    filters=st.sampled_from([8, 24, 32, 64]),
    attributes=st.tuples(
        st.sampled_from(["padding=1", "padding=0", "padding=[2, 0, 1, 3]"]),
        st.sampled_from(["", ", strides=2", ", dilation=2", ", groups=4", ", strides=(1, 2)"]),
    ),
    kernel=st.sampled_from([(3, 3), (3, 3), (3, 3), (1, 3), (5, 5)]),
    size=st.tuples(st.integers(0, 4), st.integers(5, 30), st.integers(5, 30)),
    symbolic=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_the_chosen_form_is_right(channels, filters, attributes, kernel, size, symbolic):
    """For sizes that are known, and for those that only a call knows."""
    groups = 4 if "groups" in attributes[1] else 1
    weights = floats(filters, channels, *kernel)
    names = ['"n"', '"h"', '"w"']
    n, h, w = [
        name if unknown else number
        for name, unknown, number in zip(names, symbolic, size, strict=True)
    ]
    text = f"""
@R.function
def main(x: R.Tensor(({n}, {channels * groups}, {h}, {w}), "float32")):
    return R.nn.conv2d(x, metadata["w"], {"".join(attributes)})
"""
    module = structir.parse(text, constants={"w": weights})
    x = floats(size[0], channels * groups, *size[1:], seed=1)
    wanted = structir.interpret(module, "main", x)
    np.testing.assert_allclose(structir.compile(module)["main"](x), wanted, atol=1e-3, rtol=1e-4)


def test_exact_division_and_weights_that_are_not_finite_are_direct(always):
    weights, x = floats(32, 16, 3, 3), floats(1, 16, 9, 9, seed=1)
    executable = convolution(weights, exact_division=True)
    executable["main"](x)
    assert not is_filtered(executable)
    for value in (np.inf, np.nan, np.finfo(np.float32).max):  # the sum of some is infinite
        weights[3, 4] = value
        executable = convolution(weights)
        executable["main"](x)
        assert not is_filtered(executable)


def test_weights_that_are_arguments_are_direct(always):
    text = """
@R.function
def main(x: R.Tensor((1, 16, 9, 9), "float32"), w: R.Tensor((32, 16, 3, 3), "float32")):
    return R.nn.conv2d(x, w, padding=1)
"""
    executable = structir.compile(structir.parse(text))
    x, weights = floats(1, 16, 9, 9), floats(32, 16, 3, 3)
    np.testing.assert_allclose(executable["main"](x, weights), exact(x, weights), atol=1e-4)
    assert not is_filtered(executable)


def test_a_saved_executable_has_the_same_results(always, tmp_path):
    weights, x = floats(32, 16, 3, 3), floats(2, 16, 9, 9, seed=1)
    executable = convolution(weights)
    wanted = executable["main"](x)
    executable.save(tmp_path / "filters.sir")
    loaded = structir.load(tmp_path / "filters.sir")
    np.testing.assert_array_equal(loaded["main"](x), wanted)


def test_the_choice():
    """It needs many channels and pixels; more images and more pixels never speak against it."""
    assert is_faster_by_minimal_filtering(64, 64, 1, (56, 56))
    assert is_faster_by_minimal_filtering(256, 256, 1, (14, 14))
    assert is_faster_by_minimal_filtering(32, 32, 1, (56, 56))
    assert is_faster_by_minimal_filtering(512, 512, 1, (7, 7))
    assert not is_faster_by_minimal_filtering(24, 24, 1, (28, 28))
    assert not is_faster_by_minimal_filtering(512, 512, 1, (1, 60))
    assert not is_faster_by_minimal_filtering(64, 3, 1, (112, 112))
    assert not is_faster_by_minimal_filtering(8, 8, 1, (56, 56))
    assert not is_faster_by_minimal_filtering(512, 512, 1, (3, 3))
    assert not is_faster_by_minimal_filtering(512, 512, 1, (1, 1))
    for size in range(2, 64, 2):
        chosen = [is_faster_by_minimal_filtering(128, 128, n, (size, size)) for n in (1, 2, 8, 64)]
        assert chosen == sorted(chosen)


OTHER_ROLES = [  # signatures in which an axis of the image is not only a line, channel or batch
    ("x[n, c, h + p, h + q], w[o, c, p, q] -> y[n, o, h]", (1, 16, 9, 9), (32, 16, 3, 3)),
    ("x[n, c, c, h + p, v + q], w[o, c, p, q] -> y[n, o, h, v]", (1, 16, 16, 9, 9), (32, 16, 3, 3)),
    ("x[n, c, h + p, v + p], w[o, c, p] -> y[n, o, h, v]", (1, 16, 9, 9), (32, 16, 3)),
    ("x[n, c, h + p, v + p], w[o, c, p, p] -> y[n, o, h, v]", (1, 16, 9, 9), (32, 16, 3, 3)),
    ("x[n, p, c, h + p, v + q], w[o, c, p, q] -> y[n, o, h, v]", (1, 3, 16, 9, 9), (32, 16, 3, 3)),
    ("x[n, h, c, h + p, v + q], w[o, c, p, q] -> y[n, o, h, v]", (1, 7, 16, 9, 9), (32, 16, 3, 3)),
    ("x[n, n, c, h + p, v + q], w[o, c, p, q] -> y[n, o, h, v]", (2, 2, 16, 9, 9), (32, 16, 3, 3)),
]


@pytest.mark.parametrize(("signature", "image", "shape"), OTHER_ROLES)
def test_windows_with_other_indices_are_right(always, signature, image, shape):
    @op(signature, name="windows_in_test", reduce="sum")
    def _windows(x: ScalarExpr, w: ScalarExpr) -> ScalarExpr:
        return x * w

    weights, x = floats(*shape), floats(*image, seed=1)
    text = f"""
@R.function
def main(x: R.Tensor({image}, "float32")):
    return R.windows_in_test(x, metadata["w"])
"""
    module = structir.parse(text, constants={"w": weights})
    expected = structir.interpret(module, "main", x)
    np.testing.assert_allclose(structir.compile(module)["main"](x), expected, atol=1e-4)


def test_subnormal_filters_are_direct(always):
    weights = floats(32, 16, 3, 3)
    weights[5] = 1e-44
    executable = convolution(weights)
    x = floats(1, 16, 9, 9, seed=1)
    np.testing.assert_allclose(
        executable["main"](x * 1e30)[:, 5], exact(x * 1e30, weights)[:, 5], 1e-3
    )
    assert not is_filtered(executable)
