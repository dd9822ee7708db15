"""Erasure of StructInfos at the end of scopes, and renaming of dims in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs

from structir.analysis.axes import (
    ANY,
    align_axes,
    axes_of,
    replace_axes,
    tensor,
)
from structir.analysis.declaration import analysis
from structir.ir.axes import Axes, RowVar
from structir.ir.binding_dims import own_dims
from structir.ir.dims import (
    Dim,
    Poly,
    Sym,
    as_dim,
    as_sym,
    substitute,
    syms,
)
from structir.ir.dtype import DtypeVar, Element
from structir.ir.expr import Var
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    field_kinds,
)

ERASED: Any = object()  # an erased field; a StructInfo that requires the field becomes Object
Env = Mapping[Any, Any]  # symbolic variables to dims, row variables to axes, others to dtypes


def erase_to_well_defined(
    info: StructInfo,
    shape_vars: Mapping[Any, Any] | Iterable[Any] = (),
    vars: Mapping[Var, Any] | Collection[Var] = (),
) -> StructInfo:
    """Returns a StructInfo in a scope that defines only `shape_vars` and `vars`.

    Each may be a mapping, which replaces, or a collection, whose members are kept. A shape that
    mentions anything else is erased, as is a dtype variable; rank and known dtype remain.
    """
    pairs = shape_vars.items() if isinstance(shape_vars, Mapping) else ((s, s) for s in shape_vars)
    env = {
        _variable(sym): value if type(sym) is DtypeVar else _replacement(value)
        for sym, value in pairs
    }
    values = vars if isinstance(vars, Mapping) else {var: var for var in vars}
    return erase(info, env.get, values)


def _variable(name: Any) -> Any:
    return name if type(name) in (RowVar, DtypeVar) else as_sym(as_dim(name))


def _replacement(value: Any) -> Any:
    return value if type(value) in (RowVar, tuple) else as_dim(value)


def erase(
    info: StructInfo,
    dim_of: Callable[[Any], Any],
    vars: Mapping[Var, Any] = {},
) -> StructInfo:
    """Returns a StructInfo with symbolic variables replaced by a function.

    `dim_of` maps a symbolic variable to a dim, to itself or to None, and a row variable to itself,
    to axes or to None; a dtype variable to itself, to a dtype or to None. None erases.
    """
    if not isinstance(info, FuncStructInfo):
        return _erase_fields(info, dim_of, vars)
    bound = own_dims(info)
    if info.params and type(info) is FuncStructInfo:
        outer = set(dim_uses(info.params)) - bound
        if any([dim_of(dim) is None for dim in outer]):
            # parameters of unknown sizes would accept more arguments than the function does
            opaque = FuncStructInfo(None, info.ret, info.purity, info.derive_func)
            return erase(opaque, lambda dim: None if dim in bound else dim_of(dim), vars)
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


def dim_uses(infos: Iterable[StructInfo]) -> list[Any]:
    """Returns the dims and row variables that are free in each StructInfo, once per size."""
    uses: list[Any] = []

    def visit(dim: Any) -> Any:
        uses.append(dim)
        return dim

    for info in infos:
        erase(info, visit, AllVars())
    return uses


def _erase_fields(
    info: StructInfo, dim_of: Callable[[Any], Any], vars: Mapping[Var, Any]
) -> StructInfo:
    def replaced(value: Poly) -> Any:
        env: dict[Sym, Dim] = {}
        for symbol in syms(value):
            new = dim_of(symbol)
            if new is None:
                return None
            if new is not symbol:
                env[symbol] = new
        return substitute(value, env) if env else value

    if isinstance(info, TensorStructInfo) and info.axes is not None:
        # the other axes remain: a ragged tensor of unknown sizes is not a dense one
        def axis_of(size: Any) -> Any:
            new = replaced(size) if type(size) is Poly else dim_of(size)
            return ANY if new is None and type(size) is Poly else new

        axes = replace_axes(info.axes, axis_of)
        dtype = info.dtype if info.dtype_var is None else dim_of(info.dtype_var)
        same = axes == info.axes and dtype == info.element
        return info if same else _with_axes(info, axes, dtype)

    def change(_name: str, kind: str, value: Any) -> Any:
        if value is None:
            return None
        if kind == "dims":
            return _erase_dims(value, replaced, vars)
        if kind == "dim":
            new = replaced(value) if type(value) is Poly else value
            return ERASED if new is None else new
        if kind == "value" or kind == "dtype_var":
            new = vars.get(value) if kind == "value" else dim_of(value)
            return ERASED if new is None else new
        if kind == "info":
            return erase(value, dim_of, vars)
        if kind == "infos":
            new = tuple([erase(item, dim_of, vars) for item in value])
            return value if all(a is b for a, b in zip(new, value, strict=True)) else new
        return value

    return with_fields(info, change)


def _with_axes(info: TensorStructInfo, axes: Axes | None, dtype: Element) -> TensorStructInfo:
    """Returns a tensor with other axes and dtype; only its rank if the axes are erased."""
    if axes is None:
        return TensorStructInfo(None, dtype, info.ndim, vdevice=info.vdevice)
    return tensor(axes, dtype, info.vdevice)


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
        changed = changed or new != dim
        dims.append(new)
    return tuple(dims) if changed else value


def _dims_of_value(shape: Any) -> Any:
    """Returns the sizes of a shape expression, or a shape variable itself."""
    return getattr(shape, "dims", shape)


@analysis
def get_static_type(info: StructInfo) -> StructInfo:
    """Returns the StructInfo without variables: ranks, known dtypes and structure only."""

    def change(_name: str, kind: str, value: Any) -> Any:
        if kind in ("dims", "dim", "axes", "value", "dtype_var"):
            return None if value is None else ERASED
        if kind == "info" and value is not None:
            return get_static_type(value)
        if kind == "infos" and value is not None:
            return tuple(map(get_static_type, value))
        return value

    return with_fields(info, change)


def walk_dims(
    a: StructInfo, b: StructInfo, match: Callable[[Any, Any], None], rows: Mapping[Any, Axes] = {}
) -> None:
    """Calls `match` on the sizes at the same positions of two StructInfos.

    Shape variables are matched with shapes, row variables with axes, and dtype variables with
    dtypes; `rows` are bound already.
    """
    if type(a) is not type(b) or isinstance(a, FuncStructInfo):
        return
    if isinstance(a, TensorStructInfo | PrimStructInfo) and a.dtype_var is not None and b.element:  # type: ignore[attr-defined]
        match(a.dtype_var, b.element)  # type: ignore[attr-defined]
    if isinstance(a, TensorStructInfo) and a.axes is not None:
        for axis, actual in align_axes(a.axes, axes_of(b), rows):  # type: ignore[arg-type]
            match(axis, actual)
        return
    for name, kind in field_kinds(type(a)):
        first, second = getattr(a, name), getattr(b, name)
        if first is None or second is None:
            continue
        if kind == "dim" or (kind == "dims" and isinstance(first, Var)):
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
    """Returns the StructInfo with symbolic, row and dtype variables replaced."""
    return erase(info, lambda sym: env.get(sym, sym), AllVars())


class AllVars(dict[Var, Any]):
    """Maps every shape variable to itself."""

    def get(self, key: Var, default: Any = None) -> Any:
        return key


def with_fields(info: StructInfo, change: Callable[[str, str, Any], Any]) -> StructInfo:
    """Returns the StructInfo with changed fields; Object if a required field is erased."""
    fields: dict[str, Any] = {}
    same = True
    for name, kind in field_kinds(type(info)):
        value = getattr(info, name)
        new = change(name, kind, value)
        if new is ERASED:
            required = "dtype" if kind == "dtype_var" else name
            if not _may_be_unknown(type(info), required):
                return OBJECT
            new = None
        same = same and new is value
        fields[name] = new
    return info if same else type(info)(**fields)


def _may_be_unknown(cls: Any, name: str) -> bool:
    default: Any = getattr(attrs.fields(cls), name).default
    return default is not attrs.NOTHING
