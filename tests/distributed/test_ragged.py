"""Functions of ragged tensors in shards and on meshes equal the unsharded functions."""

from random import Random
from typing import Any

import numpy as np
import pytest

import structir
from structir.analysis.axes import ANY
from structir.distributed import plan, search, shard
from structir.distributed.plan import Plan
from structir.distributed.planner import make_planner
from structir.distributed.planning import prepared
from structir.distributed.random_cuts import random_mesh_program
from structir.distributed.row_cuts import _balanced
from structir.errors import DiagnosticError, ShapeMismatchError, StructIRError
from structir.ir.module import IRModule
from structir.ir.ragged_array import RaggedArray
from structir.ops.ragged import has_ragged_axis
from structir.tools.coarsening import with_open_parameters

RNG = np.random.default_rng(7)
PARAMS = """x: R.Tensor(("n", "*", 4), "float32"), d: R.Tensor(("n", 1, 4), "float32"),
    w: R.Tensor((4, 3), "float32")"""
LENGTHS = (2, 0, 5, 1, 8, 1)


def program(body: str, params: str = PARAMS) -> IRModule:
    lines = "\n    ".join(body.split("; "))
    return structir.parse(f"@R.function\ndef main({params}):\n    {lines}\n    return y\n")


def ragged(lengths: tuple[int, ...], *inner: int) -> RaggedArray:
    values = RNG.standard_normal((sum(lengths), *inner), dtype="float32")
    return RaggedArray(values, np.concatenate([[0], np.cumsum(lengths, dtype="int64")]))


def arguments(lengths: tuple[int, ...] = LENGTHS) -> tuple[Any, ...]:
    dense = RNG.standard_normal((len(lengths), 1, 4), dtype="float32")
    return ragged(lengths, 4), dense, np.ones((4, 3), "float32")


def agree(actual: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for a, b in zip(actual, expected, strict=True):
            agree(a, b)
        return
    if isinstance(expected, RaggedArray):
        np.testing.assert_array_equal(actual.offsets, expected.offsets)
        assert actual.leading == expected.leading
        actual, expected = actual.values, expected.values
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "y = R.exp(R.add(x, d))",
        "y = R.matmul(R.nn.softmax(x, axis=1), w)",
        "a = R.concat((x, x), axis=1); b = R.max(a, axis=2, keepdims=True); y = (a, b)",
        "m = R.sum(x); s = R.sum(x, axis=[0, 1]); y = (R.subtract(x, m), s)",
        "y = R.argmax(x, axis=1)",
        "p = R.ragged.to_padded(x); y = R.ragged.from_padded(p, R.ragged.row_lengths(x))",
        "z = R.match_cast(x, R.Tensor((6, '*', 4), 'float32')); y = R.concat((z, x), axis=0)",
    ],
)
def test_shards_and_meshes_equal_the_unsharded_function(body: str) -> None:
    module, values = program(body), arguments()
    expected = structir.interpret(module, "main", *values)
    agree(shard(module, workers=3)(*values), expected)
    agree(random_mesh_program(module, "main", values, len(body))(*values), expected)


@pytest.mark.parametrize("lengths", [(4,), (0, 0, 0), ()])
def test_few_and_empty_rows(lengths: tuple[int, ...]) -> None:
    module, values = program("y = (R.sum(x, axis=1), R.nn.softmax(x, axis=1))"), arguments(lengths)
    sharded = shard(module, workers=2)
    agree(sharded(*values), structir.interpret(module, "main", *values))


@pytest.mark.parametrize("body", ["y = R.sum(x)", "y = R.exp(x)"])
@pytest.mark.parametrize("inner", [", 4", ""])
@pytest.mark.parametrize("leading", [(6,), (2, 3)])
def test_leading_sizes_that_are_unknown(leading: tuple[int, ...], inner: str, body: str) -> None:
    """A parsed `"_"` is a variable: programs of the API have axes of unknown size."""
    names = ", ".join(['"n"', '"k"'][: len(leading)])
    module = program(body, f'x: R.Tensor(({names}, "*"{inner}), "float32")')
    value = ragged(LENGTHS, 4) if inner else ragged(LENGTHS)
    value, tried = RaggedArray(value.values, value.offsets, leading), set()
    for seed in range(60):
        opened = with_open_parameters(module, Random(seed))
        info: Any = opened["main"].params[0].struct_info
        if ANY not in (info.axes or ())[: len(leading)] or not has_ragged_axis(info):
            continue
        tried.add(str(info))
        with pytest.raises(StructIRError, match="expected ") as error:
            shard(opened, workers=2)(value)
        assert error.value.code == ("E0902" if len(leading) == 1 else "E0731")
    assert tried


def test_branches_and_tuples() -> None:
    params = """p: R.Tuple(R.Tensor(("n", "*:l"), "float32"), R.Tensor(("n", "*:l"), "float32")),
        c: R.Tensor((), "bool")"""
    module = structir.parse(f"""
@R.function
def main({params}):
    if c:
        z = R.exp(p[0])
    else:
        z = R.negative(p[1])
    y = R.sum(R.add(z, p[1]), axis=1)
    return (y, z)
""")
    pair = ragged(LENGTHS), ragged(LENGTHS)
    sharded = shard(module, workers=3)
    for flag in (np.array(True), np.array(False)):
        agree(sharded(pair, flag), structir.interpret(module, "main", pair, flag))
    split = plan(module, grid=(2,), sizes={"p[0]": [3, 1, 2]})  # as the rows of p[1]
    assert blocks(split, "p[1][0]") == [(0, 3), (3, 6)]
    with pytest.raises(ShapeMismatchError, match="E0732"):
        sharded((ragged(LENGTHS), ragged((17, 0, 0, 0, 0, 0))), np.array(True))


def blocks(split: Plan, name: str) -> list[tuple[Any, ...]]:
    return [(b[0][0], b[1][0]) for s in split.shards if (b := s.block_of(name)) is not None]


def test_a_plan_cuts_between_rows_and_sends_their_values() -> None:
    module = program("y = (R.sum(x, axis=1), R.nn.softmax(x, axis=1))")
    split = plan(module, grid=(2, 1), sizes={"x": [1] * 30 + [10, 10, 10]})
    assert blocks(split, "x[0]") == [(0, 30), (30, 60)]
    assert [r[0] for r in (shard.results for shard in split.shards)] == [
        ((0, 0), (30, 4)),
        ((30, 0), (33, 4)),
    ]
    assert split.traffic()["x[0]"] == (60 * 16, 60 * 16)  # no value is sent twice
    padded = plan(program("y = R.ragged.to_padded(x)"), grid=(2, 1, 1), sizes={"x": [3, 1]})
    assert blocks(padded, "x[0]") == [(0, 3), (3, 4)]
    by_column = plan(module, grid=(1, 2), sizes={"x": [3, 2]})
    assert blocks(by_column, "x[0]") == [(0, 5), (0, 5)]
    matmul = plan(program("y = R.matmul(x, w)"), grid=(2, 1, 1), sizes={"x": [3, 1]})
    assert matmul.grid == (2, 1)


def test_plans_need_row_lengths() -> None:
    module = program("y = R.exp(x)")
    for sizes in ({}, {"n": 3}):
        with pytest.raises(DiagnosticError, match="E0220") as error:
            plan(module, sizes=sizes)
        assert 'sizes={"x": [3, 1, 2]}' in str(error.value)
    for sizes in ({"x": [2, -1]}, {"x": [[2], [1]]}, {"x": [2, 1], "n": 3}):
        with pytest.raises(ShapeMismatchError, match="sizes of `x`"):
            plan(module, sizes=sizes)
    with pytest.raises(StructIRError, match="E0909"):
        plan(module, sizes={"x": [1], "z": 3})
    with pytest.raises(DiagnosticError, match="E1127"):
        shard(module, workers=2).on_dask(*arguments())


def test_a_search_weighs_rows_by_their_lengths() -> None:
    module = program("s = R.nn.softmax(x, axis=1); y = R.sum(R.matmul(s, w), axis=1)")
    short, long = ({"x": [k] * 64} for k in (2, 20000))
    costs = [
        search(module, workers=8, sizes=sizes, stages=1).best.cost.seconds
        for sizes in (short, long)
    ]
    assert costs[1] > 5 * costs[0]
    values = arguments((2,) * 64)
    report = search(module, workers=8, sizes=short, stages=1)
    agree(report.program(*values), structir.interpret(module, "main", *values))


def test_micro_batches_of_a_reshaped_axis_require_whole_blocks() -> None:
    source = """
@R.function
def main(x: R.Tensor(("n", "n"), "float32")):
    y = R.exp(R.reshape(R.negative(R.reshape(R.abs(x), (n, n, 1))), (n * n,)))
    return y
"""
    module, x = structir.parse(source), RNG.standard_normal((3, 3), dtype="float32")
    for seed in range(6):
        agree(random_mesh_program(module, "main", (x,), seed)(x), np.exp(-np.abs(x)).reshape(-1))


def test_row_positions_are_known_to_the_planner() -> None:
    """Each part of a segment reduction requires the values of its own rows."""
    ready = prepared(program("y = R.sum(x, axis=1)"), "main")
    planner = make_planner(ready.function, ready.planner({"x": [2, 0, 3]}).sizes, "main")
    (sums,) = planner.results
    regions = planner.regions((((1, 0), (3, 4)),), (0, 1))
    (values,) = [key for key in planner.inputs if key[1] == (0,) and key[0].name == "x"]
    assert regions[values].bounds == ((2, 0), (5, 4))
    affected = planner.program.affected_regions({values: regions[values]})
    assert affected[sums].bounds == ((2, 0), (3, 4))


def test_parts_are_balanced_and_have_rows() -> None:
    ends = np.concatenate([[0], np.cumsum([1] * 90 + [30, 30, 30])])
    assert _balanced(ends, 2).tolist() == [0, 90, 93]
    assert _balanced(np.array([0, 9, 9, 9]), 3).tolist() == [0, 1, 2, 3]
    assert _balanced(np.array([0]), 3).tolist() == [0, 0, 0, 0]


BRANCHES = """
@R.function
def main(x: R.Tensor(("n", {axis}), "float32"), y: R.Tensor(("m", {axis}), "float32"),
         s: R.Tensor((), "float32")):
    if R.greater(s, R.const(0.0, "float32")):
        if R.greater(s, R.const(1.0, "float32")):
            a = R.concat((x, y), axis=0)
        else:
            a = R.negative(x)
        z = (a, R.sum(a))
    else:
        z = (y, R.sum(x))
    w = R.multiply(z[0], z[0])
    return (w, R.sum(w, axis=1), z[1])
"""


@pytest.mark.parametrize("axis", ['"*"', "3"])
@pytest.mark.parametrize("number", [-1.0, 0.5, 2.0])
def test_branches_with_results_of_different_shapes(axis: str, number: float) -> None:
    module = structir.parse(BRANCHES.format(axis=axis))
    lengths = ((2, 0, 5), (1, 4)) if axis == '"*"' else ((3,) * 4, (3,) * 2)
    x, y = map(ragged, lengths)
    tensors = (x, y) if axis == '"*"' else (x.values.reshape(4, 3), y.values.reshape(2, 3))
    operands = *tensors, np.float32(number)
    agree(shard(module, workers=2)(*operands), structir.interpret(module, "main", *operands))
    agree(
        structir.compile(module)["main"](*operands), structir.interpret(module, "main", *operands)
    )
