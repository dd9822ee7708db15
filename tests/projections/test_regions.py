"""Regions of random specs compared with dependence measured by NaN: regions contain every
dependency, and exact regions contain nothing else.
"""

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from structir.ir import dims
from structir.ir.dims import Dim, Sym, as_dim
from structir.projections import affine_forms, preimage, row_major
from structir.projections import boxes as boxes_of_regions
from structir.projections import position_sets as indices_of_axes
from structir.projections.boxes import Region, region, region_of
from structir.projections.regions import dependence
from structir.projections.run import run
from structir.projections.scalar_expr import OperandElement
from structir.projections.spec import (
    AccessIndex,
    Condition,
    IndexSpec,
    OperandInfo,
    Read,
    ResultInfo,
    Statement,
    Write,
)


def extreme(index: Dim, index_vars: dict[Sym, int]) -> tuple[int, int]:
    """Returns the least and greatest index over all points."""
    points = np.ndindex(*index_vars.values())
    offsets = [dims.evaluate(index, dict(zip(index_vars, p, strict=True))) for p in points]
    return (min(offsets), max(offsets)) if offsets else (0, 0)


@st.composite
def indices(draw: st.DrawFn, index_vars: dict[Sym, int]) -> Dim:
    """Returns a random index: affine, or with a quotient, a remainder or a clamp."""
    used = draw(st.lists(st.sampled_from(list(index_vars)), max_size=2, unique=True))
    total: Dim = draw(st.integers(-1, 2))
    for index_var in used:
        total = total + as_dim(index_var) * draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
    shape = draw(st.sampled_from(["plain"] * 4 + ["quotient", "remainder", "clamp", "group"]))
    if shape == "quotient":
        return dims.floordiv(total, draw(st.integers(2, 3)))
    if shape == "remainder":
        return dims.floormod(total, draw(st.integers(2, 4)))
    if shape == "clamp":
        return dims.dim_min(dims.dim_max(total, 0), 2)
    if shape == "group" and len(used) == 2:
        return as_dim(used[0]) * index_vars[used[1]] + as_dim(used[1])
    return total


@st.composite
def accesses(draw: st.DrawFn, index_vars: dict[Sym, int], rank: int) -> tuple[AccessIndex, ...]:
    """Returns accesses of axes that may be too short for some points."""
    made = []
    for _ in range(rank):
        index = draw(indices(index_vars))
        low, high = extreme(index, index_vars)
        size = max(1, high + 1 + draw(st.sampled_from([0, 0, 0, -1, 1])))
        made.append(AccessIndex(index, size, inside=low >= 0 and high < size))
    return tuple(made)


@st.composite
def specs(draw: st.DrawFn) -> IndexSpec:
    """Returns one statement with one or two reads, and sometimes a condition."""
    index_vars = {Sym(n): draw(st.integers(1, 4)) for n in "ijkl"[: draw(st.integers(1, 4))]}
    parallel = dict(list(index_vars.items())[: draw(st.integers(1, 3))])
    reduced = tuple(s for s in index_vars if s not in parallel)
    reads = []
    for number in range(draw(st.integers(1, 2))):
        entries = draw(accesses(index_vars, draw(st.integers(1, 2))))
        reads.append(Read(f"x{number}", number, entries))
    if draw(st.booleans()):
        order = draw(st.permutations(list(parallel)))
        target = tuple(AccessIndex(as_dim(s), parallel[s]) for s in order)
    else:
        target = draw(accesses(parallel, draw(st.integers(1, 2))))
    value = OperandElement("x0") if len(reads) == 1 else OperandElement("x0") * OperandElement("x1")
    conditions = ()
    if draw(st.integers(0, 3)) == 0:
        sides = [draw(indices(index_vars)) for _ in range(2)]
        op = draw(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]))
        conditions = (Condition(op, sides[0], sides[1]),)
    write = Write(0, target, value, unique=False)
    statement = Statement(tuple(parallel), reduced, (), tuple(reads), (write,), conditions, "sum")
    operands = [
        OperandInfo(r.name, (k,), tuple(e.size for e in r.entries), "float64")
        for k, r in enumerate(reads)
    ]
    result = ResultInfo("out", tuple(e.size for e in target), "float64")
    return IndexSpec(tuple(operands), (result,), index_vars, (statement,))


def measured(spec: IndexSpec) -> list[np.ndarray]:
    """Returns per operand which results change if an element becomes NaN: result axes first."""
    arrays = [np.ones(o.dims) for o in spec.operands]
    found = []
    for k, array in enumerate(arrays):
        hits = np.zeros((*spec.results[0].dims, *array.shape), bool)
        for place in np.ndindex(*array.shape):
            poisoned = [a.copy() for a in arrays]
            poisoned[k][place] = np.nan
            hits[(..., *place)] = np.isnan(run(spec, poisoned)[0])
        found.append(hits)
    return found


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    starts = [draw(st.integers(0, n - 1)) for n in shape]
    return starts, [draw(st.integers(a + 1, n)) for a, n in zip(starts, shape, strict=True)]


def elements(found: Region, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a region as a boolean array."""
    made = np.zeros(shape, bool)
    for box in found.boxes:
        made[np.ix_(*[list(axis.elements()) for axis in box.axes])] = True
    return made


def block(corners: tuple[list[int], list[int]]) -> tuple[slice, ...]:
    return tuple(slice(a, b) for a, b in zip(*corners, strict=True))


def check(found: Region, want: np.ndarray) -> None:
    """Checks that a region contains the measured elements, and equals them if it is exact."""
    own = elements(found, want.shape)
    assert not (want & ~own).any()
    assert found.count == own.sum()
    if found.exact:
        assert (own == want).all()
    if found.dense:
        assert want[block([list(c) for c in found.bounds])].all()


@settings(max_examples=50)
@given(st.data())
def test_required_elements(data: st.DataObject) -> None:
    spec = data.draw(specs())
    dependency = dependence(spec)
    corners = data.draw(boxes(spec.results[0].dims))
    regions = dependency.required_regions(region(*corners))
    rank = len(spec.results[0].dims)
    for found, hits in zip(regions, measured(spec), strict=True):
        check(found, hits[block(corners)].any(axis=tuple(range(rank))))


@settings(max_examples=50)
@given(st.data())
def test_affected_elements(data: st.DataObject) -> None:
    spec = data.draw(specs())
    dependency = dependence(spec)
    rank = len(spec.results[0].dims)
    for k, hits in enumerate(measured(spec)):
        corners = data.draw(boxes(spec.operands[k].dims))
        hit = hits[(..., *block(corners))].any(axis=tuple(range(rank, hits.ndim)))
        check(dependency.affected_regions(region(*corners), k)[0], hit)


@settings(max_examples=40)
@given(st.data())
def test_regions_of_several_boxes(data: st.DataObject) -> None:
    spec = data.draw(specs())
    dependency, hits = dependence(spec), measured(spec)
    rank = len(spec.results[0].dims)

    def several(shape: tuple[int, ...]) -> tuple[Region, np.ndarray]:
        found = [region(*data.draw(boxes(shape))).boxes[0] for _ in range(2)]
        return region_of(found), elements(Region(tuple(found)), shape)

    asked, there = several(spec.results[0].dims)
    for found, hit in zip(dependency.required_regions(asked), hits, strict=True):
        check(found, hit[there].any(axis=0))
    for k, operand in enumerate(spec.operands):
        asked, there = several(operand.dims)
        check(dependency.affected_regions(asked, k)[0], hits[k][..., there].any(axis=rank))


LIMITS = (
    (indices_of_axes, "SPAN", 3),
    (affine_forms, "POINTS", 1),
    (preimage, "POINTS", 1),
    (boxes_of_regions, "MAX_BOXES", 1),
    (row_major, "MAX_BOXES", 1),
)


@settings(max_examples=40)
@given(st.data())
def test_supersets_where_sets_grow_too_large(data: st.DataObject) -> None:
    with ExitStack() as stack:
        for module, name, value in LIMITS:
            stack.enter_context(patch.object(module, name, value))
        test_required_elements.hypothesis.inner_test(data)
        test_affected_elements.hypothesis.inner_test(data)
