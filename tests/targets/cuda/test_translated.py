"""Kernels as LLVM IR for GPUs, run by threads of the host: they give what the
interpreter gives."""

import re

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ShapeMismatchError, StructIRError
from structir.ir.dtype import numpy_dtype
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.targets.cpu.operations import UntranslatedError
from structir.targets.cuda.ahead import AheadDevice
from structir.targets.cuda.arrays import on_device
from structir.targets.cuda.device_text import DeviceText
from structir.targets.cuda.executable import DeviceExecutable
from structir.targets.cuda.translated import translated
from tests.adjoints.test_encoder_gradients import PROGRAM, STORED, WEIGHTS
from tests.loops.test_every_example import program
from tests.ops.test_every_op import OPS
from tests.runtime.agreement import assert_agree
from tests.targets.cuda.host_threads import HostThreads
from tests.targets.cuda.simulated_every_op import on_host
from tests.targets.cuda.test_ahead import Mlp

pytestmark = pytest.mark.sampled(2)


@pytest.fixture(scope="module")
def device():
    return HostThreads()


def assert_interpreted(device, module, *given, name="main"):
    executable = DeviceExecutable(module, device)
    wanted = structir.interpret(module, name, *given)
    assert_agree(wanted, on_host(executable[name](*given)))
    return executable


@pytest.mark.sampled(50)
@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.filterwarnings("ignore")
def test_every_op_is_interpreted(device, name):
    definition = OPS[name].definition
    module, values = program(definition, *definition.examples[0])
    try:
        run = DeviceExecutable(module, device)["main"]
    except DiagnosticError as error:
        assert "has no CUDA kernel" in str(error)
        return
    for operands in (values, [v[:0] if v.ndim else v for v in values]):
        try:
            wanted = structir.interpret(module, "main", *operands)
        except StructIRError:
            continue
        assert_agree(wanted, on_host(run(*operands)))


def test_a_gradient(device):
    trained = structir.passes.Gradient()(Mlp)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype("float32") for s in ((2, 7), (7, 70), (70,))]
    assert_interpreted(device, trained, *given, name="main_adjoint")


@pytest.mark.exhaustive
def test_the_encoder_block_with_its_gradient(device):
    with np.load(STORED) as stored:
        arguments = [stored[name] for name in ("x", "mask", "wanted", *WEIGHTS)]
    trained = structir.passes.Gradient(parameters=", ".join(WEIGHTS))(structir.parse(PROGRAM))
    assert_interpreted(device, trained, *arguments, name="main_adjoint")


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float16", "bfloat16", "int8", "uint16", "int32", "uint64", "bool"],
)
def test_totals_of_blocks_in_every_dtype(device, dtype):
    numbers = np.arange(3 * 200).reshape(3, 200) % (2 if dtype == "bool" else 97)
    x = numbers.astype(numpy_dtype(dtype))
    total = "R.max(x)" if dtype == "bool" else "R.sum(x, axis=1)"
    module = structir.parse(
        f"""
@R.function
def main(x: R.Tensor(("n", "m"), "{dtype}")):
    return R.max(x, axis=1), R.min(x, axis=0), {total}, R.permute_dims(x)
"""
    )
    assert_interpreted(device, module, x)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_numbers_of_eight_bits(device, dtype):
    x = np.arange(256, dtype=np.uint8).view(numpy_dtype(dtype))
    module = structir.parse(
        f"""
@R.function
def main(x: R.Tensor(("n",), "{dtype}")):
    return R.astype(R.astype(x, "float32") * R.const(0.5, "float32"), "{dtype}")
"""
    )
    found = on_host(DeviceExecutable(module, device)["main"](x))
    wanted = structir.interpret(module, "main", x)
    np.testing.assert_array_equal(found.astype("float32"), wanted.astype("float32"))


CALLS = structir.parse(
    """
@R.function
def layer(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m", "k"), "float32")):
    return R.nn.softmax(R.matmul(x, w))

@R.function
def main(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(dtype="float32", ndim=2)):
    k = T.int64()
    m = T.int64()
    v = R.match_cast(w, R.Tensor((m, k), "float32"))
    y = layer(x, v)
    z = layer(y, R.zeros((k, 2 * k), "float32"))
    return y, z

@R.function
def chosen(
    x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("a", "b"), "float32"),
    again: R.Tensor((), "bool"),
):
    y = layer(x, w)
    if again:
        z = layer(x, w) + y
    else:
        z = R.negative(y)
    return z
""",
    filename="calls",
)


def on_the_cpu(device):
    return structir.compile(CALLS)


def on_the_device(device):
    return DeviceExecutable(CALLS, device)


@pytest.mark.parametrize("compiled", [on_the_cpu, on_the_device])
def test_functions_and_what_they_call_are_one_plan(device, compiled):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype("float32") for shape in ((3, 4), (4, 5)))
    executable = compiled(device)
    assert_agree(structir.interpret(CALLS, "main", x, w), on_host(executable["main"](x, w)))
    assert len(executable.plans("main")) == 1
    with pytest.raises(ShapeMismatchError, match="v: axis 0: expected m = 4, found 3"):
        executable["main"](x, w[:3])
    for again in (True, False):
        given = x, w, np.asarray(again)
        wanted = structir.interpret(CALLS, "chosen", *given)
        assert_agree(wanted, on_host(executable["chosen"](*given)))
    with pytest.raises(ShapeMismatchError, match=r"match_cast of w|parameter w"):
        executable["chosen"](x, w[:3], np.asarray(False))


KERNEL = structir.parse(
    """
@I.kernel
def f(
    x: R.Tensor(("n",), "float32"), at: R.Tensor(("m",), "int64"), y: R.Tensor(("m",), "float32")
):
    for i in range(m):
        y[i] = x[at[i]] * x[at[i]] + T.exp(x[at[i]])

@R.function
def main(x: R.Tensor(("n",), "float32"), at: R.Tensor(("m",), "int64")):
    m = T.int64()
    return R.call_kernel(f, (x, at), out_sinfo=R.Tensor((m,), "float32"))
"""
)


def test_operations_of_a_programs_kernel_are_rounded_one_by_one(device):
    rng = np.random.default_rng(1)
    x, at = rng.standard_normal(50).astype("float32"), rng.integers(0, 50, 99)
    executable = assert_interpreted(device, KERNEL, x, at)
    (kernel,) = executable.plans()[0].kernels
    assert "contract" not in kernel.llvm
    ptx = DeviceExecutable(KERNEL, AheadDevice("sm_80")).ptx()
    assert "mul.rn.f32" in ptx


def test_an_index_out_of_range_is_reported(device):
    run = DeviceExecutable(KERNEL, device)["main"]
    with pytest.raises(DiagnosticError, match="index 4 is out of range"):
        run(np.ones(4, np.float32), np.array([1, 4, 2]))


OVERFLOWING = structir.parse(
    """
@I.kernel
def f(x: R.Tensor(("n",), "int64"), s: R.Prim("int64", value="k"), y: R.Tensor(("n",), "int64")):
    for i in range(n):
        for j in range(k - x[i], k, 3):
            y[i] = y[i] * 3 + j
        y[i] += x[(x[i] * x[i] * 2 // 2 + k * k) % n]

@R.function
def main(x: R.Tensor(("n",), "int64"), s: R.Prim("int64", value="k")):
    y = R.call_kernel(f, (x, s), out_sinfo=R.Tensor((n,), "int64"))
    return R.where(x * R.const(2**62, "int64") < x, y, x + y)
""".replace("2**62", str(2**62))
)


def test_integers_wrap_around(device):
    x = np.array([3, 7, 10, 4, 0, 5], "int64")
    assert_interpreted(device, OVERFLOWING, x, 2**63 - 2)


def test_ptx_compares_integers_that_may_wrap_around():
    """LLVM folds `x + 1 > x` to true where the sum is marked `nsw`, and otherwise to a
    comparison with the greatest integer."""
    module = structir.parse(
        """
@R.function
def main(x: R.Tensor(("n",), "int64")):
    return R.where(x + 1 > x, x, -x)
"""
    )
    ptx = DeviceExecutable(module, AheadDevice("sm_80")).ptx()
    assert str(2**63 - 1) in ptx


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_texts_that_are_equal_for_several_dtypes_are_several_kernels(device, dtype):
    module = structir.parse(
        f"""
@I.kernel
def squared(x: R.Tensor(("n",), "{dtype}"), y: R.Tensor(("n",), "{dtype}")):
    for i in range(n):
        y[i] = x[i] * x[i]

@R.function
def main(x: R.Tensor(("n",), "{dtype}")):
    n = T.int64()
    return R.sort(x), R.call_kernel(squared, (x,), out_sinfo=R.Tensor((n,), "{dtype}"))
"""
    )
    assert_interpreted(device, module, np.array([3, 1, 2], dtype))
    ptx = DeviceExecutable(module, AheadDevice("sm_90")).ptx()
    assert ("mul.rn.f64" in ptx) == (dtype == "float64")


COUNTED = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    y = R.exp(x)
    z = R.nonzero(R.greater(y, R.const(1.0, "float32")))
    return y, R.sum(z, axis=1), z, R.unique(x)

@R.function
def single(x: R.Tensor((), "int64"), sizes: R.Tensor((2,), "int64")):
    a = T.int64()
    b = T.int64()
    known = R.match_cast(R.tensor_to_shape(sizes), R.Shape([a, b]))
    return R.nonzero(x), R.full((a, b), R.max(sizes))
"""


def test_sizes_that_the_data_tells_are_counted_first(device):
    module, rng = structir.parse(COUNTED), np.random.default_rng(0)
    executable = DeviceExecutable(module, device)
    for shape in ((3, 4), (0, 4), (1, 1)):
        x = np.round(2 * rng.standard_normal(shape)).astype("float32")
        wanted = structir.interpret(module, "main", x)
        assert_agree(wanted, on_host(executable["main"](x)))
    for number in (0, 7):
        given = np.int64(number), np.array([2, 3])
        wanted = structir.interpret(module, "single", *given)
        assert_agree(wanted, on_host(executable["single"](*given)))


def test_what_threads_cannot_do_is_told():
    text = DeviceText("def kernel():\n    with open: pass\n", (), (), 1, (), ("R.odd",))
    with pytest.raises(UntranslatedError):
        translated(text, "kernel")
    with pytest.raises(StructIRError, match=r"R\.odd: a GPU thread cannot run this"):
        AheadDevice("sm_90").kernel(text)


MAPS = """
@R.function
def main(
    x: R.Tensor(("n", "m"), "float32"),
    b: R.Tensor((24,), "float32"),
    y: R.Tensor(("n", 24), "float32"),
):
    return R.nn.gelu(x), R.nn.relu(y + b), R.sin(x) > 0

@R.function
def halves(x: R.Tensor(("n",), "float16")):
    return R.exp(x) * x
"""


def test_neighbours_are_read_and_written_as_one(device):
    module = structir.parse(MAPS)
    rng = np.random.default_rng(0)
    shapes = ((7, 143), (24,), (7, 24))
    given = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    assert_interpreted(device, module, *given)
    assert_interpreted(device, module, given[0].reshape(-1).astype("float16"), name="halves")
    ahead = DeviceExecutable(module, AheadDevice("sm_90"))
    for name in ("main", "halves"):
        ptx = ahead.ptx(name)
        assert re.search(r"ld\.global\S*\.v4\.b32", ptx) and re.search(r"st\.global\S*\.v4", ptx)


IMAGES = """
@R.function
def main(x: R.Tensor((2, "c", 5, 7), "float32"), at: R.Tensor((2, 2, 3, 4), "float32")):
    return (
        R.image.resize2d(x, size=(8, 3)),
        R.image.resize2d(x, size=(3, 9), method="cubic", cubic_exclude=1),
        R.image.resize2d(R.astype(x * R.const(9, "float32"), "int32"), size=(10, 14)),
        R.image.resize2d(
            x, size=(7, 3), method="nearest_neighbor", rounding_method="ceil",
            coordinate_transformation_mode="align_corners"
        ),
        R.image.grid_sample(x, at),
        R.image.grid_sample(x, at, method="nearest", padding_mode="border", align_corners=False),
        R.image.grid_sample(x, at, method="bicubic", padding_mode="reflection"),
    )

@R.function
def lines(x: R.Tensor((2, "c", 5, 7), "float32")):
    return R.sort(x, axis=1), R.argsort(x, axis=0), R.topk(x, k=2, axis=2)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("compiled", [structir.compile, None])
def test_images_between_elements_and_lines_along_inner_axes(device, compiled):
    module = structir.parse(IMAGES)
    executable = compiled(module) if compiled else DeviceExecutable(module, device)
    rng = np.random.default_rng(0)
    for count in (3, 0):
        x = rng.standard_normal((2, count, 5, 7)).astype("float32")
        at = 1.5 * rng.standard_normal((2, 2, 3, 4)).astype("float32")
        wanted = structir.interpret(module, "main", x, at)
        assert_agree(wanted, on_host(executable["main"](x, at)))
        wanted = structir.interpret(module, "lines", x)
        assert_agree(wanted, on_host(executable["lines"](x)))


class Foreign:
    """An array of another library, at an odd place."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__array_interface__


def test_arrays_at_odd_places_are_moved(device):
    memory = np.arange(60, dtype=np.uint8)
    start = -memory.ctypes.data % 16 + 4
    x = memory[start : start + 32].view("float32")
    run = DeviceExecutable(structir.parse(MAPS.replace("float16", "float32")), device)["halves"]
    np.testing.assert_allclose(on_host(run(Foreign(x))), np.exp(x) * x, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float8_e5m2fnuz"])
def test_tensors_of_a_device_stay_there_within_tuples(dtype):
    """No copy through the host, which DLPack has no name of the narrowest dtypes for."""
    device, info = HostThreads(), TensorStructInfo((3,), dtype)
    there = on_device(device, info, np.ones(3, numpy_dtype(dtype)))
    for given in ([there, [there]], (there, (there,))):
        first, (second,) = on_device(
            device, TupleStructInfo((info, TupleStructInfo((info,)))), given
        )
        assert first is there
        assert second is there
    assert on_device(device, TupleStructInfo((info,)), (there, 1.5)) == (there, 1.5)
