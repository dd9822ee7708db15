"""The lattice of StructInfo: subtype check, join, and erasure at the end of scopes.

The rules follow from the kinds of the fields of each StructInfo subclass (`field_kinds`); only
functions have additional rules, because they bind dims. The rules are those of Relax (Lai et
al., 2023, section 3).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from structir.analysis.axes import (
    ANY,
    axes_of,
    check_axes,
    join_tensors,
    meet_tensors,
    replace_axes,
    tensor,
)
from structir.analysis.declaration import analysis
from structir.analysis.erasure import (
    ERASED,
    AllVars,
    dim_uses,
    erase,
    get_static_type,
    map_dims,
    with_fields,
)
from structir.ir.axes import RowVar, size_in
from structir.ir.binding_dims import bound_dims, own_dims, renamed, standing_alone
from structir.ir.dims import (
    Dim,
    Poly,
    as_dim,
    as_sym,
    equal,
    syms,
)
from structir.ir.dtype import DtypeVar, Element
from structir.ir.expr import Var
from structir.ir.node import replace
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    field_kinds,
)


class BaseCheckResult(enum.IntEnum):
    """Result of a subtype check of two StructInfos, from disjoint to proved."""

    FAIL_L0 = 0  # no value of one is a value of the other
    FAIL_L1 = 1  # the derived info is less precise: a run-time check decides
    FAIL_L2 = 2  # only the equality of symbolic sizes, or of dtypes, is unproved
    PASS = 3


FAIL_L0, FAIL_L1, FAIL_L2, PASS = BaseCheckResult
DISJOINT: Any = object()  # the meet of StructInfos without a common lower bound


# Subtype check


@analysis
def base_check(base: StructInfo, derived: StructInfo) -> BaseCheckResult:
    """Returns whether every value of StructInfo `derived` is provably a value of `base`."""
    if base is derived or base == OBJECT:
        return PASS
    if type(base) is not type(derived):
        return FAIL_L1 if derived == OBJECT else FAIL_L0
    if base == derived:
        return PASS
    if isinstance(base, FuncStructInfo) and isinstance(derived, FuncStructInfo):
        return _check_function(base, derived)
    if isinstance(base, TensorStructInfo) and _is_refined(base, derived):
        return _check_tensor(base, derived)
    if isinstance(base, PrimStructInfo):
        dtype = _check_dtype(base.element, derived.element)  # type: ignore[attr-defined]
        return min(dtype, _check_dim(base.value, derived.value))  # type: ignore[attr-defined]
    result = PASS
    for name, kind in field_kinds(type(base)):
        check = _CHECKS[kind](getattr(base, name), getattr(derived, name))
        if check < result:
            result = check
            if result is FAIL_L0:
                break
    return result


def _is_refined(a: Any, b: Any) -> bool:
    """Returns whether one of two tensors has axes other than sizes, or a dtype variable."""
    has_axes = a.axes is not None or b.axes is not None
    return has_axes or a.dtype_var is not None or b.dtype_var is not None


def _check_tensor(base: TensorStructInfo, derived: Any) -> BaseCheckResult:
    dtype = _check_dtype(base.element, derived.element)
    dtype = min(dtype, _check_static(base.vdevice, derived.vdevice))
    expected = axes_of(base)
    if base.dims is derived.dims and base.dims is not None:
        return dtype
    if isinstance(base.dims, Var):
        return min(dtype, FAIL_L2 if derived.ndim in (None, base.ndim) else FAIL_L0)
    if expected is None:
        return dtype
    result = BaseCheckResult(check_axes(expected, axes_of(derived)))
    return min(dtype, max(result, FAIL_L2) if isinstance(derived.dims, Var) and result else result)


def _check_dtype(base: Element, derived: Element) -> BaseCheckResult:
    """Compares dtypes; a variable and another dtype or variable may be the same dtype."""
    if base is not None and derived is not None and base != derived:
        return FAIL_L2 if DtypeVar in (type(base), type(derived)) else FAIL_L0
    return _check_static(base, derived)


def _check_static(base: Any, derived: Any) -> BaseCheckResult:
    if base is None or base == derived:
        return PASS
    return FAIL_L1 if derived is None else FAIL_L0


def _check_value(base: Any, derived: Any) -> BaseCheckResult:
    """Compares values of the program: two variables may have the same value."""
    if base is None or base is derived:
        return PASS
    return FAIL_L1 if derived is None else FAIL_L2


def _check_dim(base: Dim | None, derived: Dim | None) -> BaseCheckResult:
    if base is None:
        return PASS
    if derived is None:
        return FAIL_L1
    return _EQUALITY[equal(base, derived)]


# two sizes are equal for all values of their variables, for none, or for some or undecided
_EQUALITY = {True: PASS, False: FAIL_L0, None: FAIL_L2}


def _check_dims(base: Any, derived: Any) -> BaseCheckResult:
    """Compares sizes; ranks are a separate field, and a shape variable equals only itself."""
    if base is None or base is derived:
        return PASS
    if derived is None or isinstance(base, Var) or isinstance(derived, Var):
        return FAIL_L2
    if len(base) != len(derived):
        return FAIL_L0
    return min(map(_check_dim, base, derived), default=PASS)


def _check_info(base: Any, derived: Any) -> BaseCheckResult:
    if base is None or derived is None:
        return _check_static(base, derived)
    return base_check(base, derived)


def _check_infos(base: Any, derived: Any) -> BaseCheckResult:
    if base is None or derived is None:
        return _check_static(base, derived)
    if len(base) != len(derived):
        return FAIL_L0
    return min(map(base_check, base, derived), default=PASS)


_CHECKS: dict[str, Callable[[Any, Any], BaseCheckResult]] = {
    "static": _check_static,
    "names": lambda base, derived: PASS,  # names only denote positions
    "dtype": _check_static,
    "dtype_var": _check_static,
    "dim": _check_dim,
    "dims": _check_dims,
    "axes": _check_static,
    "info": _check_info,
    "infos": _check_infos,
    "value": _check_value,
}


def _check_function(base: FuncStructInfo, derived: FuncStructInfo) -> BaseCheckResult:
    """Compares results covariantly and parameters contravariantly."""
    if base.purity and not derived.purity:
        return FAIL_L0
    if base.derive_func not in (None, derived.derive_func):
        return FAIL_L2
    if base.params is None:
        return base_check(base.ret, _ret_outside(derived))
    if derived.params is None:
        return FAIL_L2
    if len(base.params) != len(derived.params):
        return FAIL_L0
    base, derived = _with_common_dims(base, derived)
    # a size that one parameter binds, and no other mentions, accepts an unknown size
    uses = Counter(dim_uses(derived.params or ()))
    unused = {dim for dim in own_dims(derived) if uses[dim] == 1}
    results = [base_check(base.ret, derived.ret)]
    for param, argument in zip(derived.params or (), base.params or (), strict=True):
        result = base_check(param, argument)
        if argument == get_static_type(argument):
            result = max(result, base_check(_with_unknown(param, unused), argument))
        results.append(result)
    return min(results)


# Join


@analysis
def unify_to_lca(a: StructInfo, b: StructInfo) -> StructInfo:
    """Returns the least common ancestor of two StructInfos.

    It is the most precise one that describes all values of both.
    """
    if a is b or a == b:
        return a
    if type(a) is not type(b):
        return OBJECT
    if isinstance(a, FuncStructInfo) and isinstance(b, FuncStructInfo):
        return _join_functions(a, b)
    if isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo):
        return join_tensors(a, b)
    return with_fields(a, lambda name, kind, value: _JOINS[kind](value, getattr(b, name)))


def _join_static(a: Any, b: Any) -> Any:
    return a if a == b else ERASED


def _common_names(a: Any, b: Any) -> Any:
    return a if a == b else None


def _join_value(a: Any, b: Any) -> Any:
    return a if a is b else ERASED


def _join_dim(a: Dim | None, b: Dim | None) -> Any:
    return a if a is not None and b is not None and equal(a, b) else ERASED


def _join_dims(a: Any, b: Any) -> Any:
    if a is b:
        return a
    tuples = type(a) is tuple and type(b) is tuple and len(a) == len(b)
    return a if tuples and all(map(equal, a, b)) else ERASED


def _join_info(a: Any, b: Any) -> Any:
    return ERASED if a is None or b is None else unify_to_lca(a, b)


def _join_infos(a: Any, b: Any) -> Any:
    if a is None or b is None or len(a) != len(b):
        return ERASED
    return tuple(map(unify_to_lca, a, b))


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "static": _join_static,
    "names": _common_names,
    "dtype": _join_static,
    "dtype_var": _join_static,
    "dim": _join_dim,
    "dims": _join_dims,
    "axes": _join_static,
    "info": _join_info,
    "infos": _join_infos,
    "value": _join_value,
}


def _join_functions(a: FuncStructInfo, b: FuncStructInfo) -> StructInfo:
    """Returns the join of two functions, opaque if no argument list is valid for both."""
    if type(a) is not FuncStructInfo:
        return OBJECT  # the number of results of a kernel has no unknown value
    purity = a.purity and b.purity
    derive = a.derive_func if a.derive_func == b.derive_func else None
    first, second = _with_common_dims(a, b)
    params: Any = DISJOINT
    if first.params is not None and second.params is not None:
        params = _meet_infos(first.params, second.params)
    if params is DISJOINT:
        return FuncStructInfo(None, unify_to_lca(_ret_outside(a), _ret_outside(b)), purity, derive)
    names = _former_names(a, first, b)
    params = tuple([map_dims(param, names) for param in params])
    ret = map_dims(unify_to_lca(first.ret, second.ret), names)
    return FuncStructInfo(params, ret, purity, derive)


def _former_names(a: FuncStructInfo, renamed: FuncStructInfo, b: FuncStructInfo) -> dict[Any, Any]:
    """Maps the new names of the own dims of `a` to its own, unless they are other dims of `b`."""
    outside = {*dim_uses([b])}
    pairs = zip(standing_alone(renamed.params or ()), standing_alone(a.params or ()), strict=True)
    return {new: _as_replacement(old) for new, old in pairs if old not in outside}


def _as_replacement(dim: Any) -> Any:
    """Returns what replaces a dim by another one: axes, a dtype variable, or a size."""
    if type(dim) is RowVar:
        return (dim,)
    return dim if type(dim) is DtypeVar else as_dim(dim)


def _ret_outside(function: FuncStructInfo) -> StructInfo:
    """Returns a function's result type with its own dims unknown."""
    dims = own_dims(function)
    return erase(function.ret, lambda sym: None if sym in dims else sym, AllVars())


def _with_unknown(info: StructInfo, dims: Collection[Any]) -> StructInfo:
    """Returns the StructInfo with the sizes that mention some dims unknown; others remain."""
    if isinstance(info, TensorStructInfo) and not isinstance(info.dims, Var):
        axes = replace_axes(axes_of(info) or (), lambda size: _outside(size, dims))
        dtype = None if info.dtype_var in dims else info.element
        if axes:
            return tensor(axes, dtype, info.vdevice)
        return info if dtype == info.element else replace(info, dtype_var=None)
    return erase(info, lambda dim: None if dim in dims else dim, AllVars())


def _outside(size: Any, dims: Collection[Any]) -> Any:
    if type(size) is RowVar:
        return None if size in dims else size
    return ANY if any([symbol in dims for symbol in syms(size)]) else size


# Meet


def greatest_lower_bound(a: StructInfo, b: StructInfo) -> StructInfo | None:
    """Returns the StructInfo of the values that have both; None if none is provably below both."""
    common = _meet(a, b)
    return None if common is DISJOINT else common


def _meet(a: StructInfo, b: StructInfo) -> Any:
    """Returns the greatest lower bound of two StructInfos; DISJOINT if no StructInfo has one."""
    if b == OBJECT or a == b:
        return a
    if a == OBJECT:
        return b
    if type(a) is not type(b):
        return DISJOINT
    if isinstance(a, FuncStructInfo) and isinstance(b, FuncStructInfo):
        return _meet_functions(a, b)
    if isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo):
        return meet_tensors(a, b) or DISJOINT
    if isinstance(a, PrimStructInfo) and a.element != b.element:  # type: ignore[attr-defined]
        return DISJOINT
    fields: dict[str, Any] = {}
    for name, kind in field_kinds(type(a)):
        x, y = getattr(a, name), getattr(b, name)
        if kind != "names" and (x is None or y is None):
            common = y if x is None else x
        else:
            common = _MEETS.get(kind, _meet_static)(x, y)
        if common is DISJOINT:
            return DISJOINT
        fields[name] = common
    return type(a)(**fields)


def _meet_static(a: Any, b: Any) -> Any:
    return a if a == b else DISJOINT


def _meet_value(a: Any, b: Any) -> Any:
    return a if a is b else DISJOINT


def _meet_dims(a: Any, b: Any) -> Any:
    common = _join_dims(a, b)
    return DISJOINT if common is ERASED else common


def _meet_dim(a: Dim, b: Dim) -> Any:
    return a if equal(a, b) else DISJOINT


def _meet_infos(a: Any, b: Any) -> Any:
    if len(a) != len(b):
        return DISJOINT
    infos = tuple(map(_meet, a, b))
    return DISJOINT if any([info is DISJOINT for info in infos]) else infos


_MEETS: dict[str, Callable[[Any, Any], Any]] = {
    "names": _common_names,
    "dim": _meet_dim,
    "dims": _meet_dims,
    "info": _meet,
    "infos": _meet_infos,
    "value": _meet_value,
}


def _meet_functions(a: FuncStructInfo, b: FuncStructInfo) -> Any:
    if type(a) is not FuncStructInfo or a.derive_func != b.derive_func:
        return DISJOINT
    purity = a.purity or b.purity
    first, second = _with_common_dims(a, b)
    params = first.params if second.params is None else second.params
    if first.params is not None and second.params is not None:
        params = _join_infos(first.params, second.params)
    ret = _meet(first.ret, second.ret)
    lost = (own_dims(first) | own_dims(second)) - bound_dims(
        () if params is ERASED else params or ()
    )
    # a result cannot depend on dims that no parameter binds
    if params is ERASED or ret is DISJOINT or lost.intersection(dim_uses([ret])):
        return DISJOINT
    return FuncStructInfo(params, ret, purity, a.derive_func)


# Functions


def _with_common_dims(
    a: FuncStructInfo, b: FuncStructInfo
) -> tuple[FuncStructInfo, FuncStructInfo]:
    """Renames the own dims of two functions to new ones, shared by dims bound at one position."""
    shared: dict[Any, Any] = {}
    return _with_dims_at(a, shared), _with_dims_at(b, shared)


def _with_dims_at(function: FuncStructInfo, shared: dict[Any, Any]) -> FuncStructInfo:
    positions: dict[Any, Any] = {}
    for index, param in enumerate(function.params or ()):
        _add_positions(param, (index,), positions)
    env: dict[Any, Any] = {}
    for dim, position in positions.items():
        if position not in shared:
            shared[position] = renamed(dim)
        env[dim] = shared[position]
    if not env:
        return function
    params = tuple([map_dims(param, env) for param in function.params or ()])
    return replace(function, params=params, ret=map_dims(function.ret, env))


def _add_positions(info: StructInfo, path: tuple[Any, ...], positions: dict[Any, Any]) -> None:
    """Adds the first position at which each dim is a size by itself."""
    if isinstance(info, FuncStructInfo):
        return
    if isinstance(info, TensorStructInfo):
        fields = [("dims", "dims", tuple(map(size_in, axes_of(info) or ())))]
        if info.dtype_var is not None:
            positions.setdefault(info.dtype_var, (*path, "dtype"))
    else:
        fields = [(name, kind, getattr(info, name)) for name, kind in field_kinds(type(info))]
        if isinstance(info, PrimStructInfo) and info.dtype_var is not None:
            positions.setdefault(info.dtype_var, (*path, "dtype"))
    for name, kind, value in fields:
        items = value if type(value) is tuple else (value,)
        for index, item in enumerate(items):
            position = (*path, name, index)
            if kind in ("info", "infos") and item is not None:
                _add_positions(item, position, positions)
            elif kind in ("dim", "dims"):
                dim = item if type(item) is RowVar else as_sym(item) if type(item) is Poly else None
                if dim is not None:
                    positions.setdefault(dim, (*position, type(dim) is RowVar))
