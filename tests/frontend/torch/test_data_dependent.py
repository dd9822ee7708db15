"""Sizes, slice bounds and offsets that are read from tensors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.errors import StructIRError
from structir.frontend.torch import from_pt2
from tests.frontend.torch.written import archive, meta, node, program, size, symbol

NUMBER = "Symbol('u0', integer=True)"
N = symbol("s0")


def scalar(target, name, kind="as_sym_int", **args):
    """Returns a node whose result is a symbolic number or condition."""
    stated = node(target, name, **args)
    stated["outputs"] = [{kind: {"as_name": name}}]
    return stated


def number(name):
    return {"as_sym_int": {"as_name": name}}


def read(nodes, result, numbers=(), conditions=(), **ranges):
    """Returns a program that reads the number `k` from `n` and computes `y` from `x` and `k`."""
    values = {"x": meta(N, 4), "n": meta(dtype="int64"), "y": result}
    item = scalar("aten.item.default", "k", self="n")
    stated = program([item, *nodes], values, ["x", "n"], ["y"], **ranges)
    graph = stated["graph_module"]["graph"]
    graph["sym_int_values"] = {"k": size(NUMBER), **{n: size(e) for n, e in numbers}}
    graph["sym_bool_values"] = {n: size(e) for n, e in conditions}
    return from_pt2(archive(stated))


def both(module):
    """Returns a function that checks that interpreter and compiled code agree."""
    compiled = structir.compile(module)["main"]

    def run(*operands):
        result = structir.interpret(module, "main", *operands)
        np.testing.assert_array_equal(compiled(*operands), result)
        return result

    return run


X = np.arange(20, dtype="float32").reshape(5, 4)
END = f"Add({NUMBER}, Integer(4))"
SUM = scalar("_operator.add", "end", a=number("k"), b=4)
RANGE = read(
    [SUM, node("aten.arange.start", "y", start=number("k"), end=number("end"))],
    meta(4, dtype="int64"),
    [("end", END)],
)
FILL = read(
    [node("aten.full.default", "y", size=[2], fill_value=number("k"))], meta(2, dtype="int64")
)
NUMBERS = {"as_sym_ints": [{"as_name": "k"}]}
ROLL = read([node("aten.roll.default", "y", self="x", shifts=NUMBERS, dims=[0])], meta(N, 4))
TRIANGLE = read([node("aten.tril.default", "y", self="x", diagonal=number("k"))], meta(N, 4))
SIGNED = {
    "range": (both(RANGE), lambda k: np.arange(k, k + 4)),
    "fill": (both(FILL), lambda k: np.full(2, k)),
    "roll": (both(ROLL), lambda k: np.roll(X, k, 0)),
    "triangle": (both(TRIANGLE), lambda k: np.tril(X, k)),
}


@pytest.mark.parametrize("name", SIGNED)
@given(st.integers(-6, 6))
@settings(max_examples=15, deadline=None)
def test_a_number_may_be_negative(name, k):
    run, wanted = SIGNED[name]
    np.testing.assert_array_equal(run(X, np.int64(k)), wanted(k))


def test_slices_from_the_end():
    """Checks `x[k:]` of a negative k, which torch records as a slice of -k rows."""
    length = f"Mul(Integer(-1), {NUMBER})"
    cut = node("aten.slice.Tensor", "y", self="x", dim=0, start=number("k"))
    module = read([cut], meta(length, 4))
    run = both(module)
    for k in (-5, -2, -1):
        np.testing.assert_array_equal(run(X, np.int64(k)), X[k:])


def test_sizes_of_at_least_zero():
    module = read(
        [node("aten.full.default", "y", size={"as_sym_ints": [{"as_name": "k"}, {"as_int": 3}]},
              fill_value=2.5)],
        meta(NUMBER, 3),
        u0=(0, None),
    )  # fmt: skip
    run = both(module)
    for k in (0, 1, 4):
        np.testing.assert_array_equal(run(X, np.int64(k)), np.full((k, 3), 2.5, "float32"))
    with pytest.raises(StructIRError):
        structir.interpret(module, "main", X, np.int64(-1))


def test_conditions_joined_by_python_operators():
    """Checks that `_operator.and_` is not taken for the in-place form of an op."""
    condition = f"And(StrictLessThan({NUMBER}, {N}), GreaterThan({NUMBER}, Integer(0)))"
    nodes = [
        scalar("_operator.and_", "ok", "as_sym_bool", a=number("k"), b=number("k")),
        node("aten._assert_scalar.default", "", assert_msg="x"),
        node("aten.mul.Scalar", "y", self="x", other=number("k")),
    ]
    run = both(read(nodes, meta(N, 4), conditions=[("ok", condition)], u0=(0, None)))
    np.testing.assert_array_equal(run(X, np.int64(3)), X * 3)


def test_a_copy_broadcasts():
    nodes = [node("aten.copy.default", "y", self="x", src="n")]
    np.testing.assert_array_equal(both(read(nodes, meta(N, 4)))(X, np.int64(3)), np.full((5, 4), 3))
