"""Variables and symbolic dims that a program mentions, binds, and leaves free.

Occurrences in StructInfo are uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from structir.analysis.declaration import analysis
from structir.ir.axes import Labelled, RowVar
from structir.ir.binding_dims import own_dims, standing_alone
from structir.ir.dims import Poly, Sym, as_dim, as_sym, syms
from structir.ir.dtype import DtypeVar
from structir.ir.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    GlobalVar,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
)
from structir.ir.kernel import Kernel, Scratch
from structir.ir.module import IRModule
from structir.ir.node import Node, parts
from structir.ir.op import Op
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo
from structir.lazy import lazy_module

if TYPE_CHECKING:
    import sympy

symbolic = lazy_module("structir.ir.symbolic")


def walk(program: Any) -> Iterator[Any]:
    """Yields every node and symbolic size of a program, parents first, each StructInfo once."""
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
        todo += parts(item)[::-1]


def walk_values(program: Any) -> Iterator[Any]:
    """Yields every node of a program outside StructInfo, parents first."""
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
            todo += parts(item)[::-1]


def variables_in(program: Any) -> dict[Var, None]:
    """Returns every variable that occurs, in order of occurrence."""
    variables: dict[Var, None] = {}
    seen: set[StructInfo] = set()
    todo = [program]
    while todo:
        item = todo.pop()
        kind = type(item)
        if kind is Var or kind is DataflowVar:
            variables[item] = None
            item = item.struct_info
            kind = type(item)
        if (kind is TensorStructInfo and type(item.dims) is tuple) or kind is Op:
            continue  # the common case: sizes contain no variables
        if kind is tuple:
            todo += item[::-1]
        elif kind is Call:
            _push_call(item, todo)
        elif isinstance(item, IRModule):
            todo += list(item.functions.values())[::-1]
        elif isinstance(item, Node) and item not in seen:
            if isinstance(item, StructInfo):
                seen.add(item)
            todo += parts(item)[::-1]
    return variables


def _push_call(call: Call, todo: list[Any]) -> None:
    """Pushes the parts of a call, the first last."""
    if call.struct_info is not None:
        todo.append(call.struct_info)
    if call.sinfo_args:
        todo += call.sinfo_args[::-1]
    todo += call.args[::-1]
    if type(call.op) is not Op:
        todo.append(call.op)


def _has_only(call: Call, variables: Mapping[Any, None]) -> bool:
    """Returns whether a call only mentions these variables, outside of its StructInfo."""
    if call.sinfo_args or (type(call.op) is not Op and call.op not in variables):
        return False
    return all([arg in variables for arg in call.args])


def _push_sequence(seq: SeqExpr, todo: list[Any]) -> None:
    """Pushes the bindings of a sequence and its result, the first binding last."""
    todo += (seq.struct_info, seq.body)
    for block in seq.blocks[::-1]:
        todo += block.bindings[::-1]


def symbols_in(program: Any) -> dict[Sym, None]:
    """Returns every symbolic variable that occurs, in order of occurrence."""
    symbols: dict[Sym, None] = {}
    for item in walk(program):
        if type(item) is Poly:
            symbols |= dict.fromkeys(sorted(syms(item), key=_order))
    return symbols


class ProgramNames(NamedTuple):
    """The variables that occur in a program, its symbolic, row and dtype variables, both in order
    of occurrence, the variables that it defines, and the StructInfos of parameters and casts, which
    bind dims."""

    variables: dict[Var, None]
    symbols: dict[Any, None]
    defined: set[Var]
    binders: list[StructInfo]

    @property
    def free(self) -> list[Var]:
        """The variables that are defined elsewhere."""
        return [var for var in self.variables if var not in self.defined]

    def define(self, params: tuple[Var, ...]) -> None:
        """Adds the parameters of a function."""
        self.defined.update(params)
        self.binders.extend([param.struct_info for param in params])

    def add(self, part: ProgramNames) -> None:
        """Adds the names of a part of the program."""
        self.variables.update(part.variables)
        self.symbols.update(part.symbols)
        self.defined.update(part.defined)
        self.binders.extend(part.binders)


NO_NAMES: Mapping[Any, ProgramNames] = {}


def names_in(program: Any, known: Mapping[Any, ProgramNames] = NO_NAMES) -> ProgramNames:
    """Returns the names of a program, in one traversal; functions that it refers to are closed.

    Local functions with `known` names are not traversed.
    """
    variables, symbols, defined, binders = names = ProgramNames({}, {}, set(), [])
    seen, todo = set[StructInfo](), [program]
    while todo:
        item = todo.pop()
        kind = type(item)
        if kind is Var or kind is DataflowVar:
            if item in variables:
                continue
            variables[item] = None
            item = item.struct_info
            kind = type(item)
        if kind is TensorStructInfo and not item.axes and not item.dtype_var:  # the common case
            if item not in seen:
                seen.add(item)
                if type(item.dims) is tuple:
                    _add_symbols(symbols, item.dims)
                elif item.dims is not None:
                    todo.append(item.dims)
        elif kind is VarBinding:
            defined.add(item.var)
            todo += (item.value, item.var)
        elif kind is Call:
            if not (item.struct_info in seen and _has_only(item, variables)):
                _push_call(item, todo)
        elif kind is Function and item in known:
            names.add(known[item])
        elif kind is Function:
            names.define(item.params)
            todo.append(item.ret_struct_info)
            _push_sequence(item.body, todo)
            todo += item.params[::-1]
        elif kind is SeqExpr:
            _push_sequence(item, todo)
        elif kind is BindingBlock or kind is DataflowBlock:
            todo += item.bindings[::-1]
        elif kind is tuple:
            todo += item[::-1]
        elif kind is Poly:
            _add_symbols(symbols, (item,))
        elif kind is RowVar or kind is DtypeVar:
            symbols[item] = None
        elif isinstance(item, StructInfo):
            if item not in seen:
                seen.add(item)
                todo += parts(item)[::-1]
        elif kind is MatchCast:
            defined.add(item.var)
            binders.append(item.struct_info)
            todo += parts(item)[::-1]
        elif kind is IRModule:
            todo += list(item.functions.values())[::-1]
        elif issubclass(kind, Node) and kind is not Op and kind is not GlobalVar:
            defined.update(_variables_defined_by(item))
            todo += parts(item)[::-1]
    return names


def _add_symbols(symbols: dict[Any, None], dims: tuple[Any, ...]) -> None:
    """Adds the symbolic variables of sizes, in order."""
    for dim in dims:
        if type(dim) is Poly:
            symbol = as_sym(dim)
            if symbol is not None:
                symbols[symbol] = None
            else:
                symbols.update(dict.fromkeys(sorted(syms(dim), key=_order)))


def _variables_defined_by(item: Any) -> tuple[Var, ...]:
    if type(item) is Kernel:
        return item.params
    return (item.array,) if type(item) is Scratch else ()


def _order(symbol: Sym) -> int:
    return symbol.order


def bindings_in(program: Any) -> dict[Var, None]:
    """Returns every variable that a parameter list or a binding defines."""
    variables: dict[Var, None] = {}
    for item in walk_values(program):
        if isinstance(item, Function | Kernel):
            variables |= dict.fromkeys(item.params)
        elif isinstance(item, Scratch):
            variables[item.array] = None
        elif isinstance(item, VarBinding | MatchCast):
            variables[item.var] = None
    return variables


def symbols_bound_in(program: Any) -> dict[Any, None]:
    """Returns every symbolic variable and row variable that a parameter or a match_cast binds."""
    bound: dict[Any, None] = {}
    for item in walk(program):
        match item:
            case Function(params=params) | Kernel(params=params):
                bound |= standing_alone([param.struct_info for param in params])
            case MatchCast(struct_info=info):
                bound |= standing_alone([info])
            case FuncStructInfo(params=tuple() as infos):
                bound |= standing_alone(infos)
    return bound


def free_symbols_in(info: StructInfo) -> set[Any]:
    """Returns the symbolic, row and dtype variables that callables in a StructInfo do not bind."""
    symbols: set[Any] = set()
    if type(info) is TensorStructInfo and info.axes is None and type(info.dims) is tuple:
        symbols.update(*map(syms, info.dims))
        if info.dtype_var is not None:
            symbols.add(info.dtype_var)
        return symbols  # the common case
    todo: list[tuple[Node, frozenset[Any]]] = [(info, frozenset())]
    while todo:
        item, bound = todo.pop()
        if isinstance(item, FuncStructInfo):
            bound = bound | own_dims(item)
        for part in parts(item):
            if type(part) is Poly:
                symbols |= syms(part) - bound
            elif type(part) is RowVar or type(part) is DtypeVar:
                symbols |= {part} - bound
            elif isinstance(part, StructInfo | Labelled):
                todo.append((part, bound))
    return symbols


def shape_variables_in(info: StructInfo) -> list[Var]:
    """Returns the variables in a StructInfo, in no particular order."""
    if type(info) is TensorStructInfo and info.axes is None and type(info.dims) is tuple:
        return []  # the common case
    variables: list[Var] = []
    todo: list[Any] = [info]
    while todo:
        for part in parts(todo.pop()):
            if isinstance(part, Var):
                variables.append(part)
            elif isinstance(part, StructInfo):
                todo.append(part)
    return variables


@analysis
def all_vars(program: Node) -> list[Var]:
    """Returns every variable of an expression, function or StructInfo, in order."""
    return list(variables_in(program))


@analysis
def bound_vars(program: Node) -> list[Var]:
    """Returns the variables that the program defines."""
    return list(bindings_in(program))


@analysis
def free_vars(program: Node) -> list[Var]:
    """Returns the variables that occur and are defined elsewhere."""
    return names_in(program).free


@analysis
def symbolic_vars(program: Node) -> list[sympy.Symbol]:
    """Returns every symbolic dim that occurs, as sympy symbols."""
    return [symbolic.to_sympy(as_dim(sym)) for sym in symbols_in(program)]


@analysis
def defined_symbolic_vars(program: Node) -> list[sympy.Symbol]:
    """Returns the symbolic dims that parameters and match_casts bind, as sympy symbols."""
    bound = symbols_bound_in(program)
    return [symbolic.to_sympy(as_dim(sym)) for sym in bound if type(sym) is Sym]


@analysis
def free_symbolic_vars(program: Node) -> list[sympy.Symbol]:
    """Returns the symbolic dims that occur unbound, as sympy symbols."""
    bound = symbols_bound_in(program)
    return [symbolic.to_sympy(as_dim(sym)) for sym in symbols_in(program) if sym not in bound]


@analysis
def uses_of(function: Function) -> dict[Var, list[Any]]:
    """Returns the bindings of the function's body that use each variable, in StructInfo too."""
    uses: dict[Var, list[Any]] = {var: [] for var in function.params}
    for binding in function.bindings():
        uses.setdefault(binding.var, [])
        used = variables_in((binding.value, getattr(binding, "struct_info", None)))
        used |= variables_in(binding.var.struct_info)
        for var in used:
            uses.setdefault(var, []).append(binding)
    return uses


class UndoSet:
    """A set with an undo trail: entering a scope takes constant time."""

    def __init__(self) -> None:
        self.members: set[Any] = set()
        self.trail: list[Any] = []

    def add(self, items: Iterable[Any]) -> None:
        """Adds items to the scope."""
        for item in items:
            if item not in self.members:
                self.members.add(item)
                self.trail.append(item)

    def leave(self, mark: int) -> None:
        """Removes all items that were added since the trail had this length."""
        self.members.difference_update(self.trail[mark:])
        del self.trail[mark:]
