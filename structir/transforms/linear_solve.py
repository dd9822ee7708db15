"""Solutions of linear systems whose derivatives are solutions too: `custom_linear_solve`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from structir.ir.dtype import is_float
from structir.ir.expr import Expr, ShapeExpr
from structir.ir.struct_info import StructInfo
from structir.lazy import exported
from structir.numpy.creation import zeros_like
from structir.tracing.array import TracedArray, expression, joint_operands
from structir.tracing.context import session, user_code
from structir.tracing.trees import TreeStructure, flatten
from structir.transforms.custom import custom_vjp
from structir.transforms.functions import TracedFunction, arrays_of, build, call
from structir.transforms.gradients import vjp
from structir.transforms.jit import transformed

Leaves = Sequence[TracedArray]


@attrs.frozen(eq=False)
class ClosedFunction:
    """A function of leaves whose captured arrays are arguments."""

    traced: TracedFunction
    captured: list[TracedArray]
    sizes: list[Expr]  # that it captures

    def __call__(self, leaves: Leaves, captured: Leaves) -> list[TracedArray]:
        """Calls the function of the module."""
        operands = [expression(x) for x in (*leaves, *captured)]
        return arrays_of(call(self.traced.function, [*operands, *self.sizes], self.traced.name))


def closed(
    function: Callable[..., Any], infos: Sequence[StructInfo], structure: TreeStructure, stem: str
) -> ClosedFunction:
    """Traces a function of a tree, whose leaves have these StructInfos, into the module."""

    def of_leaves(*leaves: TracedArray) -> Any:
        with user_code():
            return joint_operands(flatten(function(structure.unflatten(leaves)))[0])

    traced = build(of_leaves, infos, stem)
    operands = session().captured_operands(traced.frame)
    sizes: list[Expr] = [operand for operand in operands if isinstance(operand, ShapeExpr)]
    arrays = [operand for operand in operands if not isinstance(operand, ShapeExpr)]
    return ClosedFunction(traced, arrays_of(arrays), sizes)


@exported
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
) -> Any:
    """Returns `solve(matvec, b)`, the x with `matvec(x)` = b, with derivatives that are solutions.

    `matvec` is linear; b and x are trees of one structure. Gradients are solutions of the
    transposed system, by `transpose_solve(vecmat, cotangent)`, or by `solve` if `symmetric`.
    Without both, the derivatives are those of the steps of `solve`. Source:
    `jax.lax.custom_linear_solve`.
    """

    @transformed(solve)
    def solution(right: Any) -> Any:
        leaves, structure = flatten(right)
        arrays = joint_operands(leaves)
        if not symmetric and transpose_solve is None:
            return solve(matvec, structure.unflatten(arrays))
        backward = solve if transpose_solve is None or symmetric else transpose_solve
        system = LinearSystem(matvec, solve, backward, arrays, structure, symmetric)
        return structure.unflatten(system.solution())

    return solution(b)


class LinearSystem:
    """A linear system with a right side, and the transposed system of its derivatives."""

    def __init__(
        self,
        matvec: Any,
        solve: Any,
        transpose_solve: Any,
        right: list[TracedArray],
        structure: TreeStructure,
        is_symmetric: bool,
    ) -> None:
        self.right, self.structure = right, structure
        infos = [array.aval for array in right]
        self.product = closed(matvec, infos, structure, "matvec")
        self.forward = closed(lambda b: solve(matvec, b), infos, structure, "solve")
        self.backward = self.forward
        if not is_symmetric:
            vecmat = self._transposed(self.product.captured)
            self.backward = closed(
                lambda b: transpose_solve(vecmat, b), infos, structure, "transpose_solve"
            )
        self.groups = [f.captured for f in (self.product, self.forward, self.backward)]

    def _transposed(self, captured: Leaves) -> Callable[[Any], Any]:
        def vecmat(tree: Any) -> Any:
            leaves = joint_operands(flatten(tree)[0])
            start = [zeros_like(x) for x in leaves]
            _, pullback = vjp(lambda x: self.product(x, captured), start)
            return self.structure.unflatten(pullback(leaves)[0])

        return vecmat

    def solution(self) -> list[TracedArray]:
        """Returns the leaves of the solution."""
        return self._solver()(self.right, *self.groups)

    def _solver(self) -> Any:
        """Returns the solution; its derivative is that of the transposed system, and conversely."""

        @custom_vjp
        def solve(right: Any, product: Any, forward: Any, backward: Any) -> Any:
            return self.forward(right, forward)

        @custom_vjp
        def transposed(right: Any, product: Any, forward: Any, backward: Any) -> Any:
            return self.backward(right, backward)

        def with_residuals(function: Any) -> Any:
            def call(*args: Any) -> Any:
                result = function(*args)
                return result, (result, *args[1:])

            return call

        def of_solve(residuals: Any, cotangent: Any) -> Any:
            x, *captured = residuals
            scale = other(cotangent, *captured)
            return scale, self._of_captured(x, scale, captured[0]), None, None

        def of_transposed(residuals: Any, cotangent: Any) -> Any:
            x, *captured = residuals
            scale = solve(cotangent, *captured)
            return scale, self._of_captured(scale, x, captured[0]), None, None

        other = solve if self.backward is self.forward else transposed
        solve.defvjp(with_residuals(solve), of_solve)
        transposed.defvjp(with_residuals(transposed), of_transposed)
        return solve

    def _of_captured(self, x: Leaves, scale: Leaves, captured: Leaves) -> list[Any]:
        """Returns the cotangents of the arrays of the matrix: those of -scale . matvec(x)."""
        floats = [k for k, c in enumerate(captured) if is_float(c.dtype_name)]
        if not floats:
            return [None] * len(captured)

        def product(values: Any) -> Any:
            arrays = list(captured)
            for k, value in zip(floats, values, strict=True):
                arrays[k] = value
            return self.product(x, arrays)

        _, pullback = vjp(product, [captured[k] for k in floats])
        parts = pullback([-s for s in scale])[0]
        known = dict(zip(floats, parts, strict=True))
        return [known.get(k, zeros_like(c)) for k, c in enumerate(captured)]
