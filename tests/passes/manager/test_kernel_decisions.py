"""Verification of edits of handwritten kernels, which are wrong for rare data only."""

import numpy as np
import pytest

import structir
from structir.ir import IRModule
from structir.passes.manager.decisions import DecisionRecord, changed_decisions
from structir.passes.manager.input_sample import outcome
from tests.passes.manager.wrong_edits import is_caught

PROGRAM = """
@I.kernel
def rows({params}, y: R.Tensor(("n",), "{dtype}")):
    n = T.int64()
    m = T.int64()
    for i in range(0, n):
        t = T.{dtype}(0)
        for j in range(0, m):
            t = t + x[i, j]
        {edited}
        y[i] = t

@R.function
def main({params}):
    n = T.int64()
    y = R.call_kernel(rows, ({names}), out_sinfo=R.Tensor((n,), "{dtype}"))
    return y
"""
SCALAR = ', c: R.Prim("float32")'

# what is wrong: a dtype, statements, and those of the wrong edit
WRONG = {
    "a threshold": ("float32", "if t > 5.0:\n    t = 5.0", "if t > 5.01:\n    t = 5.0"),
    "a tie": ("float32", "if t > 5.0:\n    t = 1.0", "if t >= 5.0:\n    t = 1.0"),
    "one number": ("float32", "if t != 7.0:\n    t = t + 1.0", "t = t + 1.0"),
    "two conditions": (
        "float32",
        "if t > 2.5:\n    if t < 2.75:\n        t = 0.0",
        "if t > 2.75:\n    t = t + 0.0",
    ),
    "a bound": ("float32", "t = max(t, -300.0)", "t = t + 0.0"),
    "a scalar": ("float32", "if c > 9.0:\n    t = 0.0", "if c > 9.1:\n    t = 0.0"),
    "a quotient": ("int32", "t = t // T.int32(7)", "t = (t + T.int32(1)) // T.int32(7)"),
}
RIGHT = {
    "a comparison": ("float32", "if t > 5.0:\n    t = 1.0", "if 5.0 < t:\n    t = 1.0"),
    "a minimum": ("float32", "if t > 5.0:\n    t = 5.0", "t = min(t, 5.0)"),
}


def program(dtype: str, edited: str) -> IRModule:
    scalar = SCALAR if "c > " in edited else ""
    params = f'x: R.Tensor(("n", "m"), "{dtype}"){scalar}'
    indented = edited.replace("\n", "\n        ")
    names = "x, c" if scalar else "x,"
    return structir.parse(PROGRAM.format(params=params, dtype=dtype, edited=indented, names=names))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_edit_of_a_kernel_is_caught(name: str) -> None:
    dtype, before, after = WRONG[name]
    assert is_caught(program(dtype, before), program(dtype, after))


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_edit_of_a_kernel_is_accepted(name: str) -> None:
    dtype, before, after = RIGHT[name]
    assert not is_caught(program(dtype, before), program(dtype, after))


def test_a_kernel_records_decisions_by_data_for_each_element() -> None:
    before, after = (program("float32", f"if t > {c}:\n    t = 1.0") for c in (5.0, 6.0))
    record: DecisionRecord = changed_decisions(before, after, "main")
    result = outcome(before, "main", [np.float32([[1, 2], [3, 4], [2, 3]])], record)
    np.testing.assert_array_equal(result, np.float32([3, 1, 5]))
    (margins,) = record.latest.values()
    assert margins.tolist() == [-2, 2, 0]


def test_an_unchanged_kernel_makes_no_new_decisions() -> None:
    once, again = (program("float32", "t = abs(t)") for _ in range(2))
    assert not changed_decisions(once, again, "main").calls
