"""Unit tests of the solver: rules, backtracking, defaulting, reasons, unsatisfiable cores."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structir.ir.dims import sym
from structir.ir.polynomial import Dim
from structir.solver.constraints.constraint import (
    Constraint,
    DimEq,
    DimJoin,
    DimLe,
    Divides,
    Ge,
    Label,
    Ne,
    Prod,
    RowEq,
    When,
    Window,
)
from structir.solver.constraints.signature import read_signature
from structir.solver.domains.reasons import Conflict, Origin
from structir.solver.domains.terms import RAGGED, Row, RowVar, ragged, symbol_of
from structir.solver.program.defaulting import close
from structir.solver.program.generalisation import generalise
from structir.solver.program.unsat_core import explain
from structir.solver.solver import ConstraintSolver, Value
from tests.solver.queries import equal

FACT = Origin("fact", "fact")
ADD = read_signature("~s; ~s -> ~s")
EQUAL = read_signature("*s; *s -> *s")


def solver_of(*constraints: Constraint, least: int = 1) -> ConstraintSolver:
    solver = ConstraintSolver(least)
    for constraint in constraints:
        solver.add(constraint, FACT)
    solver.solve()
    return solver


def known(solver: ConstraintSolver, *dims: Dim) -> tuple[Dim, ...]:
    return solver.resolve(dims)  # type: ignore[return-value]


def test_linear_equations_are_solved_together() -> None:
    n, m = sym("n"), sym("m")
    solver = solver_of(DimEq(n * 2 + m * 3, 16), DimEq(n * 2 - m * 3, 4))
    assert known(solver, n, m) == (5, 2)


def test_parity_is_refuted() -> None:
    with pytest.raises(Conflict):
        solver_of(DimEq(sym("n") * 2, sym("m") * 2 + 1))


def test_a_product_with_one_way_to_factor() -> None:
    n, m = sym("n"), sym("m")
    assert known(solver_of(DimEq(n * m, n + m)), n, m) == (2, 2)


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 4), st.integers(0, 3))
def test_windows_contain_the_size_they_come_from(
    size: int, kernel: int, stride: int, pad: int
) -> None:
    span = size + 2 * pad - kernel
    inner = sym("h")
    if span < 0:
        with pytest.raises(Conflict):
            solver_of(Window(sym("y"), size, kernel, stride, 2 * pad, 1))
        return
    solver = solver_of(Window(span // stride + 1, inner, kernel, stride, 2 * pad, 1))
    assert equal(solver, inner, size) is not False
    if stride == 1:
        assert known(solver, inner) == (size,)


def test_a_strided_window_is_not_guessed() -> None:
    inner = sym("h")
    solver = solver_of(Window(4, inner, 3, 2, 0, 1))
    assert known(solver, inner) == (inner,)
    solver.add(Divides(5, inner), FACT)
    solver.solve()
    assert known(solver, inner) == (10,)


def test_windows_of_equal_spans_have_equal_numbers_of_positions() -> None:
    first, second, inner = sym("y"), sym("z"), sym("h")
    windows = [Window(outer, inner, 3, 2, 0, 1) for outer in (first, second)]
    assert equal(solver_of(*windows), first, second) is True


def test_row_variables_around_a_repeated_one_are_empty() -> None:
    middle, left, right = RowVar(), RowVar(), RowVar()
    solver = solver_of(RowEq((middle,), (left, middle, right)))
    assert solver.resolve((left,)) == solver.resolve((right,)) == ()
    with pytest.raises(Conflict, match="ranks"):
        solver_of(RowEq((middle,), (2, middle)))


def test_both_occurrences_of_a_row_variable_are_equal() -> None:
    repeated, n, m = RowVar(), sym("n"), sym("m")
    solver = solver_of(RowEq((repeated, repeated), (2, n, m, 3)))
    assert known(solver, n, m) == (3, 2)


def test_a_size_below_two_different_sizes_is_one() -> None:
    n, m, k = sym("n"), sym("m"), sym("k")
    solver = solver_of(DimLe(n, m), DimLe(m, 4), DimLe(n, k), DimLe(k, 6))
    assert known(solver, n) == (1,)


def test_sizes_that_broadcast_to_each_other_are_equal() -> None:
    n, m = sym("n"), sym("m")
    assert equal(solver_of(DimLe(n, m), DimLe(m, n)), n, m) is True


def test_joins_are_exact_and_commute() -> None:
    n, m, p, q = sym("n"), sym("m"), sym("p"), sym("q")
    solver = solver_of(DimJoin(p, (n, m)), DimJoin(q, (m, n)))
    assert equal(solver, p, q) is True
    assert equal(solver, p, n) is None
    solver.add(Ge(n, 2), FACT)
    solver.solve()
    assert equal(solver, p, n) is True


def test_equal_is_three_valued() -> None:
    n, m = sym("n"), sym("m")
    solver = ConstraintSolver()
    assert equal(solver, n + 1, n + 1) is True
    assert equal(solver, n + 1, n) is False
    assert equal(solver, n, m) is None
    assert equal(solver, n + m, 1) is False


def test_different_and_divisible() -> None:
    n = sym("n")
    solver = solver_of(Divides(4, n), Ge(-n + 9, 0), Ne(n, 4))
    assert known(solver, n) == (8,)


def test_sizes_of_zero_need_a_lower_bound_of_zero() -> None:
    n = sym("n")
    with pytest.raises(Conflict):
        solver_of(DimEq(n + 2, 2))
    assert known(solver_of(DimEq(n + 2, 2), least=0), n) == (0,)
    m = sym("m")
    solver = solver_of(DimEq(n * m, 0), least=0)
    assert known(solver, n, m) == (n, m)  # one of them is 0, and either may be


def test_products_of_rows_cancel() -> None:
    rest = RowVar("s")
    n = sym("n")
    solver = solver_of(Prod((n, rest), (6, rest)))
    assert known(solver, n) == (6,)


def test_pop_undoes_assertions() -> None:
    solver, x, y, z = ConstraintSolver(), Value("x"), Value("y"), Value("z")
    n = sym("n")
    solver.assert_shape(x, (n, 3), Origin("x", "parameter"))
    before = solver.shape(x), len(solver.residual)
    mark = solver.push()
    solver.assert_shape(y, (RowVar("t"), 5, 3), Origin("y", "parameter"))
    solver.apply(EQUAL, [x, y], [z], Origin("op"))
    solver.solve()
    assert solver.shape(x) == (5, 3)
    solver.pop(mark)
    assert (solver.shape(x), len(solver.residual)) == before
    solver.add(DimEq(n, 7), FACT)
    assert solver.shape(x) == (7, 3)


def test_marks_nest() -> None:
    solver, n, m = ConstraintSolver(), sym("n"), sym("m")
    outer = solver.push()
    inner = solver.push()
    solver.pop(inner)
    solver.add(DimEq(n, 3), FACT)
    solver.add(DimEq(m, n + 1), FACT)
    assert known(solver, m) == (4,)
    solver.pop(outer)
    assert known(solver, n, m) == (n, m)


def test_explain_returns_only_relevant_origins() -> None:
    solver = ConstraintSolver()
    x, y, u, z = (Value(name) for name in "xyuz")
    n = sym("n")
    solver.assert_shape(x, (n,), Origin("x", "parameter"))
    solver.assert_shape(y, (4,), Origin("y", "parameter"))
    solver.assert_shape(u, (9,), Origin("u", "parameter"))
    solver.apply(EQUAL, [x, y], [z], Origin("op"))
    labels = {origin.label for origin in solver.explain((n,))}
    assert labels == {"op"}


def test_unsat_core_is_minimal() -> None:
    solver = ConstraintSolver()
    values = {name: Value(name) for name in ("x", "a", "b", "c", "d")}
    solver.assert_shape(values["x"], (sym("n"), 3), Origin("x", "parameter"))
    keep, turn = read_signature("*s -> *s"), read_signature("*s a b -> *s b a")
    solver.apply(keep, [values["x"]], [values["a"]], Origin("op0"))
    solver.apply(turn, [values["x"]], [values["b"]], Origin("op1"))
    solver.apply(keep, [values["b"]], [values["c"]], Origin("op2"))
    solver.apply(keep, [values["a"]], [values["d"]], Origin("op3"))
    with pytest.raises(Conflict) as caught:
        solver.assert_shape(values["c"], (4, 5), Origin("annot:c", "annotation"))
    report = explain(solver, caught.value)
    assert [origin.label for origin in report.culprits] == ["op1", "op2", "annot:c"]
    assert report.minimal
    assert [origin.label for origin in report.premises] == ["x"]
    assert "conflicting shapes" in str(report.diagnostic())


def test_defaulting_uses_the_bound_and_records_the_choice() -> None:
    solver, x, w, y = ConstraintSolver(), Value("x"), Value("w"), Value("y")
    solver.assert_shape(x, (3, 5), Origin("x", "parameter"))
    solver.apply(ADD, [x, w], [y], Origin("op"))
    solver.assert_shape(y, (3, 5), Origin("annot:y", "annotation"))
    assert solver.shape(w) != (3, 5)
    chosen = close(solver, [w])
    assert solver.shape(w) == (3, 5)
    assert {origin.kind for origin in chosen} == {"chosen"}


def test_defaulting_backtracks_from_conflicting_bounds() -> None:
    solver, w, x, y = ConstraintSolver(), Value("w"), Value("x"), Value("y")
    below = read_signature("~s; ~s -> ~s")
    solver.assert_shape(x, (4,), Origin("x", "parameter"))
    solver.apply(below, [w, x], [y], Origin("op"))
    solver.add(Prod(solver.row(w), (RowVar("t"),)), FACT)
    n = sym("n")
    solver.assert_shape(w, (n,), Origin("w", "annotation"))
    solver.add(Ne(n, 4), FACT)
    close(solver, [w])
    assert solver.shape(w) == (1,)


def test_a_solved_function_serves_several_shapes() -> None:
    inner, a, b, r = ConstraintSolver(), Value("a"), Value("b"), Value("r")
    inner.apply(EQUAL, [a, b], [r], Origin("op"))
    inner.solve()
    scheme = generalise(inner, [a, b], [r])
    solver = ConstraintSolver()
    for shape in ((2, 3), (7,)):
        x, y, z = Value("x"), Value("y"), Value("z")
        solver.assert_shape(x, shape, Origin("x", "parameter"))
        solver.apply(scheme, [x, y], [z], Origin("call"))
        assert solver.shape(y) == shape
        assert solver.shape(z) == shape


def test_ragged_axes_equal_themselves_and_nothing_else() -> None:
    n = sym("n")
    assert known(solver_of(DimEq(n, RAGGED)), n) == (RAGGED,)
    with pytest.raises(Conflict):
        solver_of(DimEq(RAGGED, 3))
    with pytest.raises(Conflict):
        solver_of(DimEq(n + 1, RAGGED))
    other = solver_of(DimEq(ragged("len"), ragged("time")))
    assert len(other.store.assumed) == 1  # the lengths must be compared when it runs
    assert solver_of(DimEq(ragged("len"), ragged("len"))).store.assumed == []


def test_unified_axes_unify_their_labels() -> None:
    x, y, z = Value("x"), Value("y"), Value("z")
    first, second = sym("a"), sym("b")
    solver = solver_of(DimEq(first, 3), Label(first, "rgb"), DimEq(second, 3))
    solver.assert_shape(x, (first,), Origin("x", "parameter"))
    solver.assert_shape(y, (second,), Origin("y", "parameter"))
    solver.apply(ADD, [x, y], [z], Origin("op"))
    assert solver.labels(z) == ["rgb"]
    assert solver.labels(y) == ["rgb"]
    with pytest.raises(Conflict, match="rgb"):
        solver.add(Label(second, "hsv"), FACT)


def test_positive_rank_cycles_are_rejected() -> None:
    grown = read_signature("*s -> 1 *s")
    solver, values = ConstraintSolver(), [Value(f"x{k}") for k in range(3)]
    with pytest.raises(Conflict):
        for k, value in enumerate(values):
            made, result = Value(f"g{k}"), Value(f"r{k}")
            solver.apply(grown, [value], [made], Origin(f"grow{k}"))
            following = values[(k + 1) % 3]
            solver.apply(ADD, [made, following], [result], Origin(f"add{k}"))
            solver.apply(EQUAL, [result, following], [Value("e")], Origin(f"same{k}"))
        solver.solve()


def test_order_of_assertions_does_not_matter() -> None:
    n, m = sym("n"), sym("m")
    facts = [DimLe(n, 4), DimLe(n, m), Divides(3, m), Ge(m, 2), Ge(-m + 5, 0)]
    answers = {known(solver_of(*facts[k:], *facts[:k]), n, m) for k in range(len(facts))}
    assert answers == {(1, 3)}


def test_named_variables_are_preferred() -> None:
    named, own = sym("n"), sym("own")
    solver = ConstraintSolver()
    solver.prefer([symbol_of(named)])
    solver.add(DimEq(named, own), FACT)
    assert known(solver, own) == (named,)


def test_when_constraints_wait_for_the_rank() -> None:
    x, y = RowVar("x"), RowVar("y")

    def turned(row: Row, others: tuple[Row, ...]) -> list[Constraint]:
        return [RowEq(others[0], row[::-1])]

    solver = solver_of(When((x,), ((y,),), turned))
    assert solver.resolve((y,)) == (y,)
    solver.add(RowEq((x,), (2, 3)), FACT)
    assert solver.resolve((y,)) == (3, 2)
