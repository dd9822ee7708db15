"""Parts of products: at batch 1, threads share blocks of rows or of columns, or lines of an image.
Any number of threads gives the bits of one."""

import numpy as np
import pytest

import structir
from structir.runtime.plans import plan

THREADS = (2, 3)


@pytest.fixture(autouse=True)
def all_work_is_shared(monkeypatch):
    monkeypatch.setattr(plan, "MIN_SHARED_NANOSECONDS", 0)
    monkeypatch.setattr(plan, "MIN_SHARED_ELEMENTS", 0)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def convolution(weights, image, options="", batch='"n"'):
    """Returns a convolution of `weights` with a bias, on images of a shape."""
    size = len(image) - 1
    sizes = ", ".join(map(str, image))
    text = f"""
@R.function
def main(x: R.Tensor(({batch}, {sizes}), "float32")):
    with R.dataflow():
        y = R.nn.conv{size}d(x, metadata["w"]{options}) + metadata["b"]
        z = R.nn.relu(y)
        R.output(z)
    return z
"""
    bias = floats(weights[0], *[1] * size, seed=2)
    return structir.parse(text, constants={"w": floats(*weights, seed=1), "b": bias})


CONVOLUTIONS = {
    "1 x 1": ((40, 24, 1, 1), (24, 30, 30), ""),
    "1 x 1, small image": ((40, 200, 1, 1), (200, 7, 7), ""),
    "1 x 1, narrow rest": ((40, 16, 1, 1), (16, 28, 28), ""),
    "3 x 3": ((64, 32, 3, 3), (32, 50, 50), ", padding=1"),
    "3 x 3, small image": ((64, 32, 3, 3), (32, 14, 14), ", padding=1"),
    "3 x 3, few terms": ((20, 3, 3, 3), (3, 40, 33), ", strides=2, padding=1"),
    "3 x 3, few channels": ((5, 4, 3, 3), (4, 40, 33), ", padding=1"),
    "depthwise": ((32, 1, 3, 3), (32, 20, 20), ", padding=1, groups=32"),
    "grouped": ((32, 8, 3, 3), (32, 20, 20), ", padding=1, groups=4"),
    "grouped 1 x 1": ((32, 8, 1, 1), (32, 40, 40), ", groups=4"),
    "one axis": ((24, 16, 5), (16, 900), ", padding=2"),
}


def ranges_of(executable):
    """Returns the kernels and ranges of the last call."""
    (region,) = executable._regions["main"]
    bound = region._bound.latest()[0]
    return list(zip(bound.plan.texts, bound.numbers.ranges, bound.chunks, strict=True))


def same_bits(module, *calls):
    """Checks that any number of threads gives the bits of one; returns an executable."""
    one = structir.compile(module, num_threads=1)["main"]
    for threads in THREADS:
        many = structir.compile(module, num_threads=threads)
        for args in calls:
            wanted = one(*args)
            for _ in range(2):
                np.testing.assert_array_equal(many["main"](*args), wanted)
    return many


@pytest.mark.parametrize("batch", ['"n"', "1"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_threads_share_a_convolution_of_one_image(name, batch):
    weights, image, options = CONVOLUTIONS[name]
    module = convolution(weights, image, options, batch)
    sizes = (1,) if batch == "1" else (3, 2, 1)
    many = same_bits(module, *[(floats(n, *image),) for n in sizes])
    x = floats(1, *image)
    wanted = structir.interpret(module, "main", x)
    np.testing.assert_allclose(many["main"](x), wanted, rtol=1e-4, atol=1e-4)
    for text, size, chunk in ranges_of(many):
        assert size > 2 and chunk > 0, text.text


@pytest.mark.parametrize("maps", ["{}", "R.nn.gelu({} + b)", "R.nn.softmax({})", "{} * 2 + x"])
@pytest.mark.parametrize("rows", [1, 5, 8, 60, 300])
def test_threads_share_products_with_maps(maps, rows):
    text = f"""
@R.function
def main(x: R.Tensor(("n", 256), "float32"), b: R.Tensor((256,), "float32")):
    with R.dataflow():
        y = {maps.format('R.matmul(x, metadata["w"])')}
        R.output(y)
    return y
"""
    module = structir.parse(text, constants={"w": floats(256, 256) / 16})
    same_bits(module, (floats(rows, 256), floats(256, seed=3)))


@pytest.mark.parametrize("maps", ["{}", "R.nn.relu({})", "R.nn.softmax({})"])
def test_threads_share_batched_products_of_few_batches(maps):
    text = f"""
@R.function
def main(x: R.Tensor(("b", "n", 40), "float32"), y: R.Tensor(("b", 40, "m"), "float32")):
    with R.dataflow():
        z = {maps.format("R.matmul(x, y)")}
        R.output(z)
    return z
"""
    module = structir.parse(text)
    shapes = [(2, 7, 500), (1, 33, 900), (1, 1, 450), (1, 300, 20), (0, 4, 4), (2, 0, 5)]
    calls = [(floats(b, n, 40), floats(b, 40, m)) for b, n, m in shapes]
    same_bits(module, *calls)
    many = structir.compile(module, num_threads=2)
    many["main"](*calls[1])
    assert all(size > 1 for _, size, _ in ranges_of(many))


def test_many_terms_have_the_bits_of_one_thread():
    text = """
@R.function
def main(x: R.Tensor(("n", 2500), "float32"), y: R.Tensor((2500, 90), "float32")):
    with R.dataflow():
        z = R.nn.relu(R.matmul(x, metadata["w"])) + R.nn.relu(R.matmul(x, y))
        R.output(z)
    return z
"""
    module = structir.parse(text, constants={"w": floats(2500, 90)})
    same_bits(module, *[(floats(n, 2500), floats(2500, 90, seed=1)) for n in (1, 9, 31, 258)])


@pytest.mark.parametrize("rows", ["1", '"n"'])
def test_threads_share_the_columns_of_one_row(rows):
    text = f"""
@R.function
def main(x: R.Tensor(({rows}, 400), "float32")):
    with R.dataflow():
        y = R.matmul(x, metadata["w"]) + metadata["b"]
        R.output(y)
    return y
"""
    constants = {"w": floats(400, 1000), "b": floats(1000, seed=1)}
    module, x = structir.parse(text, constants=constants), floats(1, 400, seed=2)
    many = same_bits(module, (x,))
    np.testing.assert_allclose(many["main"](x), x @ constants["w"] + constants["b"], rtol=1e-3)
    assert all(size > 1 for _, size, _ in ranges_of(many))
