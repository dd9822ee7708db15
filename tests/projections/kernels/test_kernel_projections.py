"""Index projections of kernels: exact cases by hand, and random kernels by perturbation."""

from random import Random
from typing import Any

import numpy as np
import pytest

import structir
from structir.interpret.kernels import KernelValue, run_kernel
from structir.ir import Kernel
from structir.ir.dims import syms
from structir.projections.boxes import Region, region
from structir.projections.execution_cost import execution_cost, program_cost
from structir.projections.fusion import FusionRelation, fusion
from structir.projections.kernels.kernel_spec import kernel_projection
from structir.projections.maps import Projection, of_result
from structir.projections.program import program_of
from structir.projections.regions import dependence
from tests.projections.random_kernels import SIZES, KernelText


def kernel_of(text: str) -> Kernel:
    kernel = structir.parse(text)["f"]
    assert isinstance(kernel, Kernel)
    return kernel


def over(params: str, body: str) -> Kernel:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return kernel_of(f"@I.kernel\ndef f({params}):\n{lines}\n")


def required(kernel: Kernel, start: tuple, stop: tuple, sizes: dict[str, int]) -> list[Region]:
    """Returns the region of each operand that a block of the first result requires."""
    spec = kernel_projection(kernel).spec
    assert spec is not None
    dims = {d for o in (*spec.operands, *spec.results) for d in o.dims}
    values = {s: sizes[s.name] for d in dims for s in syms(d)}
    return list(dependence(spec, values).required_regions(region(start, stop)))


def elements(found: Region, shape: tuple[int, ...]) -> np.ndarray:
    mask = np.zeros(shape, bool)
    for box in found.boxes:
        mask[np.ix_(*[list(axis.elements()) for axis in box.axes])] = True
    return mask


VECTOR = 'x: R.Tensor(("n",), "float64"), out: R.Tensor(("n",), "float64")'
MATRIX = 'x: R.Tensor(("n", "m"), "float64"), out: R.Tensor(("n", "m"), "float64")'

CASES = {
    "a value of the previous iteration": (
        "prev = T.float64(0.0)\nfor i in range(n):\n    out[i] = prev\n    prev = x[i]",
        {2, 3},
    ),
    "a scan": (
        "t = T.float64(0.0)\nfor i in range(n):\n    t = t * 0.5 + x[i]\n    out[i] = t",
        {0, 1, 2, 3, 4},
    ),
    "a backward scan": (
        "t = T.float64(0.0)\nfor i in range(n - 1, -1, -1):\n    t += x[i]\n    out[i] = t",
        {3, 4, 5, 6, 7},
    ),
    "a triangular loop": (
        "for i in range(n):\n    for j in range(i, min(i + 3, n)):\n        out[i] += x[j]",
        {3, 4, 5, 6},
    ),
    "a scratch array, reversed": (
        'row = T.zeros((n,), "float64")\n'
        "for i in range(n):\n    row[i] = x[n - 1 - i]\nfor j in range(n):\n    out[j] = row[j]",
        {3, 4},
    ),
    "a guarded store": (
        "for i in range(n):\n    if i > 3:\n        out[i] = x[i]",
        {4},
    ),
    "a store that is replaced": (
        "for i in range(n):\n    out[i] = x[0]\n    out[i] = x[i]",
        {3, 4},
    ),
    "a clamped index": (
        "for i in range(n):\n    out[i] = x[min(i + 4, n - 1)]",
        {7},
    ),
    "a quotient": (
        "for i in range(n):\n    out[i] = x[i // 2]",
        {1, 2},
    ),
    "a constant index": (
        "for i in range(n):\n    out[i] = x[2]",
        {2},
    ),
    "a chosen index": (
        "for i in range(n):\n    out[i] = x[i - 1 if i > 0 else 0]",
        {2, 3},
    ),
    "a local index": (
        "for i in range(n):\n    j = n - 1 - i\n    k = j\n    out[i] = x[k]",
        {3, 4},
    ),
    "two stores of one result": (
        "for i in range(n // 2):\n    out[i] = x[i]\n"
        "for i in range(n // 2):\n    out[n // 2 + i] = x[i]",
        {0, 3},
    ),
    "an index of all elements": (
        "for i in range(n):\n    out.flat[i] = x.flat[n - 1 - i]",
        {3, 4},
    ),
    "an iteration that is skipped": (
        "for i in range(n):\n    if i == 3:\n        continue\n    out[i] = x[i]",
        {4},
    ),
    "a store that is never run": (
        "for i in range(n):\n    out[i] = x[i]\n    if i < 0:\n        out[i] = x[0]",
        {3, 4},
    ),
    "a step": (
        "for i in range(0, n, 2):\n    out[i] = x[i]",
        {4},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_elements_that_two_results_require(name: str) -> None:
    body, expected = CASES[name]
    (found,) = required(over(VECTOR, body), (3,), (5,), {"n": 8})
    assert set(np.nonzero(elements(found, (8,)))[0].tolist()) == expected


def test_a_private_scratch_row_is_that_of_its_iteration() -> None:
    kernel = over(
        MATRIX,
        'row = T.zeros((m,), "float64")\n'
        "for i in range(n):\n"
        "    for j in range(m):\n        row[j] = T.exp(x[i, j])\n"
        "    total = T.float64(0.0)\n"
        "    for k in range(m):\n        total += row[k]\n"
        "    for j in range(m):\n        out[i, j] = row[j] / total",
    )
    (found,) = required(kernel, (2, 1), (3, 2), {"n": 6, "m": 4})
    assert (found.bounds, found.exact) == (((2, 0), (3, 4)), True)


def test_symbolic_projections_of_a_product() -> None:
    kernel = over(
        'x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32"), '
        'out: R.Tensor(("n", "m"), "float32")',
        "for i in range(n):\n    for j in range(m):\n        for p in range(k):\n"
        "            out[i, j] += x[i, p] * w[p, j]",
    )
    spec = kernel_projection(kernel).spec
    assert spec is not None
    k = spec.operands[0].dims[1]
    maps = [of_result(spec, s, s.writes[0], s.reads[0]) for s in spec.statements]
    assert Projection(((1, 0), (0, 0)), (0, 0), (1, k)) in maps
    assert Projection(((0, 0), (0, 1)), (0, 0), (k, 1)) in maps


def test_indices_from_data_require_the_axis_and_are_reported() -> None:
    kernel = over(
        'x: R.Tensor(("n", "m"), "float32"), at: R.Tensor(("k",), "int64"), '
        'out: R.Tensor(("k", "m"), "float32")',
        "for i in range(k):\n    for j in range(m):\n        out[i, j] = x[at[i], j]",
    )
    x, at = required(kernel, (1, 2), (2, 3), {"n": 6, "m": 5, "k": 4})
    assert (x.bounds, x.exact) == (((0, 2), (6, 3)), False)
    assert at.bounds == ((1,), (2,))
    (note,) = kernel_projection(kernel).notes
    assert (note.operand, note.axis) == ("x", 0)
    assert str(note).endswith("(<string>:5:25)")


PROGRAM = """
@I.kernel
def f(x: R.Tensor(("n",), "float64"), at: R.Tensor(("m",), "int64"),
      out: R.Tensor(("m",), "float64")):
    for i in range(m):
        out[i] = x[at[i]]

@R.function
def main(x: R.Tensor((8,), "float64"), at: R.Tensor((4,), "int64")):
    y = R.exp(x)
    z = R.call_kernel(f, (y, at), out_sinfo=R.Tensor((4,), "float64"))
    return R.call_packed("tests.unknown", z, sinfo_args=R.Tensor((4,), "float64"))
"""


def test_a_program_explains_what_requires_whole_operands() -> None:
    module = structir.parse(PROGRAM, "p.py")
    program = program_of(module["main"], module=module)
    assert [str(note) for note in program.notes] == [
        "x: all of axis 0: axis 0 is read at an index that depends on data (p.py:6:18)",
        'z: all of it: tests.unknown declares no projection: `index="x[i] -> y[i]"` (p.py:12:12)',
    ]
    without = program_of(module["main"])
    assert "pass it as `module`" in str(without.notes[0])


def test_the_dims_of_a_kernel_are_those_of_its_call() -> None:
    module = structir.parse(
        """
@I.kernel
def f(x: R.Tensor(("k",), "float64"), out: R.Tensor(("k",), "float64")):
    for i in range(k):
        out[i] = x[k - 1 - i]

@R.function
def main(x: R.Tensor(("n",), "float64")):
    n = T.int64()
    y = R.concat((x, x), axis=0)
    return R.call_kernel(f, (y,), out_sinfo=R.Tensor((2 * n,), "float64"))
"""
    )
    program = program_of(module["main"], {"n": 5}, module=module)
    regions = program.required_regions({program.result: region((0,), (2,))})
    assert regions[program.values[module["main"].params[0]]].bounds == ((3,), (5,))


GPU = """
@I.kernel(target="cuda", blocks="(n + 63) // 64", threads=64)
def f(x: R.Tensor(("n",), "float32"), out: R.Tensor(("(n + 63) // 64",), "float32")):
    part = T.shared((64,), "float32")
    i = T.block() * T.threads() + T.thread()
    part[T.thread()] = x[i] if i < n else 0.0
    T.sync_threads()
    step = T.threads() // 2
    while step > 0:
        if T.thread() < step:
            part[T.thread()] += part[T.thread() + step]
        T.sync_threads()
        step = step // 2
    if T.thread() == 0:
        out[T.block()] = part[0]
"""


def test_threads_of_a_block_share_its_elements() -> None:
    (found,) = required(kernel_of(GPU), (1,), (2,), {"n": 150})
    assert found.bounds == ((64,), (128,))


SCHEDULED = """
@I.kernel
def f(x0: R.Tensor(("n", 64), "float32"), x1: R.Tensor((64, 32), "float32"),
      out0: R.Tensor(("n", 32), "float32")):
    row0 = T.empty((256, 32), "float32")
    lo, hi = T.part(n)
    for i0 in range(lo, hi, 256):
        i1 = min(i0 + 256, hi)
        T.tiled_product(x0.flat[i0 * 64], x1.flat[0], row0.flat[0],
                        i1 - i0, 32, 64, 64, 1, 32, 1, 32)
        for r in range(i0, i1):
            for j in range(32):
                out0.flat[r * 32 + j] = row0.flat[r * 32 + i0 * -32 + j]
"""


def test_kernels_of_the_compiler_have_supersets() -> None:
    x0, x1 = required(kernel_of(SCHEDULED), (3, 0), (5, 32), {"n": 600})
    assert x0.bounds is not None and x0.bounds[0][0] <= 3 and x0.bounds[1][0] >= 5
    assert x1.bounds == ((0, 0), (64, 32))


def test_kernels_fuse_by_their_projections() -> None:
    kernel = over(MATRIX, "for i in range(n):\n    for j in range(m):\n        out[i, j] = x[i, j]")
    spec = kernel_projection(kernel).spec
    assert spec is not None
    (statement,) = spec.statements
    relation = fusion(
        spec, (statement, statement.writes[0]), spec, (statement, statement.reads[0])
    ).relation
    assert relation is FusionRelation.INLINE


def test_the_cost_of_a_kernel_is_that_of_its_loops() -> None:
    module = structir.parse(
        """
@I.kernel
def f(x: R.Tensor(("n", "m"), "float64"), out: R.Tensor(("n",), "float64")):
    for i in range(n):
        for j in range(m):
            out[i] += x[i, j] * 2.0

@R.function
def main(x: R.Tensor(("n", 8), "float64")):
    n = T.int64()
    return R.call_kernel(f, (x,), out_sinfo=R.Tensor((n,), "float64"))
"""
    )
    call = module["main"].bindings()[0].value
    cost = execution_cost(call, module)
    assert cost.axes == ("i", "j")
    assert cost.marginal("i") == 16
    assert cost.at({"n": 6}).total() == 96
    program = program_of(module["main"], {"n": 6}, module=module, parts=True)
    regions = program.required_regions({program.result: region((1,), (4,))})
    assert program_cost(program, regions) == 48


# ---- random kernels, by perturbation


def results_of(kernel: Kernel, operands: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    (result,) = KernelValue(kernel, run_kernel).results(operands, [(shape, "float64")])
    return np.asarray(result)


def perturbed(seed: int) -> tuple[str, str]:
    """Returns a verdict on a random kernel, and its source.

    `unsound`: an element outside of the required region changes the block; `loose`: one inside of a
    region that is marked exact never does.
    """
    rng, arrays = Random(seed), np.random.default_rng(seed)
    text = KernelText(rng).text()
    kernel = kernel_of(text)
    spec = kernel_projection(kernel).spec
    assert spec is not None
    sizes = {s: SIZES[s.name] for o in spec.operands for d in o.dims for s in syms(d)}
    known = dependence(spec, sizes)
    operands: list[Any] = [arrays.normal(size=shape) for shape in known.operands]
    shape = known.results[0]
    plain = results_of(kernel, operands, shape)
    for _ in range(2):
        start = [rng.randrange(n) for n in shape]
        stop = [rng.randrange(a + 1, n + 1) for a, n in zip(start, shape, strict=True)]
        block = tuple([slice(a, b) for a, b in zip(start, stop, strict=True)])
        regions = known.required_regions(region(start, stop))
        masks = [elements(r, o.shape) for r, o in zip(regions, operands, strict=True)]
        for _ in range(2):
            others = [arrays.normal(size=o.shape) * 3 for o in operands]
            changed = [np.where(m, o, c) for m, o, c in zip(masks, operands, others, strict=True)]
            if not np.array_equal(results_of(kernel, changed, shape)[block], plain[block]):
                return "unsound", f"{text}\n{start} to {stop}"
        for k, (mask, found) in enumerate(zip(masks, regions, strict=True)):
            for at in zip(*np.nonzero(mask), strict=True) if found.exact else ():
                if not _matters(kernel, operands, (k, at), plain, block, arrays):
                    return "loose", f"{text}\n{start} to {stop}, {at} of operand {k}"
    return "", text


def _matters(
    kernel: Kernel,
    operands: list[np.ndarray],
    element: tuple[int, Any],
    plain: np.ndarray,
    block: tuple[slice, ...],
    arrays: np.random.Generator,
) -> bool:
    """Whether another value of one element changes a block of the result."""
    for _ in range(4):
        changed = [operand.copy() for operand in operands]
        changed[element[0]][element[1]] = arrays.normal() * 3
        if not np.array_equal(results_of(kernel, changed, plain.shape)[block], plain[block]):
            return True
    return False


@pytest.mark.parametrize("seed", range(30))
def test_random_kernels_depend_on_their_regions_only(seed: int) -> None:
    verdict, text = perturbed(seed)
    data_dependent = "> 0.3" in text  # a test of data decides whether an element matters
    assert verdict == "" or (verdict == "loose" and data_dependent), f"{verdict}\n{text}"
