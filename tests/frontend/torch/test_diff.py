"""`aten.diff` with all of its arguments, compared with NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.frontend.torch import from_pt2
from tests.frontend.torch.written import archive, meta, node, program, symbol

DTYPES = ("float32", "int64", "bool", "int32")


@st.composite
def cases(draw):
    """The count, the axis, dtypes, and the sizes of what is joined along the axis."""
    joined = st.none() | st.integers(0, 3)
    return {
        "n": draw(st.integers(0, 4)),
        "axis": draw(st.integers(-2, 1)),
        "dtype": draw(st.sampled_from(DTYPES)),
        "sizes": [draw(joined), draw(st.integers(0, 5)), draw(joined)],
        "dynamic": draw(st.booleans()),
    }


def operand(size, axis, dtype):
    rng = np.random.default_rng(size)
    sizes = [2, 2]
    sizes[axis] = size
    return rng.integers(0, 4, sizes).astype(dtype)


def exported(case, operands, wanted):
    """The program of a call; where it is dynamic, the first axis of `x` has a symbolic size."""
    given = {k: k for k, v in operands.items() if v is not None}
    values = {k: meta(*operands[k].shape, dtype=case["dtype"]) for k in given}
    values["y"] = meta(*wanted.shape, dtype=case["dtype"])
    if case["dynamic"] and case["axis"] % 2:
        for name in values:
            values[name]["sizes"][0] = {"as_expr": {"expr_str": symbol("s0"), "hint": None}}
    args = {"self": "x"} | {k: k for k in given if k != "x"}
    call = node("aten.diff.default", "y", n=case["n"], dim=case["axis"], **args)
    return program([call], values, list(given), ["y"], s0=(2, None))


@given(cases())
@settings(max_examples=60)
def test_differences(case):
    axis, count = case["axis"], case["n"]
    names = ("prepend", "x", "append")
    operands = {
        k: None if s is None else operand(s, axis, case["dtype"])
        for k, s in zip(names, case["sizes"], strict=True)
    }
    joined = {k: v for k, v in operands.items() if v is not None}
    whole = np.concatenate(list(joined.values()), axis) if count else joined["x"]
    wanted = np.diff(whole, count, axis)
    module = from_pt2(archive(exported(case, operands, wanted)))
    found = np.asarray(structir.interpret(module, "main", *joined.values()))
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_differences_of_one_element_of_a_dynamic_axis():
    call = node("aten.diff.default", "y", self="x", prepend="p")
    values = {"x": meta(symbol("s0")), "p": meta(1), "y": meta(symbol("s0"))}
    module = from_pt2(archive(program([call], values, ["x", "p"], ["y"], s0=(2, None))))
    run = structir.compile(module)["main"]
    for length in (1, 2, 5):
        x = np.arange(length, dtype="float32") ** 2
        wanted = np.diff(x, prepend=np.float32(3))
        np.testing.assert_array_equal(run(x, np.full(1, 3, "float32")), wanted)
