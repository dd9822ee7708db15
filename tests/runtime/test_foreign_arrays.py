"""Arguments of other libraries: DLPack tensors and buffers are read without a copy."""

import array
from functools import partial

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError
from structir.interpret.argument_conversion import as_value
from structir.script import I, R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        return R.exp(x)

    @R.function
    def same(x: R.Tensor(("n",), "float32")):
        return x


class Foreign:
    """A tensor of another library, which gives its memory by DLPack and says how often."""

    def __init__(self, data):
        self.data, self.asked = data, 0

    def __dlpack__(self, **options):
        self.asked += 1
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


class Unwilling(Foreign):
    def __dlpack__(self, **options):
        raise BufferError("it lies on another device")


class Broken(Foreign):
    def __dlpack__(self, **options):
        raise KeyError("lost")


@pytest.fixture(scope="module", params=["compiled", "interpreted"])
def functions(request):
    if request.param == "compiled":
        return structir.compile(Module)
    return {n: partial(structir.interpret, Module, n) for n in ("main", "same")}


DATA = np.linspace(-1, 1, 7, dtype=np.float32)


@pytest.mark.parametrize("make", [Foreign, memoryview, lambda x: array.array("f", x)])
def test_they_are_read(functions, make):
    for _ in range(2):
        np.testing.assert_allclose(functions["main"](make(DATA)), np.exp(DATA), rtol=1e-6)


@pytest.mark.parametrize("make", [Foreign, memoryview])
def test_arguments_are_not_copied_and_results_are(functions, make):
    info = Module["main"].params[0].struct_info
    assert np.shares_memory(as_value(info, make(DATA)), DATA)
    result = functions["same"](make(DATA))
    assert not np.shares_memory(result, DATA)
    np.testing.assert_array_equal(result, DATA)


def test_a_foreign_tensor_that_refuses_is_reported(functions):
    with pytest.raises(
        ShapeMismatchError,
        match="expected an array that can be read through DLPack, found a Unwilling: it lies",
    ):
        functions["main"](Unwilling(DATA))
    with pytest.raises(
        ShapeMismatchError,
        match="expected an array that can be read through DLPack, found a Broken: 'lost'",
    ):
        functions["main"](Broken(DATA))


def test_other_dtypes_are_reported(functions):
    with pytest.raises(ShapeMismatchError, match="expected dtype float32, found uint8"):
        functions["main"](b"1234")
