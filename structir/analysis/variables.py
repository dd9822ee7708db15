"""Which variables and symbolic dims a program mentions, binds, and leaves free; StructInfo's own
count as uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Poly, Sym, as_dim, syms
from structir.ir.expr import Function, MatchCast, Var, VarBinding
from structir.ir.kernel import Kernel, Scratch
from structir.ir.module import IRModule
from structir.ir.node import Node, parts
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo
from structir.lazy import lazy_module

if TYPE_CHECKING:
    import sympy

symbolic = lazy_module("structir.ir.symbolic")


def walk(program: Any) -> Iterator[Any]:
    """Every node and every symbolic size of a program, parents first, each info once; without
    recursion."""
    seen: set[StructInfo] = set()
    todo = [program]
    while todo:
        item = todo.pop()
        if isinstance(item, StructInfo):
            if item in seen:
                continue
            seen.add(item)
        elif type(item) is tuple:
            todo += item[::-1]
            continue
        elif isinstance(item, IRModule):
            todo += list(item.functions.values())[::-1]
            continue
        elif not isinstance(item, Node):
            if type(item) is Poly:
                yield item
            continue
        yield item
        todo += list(parts(item))[::-1]


def walk_values(program: Any) -> Iterator[Any]:
    """Every node of a program, parents first, but for StructInfos and what stands in them."""
    todo = [program]
    while todo:
        item = todo.pop()
        if isinstance(item, Var):
            yield item
        elif type(item) is tuple:
            todo += item[::-1]
        elif isinstance(item, IRModule):
            todo += list(item.functions.values())[::-1]
        elif isinstance(item, Node) and not isinstance(item, StructInfo):
            yield item
            todo += list(parts(item))[::-1]


def variables_in(program: Any) -> dict[Var, None]:
    """Every variable that occurs, in order of occurrence."""
    found: dict[Var, None] = {}
    seen: set[StructInfo] = set()
    todo = [program]
    while todo:
        item = todo.pop()
        if isinstance(item, Var):
            found[item] = None
            item = item.struct_info
        if type(item) is tuple:
            todo += item[::-1]
        elif type(item) is TensorStructInfo and type(item.dims) is tuple:
            continue  # most infos: plain sizes hold no variable of the program
        elif isinstance(item, IRModule):
            todo += list(item.functions.values())[::-1]
        elif isinstance(item, Node) and item not in seen:
            if isinstance(item, StructInfo):
                seen.add(item)
            todo += list(parts(item))[::-1]
    return found


def symbols_in(program: Any) -> dict[Sym, None]:
    """Every symbolic variable that occurs, in order of occurrence."""
    found: dict[Sym, None] = {}
    for item in walk(program):
        if type(item) is Poly:
            found |= dict.fromkeys(sorted(syms(item), key=lambda s: s.order))
    return found


def bindings_in(program: Any) -> dict[Var, None]:
    """Every variable that a parameter list or a binding defines."""
    found: dict[Var, None] = {}
    for item in walk_values(program):
        if isinstance(item, Function | Kernel):
            found |= dict.fromkeys(item.params)
        elif isinstance(item, Scratch):
            found[item.array] = None
        elif isinstance(item, VarBinding | MatchCast):
            found[item.var] = None
    return found


def symbols_bound_in(program: Any) -> dict[Any, None]:
    """Every symbolic variable that stands alone as a size of a parameter, be it a function's or a
    callable's, or of a match_cast; every row variable there."""
    found: dict[Any, None] = {}
    for item in walk(program):
        match item:
            case Function(params=params) | Kernel(params=params):
                found |= standing_alone([param.struct_info for param in params])
            case MatchCast(struct_info=info):
                found |= standing_alone([info])
            case FuncStructInfo(params=tuple() as infos):
                found |= standing_alone(infos)
    return found


def all_vars(program: Node) -> list[Var]:
    """Every variable of an expression, function or info; those inside StructInfo included."""
    return list(variables_in(program))


def bound_vars(program: Node) -> list[Var]:
    """The variables that the program itself defines."""
    return list(bindings_in(program))


def free_vars(program: Node) -> list[Var]:
    """The variables that occur and are defined elsewhere."""
    bound = bindings_in(program)
    return [var for var in variables_in(program) if var not in bound]


def symbolic_vars(program: Node) -> list[sympy.Symbol]:
    """Every symbolic dim variable that occurs, as sympy symbols."""
    return [symbolic.to_sympy(as_dim(sym)) for sym in symbols_in(program)]


def defined_symbolic_vars(program: Node) -> list[sympy.Symbol]:
    """The symbolic dim variables that parameters and match_casts bind, as sympy symbols."""
    bound = symbols_bound_in(program)
    return [symbolic.to_sympy(as_dim(sym)) for sym in bound if type(sym) is Sym]


def free_symbolic_vars(program: Node) -> list[sympy.Symbol]:
    """The symbolic dim variables that occur and that nothing binds, as sympy symbols."""
    bound = symbols_bound_in(program)
    return [symbolic.to_sympy(as_dim(sym)) for sym in symbols_in(program) if sym not in bound]


def uses_of(function: Function) -> dict[Var, list[Any]]:
    """For each variable, the bindings of the function's body that read it, StructInfo included."""
    found: dict[Var, list[Any]] = {var: [] for var in function.params}
    for binding in function.bindings():
        found.setdefault(binding.var, [])
        read = variables_in((binding.value, getattr(binding, "struct_info", None)))
        read |= variables_in(binding.var.struct_info)
        for var in read:
            found.setdefault(var, []).append(binding)
    return found
