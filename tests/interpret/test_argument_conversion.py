"""Arguments that do not convert: the error names the parameter and has an edit that works."""

import re

import ml_dtypes
import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.script import I, R


@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"), i: R.Tensor((2,), "int64"), s: R.Tensor((), "float32")
    ):
        return R.take(x * s, i, axis=0), R.sum(x)

    @R.function
    def rows(x: R.Tensor(("*s", "n"), "float32"), i: R.Tensor((2,), "int64")):
        return R.sum(x), i

    @R.function
    def fields(p: R.Tuple(R.Tensor(("n", 4), "float32"), R.Tensor((2,), "int64"))):
        return R.sum(p[0]), p[1]

    @R.function
    def ragged(x: R.Tensor(("n", "*"), "float32"), i: R.Tensor((2,), "int64")):
        return R.sum(x, axis=1), i


exe = structir.compile(Module)
X, INDICES = np.ones((3, 4), "float32"), np.array([0, 2])
RAGGED = [[1.0, 2.0], [3.0]]
INVALID = [2**70, 1]


def run(name, *args):
    return exe[name](*args)


def interpret(name, *args):
    return structir.interpret(Module, name, *args)


both = pytest.mark.parametrize("call", [run, interpret])


@both
@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("main", (X, INVALID, 1), "main: parameter i: expected numbers of dtype int64, from -9"),
        ("main", (X, INDICES, 10**400), "main: parameter s: expected numbers of dtype float32"),
        ("main", (X, [0.0, 1.0], 1), "main: parameter i: expected R.Tensor((2,), dtype="),
        ("main", (X, INDICES, None), "main: parameter s: expected a tensor, found None ["),
        ("rows", (X, INVALID), "rows: parameter i: expected numbers of dtype int64"),
        ("fields", ((X, INVALID),), "fields: parameter p[1]: expected numbers of dtype int64"),
        ("ragged", (RAGGED, INVALID), "ragged: parameter i: expected numbers of dtype int64"),
        ("main", ([[1.0, 2], [3.0]], INDICES, 1), "rows of unequal length, length 2 and length 1"),
        ("main", ([[1.0], 2], INDICES, 1), "rows of unequal length, length 1 and no list"),
    ],
)
def test_the_parameter_is_named(call, name, args, message):
    with pytest.raises(StructIRError) as caught:
        call(name, *args)
    assert message in str(caught.value)
    assert "C long" not in str(caught.value) and "sequence" not in str(caught.value)


def test_shards_and_states_name_the_parameter():
    sharded = structir.distributed.shard(Module, "main", workers=2)
    with pytest.raises(StructIRError, match="main: parameter i: expected numbers of dtype int64"):
        sharded(X, INVALID, 1)
    counting = structir.parse("""
@I.ir_module
class Counting:
    @R.function
    def initial():
        return R.const([0, 0], "int64")

    @R.function
    def main(x: R.Tensor((2,), "int64"), total: R.Tensor((2,), "int64")):
        R.func_attr({"state": {"total": ("total", 1)}, "initial_state": "initial"})
        return x, x + total
""")
    with pytest.raises(StructIRError, match="state total: expected numbers of dtype int64"):
        structir.compile(counting).state.buffers["total"] = INVALID


@both
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "bool", "object"])
def test_the_conversion_of_a_dtype_works(call, dtype):
    x = X.astype(dtype)
    with pytest.raises(StructIRError, match="main: parameter x: expected dtype float32") as caught:
        call("main", x, INDICES, 1)
    edit = re.search("help: pass `(.*)`", str(caught.value))[1]
    expected = call("main", X, INDICES, 1)
    result = call("main", eval(edit, {"np": np, "x": x}), INDICES, 1)
    np.testing.assert_array_equal(result[0], expected[0])


def test_out_states_how_many_arrays_it_expects():
    with pytest.raises(StructIRError, match=r"out: expected 2 arrays, one .* found 1 \[E0722\]"):
        exe["main"](X, INDICES, 1, out=np.zeros((2, 4), "float32"))


HALVES = structir.parse("""
@R.function
def main(x: R.Tensor(("n", "m"), "bfloat16")):
    return R.add(x, x)
""")


class Exporter:
    """A tensor of another library: bits of 16 with the DLPack dtype code of bfloat16."""

    def __init__(self, array):
        self.bits = np.ascontiguousarray(array).view("uint16")

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        from structir.interpret.dlpack import capsule_of

        if options:
            raise TypeError("Unsupported dtype in DLTensor.")
        dtype = np.dtype(ml_dtypes.bfloat16)
        return capsule_of(self, self.bits.ctypes.data, self.bits.shape, dtype, (1, 0))


@pytest.mark.parametrize("shape", [(3, 2), (0, 2), (1, 1)])
def test_tensors_of_bfloat16_are_read_without_a_copy(shape):
    values = np.arange(shape[0] * shape[1]).reshape(shape).astype(ml_dtypes.bfloat16)
    for call in (structir.compile(HALVES), lambda x: structir.interpret(HALVES, x)):
        result = call(Exporter(values))
        assert result.dtype == values.dtype
        np.testing.assert_array_equal(result.astype("float32"), 2 * values.astype("float32"))


def test_tensors_of_bfloat16_of_jax():
    jnp = pytest.importorskip("jax.numpy")
    values = jnp.arange(6, dtype="bfloat16").reshape(2, 3).T
    result = structir.compile(HALVES)(values)
    np.testing.assert_array_equal(result.astype("float32"), 2 * np.asarray(values, "float32"))


def test_tensors_of_bfloat16_of_torch():
    torch = pytest.importorskip("torch")
    values = torch.arange(6).bfloat16().reshape(2, 3).T
    result = structir.compile(HALVES)(values)
    np.testing.assert_array_equal(result.astype("float32"), 2 * values.float().numpy())
