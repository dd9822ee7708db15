"""Conversion to and from sympy preserves variables and values, and rejects other expressions."""

import copy
import pickle
import re

import numpy
import pytest
import sympy
from hypothesis import assume, given, settings

from structir.errors import DiagnosticError
from structir.ir import dim_proofs, dims, symbolic
from structir.ir.dims import Dim
from structir.ir.polynomial import opaque
from structir.ir.symbolic import SymVar, from_sympy, is_zero, to_sympy
from tests.ir.dim_trees import SYMS, Tree, by_sym, dim_of, points, trees, value_of

n, m = SymVar("n"), SymVar("m")
N, M = from_sympy(n), from_sympy(m)


@settings(max_examples=60)
@given(trees(), points)
def test_values_survive_the_round_trip(tree: Tree, sample: list[dict[str, int]]) -> None:
    try:
        dim = dim_of(tree)
        expression = to_sympy(dim)
        again = from_sympy(expression)
    except DiagnosticError:  # a division by zero, which sympy may find where we did not
        assume(False)
        raise
    for point in sample:
        value = value_of(tree, point)
        if value is not None:
            assert dims.evaluate(again, by_sym(point)) == value, f"{dim} {expression} {again}"


@settings(max_examples=40)
@given(trees(), points)
def test_sympy_computes_the_value(tree: Tree, sample: list[dict[str, int]]) -> None:
    try:
        expression = to_sympy(dim_of(tree))
    except DiagnosticError:
        assume(False)
        raise
    for point in sample[:2]:
        value = value_of(tree, point)
        if value is not None:
            numbers = {to_sympy(dims.as_dim(SYMS[name])): v for name, v in point.items()}
            assert sympy.sympify(expression).subs(numbers) == value


def test_variables_keep_their_identity() -> None:
    assert to_sympy(N) is n
    assert from_sympy(n) == N
    assert SymVar("n") != n
    assert from_sympy(SymVar("n")) != N
    fresh = dims.sym("x")
    assert from_sympy(to_sympy(fresh)) == fresh


def test_a_variable_prints_its_bare_name() -> None:
    assert str(n // 2 + 1) == "floor(n/2) + 1"
    assert sympy.latex(n) == "n"
    assert sympy.pretty(n + 1) == "n + 1"
    assert n.is_integer and n.is_nonnegative


def test_a_variable_survives_copy_and_pickle() -> None:
    assert copy.deepcopy(n) is n
    variable, expression = pickle.loads(pickle.dumps((n, n + m)))
    assert variable in expression.free_symbols
    assert from_sympy(variable) in (dims.as_dim(s) for s in dims.syms(from_sympy(expression)))


def test_each_plain_symbol_maps_to_one_variable() -> None:
    x = sympy.Symbol("x")
    assert from_sympy(x) == from_sympy(sympy.Symbol("x"))
    assert from_sympy(x) != from_sympy(sympy.Symbol("y"))
    assert to_sympy(from_sympy(x + 1)) == x + 1


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (n // 2, N // 2),
        (n % 5, N % 5),
        (sympy.floor((n + 3) / 4), (N + 3) // 4),
        (sympy.ceiling(n / 4), dims.ceildiv(N, 4)),
        (sympy.ceiling(n / m), -(-N // M)),
        (n**2 * m - 3, N * N * M - 3),
        ((n * m + n) / (m + 1), N),
        (n * (m + 1), N * M + N),
        (sympy.Max(n, m, 4), dims.dim_max(N, M, 4)),
        (sympy.Min(n, m), dims.dim_min(N, M)),
        (sympy.Piecewise((n, n < m), (m, True)), dims.select(dims.compare("<", N, M), N, M)),
        (sympy.Integer(7), 7),
        (True, 1),
        (sympy.floor(n / 2 + sympy.Rational(1, 3)), N // 2),
    ],
)
def test_from_sympy(expression: sympy.Expr, expected: Dim) -> None:
    assert dims.equal(from_sympy(expression), expected)


@pytest.mark.parametrize(
    "dim",
    [
        N // 3 + N * M,
        (N + 1) // M,
        N % (M + 1),
        dims.dim_max(N, M) - 3,
        dims.select(dims.compare("<", N, M), N, 4),
        M * dims.compare("<=", N, M),
        dims.compare("==", N, M),
    ],
)
def test_round_trip(dim: Dim) -> None:
    assert from_sympy(to_sympy(dim)) == dim


@pytest.mark.parametrize(
    "expression",
    [
        n / 2,
        1 / n,
        sympy.Rational(1, 2),
        sympy.Float(2.5),
        sympy.sqrt(n),
        n**m,
        sympy.sin(n),
        sympy.I,
        sympy.oo,
        sympy.Symbol("x", negative=True),
        sympy.Symbol("x", integer=False),
        sympy.Piecewise((n, n < 4)),
        2.5,
        "n",
        None,
    ],
)
def test_other_values_are_rejected_as_sizes(expression: object) -> None:
    message = re.escape(f"expected a size, found {expression}: ")
    with pytest.raises(DiagnosticError, match=message):
        from_sympy(expression)


def test_dims_and_sympy_mix() -> None:
    assert N + m == N + M
    assert m * N == N * M
    assert N // m == N // M
    assert dims.as_dim(n + 1) == N + 1


def test_a_shape_is_integers_and_expressions() -> None:
    shape = symbolic.to_sympy_shape((4, N, N + 1))
    assert shape == (4, n, n + 1)
    assert type(shape[0]) is int


def test_sympy_proves_zero_or_says_that_it_cannot() -> None:
    inner = opaque("min", (N, M), (None, None))
    raw = opaque("max", (N, inner), (None, None)) - N  # as an atom that was never simplified
    assert isinstance(raw, dims.Poly)
    assert is_zero(raw)
    assert isinstance(N // M, dims.Poly)
    assert not is_zero(N // M)


@pytest.mark.parametrize("answer", [True, False])
def test_equal_calls_sympy_last(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    asked = []
    monkeypatch.setattr(dim_proofs.symbolic, "is_zero", lambda dim: asked.append(dim) or answer)
    x = dims.sym("x")
    difference = 7 // x - 3 * (7 // (3 * x)) - 7 // x % 3  # zero, which our own rules do not see
    assert dims.equal(difference, 0) is (True if answer else None)
    assert asked == [difference]


def test_equal_does_not_call_sympy_if_a_sample_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(dim_proofs.symbolic, "is_zero", lambda dim: asked.append(dim) or True)
    assert dims.equal(N // M, M // N) is None
    assert dims.equal(N, dims.dim_min(N, 512)) is None
    assert asked == []


def test_numpy_integers_are_sizes() -> None:
    four = numpy.int64(4)
    assert N + four == four + N == N + 4
    assert N // four == N // 4
    assert type(dims.as_dim(four)) is int
