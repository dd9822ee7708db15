"""Products and convolutions by tiles in registers, run by threads of the host: they give what the
interpreter gives, at sizes that fill no tile."""

import re

import numpy as np
import pytest

import structir
from structir.ir.dtype import numpy_dtype
from structir.targets.cuda.ahead import AheadDevice
from structir.targets.cuda.executable import DeviceExecutable
from tests.runtime.agreement import assert_agree
from tests.targets.cuda.host_threads import HostThreads
from tests.targets.cuda.simulated_every_op import on_host

pytestmark = pytest.mark.sampled(1)


@pytest.fixture(scope="module")
def device():
    return HostThreads()


def numbers(shape, dtype, seed):
    """Numbers of any dtype, small ones of integers."""
    found = np.random.default_rng(seed).standard_normal(shape)
    return (found * (1 if "float" in dtype else 5)).astype(numpy_dtype(dtype))


def module_of(body, params, dtype="float32"):
    """A function of tensors named by their letters, each with the sizes that stand there."""
    given = [f'{name}: R.Tensor(({sizes},), "{dtype}")' for name, sizes in params.items()]
    return structir.parse(f"@R.function\ndef main({', '.join(given)}):\n    return {body}\n")


def assert_interpreted(device, module, shapes, dtype="float32"):
    given = [numbers(shape, dtype, k) for k, shape in enumerate(shapes)]
    executable = DeviceExecutable(module, device)
    wanted = structir.interpret(module, "main", *given)
    assert_agree(wanted, on_host(executable["main"](*given)))
    return executable


PRODUCTS = {
    "R.matmul(x, w)": ({"x": "'n', 'k'", "w": "'k', 'm'"}, [(37, 45), (45, 70)]),
    "R.matmul(R.permute_dims(x), w)": ({"x": "'k', 'n'", "w": "'k', 'm'"}, [(33, 21), (33, 130)]),
    "R.matmul(x, R.permute_dims(w))": (
        {"x": "'b', 7, 'k'", "w": "'n', 'k'"},
        [(3, 7, 33), (21, 33)],
    ),
    "R.matmul(x, w) ": ({"x": "'n', 48", "w": "48, 136"}, [(150, 48), (48, 136)]),
    "R.matmul(x, w)  ": ({"x": "'b', 'n', 'k'", "w": "'b', 'k', 8"}, [(3, 5, 17), (3, 17, 8)]),
    "R.matmul(x, w)   ": ({"x": "'n', 'k'", "w": "'k'"}, [(37, 45), (45,)]),
    "R.matmul(R.permute_dims(x, axes=[0, 2, 1, 3]), R.permute_dims(w, axes=[0, 2, 3, 1]))": (
        {"x": "'b', 7, 2, 8", "w": "'b', 9, 2, 8"},
        [(2, 7, 2, 8), (2, 9, 2, 8)],
    ),
}


@pytest.mark.parametrize("body", PRODUCTS)
def test_products_that_lie_in_every_way(device, body):
    params, shapes = PRODUCTS[body]
    assert "held" in assert_interpreted(device, module_of(body, params), shapes).source()


@pytest.mark.parametrize("shapes", [[(0, 3), (3, 5)], [(4, 0), (0, 5)], [(1, 1), (1, 1)]])
def test_products_of_nothing_and_of_one(device, shapes):
    module = module_of("R.matmul(x, w)", {"x": "'n', 'k'", "w": "'k', 'm'"})
    assert_interpreted(device, module, shapes)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "int32", "int64"])
def test_products_of_every_dtype(device, dtype):
    module = module_of("R.matmul(x, w)", {"x": "'n', 24", "w": "24, 72"}, dtype)
    assert_interpreted(device, module, [(37, 24), (24, 72)], dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("body", list(PRODUCTS)[1:3])
def test_products_by_warps(device, dtype, body):
    params, shapes = PRODUCTS[body]
    source = assert_interpreted(device, module_of(body, params, dtype), shapes, dtype).source()
    assert f"multiply_{dtype}" in source


@pytest.mark.parametrize("body", list(PRODUCTS)[1:4])
def test_products_of_rounded_factors_by_warps(device, body):
    params, shapes = PRODUCTS[body]
    module = module_of(body, params)
    given = [numbers(shape, "float32", k) for k, shape in enumerate(shapes)]
    executable = DeviceExecutable(module, device, tf32=True)
    found = on_host(executable["main"](*given))
    wanted = structir.interpret(module, "main", *given)
    np.testing.assert_allclose(found, wanted, 1e-2, 2e-2)
    assert np.abs(found - wanted).max() > 1e-4
    assert "multiply_tf32" in executable.source()


def test_convolutions_by_warps(device):
    body = "R.nn.conv2d(x, w, padding=1, strides=2)"
    x, w = (2, 5, 9, 11), (16, 5, 3, 3)
    params = {"x": "'b', 5, 'tall', 'wide'", "w": "16, 5, 3, 3"}
    source = assert_interpreted(
        device, module_of(body, params, "float16"), [x, w], "float16"
    ).source()
    assert "multiply_float16" in source


LAST = 'data_layout="NHWC"'
CONVOLUTIONS = {
    "conv2d(x, w, padding=1, strides=2)": [(2, 5, 9, 11), (16, 5, 3, 3)],
    "conv2d(x, w, padding=2, dilation=2)": [(2, 3, 9, 7), (16, 3, 3, 3)],
    "conv2d(x, w)": [(2, 16, 5, 8), (9, 16, 1, 1)],
    "conv2d(x, w, padding=1, groups=2)": [(2, 8, 6, 5), (24, 4, 3, 3)],
    "conv2d(x, w, padding=1, groups=6)": [(2, 6, 6, 5), (6, 1, 3, 3)],
    f"conv2d(x, w, padding=1, {LAST})": [(2, 7, 6, 24), (16, 24, 3, 3)],
    f'conv2d(x, w, padding=1, strides=2, {LAST}, kernel_layout="OHWI")': [
        (2, 7, 6, 24),
        (12, 3, 3, 24),
    ],
    "conv1d(x, w, padding=3, strides=2)": [(2, 20, 33), (24, 20, 7)],
    "conv1d(x, w)": [(2, 3, 33), (24, 3, 17)],
    "conv3d(x, w, padding=1, strides=2)": [(2, 3, 5, 4, 6), (17, 3, 3, 3, 3)],
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("body", CONVOLUTIONS)
def test_convolutions(device, body, known):
    """At sizes that are free, but for those of the window, and at known ones."""
    x, w = CONVOLUTIONS[body]
    named = [f"'x{k}'" for k in range(len(x))]
    axis = len(x) - 1 if LAST in body else 1
    named[axis] = str(x[axis])
    sizes = list(map(str, x)) if known else named
    module = module_of(f"R.nn.{body}", {"x": ", ".join(sizes), "w": ", ".join(map(str, w))})
    source = assert_interpreted(device, module, [x, w]).source()
    assert ("held" in source) == ("groups=6" not in body)


STRIPS = {  # of few rows, along lines of the other operand and along its columns
    "R.nn.relu(R.matmul(x, R.permute_dims(w)) + b)": ((3, 64), (70, 64), (70,)),
    "R.matmul(x, R.permute_dims(w)) + b": ((1, 45), (70, 45), (70,)),
    "R.nn.relu(R.matmul(x, w) + b)": ((4, 33), (33, 72), (72,)),
    "R.matmul(x, w) + b": ((2, 80), (80, 70), (70,)),
}


@pytest.mark.parametrize("body", STRIPS)
def test_products_of_few_rows_are_made_in_strips(device, body):
    shapes = STRIPS[body]
    params = {n: ", ".join(map(str, s)) for n, s in zip("xwb", shapes, strict=True)}
    assert "strip" in assert_interpreted(device, module_of(body, params), shapes).source()


def test_which_kernel_makes_a_product_is_known_at_its_sizes(device):
    params = {"x": "'n', 'k'", "w": "'k', 'm'", "b": "'m'"}
    module = module_of("R.matmul(x, w) + b", params, "int32")
    executable = DeviceExecutable(module, device)
    for rows in (2, 4, 5):
        given = [numbers(s, "int32", k) for k, s in enumerate([(rows, 50), (50, 30), (30,)])]
        assert_agree(
            structir.interpret(module, "main", *given), on_host(executable["main"](*given))
        )
        (plan,) = executable.plans()
        sizes = plan.numbers([dict(n=rows, k=50, m=30)[s.name] for s in plan.symbols])
        assert [count > 0 for count in sizes.ranges] == [rows > 4, rows <= 4]


EXCHANGED = {  # operand and result: a kernel for each position within a step
    "conv2d_transpose(x, w, padding=1)": ([(2, 8, 5, 4), (8, 9, 3, 3)], 1),
    "conv2d_transpose(x, w, padding=1, strides=2, groups=2)": ([(1, 16, 3, 4), (16, 16, 4, 4)], 4),
    "conv1d_transpose(x, w, strides=3, padding=1)": ([(2, 16, 5), (16, 16, 5)], 3),
}


@pytest.mark.parametrize("body", EXCHANGED)
def test_transposed_convolutions(device, body):
    shapes, kernels = EXCHANGED[body]
    free = ", ".join(["'b'", str(shapes[0][1]), *[f"'x{k}'" for k in range(len(shapes[0]) - 2)]])
    params = {"x": free, "w": ", ".join(map(str, shapes[1]))}
    executable = assert_interpreted(device, module_of(f"R.nn.{body}", params), shapes)
    assert [text.square for plan in executable.plans() for text in plan.texts] == [True] * kernels


def test_gradients_of_convolutions_are_products(device):
    params = {"x": "'b', 9, 'h', 'v'", "w": "8, 9, 3, 3"}
    module = module_of("R.sum(R.nn.silu(R.nn.conv2d(x, w, padding=1, strides=1)))", params)
    trained = structir.passes.Gradient()(module)
    given = [numbers(shape, "float32", k) for k, shape in enumerate([(2, 9, 5, 4), (8, 9, 3, 3)])]
    executable = DeviceExecutable(trained, device)
    wanted = structir.interpret(trained, "main_adjoint", *given)
    assert_agree(wanted, on_host(executable["main_adjoint"](*given)))
    texts = [text for plan in executable.plans("main_adjoint") for text in plan.texts]
    assert sum(text.square for text in texts) == 3


@pytest.mark.parametrize("terms", [64, 3])
def test_blocks_share_many_terms_of_few_tiles(device, terms):
    params = {"x": "1, 'c', 4, 3", "w": "16, 'c', 3, 3", "b": "16, 1, 1"}
    module = module_of("R.nn.relu(R.nn.conv2d(x, w, padding=1) + b)", params)
    shapes = [(1, terms, 4, 3), (16, terms, 3, 3), (16, 1, 1)]
    executable = assert_interpreted(device, module, shapes)
    (plan,) = executable.plans()
    shares, elements = plan.numbers([terms]).ranges
    assert (shares, elements) == ((4, 192) if terms == 64 else (1, 0))


BLOCK = """
@R.function
def main(
    x: R.Tensor(("b", 16, "h", "v"), "float32"), w: R.Tensor((16, 16, 3, 3), "float32"),
    g: R.Tensor((16,), "float32"), s: R.Tensor((16,), "float32"),
):
    with R.dataflow():
        a = R.nn.conv2d(x, w, padding=1)
        b = R.nn.relu(R.nn.batch_norm(a, g, g, g, s, axis=1, training=False)[0])
        c = R.nn.conv2d(b, w, padding=1)
        d = R.nn.relu(R.nn.batch_norm(c, g, g, g, s, axis=1, training=False)[0] + x)
        R.output(d)
    return d
"""


def test_a_residual_block_is_a_kernel_for_each_convolution(device):
    given = [
        numbers(shape, "float32", k) for k, shape in enumerate([(2, 16, 5, 6), (16, 16, 3, 3)])
    ]
    given += [numbers((16,), "float32", 5), np.abs(numbers((16,), "float32", 6))]
    module = structir.parse(BLOCK)
    executable = DeviceExecutable(module, device)
    assert_agree(structir.interpret(module, "main", *given), on_host(executable["main"](*given)))
    (plan,) = executable.plans()
    assert len(plan.texts) == 2


FOLLOWED = {  # what follows a product: how many kernels, and what a library has to add
    "R.matmul(x, w) + b": (1, ["bias"]),
    "R.nn.relu(b + R.matmul(x, w))": (1, ["bias_relu"]),
    "R.nn.gelu_tanh(R.matmul(x, w) + b)": (1, ["bias_gelu"]),
    "R.nn.relu(R.matmul(x, w))": (1, ["relu"]),
    "R.nn.gelu_tanh(R.matmul(x, w))": (1, ["gelu"]),
    "R.nn.gelu(R.matmul(x, w) + b) * u": (2, ["bias"]),
    "R.matmul(x, w) + u": (2, [""]),
    "(R.matmul(x, w) + b, R.matmul(x, w) + u)": (3, ["bias", ""]),
}


@pytest.mark.parametrize("body", FOLLOWED)
def test_a_library_makes_all_that_it_knows(device, body):
    params = {"x": "'n', 12", "w": "12, 40", "b": "40", "u": "'n', 40"}
    shapes = [(21, 12), (12, 40), (40,), (21, 40)]
    executable = assert_interpreted(device, module_of(body, params), shapes)
    (plan,) = executable.plans()
    kernels, epilogues = FOLLOWED[body]
    found = [text.product.epilogue for text in plan.texts if text.product is not None]
    assert (len(plan.texts), found) == (kernels, epilogues)


def test_maps_that_need_more_than_the_point_stay_apart(device):
    shapes = [(2, 8, 5, 6), (8, 8, 3, 3)]
    params = {"x": "2, 8, 'h', 'v'", "w": "8, 8, 3, 3"}
    bodies = {
        "R.nn.softmax(R.nn.conv2d(x, w, padding=1) * 2, axis=-1)": 2,
        "R.astype(R.nn.conv2d(x, w, padding=1), 'int32') + 3": 1,
        "(R.nn.conv2d(x, w), R.nn.silu(R.nn.conv2d(x, w)))": 2,
        "R.nn.silu(R.nn.conv2d(x, w, padding=1, groups=1) * x) + R.exp(x)": 1,
    }
    for body, kernels in bodies.items():
        executable = assert_interpreted(device, module_of(body, params), shapes)
        assert sum(len(plan.texts) for plan in executable.plans()) == kernels


def test_maps_follow_windows_that_are_no_products(device):
    bodies = {
        "R.nn.relu(R.nn.conv2d(x, w, padding=1, groups=8) * 2 + x)": 1,
        "R.nn.max_pool2d(x, pool_size=(3, 3), padding=1) - x": 1,
        "(R.nn.avg_pool2d(x, pool_size=(3, 3), padding=1) * 2, R.exp(x))": 2,
    }
    params = {"x": "2, 8, 'h', 'v'", "w": "8, 1, 3, 3"}
    for body, kernels in bodies.items():
        executable = assert_interpreted(
            device, module_of(body, params), [(2, 8, 5, 6), (8, 1, 3, 3)]
        )
        assert sum(len(plan.texts) for plan in executable.plans()) == kernels


FRAME, REGISTERS = (
    b"\x04\x11\x08\x00",
    b"\x04\x2f\x08\x00",
)  # facts, each after the number of a function


def fact(cubin, which):
    """What machine code tells of its kernel, and of what that calls: the most of them."""
    places = [found.end() + 4 for found in re.finditer(re.escape(which), cubin)]
    return max([int.from_bytes(cubin[at : at + 4], "little") for at in places])


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("body", ["R.matmul(x, w)", "R.nn.relu(R.nn.conv2d(x, w, padding=1) * 2)"])
def test_tiles_are_in_registers(architecture, body):
    sizes = ("'n', 64", "64, 96") if "matmul" in body else ("'b', 16, 28, 28", "32, 16, 3, 3")
    module = module_of(body, dict(zip("xw", sizes, strict=True)))
    (code,) = DeviceExecutable(module, AheadDevice(architecture)).plans()[0].kernels
    assert fact(code.cubin, FRAME) == 0 and fact(code.cubin, REGISTERS) <= 128
    assert re.search(r"ld\.global\S*\.v4", code.ptx) and "ld.shared.v4" in code.ptx
