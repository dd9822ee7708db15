"""Calls of ops during constraint generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.ir.expr import Call
from structir.ir.struct_info import StructInfo
from structir.lazy import provided_module
from structir.solver.domains.reasons import Origin
from structir.solver.domains.terms import row_vars
from structir.solver.program.value_trees import (
    Tree,
    has_all_sizes,
    has_numbers,
    leaves,
    refine_info,
)
from structir.solver.solver import ConstraintSolver, Value

schemes = provided_module("constraint schemes")


class OpUse:
    """A call of an op, and the index signature that it was last applied with."""

    def __init__(
        self, call: Call, operands: list[Tree], results: list[Value], origin: Origin
    ) -> None:
        self.call = call
        self.operands = operands
        self.results = results
        self.origin = origin
        self.signature: Any = None
        self.shapes: list[Any] | None = None  # of its operands then
        self.reads_ranks: bool = schemes.depends_on_ranks(call)
        # whether all that the index signature depends on is known in a StructInfo
        self.is_known: Callable[[StructInfo], bool] = (
            has_numbers if schemes.depends_on_sizes(call) else has_all_sizes
        )
        self.has_rank_cases = False  # whether a disjunction over its ranks is asserted

    def infos(self, solver: ConstraintSolver) -> list[StructInfo | None]:
        """Returns the inferred StructInfos of the operands."""
        infos = [arg.struct_info for arg in self.call.args]
        return [
            info if info is None or self.is_known(info) else refine_info(solver, info, tree)
            for info, tree in zip(infos, self.operands, strict=True)
        ]

    def rejection(self, solver: ConstraintSolver) -> str | None:
        """Returns the message of the op if it rejects operands of these shapes, or None."""
        try:
            schemes.scheme_of(self.call, self.infos(solver))
        except schemes.InvalidCall as error:
            return str(error.message)
        return None

    def remember(self, solver: ConstraintSolver) -> None:
        """Records the shapes of the operands that the index signature was applied to.

        Operands of unknown rank are revisited in any case: a first scheme may be that of all ranks.
        """
        shapes = self._shapes(solver)
        self.shapes = None if any(map(row_vars, shapes)) else shapes

    def is_unchanged(self, solver: ConstraintSolver) -> bool:
        """Returns whether nothing more is known of the operands since the op was applied."""
        if self.signature is None or self.shapes is None or solver.store.labels:
            return False
        return self.shapes == self._shapes(solver)

    def _shapes(self, solver: ConstraintSolver) -> list[Any]:
        return [solver.shape(value) for value in leaves(tuple(self.operands))]


def operand_at(operands: Sequence[Tree], path: tuple[int, int | None]) -> Tree:
    """Returns the operand at a path: an argument, or a field of one."""
    tree = operands[path[0]]
    if path[1] is None or not isinstance(tree, tuple):
        return tree
    return tree[path[1]]
