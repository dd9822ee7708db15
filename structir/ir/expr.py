"""The node classes of programs: expressions, bindings, blocks and functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from structir.errors import Diagnostic, DiagnosticError, Span, TruthValueError, caller_span
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.node import NOT_COMPILED, Node, node
from structir.ir.operators import Operators, operator_call
from structir.ir.plain_arrays import constant_array
from structir.ir.struct_info import (
    OBJECT,
    Dims,
    FuncStructInfo,
    Names,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    as_names,
    as_plain_dims,
)
from structir.lazy import lazy_module, provided_module
from structir.system.locks import cached_property

if TYPE_CHECKING:
    import numpy

symbolic = lazy_module("structir.ir.symbolic")
deduction = provided_module("deduction")
Attrs = Mapping[str, Any]
NO_ATTRS: Attrs = {}
DEFAULTS = "defaults"  # the attribute of a function: constant expressions by parameter
MAX_NAME = 40  # characters of an expression that a message repeats


def _is_compared(*operands: Any) -> bool:
    """Returns whether `==` compares elements; functions, strings and None compare by identity."""
    for operand in operands:
        if isinstance(operand, Expr):
            if isinstance(operand.struct_info, FuncStructInfo | None):
                return False
        elif not isinstance(operand, Number) and not hasattr(operand, "__array__"):
            return False
    return True


class Expr(Operators["Expr"], Node):
    """The base class of expressions. `struct_info` is None until a builder infers it.

    Arithmetic and comparison operators build calls of the ops that declare them; `is` and hashes
    compare objects. Functions, and expressions without StructInfo, compare by identity.
    """

    __slots__ = ()
    struct_info: Any
    span: Span | None

    def __eq__(self, other: Any) -> Any:
        if not _is_compared(self, other):
            return NotImplemented
        return operator_call("==", self, other)

    def __ne__(self, other: Any) -> Any:
        if not _is_compared(self, other):
            return NotImplemented
        return operator_call("!=", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        if isinstance(self.struct_info, FuncStructInfo):
            return True
        text = getattr(self, "name", None) or str(self)
        name = text if len(text) <= MAX_NAME else "condition"
        message = f"`{text}` has no truth value: its elements are unknown while a program is built"
        hint = f"write `builder.if_else({name}, ...)` or `R.where({name}, a, b)`"
        hint += "; compare objects with `is`"
        diagnostic = Diagnostic(message, caller_span(), hint=hint, label=str(self.struct_info))
        raise TruthValueError(diagnostic)

    def __getitem__(self, key: int | str) -> Expr:
        info = self.struct_info
        index = info.index(key) if isinstance(info, TupleStructInfo) else None
        if index is None:
            raise TypeError(f"expected a tuple with a field {key!r}, found {info}")
        return TupleGetItem(self, index, info.fields[index])


@node
class Var(Expr):
    """A variable: a parameter or the target of a binding. It equals only itself."""

    name: str
    struct_info: StructInfo
    span: Span | None = None


@node
class DataflowVar(Var):
    """A variable that is only visible inside its dataflow block."""


@node
class GlobalVar(Expr):
    """A reference to a function of the module by name."""

    name: str
    struct_info: StructInfo | None = None
    span: Span | None = None

    def __call__(self, *args: Any, **names: Any) -> Call:
        """Returns a call of the function; tuples, numbers and strings become expressions."""
        if names:
            message = (
                f"unexpected keyword argument `{next(iter(names))}`: a reference to a function"
            )
            hint = f"pass arguments by position: `builder.global_var({self.name!r})(x, y)`"
            diagnostic = Diagnostic(f"{message} has no parameter names", op=self.name, hint=hint)
            raise DiagnosticError(attrs.evolve(diagnostic, code="E0704"))
        call = Call(self, _as_exprs(args, self.struct_info, "params"))
        if self.struct_info is None:
            return call
        return Call(self, call.args, struct_info=deduction.deduce(call))


def as_expr(value: Any, info: Any = None) -> Expr:
    """Converts a tuple, list or dict, also nested, a number or a string to an expression.

    A dict becomes a tuple with named fields, in the order that the StructInfo of a parameter gives
    the names. Raises DiagnosticError for other values that are no expressions.
    """
    if isinstance(value, Expr):
        return value
    if isinstance(value, tuple | list):
        return Tuple(_as_exprs(value, info))
    if isinstance(value, dict):
        names = getattr(info, "names", None) or ()
        if {*names} != value.keys():
            names, info = tuple(value), None
        return Tuple(_as_exprs([value[name] for name in names], info), names)
    if isinstance(value, bool | int | float | dims.Poly):
        return PrimValue(value)
    if isinstance(value, str):
        return StringImm(value)
    message = f"expected an expression, found {value!r}"
    hint = "`R.const(...)` for a tensor, `ir.Tuple(...)` for a tuple"
    raise DiagnosticError(Diagnostic(message, hint=hint))


def _as_exprs(values: Sequence[Any], info: Any, key: str = "fields") -> tuple[Expr, ...]:
    known = getattr(info, key, None) or ()
    return tuple(map(as_expr, values, (*known, *[None] * (len(values) - len(known)))))


def _of_data(constant: Any) -> StructInfo:
    return TensorStructInfo(tuple(constant.data.shape), constant.data.dtype.name)


def _of_value(prim: Any) -> StructInfo:
    value = prim.value
    if isinstance(value, bool | float):
        return PrimStructInfo("bool" if isinstance(value, bool) else "float32")
    return PrimStructInfo("bool" if dims.is_condition(value) else "int64", value)


def _of_dims(shape: Any) -> StructInfo:
    return ShapeStructInfo(shape.dims)


def _of_fields(value: Any) -> StructInfo | None:
    infos = tuple([field.struct_info for field in value.fields])
    if None in infos:
        infos = tuple(
            [
                OBJECT if f.struct_info is None and type(f) in ATOMS else f.struct_info
                for f in value.fields
            ]
        )
    return None if None in infos else TupleStructInfo(infos, value.names)


def _of_body(seq: Any) -> StructInfo | None:
    info: StructInfo | None = seq.body.struct_info
    return info


@node
class Constant(Expr):
    """A constant tensor: a read-only NumPy array. A writeable array is copied."""

    data: numpy.ndarray = attrs.field(converter=constant_array)
    struct_info: StructInfo = attrs.field(default=attrs.Factory(_of_data, takes_self=True))
    span: Span | None = None


@node
class PrimValue(Expr):
    """A scalar: an integer expression over symbolic dims, a float, or a bool."""

    value: Dim | float | bool
    struct_info: StructInfo = attrs.field(default=attrs.Factory(_of_value, takes_self=True))
    span: Span | None = None

    def with_value(self, value: Dim | float | bool) -> PrimValue:
        """Returns this scalar with another value; a comparison remains a bool."""
        is_bool = getattr(self.struct_info, "dtype", None) == "bool"
        return PrimValue(bool(value) if is_bool and type(value) is int else value, span=self.span)


@node
class StringImm(Expr):
    """A string as an argument."""

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
    """A shape value: a tuple of sizes."""

    dims: Dims = attrs.field(converter=as_plain_dims)
    struct_info: StructInfo = attrs.field(default=attrs.Factory(_of_dims, takes_self=True))
    span: Span | None = None

    @property
    def values(self) -> Any:
        """The sizes as integers and sympy expressions."""
        return symbolic.to_sympy_shape(self.dims)


@node
class Tuple(Expr):
    """A tuple expression. The empty tuple also represents an omitted optional operand.

    Its StructInfo is always that of its fields, with the names if they have any.
    """

    fields: tuple[Expr, ...]
    names: Names | None = attrs.field(default=None, converter=as_names)
    struct_info: StructInfo | None = attrs.field(
        init=False, default=attrs.Factory(_of_fields, takes_self=True)
    )
    span: Span | None = None


@node
class TupleGetItem(Expr):
    """A field of a tuple, by a constant index."""

    tuple_value: Expr
    index: int
    struct_info: StructInfo | None = None
    span: Span | None = None


@node
class Call(Expr):
    """A call of an op or a function; `sinfo_args` declare the result of an opaque callee."""

    op: Expr
    args: tuple[Expr, ...]
    attrs: Attrs = NO_ATTRS
    sinfo_args: tuple[StructInfo, ...] = ()
    struct_info: StructInfo | None = None
    span: Span | None = None


@node
class ExternFunc(Expr):
    """An external function by its registered name."""

    global_symbol: str
    struct_info: StructInfo | None = None
    span: Span | None = None


class Binding(Node):
    """The base class of bindings: a variable and the expression of its value."""

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
    """`var = match_cast(value, struct_info)`: a check at run time that binds new symbolic dims."""

    var: Var
    value: Expr
    struct_info: StructInfo
    span: Span | None = None


@node
class BindingBlock(Node):
    """A sequence of bindings, which may have effects."""

    bindings: tuple[Binding, ...]
    span: Span | None = None


@node
class DataflowBlock(BindingBlock):
    """A block without effects and control flow; only its `Var`s are visible outside."""


@node
class SeqExpr(Expr):
    """A sequence of blocks and a result expression."""

    blocks: tuple[BindingBlock, ...]
    body: Expr
    struct_info: StructInfo | None = attrs.field(default=attrs.Factory(_of_body, takes_self=True))
    span: Span | None = None

    def bindings(self) -> list[Binding]:
        """Returns the bindings of all blocks in order."""
        return [binding for block in self.blocks for binding in block.bindings]


@node
class If(Expr):
    """A conditional: a scalar bool and two branches."""

    cond: Expr
    true_branch: SeqExpr
    false_branch: SeqExpr
    struct_info: StructInfo | None = None
    span: Span | None = None


def _with_valid_defaults(attributes: Attrs, params: tuple[Var, ...]) -> Attrs:
    """Returns the attributes of a function with the defaults that its parameters can have.

    A pass may remove parameters, or append some: as in Python, only the last ones have defaults.
    """
    defaults, valid = attributes[DEFAULTS], dict[str, Any]()
    if not isinstance(defaults, Mapping) or not all(
        [isinstance(default, Expr) for default in defaults.values()]
    ):
        message = f"{DEFAULTS}: expected constants by parameter, found {defaults!r}"
        hint = 'write the default in the signature: `x: R.Prim("int64") = 3`'
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E0124"))
    for param in reversed(params):
        if param.name not in defaults:
            break
        valid[param.name] = defaults[param.name]
    others = {name: value for name, value in attributes.items() if name != DEFAULTS}
    return {**others, DEFAULTS: dict(reversed(valid.items()))} if valid else others


@attrs.frozen(slots=False, eq=False, repr=False)
class Function(Expr):
    """A function. `ret_struct_info` is the StructInfo of its result as callers see it."""

    params: tuple[Var, ...]
    body: SeqExpr
    ret_struct_info: StructInfo
    is_pure: bool = True
    attrs: Attrs = NO_ATTRS
    span: Span | None = None

    def __attrs_post_init__(self) -> None:
        if DEFAULTS in self.attrs:
            object.__setattr__(self, "attrs", _with_valid_defaults(self.attrs, self.params))

    @cached_property
    def struct_info(self) -> FuncStructInfo:
        """The StructInfo of the function, from its parameters and result."""
        params = tuple([p.struct_info for p in self.params])
        return FuncStructInfo(params, self.ret_struct_info, self.is_pure)

    def __call__(self, *_args: Any, **_names: Any) -> NoReturn:
        raise TypeError(NOT_COMPILED)

    def script(self) -> str:
        """Returns the source of the function; `structir.parse` parses it."""
        return str(self)

    def bindings(self) -> list[Binding]:
        """Returns the bindings of the body in order, without branches and local functions."""
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
