"""Copies of statements: local arrays of their own, and literals in place of variables."""

from random import Random

import pytest

from structir.ir import dims, structural_equal
from structir.loops.primitives import find_primitive
from structir.loops.schedule.loop_tree import loop_tree, prepared
from tests.loops.running import arguments, parsed, run

SOURCE = """
@I.kernel
def f(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):
    for i in range(n):
        row = T.zeros((3,), "float32")
        for j in range(m):
            row[j % 3] = row[j % 3] + x[i, j]
        for k in range(m):
            out[i, k] = row[k % 3]
"""
SPLIT = ("split", "i", 2, "peel")


@pytest.mark.parametrize("steps", [(SPLIT,), (SPLIT, ("unroll", "i"))])
def test_copied_statements_have_local_arrays_of_their_own(
    steps: tuple[tuple[str, ...], ...],
) -> None:
    naive = kernel = prepared(parsed(SOURCE))
    for name, *args in steps:
        kernel = find_primitive(name)(kernel, *args)
    assert len(loop_tree(kernel).arrays) == 1 + len(steps)
    assert structural_equal(parsed(str(kernel)), kernel)
    symbols = [dims.as_sym(dim) for dim in naive.params[0].struct_info.dims]
    for n in (0, 1, 4, 5):
        sizes = dict(zip(symbols, (n, 4), strict=True))
        arrays = arguments(naive, sizes, 1)
        (expected,), (result,) = run(naive, arrays, sizes), run(kernel, arrays, sizes, Random(0))
        assert result.tolist() == expected.tolist()


def test_operators_of_literals_are_folded() -> None:
    source = """
@I.kernel
def f(x: R.Tensor((3,), "float32"), out: R.Tensor((3,), "float32")):
    for i in range(3):
        out[i] = x[i] + T.float32(i & 1) + T.float32(i % 2) * T.float32(max(i, 1))
"""
    naive = prepared(parsed(source))
    kernel = find_primitive("unroll")(naive, "i")
    assert structural_equal(parsed(str(kernel)), kernel)
    arrays = arguments(naive, {}, 1)
    assert run(kernel, arrays, {})[0].tolist() == run(naive, arrays, {})[0].tolist()
