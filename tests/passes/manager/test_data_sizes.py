"""Verification of programs that read sizes from their data."""

import numpy as np
import pytest

import structir
from structir.ir import IRModule
from structir.passes.manager.data_sizes import with_counts, with_shapes
from tests.passes.manager.wrong_edits import is_caught

SHAPE = 'x: R.Tensor(("n",), "float32"), s: R.Tensor((2,), "int64")'
SCALARS = 'x: R.Tensor(("n",), "float32"), h: R.Tensor((), "int64"), w: R.Tensor((), "int64")'
COUNT = 'x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")'
READ = "sh = R.match_cast(R.tensor_to_shape({}), R.Shape([a, b]))\n    return R.exp({})"

# parameters, a program, a right and a wrong edit
PROGRAMS = {
    "a reshape": (
        SHAPE,
        READ.format("s", "R.reshape(x, (a, b))"),
        READ.format("s", "R.permute_dims(R.permute_dims(R.reshape(x, (a, b)), [1, 0]), [1, 0])"),
        READ.format("s", "R.permute_dims(R.reshape(x, (b, a)), [1, 0])"),
    ),
    "a broadcast": (
        SHAPE,
        READ.format("s", "R.broadcast_to(x, (a, b))"),
        READ.format("s", "R.broadcast_to(R.reshape(x, (1, n)), (a, b))"),
        READ.format("s", "R.flip(R.broadcast_to(x, (a, b)), axis=1)"),
    ),
    "scalars": (
        SCALARS,
        READ.format("R.stack([h, w])", "R.reshape(x, (a, b))"),
        READ.format("R.stack([h, w])", "R.reshape(R.reshape(x, (b, a)), (a, b))"),
        READ.format("R.stack([h, w])", "R.permute_dims(R.reshape(x, (b, a)), [1, 0])"),
    ),
    "a count": (
        COUNT,
        'p = R.match_cast(R.nonzero(x), R.Tensor((2, n), "int64"))\n    return y, p',
        'p = R.match_cast(R.nonzero(x), R.Tensor((2, n), "int64"))\n'
        "    return R.negative(R.negative(y)), p",
        'p = R.match_cast(R.nonzero(x), R.Tensor((2, n), "int64"))\n'
        "    return R.reshape(R.permute_dims(y, [1, 0]), (n, m)), p",
    ),
}


def program(params: str, body: str) -> IRModule:
    dims = "".join(f"    {dim} = T.int64()\n" for dim in "nmab" if dim in "nab" or '"m"' in params)
    return structir.parse(f"@R.function\ndef main({params}):\n{dims}    {body}\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_edits_of_programs_with_sizes_from_data_are_compared(name: str) -> None:
    params, *bodies = PROGRAMS[name]
    before, right, wrong = (program(params, body) for body in bodies)
    assert not is_caught(before, right)
    assert is_caught(before, wrong)


def test_shapes_have_as_many_elements_as_an_argument() -> None:
    x, s = np.zeros((2, 3)), np.zeros((2,), np.int32)
    shapes = [tuple(changed[1].tolist()) for changed in with_shapes([x, s], [1], 0)]
    assert shapes[:4] == [(1, 6), (2, 3), (3, 2), (6, 1)]
    assert {a * b for a, b in shapes} == {6, 12, 18}


def test_counts_are_sizes() -> None:
    x = np.float32([[0, 1, 2], [3, 4, 5]])
    counts = [np.count_nonzero(changed[0]) for changed in with_counts([x, 7], [2, 3, 0, 2, 8])]
    assert counts == [2, 3]
