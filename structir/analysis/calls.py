"""Deduces calls of typed functions: binds the function's own dims to those of the arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from structir.analysis.declaration import analysis
from structir.analysis.erasure import AllVars, erase, walk_dims
from structir.analysis.lattice import FAIL_L0, FAIL_L1, base_check
from structir.errors import Diagnostic, StructInfoError
from structir.ir.axes import Axes, RowVar
from structir.ir.binding_dims import own_dims
from structir.ir.dims import Dim, Poly, Sym, exact_quotient, linear, substitute, syms
from structir.ir.dtype import DtypeVar
from structir.ir.expr import Var
from structir.ir.struct_info import (
    FuncStructInfo,
    StructInfo,
)


@analysis
def derive_call_ret_struct_info(function: FuncStructInfo, args: Iterable[StructInfo]) -> StructInfo:
    """Returns the StructInfo of a call of a function type with arguments of these StructInfos.

    Parameters bind the function's own dims from left to right; a size expression binds its only
    unknown if the equation has an exact solution. Raises StructInfoError if an argument or
    the number of arguments does not match.
    """
    infos = tuple(args)
    if function.params is None:
        return function.ret
    if len(infos) != len(function.params):
        expected = len(function.params)
        message = f"expected {expected} argument{'s' * (expected != 1)}, found {len(infos)}"
        raise StructInfoError(Diagnostic(message, code="E0210"))
    binder = Binder(function)
    for position, (param, info) in enumerate(zip(function.params, infos, strict=True)):
        binder.bind(param, info)
        resolved = binder.resolve(param, AllVars())
        check = base_check(resolved, info)
        if check <= FAIL_L1:
            raise StructInfoError(_argument_mismatch(position, param, resolved, info))
    return binder.resolve(function.ret, binder.shapes)


def undecided_params(function: FuncStructInfo, args: Sequence[StructInfo]) -> dict[int, StructInfo]:
    """Returns the expected StructInfo of each argument that may have it, by index.

    The rank or dtype of such an argument is unknown, and a match_cast would check it.
    """
    if function.params is None or len(args) != len(function.params):
        return {}
    binder, expected = Binder(function), {}
    for index, (param, info) in enumerate(zip(function.params, args, strict=True)):
        binder.bind(param, info)
        resolved = binder.resolve(param, AllVars())
        if base_check(resolved, info) is FAIL_L1 and _is_checkable(resolved, info):
            expected[index] = resolved
    return expected


def accepts_arguments(function: FuncStructInfo, args: Sequence[StructInfo]) -> bool:
    """Returns whether some values of these StructInfos are arguments of a function."""
    if function.params is None or len(args) != len(function.params):
        return function.params is None
    binder = Binder(function)
    for param, info in zip(function.params, args, strict=True):
        binder.bind(param, info)
        if are_disjoint(binder.resolve(param, AllVars()), info):
            return False
    return True


def _is_checkable(param: StructInfo, info: StructInfo) -> bool:
    """Returns whether a run checks that a value of `info` is one of `param`.

    A function checks its arguments when it is called, but not results that only `param` states.
    """
    if isinstance(param, FuncStructInfo) and isinstance(info, FuncStructInfo):
        return info.params is not None and base_check(param.ret, info.ret) is not FAIL_L1
    return True


def _argument_mismatch(
    position: int, param: StructInfo, expected: StructInfo, info: StructInfo
) -> Diagnostic:
    message = f"argument {position}: expected {expected}, found {info}"
    hint = f"change the argument, or annotate the parameter with {info}"
    if not are_disjoint(expected, info):
        hint = f"check the argument at run time: `R.match_cast(..., {expected})`"
    diagnostic = Diagnostic(message, hint=hint, code="E0207")
    if expected != param:
        diagnostic = diagnostic.note(f"the parameter is {param}, with dims bound by the arguments")
    return diagnostic


def are_disjoint(a: StructInfo, b: StructInfo) -> bool:
    """Returns whether no value has both StructInfos."""
    return base_check(a, b) is FAIL_L0 and base_check(b, a) is FAIL_L0


class Binder:
    """Binds a function's own dims and shape variables to those of the arguments.

    Later bindings of a bound dim are ignored.
    """

    def __init__(self, function: FuncStructInfo) -> None:
        self.own_dims = set(own_dims(function))
        self.sizes: dict[Sym, Dim] = {}
        self.rows: dict[Any, Axes] = {}
        self.dtypes: dict[DtypeVar, Any] = {}  # to dtypes or dtype variables
        self.shapes: dict[Var, Any] = {}

    @property
    def bindings(self) -> dict[Any, Any]:
        """The sizes, axes and dtypes of bound variables."""
        return {**self.sizes, **self.rows, **self.dtypes}

    def bind(self, param: StructInfo, argument: StructInfo) -> None:
        """Binds the dims of one parameter to those of its argument."""
        walk_dims(param, argument, self.match, self.rows)

    def match(self, param: Any, argument: Any) -> None:
        """Binds one size, row variable, dtype variable or shape variable."""
        if isinstance(param, Var):
            self.shapes.setdefault(param, argument)
        elif type(param) is RowVar:
            self.rows.setdefault(param, argument)
        elif type(param) is DtypeVar:
            self.dtypes.setdefault(param, argument)
        elif type(param) is Poly and type(argument) in (int, Poly):
            self.own_dims |= syms(param) - syms(argument)  # dims in both belong to the outer scope
            size = substitute(param, self.sizes)
            unknown = syms(size) & (self.own_dims - self.sizes.keys())
            if len(unknown) == 1:
                self.solve(size, next(iter(unknown)), argument)

    def solve(self, size: Dim, unknown: Sym, argument: Any) -> None:
        """Binds the one unknown of a size if the equation has a unique solution."""
        factor, rest = linear(size, unknown) or (0, 0)
        if not isinstance(factor, int) or not factor:
            return  # a symbolic factor may be 0, so the solution is not unique
        solution = exact_quotient(argument - rest, factor)
        if solution is not None:
            self.sizes[unknown] = solution

    def resolve(self, info: StructInfo, shapes: Mapping[Var, Any]) -> StructInfo:
        """Returns a StructInfo with bindings substituted; unbound own dims become unknown."""
        bindings, dims = self.bindings, self.own_dims
        return erase(info, lambda s: bindings.get(s) if s in dims else s, shapes)
