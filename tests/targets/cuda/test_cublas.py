"""What is asked of cuBLAS: a stand-in makes the products from the descriptions that it gets."""

import inspect
import re

import ml_dtypes
import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.targets.cuda import cublas
from structir.targets.cuda.by_columns import call_of
from structir.targets.cuda.cublas import Library
from structir.targets.cuda.device_text import OperandStrides, Product
from structir.targets.cuda.executable import DeviceExecutable
from structir.targets.cuda.gpu import Gpu
from tests.runtime.agreement import assert_agree
from tests.targets.cuda.fakes import CublasLt, Driver, Failure, applied
from tests.targets.cuda.test_gpu import Module, compiled, floats

DTYPES = {"float32": "f4", "float64": "f8", "float16": "f2", "bfloat16": ml_dtypes.bfloat16}


class Memory:
    address = 1 << 20


@pytest.fixture
def library():
    return Library(CublasLt(), lambda size, stream: Memory())


def test_products_of_programs():
    gpu = Gpu(Driver(), CublasLt())
    compiled(gpu)["main"](floats(5, 7), floats(7, 3))
    assert gpu.binding.calls == [(cublas.SINGLE, "DEFAULT", 0)]
    rounded = DeviceExecutable(Module, gpu, tf32=True)
    rounded["main"](floats(5, 7), floats(7, 3), stream=4)
    assert gpu.binding.calls[-1] == (cublas.ROUNDED, "DEFAULT", 4)


def test_products_are_part_of_graphs():
    gpu = Gpu(Driver(), CublasLt())
    run = compiled(gpu)["main"]
    x, w = (run(floats(4, 4), floats(4, 4))[0] for _ in range(2))
    gpu.binding.calls.clear()
    for _ in range(5):
        run(x, w)
    streams = [stream for *_, stream in gpu.binding.calls]
    assert streams.count(gpu.driver.cuStreamCreate(0)[1]) == len(
        {g for g, _ in gpu.driver.replayed}
    )
    assert len(streams) < 5 and gpu.driver.replayed


LAYERS = {
    "R.matmul(x, w)": "DEFAULT",
    "R.matmul(x, w) + b": "BIAS",
    "R.nn.relu(R.matmul(x, w))": "RELU",
    "R.nn.relu(b + R.matmul(x, w))": "RELU_BIAS",
    "R.nn.gelu_tanh(R.matmul(x, w))": "GELU",
    "R.nn.gelu_tanh(R.matmul(x, w) + b)": "GELU_BIAS",
    "R.nn.gelu_tanh(R.matmul(x, R.permute_dims(u)) + b)": "GELU_BIAS",
}


@pytest.mark.parametrize(
    ("body", "dtype"),
    [*[(body, "float16") for body in LAYERS], *[(max(LAYERS), d) for d in ("float32", "bfloat16")]],
)
def test_layers_are_one_call(body, dtype):
    sizes = {"x": "2, 'n', 'k'", "w": "'k', 'm'", "u": "'m', 'k'", "b": "'m',"}
    params = ", ".join(f'{name}: R.Tensor(({own}), "{dtype}")' for name, own in sizes.items())
    module = structir.parse(f"@R.function\ndef main({params}):\n    return {body}\n")
    rng = np.random.default_rng(1)
    shapes = ((2, 3, 5), (5, 7), (7, 5), (7,))
    given = [rng.standard_normal(shape).astype(DTYPES[dtype]) for shape in shapes]
    gpu = Gpu(Driver(), CublasLt())
    result = DeviceExecutable(module, gpu)["main"](*given).copy_to_host()
    assert [epilogue for _, epilogue, _ in gpu.binding.calls] == [LAYERS[body]]
    assert not gpu.driver.launched
    assert_agree(structir.interpret(module, "main", *given), result)


def steps(array, pointer, axes):
    """How an operand lies, over outer axes and two more of a view."""
    found = [0 if axis is None else array.strides[axis] // array.itemsize for axis in axes]
    return OperandStrides(pointer, 0, tuple(found[:-2]), *found[-2:])


def turned(array, is_turned):
    return array.swapaxes(-1, -2).copy().swapaxes(-1, -2) if is_turned else array


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("epilogue", cublas.EPILOGUES)
@pytest.mark.parametrize("own", [False, True])  # whether each point of the outer axes has a bias
def test_products_of_all_kinds(library, dtype, epilogue, own):
    rng = np.random.default_rng(0)
    for g, h, m, n, k in ((1, 1, 3, 4, 5), (2, 3, 4, 2, 6), (2, 1, 1, 5, 3), (1, 3, 4, 1, 1)):
        for turns in range(8):
            a, b = rng.standard_normal((g, h, m, k)), rng.standard_normal((g, h, k, n))
            bias = rng.standard_normal((g, h, 1, n))
            out = np.zeros((g, h, m, n))
            arrays = [x.astype(DTYPES[dtype]) for x in (a, b, out, bias)]
            a, b, out = (turned(x, turns >> i & 1) for i, x in enumerate(arrays[:3]))
            bias = arrays[3]
            sides = [steps(x, i, (0, 1, 2, 3)) for i, x in enumerate((a, b, out))]
            outer = (0, 1) if own else (None, None)
            added = steps(bias, 3, (*outer, None, 3)) if "bias" in epilogue else None
            product = Product(dtype, m, n, k, (g, h), *sides, epilogue, added)
            places = [x.ctypes.data for x in (a, b, out, bias)]
            run = library.launcher(product, places, False, 0)
            if turns >> 2 & 1 and n > 1 and m > 1 and added is not None:
                assert run is None  # the library has a bias for each row of what lies by columns
                continue
            run(0)
            found = a.astype("f8") @ b.astype("f8")
            if added is not None:
                found += (bias if own else bias[:1, :1]).astype("f8")
            near = 1e-2 if "16" in dtype else 1e-5
            wanted = applied(cublas.EPILOGUES[epilogue], found)
            np.testing.assert_allclose(out.astype("f8"), wanted, near, near)


DENSE, RIGHT, OUT = (OperandStrides(i, 0, (), s, 1) for i, s in enumerate((5, 4, 4)))
PRODUCT = Product("float32", 3, 4, 5, (), DENSE, RIGHT, OUT)


@pytest.mark.parametrize(
    "changes",
    [
        {"left": OperandStrides(0, 0, (), 20, 2)},
        {"dtype": "int32"},
        {"k": 0},
        {"k": 1 << 31},
        {"epilogue": "bias", "bias": OperandStrides(3, 0, (), 1, 0)},
        {"epilogue": "bias", "bias": OperandStrides(3, 0, (), 0, 2)},
    ],
)
def test_products_that_are_none_of_the_librarys(changes):
    names = ("dtype", "m", "n", "k", "outer", "left", "right", "out", "epilogue", "bias")
    facts = {name: getattr(PRODUCT, name) for name in names}
    assert call_of(PRODUCT) is not None
    assert call_of(Product(**{**facts, **changes})) is None


def test_the_library_is_asked_once_for_each_kind(library):
    places = [4096, 8192, 16384]
    run = library.launcher(PRODUCT, places, False, 0)
    library.binding.failing["heuristic"] = 14
    assert library.launcher(PRODUCT, places, False, 3) is not None
    with pytest.raises(StructIRError, match="cuBLAS: choosing an algorithm failed"):
        library.launcher(PRODUCT, [4096, 8192 + 16, 16384], False, 0)
    with pytest.raises(StructIRError, match="cuBLAS: choosing an algorithm failed"):
        library.launcher(PRODUCT, places, True, 0)
    library.binding.failing = {"heuristic": cublas.NOT_SUPPORTED}
    assert library.launcher(PRODUCT, [4096, 8192 + 32, 16384], False, 0) is None
    library.binding.failing = {"matmul": 13}
    with pytest.raises(StructIRError, match="cuBLAS: a product failed: the library failed"):
        run(0)
    library.binding.failing = {"create": 1}
    with pytest.raises(StructIRError, match="cuBLAS: initialisation failed"):
        Library(library.binding, None)


def test_descriptions_go_with_their_product(library):
    run = library.launcher(PRODUCT, [4096, 8192, 16384], False, 0)
    assert len(library.binding.held) == 5
    del run
    assert not library.binding.held


def test_streams_have_rooms_of_their_own():
    asked = []

    def memory(size, stream):
        asked.append((size, stream))
        return Memory()

    library = Library(CublasLt(), memory)
    for stream in (0, 5, 0, 5):
        library.launcher(PRODUCT, [4096, 8192, 16384], False, stream)
    assert asked == [(cublas.WORKSPACE, 0), (cublas.WORKSPACE, 5)]


def test_the_binding_is_as_the_stand_in_has_it():
    lt = pytest.importorskip("nvmath.bindings.cublasLt")
    types = pytest.importorskip("nvmath.bindings.cublas").ComputeType
    assert (types.COMPUTE_32F, types.COMPUTE_64F) == (cublas.SINGLE, cublas.DOUBLE)
    assert types.COMPUTE_32F_FAST_TF32 == cublas.ROUNDED
    fake = CublasLt()
    assert fake.matmul_heuristic_result_dtype == lt.matmul_heuristic_result_dtype
    kinds = {"MatmulDescAttribute": "matmul_desc", "MatrixLayoutAttribute": "matrix_layout"}
    kinds["MatmulPreferenceAttribute"] = "matmul_preference"
    for enum in (*kinds, "Epilogue", "ReductionScheme"):
        for member in getattr(fake, enum):
            assert getattr(lt, enum)[member.name] == member
            if enum in kinds:
                width = f"get_{kinds[enum]}_attribute_dtype"
                own = np.dtype(getattr(fake, width)(member))
                assert own == np.dtype(getattr(lt, width)(getattr(lt, enum)[member.name]))
    for name, function in inspect.getmembers(fake, inspect.ismethod):
        if not name.startswith("_"):
            (told,) = re.findall(rf"^{name}\((.*?)\)", getattr(lt, name).__doc__)
            assert len(told.split(", ") if told else []) == len(
                inspect.signature(function).parameters
            )
    assert issubclass(lt.cuBLASLtError, Exception) and Failure(15).status == cublas.NOT_SUPPORTED
