"""Equality and hash of programs up to renaming of variables and symbolic dims, by one linear form
of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structir.ir.axes import RowVar
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Poly, Sym, syms
from structir.ir.expr import (
    Call,
    Constant,
    DataflowVar,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.kernel import Kernel, Local
from structir.ir.module import IRModule
from structir.ir.node import Node, field_names
from structir.ir.op import Op
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo


def structural_equal(first: Node, second: Node) -> bool:
    """Whether two programs, or parts of programs, are the same up to the names of variables and
    dims."""
    return first is second or _linear(first) == _linear(second)


def structural_hash(program: Node) -> int:
    """A hash that structurally equal programs share; a function keeps its own."""
    if isinstance(program, Function):
        kept = program.__dict__.get("_structural_hash")
        if kept is None:
            kept = program.__dict__["_structural_hash"] = hash(tuple(_linear(program)))
        return int(kept)
    if isinstance(program, IRModule):
        names = sorted(program.functions)
        each = tuple((name, structural_hash(program.functions[name])) for name in names)
        return hash((each, tuple(sorted(program.attrs))))
    return hash(tuple(_linear(program)))


def _linear(program: Node) -> list[Any]:
    form = _LinearForm()
    form.add(program)
    return form.tokens


class _ArrayToken:
    """The contents of a constant: equal bit for bit, so that NaN equals itself."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ArrayToken):
            return False
        mine, theirs = self.array, other.array
        same_kind: bool = mine.dtype == theirs.dtype and mine.shape == theirs.shape
        return mine is theirs or (same_kind and mine.tobytes() == theirs.tobytes())

    def __hash__(self) -> int:
        array = self.array
        return hash((array.dtype.name, array.shape, array.tobytes() if array.nbytes < 256 else b""))


class _LinearForm:
    """A program as a flat list: variables and dims are numbered as they first occur."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self.numbers: dict[Any, int] = {}
        self.dims: dict[Poly, Any] = {}
        self.infos: dict[StructInfo, int] = {}
        self.count = 0  # numbers given
        self.callables = 0  # met so far

    def add(self, value: Any) -> None:
        rule = _RULES.get(type(value))
        if rule is not None:
            rule(self, value)
        elif isinstance(value, StructInfo):
            self.info(value)
        elif isinstance(value, Node):
            self.fields(value)
        else:
            self.tokens.append(value)

    def fields(self, value: Node) -> None:
        self.tokens.append(type(value))
        for name in field_names(type(value)):
            self.add(getattr(value, name))

    def sequence(self, values: tuple[Any, ...]) -> None:
        self.tokens.append(len(values))
        for value in values:
            self.add(value)

    def mapping(self, values: Mapping[str, Any]) -> None:
        self.tokens.append(len(values))
        for name in sorted(values):
            self.tokens.append(name)
            self.add(values[name])

    def number(self, key: Any) -> tuple[int, bool]:
        known = self.numbers.get(key)
        if known is not None:
            return known, False
        self.numbers[key] = self.count
        self.count += 1
        return self.count - 1, True

    def var(self, value: Var) -> None:
        number, new = self.number(value)
        self.tokens.append(number)
        if new:
            self.tokens.append(type(value))
            self.info(value.struct_info)

    def dim(self, value: Poly) -> None:
        token = self.dims.get(value)
        if token is None:
            for sym in sorted(syms(value), key=_order):
                self.number(sym)
            token = self.dims[value] = value.key(self.numbers.__getitem__)
        self.tokens.append(token)

    def info(self, value: StructInfo | None) -> None:
        """An info met before has its number: its dims were numbered then."""
        if value is None:
            self.tokens.append(None)
            return
        number = self.infos.get(value)
        if number is not None:
            self.tokens.append(number)
            return
        callables = self.callables
        if type(value) is TensorStructInfo:
            self.tokens += (TensorStructInfo, value.dtype, value.ndim)
            self.add(value.dims)
            if value.axes is not None:
                self.add(value.axes)
        elif isinstance(value, FuncStructInfo):
            self.callable(value)
        else:
            self.fields(value)
        if self.callables == callables:  # alike callables need not be equal: each has its own dims
            self.infos[value] = len(self.infos)

    def callable(self, value: FuncStructInfo) -> None:
        """A function type numbers the dims that it binds for itself."""
        self.callables += 1
        outer = self.numbers, self.dims, self.infos
        own = standing_alone(value.params or ())
        self.numbers = {key: number for key, number in self.numbers.items() if key not in own}
        self.dims, self.infos = {}, {}
        for sym in own:
            self.number(sym)
        self.fields(value)
        self.numbers, self.dims, self.infos = outer

    def binding(self, value: VarBinding) -> None:
        self.add(value.value)
        self.var(value.var)

    def cast(self, value: MatchCast) -> None:
        self.tokens.append(MatchCast)
        self.add(value.value)
        self.info(value.struct_info)
        self.var(value.var)

    def seq(self, value: SeqExpr) -> None:
        for block in value.blocks:
            self.tokens += (type(block), len(block.bindings))
            for binding in block.bindings:
                self.add(binding)
        self.add(value.body)

    def function(self, value: Function) -> None:
        self.tokens += (Function, value.is_pure)
        self.mapping(value.attrs)
        for sym in standing_alone([param.struct_info for param in value.params]):
            self.number(sym)
        self.sequence(value.params)
        self.info(value.ret_struct_info)
        self.seq(value.body)

    def kernel(self, value: Kernel) -> None:
        """Parameters and statements; what it is called is the module's word."""
        self.tokens.append(Kernel)
        for sym in standing_alone([param.struct_info for param in value.params]):
            self.number(sym)
        self.sequence(value.params)
        self.tokens.append(value.threads)
        if value.blocks is not None:
            self.add(value.blocks)
        self.sequence(value.body)

    def local(self, value: Local) -> None:
        self.tokens += (Local, self.number(value)[0], value.dtype)

    def module(self, value: IRModule) -> None:
        """Functions by name; what two of them share, a dim or a variable, is another in each."""
        self.mapping(value.attrs)
        for name in sorted(value.functions):
            self.tokens.append(name)
            self.numbers, self.dims, self.infos = {}, {}, {}
            self.add(value.functions[name])

    def call(self, value: Call) -> None:
        """A call by what is written: its info is that of the variable it is bound to."""
        self.tokens.append(Call)
        self.add(value.op)
        self.sequence(value.args)
        self.mapping(value.attrs)
        self.sequence(value.sinfo_args)

    def item(self, value: TupleGetItem) -> None:
        self.tokens += (TupleGetItem, value.index)
        self.add(value.tuple_value)

    def branches(self, value: If) -> None:
        self.tokens.append(If)
        self.add(value.cond)
        self.seq(value.true_branch)
        self.seq(value.false_branch)

    def shape(self, value: ShapeExpr) -> None:
        self.tokens.append(ShapeExpr)
        self.sequence(value.dims)

    def constant(self, value: Constant) -> None:
        self.tokens.append(_ArrayToken(value.data))
        self.info(value.struct_info)

    def sym(self, value: Sym | RowVar) -> None:
        self.tokens.append(self.number(value)[0])


def _order(sym: Sym) -> int:
    return sym.order


_RULES: dict[type, Callable[[_LinearForm, Any], None]] = {
    Var: _LinearForm.var,
    DataflowVar: _LinearForm.var,
    GlobalVar: lambda form, value: form.tokens.append(("global", value.name)),
    Op: lambda form, value: form.tokens.append(value),
    Poly: _LinearForm.dim,
    Sym: _LinearForm.sym,
    RowVar: _LinearForm.sym,
    tuple: _LinearForm.sequence,
    dict: _LinearForm.mapping,
    VarBinding: _LinearForm.binding,
    MatchCast: _LinearForm.cast,
    SeqExpr: _LinearForm.seq,
    Function: _LinearForm.function,
    Kernel: _LinearForm.kernel,
    Local: _LinearForm.local,
    IRModule: _LinearForm.module,
    Call: _LinearForm.call,
    TupleGetItem: _LinearForm.item,
    If: _LinearForm.branches,
    Tuple: lambda form, value: form.sequence(value.fields),
    ShapeExpr: _LinearForm.shape,
    Constant: _LinearForm.constant,
    float: lambda form, value: form.tokens.append(repr(value)),
    bool: lambda form, value: form.tokens.append(repr(value)),  # True is no 1
}
