"""Structural equality and hash of programs, up to renaming of variables and symbolic dims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structir.ir.axes import RowVar
from structir.ir.binding_dims import row_size_of, standing_alone
from structir.ir.dims import Poly, Sym, syms
from structir.ir.dtype import DtypeVar
from structir.ir.expr import (
    Call,
    Constant,
    DataflowBlock,
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
from structir.ir.kernel import Kernel, Local, LoopVariable
from structir.ir.module import IRModule
from structir.ir.node import Node, field_names
from structir.ir.op import Op
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo


def structural_equal(first: Node, second: Node) -> bool:
    """Whether two nodes are equal up to renaming of variables, of dims and of dtypes."""
    return first is second or _linear(first) == _linear(second)


def structural_hash(program: Node) -> int:
    """Returns a hash that is equal for structurally equal nodes; functions memoize theirs."""
    if isinstance(program, Function):
        value = program.__dict__.get("_structural_hash")
        if value is None:
            value = program.__dict__["_structural_hash"] = hash(tuple(_linear(program)))
        return int(value)
    if isinstance(program, IRModule):
        names = sorted(program.functions)
        hashes = tuple((name, structural_hash(program.functions[name])) for name in names)
        return hash((hashes, tuple(sorted(program.attrs))))
    return hash(tuple(_linear(program)))


def correspondence(first: Node, second: Node) -> dict[Any, Any]:
    """Returns the variables and dims of a node, by those of a structurally equal one."""
    forms = _LinearForm(), _LinearForm()
    for form, node in zip(forms, (first, second), strict=True):
        form.add(node)
    return dict(zip(forms[1].numbers, forms[0].numbers, strict=True))


def _linear(program: Node) -> list[Any]:
    form = _LinearForm()
    form.add(program)
    return form.tokens


class _ArrayToken:
    """The contents of a constant, compared bitwise: NaN equals itself."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ArrayToken):
            return False
        lhs, rhs = self.array, other.array
        same_type: bool = lhs.dtype == rhs.dtype and lhs.shape == rhs.shape
        return lhs is rhs or (same_type and lhs.tobytes() == rhs.tobytes())

    def __hash__(self) -> int:
        array = self.array
        return hash((array.dtype.name, array.shape, array.tobytes() if array.nbytes < 256 else b""))


class _LinearForm:
    """The linear form of a program: a list of tokens.

    Variables and dims are numbered in the order of their first occurrence. Two programs are
    structurally equal if and only if their token lists are equal.
    """

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self.numbers: dict[Any, int] = {}
        self.dims: dict[Poly, Any] = {}
        self.infos: dict[StructInfo, int] = {}
        self.count = 0  # of numbered variables and dims
        self.callables = 0  # visited so far

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
        number = self.numbers.get(key)
        if number is not None:
            return number, False
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
        """Adds a StructInfo; a repeated one is represented by its number."""
        if value is None:
            self.tokens.append(None)
            return
        number = self.infos.get(value)
        if number is not None:
            self.tokens.append(number)
            return
        callables = self.callables
        if type(value) is TensorStructInfo:
            self.tokens += (TensorStructInfo, self.dtype(value), value.ndim, value.vdevice)
            self.add(value.dims)
            if value.axes is not None:
                self.add(value.axes)
        elif isinstance(value, FuncStructInfo):
            self.callable(value)
        else:
            self.fields(value)
        if self.callables == callables:  # every callable binds its own dims, so none is numbered
            self.infos[value] = len(self.infos)

    def dtype(self, tensor: TensorStructInfo) -> Any:
        """Returns the token of a dtype, or of its variable."""
        variable = tensor.dtype_var
        return tensor.dtype if variable is None else (DtypeVar, self.number(variable)[0])

    def callable(self, value: FuncStructInfo) -> None:
        """Adds a function type; the dims that it binds are numbered anew."""
        self.callables += 1
        outer = self.numbers, self.dims, self.infos
        bound = standing_alone(value.params or ())
        self.numbers = {key: number for key, number in self.numbers.items() if key not in bound}
        self.dims, self.infos = {}, {}
        for sym in bound:
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
        """Adds a sequence; consecutive plain blocks are one block, and empty blocks none."""
        kind: type | None = None
        for block in value.blocks:
            if block.bindings and (type(block) is not kind or kind is DataflowBlock):
                kind = type(block)
                self.tokens.append(kind)
            for binding in block.bindings:
                self.add(binding)
        self.tokens.append(SeqExpr)  # the end of the last block
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
        """Adds the parameters and statements of a kernel; its name belongs to the module."""
        self.tokens.append(Kernel)
        for sym in standing_alone([param.struct_info for param in value.params]):
            self.number(sym)
        self.sequence(value.params)
        self.tokens.append(value.threads)
        if value.blocks is not None:
            self.add(value.blocks)
        self.sequence(value.body)

    def local(self, value: Local) -> None:
        self.tokens += (Local, self.number(value)[0])
        self.add(value.dtype)

    def module(self, value: IRModule) -> None:
        """Adds functions sorted by name; dims and variables are numbered anew in each of them."""
        self.mapping(value.attrs)
        for name in sorted(value.functions):
            self.tokens.append(name)
            self.numbers, self.dims, self.infos = {}, {}, {}
            self.add(value.functions[name])

    def call(self, value: Call) -> None:
        """Adds a call without its StructInfo, which is that of the variable it is bound to."""
        self.tokens.append(Call)
        self.add(value.op)
        self.sequence(value.args)
        self.mapping(value.attrs)
        self.sequence(value.sinfo_args)

    def item(self, value: TupleGetItem) -> None:
        self.tokens += (TupleGetItem, value.index)
        self.add(value.tuple_value)

    def tuple_expr(self, value: Tuple) -> None:
        self.sequence(value.fields)
        if value.names is not None:
            self.sequence(value.names)

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

    def sym(self, value: Sym | RowVar | DtypeVar) -> None:
        of_row = row_size_of(value) if type(value) is Sym else None
        if of_row is not None:
            self.tokens.append(of_row[0])
            value = of_row[1]
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
    DtypeVar: _LinearForm.sym,
    tuple: _LinearForm.sequence,
    dict: _LinearForm.mapping,
    VarBinding: _LinearForm.binding,
    MatchCast: _LinearForm.cast,
    SeqExpr: _LinearForm.seq,
    Function: _LinearForm.function,
    Kernel: _LinearForm.kernel,
    Local: _LinearForm.local,
    LoopVariable: _LinearForm.local,
    IRModule: _LinearForm.module,
    Call: _LinearForm.call,
    TupleGetItem: _LinearForm.item,
    If: _LinearForm.branches,
    Tuple: _LinearForm.tuple_expr,
    ShapeExpr: _LinearForm.shape,
    Constant: _LinearForm.constant,
    float: lambda form, value: form.tokens.append(repr(value)),
    bool: lambda form, value: form.tokens.append(repr(value)),  # True and 1 are equal in Python
}
