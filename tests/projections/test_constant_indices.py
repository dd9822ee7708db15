"""Constant indices require their elements, not the whole axis."""

import pytest

import structir
from structir.projections.boxes import region
from structir.projections.program import program_of

CASES = {
    'R.take(x, R.const(3, "int64"), axis=0)': {(3, j) for j in range(5)},
    'R.take(x, R.const([3, 1, 7], "int64"), axis=0)': {(i, j) for i in (1, 3, 7) for j in range(5)},
    'R.take(x, R.const([1, 3, 5], "int32"), axis=0)': {(i, j) for i in (1, 3, 5) for j in range(5)},
    'R.take(x, R.const([4, 4], "int64"), axis=1)': {(i, 4) for i in range(8)},
    'R.gather_nd(x, R.const([[0, 2], [7, 1]], "int64"))': {(0, 2), (7, 1)},
    "R.strided_slice(x, axes=[0], begin=[2], end=[3])": {(2, j) for j in range(5)},
    "R.strided_slice(x, axes=[0, 1], begin=[1, 0], end=[8, 5], strides=[3, 2])": {
        (i, j) for i in (1, 4, 7) for j in (0, 2, 4)
    },
}


@pytest.mark.parametrize("body", CASES)
def test_elements_at_constant_indices(body: str) -> None:
    text = f'@R.function\ndef main(x: R.Tensor((8, 5), "float32")):\n    y = {body}\n    return y\n'
    function = structir.parse(text)["main"]
    program = program_of(function)
    shape = program.shapes[program.result]
    block = region((0,) * len(shape), shape)
    found = program.required_regions({program.result: block})[program.values[function.params[0]]]
    places = {
        (i, j) for b in found.boxes for i in b.axes[0].elements() for j in b.axes[1].elements()
    }
    assert (places, found.exact, program.notes) == (CASES[body], True, ())


def test_a_part_of_the_indices_and_the_affected_results() -> None:
    text = """
@R.function
def main(x: R.Tensor((8, 5), "float32")):
    y = R.take(x, R.const([6, 2, 2], "int64"), axis=0)
    return y
"""
    function = structir.parse(text)["main"]
    program = program_of(function)
    x = program.values[function.params[0]]
    found = program.required_regions({program.result: region((0, 0), (1, 1))})
    assert found[x].bounds == ((6, 0), (7, 1))
    affected = program.affected_regions({x: region((2, 0), (3, 1))})
    assert affected[program.result].bounds == ((1, 0), (3, 1))
