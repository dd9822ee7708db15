"""Checks that every index from data is inside its axis; ops leave other indices undefined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from structir.errors import StructIRError
from structir.interpret.interpreter import Interpreter
from structir.interpret.scope import Activation, Value
from structir.ir.expr import Call, Expr
from structir.ir.op import Op
from structir.projections.scalar_expr import OperandElement
from structir.projections.spec import IndexSpec

Path = tuple[int, ...]
Bound = tuple[Path, Path, int]  # an operand of indices; the tensor and axis that they index


class IllegalIndexError(StructIRError):
    """An index outside its axis."""


@attrs.frozen(eq=False)
class IndexChecker(Interpreter):
    """An interpreter that raises IllegalIndexError for an index outside its axis."""

    bounds: dict[int, tuple[Bound, ...]] = attrs.field(factory=dict, kw_only=True)  # by call

    def evaluate(self, expr: Expr, scope: Activation) -> Any:
        if type(expr) is Call and type(expr.op) is Op and len(expr.args) > 1:
            if id(expr) not in self.bounds:
                self.bounds[id(expr)] = tuple(_bounds(expr))
            if self.bounds[id(expr)]:
                self._check(self.bounds[id(expr)], [self.value(a, scope) for a in expr.args])
        return Interpreter.evaluate(self, expr, scope)

    def _check(self, bounds: tuple[Bound, ...], args: list[Value]) -> None:
        for indices, tensor, axis in bounds:
            values, size = np.asarray(_at(args, indices)), np.shape(_at(args, tensor))[axis]
            if values.size and not (values.min() >= 0 and values.max() < size):
                raise IllegalIndexError(f"an index is outside an axis of size {size}")


def _at(args: Any, path: Path) -> Any:
    for position in path:
        args = args[position]
    return args


def _bounds(call: Call) -> Iterator[Bound]:
    """Yields the operands of a call that are used directly as indices into an axis of another
    operand."""
    index_spec = getattr(call.op.definition, "index_spec", None)  # type: ignore[attr-defined]
    try:
        spec: IndexSpec | None = None if index_spec is None else index_spec(call)
    except StructIRError:
        return
    for statement in () if spec is None else spec.statements:
        operands = {read.name: read.operand for read in statement.reads}
        for read in statement.reads:
            for axis, entry in enumerate(read.entries):
                if not entry.inside and isinstance(entry.data, OperandElement):
                    assert spec is not None
                    indices = spec.operands[operands[entry.data.name]].path
                    yield indices, spec.operands[read.operand].path, axis
