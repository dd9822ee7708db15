"""Execution costs: of bodies, declared by ops, of regions, and errors of declarations."""

import pytest

import structir
from structir import ScalarExpr, op
from structir.errors import DiagnosticError, StructIRError
from structir.ir import Call
from structir.projections.boxes import region
from structir.projections.execution_cost import execution_cost, program_cost
from structir.projections.program import program_of


@op("x[*s, i] @ F -> y[*s] @ F", reduce="sum", cost={"call": 10, "point": 2, "i": 3, "s": 1})
def costly_sum(x: ScalarExpr) -> ScalarExpr:
    """Sums the last axis."""
    return x


@op("x[i] @ F -> y[i] @ F")
def hooked_cost(x: ScalarExpr, *, steps: int = 4) -> ScalarExpr:
    """Copies."""
    return x


@hooked_cost.cost
def _(view):  # type: ignore[no-untyped-def]
    return 7 * view["steps"]


def first_call(params: str, body: str) -> Call:
    text = f"@R.function\ndef main({params}):\n    y = {body}\n    return y\n"
    return structir.parse(text)["main"].bindings()[0].value


def test_declared_rates() -> None:
    cost = execution_cost(first_call('x: R.Tensor((4, 5), "float32")', "R.costly_sum(x)"))
    assert cost.total() == 10 + 2 * 20 + 3 * 5 + 4
    assert (cost.marginal("i"), cost.marginal("s_0")) == (2 * 4 + 3, 2 * 5 + 1)
    assert cost.total({"i": 1}) == 10 + 2 * 4 + 3 + 4


def test_a_hook_computes_the_rate_of_a_call() -> None:
    call = first_call('x: R.Tensor(("n",), "float32")', "R.hooked_cost(x, steps=3)")
    assert execution_cost(call).at({"n": 6}).total() == 21 * 6


def test_a_composite_costs_its_parts() -> None:
    call = first_call('x: R.Tensor((4, 8), "float32")', "R.nn.softmax(x, axis=-1)")
    assert execution_cost(call).total() > 4 * 8 * 2


def test_an_external_function_has_a_declared_cost() -> None:
    text = (
        'R.call_pure_packed("f", x, sinfo_args=R.Tensor((4,), "float32"), '
        'index="x[i, k] -> y[i]", cost={"point": 3, "k": 5})'
    )
    cost = execution_cost(first_call('x: R.Tensor((4, 6), "float32")', text))
    assert (cost.total(), cost.marginal("k")) == (3 * 24 + 5 * 6, 3 * 4 + 5)


def test_the_cost_of_blocks_is_that_of_their_points() -> None:
    function = structir.parse(
        """
@R.function
def main(x: R.Tensor((8, 6), "float32"), w: R.Tensor((6, 4), "float32")):
    y = R.matmul(x, w)
    z = R.exp(y)
    return z
"""
    )["main"]
    program = program_of(function, parts=True)

    def cost(stop: tuple[int, int]) -> float:
        return program_cost(
            program, program.required_regions({program.result: region((0, 0), stop)})
        )

    assert cost((8, 4)) == 8 * 4 * 6 * 2 + 8 * 4
    assert cost((8, 4)) == 4 * cost((4, 2))


@pytest.mark.parametrize("cost", [{"q": 1}, {"point": -1}, {"i": "two"}])
def test_invalid_declarations(cost: dict) -> None:
    with pytest.raises(DiagnosticError) as caught:

        @op("x[i] @ F -> y[i] @ F", cost=cost)
        def wrong_cost(x: ScalarExpr) -> ScalarExpr:
            return x

    assert caught.value.code == "E0660"


def test_a_marginal_cost_of_an_unknown_axis() -> None:
    call = first_call('x: R.Tensor((4, 8), "float32")', "R.exp(x)")
    with pytest.raises(StructIRError, match="no axis `q`: expected one of s_0, s_1"):
        execution_cost(call).marginal("q")
