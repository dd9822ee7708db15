"""E-graphs: congruence, StructInfos of classes, extraction, and paths of reasons."""

from itertools import product

import pytest

from structir import rewrite
from structir.errors import PassError
from structir.ir import Expr, TensorStructInfo, Var
from structir.ops.broadcast import add
from structir.ops.elementwise import exp, negative, tanh
from structir.rewriting.egraph.exact import optimal
from structir.rewriting.egraph.extraction import Search, choices_of, greedy, reached
from structir.rewriting.egraph.graph import EGraph, RuleEquation
from structir.rewriting.egraph.saturation import Budget, Saturation, pattern_depth
from structir.rewriting.rule import Rule

X, Y = [Var(name, TensorStructInfo((3,), "float32")) for name in "xy"]


def equation(left: int, right: int) -> RuleEquation:
    return RuleEquation("given", left, right, {})


def term(graph: EGraph, op: object, *children: int) -> int:
    return graph.add(op(*map(graph.operand, children)), children)


def test_users_of_equal_values_are_equal() -> None:
    graph = EGraph()
    x, y = graph.add(X), graph.add(Y)
    first = term(graph, tanh, term(graph, exp, x))
    second = term(graph, tanh, term(graph, exp, y))
    assert graph.find(first) != graph.find(second)
    graph.merge(equation(x, y))
    graph.rebuild()
    assert graph.find(first) == graph.find(second)
    assert graph.node_count == 4


def test_equal_terms_are_added_once() -> None:
    graph = EGraph()
    x = graph.add(X)
    assert term(graph, exp, x) == term(graph, exp, x)


def test_struct_infos_of_equal_values_are_combined() -> None:
    graph = EGraph()
    wide = graph.add(Var("w", TensorStructInfo(None, "float32", 1)))
    user = term(graph, exp, wide)
    assert graph.info(user).dims is None
    graph.merge(equation(wide, graph.add(X)))
    graph.rebuild()
    assert graph.info(user).dims == (3,)


def test_conflicting_struct_infos_are_an_error() -> None:
    graph = EGraph()
    other = graph.add(Var("z", TensorStructInfo((4,), "float32")))
    with pytest.raises(PassError, match="rule `given` equates"):
        graph.merge(equation(graph.add(X), other))


def test_a_path_of_reasons_connects_equal_terms() -> None:
    graph = EGraph()
    x, y = graph.add(X), graph.add(Y)
    terms = [x, y, *[term(graph, op, x) for op in (exp, tanh, negative)]]
    for left, right in ((0, 2), (3, 4), (1, 4), (2, 3)):
        graph.merge(equation(terms[left], terms[right]))
        graph.rebuild()
    for first, last in product(terms, terms):
        path = list(graph.path(first, last))
        ends = [first, *[step[1] for step in path]]
        assert ends[-1] == last and len(set(ends)) == len(ends)
        assert [step[0] for step in path] == ends[:-1]
        for start, target, reason, forward in path:
            sides = (reason.left, reason.right) if forward else (reason.right, reason.left)
            assert sides == (start, target)


# Extraction


@pytest.fixture
def rules() -> list[Rule]:
    """Rules that are registered for one test only: `rewrites_of_a_test_end_with_it`."""

    @rewrite
    def try_either(x: Expr, y: Expr):
        yield add(x, y)
        yield negative(add(negative(x), negative(y)))

    @rewrite
    def try_swap(x: Expr, y: Expr):
        yield add(x, y)
        yield add(y, x)

    return [try_either, try_swap]


def saturated_graph(rules: list[Rule]) -> tuple[EGraph, int]:
    graph = EGraph()
    x, y = graph.add(X), graph.add(Y)
    inner = term(graph, add, term(graph, exp, x), y)
    root = term(graph, add, inner, term(graph, tanh, inner))
    Saturation(graph, rules, Budget(60, 2)).run()
    return graph, root


@pytest.mark.parametrize("seed", range(6))
def test_exact_extraction_is_optimal(seed: int, rules: list[Rule]) -> None:
    graph, root = saturated_graph(rules)
    choices = choices_of(graph, [root], {})
    costs = {n: 1 + (n * 7919 + seed * 104729) % 13 for n in range(len(graph.terms))}

    def total(selection: dict[int, int]) -> float:
        order = reached(choices, selection)
        return float("inf") if order is None else sum(costs[selection[n]] for n in order)

    classes = [number for number, terms in choices.terms.items() if len(terms) > 1]
    fixed = {number: terms[0] for number, terms in choices.terms.items()}
    least = min(
        total({**fixed, **dict(zip(classes, picked, strict=True))})
        for picked in product(*[choices.terms[number] for number in classes])
    )
    best = optimal(choices, costs.__getitem__, 10.0)
    assert best is not None and total(best) == least
    start = greedy(choices, costs.__getitem__)
    improved, cost = Search(choices, total).improved(start, start)
    assert least <= cost == total(improved) <= total(start)


def test_the_levels_of_a_pattern_bound_the_search(rules: list[Rule]) -> None:
    assert pattern_depth(rules[0].pattern_calls[0]) == 1


def test_a_term_that_contains_itself_is_not_selected() -> None:
    graph = EGraph()
    x = graph.add(X)
    whole = term(graph, negative, term(graph, negative, x))
    graph.merge(equation(whole, x))
    graph.rebuild()
    choices = choices_of(graph, [whole], {})
    assert greedy(choices, lambda number: 0.0)[graph.find(x)] == x
    assert optimal(choices, lambda number: 0.0, 10.0) == {graph.find(x): x}
