"""Dims: simplification preserves values, proofs are sound, and printed dims parse back."""

import copy
import gc
import pickle
from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from structir.errors import DiagnosticError
from structir.ir import dim_proofs, dims
from structir.ir.dims import Dim
from structir.ir.polynomial import opaque_atom
from tests.ir.dim_trees import (
    NAMES,
    SYMS,
    Tree,
    by_sym,
    dim_of,
    points,
    small_trees,
    tree_of_text,
    trees,
    value_of,
)

n, m, k, b, s, c = map(dims.sym, "nmkbsc")
thorough = settings(max_examples=80)


def built(tree: Tree) -> Dim:
    """Converts a tree to a dim; rejects a tree that always divides by zero."""
    try:
        return dim_of(tree)
    except DiagnosticError:
        assume(False)
        raise


@thorough
@given(trees(), points)
def test_simplified_dims_have_the_value_of_the_expression(
    tree: Tree, sample: list[dict[str, int]]
) -> None:
    dim = built(tree)
    for point in sample:
        value = value_of(tree, point)
        if value is not None:
            assert dims.evaluate(dim, by_sym(point)) == value, dims.text(dim)


def test_every_small_expression_has_its_value_and_keeps_its_bounds() -> None:
    sample = [{"n": a, "m": b} for a, b in [(0, 0), (1, 0), (0, 1), (1, 2), (2, 1), (3, 3), (7, 4)]]
    for tree in small_trees():
        try:
            dim = dim_of(tree)
        except DiagnosticError:
            continue
        low, high = dims.bounds(dim)
        for point in sample:
            value = value_of(tree, point)
            if value is not None:
                assert dims.evaluate(dim, by_sym(point)) == value, dims.text(dim)
                assert (low is None or low <= value) and (high is None or value <= high)


@thorough
@given(trees(), points)
def test_bounds_hold(tree: Tree, sample: list[dict[str, int]]) -> None:
    low, high = dims.bounds(built(tree))
    for point in sample:
        value = value_of(tree, point)
        if value is not None:
            assert low is None or low <= value
            assert high is None or value <= high


def related(tree: Tree) -> st.SearchStrategy[Tree]:
    """Generates trees related to a tree: equal rewrites, almost equal ones, and unrelated ones."""
    shifts = st.integers(-2, 2).map(lambda shift: ("+", tree, ("int", shift)))
    rewritten = [
        ("-", ("+", tree, ("var", "n")), ("var", "n")),
        ("+", ("*", ("//", tree, ("int", 3)), ("int", 3)), ("%", tree, ("int", 3))),
        ("*", ("//", tree, ("int", 2)), ("int", 2)),
        ("-", ("+", tree, ("var", "m")), ("min", tree, ("var", "m"))),
        ("max", tree, ("var", "m")),
        ("-", ("int", 0), ("//", ("-", ("int", 0), tree), ("int", 1))),
    ]
    return st.one_of(shifts, st.sampled_from(rewritten), trees())


pairs = trees(5).flatmap(lambda tree: st.tuples(st.just(tree), related(tree)))


@thorough
@given(pairs, points)
def test_equal_is_never_wrong(pair: tuple[Tree, Tree], sample: list[dict[str, int]]) -> None:
    known = dims.equal(built(pair[0]), built(pair[1]))
    for first, second in values_of(pair, sample):
        assert known is None or known == (first == second)


@thorough
@given(pairs, points)
def test_at_least_is_never_wrong(pair: tuple[Tree, Tree], sample: list[dict[str, int]]) -> None:
    known = dims.at_least(built(pair[0]), built(pair[1]))
    for first, second in values_of(pair, sample):
        assert known is None or known == (first >= second)


def values_of(pair: tuple[Tree, Tree], sample: list[dict[str, int]]) -> list[tuple[int, int]]:
    both = [(value_of(pair[0], point), value_of(pair[1], point)) for point in sample]
    return [(first, second) for first, second in both if first is not None and second is not None]


@thorough
@given(trees())
def test_text_reads_back(tree: Tree) -> None:
    dim = built(tree)
    again = dim_of(tree_of_text(dims.text(dim)))
    assert again == dim or dims.equal(again, dim), f"{dims.text(dim)} became {dims.text(again)}"


@thorough
@given(trees(), points)
def test_python_text_computes_the_value(tree: Tree, sample: list[dict[str, int]]) -> None:
    code = compile(dims.python_text(built(tree)), "dim", "eval")
    for point in sample:
        value = value_of(tree, point)
        if value is not None:
            assert eval(code, {}, dict(point)) == value


@thorough
@given(trees(), st.dictionaries(st.sampled_from(NAMES), trees()), points)
def test_substitution_commutes_with_evaluation(
    tree: Tree, replacements: Mapping[str, Tree], sample: list[dict[str, int]]
) -> None:
    values = {SYMS[name]: built(replacement) for name, replacement in replacements.items()}
    try:
        substituted = dims.substitute(built(tree), values)
    except DiagnosticError:
        assume(False)
        raise
    for point in sample:
        inner = {name: value_of(replacement, point) for name, replacement in replacements.items()}
        if any(value is None or value < 0 for value in inner.values()):
            continue  # a variable is never negative
        value = value_of(tree, point | {k: v for k, v in inner.items() if v is not None})
        if value is not None:
            assert dims.evaluate(substituted, by_sym(point)) == value


@thorough
@given(trees(), trees(), points)
def test_exact_quotient_undoes_a_product(
    first: Tree, second: Tree, sample: list[dict[str, int]]
) -> None:
    left, right = built(first), built(second)
    assume(right != 0)
    quotient = dims.exact_quotient(left * right, right)
    if not any([atom.interval == (0, 1) for atom in opaque_factors(right)]):
        assert quotient == left
    elif quotient is not None:  # the product has no redundant factors: `n * min(n, 1)` is `n`
        for point in sample:
            value = value_of(first, point)
            if value is not None and value_of(second, point):
                assert dims.evaluate(quotient, by_sym(point)) == value


def opaque_factors(dim: Dim) -> list[dims.Opaque]:
    """Returns the functions that are factors of a term of a dim."""
    terms = dim.terms if isinstance(dim, dims.Poly) else ()
    return [atom for monomial in terms for atom in monomial if isinstance(atom, dims.Opaque)]


@thorough
@given(trees(), st.sampled_from(NAMES))
def test_linear_splits_a_dim(tree: Tree, name: str) -> None:
    dim, variable = built(tree), SYMS[name]
    parts = dims.linear(dim, variable)
    if parts is not None:
        coefficient, rest = parts
        assert coefficient * dims.as_dim(variable) + rest == dim
        assert variable not in dims.syms(coefficient) | dims.syms(rest)


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        ((n * c * 4) // 4, n * c),
        ((b * s * c * 64) // (c * 64), b * s),
        ((4 * n + 6) // 4, n + 1),
        ((4 * n + 6) % 4, 2),
        ((n // 2) // 3, n // 6),
        ((n + 1) // 2 // 3, (n + 1) // 6),
        ((n // 2 + 1) // 3, (n + 2) // 6),
        (n * k * m, m * n * k),
        ((n % 3) % 2 + n % 6 % 3, n % 3 % 2 + n % 3),
        (dims.dim_max(n, dims.dim_min(n, m)), n),
        ((2 * n + 6) // 4, (n + 1) // 2 + 1),
        ((4 * n + m) // 4, n + m // 4),
        ((n * m + k) // m, n + k // m),
        ((n * m + k) % m, k % m),
        ((b * (s + 1) * c) // ((s + 1) * c), b),
        ((n * m) // (n * k), m // k),
        ((5 * n) % 4, n % 4),
        ((n % 12) % 4, n % 4),
        ((n % 4) // 4, 0),
        (n // 1, n),
        (n % 1, 0),
        (n // (n + 1), 0),
        (n % (n + 1), n),
        (-(-n // 1), n),
        (dims.ceildiv(4 * n, 4), n),
        (dims.ceildiv(n, -1), -n),
        (dims.dim_max(n, 0), n),
        (dims.dim_max(n, n + 3), n + 3),
        (dims.dim_min(n, n // 2), n // 2),
        (n * dims.dim_min(n, 1), n),
        (n * dims.dim_min(n, m, 1), n * dims.dim_min(m, 1)),
        (n * m * dims.dim_min(n * m, 1), n * m),
        (n * dims.dim_min(n + m, 1), n),
        (n * dims.dim_min(dims.dim_max(n, m), 1), n),
        (dims.dim_min(n, 1) * dims.dim_min(n, 1), dims.dim_min(n, 1)),
        (dims.compare("<", n, m) * dims.compare("<", n, m), dims.compare("<", n, m)),
        (dims.dim_max(dims.dim_max(n, m), n), dims.dim_max(m, n)),
        (dims.dim_min(3, dims.dim_min(n, 7)), dims.dim_min(n, 3)),
        (dims.select(dims.compare("<", n, 0), m, k), k),
        (dims.select(dims.compare("<", n, m), 1, 0), dims.compare(">", m, n)),
        (dims.compare("==", 2 * n, 2 * m + 1), 0),
        (dims.compare(">=", n, n - 1), 1),
        ((n + 1) * 4 - 4 * n, 4),
        (n * True, n),
    ],
)
def test_simplifies(dim: Dim, expected: Dim) -> None:
    assert dim == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((n + 3) * 4, 4 * n + 12, True),
        ((n + 3) * 4, 4 * n + 3, False),
        (n * 4, 4 * m + 2, False),
        (n + 1, 0, False),
        (n, 0, None),
        (n, m, None),
        (n * m, m * n, True),
        (n, n - 1, False),
        (n // 2 + n // 2, n // 2 * 2, True),
        (n // 2 * 2, n, None),
        ((n + 2) // 2, n // 2 + 1, True),
        (n % 4 + n // 4 * 4, n, True),
        (n // m * m + n % m, n, True),
        (-(-n // 4), (n + 3) // 4, True),
        ((n + 1) // 2 + n // 2, n, True),
        (n // 2 + n % 2 * 7, n // 2 + n % 2 * 7 - 1, False),
        (n % 4, 5, False),
        (n % 4, 3, None),
        (dims.dim_max(n, m) + dims.dim_min(n, m), n + m, True),
        (dims.dim_max(n, 4), dims.dim_max(4, n), True),
        (dims.dim_max(n, 4), 3, False),
        (dims.select(dims.compare("<", n, 4), n, 4), dims.dim_min(n, 4), True),
        (n * n % 2, n % 2, True),
        (n * (n + 1) % 2, 0, True),
        (n // 14, 0, None),  # what is true of small sizes alone is not proved
        (n % 15 // 14, 0, None),
        (dims.compare("==", m, n + 14), 0, None),
        (dims.compare("<", n + 14, m) * dims.compare("<", m, n + 16), 0, None),
        (dims.compare("<", n + 14, m) * dims.compare("<", m, n + 15), 0, True),
    ],
)
def test_equal(first: Dim, second: Dim, expected: bool | None) -> None:
    assert dims.equal(first, second) is expected
    assert dims.equal(second, first) is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (n, 0, True),
        (n, 1, None),
        (n - 1, n, False),
        (n, n // 2, True),
        (n // 2, n // 3, True),
        (dims.dim_max(n, 4), 3, True),
        (dims.dim_max(n, m), m, True),
        (n // 2, n, None),
        (n % 4, 4, False),
        (n * m, 0, True),
        (n * m, n, None),
    ],
)
def test_at_least(first: Dim, second: Dim, expected: bool | None) -> None:
    assert dims.at_least(first, second) is expected


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        (1 + 2 * n + n * m, "n * m + 2 * n + 1"),
        (m + n - 3, "n + m - 3"),
        (2 - n, "-n + 2"),
        (-(n // 4), "-(n // 4)"),
        (-n // 4, "-n // 4"),
        (n // 4 * 4 + n % 4, "4 * (n // 4) + n % 4"),
        (m - n // 4, "m - n // 4"),
        ((n + 1) // (m + 2), "(n + 1) // (m + 2)"),
        (2 * n // 3, "2 * n // 3"),
        (n // (m * k), "n // (m * k)"),
        (n % (m // 2), "n % (m // 2)"),
        (m % 5 % 3, "m % 5 % 3"),
        (dims.dim_max(4, n), "T.max(n, 4)"),
        (dims.select(dims.compare("<", n, 4), n, m), "T.if_then_else(n < 4, n, m)"),
        (m * dims.compare("<", n, 4) + 1, "m * (n < 4) + 1"),
    ],
)
def test_text(dim: Dim, expected: str) -> None:
    assert dims.text(dim) == expected
    assert repr(dim) == expected


def test_text_of_an_integer_and_with_other_names() -> None:
    assert dims.text(4) == "4"
    assert dims.text(n // 2 + m, lambda variable: f"{variable.name}_1") == "m_1 + n_1 // 2"


def test_python_text_is_plain() -> None:
    dim = dims.select(dims.compare("<", n, 4), dims.dim_max(n, m), dims.dim_min(n, m))
    assert dims.python_text(dim) == "(max(n, m) if n < 4 else min(n, m))"


def test_text_is_independent_of_earlier_dims() -> None:
    x, y = dims.sym("x"), dims.sym("y")
    first = dims.text(y // 2 * (x // 2))
    kept = x // 3  # an atom made earlier than its sibling below
    assert first == "(x // 2) * (y // 2)"
    assert dims.text(x // 2 + kept) == "x // 2 + x // 3"


def test_text_of_a_deep_dim_grows_with_its_depth() -> None:
    deep = n
    for _ in range(60):
        deep = dims.dim_max(deep - 1, m)
    assert dims.text(deep).count("T.max(") == 60


def test_variables_equal_only_themselves() -> None:
    assert dims.sym("n") != dims.sym("n")
    assert dims.equal(dims.sym("n"), dims.sym("n")) is None
    assert n == dims.as_dim(dims.as_sym(n))
    assert copy.deepcopy(n // 2) == n // 2


def test_constants_are_integers() -> None:
    assert type(n - n) is int
    assert type(n * 0) is int
    assert (n + 1).__eq__(1) is False


def test_equal_atoms_are_interned_and_freed_with_their_dims() -> None:
    first, second = dims.as_atom((n + 5) // 7), dims.as_atom((5 + n) // 7)
    assert first is second and first is not None
    order = first.order
    del first, second
    gc.collect()
    assert opaque_atom("floordiv", (n + 5, 7), (0, None)).order != order


def test_a_pickle_keeps_variables_apart_and_together() -> None:
    first, second = pickle.loads(pickle.dumps((n * m + n // 2, n)))
    assert dims.as_sym(second) in dims.syms(first)
    assert dims.as_sym(second) != dims.as_sym(n)
    assert dims.text(first) == dims.text(n * m + n // 2)


def test_key_is_the_same_up_to_renaming() -> None:
    def key(dim: Dim, *variables: Dim) -> object:
        assert isinstance(dim, dims.Poly)
        return dim.key([dims.as_sym(v) for v in variables].index)

    assert key(n * m + n // 2, n, m) == key(k * c + k // 2, k, c)
    assert key(n * m + n // 2, n, m) != key(k * c + k // 2, c, k)
    assert key(n * n, n) != key(n * n * n, n)
    assert key(dims.dim_max(n, m), n, m) == key(dims.dim_max(c, k), k, c)
    assert key(n - m, n, m) != key(m - n, n, m)


def test_other_values_are_rejected_as_sizes() -> None:
    with pytest.raises(TypeError):
        n + "m"  # type: ignore[operator]
    with pytest.raises(TypeError):
        n // 2.5
    with pytest.raises(TypeError):
        n < 3  # type: ignore[operator]  # noqa: B015
    with pytest.raises(DiagnosticError, match="division by zero"):
        n // 0
    with pytest.raises(DiagnosticError, match="division by zero"):
        n % 0
    with pytest.raises(DiagnosticError, match="by zero"):
        dims.evaluate(n // m, {variable: 0 for variable in dims.syms(n * m)})


def test_guarded_division() -> None:
    guarded = dims.select(dims.compare("==", m, 0), 7, n // m)
    variables = {"n": dims.as_sym(n), "m": dims.as_sym(m)}
    assert dims.substitute(guarded, {variables["m"]: 0}) == 7  # type: ignore[dict-item]
    assert dims.evaluate(guarded, {variables["n"]: 3, variables["m"]: 0}) == 7  # type: ignore[dict-item]
    assert dims.equal(guarded, n // m) is not False


def clamped(low: int, dim: Dim, high: int) -> Dim:
    return dims.dim_max(low, dims.dim_min(dim, high))


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        (7, (7, 7)),
        (2 * n + 1, (1, None)),
        (3 - n, (None, 3)),
        (n % 4 * (m % 3), (0, 6)),
        (clamped(-2, n - k, 3) * clamped(-4, m - k, 5), (-12, 15)),
        (clamped(-2, n - k, 3) * n, (None, None)),
        (n // (m + 2), (0, None)),
        (n % 5 // (m + 2), (0, 2)),
        (dims.dim_max(n, 4), (4, None)),
        (dims.dim_min(n, 4), (0, 4)),
        (dims.select(dims.compare("<", n, m), 3, m), (0, None)),
        (n // (m - 3), (None, None)),
    ],
)
def test_bounds(dim: Dim, expected: tuple[int | None, int | None]) -> None:
    assert dims.bounds(dim) == expected


def test_linear() -> None:
    variable = dims.as_sym(n)
    assert variable is not None
    assert dims.linear(n * m + 2 * n + m + 1, variable) == (m + 2, m + 1)
    assert dims.linear(n * n, variable) is None
    assert dims.linear(n // 2, variable) is None
    assert dims.linear(5, variable) == (0, 5)


def test_exact_quotient() -> None:
    assert dims.exact_quotient(6 * n, 4) is None
    assert dims.exact_quotient(n * n - 1, n + 1) == n - 1
    assert dims.exact_quotient(n + 1, m) is None
    assert dims.exact_quotient(0, n) == 0
    assert dims.exact_quotient(n, 0) is None


def test_a_size_nested_too_deeply_is_rejected():
    size, n, value = dims.sym("n"), dims.sym("n"), 5
    for _ in range(100):
        size, value = dims.floordiv(size + n * n, 2) + n, (value + 9) // 2 + 3
    known = {dims.as_sym(n): 3} | {s: 5 for s in dims.syms(size) if s is not dims.as_sym(n)}
    assert dims.evaluate(size, known) == value
    assert dims.text(size).count("//") == 100
    with pytest.raises(
        DiagnosticError, match="size nested too deeply: expected at most 100 nested"
    ):
        dims.floordiv(size + n * n, 3)


def test_text_does_not_depend_on_the_order_of_construction() -> None:
    n, m = dims.sym("n"), dims.sym("m")
    one = dims.dim_min(n, 2) - dims.dim_min(n, m)
    other = -dims.dim_min(m, n) + dims.dim_min(2, n)
    assert dims.text(one) == dims.text(other)


def test_a_condition_that_makes_a_divisor_zero_is_not_proved() -> None:
    m, n, k = dims.sym("m"), dims.sym("n"), dims.sym("k")
    first = dims.compare("==", dims.floormod(m, k), n)
    assert dims.equal(first, dims.compare("==", n + k, n)) is not True
    heads = dims.dim_max(dims.floordiv(k, n), 1)  # sympy compares it with NaN at n = 0
    condition = dims.compare("<=", dims.dim_min(m * k * heads, m * k), n * m * k * heads)
    assert dims.equal(condition, 1) is not True


def test_comparisons_of_quotients_are_proved_without_sympy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dim_proofs.symbolic, "is_zero", lambda _: pytest.fail("sympy is called"))
    x, y = dims.sym("x"), dims.sym("y")
    product = (x // (x // 4)) * (y // (y // 4))
    quarter = dims.compare("<=", 16 * (product // 4), 16 * product)
    assert dims.equal(quarter, 1) is True and dims.equal(quarter, 0) is False
    assert dims.equal(dims.compare(">", 16 * (product // 4), 16 * product), 0) is True
    assert dims.equal(dims.compare("!=", product % 4, 0), 1) is None


def test_samples_have_quotients_other_than_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dim_proofs.symbolic, "is_zero", lambda _: pytest.fail("sympy is called"))
    assert dims.equal(4 * k * (n // 8) * (m // 8), (n // 8) * (m // 8)) is None
