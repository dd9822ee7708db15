"""Each algebraic rule fires on its program and keeps the results; each wrong one changes them."""

import pytest

import structir
from structir.errors import PassError
from structir.ir import IRModule
from structir.passes import PassContext, VerifyIR, VerifyResults
from structir.passes.base import Pass
from structir.passes.manager.rules import run_rules
from structir.rewriting.rule import Rule
from tests.rewriting.algebraic_rules import PROGRAMS, REAL_NUMBERS_ONLY, RULES, WRONG_RULES


def verified(rule: Rule, edges: bool = True) -> tuple[IRModule, IRModule]:
    """Returns the program of a rule before and after it, with equal results."""
    before = structir.parse(PROGRAMS[rule.name])
    applied = Pass(rule.name, lambda module: run_rules(module, [rule]))
    with PassContext([VerifyIR(), VerifyResults(edges=edges)]):
        return before, applied(before)


def test_there_are_sixty_rules_and_ten_wrong_ones() -> None:
    assert len(RULES) == 60 and len(WRONG_RULES) == 10
    assert PROGRAMS.keys() == RULES.keys() | WRONG_RULES.keys()
    assert RULES.keys() >= REAL_NUMBERS_ONLY


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_a_rule_keeps_results(rule: Rule) -> None:
    before, after = verified(rule, rule.name not in REAL_NUMBERS_ONLY)
    assert after is not before


@pytest.mark.parametrize("rule", WRONG_RULES.values(), ids=list(WRONG_RULES))
def test_a_wrong_rule_changes_results(rule: Rule) -> None:
    with pytest.raises(PassError, match="changes the result"):
        verified(rule)
