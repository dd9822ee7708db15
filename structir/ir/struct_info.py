"""The StructInfo classes: the structure of a value that is known at compile time."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.axes import Axes
from structir.ir.dims import Dim, Poly, as_dim
from structir.ir.dtype import DTYPES, dtype_hint
from structir.ir.node import Node
from structir.lazy import lazy_module

if TYPE_CHECKING:
    import sympy

symbolic = lazy_module("structir.ir.symbolic")
K = TypeVar("K", bound="StructInfo")

Dims = tuple[Dim, ...]
DType = str
SymbolicShape = tuple["int | sympy.Expr", ...]

KINDS: dict[str, type[StructInfo]] = {}
SUFFIX = "StructInfo"


class StructInfo(Node):
    """What is known of a value before it runs. Subclasses only add fields; equal fields make equal
    infos."""

    __slots__ = ()


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def struct_info(cls: type[K]) -> type[K]:
    """Registers a StructInfo subclass under its name without the suffix `StructInfo`."""
    made = attrs.frozen(slots=True, eq=True, repr=False, cache_hash=True, str=False)(cls)
    KINDS[made.__name__.removesuffix(SUFFIX)] = made
    return made


def as_dims(value: Any) -> Any:
    """Sizes in their normal form; None and a shape variable stay as they are."""
    if type(value) is not tuple:
        if value is None or isinstance(value, Node):
            return value
        if not isinstance(value, list | tuple):
            hint = f'write a tuple: `R.Tensor(({value!r},), "float32")`'
            message = f"expected a shape such as `(n, 4)`, found {value!r}"
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E0121"))
        value = tuple(value)
    for dim in value:
        if type(dim) is not int and type(dim) is not Poly:
            return tuple([as_dim(d) for d in value])
    return value


def _tensor_dims(value: Any) -> Any:
    """The same for a tensor, which has no negative sizes."""
    value = as_dims(value)
    for dim in value if type(value) is tuple else ():
        if type(dim) is int and dim < 0:
            hint = "a size is at least 0; name a size that is not known: `(n, 4)`"
            message = f"negative size {dim} of an axis"
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E0121"))
    return value


def _dtype(value: Any) -> Any:
    if value is None or value in DTYPES:
        return value
    message = f"unknown dtype {value!r}"
    raise DiagnosticError(Diagnostic(message, hint=dtype_hint(value), code="E0122"))


def _rank(info: TensorStructInfo | ShapeStructInfo) -> int | None:
    if info.dims is None:
        return None
    if type(info.dims) is tuple:
        return len(info.dims)
    shape = getattr(info.dims, "struct_info", None)
    return shape.ndim if isinstance(shape, ShapeStructInfo) else None


def _dims_field() -> Any:
    return attrs.field(default=None, converter=as_dims)


def _rank_field() -> Any:
    return attrs.field(default=attrs.Factory(_rank, takes_self=True))


@struct_info
class ObjectStructInfo(StructInfo):
    """Any value: nothing is known."""


@struct_info
class PrimStructInfo(StructInfo):
    """A scalar of a dtype, of a known value where `value` is given."""

    dtype: DType
    value: Dim | None = attrs.field(
        default=None, converter=lambda v: None if v is None else as_dim(v)
    )


@struct_info
class ShapeStructInfo(StructInfo):
    """A shape value: its sizes, or only how many there are, or nothing."""

    dims: Dims | None = _dims_field()
    ndim: int | None = _rank_field()

    @property
    def values(self) -> SymbolicShape | None:
        """The sizes as integers and sympy expressions; None where unknown."""
        return None if self.dims is None else symbolic.to_sympy_shape(self.dims)


@struct_info
class TensorStructInfo(StructInfo):
    """A tensor: its sizes (or the variable that holds its shape), its dtype, its rank; each may be
    unknown.

    `axes` say more than sizes can; what looks at `dims` and `ndim` alone knows less, never wrong.
    """

    dims: Any = attrs.field(default=None, converter=_tensor_dims)  # Dims | Var | None
    dtype: DType | None = attrs.field(default=None, converter=_dtype)
    ndim: int | None = _rank_field()
    axes: Axes | None = None  # where sizes alone cannot say them: rows, ragged axes, labels

    @property
    def shape(self) -> Any:
        """The sizes as integers and sympy expressions; a shape variable; None where unknown."""
        return symbolic.to_sympy_shape(self.dims) if type(self.dims) is tuple else self.dims


@struct_info
class TupleStructInfo(StructInfo):
    """A tuple of values."""

    fields: tuple[StructInfo, ...]


@struct_info
class FuncStructInfo(StructInfo):
    """A function. `params=None` makes it opaque: its result is `ret`, or that of
    `derive_func`."""

    params: tuple[StructInfo, ...] | None
    ret: StructInfo
    purity: bool = True
    derive_func: str | None = None  # a name in DERIVE_FUNCS


@struct_info
class KernelStructInfo(FuncStructInfo):
    """A kernel: the last `results` of its parameters are filled by a call, the others are given."""

    results: int = 1


OBJECT = ObjectStructInfo()
DERIVE_FUNCS: dict[str, Callable[..., StructInfo]] = {}

DeriveFunc = TypeVar("DeriveFunc", bound=Callable[..., StructInfo])


def derive_func(function: DeriveFunc) -> DeriveFunc:
    """Register a function from a call to the StructInfo of its result, for opaque functions that
    name it."""
    DERIVE_FUNCS[function.__name__] = function
    return function


_FIELD_KINDS: dict[type, tuple[tuple[str, str], ...]] = {}


def field_kinds(cls: Any) -> tuple[tuple[str, str], ...]:
    """For each field of a kind, what it holds: dim, dims, dtype, info, infos or static."""
    kinds = _FIELD_KINDS.get(cls)
    if kinds is None:
        hints = typing.get_type_hints(cls, include_extras=True)
        kinds = tuple((f.name, _kind_of(f.name, hints[f.name])) for f in attrs.fields(cls))
        _FIELD_KINDS[cls] = kinds
    return kinds


def _kind_of(name: str, hint: Any) -> str:
    if name == "dims" or hint in (Dims, Dims | None):
        return "dims"
    if hint in (Dim, Dim | None):
        return "dim"
    if hint == Axes | None:
        return "axes"
    plain = [h for h in typing.get_args(hint) or (hint,) if h is not type(None)]
    if all(isinstance(h, type) and issubclass(h, StructInfo) for h in plain):
        return "info"
    if hint in (tuple[StructInfo, ...], tuple[StructInfo, ...] | None):
        return "infos"
    return "dtype" if name == "dtype" else "static"
