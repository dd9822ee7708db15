"""Convolutions by constant weights: one image point at a time, with channels in registers."""

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest

import structir
from structir.ir import dims
from structir.loops.products.choice import is_faster_by_pixels
from structir.targets.cpu.code_generation import compile_ir
from structir.targets.cpu.packed_layout import packed_narrow
from structir.targets.cpu.pixel_tiles import MANY_TERMS, POINTS, pixel_tiles_text
from structir.targets.cpu.products import has_products_of_floats
from structir.targets.cpu.tiles import TileShape, tile_shapes
from tests.runtime.agreement import assert_agree

needs_tiles = pytest.mark.skipif(
    not has_products_of_floats("float32"), reason="no wide fused multiply-add here"
)


def floats(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(call, image, weight, sizes, threads=1, dtype="float32"):
    """Compiled with constants `w` and `b`, and interpreted, at several sizes."""
    lines = f"    w = metadata['w']\n    b = metadata['b']\n    return {call}\n"
    text = f'@R.function\ndef main(x: R.Tensor({image}, "{dtype}")):\n{lines}'
    bias = (weight[0], *[1] * (len(weight) - 2))
    constants = {"w": floats(*weight, dtype=dtype), "b": floats(*bias, seed=1, dtype=dtype)}
    module = structir.parse(text, constants=constants)
    executable = structir.compile(module, num_threads=threads)
    for shape in sizes:
        x = floats(*shape, seed=2, dtype=dtype)
        wanted = structir.interpret(module, "main", x)
        assert_agree(wanted, executable["main"](x), str(shape))
    assert executable.compile_count == 1
    return executable


IMAGES = '("n", 16, "height", "width")'
SIZES = [(1, 16, 14, 17), (2, 16, 5, 7), (0, 16, 8, 8), (1, 16, 3, 31)]
FORMS = [
    ("padding=1", (16, 16, 3, 3)),
    ("padding=1", (45, 16, 3, 3)),
    ("", (64, 16, 3, 3)),
    ("padding=1", (130, 16, 3, 3)),
    ("strides=2, padding=1", (32, 16, 3, 3)),
    ("strides=(2, 3), padding=(0, 1, 2, 1)", (16, 16, 3, 3)),
    ("dilation=2, padding=2", (30, 16, 3, 3)),
    ("padding=1, groups=2", (32, 8, 4, 4)),
    ("strides=2", (48, 16, 1, 1)),  # few terms: products of windows
    ("padding=1", (5, 16, 3, 3)),
]


@pytest.mark.parametrize(("attributes", "weight"), FORMS)
def test_any_number_of_channels_and_points(attributes, weight):
    call = f"R.nn.relu(R.nn.conv2d(x, w, {attributes}) + b)"
    check(call, IMAGES, weight, SIZES)


@pytest.mark.parametrize(
    "call", ["R.nn.conv2d(x, w, padding=1)", "x + R.nn.conv2d(x, w, padding=1)"]
)
def test_what_follows_may_be_nothing_or_read_the_image(call):
    check(call, '("n", 32, "height", "width")', (32, 32, 3, 3), [(2, 32, 6, 7), (1, 32, 14, 14)])


@pytest.mark.parametrize("size", [7, 14])
def test_known_sizes(size):
    call = "R.nn.relu(R.nn.conv2d(x, w, padding=1) + b)"
    shape = (1, 16, size, size)
    check(call, str(shape), (80, 16, 3, 3), [shape])


def test_threads_take_panels_of_channels():
    call = "R.nn.relu(R.nn.conv2d(x, w, padding=1) + b)"
    check(call, IMAGES, (200, 16, 3, 3), [(1, 16, 40, 40), (3, 16, 9, 40)], threads=2)


def test_lines_volumes_and_doubles():
    check("R.nn.conv1d(x, w, padding=2) + b", '("n", 32, "k")', (24, 32, 5), [(2, 32, 30)])
    volume = '("n", 5, "d", "h", "k")'
    sizes = [(1, 5, 3, 5, 6), (2, 5, 2, 2, 2)]
    check("R.nn.conv3d(x, w, padding=1) + b", volume, (16, 5, 3, 3, 3), sizes)
    call = "R.nn.conv2d(x, w, padding=1) + b"
    check(call, IMAGES, (24, 16, 3, 3), SIZES, dtype="float64")


def tile_forms():
    """The tiles of this processor, and those of narrower ones as far as it runs them."""
    wide = tile_shapes("float32")
    narrow = tuple([TileShape("float32", 8, v, (6, 4, 2, 1)) for v in (1, 2)])
    return [form for form in (wide, narrow) if form]


@needs_tiles
@pytest.mark.parametrize("shapes", tile_forms())
@pytest.mark.parametrize("block", [72, MANY_TERMS])
def test_tiles_of_each_processor(shapes, block):
    """All heights and widths, against a sum over the terms."""
    lanes = shapes[0].lanes
    name = f"pixels_under_test_{lanes}_{block}"
    code = compile_ir(pixel_tiles_text(shapes, name, block), [name])
    address, word = ctypes.c_void_p, ctypes.c_int64
    kind = ctypes.CFUNCTYPE(None, *[address] * 5, *[word] * 4)
    run = kind(code.addresses[0])
    image, few = floats(3000), np.array([0, 3, 40, 41, 7], np.int64)
    for channels in (1, lanes - 1, lanes, lanes + 3, 2 * lanes):
        for terms, counts in ((few, range(16)), (np.arange(151), (61, 2 * POINTS + 3))):
            weights = floats(len(terms), channels, seed=channels)
            panels = _in_panels(weights, lanes)
            for count in counts:
                points = np.arange(count, dtype=np.int64) * 13
                out = np.full((channels, count + 2), 9, np.float32)
                passed = [a.ctypes.data for a in (image, points, terms, panels, out)]
                run(*passed, count + 2, len(terms), channels, count)
                wanted = (image[points[:, None] + terms] @ weights).T
                np.testing.assert_allclose(out[:, :count], wanted, rtol=1e-4, atol=1e-4)
                assert (out[:, count:] == 9).all()


def _in_panels(weights, lanes):
    filled = np.zeros((len(weights), -(-weights.shape[1] // lanes) * lanes), np.float32)
    filled[:, : weights.shape[1]] = weights
    return np.ascontiguousarray(filled.reshape(len(weights), -1, lanes).swapaxes(0, 1))


@needs_tiles
def test_panels_are_one_register_wide():
    weights = floats(5, 20)
    assert (
        packed_narrow(weights) == _in_panels(weights, tile_shapes("float32")[0].lanes).ravel()
    ).all()
    assert llvm.address_of_symbol("structir_pixel_product_float32")


SMALL = [
    ("R.nn.conv2d(x, w)", 160, 80, 7),
    ("R.nn.relu(R.nn.conv2d(x, w) + b)", 200, 96, 15),
    ("R.minimum(R.nn.conv2d(x, w) * b, b) + x", 96, 96, 7),
]


@needs_tiles
@pytest.mark.parametrize(("call", "channels", "filters", "size"), SMALL)
def test_products_of_small_images_read_points(call, channels, filters, size):
    image, weight = f'("n", {channels}, {size}, {size})', (filters, channels, 1, 1)
    shapes = [(n, channels, size, size) for n in (1, 3, 0)]
    one, *others = [check(call, image, weight, shapes, threads=count) for count in (1, 2, 3)]
    by_pixels = is_faster_by_pixels(filters, size * size, channels, "float32")
    assert ("pixel_product" in one.source()) == by_pixels
    assert by_pixels or len(tile_shapes("float32")) < 3
    assert "T.add_to" not in one.source()  # a loop of single terms
    x = floats(*shapes[1], seed=3)
    assert all((other["main"](x) == one["main"](x)).all() for other in others)


@needs_tiles
def test_products_of_large_images_with_few_terms_read_lines():
    executable = check("R.nn.conv2d(x, w)", '("n", 3, 56, 56)', (17, 3, 1, 1), [(2, 3, 56, 56)])
    assert "pixel_product" not in executable.source()


@needs_tiles
def test_the_choice_follows_lanes_and_terms():
    lanes = tile_shapes("float32")[0].lanes
    assert is_faster_by_pixels(60 * lanes, 3 * lanes + 1, 10 * lanes, "float32")
    assert not is_faster_by_pixels(1, 3 * lanes, 40 * lanes, "float32")  # one channel in a vector
    assert not is_faster_by_pixels(6 * lanes, 700 * lanes, lanes, "float32")  # few terms
    assert not is_faster_by_pixels(10 * lanes, dims.sym("n"), 40 * lanes, "float32")


@needs_tiles
def test_whole_squares_are_stored_without_masks():
    """Masked stores that cross cache lines take several cycles each."""
    shapes = tile_shapes("float32")
    text = pixel_tiles_text(shapes, "pixels_under_test", MANY_TERMS)
    count, lanes = min(8, shapes[0].lanes), shapes[0].lanes
    storing = text[text.index('@"storing_float32"') :].split("\n}")[0]
    assert storing.count(f"store <{count} x float>") == 2 * lanes - 1  # all channels, or fewer
