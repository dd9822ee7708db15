"""Regions through functions: tuples, branches, constants, opaque calls and sizes; and ops with
index reads, scans or scatters.
"""

import pytest

import structir
from structir.errors import StructInfoError
from structir.ir import Function, IRModule, Var
from structir.ir.dims import Sym
from structir.projections.axis_kinds import axis_kinds
from structir.projections.boxes import NOTHING, region, whole
from structir.projections.program import Program, program_of
from structir.projections.regions import dependence
from tests.projections.op_specs import spec_of, tensor


def function(text: str) -> Function:
    module: IRModule = structir.parse(text)
    return module.functions["main"]


def required_bounds(program: Program, fn: Function, *boxes: object) -> dict[str, object]:
    """Returns the bounds of each parameter that blocks of the results require."""
    results = program.result if isinstance(program.result[0], tuple) else (program.result,)
    blocks = {key: box for key, box in zip(results, boxes, strict=True) if box}
    regions = program.required_regions(blocks)
    return {
        var.name: regions.get(program.values[var], NOTHING).bounds
        for var in fn.params
        if program.values[var] is not None
    }


PAIRS = """
@R.function
def main(x: R.Tensor((6, 4), "float32"), y: R.Tensor((6, 4), "float32")):
    pair = R.tuple(x, y)
    first = pair[0]
    a = R.exp(first)
    b = R.add(a, y)
    parts = R.split(b, indices_or_sections=2, axis=0)
    c = parts[1]
    return (a, c)
"""


def test_tuples_and_several_results() -> None:
    fn = function(PAIRS.replace("R.tuple(x, y)", "(x, y)"))
    program = program_of(fn)
    block = region((0, 1), (2, 3))
    assert required_bounds(program, fn, block, NOTHING) == {"x": ((0, 1), (2, 3)), "y": None}
    assert required_bounds(program, fn, NOTHING, block) == {
        "x": ((3, 1), (5, 3)),
        "y": ((3, 1), (5, 3)),
    }


BRANCH = """
@R.function
def main(x: R.Tensor((6,), "float32"), y: R.Tensor((6,), "float32"), c: R.Tensor((), "bool")):
    if c:
        a = R.exp(x)
        out = a
    else:
        b = R.flip(y, axis=0)
        out = b
    return out
"""


def test_a_conditional_requires_both_branches_and_the_condition() -> None:
    fn = function(BRANCH)
    regions = required_bounds(program_of(fn), fn, region((0,), (2,)))
    assert regions == {"x": ((0,), (2,)), "y": ((4,), (6,)), "c": ((), ())}


EXTERN = """
@R.function
def main(x: R.Tensor((6, 4), "float32"), y: R.Tensor((6, 4), "float32")):
    a = R.call_packed("outside", x, sinfo_args=(R.Tensor((6, 4), "float32"),))
    b = R.add(a, y)
    return b
"""


def test_external_functions_read_everything() -> None:
    fn = function(EXTERN)
    program = program_of(fn)
    regions = program.required_regions({program.result: region((0, 0), (1, 2))})
    x, y = (regions[program.values[p]] for p in fn.params)
    assert (x.bounds, x.exact) == (((0, 0), (6, 4)), False)
    assert (y.bounds, y.exact) == (((0, 0), (1, 2)), True)


SYMBOLIC = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m", 3), "float32")):
    n = T.int64()
    m = T.int64()
    a = R.matmul(x, w)
    b = R.nn.softmax(a, axis=-1)
    return b
"""


def symbols(fn: Function) -> tuple[Sym, ...]:
    return tuple(next(iter(d.terms))[0] for d in fn.params[0].struct_info.dims)


def test_sizes_by_variable() -> None:
    fn = function(SYMBOLIC)
    program = program_of(fn, dict(zip(symbols(fn), (5, 7), strict=True)))
    assert required_bounds(program, fn, region((2, 0), (4, 1))) == {
        "x": ((2, 0), (4, 7)),
        "w": ((0, 0), (7, 3)),
    }


def test_sizes_by_name() -> None:
    fn = function(SYMBOLIC)
    by_name = program_of(fn, {"n": 5, "m": 7})
    assert by_name.shapes[by_name.result] == (5, 3)


def test_a_missing_size_is_an_error() -> None:
    fn = function(SYMBOLIC)
    with pytest.raises(StructInfoError, match="symbolic dim `m`"):
        program_of(fn, {symbols(fn)[0]: 5})


def test_an_unknown_shape_is_an_error() -> None:
    text = SYMBOLIC.replace('R.Tensor(("m", 3), "float32")', 'R.Tensor(dtype="float32", ndim=2)')
    fn = function(text)
    with pytest.raises(StructInfoError, match="regions of `w`"):
        program_of(fn, dict(zip(symbols(fn), (5, 7), strict=True)))


def test_values_other_than_tensors_have_no_elements() -> None:
    text = EXTERN.replace('x: R.Tensor((6, 4), "float32")', "x: R.Object")
    program = program_of(function(text))
    assert program.params[0] is None
    required = program.required_regions({program.result: region((0, 0), (1, 1))})
    assert program.params[1] in required


def test_tensors_of_unknown_shape_are_errors() -> None:
    text = EXTERN.replace('x: R.Tensor((6, 4), "float32")', "x: R.Tensor")
    with pytest.raises(StructInfoError, match="regions of `x`"):
        program_of(function(text))


def test_affected_regions() -> None:
    fn = function(SYMBOLIC)
    program = program_of(fn, dict(zip(symbols(fn), (5, 7), strict=True)))
    x = program.values[fn.params[0]]
    regions = program.affected_regions({x: region((2, 1), (3, 2))})
    assert regions[program.result].bounds == ((2, 0), (3, 3))


def test_many_bindings_need_no_recursion() -> None:
    lines = [f"    a{k + 1} = R.exp(a{k})" for k in range(3000)]
    head = '@R.function\ndef main(a0: R.Tensor((8,), "float32")):\n'
    fn = function(head + "\n".join(lines) + "\n    return a3000\n")
    assert required_bounds(program_of(fn), fn, region((2,), (5,))) == {"a0": ((2,), (5,))}


def bounds(spec: object, *box: object) -> list[object]:
    return [r.bounds for r in dependence(spec).required_regions(region(*box))]


def test_scans_grow_along_their_axis() -> None:
    spec = spec_of("cumsum", (6, 4), axis=0)
    assert bounds(spec, (2, 1), (4, 2)) == [((0, 1), (4, 2))]
    assert axis_kinds(spec) == ("scan", "parallel")


def test_an_index_read_from_data_may_be_any() -> None:
    spec = spec_of("take", (9, 4), tensor(3, dtype="int64"), axis=0)
    table, ids = dependence(spec).required_regions(region((1, 2), (2, 4)))
    assert (table.bounds, table.exact) == (((0, 2), (9, 4)), False)
    assert (ids.bounds, ids.exact) == (((1,), (2,)), True)
    assert axis_kinds(spec) == ("parallel", "parallel")


def test_whole_axes() -> None:
    assert bounds(spec_of("nn.softmax", (4, 6), axis=1), (1, 2), (2, 3)) == [((1, 0), (2, 6))]
    assert axis_kinds(spec_of("sort", (4, 6))) == ("parallel", "whole")
    assert (
        axis_kinds(spec_of("scatter_elements", (4, 5), tensor(2, 5, dtype="int64"), (2, 5)))[0]
        == "whole"
    )


def test_a_rolled_axis_reads_two_intervals() -> None:
    (regions,) = dependence(spec_of("roll", (8,), 3, 0)).required_regions(region((1,), (5,)))
    assert (regions.bounds, regions.needed, regions.dense) == (((0,), (8,)), 4, False)


def test_row_major_indices_are_split() -> None:
    (regions,) = dependence(spec_of("flatten", (4, 6))).required_regions(region((3,), (20,)))
    assert (regions.bounds, regions.needed, regions.exact) == (((0, 0), (4, 6)), 17, True)


def test_overwritten_elements_do_not_depend_on_the_base() -> None:
    spec = spec_of("slice_scatter", (8, 4), (3, 4), 2, 5, 1, axis=0)
    base, new = dependence(spec).required_regions(region((1, 0), (5, 2)))
    assert (base.bounds, base.exact) == (((1, 0), (2, 2)), True)
    assert new.bounds == ((0, 0), (3, 2))
    assert dependence(spec).affected_regions(region((2, 0), (4, 1)), 0) == (NOTHING,)
    assert dependence(spec).affected_regions(region((1, 0), (4, 1)), 0)[0].bounds == (
        (1, 0),
        (2, 1),
    )


def test_an_empty_region_requires_nothing() -> None:
    assert dependence(spec_of("matmul", (3, 0), (0, 4))).required_regions(whole((3, 4))) == (
        NOTHING,
        NOTHING,
    )


def test_an_unused_parameter() -> None:
    fn = function(BRANCH.replace("R.exp(x)", "R.flip(y, axis=0)"))
    assert isinstance(fn.params[0], Var)
    assert required_bounds(program_of(fn), fn, region((0,), (2,)))["x"] is None
