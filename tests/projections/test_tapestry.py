"""The examples and figures of Tapestry's documents on index projections.

Each test is named after its position. *Design* is "Index Projection Functions", *signatures*
"Polyhedral Type Signatures", *types* "Polyhedral Types and Index Projection", *sharding* "Exploring
Tensor Block Sharding Feasibility", and *ranges* the tests of the range projection maps.
"""

import numpy as np
import pytest

import structir
from structir.distributed import plan, search, shard
from structir.errors import StructInfoError
from structir.interpret import register_extern
from structir.ir import Function
from structir.projections import Projection, neighbours, of_result, program_of, region
from structir.projections.execution_cost import execution_cost
from structir.projections.fusion import FusionRelation, fusion
from structir.projections.injectivity import distinguishes
from structir.projections.out_of_bounds import region_of_block, values_at


def main_of(params: str, body: str) -> Function:
    lines = "\n".join(f"    {line.strip()}" for line in body.strip().splitlines())
    return structir.parse(f"@R.function\ndef main({params}):\n{lines}\n")["main"]


def projections(function: Function, call: int = 0) -> dict[str, Projection | None]:
    """Returns the projection of each operand of one call."""
    value = function.bindings()[call].value
    spec = value.op.definition.index_spec(value)
    (statement,) = spec.statements
    return {r.name: of_result(spec, statement, statement.writes[0], r) for r in statement.reads}


def required(function: Function, start: tuple, stop: tuple, sizes: dict | None = None) -> dict:
    """Returns the bounds of each parameter that a block of the result requires."""
    program = program_of(function, sizes)
    regions = program.required_regions({program.result: region(start, stop)})
    return {p.name: regions[program.values[p]].bounds for p in function.params}


def shared(function: Function, at: tuple, tile: tuple, axis: int) -> dict:
    program = program_of(function)

    def walk(block):
        regions = program.required_regions({program.result: block})
        return {p.name: regions[program.values[p]] for p in function.params}

    return neighbours(walk, at, tile, axis)


MATMUL = 'x: R.Tensor((10, 5), "float32"), y: R.Tensor((5, 12), "float32")'
LINEAR = (
    'x: R.Tensor(("batch", 6), "float32"), w: R.Tensor((6, 4), "float32"), '
    'b: R.Tensor((4,), "float32")'
)
LINEAR_BODY = """
v = R.matmul(x, w)
z = R.add(v, b)
y = R.nn.relu(z)
return y
"""

# ---- Index Projection Functions


def test_design_fixed_tensor_inputs_figure_1() -> None:
    fixed = Projection(((0, 0), (0, 0)), (0, 0), (4, 3))
    for at in ((0, 0), (3, 2)):
        stop = tuple(p + 1 for p in at)
        assert region_of_block(fixed, at, stop, (4, 3)).bounds == ((0, 0), (4, 3))


def test_design_fixed_tensor_inputs_figure_2() -> None:
    view = Projection(((0, 0), (0, 0)), (1, 1), (2, 2))
    assert region_of_block(view, (0, 0), (5, 7), (4, 3)).bounds == ((1, 1), (3, 3))


def test_design_linear_strides_figure() -> None:
    plain = Projection(((1, 0), (0, 1)), (0, 0), (1, 1))
    w = np.arange(12).reshape(4, 3)
    assert values_at(w, plain, (0, 0)).tolist() == [[0]]
    assert values_at(w, plain, (0, 1)).tolist() == [[1]]
    copied = projections(main_of('w: R.Tensor((4, 3), "float32")', "y = R.exp(w)\nreturn y"))
    assert copied == {"x": plain}


def test_design_negative_strides_figure() -> None:
    backward = Projection(((1, 0), (0, -1)), (0, 2), (1, 1))
    w = np.arange(12).reshape(4, 3)
    assert [values_at(w, backward, (0, k)).item() for k in (0, 1)] == [2, 1]
    flipped = main_of('w: R.Tensor((4, 3), "float32")', "y = R.flip(w, axis=1)\nreturn y")
    assert projections(flipped) == {"x": backward}
    # a subsequent block maps to a preceding location
    assert shared(flipped, (0, 0), (4, 1), 1)["w"].stride == (0, -1)


def test_design_axial_reduce() -> None:
    total = main_of('x: R.Tensor((4, 3), "float32")', "y = R.sum(x, axis=1)\nreturn y")
    assert projections(total) == {"x": Projection(((1,), (0,)), (0, 0), (1, 3))}


def test_design_kernel_windows_figure() -> None:
    window = Projection(((1, 0), (0, 1)), (-1, -1), (3, 3))
    w = np.arange(1, 13).reshape(4, 3)
    first, second = values_at(w, window, (0, 0)), values_at(w, window, (0, 1))
    assert first.tolist() == [[0, 0, 0], [0, 1, 2], [0, 4, 5]]  # `?` of the figure is padding
    assert second.tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 6]]
    params = 'x: R.Tensor((1, 1, 4, 3), "float32"), k: R.Tensor((1, 1, 3, 3), "float32")'
    conv = main_of(params, "y = R.nn.conv2d(x, k, padding=1)\nreturn y")
    projection = projections(conv)["x"]
    assert (projection.offset, projection.shape) == ((0, 0, -1, -1), (1, 1, 3, 3))


@pytest.mark.parametrize(
    ("policy", "bounds", "corner"),
    [
        ("wrap", ((0, 0), (4, 3)), 12),  # toroidal; a negative index counts from the end
        ("clamp", ((0, 0), (2, 2)), 1),
        ("pad", ((0, 0), (2, 2)), 0),
    ],
)
def test_design_out_of_bounds_choices(policy: str, bounds: tuple, corner: int) -> None:
    window = Projection(((1, 0), (0, 1)), (-1, -1), (3, 3), policy)
    w = np.arange(1, 13).reshape(4, 3)
    assert region_of_block(window, (0, 0), (1, 1), w.shape).bounds == bounds
    assert values_at(w, window, (0, 0))[0, 0] == corner


def test_design_out_of_bounds_forbidden() -> None:
    window = Projection(((1, 0), (0, 1)), (-1, -1), (3, 3), "forbid")
    with pytest.raises(StructInfoError, match="forbidden"):
        region_of_block(window, (0, 0), (1, 1), (4, 3))


def test_design_offset_is_composite() -> None:
    """A window over a reversed axis: the relative start is kept in the index map."""
    params = 'x: R.Tensor((1, 1, 8), "float32"), k: R.Tensor((1, 1, 3), "float32")'
    function = main_of(params, "r = R.flip(x, axis=2)\ny = R.nn.conv1d(r, k, padding=1)\nreturn y")
    flip, conv = projections(function, 0)["x"], projections(function, 1)["x"]
    both = conv.after(flip)
    assert conv.offset == (0, 0, -1) and flip.offset == (0, 0, 7)
    assert (both.offset, both.shape) == ((0, 0, 6), (1, 1, 3))
    assert required(function, (0, 0, 1), (1, 1, 2))["x"] == ((0, 0, 5), (1, 1, 8))


def test_design_delta_strides_are_constant() -> None:
    projection = Projection(((2, 1), (0, -3)), (4, 9), (2, 2))
    for axis in range(2):
        deltas = set()
        for at in ((0, 0), (3, 1), (5, 7)):
            there = [p + (k == axis) for k, p in enumerate(at)]
            here, after = (
                projection.box(at, [p + 1 for p in at]),
                projection.box(there, [p + 1 for p in there]),
            )
            deltas.add(tuple(b - a for a, b in zip(here[0], after[0], strict=True)))
        assert deltas == {projection.column(axis)}


def test_design_blocks_with_negative_strides() -> None:
    backward = Projection(((-1,),), (9,), (2,))
    assert backward.box((2,), (5,)) == ((5,), (9,))


def test_design_blocks_may_be_sparse() -> None:
    skipping = Projection(((3,),), (0,), (2,))
    found = region_of_block(skipping, (0,), (3,), (8,))
    assert found.bounds == ((0,), (8,))
    assert (found.needed, found.dense) == (6, False)


def test_design_sharing_is_constant() -> None:
    product = main_of(MATMUL, "z = R.matmul(x, y)\nreturn z")
    down = shared(product, (0, 0), (2, 3), 0)
    assert (down["y"].kind, down["x"].kind) == ("full", "disjoint")
    params = 'x: R.Tensor((1, 1, 12), "float32"), k: R.Tensor((1, 1, 3), "float32")'
    conv = main_of(params, "y = R.nn.conv1d(x, k)\nreturn y")
    overlaps = {shared(conv, (0, 0, at), (1, 1, 2), 2)["x"].shared_box for at in (0, 2, 4, 6)}
    assert overlaps == {2}


def test_design_marginal_costs_along_sharding_dimensions() -> None:
    product = main_of(MATMUL, "z = R.matmul(x, y)\nreturn z").bindings()[0].value
    cost = execution_cost(product)
    assert cost.axes == ("i", "j", "k")
    assert [cost.marginal(axis) for axis in cost.axes] == [2 * 12 * 5, 2 * 10 * 5, 2 * 10 * 12]
    assert cost.total() == 2 * 10 * 12 * 5


# ---- Polyhedral Type Signatures


def test_signatures_index_projection_figure() -> None:
    """(4, 3) maps to the box from (3, 6) to (3, 8), exclusive along the second axis."""
    projection = Projection(((1, 0), (0, 2)), (-1, 0), (1, 2))
    assert projection.box((4, 3), (5, 4)) == ((3, 6), (4, 8))


TWO_RESULTS = """
@R.function
def main(a: R.Tensor((4, 6), "float64"), b: R.Tensor((6, 3), "float64")):
    return R.call_pure_packed("tests.two", a, b, index="A[i, m], B[m, n] -> X[i, n], Y[i, n]",
        sinfo_args=(R.Tensor((4, 3), "float64"), R.Tensor((4, 3), "float64")))
"""


def test_signatures_operator_figures_1_and_2_two_results_in_two_shards() -> None:
    blocks: list[tuple] = []

    def operator(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        blocks.append((a.shape, b.shape))
        return a @ b, 2 * (a @ b)

    register_extern("tests.two", operator)
    a, b = np.arange(24.0).reshape(4, 6), np.arange(18.0).reshape(6, 3)
    x, y = shard(structir.parse(TWO_RESULTS), grid=(2, 1))(a, b)
    assert (x.tolist(), y.tolist()) == ((a @ b).tolist(), (2 * a @ b).tolist())
    assert blocks == [((2, 6), (6, 3))] * 2


def test_signatures_an_operation_without_signature_has_a_trivial_projection() -> None:
    text = TWO_RESULTS.replace('index="A[i, m], B[m, n] -> X[i, n], Y[i, n]",', "")
    split = plan(structir.parse(text), grid=(2, 1))
    whole = (((0, 0), (4, 6)), ((0, 0), (6, 3)))
    assert [(s.block_of("a"), s.block_of("b")) for s in split.shards] == [whole, whole]


def test_signatures_ranges_need_not_start_at_the_origin() -> None:
    space = Projection(((1, 0, 0), (0, 1, 0), (0, 0, 1)), (-100, -100, 0), (1, 1, 1))
    assert space.box((0, 0, 0), (110, 110, 10)) == ((-100, -100, 0), (10, 10, 10))


def test_signatures_simple_projection_figure() -> None:
    simple = Projection(((1, 0), (0, 2)), (-1, 0), (1, 2))
    assert (simple.matrix, simple.offset, simple.shape) == (((1, 0), (0, 2)), (-1, 0), (1, 2))
    assert simple.column(1) == (0, 2)


def test_signatures_matmul_projections() -> None:
    product = main_of(MATMUL, "z = R.matmul(x, y)\nreturn z")
    assert projections(product) == {
        "lhs": Projection(((1, 0), (0, 0)), (0, 0), (1, 5)),
        "rhs": Projection(((0, 0), (0, 1)), (0, 0), (5, 1)),
    }


def test_signatures_matmul_concrete_example() -> None:
    """J starts at (-10, 0): its projection has the origin of J as its offset."""
    rows = Projection(((1, 0), (0, 0)), (-10, 0), (1, 5))
    assert rows.box((0, 0), (10, 12)) == ((-10, 0), (0, 5))
    columns = Projection(((0, 0), (0, 1)), (0, 0), (5, 1))
    assert columns.box((0, 0), (10, 12)) == ((0, 0), (5, 12))
    cells = Projection(((1, 0), (0, 1)), (0, 0), (1, 1))
    assert cells.box((0, 0), (10, 12)) == ((0, 0), (10, 12))


def test_signatures_outputs_are_injective() -> None:
    assert distinguishes([(12, 10), (1, 12)])
    assert not distinguishes([(1, 10), (1, 12)])


def test_signatures_matmul_figure_of_four_shards() -> None:
    product = main_of(MATMUL, "z = R.matmul(x, y)\nreturn z")
    split = plan(product, grid=(2, 2))
    blocks = [(s.results[0], s.block_of("x"), s.block_of("y")) for s in split.shards]
    assert blocks[0] == (((0, 0), (5, 6)), ((0, 0), (5, 5)), ((0, 0), (5, 6)))
    assert blocks[3] == (((5, 6), (10, 12)), ((5, 0), (10, 5)), ((0, 6), (5, 12)))
    union = {i for s in split.shards for i in range(s.results[0][0][0], s.results[0][1][0])}
    assert union == set(range(10))


# ---- Polyhedral Types and Index Projection


def test_types_figures_1_to_4_sharding_and_fusing_linear_and_relu() -> None:
    module = structir.parse(
        f"@R.function\ndef main({LINEAR}):\n    return R.nn.relu(R.add(R.matmul(x, w), b))\n"
    )
    rng = np.random.default_rng(0)
    x, w, b = rng.normal(size=(10, 6)), rng.normal(size=(6, 4)), rng.normal(size=4)
    args = [a.astype("float32") for a in (x, w, b)]
    sharded = shard(module, grid=(2, 1))
    assert np.array_equal(sharded(*args), structir.compile(module)["main"](*args))
    assert sharded.plan(*args).shards[1].block_of("x") == ((5, 0), (10, 6))
    function = main_of(LINEAR, LINEAR_BODY)
    calls = [binding.value for binding in function.bindings()]
    specs = [call.op.definition.index_spec(call) for call in calls]
    for before, after in ((0, 1), (1, 2)):
        producing = (specs[before].statements[0], specs[before].statements[0].writes[0])
        consuming = (specs[after].statements[0], specs[after].statements[0].reads[0])
        relation = fusion(specs[before], producing, specs[after], consuming).relation
        assert relation is FusionRelation.INLINE


OPERATOR = """
@R.function
def main(x: R.Tensor((4, 6), "float64"), w: R.Tensor((6, 3), "float64")):
    return R.call_pure_packed("tests.operator", x, w, sinfo_args=R.Tensor((4, 3), "float64"),
                              index="x[i, k], w[k, j] -> y[i, j]")
"""


def test_types_figure_5_and_operator_figures_1_and_2_shards_of_an_unknown_operator() -> None:
    blocks: list[tuple] = []

    def operator(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        blocks.append((x.shape, w.shape))
        return x @ w

    register_extern("tests.operator", operator)
    x, w = np.arange(24.0).reshape(4, 6), np.arange(18.0).reshape(6, 3)
    sharded = shard(structir.parse(OPERATOR), grid=(2, 3))
    assert sharded(x, w).tolist() == (x @ w).tolist()
    assert set(blocks) == {((2, 6), (6, 1))}  # nothing else is known of it


def test_types_figure_6_index_counting() -> None:
    call = main_of(LINEAR, LINEAR_BODY).bindings()[0].value
    assert execution_cost(call).axes == ("i", "j", "k")  # batch, out, in


def test_types_figures_7_to_10_strides_over_batch() -> None:
    function = main_of(LINEAR, LINEAR_BODY)
    x = projections(function)["lhs"]
    assert (x.matrix, x.shape) == (((1, 0), (0, 0)), (1, 6))
    blocks = required(function, (2, 0), (5, 4), {"batch": 10})
    assert blocks == {"x": ((2, 0), (5, 6)), "w": ((0, 0), (6, 4)), "b": ((0,), (4,))}


def test_types_figures_11_to_14_sharding_over_out() -> None:
    function = main_of(LINEAR, LINEAR_BODY)
    w = projections(function)["rhs"]
    assert (w.matrix, w.shape) == (((0, 0), (0, 1)), (6, 1))
    _, b = projections(function, 1).values()
    assert (b.matrix, b.offset, b.shape) == (((0, 1),), (0,), (1,))
    blocks = required(function, (0, 1), (10, 3), {"batch": 10})
    assert blocks == {"x": ((0, 0), (10, 6)), "w": ((0, 1), (6, 3)), "b": ((1,), (3,))}


def test_types_prod_sum_figures_1_to_3_matmul_as_product_and_sum() -> None:
    params = 'x: R.Tensor((10, 2, 1), "float32"), w: R.Tensor((1, 2, 3), "float32")'
    function = main_of(params, "v = R.multiply(x, w)\ny = R.sum(v, axis=1)\nreturn y")
    lhs, rhs = projections(function).values()
    assert lhs.matrix == ((1, 0, 0), (0, 1, 0), (0, 0, 0))
    assert rhs.matrix == ((0, 0, 0), (0, 1, 0), (0, 0, 1))
    assert required(function, (3, 1), (5, 2)) == {
        "x": ((3, 0, 0), (5, 2, 1)),
        "w": ((0, 0, 1), (1, 2, 2)),
    }


def test_types_sum_dim_figures_1_to_3_partial_reductions() -> None:
    module = structir.parse(
        '@R.function\ndef main(x: R.Tensor((4, 12), "float64")):\n    return R.sum(x, axis=1)\n'
    )
    x = np.arange(48.0).reshape(4, 12)
    sharded = shard(module, grid=(1,), reduce=3)
    assert sharded(x).tolist() == x.sum(1).tolist()
    parts = [s.block_of("x") for s in sharded.plan(x).shards]
    assert parts == [((0, 0), (4, 4)), ((0, 4), (4, 8)), ((0, 8), (4, 12))]


def test_types_figure_15_linear_over_in() -> None:
    module = structir.parse(f"@R.function\ndef main({LINEAR}):\n    return R.matmul(x, w)\n")
    split = plan(module, grid=(1, 1), reduce=2, sizes={"batch": 8})
    assert [(s.block_of("x"), s.block_of("w")) for s in split.shards] == [
        (((0, 0), (8, 3)), ((0, 0), (3, 4))),
        (((0, 3), (8, 6)), ((3, 0), (6, 4))),
    ]


def test_types_matmul_figure_1_linear_as_matmul_and_sum() -> None:
    function = main_of(LINEAR, "v = R.matmul(x, w)\ny = R.add(v, b)\nreturn y")
    assert [b.value.op.name for b in function.bindings()] == ["matmul", "add"]
    v, b = projections(function, 1).values()
    assert (v.matrix, b.matrix) == (((1, 0), (0, 1)), ((0, 1),))


def test_types_prod_sum_figure_4_linear_sharded_over_in() -> None:
    module = structir.parse(f"@R.function\ndef main({LINEAR}):\n    return R.matmul(x, w)\n")
    x, w = np.arange(48.0).reshape(8, 6), np.arange(24.0).reshape(6, 4)
    args = x.astype("float32"), w.astype("float32")
    sharded = shard(module, grid=(1, 1), reduce=3)
    b = np.arange(4.0)
    assert np.array_equal(sharded(*args, b.astype("float32")) + b, x @ w + b)
    with pytest.raises(StructInfoError, match="found add"):  # the bias is added once
        plan(
            structir.parse(f"@R.function\ndef main({LINEAR}):\n    return R.matmul(x, w) + b\n"),
            grid=(1, 1),
            reduce=3,
            sizes={"batch": 8},
        )


def test_types_linear_block_figure_1_linear_not_sharded_over_in() -> None:
    function = main_of(LINEAR, "v = R.matmul(x, w)\ny = R.add(v, b)\nreturn y")
    blocks = required(function, (2, 1), (3, 2), {"batch": 10})
    assert blocks == {"x": ((2, 0), (3, 6)), "w": ((0, 1), (6, 2)), "b": ((1,), (2,))}


def test_types_conv_figure_1_dense_windows() -> None:
    params = 'x: R.Tensor((100, 1, 10, 10), "float32"), f: R.Tensor((128, 1, 3, 3), "float32")'
    conv = main_of(params, "y = R.nn.conv2d(x, f)\nreturn y")
    assert conv.ret_struct_info.dims == (100, 128, 8, 8)
    x = projections(conv)["x"]
    assert [row[2:] for row in x.matrix[2:]] == [(1, 0), (0, 1)]
    assert x.shape[2:] == (3, 3)
    for at, bounds in (((0, 0), (0, 0)), ((1, 0), (1, 0)), ((0, 1), (0, 1))):
        found = required(conv, (0, 0, *at), (1, 1, at[0] + 1, at[1] + 1))["x"]
        assert (found[0][2:], found[1][2:]) == (bounds, tuple(p + 3 for p in bounds))


def test_types_conv_figures_2_and_3_sparse_windows() -> None:
    """Columns j, j + 2, j + 4: even and odd columns of the result read separate views."""
    params = 'x: R.Tensor((1, 1, 6, 10), "float32"), f: R.Tensor((1, 1, 3, 3), "float32")'
    conv = main_of(params, "y = R.nn.conv2d(x, f, dilation=(1, 2))\nreturn y")
    program = program_of(conv)
    x = program.values[conv.params[0]]

    def columns(*at: int) -> set[int]:
        positions = set()
        for j in at:
            block = region((0, 0, 0, j), (1, 1, 1, j + 1))
            (box,) = program.required_regions({program.result: block})[x].boxes
            positions |= set(box.axes[3].elements())
        return positions

    assert columns(0) == {0, 2, 4} and columns(1) == {1, 3, 5}
    assert columns(0, 2, 4) == {0, 2, 4, 6, 8} and columns(1, 3, 5) == {1, 3, 5, 7, 9}


# ---- Exploring Tensor Block Sharding Feasibility


AFFINE = LINEAR_BODY.replace("y = R.nn.relu(z)\nreturn y", "return z")


@pytest.mark.parametrize(
    ("grid", "x", "w"),
    [
        pytest.param((1, 1), ((0, 0), (8, 6)), ((0, 0), (6, 4)), id="figure-1"),
        pytest.param((2, 1), ((4, 0), (8, 6)), ((0, 0), (6, 4)), id="figure-2-batch"),
        pytest.param((1, 2), ((0, 0), (8, 6)), ((0, 2), (6, 4)), id="figure-3-nodes"),
        pytest.param((2, 2), ((4, 0), (8, 6)), ((0, 2), (6, 4)), id="index-figures-1-and-2"),
    ],
)
def test_sharding_linear(grid: tuple[int, int], x: tuple, w: tuple) -> None:
    module = structir.parse(f"@R.function\ndef main({LINEAR}):\n" + AFFINE.replace("\n", "\n    "))
    split = plan(module, grid=grid, sizes={"batch": 8})
    last = split.shards[-1]
    assert (last.block_of("x"), last.block_of("w")) == (x, w)
    cells = [(i, j) for s in split.shards for (a, b), (c, d) in [s.results[0]]
             for i in range(a, c) for j in range(b, d)]  # fmt: skip
    assert sorted(cells) == [(i, j) for i in range(8) for j in range(4)]  # each of them once


def test_sharding_linear_axial_figure() -> None:
    """Sharded over m: products of parts, and a sum over the new dimension of the parts."""
    module = structir.parse(f"@R.function\ndef main({LINEAR}):\n    return R.matmul(x, w)\n")
    split = plan(module, grid=(1, 1), reduce=3, sizes={"batch": 8})
    parts = [(s.block_of("x")[0][1], s.block_of("x")[1][1]) for s in split.shards]
    assert parts == [(0, 2), (2, 4), (4, 6)]


def test_sharding_convolution_figures_1_to_3() -> None:
    params = 'x: R.Tensor((1, 1, 12), "float32"), f: R.Tensor((1, 1, 3), "float32")'
    dense = main_of(params, "y = R.nn.conv1d(x, f)\nreturn y")
    halo = shared(dense, (0, 0, 0), (1, 1, 2), 2)["x"]
    assert (halo.kind, halo.shared_box) == ("halo", 2)
    sparse = main_of(params, "y = R.nn.conv1d(x, f, dilation=2)\nreturn y")
    # even and odd elements, sliced first, are two dense convolutions
    even = main_of(params, """
        e = R.strided_slice(x, axes=[2], begin=[0], end=[12], strides=[2])
        y = R.nn.conv1d(e, f)
        return y
    """)  # fmt: skip
    x, f = np.arange(12.0, dtype="float32").reshape(1, 1, 12), np.ones((1, 1, 3), "float32")
    both = [structir.interpret(structir.ir.IRModule({"main": g}), "main", x, f)
            for g in (sparse, even)]  # fmt: skip
    assert both[0][..., ::2].tolist() == both[1].tolist()
    assert shared(even, (0, 0, 0), (1, 1, 1), 2)["x"].kind == "halo"


def test_sharding_strided_windows_share_nothing() -> None:
    params = 'x: R.Tensor((1, 1, 9), "float32"), f: R.Tensor((1, 1, 2), "float32")'
    conv = main_of(params, "y = R.nn.conv1d(x, f, strides=3)\nreturn y")
    assert shared(conv, (0, 0, 0), (1, 1, 1), 2)["x"].kind == "disjoint"


def test_sharding_monoids_of_reductions() -> None:
    for name, expected in (("sum", 66.0), ("max", 11.0), ("min", 0.0), ("prod", 0.0)):
        module = structir.parse(
            f'@R.function\ndef main(x: R.Tensor((12,), "float64")):\n    return R.{name}(x)\n'
        )
        assert shard(module, grid=(), reduce=4)(np.arange(12.0)).item() == expected


def test_sharding_statistics_as_partial_sums_and_reduce_figures() -> None:
    """`wrap` is x and x * x, the monoid adds, and `unwrap` is the standard deviation."""
    module = structir.parse("""
@R.function
def main(x: R.Tensor((12,), "float64")):
    s = R.sum(x)
    p = R.multiply(x, x)
    q = R.sum(p)
    mean = R.divide(s, R.const(12.0, "float64"))
    second = R.divide(q, R.const(12.0, "float64"))
    return R.sqrt(R.subtract(second, R.multiply(mean, mean)))
""")
    cuts = {"p": 0, "s": "s_0", "q": "s_0"}
    report = search(module, workers=4, mesh=(4,), stages=1, cuts=cuts)
    states = {choice.unit.name: choice.states[0] for choice in report.choices}
    assert str(states["s"]) == str(states["q"]) == "partial(sum)"
    x = np.arange(12.0) ** 1.5
    np.testing.assert_allclose(report(x), x.std(), rtol=1e-12)


def test_sharding_random_numbers_are_those_of_their_index() -> None:
    """A one-shot generator has the seed and the index of the sample as its key."""
    module = structir.parse("""
@R.function
def main(x: R.Tensor((12,), "float64"), seed: R.Tensor((), "float64")):
    r = R.sin((R.arange(0, 12, 1, "float64") + seed) * 78.233) * 43758.5453
    return x * 0.25 * (r - R.floor(r))
""")
    x, seed = np.ones(12), np.array(345.0)
    whole = structir.compile(module)["main"](x, seed)
    assert len(set(whole.tolist())) == 12
    sharded = shard(module, grid=(5,))
    assert sharded(x, seed).tolist() == whole.tolist()
    assert sharded.plan(x, seed).shards[1].block_of("x") == ((2,), (4,))


# ---- Range projection maps

RANGE = Projection(((1, 0), (0, 1), (1, 1)), (10, 20, 30), (4, 4, 1))


def test_ranges_identity_and_diagonal() -> None:
    diagonal = Projection(((1, 0, 0), (0, 2, 0), (0, 0, 3)), (0, 0, 0), (4, 4, 1))
    assert diagonal.box((1, 1, 1), (2, 2, 2)) == ((1, 2, 3), (5, 6, 4))


def test_ranges_apply_to_a_point() -> None:
    assert RANGE.box((5, 6), (6, 7)) == ((15, 26, 41), (19, 30, 42))


def test_ranges_apply_to_a_range() -> None:
    start, stop = RANGE.box((5, 6), (7, 8))
    assert start == (15, 26, 41)
    assert tuple(b - a for a, b in zip(start, stop, strict=True)) == (5, 5, 3)


def test_ranges_formatted_projection() -> None:
    projection = Projection(((1, 1, 0), (0, 1, 1)), (2, 3), (4, 4))
    assert projection.box((0, 0, 0), (1, 1, 1)) == ((2, 3), (6, 7))


def test_ranges_of_a_scalar() -> None:
    assert Projection((), (), ()).box((0, 0, 0), (1, 1, 1)) == ((), ())
