"""The lattice of struct infos: how precise one is against another, their join, what scopes forget,
calls.

Everything follows from what the fields of a kind hold (`field_kinds`); only functions, which bind
dims of their own, have rules beside it. The rules are those of Relax (Lai et al., 2023, section 3).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic, StructInfoError
from structir.ir.binding_dims import bound_dims, own_dims
from structir.ir.dims import (
    Dim,
    Poly,
    Sym,
    as_dim,
    as_sym,
    equal,
    exact_quotient,
    linear,
    substitute,
    syms,
)
from structir.ir.expr import Var
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    StructInfo,
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
Env = Mapping[Sym, Dim]


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
    result = PASS
    for name, kind in field_kinds(type(base)):
        check = _CHECKS[kind](getattr(base, name), getattr(derived, name))
        if check < result:
            result = check
            if result is FAIL_L0:
                break
    return result


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
    env = {as_sym(as_dim(sym)): as_dim(value) for sym, value in pairs}
    values = vars if isinstance(vars, Mapping) else {var: var for var in vars}
    return erase(info, env.get, values)


def erase(
    info: StructInfo,
    dim_of: Callable[[Sym], Any],
    vars: Mapping[Var, Any] = {},
) -> StructInfo:
    """`erase_to_well_defined` by a function from a symbolic variable to a dim, to itself, or to
    None."""
    if not isinstance(info, FuncStructInfo):
        return _erased(info, dim_of, vars)
    own = own_dims(info)
    lost: set[Sym] = set()

    def own_or_outer(sym: Sym) -> Any:
        return dim_of(sym) if sym not in own else None if sym in lost else sym

    while True:
        erased = _erased(info, own_or_outer, vars)
        # a dim may lose the parameter that bound it: then it says nothing elsewhere either
        gone = own - lost - own_dims(erased)  # type: ignore[arg-type]
        if not gone:
            return erased
        lost |= gone


def _erased(info: StructInfo, dim_of: Callable[[Sym], Any], vars: Mapping[Var, Any]) -> StructInfo:
    def known(value: Poly) -> Any:
        env: dict[Sym, Dim] = {}
        for sym in syms(value):
            new = dim_of(sym)
            if new is None:
                return None
            if new is not sym:
                env[sym] = new
        return substitute(value, env) if env else value

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
        if kind in ("dims", "dim"):
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
    env: dict[Sym, Dim] = {}
    own = own_dims(function)
    theirs = own_dims(other)
    taken: set[Sym | None] = set()

    def meet(mine: Any, their: Any) -> None:
        sym = as_sym(mine) if type(mine) is Poly else None
        other_sym = as_sym(their) if type(their) is Poly else None
        # one to one: (n, m) does not become (k, k)
        if sym in own and other_sym in theirs and sym not in env and other_sym not in taken:
            taken.add(other_sym)
            env[sym] = their

    for mine, their in zip(function.params or (), other.params or (), strict=False):
        _walk_dims(mine, their, meet)
    if not env:
        return function
    params = tuple([map_dims(p, env) for p in function.params or ()])
    return FuncStructInfo(params, map_dims(function.ret, env), function.purity)


def _walk_dims(a: StructInfo, b: StructInfo, meet: Callable[[Any, Any], None]) -> None:
    """Visit the sizes at the same places of two infos, and shape variables beside shapes."""
    if type(a) is not type(b) or isinstance(a, FuncStructInfo):
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
            _walk_dims(one, two, meet)
        elif kind == "infos":
            for x, y in zip(one, two, strict=False):
                _walk_dims(x, y, meet)


def map_dims(info: StructInfo, env: Env) -> StructInfo:
    """The info with symbolic variables replaced."""
    return erase(info, lambda sym: env.get(sym, sym), _AllVars())


class _AllVars(dict[Var, Any]):
    """Every shape variable stands for itself."""

    def get(self, key: Var, default: Any = None) -> Any:
        return key


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
    binder = _Binder(function)
    for position, (param, info) in enumerate(zip(function.params, infos, strict=True)):
        binder.bind(param, info)
        if base_check(binder.known(param, _AllVars()), info) <= FAIL_L1:
            raise StructInfoError(
                Diagnostic(f"argument {position} does not fit its parameter")
                .note(f"parameter: {param}")
                .note(f"argument: {info}")
            )
    return binder.known(function.ret, binder.shapes)


class _Binder:
    """Gives a function's own dims and shape variables what the arguments have there, the first
    one each."""

    def __init__(self, function: FuncStructInfo) -> None:
        self.own = set(own_dims(function))
        self.sizes: dict[Sym, Dim] = {}
        self.shapes: dict[Var, Any] = {}

    def bind(self, param: StructInfo, argument: StructInfo) -> None:
        _walk_dims(param, argument, self.meet)

    def meet(self, param: Any, argument: Any) -> None:
        if isinstance(param, Var):
            self.shapes.setdefault(param, argument)
        elif type(param) is Poly:
            self.own |= syms(param)
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
        sizes, own = self.sizes, self.own
        return erase(info, lambda s: sizes.get(s) if s in own else s, shapes)
