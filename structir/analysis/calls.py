"""What a call of a function of known type gives: its own sizes bound by the arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from structir.analysis.lattice import FAIL_L1, AllVars, base_check, erase, walk_dims
from structir.errors import Diagnostic, StructInfoError
from structir.ir.axes import Axes, RowVar
from structir.ir.binding_dims import own_dims
from structir.ir.dims import Dim, Poly, Sym, equal, exact_quotient, linear, substitute, syms
from structir.ir.expr import Var
from structir.ir.struct_info import (
    FuncStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


def derive_call_ret_struct_info(function: FuncStructInfo, args: Iterable[StructInfo]) -> StructInfo:
    """The StructInfo of calling a function of known type on arguments of these infos.

    Parameters bind the function's own dims from left to right; a size that is an expression binds
    its one unknown where that can be solved exactly. Raises StructInfoError when the count or an
    argument cannot fit.
    """
    infos = tuple(args)
    if function.params is None:
        return function.ret
    if len(infos) != len(function.params):
        wanted = len(function.params)
        raise StructInfoError(
            Diagnostic(
                f"the function takes {wanted} argument{'s' * (wanted != 1)}, not {len(infos)}"
            )
        )
    binder = Binder(function)
    for position, (param, info) in enumerate(zip(function.params, infos, strict=True)):
        binder.bind(param, info)
        known = binder.known(param, AllVars())
        misfit = base_check(known, info) <= FAIL_L1
        if misfit or contradicts(known, info):
            raise StructInfoError(
                Diagnostic(f"argument {position} does not fit its parameter", code="E0207")
                .note(f"parameter: {param if misfit else known}")
                .note(f"argument: {info}")
            )
    return binder.known(function.ret, binder.shapes)


def contradicts(a: StructInfo, b: StructInfo) -> bool:
    """Whether two infos have a size at the same place that provably differs."""
    if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo):
        return any(map(contradicts, a.fields, b.fields))
    if not isinstance(a, TensorStructInfo | ShapeStructInfo) or type(a) is not type(b):
        return False
    mine, theirs = a.dims, b.dims
    if not isinstance(mine, tuple) or not isinstance(theirs, tuple):
        return False
    return any(equal(x, y) is False for x, y in zip(mine, theirs, strict=False))


class Binder:
    """Gives a function's own dims and shape variables what the arguments have there, the first
    one each."""

    def __init__(self, function: FuncStructInfo) -> None:
        self.own = set(own_dims(function))
        self.sizes: dict[Sym, Dim] = {}
        self.rows: dict[Any, Axes] = {}
        self.shapes: dict[Var, Any] = {}

    def bind(self, param: StructInfo, argument: StructInfo) -> None:
        walk_dims(param, argument, self.meet, self.rows)

    def meet(self, param: Any, argument: Any) -> None:
        if isinstance(param, Var):
            self.shapes.setdefault(param, argument)
        elif type(param) is RowVar:
            self.rows.setdefault(param, argument)
        elif type(param) is Poly and type(argument) in (int, Poly):
            self.own |= syms(param) - syms(argument)  # what both speak of is of the scope around
            size = substitute(param, self.sizes)
            unknown = syms(size) & (self.own - self.sizes.keys())
            if len(unknown) == 1:
                self.solve(size, next(iter(unknown)), argument)

    def solve(self, size: Dim, unknown: Sym, argument: Any) -> None:
        """Bind the one unknown of a size that the argument is equal to, if there is one answer."""
        factor, rest = linear(size, unknown) or (0, 0)
        if not isinstance(factor, int) or not factor:
            return  # a symbolic factor may be 0: then any size would do
        found = exact_quotient(argument - rest, factor)
        if found is not None:
            self.sizes[unknown] = found

    def known(self, info: StructInfo, shapes: Mapping[Var, Any]) -> StructInfo:
        """What an info of the function says with what is bound; other own dims may be anything."""
        bound, own = {**self.sizes, **self.rows}, self.own
        return erase(info, lambda s: bound.get(s) if s in own else s, shapes)
