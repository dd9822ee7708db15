"""Functions in shards whose values have sizes, ranks or fields that only a run determines."""

from typing import Any

import numpy as np
import pytest

import structir
from structir import opaque_op, struct_info
from structir.distributed import plan, search, shard
from structir.errors import StructIRError
from structir.interpret import register_extern
from structir.ir import StructInfo, TensorStructInfo
from structir.ir.dims import Dim
from tests.distributed.test_sharded import assert_equal, floats

register_extern("scaled_pair", lambda pair: pair[0] * pair[1])


@struct_info
class PackedRowsStructInfo(StructInfo):
    """Rows of integers with their scale, without `parts`: arguments do not bind `rows`."""

    rows: Dim


@opaque_op(lambda x: PackedRowsStructInfo(x.dims[0]))
def packed_rows(x: Any) -> Any:
    """Packs the values."""
    return (x * 8).astype("int8"), 0.125


@opaque_op(lambda x: TensorStructInfo((x.rows,), "float32"))
def unpacked_rows(x: Any) -> Any:
    """Unpacks the values."""
    return x[0].astype("float32") * np.float32(x[1])


@opaque_op(lambda x: TensorStructInfo(None, "float32", 1))
def unpacked_values(x: Any) -> Any:
    """Unpacks the values; its StructInfo has no size."""
    return x[0].astype("float32") * np.float32(x[1])


RECURSIVE = """
@R.function
def powers(x: R.Tensor(dtype="float32"), k: R.Tensor((), "int64")) -> R.Tensor(dtype="float32"):
    if R.less(k, R.const(1, "int64")):
        r = x
    else:
        r = powers(R.multiply(x, x), R.subtract(k, R.const(1, "int64")))
    return r
"""
X = 'x: R.Tensor(("n", 4), "float32")'
K = 'k: R.Tensor((), "int64")'
PAIR = 'p: R.Tuple(R.Tensor(("n", 4), "float32"), R.Prim("float32"))'
CASES = {
    "a recursive function of unknown rank": (
        f"{X}, {K}",
        """y = powers(x, k)
    z = R.match_cast(y, R.Tensor((n, 4), "float32"))
    return R.sum(z, axis=[1]), y""",
        (floats(6, 4), np.array(2)),
    ),
    "distinct elements": (
        'x: R.Tensor(("n",), "int64")',
        "u = R.unique(x)\n    v = R.multiply(u, u)\n    return v, R.sum(u), x",
        (np.array([3, 1, 3, 2]),),
    ),
    "distinct elements of a named size": (
        'x: R.Tensor(("n",), "int64")',
        """u = R.match_cast(R.unique(x), R.Tensor((c,), "int64"))
    return R.concat((u, x)), R.zeros((c,), "float32")""",
        (np.array([3, 1, 3, 2]),),
    ),
    "positions in a branch": (
        'x: R.Tensor(("n",), "float32")',
        """if R.max(x) > 0.5:
        r = R.sum(R.astype(R.nonzero(x), "float32"))
    else:
        r = R.sum(x)
    return R.multiply(x, r)""",
        (floats(5),),
    ),
    "row variables that nothing determines": (
        'x: R.Tensor(("*a", "*b"), "float32"), y: R.Tensor(("*b", "*c"), "float32")',
        "return R.exp(x), R.sum(y)",
        (floats(3, 4, 5), floats(4, 2)),
    ),
    "a row variable that contains others": (
        'x: R.Tensor(("*c",), "float32"), y: R.Tensor(("*a",), "float32")',
        """z = R.match_cast(x, R.Tensor(("*a", "*b"), "float32"))
    return R.exp(z), y""",
        (floats(6, 4, 3), floats(6)),
    ),
    "a captured pair": (
        PAIR,
        """@R.function
    def step(s: R.Tensor((4,), "float32"), r: R.Tensor((4,), "float32")):
        t = R.multiply(R.add(s, r), p[1])
        return t, t
    return R.scan(step, (R.sum(p[0], axis=[0]),), p[0])""",
        ((floats(6, 4), 0.5),),
    ),
    "a captured tuple of shapes": (
        X,
        """s = (R.shape([n, 4]), R.shape([4]))
    q = (s, 1)
    @R.function
    def step(s: R.Tensor((4,), "float32"), r: R.Tensor((4,), "float32")):
        w = q[0]
        t = R.add(s, R.reshape(r, w[1]))
        return t, t
    return R.scan(step, (R.sum(x, axis=[0]),), x)""",
        (floats(6, 4),),
    ),
    "a pair of an external function": (
        'p: R.Tuple(R.Tensor((6, 4), "float32"), R.Prim("float32"))',
        'return R.call_pure_packed("scaled_pair", p, sinfo_args=(R.Tensor((6, 4), "float32"),))',
        ((floats(6, 4), 0.5),),
    ),
    "a StructInfo subclass without parts": (
        'q: R.PackedRows("n")',
        "y = R.unpacked_rows(q)\n    return R.exp(y), R.sum(y), q",
        ((np.arange(6, dtype="int8"), 0.5),),
    ),
    "a StructInfo subclass and no size": (
        'x: R.Tensor(("n",), "float32")',
        "y = R.unpacked_values(R.packed_rows(x))\n    return R.exp(y), y",
        (floats(7),),
    ),
    "a dim with the name of a parameter": (
        "x: R.Tensor(ndim=1, dtype='float32'), d1: R.Tensor(('n',), 'float32')",
        "return R.exp(x), d1",
        (floats(3), floats(5)),
    ),
    "a closure whose result is coarser": (
        'x: R.Tensor(("n",), "float32")',
        """@R.function
    def step(s: R.Tensor((), "float32"), r: R.Tensor((), "float32")) -> R.Tuple(
        R.Tensor((), "float32"), R.Tensor
    ):
        return R.add(s, r), x
    return R.scan(step, (R.sum(x),), x)""",
        (floats(5),),
    ),
}


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_shards_of_what_only_a_run_determines(name: str, workers: int) -> None:
    params, body, args = CASES[name]
    dims = "    n, c = T.int64(), T.int64()\n" if "n" in body else ""
    module = structir.parse(f"{RECURSIVE}\n@R.function\ndef main({params}):\n{dims}    {body}\n")
    expected = structir.interpret(module, "main", *args)
    sharded = shard(module, workers=workers)
    assert_equal(sharded(*args), expected)
    assert_equal(sharded.compute(*args), expected)


def test_a_recursive_function_keeps_its_branches_and_sizes() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float32"), again: R.Tensor((), "bool"), no: R.Tensor((), "bool")):
    if again:
        r = R.match_cast(main(R.concat((x, x)), no, no), R.Tensor(dtype="float32", ndim=1))
    else:
        r = R.exp(x)
    return r
""")
    x, yes, no = floats(3), np.array(True), np.array(False)
    sharded = shard(module, workers=2)
    for again in (yes, no):
        expected = structir.interpret(module, "main", x, again, no)
        assert_equal(sharded(x, again, no), expected)


BROADCAST = """
@R.function
def main(x: R.Tensor(("_", 4), "float32"), y: R.Tensor(("_", 4), "float32")):
    return R.exp(R.add(x, y))
"""


def test_sizes_decide_the_shapes_of_plans() -> None:
    module = structir.parse(BROADCAST)
    x, y = floats(6, 4), floats(1, 4)
    expected = shard(module, workers=2).plan(x, y)
    planned = plan(module, workers=2, sizes={"_0": 6, "_1": 1})
    assert [s.inputs for s in planned.shards] == [s.inputs for s in expected.shards]
    report = search(module, workers=2, sizes={"_0": 6, "_1": 1})
    assert_equal(report(x, y), structir.interpret(module, "main", x, y))


def test_sizes_of_values_that_a_run_determines_are_given_for_a_plan() -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "int64")):
    u = R.unique(x)
    return R.multiply(u, u)
""")
    with pytest.raises(StructIRError, match=r'symbolic dim `u0`[^$]*`sizes=\{"u0": 128\}`'):
        plan(module, workers=2, sizes={"n": 8})
    assert plan(module, workers=2, sizes={"n": 8, "u0": 4}).bytes_in == 32


def test_an_unknown_dim_is_an_error_with_the_available_ones() -> None:
    module = structir.parse(BROADCAST)
    for function in (plan, search):
        with pytest.raises(
            StructIRError, match=r'no symbolic dim `_`[^$]*`sizes=\{"_[01]": 128\}`'
        ):
            function(module, workers=2, sizes={"_": 6})
