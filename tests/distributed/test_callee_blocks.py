"""Kernels and external functions in shards: over blocks, they compute the blocks of the whole."""

from random import Random

import numpy as np
import pytest

import structir
from structir.distributed import plan, shard
from structir.distributed.planner import make_planner
from structir.distributed.shard_function import PartialResults
from structir.errors import StructInfoError
from structir.interpret import register_extern
from structir.ir import IRModule
from structir.projections.boxes import region
from structir.projections.program import program_of
from tests.projections.random_kernels import SIZES, KernelText, main_of


def wrong_block(seed: int) -> str:
    """Returns the source of a random kernel if a shard computes another block; empty if not."""
    rng, arrays = Random(seed), np.random.default_rng(seed)
    text = KernelText(rng).text()
    module = structir.parse(text + main_of(text))
    main = module["main"]
    sizes = {n: size for n, size in SIZES.items() if f'"{n}"' in text}
    shape = tuple(sizes.values())
    x, w = arrays.normal(size=shape), arrays.normal(size=3)
    expected = structir.interpret(module, "main", x, w)
    program = program_of(main, sizes, module=module, parts=True)
    parts = PartialResults(program)
    for _ in range(2):
        start = [rng.randrange(n) for n in shape]
        stop = [rng.randrange(a + 1, n + 1) for a, n in zip(start, shape, strict=True)]
        regions = program.required_regions({program.result: region(start, stop)})
        part = parts.part(regions, {program.result: (tuple(start), tuple(stop))})
        values = {program.values[p]: v for p, v in zip(main.params, (x, w), strict=True)}
        inputs = []
        for key, bounds in part.inputs:
            block = tuple([slice(a, b) for a, b in zip(*bounds, strict=True)])
            inputs.append(np.ascontiguousarray(values[key][block]))
        shard_module = IRModule({"main": part.function, **part.kernels})
        actual = structir.interpret(shard_module, "main", part.sizes, *inputs)
        block = tuple([slice(a, b) for a, b in zip(start, stop, strict=True)])
        if not np.array_equal(actual, expected[block]):
            return f"{text}\n{start} to {stop}\n{next(iter(part.kernels.values()))}"
    return ""


@pytest.mark.parametrize("seed", range(10))
def test_kernels_over_blocks_compute_blocks(seed: int) -> None:
    assert wrong_block(seed) == ""


MODEL = """
@I.kernel
def mixed(x: R.Tensor(("n", "m"), "float64"), out: R.Tensor(("n", "m"), "float64")):
    for i in range(n):
        total = T.float64(0.0)
        for j in range(m):
            total += x[i, j]
        for j in range(m):
            out[i, j] = (x[i - 1, j] if i > 0 else 0.0) + total + T.float64(i)

@R.function
def main(x: R.Tensor(("n", 5), "float64"), w: R.Tensor((5, 4), "float64")):
    n = T.int64()
    y = R.call_kernel(mixed, (R.exp(x),), out_sinfo=R.Tensor((n, 5), "float64"))
    return R.call_pure_packed("tests.product", y, w, sinfo_args=R.Tensor((n, 4), "float64"),
                              index="x[i, k], w[k, j] -> y[i, j]")
"""


def test_a_sharded_program_with_a_kernel_and_an_external_function() -> None:
    seen: list[tuple[int, ...]] = []

    def product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        seen.append((*x.shape, *w.shape))
        return x @ w

    register_extern("tests.product", product)
    module = structir.parse(MODEL)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(12, 5)), rng.normal(size=(5, 4))
    expected = structir.interpret(module, "main", x, w)
    sharded = shard(module, grid=(4, 2))
    seen.clear()
    np.testing.assert_allclose(sharded(x, w), expected, 1e-13)
    assert seen == [(3, 5, 5, 2)] * 8
    blocks = [dict(s.inputs) for s in sharded.plan(x, w).shards]
    assert blocks[2] == {"x": ((2, 0), (6, 5)), "w": ((0, 0), (5, 2))}  # a halo of one row


def test_one_compiled_kernel_serves_all_shards() -> None:
    module = structir.parse(MODEL)
    register_extern("tests.product", lambda x, w: x @ w)
    sharded = shard(module, grid=(6, 1))
    x, w = np.ones((18, 5)), np.ones((5, 4))
    sharded(x, w)
    state = sharded.worker_state(sharded.plan(x, w))
    assert len(state.compiled) <= 3  # the first, the last, and all others


def test_results_of_a_kernel_that_are_not_required() -> None:
    module = structir.parse(
        """
@I.kernel
def both(x: R.Tensor(("n",), "float64"), a: R.Tensor(("n",), "float64"),
         b: R.Tensor(("n",), "float64")):
    for i in range(n):
        a[i] = x[i] * 2.0
        b[i] = x[n - 1 - i]

@R.function
def main(x: R.Tensor(("n",), "float64")):
    n = T.int64()
    pair = R.call_kernel(both, (x,),
        out_sinfo=(R.Tensor((n,), "float64"), R.Tensor((n,), "float64")))
    return pair[1]
"""
    )
    x = np.arange(9.0)
    sharded = shard(module, grid=(3,))
    assert sharded(x).tolist() == x[::-1].tolist()
    assert dict(sharded.plan(x).shards[0].inputs) == {"x": ((6,), (9,))}


def test_an_external_function_of_two_results_and_one_of_destinations() -> None:
    register_extern("tests.both", lambda x: (x + 1, x.sum(1)))

    def double(x: np.ndarray, out: np.ndarray) -> None:
        out[...] = 2 * x

    register_extern("tests.double", double)
    module = structir.parse(
        """
@R.function
def main(x: R.Tensor((6, 4), "float64")):
    pair = R.call_pure_packed("tests.both", x, index="x[i, k] -> y[i, k], z[i]",
        sinfo_args=(R.Tensor((6, 4), "float64"), R.Tensor((6,), "float64")))
    y = pair[0]
    z = pair[1]
    d = R.call_dps_packed("tests.double", (y,), R.Tensor((6, 4), "float64"),
                          index="a[i, j] -> b[i, j]")
    return d, z
"""
    )
    x = np.arange(24.0).reshape(6, 4)
    sharded = shard(module, grid=(3, 1))
    for actual, expected in zip(sharded(x), (2 * (x + 1), x.sum(1)), strict=True):
        np.testing.assert_allclose(actual, expected)
    assert [dict(s.inputs)["x"] for s in sharded.plan(x).shards] == [
        ((0, 0), (2, 4)),
        ((2, 0), (4, 4)),
        ((4, 0), (6, 4)),
    ]


def test_an_external_function_without_an_index_signature_is_run_completely() -> None:
    register_extern("tests.window", lambda x: np.convolve(x, np.ones(3), "same"))
    module = structir.parse(
        """
@R.function
def main(x: R.Tensor((8,), "float64")):
    return R.call_pure_packed("tests.window", x, sinfo_args=R.Tensor((8,), "float64"),
                              cost=3)
"""
    )
    x = np.arange(8.0)
    assert shard(module, grid=(2,))(x).tolist() == np.convolve(x, np.ones(3), "same").tolist()


def test_a_plan_of_a_kernel_without_its_module_reads_everything() -> None:
    module = structir.parse(MODEL)
    planner = make_planner(module["main"], {"n": 12}, "main")
    assert dict(planner.shard(0, (4, 1), (0, 0)).inputs)["x"] == ((0, 0), (12, 5))
    whole = plan(module, grid=(4, 1), sizes={"n": 12})
    assert dict(whole.shards[0].inputs)["x"] == ((0, 0), (3, 5))


NUMBER_OF_A_CAST = """
@I.ir_module
class Module:
    @I.kernel
    def add_number(x: R.Tensor(("n",), "float32"), number: R.Prim("int64"),
                   y: R.Tensor(("n",), "float32")):
        for i in range(n):
            y[i] = x[i] + T.float32(number)

    @R.function
    def main(x: R.Tensor(("n",), "float32"), size: R.Tensor((1,), "int64")):
        cls = Module
        n = T.int64()
        found = T.int64()
        cast = R.match_cast(R.tensor_to_shape(size), R.Shape((found,)))
        y = R.call_kernel(cls.add_number, (x, R.prim_value(found)),
                          out_sinfo=R.Tensor((n,), "float32"))
        return y
"""


def test_the_size_of_a_cast_that_a_kernel_receives_is_needed_to_plan() -> None:
    module = structir.parse(NUMBER_OF_A_CAST)
    with pytest.raises(StructInfoError, match="cannot plan with symbolic dim `found`"):
        plan(module, grid=(2,), sizes={"n": 4})
    assert len(plan(module, grid=(2,), sizes={"n": 4, "found": 4}).shards) == 2
