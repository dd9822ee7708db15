"""Accumulates cotangents per variable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.adjoints.differentiable_leaves import Path
from structir.analysis.lattice import PASS, base_check
from structir.build import BlockBuilder
from structir.ir.expr import Expr, Tuple, Var
from structir.ir.struct_info import OBJECT, StructInfo, TupleStructInfo
from structir.opdef.adjoint_op import Cotangent, component

Sum = Any  # an Expr, or for a tuple a dict from field indices to sums


class CotangentAccumulator:
    """The accumulated cotangents of the variables in `active`."""

    def __init__(self, builder: BlockBuilder, active: Iterable[Var]) -> None:
        self.builder = builder
        self.active = set(active)
        self.sums: dict[Var, Sum] = {}

    def add(self, value: Expr, cotangent: Cotangent) -> None:
        """Adds to the cotangent of a value; `cotangent` may be a `Sum`."""
        if cotangent is None:
            return
        if isinstance(value, Var):
            if value in self.active:
                total = self.sums.get(value)
                self.sums[value] = self._sum(total, cotangent, value.struct_info)
        elif isinstance(value, Tuple):
            for index, field_cotangent in self._fields(cotangent, len(value.fields)):
                self.add(value.fields[index], field_cotangent)

    def pop(self, var: Var) -> Sum | None:
        """Removes and returns the cotangent of a variable; None if there is none."""
        return self.sums.pop(var, None)

    def at(self, var: Var, path: Path) -> Expr | None:
        """Returns the cotangent of one tensor of a variable; None if there is none."""
        cotangent = self.sums.get(var)
        for index in path:
            cotangent = None if cotangent is None else cotangent.get(index)
        return cotangent

    def _sum(self, total: Sum | None, cotangent: Cotangent, info: StructInfo) -> Sum:
        if isinstance(info, TupleStructInfo) or isinstance(cotangent, dict | tuple):
            fields = info.fields if isinstance(info, TupleStructInfo) else None
            sums = {} if total is None else total
            for index, field_cotangent in self._fields(cotangent, len(fields or ())):
                if field_cotangent is not None:
                    field = fields[index] if fields is not None else OBJECT
                    sums[index] = self._sum(sums.get(index), field_cotangent, field)
            return sums
        cast = self.cast(self.builder.atom(cotangent), info)  # bound: it has several uses
        return cast if total is None else self.builder.emit(total + cast)

    def _fields(self, cotangent: Cotangent, count: int) -> Iterable[tuple[int, Cotangent]]:
        if isinstance(cotangent, dict):
            return cotangent.items()
        if isinstance(cotangent, tuple):
            return enumerate(cotangent)
        return [(k, component(cotangent, k, self.builder.emit)) for k in range(count)]

    def cast(self, cotangent: Expr, info: StructInfo) -> Expr:
        """Returns a cotangent with the StructInfo of its value; emits `match_cast` if needed."""
        if cotangent.struct_info == info or base_check(info, cotangent.struct_info) is PASS:
            return cotangent
        return self.builder.match_cast(cotangent, info)


def as_cotangent(total: Sum | None, info: StructInfo | None) -> Cotangent:
    """Returns a sum in the form that gradient rules accept, with tuples in place of dicts."""
    if not isinstance(total, dict):
        return total
    fields = info.fields if isinstance(info, TupleStructInfo) else (OBJECT,) * (max(total) + 1)
    return tuple([as_cotangent(total.get(k), field) for k, field in enumerate(fields)])
