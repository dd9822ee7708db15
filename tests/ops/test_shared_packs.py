"""Einsum with several row variables in one operand: the ranks of all operands determine them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir.module import IRModule
from structir.opdef.pack_systems import RankEquation, determined_ranks
from structir.projections.maps import Projection, of_result
from structir.projections.spec import IndexSpec
from tests.projections.op_specs import spec_of

PACKS = "abcd"
ANY = 'R.Tensor(dtype="float64")'


def program(subscripts: str, shapes: list[str], result: str = "") -> IRModule:
    params = ", ".join(f"x{k}: {shape}" for k, shape in enumerate(shapes))
    operands = "".join(f"x{k}, " for k in range(len(shapes)))
    call = f'R.einsum(({operands}), "{subscripts}")'
    body = f"    y: {result} = {call}\n    return y\n" if result else f"    return {call}\n"
    return structir.parse(f"@R.function\ndef main({params}) -> {ANY}:\n{body}")


@st.composite
def einsums(draw: st.DrawFn) -> tuple[str, str, list[tuple[int, ...]]]:
    """Returns subscripts of row variables, the same for NumPy, and shapes of the operands."""
    ranks = {pack: draw(st.integers(0, 2)) for pack in PACKS}
    letters = {pack: "".join(f"{chr(97 + 2 * k + n)}" for n in range(ranks[pack]))
               for k, pack in enumerate(PACKS)}  # fmt: skip
    size = {letter: draw(st.integers(1, 3)) for text in letters.values() for letter in text}
    subsets = st.lists(st.sampled_from(PACKS), min_size=1, max_size=3, unique=True)
    terms = draw(st.lists(subsets, min_size=2, max_size=5))
    used = list(dict.fromkeys(pack for term in terms for pack in term))
    out = draw(st.lists(st.sampled_from(used), unique=True))
    ours = "; ".join(" ".join(f"*{p}" for p in term) for term in terms)
    theirs = ",".join("".join(letters[p] for p in term) for term in terms)
    subscripts = f"{ours} -> {' '.join(f'*{p}' for p in out)}"
    shapes = [tuple(size[c] for p in term for c in letters[p]) for term in terms]
    return subscripts, f"{theirs}->{''.join(letters[p] for p in out)}", shapes


@settings(max_examples=60, deadline=None, derandomize=True)
@given(einsums())
@pytest.mark.filterwarnings("ignore:.*cannot prove the annotation")
def test_the_rank_of_the_result_determines_further_row_variables(
    case: tuple[str, str, list[tuple[int, ...]]],
) -> None:
    subscripts, letters, shapes = case
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    wanted = np.einsum(letters, *arrays)
    infos = [f'R.Tensor({shape}, "float64")' for shape in shapes]
    result = f'R.Tensor({wanted.shape}, "float64")'
    module = structir.infer(program(subscripts, infos, result))
    *inputs, output = subscripts.replace("->", ";").split(";")
    ranks = [*[len(shape) for shape in shapes], wanted.ndim]
    equations = [
        RankEquation(tuple(term.replace("*", "").split()), rank)
        for term, rank in zip([*inputs, output], ranks, strict=True)
    ]
    packs = {pack for equation in equations for pack in equation.packs}
    known = determined_ranks(equations)
    if known is None or known.keys() != packs:
        return
    np.testing.assert_allclose(structir.interpret(module, "main", *arrays), wanted, atol=1e-12)
    np.testing.assert_allclose(structir.compile(module)["main"](*arrays), wanted, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*cannot prove the annotation")
def test_names_of_written_axes_are_unused() -> None:
    shapes = ['R.Tensor((2, 3, 4), "float64")', 'R.Tensor((5, 3, 4), "float64")']
    text = "*o i1 *i; *b i1 *i -> *b *o"
    module = structir.infer(program(text, shapes, 'R.Tensor((5, 2), "float64")'))
    assert "o1 i1 i_1; b1 i1 i_1 -> b1 o1" in str(module)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(einsums())
def test_row_variables_equal_numpy_where_the_ranks_determine_them(
    case: tuple[str, str, list[tuple[int, ...]]],
) -> None:
    subscripts, letters, shapes = case
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    try:
        actual = structir.interpret(program(subscripts, [ANY] * len(shapes)), "main", *arrays)
    except ShapeMismatchError as error:
        assert "ambiguous ranks" in str(error)
        return
    np.testing.assert_allclose(actual, np.einsum(letters, *arrays), atol=1e-12)


TRIANGLE = "*a *b; *b *c; *a *c -> *c *a"
SHAPES = [(2, 3, 4), (4, 5), (2, 3, 5)]
TYPES = [f'R.Tensor({shape}, "float64")' for shape in SHAPES]


@pytest.mark.parametrize("types", [TYPES, [ANY] * 3])
def test_a_cycle_of_row_variables_runs_compiled(types: list[str]) -> None:
    arrays = [np.random.default_rng(k).standard_normal(s) for k, s in enumerate(SHAPES)]
    actual = structir.compile(program(TRIANGLE, types))["main"](*arrays)
    np.testing.assert_allclose(actual, np.einsum("abc,cd,abd->dab", *arrays), atol=1e-12)


def test_a_cycle_of_row_variables_is_differentiated() -> None:
    arrays = [np.random.default_rng(k).standard_normal(s) for k, s in enumerate(SHAPES)]
    module = program("*a *b; *b *c; *a *c ->", TYPES)
    gradients = structir.passes.Gradient()(module)
    _, actual = structir.compile(gradients)["main_adjoint"](*arrays)
    expected = np.einsum("cd,abd->abc", *arrays[1:])
    np.testing.assert_allclose(actual[0], expected, atol=1e-12)


def projections_of(spec: IndexSpec) -> list[Projection | None]:
    """Returns the projection from the result to each operand."""
    (statement,) = spec.statements
    return [of_result(spec, statement, statement.writes[0], read) for read in statement.reads]


def test_a_cycle_of_row_variables_has_an_index_projection() -> None:
    projections = [
        projections_of(spec_of("einsum", SHAPES, subscripts))
        for subscripts in (TRIANGLE, "abc,cd,abd->dab")
    ]
    assert None not in projections[0]
    assert projections[0] == projections[1]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=3), min_size=1, max_size=3), st.data())
def test_determined_ranks_equal_those_of_exhaustive_search(
    terms: list[list[str]], data: st.DataObject
) -> None:
    equations = [RankEquation(tuple(t), data.draw(st.integers(0, 4))) for t in terms]
    packs = sorted({pack for term in terms for pack in term})
    assignments = [dict(zip(packs, r, strict=True)) for r in product(range(5), repeat=len(packs))]
    solutions = [
        ranks
        for ranks in assignments
        if all(sum(ranks[p] for p in e.packs) == e.total for e in equations)
    ]
    common = {p: {s[p] for s in solutions} for p in packs}
    expected = {p: min(ranks) for p, ranks in common.items() if len(ranks) == 1}
    assert determined_ranks(equations) == (expected if solutions else None)


def test_ranks_without_a_solution_are_rejected() -> None:
    shapes = [f'R.Tensor({shape}, "float64")' for shape in [(2, 3), (3, 4), (2,)]]
    with pytest.raises(DiagnosticError, match="expected ranks that satisfy"):
        program(TRIANGLE, shapes)


def test_ambiguous_ranks_are_reported_by_name() -> None:
    module = program("*o *i; *b *i -> *b *o", [ANY, ANY])
    with pytest.raises(ShapeMismatchError, match=r"expected one rank for \*o, \*i, \*b"):
        structir.interpret(module, "main", np.ones((2, 3)), np.ones((4, 3)))


def test_messages_name_numbers_by_unused_index_variables() -> None:
    with pytest.raises(DiagnosticError) as error:
        program("5 i *s -> i *s", ['R.Tensor((4, 2, 3), "float64")'])
    assert "operands_0[j : 5, i, *s]" in str(error.value)
