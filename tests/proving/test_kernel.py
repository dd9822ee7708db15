"""The kernel: normal forms keep values, proofs are checked again, and wrong ones are rejected."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from structir.ir import dims
from structir.ir.dim_facts import Facts
from structir.ir.dims import Dim, Sym, as_dim
from structir.proving import kernel as kernel_module
from structir.proving.kernel import ProofKernel
from structir.proving.loops import Chooser
from structir.proving.sums import TooLarge
from structir.proving.terms import (
    ApplyTerm,
    ElementTerm,
    Fold,
    LiteralTerm,
    NonNegative,
    ScalarTerm,
    SizeTerm,
)
from tests.proving.term_values import value_of

N, M = Sym("n"), Sym("m")
ROW, COLUMN = Sym("i"), Sym("j")
LOOPS = ((ROW, as_dim(N) + 1), (COLUMN, as_dim(M) + 1))


class TermGenerator:
    """Generates terms of one dtype with indices, conditions, choices and folds."""

    def __init__(self, seed: int, dtype: str) -> None:
        self.rng, self.dtype = Random(seed), dtype
        self.variables: list[tuple[Sym, Dim]] = list(LOOPS)

    def dim(self) -> Dim:
        rng = self.rng
        parts = [as_dim(v) for v, _ in self.variables] + [as_dim(N), as_dim(M), 1, 2]
        dim: Dim = rng.choice(parts)
        match rng.randrange(6):
            case 0:
                return dim + rng.choice(parts)
            case 1:
                return dim - rng.choice(parts)
            case 2:
                v, extent = rng.choice(self.variables)
                return extent - 1 - as_dim(v)
            case 3:
                return dims.floordiv(dim, as_dim(M) + 1)
            case 4:
                return dims.floormod(dim, as_dim(M) + 1)
        return dim

    def extent(self) -> Dim:
        n, m = as_dim(N) + 1, as_dim(M) + 1
        return self.rng.choice((n, m, n * m, n + m, 1, 2, as_dim(N), 3))

    def term(self, depth: int) -> ScalarTerm:
        rng, dtype = self.rng, self.dtype
        if depth == 0 or rng.random() < 0.1:
            index = tuple([self.dim() for _ in range(rng.randint(1, 2))])
            return rng.choice((ElementTerm("xy"[rng.randrange(2)], index, dtype), self.number()))
        match rng.randrange(8):
            case 0 | 1:
                fn = rng.choice(("add", "sub", "mul") if dtype != "bool" else ("and", "or", "xor"))
                return ApplyTerm(fn, (self.term(depth - 1), self.term(depth - 1)), dtype)
            case 2:
                condition: ScalarTerm = NonNegative(self.dim() - self.dim())
                if rng.random() < 0.3:
                    condition = ApplyTerm("lt", (self.term(0), self.term(0)), "bool")
                return ApplyTerm(
                    "select", (condition, self.term(depth - 1), self.term(depth - 1)), dtype
                )
            case 3 | 4 | 5:
                return self.fold(depth)
            case 6:
                return self.unary(depth)
        fn = rng.choice(("max", "min"))
        return ApplyTerm(fn, (self.term(depth - 1), self.term(depth - 1)), dtype)

    def number(self) -> ScalarTerm:
        value = self.rng.choice((0, 1, 2))
        return LiteralTerm(bool(value) if self.dtype == "bool" else value, self.dtype)

    def unary(self, depth: int) -> ScalarTerm:
        argument = self.term(depth - 1)
        if self.dtype == "bool":
            return ApplyTerm("not", (argument,), "bool")
        if self.dtype != "float64" or self.rng.random() < 0.3:
            return ApplyTerm("neg", (argument,), self.dtype)
        fn = self.rng.choice(("abs", "rsqrt", "div"))
        args = (argument, self.term(0)) if fn == "div" else (argument,)
        return ApplyTerm(fn, args, self.dtype)

    def fold(self, depth: int) -> ScalarTerm:
        monoids = ("any", "all") if self.dtype == "bool" else ("sum", "sum", "max", "min", "prod")
        monoid = self.rng.choice(monoids)
        loops = tuple([(Sym("k"), self.extent()) for _ in range(self.rng.randint(1, 2))])
        before = self.variables
        self.variables = [*before, *loops]
        body = self.term(depth - 1)
        self.variables = before
        return Fold(monoid, loops, body, self.dtype)


def agree(a: Any, b: Any) -> bool:
    """Whether two values are equal; an empty maximum is infinite, which is not among the reals."""
    if isinstance(a, float) and not (math.isfinite(a) and math.isfinite(b)):
        return True
    return a == b or (isinstance(a, float) and math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-7))


def check_values(seed: int, dtype: str) -> bool:
    """Compares a term with its normal form at some sizes; returns whether it was compared."""
    term = TermGenerator(seed, dtype).term(4)
    try:
        normal = ProofKernel(Chooser()).normal(term, Facts().bounded(LOOPS))
    except (TooLarge, RecursionError):
        return False
    for n, m in ((0, 0), (1, 2), (2, 1)):
        for i, j in ((0, 0), (n, m)):
            at = {N: n, M: m, ROW: i, COLUMN: j}
            assert agree(value_of(term, at), value_of(normal, at)), (seed, dtype, at)
    return True


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool"])
def test_a_normal_form_has_the_values_of_its_term(dtype: str) -> None:
    assert sum([check_values(seed, dtype) for seed in range(60)]) > 50


def x(*index: Dim) -> ScalarTerm:
    return ElementTerm("x", index, "float32")


def fold(extent: Dim, body: Any, monoid: str = "sum") -> ScalarTerm:
    k = Sym("k")
    return Fold(monoid, ((k, extent),), body(as_dim(k)), "float32")


def holds(left: ScalarTerm, right: ScalarTerm, case: Any = None) -> bool:
    return ProofKernel(Chooser()).holds(left, right, Facts().bounded(LOOPS), case)


def test_sums_over_products_of_ranges() -> None:
    n, m, k, j = as_dim(N), as_dim(M), Sym("k"), Sym("j")
    nested = Fold("sum", ((k, n), (j, m)), x(as_dim(k), as_dim(j)), "float32")
    assert holds(fold(n * m, lambda i: x(i // m, i % m)), nested)
    assert not holds(fold(n * m, lambda i: x(i % m, i // m)), nested)
    assert holds(fold(n, lambda i: x(n - 1 - i)), fold(n, x))
    assert not holds(fold(n, lambda i: x(n - i)), fold(n, x))


def test_a_maximum_needs_an_element_to_drop_a_range() -> None:
    n = as_dim(N)
    assert holds(fold(n + 1, lambda k: x(as_dim(ROW)), "max"), x(as_dim(ROW)))
    assert not holds(fold(n, lambda k: x(as_dim(ROW)), "max"), x(as_dim(ROW)))


def test_a_range_is_cut_only_inside() -> None:
    n = as_dim(N)

    def body(k: Dim) -> ScalarTerm:
        return ApplyTerm("select", (NonNegative(k - n + 1), x(1), x(k)), "float32")

    last = fold(n - 1, x, "prod")
    wrong = ApplyTerm("mul", (last, x(1)), "float32")
    assert not ProofKernel(Chooser()).holds(fold(n, body, "prod"), wrong, Facts())  # n may be 0


def test_what_cancels_does_not_disappear() -> None:
    zero = LiteralTerm(0, "float32")
    assert not holds(ApplyTerm("sub", (x(1), x(1)), "float32"), zero)
    assert not holds(ApplyTerm("mul", (x(1), zero), "float32"), zero)
    assert not holds(ApplyTerm("div", (x(1), x(1)), "float32"), LiteralTerm(1, "float32"))
    integers = ElementTerm("x", (1,), "int32")
    assert holds(ApplyTerm("sub", (integers, integers), "int32"), LiteralTerm(0, "int32"))


def test_cases_are_exhaustive() -> None:
    inside = ApplyTerm("select", (NonNegative(as_dim(ROW) - 1), x(1), x(2)), "float32")
    negated = ApplyTerm("select", (NonNegative(-as_dim(ROW)), x(2), x(1)), "float32")
    assert holds(inside, negated)
    relu = ApplyTerm("exp", (inside,), "float32")
    both = (NonNegative(as_dim(ROW) - 1), ApplyTerm("exp", (x(1),), "float32"))
    split = ApplyTerm("select", (*both, ApplyTerm("exp", (x(2),), "float32")), "float32")
    assert not holds(relu, split)
    assert holds(relu, split, (as_dim(ROW) - 1, None, None))


def test_casts_and_dtypes_remain() -> None:
    half = ApplyTerm("cast", (ApplyTerm("cast", (x(1),), "float16"),), "float32")
    assert not holds(half, x(1))
    wide = ApplyTerm("cast", (ApplyTerm("cast", (x(1),), "float64"),), "float32")
    assert holds(wide, x(1))
    rounded = ApplyTerm("cast", (ApplyTerm("cast", (x(1),), "bfloat16"),), "int32")
    assert not holds(ApplyTerm("cast", (rounded,), "float32"), ApplyTerm("cast", (x(1),), "int32"))


def test_a_changed_certificate_is_rejected() -> None:
    n, m = as_dim(N), as_dim(M)

    class Wrong(Chooser):
        def __call__(self, stage: str, loops: Any, value: Any, facts: Any) -> Any:
            change = super().__call__(stage, loops, value, facts)
            if change is not None and change[0] == "split range":
                return (*change[:2], as_dim(N) + 1, *change[3:])
            return change

    term = fold(n * m, lambda i: x(i // m, i % m))
    with pytest.raises(TooLarge):
        ProofKernel(Wrong()).normal(term, Facts())


def test_the_kernel_is_small_and_uses_nothing_of_the_prover() -> None:
    path = Path(kernel_module.__file__)
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 400
    imported = {
        node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("structir.proving")
    }
    assert imported == {
        f"structir.proving.{name}" for name in ("cancellation", "laws", "sums", "terms")
    }


def test_terms_are_compared_by_value() -> None:
    assert x(1) == x(1) and x(1) != x(2) and x(1) != attrs.evolve(x(1), dtype="float64")
    assert SizeTerm(as_dim(Sym("n")), "int64") != SizeTerm(as_dim(Sym("n")), "int64")
