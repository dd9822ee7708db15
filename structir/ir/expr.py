"""Expressions, bindings, blocks and functions: what a program is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from structir.errors import Span
from structir.ir.dims import Dim
from structir.ir.node import Node, node
from structir.ir.struct_info import (
    Dims,
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    as_dims,
)
from structir.lazy import lazy_module

if TYPE_CHECKING:
    import numpy

symbolic = lazy_module("structir.ir.symbolic")
Attrs = Mapping[str, Any]
NO_ATTRS: Attrs = {}


OPERATORS: dict[str, Callable[..., Expr]] = {}  # ops that declare `operator="+"`


def _operator(symbol: str, *operands: Any) -> Expr:
    op = OPERATORS.get(symbol)
    return op(*operands) if op is not None else NotImplemented


class Expr(Node):
    """Something with a value. `struct_info` is None only until a builder has deduced it.

    Python's arithmetic and order operators build calls of the ops that declare them; `==` stays
    identity.
    """

    __slots__ = ()
    struct_info: Any
    span: Span | None

    def __add__(self, other: Any) -> Expr:
        return _operator("+", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _operator("+", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _operator("-", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _operator("-", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _operator("*", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _operator("*", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _operator("/", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _operator("/", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return _operator("//", self, other)

    def __mod__(self, other: Any) -> Expr:
        return _operator("%", self, other)

    def __pow__(self, other: Any) -> Expr:
        return _operator("**", self, other)

    def __matmul__(self, other: Any) -> Expr:
        return _operator("@", self, other)

    def __neg__(self) -> Expr:
        return _operator("neg", self)

    def __lt__(self, other: Any) -> Expr:
        return _operator("<", self, other)

    def __le__(self, other: Any) -> Expr:
        return _operator("<=", self, other)

    def __gt__(self, other: Any) -> Expr:
        return _operator(">", self, other)

    def __ge__(self, other: Any) -> Expr:
        return _operator(">=", self, other)

    def __getitem__(self, index: int) -> Expr:
        info = self.struct_info
        known = isinstance(info, TupleStructInfo) and -len(info.fields) <= index < len(info.fields)
        if not known:
            raise TypeError(f"only a tuple with a field {index} can be indexed, not {info}")
        position = index % len(info.fields)
        return TupleGetItem(self, position, info.fields[position])


@node
class Var(Expr):
    """A variable: a parameter, or the name of a binding. It equals only itself."""

    name: str
    struct_info: StructInfo
    span: Span | None = None


@node
class DataflowVar(Var):
    """A variable seen only inside its dataflow block."""


@node
class GlobalVar(Expr):
    """A function of the module, by name."""

    name: str
    struct_info: StructInfo | None = None
    span: Span | None = None


def _immutable(data: numpy.ndarray) -> numpy.ndarray:
    """Returns the array itself where no array over its memory is writeable, or a read-only copy."""
    holder: Any = data
    while hasattr(holder, "flags"):
        if holder.flags.writeable:
            data = data.copy("K")
            data.flags.writeable = False
            break
        holder = holder.base
    return data


def _of_data(constant: Any) -> StructInfo:
    return TensorStructInfo(tuple(constant.data.shape), constant.data.dtype.name)


def _of_value(prim: Any) -> StructInfo:
    value = prim.value
    if isinstance(value, bool | float):
        return PrimStructInfo("bool" if isinstance(value, bool) else "float32")
    return PrimStructInfo("int64", value)


def _of_dims(shape: Any) -> StructInfo:
    return ShapeStructInfo(shape.dims)


def _of_fields(value: Any) -> StructInfo | None:
    infos = tuple([field.struct_info for field in value.fields])
    return None if None in infos else TupleStructInfo(infos)


def _of_body(seq: Any) -> StructInfo | None:
    info: StructInfo | None = seq.body.struct_info
    return info


@node
class Constant(Expr):
    """A tensor known at compile time, held as a read-only NumPy array; what could be written to is
    copied."""

    data: numpy.ndarray = attrs.field(converter=_immutable)
    struct_info: StructInfo = attrs.field(default=attrs.Factory(_of_data, takes_self=True))
    span: Span | None = None


@node
class PrimValue(Expr):
    """A scalar: an integer expression over symbolic dims, a float, or a bool."""

    value: Dim | float | bool
    struct_info: StructInfo = attrs.field(default=attrs.Factory(_of_value, takes_self=True))
    span: Span | None = None


@node
class StringImm(Expr):
    """A text as an argument."""

    value: str
    struct_info: StructInfo | None = None
    span: Span | None = None


@node
class DataTypeImm(Expr):
    """A dtype as an argument."""

    value: str
    struct_info: StructInfo | None = None
    span: Span | None = None


@node
class ShapeExpr(Expr):
    """A shape value, size by size."""

    dims: Dims = attrs.field(converter=as_dims)
    struct_info: StructInfo = attrs.field(default=attrs.Factory(_of_dims, takes_self=True))
    span: Span | None = None

    @property
    def values(self) -> Any:
        """The sizes as integers and sympy expressions."""
        return symbolic.to_sympy_shape(self.dims)


@node
class Tuple(Expr):
    """Several values as one. The empty tuple also stands for an operand that is not given."""

    fields: tuple[Expr, ...]
    struct_info: StructInfo | None = attrs.field(default=attrs.Factory(_of_fields, takes_self=True))
    span: Span | None = None


@node
class TupleGetItem(Expr):
    """One field of a tuple."""

    tuple_value: Expr
    index: int
    struct_info: StructInfo | None = None
    span: Span | None = None


@node
class Call(Expr):
    """An op or a function on arguments; `sinfo_args` state the result of an opaque callee."""

    op: Expr
    args: tuple[Expr, ...]
    attrs: Attrs = NO_ATTRS
    sinfo_args: tuple[StructInfo, ...] = ()
    struct_info: StructInfo | None = None
    span: Span | None = None


@node
class ExternFunc(Expr):
    """A function from outside the program, by its registered name."""

    global_symbol: str
    struct_info: StructInfo | None = None
    span: Span | None = None


class Binding(Node):
    """A variable and where its value comes from."""

    __slots__ = ()
    var: Var
    value: Expr
    span: Span | None


@node
class VarBinding(Binding):
    """`var = value`."""

    var: Var
    value: Expr
    span: Span | None = None


@node
class MatchCast(Binding):
    """`var = match_cast(value, struct_info)`: checked when run; it binds the symbolic variables
    that are new."""

    var: Var
    value: Expr
    struct_info: StructInfo
    span: Span | None = None


@node
class BindingBlock(Node):
    """Bindings in order; effects are allowed."""

    bindings: tuple[Binding, ...]
    span: Span | None = None


@node
class DataflowBlock(BindingBlock):
    """Bindings without effects or control flow; only its `Var`s are seen outside."""


@node
class SeqExpr(Expr):
    """Blocks in order, then a result."""

    blocks: tuple[BindingBlock, ...]
    body: Expr
    struct_info: StructInfo | None = attrs.field(default=attrs.Factory(_of_body, takes_self=True))
    span: Span | None = None

    def bindings(self) -> list[Binding]:
        """All bindings of all blocks, in order."""
        return [binding for block in self.blocks for binding in block.bindings]


@node
class If(Expr):
    """A choice between two sequences by a scalar bool."""

    cond: Expr
    true_branch: SeqExpr
    false_branch: SeqExpr
    struct_info: StructInfo | None = None
    span: Span | None = None


@attrs.frozen(slots=False, eq=False, repr=False)
class Function(Expr):
    """Parameters and a body. `ret_struct_info` is what a caller may know of the result."""

    params: tuple[Var, ...]
    body: SeqExpr
    ret_struct_info: StructInfo
    is_pure: bool = True
    attrs: Attrs = NO_ATTRS
    span: Span | None = None

    @cached_property
    def struct_info(self) -> FuncStructInfo:
        """The function's own StructInfo, from its parameters and its result."""
        params = tuple([p.struct_info for p in self.params])
        return FuncStructInfo(params, self.ret_struct_info, self.is_pure)

    def __call__(self, *_args: Any) -> NoReturn:
        raise TypeError('a program is compiled before it is called: structir.compile(f)["main"](x)')

    def script(self) -> str:
        """The text of the function, which `structir.parse` reads back."""
        return str(self)

    def bindings(self) -> list[Binding]:
        """All bindings of the body, in order; those of branches and nested functions are not among
        them."""
        return self.body.bindings()


ATOMS = frozenset(
    {
        Var,
        DataflowVar,
        GlobalVar,
        Constant,
        PrimValue,
        StringImm,
        DataTypeImm,
        ShapeExpr,
        ExternFunc,
    }
)
