"""Proofs at any rank: instances treat the axes of a row alike, and others are rejected."""

from __future__ import annotations

import attrs
import pytest

import structir
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.proving.equations import ResultEquation
from structir.proving.ranks import RankInstance
from structir.proving.terms import ApplyTerm, ElementTerm, Fold, ScalarTerm, SizeTerm
from tests.proving.test_prover import program

ROWS = (
    'x: R.Tensor(("*s", "n"), "float32"), y: R.Tensor(("*t", "n"), "float32"), '
    'z: R.Tensor(("*s", "n"), "float32"), w: R.Tensor(("v", "d"), "float32"), '
    'i: R.Tensor(("*s",), "int64")'
)
TWICE = "R.negative(R.negative(x))"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("R.multiply(x, z)", "R.multiply(z, x)"),
        ("R.sum(R.sum(x, axis=-1))", "R.sum(x)"),
        ("R.max(R.add(x, z))", "R.max(R.add(z, x))"),
        ("R.add(R.sum(x), R.sum(y))", "R.add(R.sum(y), R.sum(x))"),
        (f"R.expand_dims({TWICE}, axis=0)", "R.expand_dims(x, axis=0)"),
        (f"R.sort({TWICE}, axis=-1)", "R.sort(x, axis=-1)"),
        (f"R.nn.softmax({TWICE})", "R.nn.softmax(x)"),
        ("R.add(R.take(w, i, axis=0), 1.0)", "R.add(1.0, R.take(w, i, axis=0))"),
    ],
)
def test_a_proof_holds_at_any_rank(before: str, after: str) -> None:
    (verdict,) = structir.prove(program(ROWS, before), program(ROWS, after))
    assert verdict.proof is not None and "of any rank" in str(verdict), str(verdict)
    assert verdict.proof.check()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"R.add({TWICE}, y)", "R.add(x, y)"),  # rows of different lengths are aligned
        (f"R.flip({TWICE}, axis=0)", "R.flip(x, axis=0)"),  # one axis of the row
        (f"R.permute_dims({TWICE})", "R.permute_dims(x)"),  # in another order
    ],
)
def test_other_programs_are_proved_at_small_ranks_only(before: str, after: str) -> None:
    (verdict,) = structir.prove(program(ROWS, before), program(ROWS, after))
    assert verdict.kind != "refuted" and "of any rank" not in str(verdict)


S, N, S0, S1 = Sym("s"), Sym("n"), Sym("s0"), Sym("s1")
ROW, J, K, I0, I1, J0 = (Sym(name) for name in ("i", "j", "k", "i0", "i1", "j0"))


def size(symbol: Sym) -> Dim:
    return dims.as_dim(symbol)


def x(*index: Sym) -> ScalarTerm:
    return ElementTerm("x", tuple(map(size, index)), "float32")


GENERAL = ResultEquation("r", ((ROW, size(S)), (J, size(N))), x(ROW, J), x(ROW, J))
SPECIAL_LOOPS = ((I0, size(S0)), (I1, size(S1)), (J0, size(N)))
SPECIAL = ResultEquation("r", SPECIAL_LOOPS, x(I0, I1, J0), x(I0, I1, J0))
OTHER_LOOPS = ((I0, size(S1)), (I1, size(S0)), (J0, size(N)))


def is_instance(special: ResultEquation, general: ResultEquation = GENERAL) -> bool:
    return RankInstance(general, special, {S: (S0, S1)}).check()


def test_an_instance_has_all_axes_of_a_row_in_order() -> None:
    assert is_instance(SPECIAL)
    assert not is_instance(attrs.evolve(SPECIAL, left=x(I1, I0, J0)))
    assert not is_instance(attrs.evolve(SPECIAL, right=x(I0, J0)))
    assert not is_instance(attrs.evolve(SPECIAL, right=x(J0, I0, I1)))
    assert not is_instance(attrs.evolve(SPECIAL, loops=OTHER_LOOPS))
    assert not is_instance(attrs.evolve(SPECIAL, left=ElementTerm("y", (), "float32")))


def test_one_axis_of_a_row_is_no_value() -> None:
    general = attrs.evolve(GENERAL, left=SizeTerm(size(ROW), "float32"))
    assert not is_instance(attrs.evolve(SPECIAL, left=SizeTerm(size(I0), "float32")), general)
    count = attrs.evolve(GENERAL, left=SizeTerm(size(S), "float32"))
    product = SizeTerm(size(S0) * size(S1), "float32")
    assert is_instance(attrs.evolve(SPECIAL, left=product), count)
    assert not is_instance(attrs.evolve(SPECIAL, left=SizeTerm(size(S0), "float32")), count)


def test_reductions_over_a_row_reduce_all_of_its_axes() -> None:
    general = Fold("sum", ((K, size(S)),), x(K, J), "float32")
    whole = Fold("sum", ((K, size(S0)), (ROW, size(S1))), x(K, ROW, J0), "float32")
    part = Fold("sum", ((K, size(S0)),), x(K, I1, J0), "float32")
    equation = attrs.evolve(GENERAL, left=general)
    assert is_instance(attrs.evolve(SPECIAL, left=whole), equation)
    assert not is_instance(attrs.evolve(SPECIAL, left=part), equation)
    other = ApplyTerm("exp", (whole,), "float32")
    assert not is_instance(attrs.evolve(SPECIAL, left=other), equation)


def test_a_dtype_variable_stands_for_all_dtypes() -> None:
    params = 'x: R.Tensor(("*s",), "\'T"), y: R.Tensor(("*s",), "\'T")'
    (verdict,) = structir.prove(program(params, "R.add(x, y)"), program(params, "R.add(y, x)"))
    assert verdict.kind == "proved"
    pair = program(params, "R.subtract(R.add(x, y), y)"), program(params, "x")
    assert structir.prove(*pair, refute=False)[0].kind == "not decided"
