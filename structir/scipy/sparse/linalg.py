"""Iterative solvers."""

from collections.abc import Callable
from typing import Any

from structir.numpy.contraction import matmul, vdot
from structir.numpy.creation import zeros_like
from structir.numpy.elementwise import maximum
from structir.numpy.reals import square
from structir.tracing.array import TracedArray, operand
from structir.transforms.control import while_loop
from structir.transforms.jit import transformed


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

    It ends when the norm of the residual is at most max(tol * |b|, atol). Source: Hestenes and
    Stiefel, 1952.
    """
    product: Callable[[Any], Any] = A if callable(A) else lambda x: matmul(A, x)
    precondition: Callable[[Any], Any] = (lambda x: x) if M is None else M

    @transformed(product)
    def solution(right: Any) -> Any:
        b_array = operand(right)
        x = zeros_like(b_array) if x0 is None else operand(x0)
        limit = maximum(square(tol) * vdot(b_array, b_array), square(atol))
        steps: Any = 10 * b_array.size if maxiter is None else maxiter
        r = b_array - product(x)
        z = precondition(r)
        start = (x, r, vdot(r, z), z, 0)

        def going(state: Any) -> TracedArray:
            r, k = state[1], state[4]
            return (vdot(r, r) > limit) & (k < steps)

        def step(state: Any) -> Any:
            x, r, gamma, p, k = state
            image = product(p)
            alpha = gamma / vdot(p, image)
            x, r = x + alpha * p, r - alpha * image
            z = precondition(r)
            after = vdot(r, z)
            return x, r, after, z + after / gamma * p, k + 1

        return while_loop(going, step, start)[0]

    return solution(b), None
