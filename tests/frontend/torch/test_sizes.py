"""The sizes that an imported program accepts: those that torch accepts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.errors import (
    DiagnosticError,
    DiagnosticWarning,
    ShapeMismatchError,
    StructIRError,
)
from structir.frontend.torch import from_pt2
from structir.frontend.torch.guards import guard_condition, is_redundant
from structir.ir import dims
from structir.ir.struct_info import PrimStructInfo, TensorStructInfo
from tests.frontend.torch.written import archive, meta, node, program, size, symbol

N, M = symbol("s0"), symbol("s1")


def doubled(rows, guards=(), **ranges):
    """Returns a program of x + x for an x with these rows."""
    nodes = [node("aten.add.Tensor", "y", self="x", other="x")]
    stated = program(nodes, {"x": meta(rows, 3), "y": meta(rows, 3)}, ["x"], ["y"], **ranges)
    return stated | {"guards_code": list(guards)}


def accepted(module, *operands):
    """Returns whether a module runs; checks that interpreter and compiler agree."""
    outcomes = []
    for run in (
        structir.compile(module)["main"],
        lambda *v: structir.interpret(module, "main", *v),
    ):
        try:
            run(*operands)
            outcomes.append(True)
        except ShapeMismatchError:
            outcomes.append(False)
    assert outcomes[0] == outcomes[1]
    return outcomes[0]


def accepted_rows(stated, rows):
    module = from_pt2(archive(stated))
    return [n for n in rows if accepted(module, np.ones((n, 3), "float32"))]


@pytest.mark.parametrize(
    ("least", "most", "wanted"),
    [
        (None, None, [0, 1, 2, 3, 4, 5, 6]),
        (0, None, [0, 1, 2, 3, 4, 5, 6]),
        (1, None, [0, 1, 2, 3, 4, 5, 6]),
        (2, None, [0, 1, 2, 3, 4, 5, 6]),
        (2, 4, [0, 1, 2, 3, 4]),
        (3, None, [3, 4, 5, 6]),
        (4, 5, [4, 5]),
    ],
)
def test_lower_bounds_of_at_most_2_are_not_enforced(least, most, wanted):
    """Checks lower bounds: torch records 2 for each Dim.AUTO, and enforces bounds from 3 on."""
    assert accepted_rows(doubled(N, s0=(least, most)), range(7)) == wanted


def test_ranges_of_derived_sizes_are_enforced():
    stated = doubled(f"Add(Mul(Integer(2), {N}), Integer(1))")
    stated["range_constraints"] = {
        "2*s0 + 1": {"min_val": 5, "max_val": 9},
        "s0": {"min_val": 2, "max_val": 4},
    }
    assert accepted_rows(stated, range(1, 15, 2)) == [5, 7, 9]


def test_ranges_of_numbers_are_enforced():
    nodes = [node("aten.mul.Scalar", "y", self="x", other={"as_sym_int": {"as_name": "n"}})]
    nodes[0]["inputs"][1]["arg"] = {"as_sym_int": {"as_name": "n"}}
    stated = program(nodes, {"x": meta(3), "y": meta(3)}, ["x"], ["y"], s0=(3, 5))
    graph = stated["graph_module"]["graph"]
    graph["sym_int_values"] = {"n": size(N)}
    number = {"as_sym_int": {"as_name": "n"}}
    graph["inputs"].append(number)
    stated["graph_module"]["signature"]["input_specs"].append({"user_input": {"arg": number}})
    module = from_pt2(archive(stated))
    x = np.ones(3, "float32")
    assert [n for n in range(8) if accepted(module, x, n)] == [3, 4, 5]


def test_guards_are_enforced():
    """A program that was exported under a condition gives no results where it is false; a strict
    export names inputs by position."""
    guards = ["(L['flat_args'][0].size()[0] % 2) == 0", "not (L['x'].size()[0] == 6)"]
    assert accepted_rows(doubled(N, guards, s0=(2, None)), range(9)) == [0, 2, 4, 8]


ANALYSIS = [
    "((-1) + L['x'].size()[0]) != 1", "L['x'].size()[0] != 0", "(L['x'].size()[0] // 2) != 1",
    "L['x'].size()[0]*(L['x'].size()[0] // 2) >= 2", "(3 % L['x'].size()[0]) != 0",
]  # fmt: skip


@pytest.mark.parametrize("guard", ANALYSIS)
def test_a_file_enforces_guards_that_may_be_branches(guard):
    """A guard has the form of torch's analysis of reshapes, but a file does not record its
    origin."""
    names = [{"L": {"x": np.empty((n, 3))}} for n in (1, 2, 3)]
    true = [n for n in (1, 2, 3) if eval(guard.replace("size()", "shape"), names[n - 1])]
    assert accepted_rows(doubled(N, [guard]), [1, 2, 3]) == true


@pytest.mark.parametrize("guard", ANALYSIS)
def test_guards_of_torchs_analysis_of_reshapes_are_redundant(guard):
    assert is_redundant(guard)


def test_guards_relate_sizes_of_several_inputs():
    nodes = [node("aten.mm.default", "y", self="x", mat2="z")]
    values = {"x": meta(N, 2), "z": meta(2, M), "y": meta(N, M)}
    stated = program(nodes, values, ["x", "z"], ["y"])
    stated["guards_code"] = ["L['x'].size()[0] < L['z'].size()[1]"]
    module = from_pt2(archive(stated))
    for n in range(1, 4):
        for m in range(1, 4):
            operands = np.ones((n, 2), "float32"), np.ones((2, m), "float32")
            assert accepted(module, *operands) == (n < m)


@pytest.mark.parametrize(
    ("guard", "accepted_sizes"),
    [
        ("L['x'].size()[0] > 1.5", [2, 3, 4]),
        ("math.trunc(0.7*torch.sym_float(L['x'].size()[0])) >= 2", [3, 4]),
    ],
)
def test_guards_with_fractions_are_checked(guard, accepted_sizes):
    assert accepted_rows(doubled(N, [guard]), [1, 2, 3, 4]) == accepted_sizes


@pytest.mark.parametrize(
    "guard",
    ["L['q'].size()[0] == 1", "L['x'].size()[4] == 1", "L['x'].stride()[0] == 3", "1 +",
     "__import__('os')", "L['x'].size()[0] / 2", "1 / 0", "L['x'].size()[0] == 1.5", "(" * 5000,
     "max() == 1", "Mod(3) == 1", "1e999 == 1", "x.size()[0] == 1", "",
     "L['x'].size()[0] == 1 == 1"],
)  # fmt: skip
def test_a_guard_that_cannot_be_checked_is_a_warning(guard):
    with pytest.warns(DiagnosticWarning, match="cannot check the guard .* assuming it holds"):
        module = from_pt2(archive(doubled(N, [guard])))
    assert accepted(module, np.ones((2, 3), "float32"))


def test_rejects_guards_that_are_not_strings():
    for guards in ([3], "x", {"a": 1}):
        with pytest.raises(DiagnosticError):
            from_pt2(archive(doubled(N) | {"guards_code": guards}))


def test_warns_of_a_specialized_size():
    with pytest.warns(DiagnosticWarning, match="specialized axis 0 of x to 4"):
        module = from_pt2(archive(doubled(4, ["L['x'].size()[0] == 4"])))
    assert not accepted(module, np.ones((5, 3), "float32"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_pt2(archive(doubled(4)))


ROWS, COLUMNS, COUNT = dims.sym("rows"), dims.sym("columns"), dims.sym("count")
INPUTS = {
    "x_key_a_0": TensorStructInfo((ROWS, COLUMNS), "float32"),
    "n": PrimStructInfo("int64", value=COUNT),
}


class Sized:
    """An array with the interface that guards use."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def size(self):
        return self.sizes


LEAVES = st.sampled_from(
    ["L['x']['Key a'][0].size()[0]", "L['x']['Key a'][0].size()[1]", "L['n']", "2", "3", "(-1)"]
)
SIZES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({' '.join(t)})"),
        st.tuples(inner, st.sampled_from(["//", "%"]), st.sampled_from("234")).map(
            lambda t: f"({' '.join(t)})"
        ),
        st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
    ),
    max_leaves=4,
)
COMPARISONS = st.tuples(SIZES, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), SIZES).map(
    " ".join
)
GUARDS = COMPARISONS | st.tuples(COMPARISONS, st.sampled_from(["and", "or"]), COMPARISONS).map(
    lambda t: f"({t[0]}) {t[1]} not ({t[2]})"
)


@given(GUARDS, st.tuples(*[st.integers(0, 9)] * 3))
@settings(max_examples=80)
def test_guards_agree_with_python(text, sizes):
    rows, columns, count = sizes
    names = {"L": {"x": {"Key a": [Sized(rows, columns)]}, "n": count}}
    found = guard_condition(text, INPUTS)
    symbols = [dims.as_sym(ROWS), dims.as_sym(COLUMNS), dims.as_sym(COUNT)]
    wanted = bool(eval(text, names))
    assert bool(dims.evaluate(found, dict(zip(symbols, sizes, strict=True)))) == wanted


@pytest.mark.parametrize("index", [0, 2, -1, -3])
def test_elements_of_symbolic_axes_run_in_kernels(index):
    nodes = [node("aten.select.int", "y", self="x", dim=0, index=index)]
    module = from_pt2(archive(program(nodes, {"x": meta(N, 3), "y": meta(3)}, ["x"], ["y"])))
    executable = structir.compile(module)
    for rows in (3, 7):
        x = np.random.default_rng(0).normal(size=(rows, 3)).astype("float32")
        np.testing.assert_array_equal(executable["main"](x), x[index])
    assert not executable.fallbacks
    least = index + 1 if index >= 0 else -index
    for call in (executable["main"], lambda x: structir.interpret(module, "main", x)):
        with pytest.raises(StructIRError):
            call(np.ones((least - 1, 3), "float32"))
