"""The explanation of a rule that does not match names the clause that fails."""

from collections.abc import Iterator

import pytest

import structir
from structir.ir import Constant, Expr, IRModule
from structir.opdef import Ints
from structir.ops.broadcast import add, multiply
from structir.ops.elementwise import exp
from structir.ops.layout import permute_dims
from structir.ops.reduce import mean, sum_
from structir.rewriting import nearest_candidate, used_once
from structir.rewriting.rule import Rule


@pytest.fixture(scope="module")
def module() -> IRModule:
    return structir.parse(
        """@R.function
def main(x: R.Tensor(("n", "m", 3), "float32")):
    a = R.permute_dims(x, [1, 2, 0])
    b = R.permute_dims(a, [1, 2, 0])
    c = R.multiply(x, x)
    e = R.exp(c)
    d = R.add(c, e)
    f = R.sum(x, axis=[1])
    return (R.exp(b), d, f)
""",
        "model.py",
    )


def join(x: Expr, p: Ints, q: Ints) -> Iterator[Expr]:
    yield permute_dims(permute_dims(x, p), q)
    if p[0] == 7:
        yield x


def square_plus_exp(x: Expr, y: Expr) -> Iterator[Expr]:
    yield add(multiply(x, y), exp(x))
    yield x


def whole_sum(x: Expr) -> Iterator[Expr]:
    yield sum_(x)
    yield x


def scaled(x: Expr, c: Constant) -> Iterator[Expr]:
    yield multiply(x, c)
    yield x


def larger(x: Expr) -> Iterator[Expr]:
    yield exp(x)
    yield mean(x)


@pytest.mark.parametrize(
    ("generator", "variable", "reason"),
    [
        (join, "b", "the rule ends without a replacement"),
        (square_plus_exp, "d", "`x` is x before, and c here"),
        (whole_sum, "f", "sum: `axis` is not the default, and the pattern does not mention it"),
        (scaled, "c", "expected c (a constant), found x"),
        (larger, "e", "expected a replacement with StructInfo"),
    ],
)
def test_the_failing_clause(
    module: IRModule, generator: object, variable: str, reason: str
) -> None:
    nearest = nearest_candidate(Rule("rule", generator), module["main"])  # type: ignore[arg-type]
    assert nearest is not None and not nearest.matches
    assert nearest.variable.name == variable
    (failing,) = [clause for clause in nearest.clauses if not clause.holds]
    assert reason in failing.text
    assert "model.py" in str(nearest)


def test_the_line_of_the_condition_is_shown(module: IRModule) -> None:
    text = str(nearest_candidate(Rule("join", join), module["main"]))
    assert "test_mismatch.py" in text and "if p[0] == 7:" in text


def test_a_rule_that_matches() -> None:
    def doubled(x: Expr) -> Iterator[Expr]:
        once = exp(x)
        yield exp(once)
        if used_once(once):
            yield once

    module = structir.parse(
        '@R.function\ndef main(x: R.Tensor((2,), "float32")):\n    return R.exp(R.exp(x))\n'
    )
    nearest = nearest_candidate(Rule("doubled", doubled), module["main"])
    assert nearest is not None and nearest.matches
