"""Eight-bit floats in kernels are those of ml_dtypes: codes, ties, special values."""

import ml_dtypes
import numpy as np
import pytest

import structir
from structir.targets.cpu.float8 import FORMATS, float8_helpers
from tests.runtime.python_functions import mapped


def numbers(kind):
    """All codes' values, what lies halfway between two, its neighbours, and all float16."""
    values = np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)
    values = np.unique(values[np.isfinite(values)])
    middle = (values[1:] + values[:-1]) / np.float32(2)
    near = [np.nextafter(middle, np.float32(end)) for end in (np.inf, -np.inf)]
    half = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    return np.concatenate([values, middle, *near, half])


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_rounded_as_ml_dtypes_does(dtype):
    code, kind = float8_helpers()[f"{dtype}_code"], getattr(ml_dtypes, dtype)
    x = numbers(kind)
    codes = mapped(code, x, result=np.uint8)
    np.testing.assert_array_equal(codes, x.astype(kind).view(np.uint8))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_computed_with_as_float32_and_stored_in_eight_bits(dtype):
    module = structir.parse(f"""
@R.function
def main(x: R.Tensor(("n", 4), "{dtype}"), y: R.Tensor(("n", 4), "float32")):
    with R.dataflow():
        small = R.astype(y, "{dtype}")
        total = R.sum(x, axis=1)
        result = (R.add(x, small), total, R.astype(R.sort(x), "float32"))
        R.output(result)
    return result
""")
    executable = structir.compile(module)
    assert "main" in executable.direct
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 5, 4)).astype("float32")
    x = x.astype(getattr(ml_dtypes, dtype))
    wanted = structir.interpret(module, "main", x, y)
    for one, other in zip(wanted, executable["main"](x, y), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one.astype("float32"), other.astype("float32"))
