"""Functions of any rank or dtype in shards."""

import numpy as np
import pytest

import structir
from structir.distributed import plan, search, shard
from structir.errors import ShapeMismatchError, StructInfoError, StructIRError

GENERIC = """
@R.function
def main(x: R.Tensor(("n", 4), "'T"), w: R.Tensor((4, 3), "'T"), by: R.Prim("'T")):
    return R.multiply(R.matmul(x, w), by)
"""


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_arguments_bind_dtype_variables_of_shards(dtype: str) -> None:
    module = structir.parse(GENERIC)
    x, w = np.arange(32).reshape(8, 4).astype(dtype), np.ones((4, 3), dtype)
    sharded = shard(module, workers=2)
    result = sharded(x, w, np.dtype(dtype).type(2))
    assert result.dtype == dtype and result.tolist() == (2 * (x @ w)).tolist()
    options = {"sizes": {"n": 8}, "workers": 2, "dtypes": {"T": dtype}}
    assert plan(module, **options).bytes_in == sharded.plan(x, w, x[0, 0]).bytes_in
    assert search(module, **options).plan is not None
    assert sharded.compute(x, w, np.dtype(dtype).type(2)).tolist() == result.tolist()


@pytest.mark.parametrize("param", ["R.Tensor", "R.Tensor(('*s', 'n'))", "R.Tensor(ndim={})"])
@pytest.mark.parametrize("shape", [(4,), (4, 6), (2, 3, 4)])
def test_arguments_bind_unknown_ranks_sizes_and_dtypes(param: str, shape: tuple[int, ...]) -> None:
    module = structir.parse(f"""
@R.function(private=True)
def scaled(x, y):
    return R.multiply(R.exp(x), y)

@R.function
def main(x: {param.format(len(shape))}, y: R.Tensor):
    return scaled(x, y), R.sum(x, axis=[-1])
""")
    x, y = np.random.default_rng(0).normal(size=shape), np.ones(())
    sharded = shard(module, workers=2)
    for actual, expected in zip(sharded(x, y), (np.exp(x), x.sum(-1)), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12)
    assert len(sharded.plan(x, y).shards) == 2


def test_rows_of_any_dtype() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", "*"), "'T"), by: R.Prim("'T")):
    return R.sum(R.multiply(x, by), axis=1)
""")
    x = structir.RaggedArray.from_rows([[1, 2], [], [3]], "int32")
    assert shard(module, workers=2)(x, np.int32(2)).tolist() == [6, 0, 6]


def test_a_plan_needs_the_dtypes_of_variables() -> None:
    module = structir.parse(GENERIC)
    with pytest.raises(StructInfoError, match="pass one: "):
        plan(module, sizes={"n": 8})
    with pytest.raises(StructIRError, match="no dtype variable 'U in main; available: 'T"):
        plan(module, sizes={"n": 8}, dtypes={"U": "float32"})
    with pytest.raises(StructInfoError, match="did you mean 'float32'"):
        shard(module, dtypes={"T": "float33"})
    with pytest.raises(ShapeMismatchError, match=r"expected dtype float32 \(bound by x\)"):
        shard(module)(np.ones((2, 4), "float32"), np.ones((4, 3)), 2.0)
