"""Every scalar function of kernels on every dtype is the interpreter's, also at the ends of its
range."""

from itertools import product

import numpy as np
import pytest

from structir.interpret.kernels import KernelValue, run_kernel
from structir.ir import TensorStructInfo, Var
from structir.ir.dims import sym
from structir.ir.dtype import is_float
from structir.ir.kernel import Apply, Assign, Element, For, Kernel, Literal, Local, Size
from structir.ir.kernel_functions import OF_LANES, OF_THREADS, SCALAR_FUNCTIONS
from structir.ir.struct_info import PrimStructInfo
from structir.loops.emit.functions import FLOATS
from structir.runtime.kernel_calls import KernelRunner

DTYPES = ["float32", "float64", "int8", "int64", "uint16", "bool"]
ROWS = [r for r in SCALAR_FUNCTIONS.values() if r not in OF_THREADS and r not in OF_LANES]
NUMBERS = [0.0, -0.0, 0.25, -0.25, 1.0, 2.5, -3.5, 1e-30, 17.0, np.inf, -np.inf, np.nan]


def values(dtype: str) -> list[object]:
    if is_float(dtype):
        return NUMBERS
    if dtype == "bool":
        return [False, True]
    ends = np.iinfo(dtype)
    numbers = [0, 1, 2, 7, 100, ends.bits - 1, ends.bits, ends.max - 1, ends.max]
    return numbers + [-1, -2, -5, -100, ends.min + 1, ends.min] * (ends.min < 0)


def kernel_of(dtype: str) -> tuple[Kernel, list[str]]:
    """Returns a kernel with one result for each function that takes the dtype."""
    n, i = sym("n"), Local("i", "int64")
    names = [row.name for row in ROWS if row.takes(dtype)]
    x, y = (Var(name, TensorStructInfo((n,), dtype)) for name in "xy")
    operands = [Element(array, (i,), dtype) for array in (x, y)]
    results, body = [], []
    for name in names:
        row = SCALAR_FUNCTIONS[name]
        kind = "bool" if row.test or row.kind == "bool" else dtype
        out = Var(f"{name}_out", TensorStructInfo((n,), kind))
        value = Apply(name, tuple(operands[: row.count if row.count > 0 else 2]), kind)
        results.append(out)
        body.append(Assign(Element(out, (i,), kind), value))
    size = Var("size", PrimStructInfo("int64", n))
    loop = For(i, Literal(0, "int64"), Size(n), 1, tuple(body))
    return Kernel((x, y, size, *results), (loop,), "f"), names


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_function_at_the_ends(dtype: str) -> None:
    kernel, names = kernel_of(dtype)
    x, y = (np.array(v, dtype) for v in zip(*product(values(dtype), repeat=2), strict=True))
    runs = []
    for run in (run_kernel, KernelRunner()):
        outs = [np.empty(len(x), r.struct_info.dtype) for r in kernel.results]
        KernelValue(kernel, run)(x, y, len(x), *outs)
        runs.append(outs)
    for name, expected, found in zip(names, *runs, strict=True):
        if not is_float(dtype) or name in FLOATS or name in ("sqrt", "rsqrt"):
            np.testing.assert_array_equal(found, expected, name)
        else:  # of the math library; the interpreter adds 1 to erf(x), which loses digits
            least = 1e-6 if name == "erf_plus_one" else 1e-37
            np.testing.assert_allclose(found, expected, 1e-5, least, err_msg=name)
