"""Every projection case as shards: each computes its block from its input blocks alone, and depends
on every boundary plane of them.

The cases are read from the folder `STRUCTIR_CASES`, by default the copy beside the projections.
"""

import numpy as np
import pytest

import structir
from structir.distributed import plan
from structir.distributed.plan import Plan, Shard
from structir.distributed.shard_function import PartialResults, ShardFunction
from structir.ir import Function, IRModule
from structir.projections.boxes import Region
from tests.projections.case_programs import function_of
from tests.projections.test_region_cases import CASES

Arrays = dict[str, np.ndarray]


def arrays_of(function: Function) -> Arrays:
    rng = np.random.default_rng(2)
    return {
        p.name: (rng.standard_normal(p.struct_info.dims) * 2).astype(p.struct_info.dtype)
        for p in function.params
    }


def grid_of(case: dict) -> tuple[int, ...]:
    shape = case["expect"]["out_shape"]
    grid = case["expect"].get("grid")
    return tuple(grid or [min(2, max(n, 1)) for n in shape])


def part_of(function: Plan, shard: Shard) -> ShardFunction:
    ranges = {function.program.result: shard.results[0]}
    return PartialResults(function.program).part(shard.regions, ranges)


def sent(part: ShardFunction, shard: Shard, arrays: Arrays) -> list[np.ndarray]:
    return [
        arrays[key[0].name][tuple(slice(a, b) for a, b in zip(*bounds, strict=True))]
        for key, bounds in part.inputs
    ]


def run(part: ShardFunction, values: list[np.ndarray]) -> np.ndarray:
    module = IRModule({"main": part.function})
    with np.errstate(all="ignore"):
        return np.asarray(structir.interpret(module, "main", part.sizes, *values))


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
@pytest.mark.filterwarnings("ignore")
def test_shards_compute_their_blocks(case: dict) -> None:
    function, _ = function_of(case)
    arrays = arrays_of(function)
    whole = np.asarray(structir.interpret(IRModule({"main": function}), "main", *arrays.values()))
    if 0 in whole.shape:
        return
    sharding = plan(function, grid=grid_of(case))
    covered = np.zeros(whole.shape, int)
    for shard in sharding.shards:
        block = tuple(slice(a, b) for a, b in zip(*shard.results[0], strict=True))
        covered[block] += 1
        part = part_of(sharding, shard)
        values = sent(part, shard, arrays)
        assert sum(v.nbytes for v in values) <= shard.bytes_in
        np.testing.assert_allclose(run(part, values), whole[block], rtol=2e-5, atol=1e-5)
    assert (covered == 1).all()


def planes(values: list[np.ndarray], which: int) -> list[list[np.ndarray]]:
    """Returns the values with each boundary plane of one of them overwritten."""
    overwritten = []
    for axis in range(values[which].ndim):
        for place in (0, -1):
            changed = values[which].copy()
            np.moveaxis(changed, axis, 0)[place] = np.nan
            overwritten.append([*values[:which], changed, *values[which + 1 :]])
    return overwritten


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
@pytest.mark.filterwarnings("ignore")
def test_every_sent_plane_affects_the_block(case: dict) -> None:
    function, _ = function_of(case)
    arrays = arrays_of(function)
    if 0 in case["expect"]["out_shape"]:
        return
    sharding = plan(function, grid=grid_of(case))
    for shard in sharding.shards[:: max(len(sharding.shards) - 1, 1)]:
        part = part_of(sharding, shard)
        values = sent(part, shard, arrays)
        plain = run(part, values)
        for which, (key, _) in enumerate(part.inputs):
            region: Region = shard.regions[key]
            if not region.dense or values[which].dtype.kind != "f":
                continue
            for changed in planes(values, which):
                assert not np.array_equal(run(part, changed), plain, equal_nan=True)
