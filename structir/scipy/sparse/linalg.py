"""Iterative solvers."""

from collections.abc import Callable
from functools import partial
from typing import Any

from structir.lazy import exported
from structir.numpy.contraction import matmul, vdot
from structir.numpy.creation import zeros_like
from structir.numpy.elementwise import maximum, real, where
from structir.numpy.reals import square
from structir.tracing.array import TracedArray, joint_operands
from structir.tracing.trees import flatten
from structir.transforms.control import while_loop
from structir.transforms.linear_solve import custom_linear_solve

Linear = Callable[[Any], Any]


@exported
def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: Any = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solves A @ x = b by conjugate gradients for a positive definite A, a matrix or a function.

    `b`, `x0` and the solution are arrays or trees of arrays. `M`, a matrix or a function, is near
    to the inverse of A. It ends when the norm of the residual is at most max(tol * |b|, atol).
    Gradients are solutions of the same system.
    Source: Hestenes and Stiefel, 1952.
    """

    def method(product: Linear, precondition: Linear, x: Any, r: Any) -> tuple[Any, Any]:
        z = precondition(r)

        def step(state: Any) -> Any:
            x, r, gamma, p, k = state
            direction = product(p)
            alpha = gamma / _inner(p, direction)
            x, r = _added(x, alpha, p), _added(r, -alpha, direction)
            z = precondition(r)
            after = _inner(r, z)
            return x, r, after, _added(z, after / gamma, p), k + 1

        return (x, r, _inner(r, z), z, 0), step

    solution = _iterated(method, x0, tol, atol, maxiter, M)
    return custom_linear_solve(_linear(A), b, solution, symmetric=True), None


@exported
def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: Any = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solves A @ x = b by stabilized biconjugate gradients, with the arguments of `cg`; A need not
    be symmetric. Gradients are solutions of the transposed system.

    Source: van der Vorst, 1992.
    """

    def method(product: Linear, precondition: Linear, x: Any, r: Any) -> tuple[Any, Any]:
        shadow, one = r, _inner(r, r) * 0 + 1
        zeros = [zeros_like(a) for a in r]

        def step(state: Any) -> Any:
            x, r, p, q, rho, alpha, omega, k = state
            after = _inner(shadow, r)
            p = _added(r, after / rho * alpha / omega, _added(p, -omega, q))
            direction = precondition(p)
            q = product(direction)
            alpha = after / _inner(shadow, q)
            s = _added(r, -alpha, q)
            correction = precondition(s)
            t = product(correction)
            length = _inner(t, t)
            omega = where(length == 0, 0, _inner(t, s) / where(length == 0, 1, length))
            x = _added(_added(x, alpha, direction), omega, correction)
            return x, _added(s, -omega, t), p, q, after, alpha, omega, k + 1

        return (x, r, zeros, zeros, one, one, one, 0), step

    solution = _iterated(method, x0, tol, atol, maxiter, M)
    return custom_linear_solve(_linear(A), b, solution, solution), None


def _iterated(
    method: Callable[..., tuple[Any, Any]], x0: Any, tol: float, atol: float, maxiter: Any, M: Any
) -> Callable[[Linear, Any], Any]:
    """Returns the function that solves a system by an iteration over the leaves of trees.

    `method` returns the initial state and the step from one state to the next one. A state begins
    with the solution and the residual, and ends with the number of steps.
    """

    def solution(product: Linear, right: Any) -> Any:
        leaves, structure = flatten(right)
        target = [real(leaf) for leaf in joint_operands(leaves)]

        def image(function: Linear, arrays: list[TracedArray]) -> list[TracedArray]:
            return joint_operands(flatten(function(structure.unflatten(arrays)))[0])

        limit = maximum(square(tol) * _inner(target, target), square(atol))
        steps: Any = 10 * sum([array.size for array in target]) if maxiter is None else maxiter
        x = [zeros_like(a) for a in target] if x0 is None else joint_operands(flatten(x0)[0])
        residual = _added(target, -1, image(product, x))
        preconditioner = (lambda x: x) if M is None else _linear(M)
        start, step = method(partial(image, product), partial(image, preconditioner), x, residual)

        def going(state: Any) -> TracedArray:
            return (_inner(state[1], state[1]) > limit) & (state[-1] < steps)

        return structure.unflatten(while_loop(going, step, start)[0])

    return solution


def _linear(function: Any) -> Linear:
    """Returns the product by a matrix, or the function itself."""
    return function if callable(function) else lambda x: matmul(function, x)


def _inner(first: list[TracedArray], second: list[TracedArray]) -> TracedArray:
    total: Any = sum([vdot(a, b) for a, b in zip(first, second, strict=True)])
    return real(total)


def _added(first: list[TracedArray], factor: Any, second: list[TracedArray]) -> list[TracedArray]:
    return [a + factor * b for a, b in zip(first, second, strict=True)]
