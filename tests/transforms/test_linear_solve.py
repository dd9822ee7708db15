"""Solutions of linear systems: gradients, tangents and second derivatives are solutions too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import structir
import structir.lax
import structir.numpy as snp
import structir.scipy.sparse.linalg
from tests.cases import every_case

RANDOM = np.random.default_rng(0)
ROOT, B = RANDOM.normal(size=(5, 5)), RANDOM.normal(size=5)
A = ROOT @ ROOT.T + np.eye(5)
BOTH = np.stack([B, 2 * B])
WEIGHTS = np.arange(5.0)
Solver = Callable[[Any, Any], Any]


def cg(a: Any, b: Any) -> Any:
    return structir.scipy.sparse.linalg.cg(a, b, tol=1e-14)[0]


def cg_of_function(a: Any, b: Any) -> Any:
    """Solves a system whose matrix depends on captured arrays, also on the right side."""
    product = lambda v: a @ v + v * snp.exp(b[0])  # noqa: E731
    return structir.scipy.sparse.linalg.cg(product, b, tol=1e-14, M=lambda v: v / 2)[0]


def dense_of_function(a: Any, b: Any) -> Any:
    return snp.linalg.solve(a + snp.eye(5) * snp.exp(b[0]), b)


def of_trees(a: Any, b: Any) -> Any:
    product = lambda t: {"x": a @ t["x"] + t["y"] / 9, "y": t["x"] / 9 + 3 * t["y"]}  # noqa: E731
    start = {"x": b, "y": b}
    return structir.scipy.sparse.linalg.cg(product, {"x": b, "y": 2 * b}, start, tol=1e-14)[0]["x"]


def dense_of_trees(a: Any, b: Any) -> Any:
    unit = snp.eye(5)
    rows = [snp.concatenate([a, unit / 9], 1), snp.concatenate([unit / 9, 3 * unit], 1)]
    return snp.linalg.solve(snp.concatenate(rows, 0), snp.concatenate([b, 2 * b], 0))[:5]


def general(a: Any, b: Any) -> Any:
    """Solves a system that is not symmetric by Jacobi's method."""
    matrix = a * np.triu(np.ones((5, 5)), -1) + 30 * np.eye(5)

    def solve(product: Any, right: Any) -> Any:
        return structir.lax.while_loop(
            lambda state: snp.max(snp.abs(product(state) - right)) > 1e-13,
            lambda state: state + (right - product(state)) / 36,
            right / 36,
        )

    return structir.lax.custom_linear_solve(lambda v: matrix @ v, b, solve, solve)


def dense_general(a: Any, b: Any) -> Any:
    return snp.linalg.solve(a * np.triu(np.ones((5, 5)), -1) + 30 * np.eye(5), b)


def bicgstab(a: Any, b: Any) -> Any:
    matrix = a * np.triu(np.ones((5, 5)), -1) + 30 * np.eye(5)
    return structir.scipy.sparse.linalg.bicgstab(matrix, b, tol=1e-14)[0]


CASES: dict[str, tuple[Solver, Solver]] = {
    "matrix": (cg, snp.linalg.solve),
    "function": (cg_of_function, dense_of_function),
    "trees": (of_trees, dense_of_trees),
    "general": (general, dense_general),
    "bicgstab": (bicgstab, dense_general),
}
SYMMETRIC = ("matrix", "function", "trees")


def loss(solver: Solver) -> Callable[..., Any]:
    return lambda a, b: (solver(a, b) ** 2 * WEIGHTS).sum()


@every_case("name", CASES)
def test_derivatives_are_those_of_dense_solutions(name: str) -> None:
    own, dense = (loss(solver) for solver in CASES[name])
    derivatives = {
        "gradients": lambda f: structir.grad(f, (0, 1))(A, B),
        "tangent": lambda f: [structir.jvp(f, (A, B), (A * A / 9, B))[1]],
        "second": lambda f: structir.grad(lambda a, b: structir.grad(f, 1)(a, b).sum(), (0, 1))(
            A, B
        ),
        "mapped": lambda f: [
            structir.vmap(structir.grad(f, 1), (None, 0))(A, np.stack([B, 2 * B]))
        ],
    }
    for derivative in derivatives.values():
        for result, wanted in zip(derivative(own), derivative(dense), strict=True):
            if name in SYMMETRIC and wanted.shape == A.shape:  # for symmetric changes alone
                result, wanted = (x + x.T for x in (result, wanted))
            np.testing.assert_allclose(result, wanted, rtol=1e-8, atol=1e-9)


def test_without_a_transposed_solver_steps_are_differentiated() -> None:
    def solve(product: Any, right: Any) -> Any:
        return structir.lax.fori_loop(
            0, 200, lambda _, x: x + (right - product(x)) / 30, right / 30
        )

    def own(a: Any, b: Any) -> Any:
        return structir.lax.custom_linear_solve(lambda v: a @ v, b, solve).sum()

    result = structir.grad(own, 1)(A + 20 * np.eye(5), B)
    np.testing.assert_allclose(result, np.linalg.solve(A + 20 * np.eye(5), np.ones(5)), rtol=1e-9)


def test_no_gradient_flows_from_a_choice_that_is_not_used() -> None:
    """The cotangent of the other choice is infinite times 0; JAX has 0, too."""

    def masked(x: Any) -> Any:
        logarithm = snp.log(snp.where(x < 0, 0.0, x))
        return snp.where(snp.isfinite(logarithm), logarithm, 0.0).sum()

    x = np.array([-1.0, 2.0])
    np.testing.assert_array_equal(structir.grad(masked)(x), [0, 0.5])
    assert structir.jvp(masked, (x,), (np.ones(2),))[1] == pytest.approx(0.5)
