"""The lattice of StructInfo: subtype check, join, and erasure at the end of scopes.

The rules follow from the kinds of the fields of each StructInfo subclass (`field_kinds`); only
functions have additional rules, because they bind dims. The rules are those of Relax (Lai et
al., 2023, section 3).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs

from structir.analysis.axes import align_axes, axes_of, check_axes, join_axes, replace_axes, tensor
from structir.ir.axes import Axes, RowVar
from structir.ir.binding_dims import bound_dims, own_dims
from structir.ir.dims import (
    Dim,
    Poly,
    Sym,
    as_dim,
    as_sym,
    equal,
    substitute,
    syms,
)
from structir.ir.expr import Var
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    field_kinds,
)


class BaseCheckResult(enum.IntEnum):
    """Result of a subtype check of two StructInfos, from disjoint to proved."""

    FAIL_L0 = 0  # no value of one is a value of the other
    FAIL_L1 = 1  # the derived info is less precise: a run-time check decides
    FAIL_L2 = 2  # only the equality of symbolic sizes is unproved
    PASS = 3


FAIL_L0, FAIL_L1, FAIL_L2, PASS = BaseCheckResult
ERASED: Any = object()  # an erased field; a StructInfo that requires the field becomes Object
Env = Mapping[Any, Any]  # symbolic variables to dims, row variables to axes


# Subtype check


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
    if isinstance(base, TensorStructInfo) and _has_axes(base, derived):
        return _check_tensor(base, derived)
    result = PASS
    for name, kind in field_kinds(type(base)):
        check = _CHECKS[kind](getattr(base, name), getattr(derived, name))
        if check < result:
            result = check
            if result is FAIL_L0:
                break
    return result


def _has_axes(a: Any, b: Any) -> bool:
    """Returns whether one of two tensors has axes other than sizes."""
    return a.axes is not None or b.axes is not None


def _check_tensor(base: TensorStructInfo, derived: Any) -> BaseCheckResult:
    dtype = _check_static(base.dtype, derived.dtype)
    expected = axes_of(base)
    if isinstance(base.dims, Var):
        return min(dtype, FAIL_L2 if derived.ndim in (None, base.ndim) else FAIL_L0)
    if expected is None:
        return dtype
    result = BaseCheckResult(check_axes(expected, axes_of(derived)))
    return min(dtype, max(result, FAIL_L2) if isinstance(derived.dims, Var) and result else result)


def _check_static(base: Any, derived: Any) -> BaseCheckResult:
    if base is None or base == derived:
        return PASS
    return FAIL_L1 if derived is None else FAIL_L0


def _check_dim(base: Dim | None, derived: Dim | None) -> BaseCheckResult:
    if base is None:
        return PASS
    if derived is None:
        return FAIL_L1
    if type(base) is int and type(derived) is int:
        return PASS if base == derived else FAIL_L0
    return PASS if equal(base, derived) else FAIL_L2


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
    "dtype": _check_static,
    "dim": _check_dim,
    "dims": _check_dims,
    "axes": _check_static,
    "info": _check_info,
    "infos": _check_infos,
}


def _check_function(base: FuncStructInfo, derived: FuncStructInfo) -> BaseCheckResult:
    if base.purity and not derived.purity:
        return FAIL_L0
    if base.params is None:
        if base.derive_func is not None and base.derive_func != derived.derive_func:
            return FAIL_L2
        return base_check(base.ret, derived.ret)
    if derived.params is None:
        return FAIL_L2
    if len(base.params) != len(derived.params):
        return FAIL_L0
    derived = _with_dims_of(derived, base)
    # parameters are compared like results: covariant, as Relax does
    return min(
        _check_infos(base.params, derived.params),
        base_check(base.ret, derived.ret),
    )


# Join


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
    if isinstance(a, TensorStructInfo) and _has_axes(a, b):
        return join_axes(a, b)  # type: ignore[arg-type]
    return _with_fields(a, lambda name, kind, value: _JOINS[kind](value, getattr(b, name)))


def _with_fields(info: StructInfo, change: Callable[[str, str, Any], Any]) -> StructInfo:
    """Returns the StructInfo with changed fields; Object if a required field is erased."""
    fields: dict[str, Any] = {}
    same = True
    for name, kind in field_kinds(type(info)):
        value = getattr(info, name)
        new = change(name, kind, value)
        if new is ERASED:
            if not _may_be_unknown(type(info), name):
                return OBJECT
            new = None
        same = same and new is value
        fields[name] = new
    return info if same else type(info)(**fields)


def _may_be_unknown(cls: Any, name: str) -> bool:
    default: Any = getattr(attrs.fields(cls), name).default
    return default is not attrs.NOTHING


def _join_static(a: Any, b: Any) -> Any:
    return a if a == b else ERASED


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
    "dtype": _join_static,
    "dim": _join_dim,
    "dims": _join_dims,
    "axes": _join_static,
    "info": _join_info,
    "infos": _join_infos,
}


def _join_functions(a: FuncStructInfo, b: FuncStructInfo) -> StructInfo:
    purity = a.purity and b.purity
    if a.params is None or b.params is None or len(a.params) != len(b.params):
        opaque = a.params is None and b.params is None and a.derive_func == b.derive_func
        derive = a.derive_func if opaque else None
        return FuncStructInfo(None, unify_to_lca(_ret_outside(a), _ret_outside(b)), purity, derive)
    b = _with_dims_of(b, a)
    params = _join_infos(a.params, b.params)
    ret = unify_to_lca(a.ret, b.ret)
    # dims that no parameter binds any more are erased in the result
    unbound = own_dims(a) - bound_dims(params)
    ret = erase(ret, lambda sym: None if sym in unbound else sym)
    return FuncStructInfo(params, ret, purity)


def _ret_outside(function: FuncStructInfo) -> StructInfo:
    """Returns a function's result type with its own dims erased."""
    dims = own_dims(function)
    return erase(function.ret, lambda sym: None if sym in dims else sym)


# Scopes


def erase_to_well_defined(
    info: StructInfo,
    shape_vars: Mapping[Any, Any] | Iterable[Any] = (),
    vars: Mapping[Var, Any] | Collection[Var] = (),
) -> StructInfo:
    """Returns a StructInfo in a scope that defines only `shape_vars` and `vars`.

    Each may be a mapping, which replaces, or a collection, whose members are kept. A shape that
    mentions anything else is erased; rank and dtype remain.
    """
    pairs = shape_vars.items() if isinstance(shape_vars, Mapping) else ((s, s) for s in shape_vars)
    env = {_variable(sym): _replacement(value) for sym, value in pairs}
    values = vars if isinstance(vars, Mapping) else {var: var for var in vars}
    return erase(info, env.get, values)


def _variable(name: Any) -> Any:
    return name if type(name) is RowVar else as_sym(as_dim(name))


def _replacement(value: Any) -> Any:
    return value if type(value) in (RowVar, tuple) else as_dim(value)


def erase(
    info: StructInfo,
    dim_of: Callable[[Any], Any],
    vars: Mapping[Var, Any] = {},
) -> StructInfo:
    """Returns a StructInfo with symbolic variables replaced by a function.

    `dim_of` maps a symbolic variable to a dim, to itself or to None, and a row variable to itself,
    to axes or to None; None erases.
    """
    if not isinstance(info, FuncStructInfo):
        return _erase_fields(info, dim_of, vars)
    bound = own_dims(info)
    unbound: set[Any] = set()

    def own_or_outer(sym: Any) -> Any:
        return dim_of(sym) if sym not in bound else None if sym in unbound else sym

    while True:
        erased = _erase_fields(info, own_or_outer, vars)
        # a dim may lose the parameter that bound it, and is then erased everywhere
        newly_unbound = bound - unbound - own_dims(erased)  # type: ignore[arg-type]
        if not newly_unbound:
            return erased
        unbound |= newly_unbound


def _erase_fields(
    info: StructInfo, dim_of: Callable[[Any], Any], vars: Mapping[Var, Any]
) -> StructInfo:
    def replaced(value: Poly) -> Any:
        env: dict[Sym, Dim] = {}
        for sym in syms(value):
            new = dim_of(sym)
            if new is None:
                return None
            if new is not sym:
                env[sym] = new
        return substitute(value, env) if env else value

    if isinstance(info, TensorStructInfo) and info.axes is not None:
        axes = replace_axes(info.axes, lambda d: replaced(d) if type(d) is Poly else dim_of(d))
        return info if axes == info.axes else _with_axes(info, axes)

    def change(_name: str, kind: str, value: Any) -> Any:
        if value is None:
            return None
        if kind == "dims":
            return _erase_dims(value, replaced, vars)
        if kind == "dim":
            new = replaced(value) if type(value) is Poly else value
            return ERASED if new is None else new
        if kind == "info":
            return erase(value, dim_of, vars)
        if kind == "infos":
            new = tuple([erase(item, dim_of, vars) for item in value])
            return value if all(a is b for a, b in zip(new, value, strict=True)) else new
        return value

    return _with_fields(info, change)


def _with_axes(info: TensorStructInfo, axes: Axes | None) -> TensorStructInfo:
    """Returns a tensor with other axes; only its rank if they are erased."""
    return (
        TensorStructInfo(None, info.dtype, info.ndim) if axes is None else tensor(axes, info.dtype)
    )


def _erase_dims(value: Any, replaced: Callable[[Poly], Any], vars: Mapping[Var, Any]) -> Any:
    if isinstance(value, Var):
        new = vars.get(value)
        return ERASED if new is None else _dims_of_value(new)
    dims = []
    changed = False
    for dim in value:
        new = replaced(dim) if type(dim) is Poly else dim
        if new is None:
            return ERASED
        changed = changed or new is not dim
        dims.append(new)
    return tuple(dims) if changed else value


def _dims_of_value(shape: Any) -> Any:
    """Returns the sizes of a shape expression, or a shape variable itself."""
    return getattr(shape, "dims", shape)


def get_static_type(info: StructInfo) -> StructInfo:
    """Returns the StructInfo without sizes: ranks, dtypes and structure only."""

    def change(_name: str, kind: str, value: Any) -> Any:
        if kind in ("dims", "dim", "axes"):
            return None if value is None else ERASED
        if kind == "info" and value is not None:
            return get_static_type(value)
        if kind == "infos" and value is not None:
            return tuple(map(get_static_type, value))
        return value

    return _with_fields(info, change)


# Functions


def _with_dims_of(function: FuncStructInfo, other: FuncStructInfo) -> FuncStructInfo:
    """Renames the function's own dims to those of another, position by position."""
    env: dict[Any, Any] = {}
    function_dims = own_dims(function)
    target_dims = own_dims(other)
    used: set[Any] = set()

    def match(dim: Any, target: Any) -> None:
        if type(dim) is RowVar:
            row = target[0] if type(target) is tuple and len(target) == 1 else None
            if dim in function_dims and row in target_dims and dim not in env and row not in used:
                used.add(row)
                env[dim] = target
            return
        sym = as_sym(dim) if type(dim) is Poly else None
        other_sym = as_sym(target) if type(target) is Poly else None
        # one to one: (n, m) does not become (k, k)
        if (
            sym in function_dims
            and other_sym in target_dims
            and sym not in env
            and other_sym not in used
        ):
            used.add(other_sym)
            env[sym] = target

    for dim, target in zip(function.params or (), other.params or (), strict=False):
        walk_dims(dim, target, match)
    if not env:
        return function
    params = tuple([map_dims(p, env) for p in function.params or ()])
    return FuncStructInfo(params, map_dims(function.ret, env), function.purity)


def walk_dims(
    a: StructInfo, b: StructInfo, match: Callable[[Any, Any], None], rows: Mapping[Any, Axes] = {}
) -> None:
    """Calls `match` on the sizes at the same positions of two StructInfos.

    Shape variables are matched with shapes, and row variables with axes; `rows` are bound already.
    """
    if type(a) is not type(b) or isinstance(a, FuncStructInfo):
        return
    if isinstance(a, TensorStructInfo) and a.axes is not None:
        for axis, actual in align_axes(a.axes, axes_of(b), rows):  # type: ignore[arg-type]
            match(axis, actual)
        return
    for name, kind in field_kinds(type(a)):
        first, second = getattr(a, name), getattr(b, name)
        if first is None or second is None:
            continue
        if kind == "dim" or isinstance(first, Var):
            match(first, second)
        elif kind == "dims" and type(second) is tuple:
            for x, y in zip(first, second, strict=False):
                match(x, y)
        elif kind == "info":
            walk_dims(first, second, match, rows)
        elif kind == "infos":
            for x, y in zip(first, second, strict=False):
                walk_dims(x, y, match, rows)


def map_dims(info: StructInfo, env: Env) -> StructInfo:
    """Returns the StructInfo with symbolic variables replaced."""
    return erase(info, lambda sym: env.get(sym, sym), AllVars())


class AllVars(dict[Var, Any]):
    """Maps every shape variable to itself."""

    def get(self, key: Var, default: Any = None) -> Any:
        return key
