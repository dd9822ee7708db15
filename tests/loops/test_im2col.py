"""Lowering of convolutions and pooling: padded copies, products at offsets, windows as maps."""

import numpy as np
import pytest

import structir
from structir.targets.cpu.products import has_own_products
from tests.runtime.agreement import assert_agree


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def check(call, params, shapes, kernels=None):
    """A call agrees with the interpreter at several sizes, compiled once."""
    head = ", ".join(f'{name}: R.Tensor({info}, "float32")' for name, info in params.items())
    module = structir.parse(f"@R.function\ndef main({head}):\n    return {call}\n")
    executable = structir.compile(module)
    for own in shapes:
        given = [floats(*s, seed=k) for k, s in enumerate(own)]
        wanted = structir.interpret(module, "main", *given)
        assert_agree(wanted, executable["main"](*given), str(own))
    assert executable.compile_count == 1
    if kernels is not None and has_own_products("float32"):
        assert executable.kernel_count == kernels
    return executable


IMAGES = {"x": '("n", 4, "height", "width")'}
FORMS = [
    ("padding=1", (6, 4, 3, 3)),
    ("", (5, 4, 3, 2)),
    ("strides=2, padding=1", (6, 4, 3, 3)),
    ("strides=(2, 3), padding=(0, 1, 2, 1)", (17, 4, 3, 4)),
    ("dilation=2, padding=2", (6, 4, 3, 3)),
    ("strides=2, dilation=3, padding=3", (6, 4, 3, 2)),
    ("padding=1, groups=2", (6, 2, 3, 3)),
    ("padding=1, groups=4", (4, 1, 3, 3)),
    ("padding=1, groups=4, strides=2", (8, 1, 3, 3)),
    ("strides=2", (7, 4, 1, 1)),
    ("", (7, 4, 1, 1)),
    ("padding=3", (1, 4, 7, 7)),
    ("padding=(0, 2, 1, 2), strides=(1, 3)", (1, 4, 3, 5)),
]


@pytest.mark.parametrize(("attributes", "weight"), FORMS)
def test_convolutions_of_images(attributes, weight):
    call = f"R.nn.conv2d(x, w, {attributes})"
    params = {**IMAGES, "w": str(weight)}
    shapes = [[(n, 4, h, w), weight] for n, h, w in ((2, 9, 11), (1, 20, 70), (0, 8, 8))]
    check(call, params, shapes)


def test_bias_and_activation_stay_with_the_convolution():
    params = {**IMAGES, "w": "(20, 4, 3, 3)", "b": "(20, 1, 1)"}
    shapes = [[(n, 4, h, h), (20, 4, 3, 3), (20, 1, 1)] for n, h in ((1, 6), (2, 30))]
    check("R.nn.relu(R.nn.conv2d(x, w, padding=1) + b)", params, shapes, kernels=2)


def test_a_residual_is_added_on_the_block():
    params = {**IMAGES, "w": "(4, 4, 3, 3)"}
    shapes = [[(n, 4, h, h), (4, 4, 3, 3)] for n, h in ((1, 6), (2, 30))]
    check("x + R.nn.conv2d(x, w, padding=1)", params, shapes, kernels=2)


@pytest.mark.parametrize(
    ("call", "x", "w"),
    [
        ("R.nn.conv1d(x, w, padding=2, strides=2)", (2, 3, 17), (5, 3, 4)),
        ("R.nn.conv1d(x, w, dilation=2)", (2, 3, 17), (5, 3, 4)),
        ("R.nn.conv3d(x, w, padding=1)", (1, 3, 5, 6, 7), (4, 3, 3, 3, 3)),
        ("R.nn.conv3d(x, w, strides=2, padding=1)", (2, 2, 5, 6, 7), (3, 2, 3, 2, 3)),
        (
            'R.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO")',
            (2, 7, 8, 3),
            (3, 3, 3, 5),
        ),
        ('R.nn.conv2d(x, w, strides=2, data_layout="NHWC")', (2, 7, 8, 3), (5, 3, 3, 3)),
        ('R.nn.conv2d(x, w, padding=1, kernel_layout="HWIO")', (1, 3, 6, 6), (3, 3, 3, 5)),
    ],
)
def test_other_ranks_and_layouts(call, x, w):
    check(call, {"x": str(x), "w": str(w)}, [[x, w]])


@pytest.mark.parametrize(
    "call",
    [
        "R.nn.max_pool2d(x, pool_size=3, strides=2, padding=1)",
        "R.nn.max_pool2d(x, pool_size=2, strides=2)",
        "R.nn.max_pool2d(x, pool_size=(3, 2), dilation=2, ceil_mode=True)",
        "R.nn.max_pool2d(x, pool_size=7, padding=3)",
        "R.nn.avg_pool2d(x, pool_size=3, strides=2, padding=1)",
        "R.nn.avg_pool2d(x, pool_size=3, padding=1, count_include_pad=True)",
        "R.nn.avg_pool2d(x, pool_size=2, strides=2)",
        "R.nn.avg_pool2d(x, pool_size=3, strides=2, padding=1, ceil_mode=True)",
        "R.nn.relu(R.nn.max_pool2d(R.exp(x), pool_size=3, padding=1))",
    ],
)
def test_pools(call):
    check(call, IMAGES, [[(n, 4, h, w)] for n, h, w in ((2, 9, 11), (1, 20, 37), (0, 8, 8))])


@pytest.mark.parametrize("channels", [1, 3])
def test_a_pool_of_a_convolution(channels):
    """What is between them lies in lines with gaps, of which the pool reads every other one."""
    params = {"x": f'("n", {channels}, 8, 8)', "k": f"(5, {channels}, 3, 3)", "b": "(5, 1, 1)"}
    convolved = "R.nn.relu(R.nn.conv2d(x, k, padding=1) + b)"
    call = f"R.nn.max_pool2d({convolved}, pool_size=2, strides=2)"
    kernel = [(5, channels, 3, 3), (5, 1, 1)]
    check(call, params, [[(n, channels, 8, 8), *kernel] for n in (3, 1)])


def test_a_border_of_a_maximum_is_its_identity():
    x = -np.ones((1, 4, 5, 5), "float32")
    x[0, 0, 0, 0] = np.nan
    params = '(1, 4, 5, 5), "float32"'
    module = structir.parse(
        f"@R.function\ndef main(x: R.Tensor({params})):\n"
        "    return R.nn.max_pool2d(x, pool_size=3, padding=1)\n"
    )
    found = structir.compile(module)["main"](x)
    assert np.isnan(found[0, 0, :2, :2]).all() and (found[0, 1:] == -1).all()


def test_a_window_over_a_part_of_an_operand_keeps_to_its_borders():
    call = (
        "R.nn.conv2d(R.permute_dims(R.strided_slice(x, begin=(2, 1), end=(9, 20), axes=(1, 2)), "
        "(0, 3, 1, 2)), w, padding=(1, 4, 1, 4), strides=(1, 3))"
    )
    params = {"x": '("n", 12, 24, 3)', "w": "(8, 3, 3, 9)"}
    shapes = [[(n, 12, 24, 3), (8, 3, 3, 9)] for n in (1, 2)]
    executable = check(call, params, shapes)
    assert not has_own_products("float32") or "gathered_product" in executable.source()


def test_what_is_computed_does_not_move_into_windows_that_overlap():
    call = "R.nn.conv2d(R.exp(R.permute_dims(x, (0, 3, 1, 2))), w, padding=1)"
    params = {"x": '("n", 9, 24, 3)', "w": "(1, 3, 3, 3)"}
    shapes = [[(n, 9, 24, 3), (1, 3, 3, 3)] for n in (1, 2)]
    executable = check(call, params, shapes)
    product = [k for k in executable.source().split("# kernel ") if "gathered_product" in k]
    assert not has_own_products("float32") or (len(product) == 1 and "exp" not in product[0])


def test_images_of_one_element_are_not_read_outside():
    """What lies beside them in memory may be anything."""
    module = structir.parse(
        '@R.function\ndef main(x: R.Tensor((1, 4, 1), "float32"), '
        'w: R.Tensor((5, 4, 3), "float32")):\n'
        "    return R.nn.conv1d(x, w, padding=[1, 1])\n"
    )
    around = np.full(80, np.nan, "float32")
    x, weight = around[32:36].reshape(1, 4, 1), floats(5, 4, 3)
    x[...] = floats(1, 4, 1, seed=1)
    wanted = structir.interpret(module, "main", x.copy(), weight)
    assert_agree(wanted, structir.compile(module)["main"](x, weight), "one element")


PLANES = [
    ("R.nn.relu(R.nn.conv2d(x, w, padding=1, groups=9) + b)", (9, 1, 3, 3), 1),
    ("R.nn.conv2d(x, w, padding=2, dilation=2, groups=9) * b", (9, 1, 3, 3), 1),
    ("R.nn.conv2d(x, w, padding=(1, 0, 2, 1), strides=2, groups=9)", (9, 1, 3, 3), 1),
    ("R.nn.conv2d(x, w, padding=1, groups=9)", (18, 1, 3, 3), None),
    ("R.nn.max_pool2d(x, pool_size=3, strides=2, padding=1) + R.sum(w)", (1, 1, 1, 1), None),
    ("R.nn.conv2d(x, w, padding=1, groups=9) + x", (9, 1, 3, 3), 1),
]


@pytest.mark.parametrize(("call", "weight", "kernels"), PLANES)
@pytest.mark.parametrize("threads", [1, 2])
def test_planes_are_copied_one_by_one(call, weight, kernels, threads):
    shapes = '("n", 9, 13, 18)', weight, (9, 1, 1)
    params = [f'{n}: R.Tensor({s}, "float32")' for n, s in zip("xwb", shapes, strict=True)]
    text = f"@R.function\ndef main({', '.join(params)}):\n    return {call}\n"
    module = structir.parse(text)
    executable = structir.compile(module, num_threads=threads)
    for n in (1, 5, 0):
        given = [floats(n, 9, 13, 18), floats(*weight, seed=1), floats(9, 1, 1, seed=2)]
        assert_agree(structir.interpret(module, "main", *given), executable["main"](*given))
    if kernels is not None:
        assert executable.kernel_count == kernels
        assert "scratch" in executable.source() or "T.window_" in executable.source()


def test_a_convolution_whose_every_size_is_free_has_a_kernel() -> None:
    module = structir.parse(
        """
@R.function
def main(
    x: R.Tensor(("a", "b", "c", "d"), "float32"), w: R.Tensor(("e", "f", "g", "h"), "float32")
):
    return R.nn.conv2d(x, w, padding=[1], groups=2)
"""
    )
    executable = structir.compile(module)
    assert executable.kernel_count
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("float32") for s in ((2, 6, 5, 5), (4, 3, 3, 3)))
    wanted = structir.interpret(module, "main", x, w)
    np.testing.assert_allclose(executable["main"](x, w), wanted, 1e-4, 1e-4)


SPATIAL = ("13, 18", '"height", "width"', "8, 8")
JOINS = ("add", "add", "multiply", "maximum")


def branches(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]]]:
    """Returns a program that joins two to four windows over its inputs, and the weights' shapes."""
    channels, stride = int(rng.choice([1, 5, 9, 16])), int(rng.integers(1, 3))
    size = rng.choice(SPATIAL)
    params = [f'{x}: R.Tensor(("n", {channels}, {size}), "float32")' for x in "xy"]
    lines: list[str] = []
    weights: list[tuple[int, ...]] = []
    values: list[str] = []
    for index in range(int(rng.integers(2, 5))):
        earlier = ["R.nn.relu(x)", *values[-1:]] if stride == 1 else []
        source = rng.choice(["x", "y", *earlier])
        kernel, name = int(rng.choice([1, 3, 5])), f"v{index}"
        window = f"strides={stride}, padding={kernel // 2}"
        kind = str(rng.choice(["depthwise", "depthwise", "dense", "max", "mean"]))
        if kind in ("depthwise", "dense"):
            groups = channels if kind == "depthwise" else 1
            weights.append((channels, channels // groups, kernel, kernel))
            params.append(f'w{index}: R.Tensor({weights[-1]}, "float32")')
            call = f"R.nn.conv2d({source}, w{index}, {window}, groups={groups})"
        else:
            pool = "max_pool2d" if kind == "max" else "avg_pool2d"
            call = f"R.nn.{pool}({source}, pool_size={kernel}, {window})"
        lines.append(f"{name} = {call}")
        values.append(name)
    total = values[0]
    for index, value in enumerate(values[1:]):
        lines.append(f"t{index} = R.{rng.choice(JOINS)}({total}, {value})")
        total = f"t{index}"
    body = "".join(f"    {line}\n" for line in lines)
    return f"@R.function\ndef main({', '.join(params)}):\n{body}    return {total}\n", weights


@pytest.mark.parametrize("seed", range(30))
def test_joined_windows_agree_with_the_interpreter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text, weights = branches(rng)
    module = structir.parse(text)
    run = structir.compile(module)["main"]
    channels = int(module["main"].params[0].struct_info.dims[1])
    sizes = module["main"].params[0].struct_info.dims[2:]
    for n in (1, 3):
        spatial = [d if isinstance(d, int) else 7 + 4 * n for d in sizes]
        images = [floats(n, channels, *spatial, seed=k) for k in (0, 1)]
        values = [*images, *[floats(*shape, seed=k) for k, shape in enumerate(weights)]]
        assert_agree(structir.interpret(module, "main", *values), run(*values), text)


DEPTHWISE = [
    ("R.nn.conv2d(x, w, padding=3, groups=6)", (6, 1, 7, 7)),
    ("R.nn.relu(R.nn.conv2d(x, w, padding=2, strides=2, groups=6))", (6, 1, 5, 5)),
    ("R.nn.conv2d(x, w, padding=(0, 2, 1, 0), strides=3, dilation=2, groups=6)", (6, 1, 3, 3)),
    ("R.nn.conv2d(x, w, strides=(1, 4), padding=1, groups=6)", (12, 1, 2, 5)),
    ("R.mean(R.exp(-R.nn.conv2d(x, w, padding=1, groups=6)), axis=(2, 3))", (6, 1, 3, 3)),
    ("R.nn.max_pool2d(R.nn.conv2d(x, w, padding=1, groups=6), pool_size=2)", (6, 1, 3, 3)),
    (
        "R.nn.conv2d(R.permute_dims(x, (0, 1, 3, 2)), w, padding=1, strides=2, groups=6)",
        (6, 1, 3, 3),
    ),
    ("R.nn.max_pool2d(R.log(x), pool_size=3, strides=2, padding=1)", ()),  # of NaN, too
    ("R.nn.max_pool2d(x, pool_size=(2, 5), strides=(1, 3), padding=(1, 2))", ()),
    ("-R.nn.avg_pool2d(x, pool_size=3, strides=1, padding=1)", ()),
]


@pytest.mark.parametrize(("call", "weight"), DEPTHWISE)
def test_sums_over_windows_of_each_width(call, weight):
    sizes = [(1, 5, 3), (2, 9, 7), (1, 8, 12), (1, 16, 21), (2, 7, 37)]
    if "max_pool" not in call:
        sizes.append((0, 9, 9))
    shapes = [[(n, 6, h, w), *([weight] if weight else [])] for n, h, w in sizes]
    params = {"x": '("n", 6, "height", "width")'} | ({"w": str(weight)} if weight else {})
    executable = check(call, params, shapes)
    assert not has_own_products("float32") or "T.window_" in executable.source()


def test_equal_layers_of_other_sizes_share_a_sum_over_windows():
    """The sizes of windows remain in the text, of which the code is made."""
    executable = check(
        "R.nn.conv2d(R.nn.relu(R.nn.conv2d(x, w, padding=(0, 8), groups=3)), v, "
        "padding=(0, 10), groups=3)",
        {"x": '("n", 3, 20, 24)', "w": "(3, 1, 1, 17)", "v": "(3, 1, 1, 21)"},
        [[(1, 3, 20, 24), (3, 1, 1, 17), (3, 1, 1, 21)]],
    )
    assert executable.kernel_count <= 3
