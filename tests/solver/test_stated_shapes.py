"""Tests of `structir.solver.Solver`: shapes and conditions stated as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structir.errors import ParseError, StructInfoError, StructIRError
from structir.solver import Solver

MATMUL = "*s m k; *s k n -> *s m n"


def test_public_methods_are_shape_require_and_why() -> None:
    assert [name for name in dir(Solver) if name[0] != "_"] == ["require", "shape", "why"]


def test_sizes_and_row_variables_are_inferred_in_both_directions() -> None:
    solver = Solver()
    solver.shape("x", ("*batch", "n", 4))
    solver.shape("w", ("*batch", "k", "m"))
    solver.require(MATMUL, "x", "w", "y")
    assert solver.shape("y") == ("*batch", "n", "m")
    assert solver.shape("y", (2, 3, "_", 8)) == (2, 3, "n", 8)
    assert solver.shape("w") == (2, 3, 4, 8)
    assert solver.shape("x") == (2, 3, "n", 4)


def test_two_declarations_of_a_tensor_are_unified() -> None:
    solver = Solver()
    solver.shape("x", ("*s", "n"))
    assert solver.shape("x", (2, "*t", "n + 1", 3)) == (2, "*t", 4, 3)
    solver.shape("y", ("*s",))
    assert solver.shape("y") == (2, "*t", 4)


@given(st.lists(st.sampled_from([1, 3, "n", "*s", "2 * n + 1", "4:rgb"]), max_size=4))
def test_an_inferred_shape_can_be_declared(axes: list[int | str]) -> None:
    solver = Solver()
    shape = solver.shape("x", axes)
    assert shape == tuple(axes)
    assert Solver().shape("x", shape) == shape


def test_conditions_determine_sizes() -> None:
    solver = Solver()
    solver.shape("x", ("n", "*s"))
    solver.require("n == 4 * k, k >= 3")
    solver.require("n <= 12")
    assert solver.shape("x") == (12, "*s")


def test_elements_of_a_row_variable_are_counted() -> None:
    solver = Solver()
    solver.require("elements(*s, 3) == 12")
    assert solver.shape("x", ("*s",)) == ("*s",)
    assert solver.shape("x", ("n",)) == (4,)
    with pytest.raises(StructInfoError):
        Solver().require("elements(5, n) == 12")


def test_a_contradiction_shows_a_minimal_set_of_statements_and_has_no_effect() -> None:
    solver = Solver()
    solver.shape("x", ("n", 4))
    solver.shape("y", (9,))
    solver.require("n >= 5")
    with pytest.raises(StructInfoError) as error:
        solver.shape("x", (3, "_"))
    notes = [note.text for note in error.value.diagnostics[0].notes]
    assert notes == ["shape('x', ('n', 4))", "require('n >= 5')", "shape('x', (3, '_'))"]
    assert solver.shape("x", (6, "_")) == (6, 4)


def test_a_contradicting_relation_declares_no_tensor() -> None:
    solver = Solver()
    solver.shape("x", (2,))
    with pytest.raises(StructInfoError):
        solver.require("a b -> a", "x", "y")
    with pytest.raises(StructIRError, match="no tensor named 'y'"):
        solver.shape("y")


def test_why_lists_the_statements_that_determine_a_name() -> None:
    solver = Solver()
    solver.shape("unrelated", (7,))
    solver.shape("x", ("*batch", "n"))
    solver.require("*s a -> *s", "x", "y")
    solver.shape("y", (2, 3))
    statements = ["shape('y', (2, 3))", "require('*s a -> *s', 'x', 'y')"]
    assert solver.why("*batch") == statements
    assert set(solver.why("x")) == {*statements, "shape('x', ('*batch', 'n'))"}
    assert solver.why("n") == []
    with pytest.raises(StructIRError, match="no tensor, size or row variable named 'q'"):
        solver.why("q")


def test_names_of_a_signature_are_its_own() -> None:
    solver = Solver()
    solver.shape("x", ("n",))
    solver.require("n -> n", "z", "y")
    solver.shape("z", (5,))
    assert solver.shape("x") == ("n",)


@pytest.mark.parametrize("axes", ["n m", (1.5,), (-1,), ("n +",), ("",), ("*3",), ("*s:rgb",)])
def test_invalid_axes_are_rejected(axes: object) -> None:
    with pytest.raises(ParseError):
        Solver().shape("x", axes)  # type: ignore[arg-type]


@pytest.mark.parametrize("statement", ["n", "n +", "elements(*s) >= 2", "a < b < c"])
def test_invalid_conditions_are_rejected(statement: str) -> None:
    with pytest.raises(ParseError):
        Solver().require(statement)


def test_a_signature_relates_all_of_its_tensors() -> None:
    with pytest.raises(StructInfoError, match="expected 3 tensors by the signature, found 2"):
        Solver().require(MATMUL, "x", "y")


def test_ragged_axes_and_labels_are_unified() -> None:
    solver = Solver()
    solver.shape("x", (10, "*", "3:rgb"))
    solver.require("~s; ~s -> ~s", "x", "y", "z")
    assert solver.shape("z", ("a", "b", "c")) == (10, "*", "3:rgb")
    with pytest.raises(StructInfoError, match="rgb"):
        solver.shape("z", (10, "*", "3:hsv"))
    with pytest.raises(StructInfoError):
        solver.shape("x", (10, 5, 3))
