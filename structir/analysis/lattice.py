"""The lattice of struct infos: how precise one is against another, their join, what scopes forget.

Everything follows from what the fields of a kind hold (`field_kinds`); only functions, which bind
dims of their own, have rules beside it. The rules are those of Relax (Lai et al., 2023, section 3).
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
    """How sure it is that every value of one info is a value of another."""

    FAIL_L0 = 0  # never, whatever the values
    FAIL_L1 = 1  # the derived info is less precise: only a run-time check can tell
    FAIL_L2 = 2  # only the symbolic sizes cannot be shown equal
    PASS = 3


FAIL_L0, FAIL_L1, FAIL_L2, PASS = BaseCheckResult
FORGOTTEN: Any = object()  # a field that does not survive; the whole info is then an Object
Env = Mapping[Any, Any]  # symbolic variables to dims, row variables to axes


# ---- precision -------------------------------------------------------------------------------


def base_check(base: StructInfo, derived: StructInfo) -> BaseCheckResult:
    """How sure it is that every value described by `derived` is described by `base`."""
    if base is derived or base == OBJECT:
        return PASS
    if type(base) is not type(derived):
        return FAIL_L1 if derived == OBJECT else FAIL_L0
    if base == derived:
        return PASS
    if isinstance(base, FuncStructInfo) and isinstance(derived, FuncStructInfo):
        return _check_function(base, derived)
    if isinstance(base, TensorStructInfo) and _of_axes(base, derived):
        return _check_tensor(base, derived)
    result = PASS
    for name, kind in field_kinds(type(base)):
        check = _CHECKS[kind](getattr(base, name), getattr(derived, name))
        if check < result:
            result = check
            if result is FAIL_L0:
                break
    return result


def _of_axes(a: Any, b: Any) -> bool:
    """Whether one of two tensors has axes that sizes cannot say."""
    return a.axes is not None or b.axes is not None


def _check_tensor(base: TensorStructInfo, derived: Any) -> BaseCheckResult:
    dtype = _check_static(base.dtype, derived.dtype)
    wanted = axes_of(base)
    if isinstance(base.dims, Var):
        return min(dtype, FAIL_L2 if derived.ndim in (None, base.ndim) else FAIL_L0)
    if wanted is None:
        return dtype
    found = BaseCheckResult(check_axes(wanted, axes_of(derived)))
    return min(dtype, max(found, FAIL_L2) if isinstance(derived.dims, Var) and found else found)


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
    """Ranks have a field of their own; a shape variable is known to equal itself alone."""
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


# ---- join ------------------------------------------------------------------------------------


def unify_to_lca(a: StructInfo, b: StructInfo) -> StructInfo:
    """The least common ancestor: the most precise info that describes every value of both."""
    if a is b or a == b:
        return a
    if type(a) is not type(b):
        return OBJECT
    if isinstance(a, FuncStructInfo) and isinstance(b, FuncStructInfo):
        return _join_functions(a, b)
    if isinstance(a, TensorStructInfo) and _of_axes(a, b):
        return join_axes(a, b)  # type: ignore[arg-type]
    return _with_fields(a, lambda name, kind, value: _JOINS[kind](value, getattr(b, name)))


def _with_fields(info: StructInfo, change: Callable[[str, str, Any], Any]) -> StructInfo:
    """The info over changed fields; an Object if one is forgotten that it cannot do without."""
    fields: dict[str, Any] = {}
    same = True
    for name, kind in field_kinds(type(info)):
        value = getattr(info, name)
        new = change(name, kind, value)
        if new is FORGOTTEN:
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
    return a if a == b else FORGOTTEN


def _join_dim(a: Dim | None, b: Dim | None) -> Any:
    return a if a is not None and b is not None and equal(a, b) else FORGOTTEN


def _join_dims(a: Any, b: Any) -> Any:
    if a is b:
        return a
    tuples = type(a) is tuple and type(b) is tuple and len(a) == len(b)
    return a if tuples and all(map(equal, a, b)) else FORGOTTEN


def _join_info(a: Any, b: Any) -> Any:
    return FORGOTTEN if a is None or b is None else unify_to_lca(a, b)


def _join_infos(a: Any, b: Any) -> Any:
    if a is None or b is None or len(a) != len(b):
        return FORGOTTEN
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
        return FuncStructInfo(None, unify_to_lca(_outside(a), _outside(b)), purity, derive)
    b = _with_dims_of(b, a)
    params = _join_infos(a.params, b.params)
    ret = unify_to_lca(a.ret, b.ret)
    # a dim that no parameter binds any longer says nothing in the result
    lost = own_dims(a) - bound_dims(params)
    ret = erase(ret, lambda sym: None if sym in lost else sym)
    return FuncStructInfo(params, ret, purity)


def _outside(function: FuncStructInfo) -> StructInfo:
    """What may be said of a function's result where its own dims are not known."""
    own = own_dims(function)
    return erase(function.ret, lambda sym: None if sym in own else sym)


# ---- scopes ----------------------------------------------------------------------------------


def erase_to_well_defined(
    info: StructInfo,
    shape_vars: Mapping[Any, Any] | Iterable[Any] = (),
    vars: Mapping[Var, Any] | Collection[Var] = (),
) -> StructInfo:
    """What remains of an info in a scope where only `shape_vars` and `vars` are defined.

    Each may be a mapping, which replaces, or a collection, whose members stand for themselves. A
    shape
    that mentions anything else is forgotten; rank and dtype stay.
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
    """`erase_to_well_defined` by a function from a symbolic variable to a dim, to itself, or to
    None; from a row variable to itself, to axes, or to None."""
    if not isinstance(info, FuncStructInfo):
        return _erased(info, dim_of, vars)
    own = own_dims(info)
    lost: set[Any] = set()

    def own_or_outer(sym: Any) -> Any:
        return dim_of(sym) if sym not in own else None if sym in lost else sym

    while True:
        erased = _erased(info, own_or_outer, vars)
        # a dim may lose the parameter that bound it: then it says nothing elsewhere either
        gone = own - lost - own_dims(erased)  # type: ignore[arg-type]
        if not gone:
            return erased
        lost |= gone


def _erased(info: StructInfo, dim_of: Callable[[Any], Any], vars: Mapping[Var, Any]) -> StructInfo:
    def known(value: Poly) -> Any:
        env: dict[Sym, Dim] = {}
        for sym in syms(value):
            new = dim_of(sym)
            if new is None:
                return None
            if new is not sym:
                env[sym] = new
        return substitute(value, env) if env else value

    if isinstance(info, TensorStructInfo) and info.axes is not None:
        axes = replace_axes(info.axes, lambda d: known(d) if type(d) is Poly else dim_of(d))
        return info if axes == info.axes else _with_axes(info, axes)

    def change(_name: str, kind: str, value: Any) -> Any:
        if value is None:
            return None
        if kind == "dims":
            return _erase_dims(value, known, vars)
        if kind == "dim":
            new = known(value) if type(value) is Poly else value
            return FORGOTTEN if new is None else new
        if kind == "info":
            return erase(value, dim_of, vars)
        if kind == "infos":
            new = tuple([erase(item, dim_of, vars) for item in value])
            return value if all(a is b for a, b in zip(new, value, strict=True)) else new
        return value

    return _with_fields(info, change)


def _with_axes(info: TensorStructInfo, axes: Axes | None) -> TensorStructInfo:
    """A tensor of other axes; where they are forgotten, of as many."""
    return (
        TensorStructInfo(None, info.dtype, info.ndim) if axes is None else tensor(axes, info.dtype)
    )


def _erase_dims(value: Any, known: Callable[[Poly], Any], vars: Mapping[Var, Any]) -> Any:
    if isinstance(value, Var):
        new = vars.get(value)
        return FORGOTTEN if new is None else _dims_of_value(new)
    dims = []
    changed = False
    for dim in value:
        new = known(dim) if type(dim) is Poly else dim
        if new is None:
            return FORGOTTEN
        changed = changed or new is not dim
        dims.append(new)
    return tuple(dims) if changed else value


def _dims_of_value(shape: Any) -> Any:
    """A shape expression by its sizes, a shape variable by itself."""
    return getattr(shape, "dims", shape)


def get_static_type(info: StructInfo) -> StructInfo:
    """The info without its sizes: ranks, dtypes and structure only."""

    def change(_name: str, kind: str, value: Any) -> Any:
        if kind in ("dims", "dim", "axes"):
            return None if value is None else FORGOTTEN
        if kind == "info" and value is not None:
            return get_static_type(value)
        if kind == "infos" and value is not None:
            return tuple(map(get_static_type, value))
        return value

    return _with_fields(info, change)


# ---- functions -------------------------------------------------------------------------------


def _with_dims_of(function: FuncStructInfo, other: FuncStructInfo) -> FuncStructInfo:
    """The function with its own dims called as the other's, position by position."""
    env: dict[Any, Any] = {}
    own = own_dims(function)
    theirs = own_dims(other)
    taken: set[Any] = set()

    def meet(mine: Any, their: Any) -> None:
        if type(mine) is RowVar:
            row = their[0] if type(their) is tuple and len(their) == 1 else None
            if mine in own and row in theirs and mine not in env and row not in taken:
                taken.add(row)
                env[mine] = their
            return
        sym = as_sym(mine) if type(mine) is Poly else None
        other_sym = as_sym(their) if type(their) is Poly else None
        # one to one: (n, m) does not become (k, k)
        if sym in own and other_sym in theirs and sym not in env and other_sym not in taken:
            taken.add(other_sym)
            env[sym] = their

    for mine, their in zip(function.params or (), other.params or (), strict=False):
        walk_dims(mine, their, meet)
    if not env:
        return function
    params = tuple([map_dims(p, env) for p in function.params or ()])
    return FuncStructInfo(params, map_dims(function.ret, env), function.purity)


def walk_dims(
    a: StructInfo, b: StructInfo, meet: Callable[[Any, Any], None], rows: Mapping[Any, Axes] = {}
) -> None:
    """Visit the sizes at the same places of two infos, shape variables beside shapes, and rows
    beside the axes that they stand for; `rows` are known already."""
    if type(a) is not type(b) or isinstance(a, FuncStructInfo):
        return
    if isinstance(a, TensorStructInfo) and a.axes is not None:
        for axis, found in align_axes(a.axes, axes_of(b), rows):  # type: ignore[arg-type]
            meet(axis, found)
        return
    for name, kind in field_kinds(type(a)):
        one, two = getattr(a, name), getattr(b, name)
        if one is None or two is None:
            continue
        if kind == "dim" or isinstance(one, Var):
            meet(one, two)
        elif kind == "dims" and type(two) is tuple:
            for x, y in zip(one, two, strict=False):
                meet(x, y)
        elif kind == "info":
            walk_dims(one, two, meet, rows)
        elif kind == "infos":
            for x, y in zip(one, two, strict=False):
                walk_dims(x, y, meet, rows)


def map_dims(info: StructInfo, env: Env) -> StructInfo:
    """The info with symbolic variables replaced."""
    return erase(info, lambda sym: env.get(sym, sym), AllVars())


class AllVars(dict[Var, Any]):
    """Every shape variable stands for itself."""

    def get(self, key: Var, default: Any = None) -> Any:
        return key
