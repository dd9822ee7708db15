"""What comes back to variables, added up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.adjoints.differentiable_leaves import Path
from structir.analysis.lattice import PASS, base_check
from structir.build import BlockBuilder
from structir.ir.expr import Expr, Tuple, Var
from structir.ir.struct_info import OBJECT, StructInfo, TupleStructInfo
from structir.opdef.adjoint_op import Cotangent, component

Sum = Any  # an Expr; for a tuple a dict from the numbers of its fields to their sums


class CotangentAccumulator:
    """What has come back so far, to those variables that it may come back to."""

    def __init__(self, builder: BlockBuilder, active: Iterable[Var]) -> None:
        self.builder = builder
        self.active = set(active)
        self.known: dict[Var, Sum] = {}

    def add(self, value: Expr, back: Cotangent) -> None:
        """One more contribution to a value; `back` may be a sum."""
        if back is None:
            return
        if isinstance(value, Var):
            if value in self.active:
                known = self.known.get(value)
                self.known[value] = self._sum(known, back, value.struct_info)
        elif isinstance(value, Tuple):
            for number, part in self._fields(back, len(value.fields)):
                self.add(value.fields[number], part)

    def pop(self, var: Var) -> Sum | None:
        """All that has come back to a variable."""
        return self.known.pop(var, None)

    def at(self, var: Var, path: Path) -> Expr | None:
        """What has come back to one tensor of a variable."""
        found = self.known.get(var)
        for index in path:
            found = None if found is None else found.get(index)
        return found

    def _sum(self, known: Sum | None, back: Cotangent, info: StructInfo) -> Sum:
        if isinstance(info, TupleStructInfo) or isinstance(back, dict | tuple):
            fields = info.fields if isinstance(info, TupleStructInfo) else None
            made = {} if known is None else known
            for number, part in self._fields(back, len(fields or ())):
                if part is not None:
                    own = fields[number] if fields is not None else OBJECT
                    made[number] = self._sum(made.get(number), part, own)
            return made
        cast = self.known_as(self.builder.atom(back), info)  # bound once, though read often
        return cast if known is None else self.builder.emit(known + cast)

    def _fields(self, back: Cotangent, count: int) -> Iterable[tuple[int, Cotangent]]:
        if isinstance(back, dict):
            return back.items()
        if isinstance(back, tuple):
            return enumerate(back)
        return [(k, component(back, k, self.builder.emit)) for k in range(count)]

    def known_as(self, back: Expr, info: StructInfo) -> Expr:
        """What comes back to a value has its structure, even where less is known of it."""
        if back.struct_info == info or base_check(info, back.struct_info) is PASS:
            return back
        return self.builder.match_cast(back, info)


def as_cotangent(found: Sum | None, info: StructInfo | None) -> Cotangent:
    """A sum as the rules of ops take it: fields by their places."""
    if not isinstance(found, dict):
        return found
    fields = info.fields if isinstance(info, TupleStructInfo) else (OBJECT,) * (max(found) + 1)
    return tuple([as_cotangent(found.get(k), field) for k, field in enumerate(fields)])
