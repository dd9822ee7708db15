"""Every shipped rewrite is proved, most algebraic rules are, and no wrong rule is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import structir
from structir.ir.expr import Expr
from structir.opdef.attributes import Ints
from structir.ops.broadcast import add, multiply, subtract
from structir.ops.contract import matmul
from structir.ops.elementwise import abs_, astype, negative
from structir.ops.layout import permute_dims
from structir.ops.rewrites import load
from structir.rewriting.guards import rank_of
from structir.rewriting.rule import RULES, Rule, rewrite
from tests.rewriting.algebraic_rules import PROGRAMS, WRONG_RULES
from tests.rewriting.algebraic_rules import RULES as ALGEBRAIC

load()
SHIPPED = sorted(
    name for name, rule in RULES.items() if "structir.ops" in rule.generator.__module__
)
OPEN = {  # algebraic rules that are not proved, with what is missing
    "dynamic_slice_of_constants": "a result whose shape is data",
    "max_of_exponential": "a law of increasing functions",
}
FEW = 6  # generated programs of a rule


def unregistered(generator: Any) -> Rule:
    rule = rewrite(generator)
    del RULES[rule.name]
    return rule


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_rewrite_is_proved(name: str) -> None:
    proof = RULES[name].prove(most=FEW)
    assert proof.proved, str(proof)


def test_most_algebraic_rules_are_proved() -> None:
    undecided, ranks = {}, list[str]()
    for name, rule in ALGEBRAIC.items():
        program = structir.parse(PROGRAMS[name])
        proof = rule.prove(program)
        assert proof.attempts
        if not proof.proved:
            undecided[name] = proof
        elif name in list(ALGEBRAIC)[::7]:
            assert proof.check()
        ranks += [a.proof.ranks for _, a in proof.attempts if a.proof is not None]
    assert undecided.keys() == OPEN.keys(), "\n".join(map(str, undecided.values()))
    assert {*ranks} == {"", "*s of any rank"}


@pytest.mark.parametrize("rule", WRONG_RULES.values(), ids=list(WRONG_RULES))
def test_a_wrong_rule_is_not_proved(rule: Rule) -> None:
    proof = rule.prove(structir.parse(PROGRAMS[rule.name]))
    assert proof.attempts and not proof.proved


def test_a_rule_of_booleans_is_wrong_without_its_guard() -> None:
    @unregistered
    def unguarded(x: Expr, y: Expr) -> Iterator[Expr]:
        yield add(x, negative(y))
        yield subtract(x, y)

    proof = unguarded.prove()
    assert not proof.proved and proof.condition is not None
    assert proof.condition == 'dtype_of(x) != "bool"'
    assert 'dtype="bool"' in str(proof)
    assert proof.refuted is not None and "before:" in str(proof)


def test_a_wrong_permutation_gets_a_side_condition() -> None:
    @unregistered
    def merge(x: Expr, p: Ints, q: Ints) -> Iterator[Expr]:
        yield permute_dims(permute_dims(x, p), q)
        if p is not None and q is not None and rank_of(x) is not None:
            yield permute_dims(x, tuple(q[i] for i in p))  # the wrong order

    proof = merge.prove()
    assert not proof.proved and proof.condition is not None


def test_sizes_that_the_pattern_requires_to_be_equal_are_equal() -> None:
    @unregistered
    def transposed_product(x: Expr, y: Expr) -> Iterator[Any]:
        product = matmul(permute_dims(x, [1, 0]), permute_dims(y, [1, 0]))
        yield permute_dims(product, [1, 0])
        yield matmul(y, x)

    assert transposed_product.prove(most=FEW).proved


def test_a_rule_that_raises_is_not_proved() -> None:
    @unregistered
    def of_matrices(x: Expr) -> Iterator[Any]:
        yield abs_(negative(x))
        yield permute_dims(abs_(permute_dims(x, [1, 0])), [1, 0])

    proof = of_matrices.prove()
    assert "the rule raises StructInfoError: " in str(proof)
    assert proof.condition == "rank_of(x) == 2"


def test_a_dropped_cast_and_a_wrong_sign_are_not_proved() -> None:
    @unregistered
    def drop_cast(x: Expr) -> Iterator[Expr]:
        yield astype(astype(x, "float16"), "float32")
        yield astype(x, "float32")

    @unregistered
    def drop_abs(x: Expr) -> Iterator[Expr]:
        yield multiply(abs_(x), abs_(x))
        yield multiply(abs_(x), x)

    for rule in (drop_cast, drop_abs):
        proof = rule.prove()
        assert proof.attempts and not proof.proved, str(proof)


def test_the_report_names_laws() -> None:
    text = str(RULES["order_products"].prove(most=FEW))
    assert "proved over the reals for all sizes" in text and "nested sums" in text
    text = str(RULES["merge_permutes"].prove(most=FEW))
    assert "bit for bit" in text and "\n  p: (" in text and "\n  ranks: " in text
    assert "any" in RULES["cancel_negations"].prove().scope()["ranks"]
