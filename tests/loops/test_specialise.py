"""Versions of kernels for one value of a size."""

import pytest

from structir.loops.primitives import find_primitive
from structir.loops.schedule.loop_tree import prepared
from structir.loops.schedule.refusal import ScheduleError
from tests.loops.refused import HEAD, symbols_of
from tests.loops.running import arguments, parsed, run

SOURCE = """
    row = T.zeros((m + 1,), "float32")
    for i in range(n):
        for j in range(x.shape[1]):
            row[j] = row[j] + x[i, j]
            out[i, m - 1 - j] = row[j]
"""


def test_a_size_is_a_number_in_its_version() -> None:
    naive = prepared(parsed(HEAD + SOURCE.strip("\n")))
    with pytest.raises(ScheduleError):
        find_primitive("split")(naive, "j", 2, "exact")
    kernel = find_primitive("specialise")(naive, "m", 4)
    kernel = find_primitive("split")(kernel, "j", 2, "exact")
    kernel = find_primitive("unroll")(kernel, "j")
    assert "for j_0 in range(0, 4, 2)" in str(kernel)
    for m in (3, 4):
        sizes = dict(zip(symbols_of(naive), (3, m), strict=True))
        arrays = arguments(naive, sizes, 1)
        assert run(kernel, arrays, sizes)[0].tolist() == run(naive, arrays, sizes)[0].tolist()
