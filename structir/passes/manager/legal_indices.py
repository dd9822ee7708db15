"""Checks that every index from data is inside its axis; passes may change reads at others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from structir.analysis.variables import walk_values
from structir.errors import StructIRError
from structir.interpret.scope import Activation, Value
from structir.ir.dims import Dim
from structir.ir.expr import Call, Expr, Function, Tuple
from structir.ir.op import Op
from structir.opdef.memo import spec_of
from structir.passes.manager.effects import EffectRecorder
from structir.projections.scalar_expr import OperandElement

Path = tuple[int, ...]
Bound = tuple[Path, Path, int]  # an operand of indices; the tensor and axis that they index


class IllegalIndexError(StructIRError):
    """An index outside its axis."""


@attrs.frozen(eq=False)
class IndexChecker(EffectRecorder):
    """An interpreter that raises IllegalIndexError for an index outside its axis."""

    bounds: dict[int, tuple[Bound, ...]] = attrs.field(factory=dict, kw_only=True)  # by call

    def evaluate(self, expr: Expr, scope: Activation) -> Any:
        if type(expr) is Call and type(expr.op) is Op and len(expr.args) > 1:
            if id(expr) not in self.bounds:
                self.bounds[id(expr)] = () if _gives_nan(expr) else tuple(_bounds(expr))
            if self.bounds[id(expr)]:
                self._check(self.bounds[id(expr)], [self.value(a, scope) for a in expr.args])
        return EffectRecorder.evaluate(self, expr, scope)

    def _check(self, bounds: tuple[Bound, ...], args: list[Value]) -> None:
        for indices, tensor, axis in bounds:
            values, size = np.asarray(_at(args, indices)), np.shape(_at(args, tensor))[axis]
            if values.size and not (values.min() >= 0 and values.max() < size):
                raise IllegalIndexError(f"an index is outside an axis of size {size}")


def _at(args: Any, path: Path) -> Any:
    for position in path:
        args = args[position]
    return args


def indexed_axes(function: Function) -> dict[str, Dim]:
    """Returns the size of the axis into which each parameter of indices points, if it is known."""
    names = {param.name: param for param in function.params}
    sizes: dict[str, Dim] = {}
    for node in walk_values(function):
        if type(node) is Call and type(node.op) is Op and len(node.args) > 1:
            for indices, tensor, axis in (*_bounds(node), *_written(node)):
                param = _operand(node, indices)
                target = node if tensor is None else _operand(node, tensor)
                dims = getattr(getattr(target, "struct_info", None), "dims", None)
                name = next((name for name, each in names.items() if each is param), None)
                if name is not None and isinstance(dims, tuple):
                    sizes.setdefault(name, dims[axis])
    return sizes


def _operand(call: Call, path: Path) -> Any:
    operand: Any = call.args[path[0]]
    for position in path[1:]:
        operand = operand.fields[position] if isinstance(operand, Tuple) else None
    return operand


def _written(call: Call) -> Iterator[tuple[Path, None, int]]:
    """Yields the operands of a call that are used directly as indices into its result."""
    spec = spec_of(call)
    for statement in () if spec is None or len(spec.results) != 1 else spec.statements:
        operands = {read.name: read.operand for read in statement.reads}
        for write in statement.writes:
            for axis, entry in enumerate(write.entries):
                if isinstance(entry.data, OperandElement) and spec is not None:
                    yield spec.operands[operands[entry.data.name]].path, None, axis


def _gives_nan(call: Call) -> bool:
    """Whether an op defines the reads outside its operands, as NaN."""
    spec = spec_of(call)
    return spec is not None and spec.fill != spec.fill


def _bounds(call: Call) -> Iterator[Bound]:
    """Yields the operands of a call that are used directly as indices into an axis of another
    operand."""
    spec = spec_of(call)
    for statement in () if spec is None else spec.statements:
        operands = {read.name: read.operand for read in statement.reads}
        for read in statement.reads:
            for axis, entry in enumerate(read.entries):
                if not entry.inside and isinstance(entry.data, OperandElement):
                    assert spec is not None
                    indices = spec.operands[operands[entry.data.name]].path
                    yield indices, spec.operands[read.operand].path, axis
