"""Boxes for symbolic sizes contain the required regions at every size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structir.ir.dims import as_sym, sym
from structir.projections.boxes import region
from structir.projections.dim_boxes import DimBox, required_boxes, whole_box
from structir.projections.regions import dependence
from structir.projections.spec import IndexSpec
from tests.projections.op_specs import spec_of, tensor

N, M = sym("n"), sym("m")
SIZES = (as_sym(N), as_sym(M))

SPECS = {
    "add": lambda: spec_of("add", (N, M), (M,)),
    "matmul": lambda: spec_of("matmul", (N, 5), (5, M)),
    "flip": lambda: spec_of("flip", (N, M), 1),
    "sum": lambda: spec_of("sum", (N, M), axis=[1], keepdims=True),
    "softmax": lambda: spec_of("nn.softmax", (N, M), axis=-1),
    "conv": lambda: spec_of("nn.conv1d", (1, 2, N), (3, 2, 3), padding=1),
    "concat": lambda: spec_of("concat", [(N, 3), (M, 3)], axis=0),
    "pad": lambda: spec_of("nn.pad", (N, M), [1, 1, 0, 2]),
    "flatten": lambda: spec_of("flatten", (N, M)),
    "repeat": lambda: spec_of("repeat", (N, M), 2, axis=0),
    "cumsum": lambda: spec_of("cumsum", (N, M), axis=0),
    "take": lambda: spec_of("take", (N, M), tensor(4, dtype="int64"), axis=0),
}


@pytest.mark.parametrize("name", SPECS)
@given(data=st.data())
def test_boxes_contain_the_regions(name: str, data: st.DataObject) -> None:
    spec: IndexSpec = SPECS[name]()
    sizes = dict(zip(SIZES, [data.draw(st.integers(3, 6)) for _ in SIZES], strict=True))
    dependency = dependence(spec, sizes)
    shape = dependency.results[0]
    start = [data.draw(st.integers(0, n - 1)) for n in shape]
    stop = [data.draw(st.integers(a + 1, n)) for a, n in zip(start, shape, strict=True)]
    boxes = required_boxes(spec, DimBox(tuple(start), tuple(stop)))
    for box, found in zip(boxes, dependency.required_regions(region(start, stop)), strict=True):
        if found:
            assert box is not None
            assert found.within(region(*box.at(sizes)))


def test_a_block_of_rows() -> None:
    t = sym("t")
    left, right = required_boxes(SPECS["matmul"](), DimBox((t, 0), (t + 4, M)))
    assert right == whole_box((5, M))
    assert left is not None
    assert left.at({as_sym(t): 2, **dict(zip(SIZES, (9, 7), strict=True))}) == ((2, 0), (6, 5))
