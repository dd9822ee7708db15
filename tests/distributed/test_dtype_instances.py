"""Functions with dtype variables in shards."""

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
