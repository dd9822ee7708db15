"""The StructInfo classes: compile-time structure of values (shape, dtype, rank)."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import attrs

from structir.errors import Diagnostic, DiagnosticError, caller_span
from structir.ir.axes import (
    AnySize,
    Axes,
    Labelled,
    Ragged,
    RowVar,
    UnresolvedAxes,
    fields_of,
)
from structir.ir.code_hash import is_of_package
from structir.ir.dims import Dim, Poly, as_dim
from structir.ir.dtype import DTYPES, DtypeVar, Element, dtype_hint, is_dtype_var
from structir.ir.node import Node
from structir.ir.user_rules import checked_rule
from structir.ir.vdevice import VDevice, as_vdevice
from structir.lazy import lazy_module, provided_module

if TYPE_CHECKING:
    import sympy

np = lazy_module("numpy")
symbolic = lazy_module("structir.ir.symbolic")
named_sizes = provided_module("sizes in strings")
K = TypeVar("K", bound="StructInfo")

Dims = tuple[Dim, ...]
DType = str
Names = tuple[str, ...]  # of the fields of a tuple
SymbolicShape = tuple["int | sympy.Expr", ...]

KINDS: dict[str, type[StructInfo]] = {}
SUFFIX = "StructInfo"
MAX_RANK = 64  # of a tensor, as in NumPy
MAX_SHAPE_LENGTH = 4096  # sizes of a shape value


class StructInfo(Node):
    """The compile-time structure of a value. Subclasses only add fields and compare by them."""

    __slots__ = ()


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def struct_info(cls: type[K]) -> type[K]:
    """Registers a StructInfo subclass under its name without the suffix `StructInfo`."""
    is_built_in = is_of_package(cls)
    transformer = None if is_built_in else _with_plain_values
    if not is_built_in:
        _check_subclass(cls)
    registered = attrs.frozen(
        slots=True,
        eq=True,
        repr=False,
        cache_hash=True,
        str=False,
        field_transformer=transformer,
    )(cls)
    KINDS[registered.__name__.removesuffix(SUFFIX)] = registered
    return registered


def _check_subclass(cls: type) -> None:
    """Raises DiagnosticError unless a class of another package is a new subclass of StructInfo."""
    name = cls.__name__.removesuffix(SUFFIX)
    fixed = [base for base in cls.__mro__[1:] if base in KINDS.values() and is_of_package(base)]
    if not issubclass(cls, StructInfo):
        message, hint = "expected a subclass of StructInfo", f"class {cls.__name__}(StructInfo)"
    elif fixed:
        message = f"expected StructInfo as base class, found {fixed[0].__name__}"
        hint = f"class {cls.__name__}(StructInfo)"
    elif name in KINDS and is_of_package(KINDS[name]):
        message = f"expected a new name, found the name of the built-in R.{name}"
        hint = f"class My{cls.__name__}(StructInfo)"
    else:
        return
    diagnostic = Diagnostic(message, caller_span(), cls.__name__, hint=f"`{hint}`", code="E1134")
    raise DiagnosticError(diagnostic)


def _with_plain_values(_cls: type, fields: list[Any]) -> list[Any]:
    """Converts the values of fields to those that source has, and compares values of the program by
    identity: `==` of two of them builds a call."""
    return [
        field.evolve(
            eq_key=field.eq_key or _identity,
            converter=attrs.converters.pipe(
                *filter(None, (field.converter, _converter(field.name)))
            ),
        )
        for field in fields
    ]


def _converter(name: str) -> Any:
    def converted(value: Any, info: Any) -> Any:
        kind = dict(field_kinds(type(info)))[name]
        if kind == "dim":
            return value if value is None else _prim_value(value)
        return _plain_value(value, name, type(info).__name__) if kind == "static" else value

    return attrs.Converter(converted, takes_self=True)


def _plain_value(value: Any, field: str, owner: str) -> Any:
    """Returns a value as the parser reads it back; raises DiagnosticError if source has none."""
    if type(value) in (tuple, list):
        return tuple([_plain_value(item, field, owner) for item in value])
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (type(value) in (bool, int, float, str) and value == value):
        return value  # NaN is not equal to itself
    message = f"the field {field}: expected a number, a string or a tuple of these, found {value!r}"
    is_node = isinstance(value, Node | Poly)
    noun = "Dim" if isinstance(value, Poly) else "StructInfo"
    hint = f"annotate the field: `{field}: {noun}`" if is_node else f"store a name: `{field}: str`"
    raise DiagnosticError(Diagnostic(message, op=owner, hint=hint, code="E1134"))


def _identity(value: Any) -> Any:
    is_value = isinstance(value, Node) and not isinstance(value, StructInfo)
    return id(value) if is_value else value


def as_dims(value: Any) -> Any:
    """Converts sizes to normal form; None and a shape variable are returned unchanged.

    The sizes of another shape value are those of its StructInfo.
    """
    if type(value) is not tuple:
        if value is None or hasattr(value, "name"):
            return value
        if isinstance(value, Node):
            dims = getattr(getattr(value, "struct_info", None), "dims", None)
            if type(dims) is tuple:
                return dims
            hint = "bind the shape to a variable: `s = R.shape_of(x)`"
            message = f"expected a shape of known sizes or a variable, found {value}"
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E0121"))
        if not isinstance(value, list | tuple):
            hint = f'write a tuple: `R.Tensor(({value!r},), "float32")`'
            message = f"expected a shape such as `(n, 4)`, found {value!r}"
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E0121"))
        value = tuple(value)
    for dim in value:
        if type(dim) is not int and type(dim) is not Poly:
            return _converted(value)
    return value


def _converted(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Converts strings and sympy expressions; sizes that include rows become UnresolvedAxes."""
    axes = [named_sizes.axis_of(size) if isinstance(size, str) else size for size in sizes]
    rows = [isinstance(axis, RowVar | Ragged | AnySize | Labelled) for axis in axes]
    converted = [axis if is_row else as_dim(axis) for axis, is_row in zip(axes, rows, strict=True)]
    return UnresolvedAxes(converted) if any(rows) else tuple(converted)


def _prim_value(value: Any) -> Dim | None:
    if value is None or type(value) is int:
        return value
    size: Dim = _plain_sizes(_converted((value,)))[0]
    return size


def _plain_sizes(sizes: Any) -> Any:
    """Returns plain sizes; raises DiagnosticError for row variables and unknown sizes."""
    if type(sizes) is not UnresolvedAxes:
        return sizes
    message = f"expected a size, found {next(s for s in sizes if isinstance(s, RowVar | Node))}"
    hint = 'row variables are axes of tensors: `TensorStructInfo(("*s", 4), "float32")`'
    raise DiagnosticError(Diagnostic(message, hint=hint, code="E0121"))


def _tensor_dims(value: Any) -> Any:
    """Converts sizes of a tensor as `as_dims` does; raises DiagnosticError for a negative size."""
    if type(value) is tuple and len(value) <= MAX_RANK:
        for dim in value:  # once for nearly all tensors, of which a compiler creates many
            if type(dim) is not Poly and (type(dim) is not int or dim < 0):
                break
        else:
            return value
    value = as_dims(value)
    if not isinstance(value, tuple):
        return value
    if len(value) > MAX_RANK:
        raise _limit_error("axes", MAX_RANK, len(value))
    for dim in value:
        if type(dim) is int and dim < 0:
            hint = "write a size of at least 0, or name an unknown size: `(n, 4)`"
            message = f"negative size of an axis: expected at least 0, found {dim}"
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E0121"))
    return value


def _limit_error(noun: str, limit: int, count: int) -> DiagnosticError:
    """Returns the error of a shape with too many sizes."""
    hint = "merge axes" if noun == "axes" else "use several shapes"
    message = f"expected at most {limit} {noun}, found {count}"
    return DiagnosticError(Diagnostic(message, hint=hint, code="E0109"))


def as_plain_dims(value: Any) -> Any:
    """Converts sizes as `as_dims` does; raises DiagnosticError for row variables."""
    return _plain_sizes(as_dims(value))


def _shape_dims(value: Any) -> Any:
    """Converts sizes as `as_dims` does; raises DiagnosticError for too many sizes."""
    value = as_plain_dims(value)
    if type(value) is tuple and len(value) > MAX_SHAPE_LENGTH:
        raise _limit_error("sizes", MAX_SHAPE_LENGTH, len(value))
    return value


def _shape_rank(value: int | None) -> int | None:
    if value is not None and value > MAX_SHAPE_LENGTH:
        raise _limit_error("sizes", MAX_SHAPE_LENGTH, value)
    return value


def _dtype(value: Any) -> Any:
    if value is None or (isinstance(value, str) and value in DTYPES):
        return value
    if type(value) is DtypeVar:
        return value
    if is_dtype_var(value):
        return named_sizes.dtype_var_of(value)
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    if not isinstance(value, str) and name in DTYPES:  # of NumPy
        return name
    message = f"unknown dtype {value!r}"
    raise DiagnosticError(Diagnostic(message, hint=dtype_hint(value), code="E0122"))


def as_names(names: Any) -> Names | None:
    """Converts names of fields to a tuple; a tuple without fields has no names."""
    return tuple(names or ()) or None


def _check_names(names: Names, count: int) -> None:
    """Raises DiagnosticError unless there is a different name for each field."""
    if len(names) != count or len({*names}) != count or not all([type(n) is str for n in names]):
        text = ", ".join(map(str, names))
        message = f"names: expected {count} different strings, one for each field, found {text}"
        hint = 'name every field once: `R.Tuple(w=R.Tensor((4,), "float32"))`'
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E0107"))


def _comparable(dims: Any) -> Any:
    """Returns a key that compares sizes by value and shape variables by identity."""
    return dims if type(dims) is tuple or dims is None else id(dims)


def _rank(info: TensorStructInfo | ShapeStructInfo) -> int | None:
    if info.dims is None:
        return None
    if type(info.dims) is tuple:
        return len(info.dims)
    return getattr(getattr(info.dims, "struct_info", None), "ndim", None)


def _resolve_dtype(info: PrimStructInfo | TensorStructInfo) -> None:
    """Assigns a known dtype to `dtype`, and a variable to `dtype_var`."""
    dtypes = (info.dtype, _dtype(info.dtype_var))
    known = next((dtype for dtype in dtypes if type(dtype) is str), None)
    variable = next((dtype for dtype in dtypes if type(dtype) is DtypeVar), None)
    object.__setattr__(info, "dtype", known)
    object.__setattr__(info, "dtype_var", None if known else variable)


@struct_info
class ObjectStructInfo(StructInfo):
    """Any value of unknown structure."""


@struct_info
class PrimStructInfo(StructInfo):
    """A scalar with a dtype, or a dtype variable, and, if known, its value."""

    dtype: DType | None = attrs.field(converter=_dtype)
    value: Dim | None = attrs.field(default=None, converter=_prim_value)
    dtype_var: DtypeVar | None = None  # None if the dtype is known

    def __attrs_post_init__(self) -> None:
        if self.dtype_var is not None or isinstance(self.dtype, DtypeVar):
            _resolve_dtype(self)
        if self.dtype_var is not None and self.value is not None:
            message = f"a scalar of dtype {self.dtype_var} cannot state its value {self.value}"
            hint = f'name the dtype: `R.Prim("int64", value="{self.value}")`'
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E1124"))

    @property
    def element(self) -> Element:
        """The dtype, or its variable."""
        return self.dtype_var or self.dtype


@struct_info
class ShapeStructInfo(StructInfo):
    """A shape value: its sizes, or only its length, or neither."""

    dims: Dims | None = attrs.field(default=None, converter=_shape_dims)
    ndim: int | None = attrs.field(
        default=attrs.Factory(_rank, takes_self=True), converter=_shape_rank
    )

    @property
    def values(self) -> SymbolicShape | None:
        """The sizes as integers and sympy expressions; None if unknown."""
        return None if self.dims is None else symbolic.to_sympy_shape(self.dims)


@struct_info
class TensorStructInfo(StructInfo):
    """A tensor: its sizes (or the variable of its shape), dtype, rank and vdevice, each optional.

    `axes` refines `dims` and `ndim`, and `dtype_var` an unknown `dtype`; code that reads only these
    is sound but less precise. The argument `dtype` may be a dtype variable.
    """

    # Dims | Var | None; `==` of two variables builds a call
    dims: Any = attrs.field(default=None, converter=_tensor_dims, eq=_comparable)
    dtype: DType | None = attrs.field(default=None, converter=_dtype)
    ndim: int | None = attrs.field(default=attrs.Factory(_rank, takes_self=True))
    axes: Axes | None = None  # None if every axis is a plain size
    vdevice: VDevice | None = None  # also built from text, such as "cuda:0"
    # None if the dtype is known, or unrelated to others
    dtype_var: DtypeVar | None = None

    def __attrs_post_init__(self) -> None:
        if self.ndim is not None and self.ndim > MAX_RANK:
            raise _limit_error("axes", MAX_RANK, self.ndim)
        if self.vdevice is not None and type(self.vdevice) is not VDevice:
            object.__setattr__(self, "vdevice", as_vdevice(self.vdevice))
        if type(self.dims) is UnresolvedAxes:
            for name, value in fields_of(tuple(self.dims)).items():
                object.__setattr__(self, name, value)
        if self.dtype_var is not None or isinstance(self.dtype, DtypeVar):
            _resolve_dtype(self)

    @property
    def element(self) -> Element:
        """The dtype, or its variable; None if the dtype is unknown."""
        return self.dtype_var or self.dtype

    @property
    def shape(self) -> Any:
        """The sizes as integers and sympy expressions, a shape variable, or None if unknown."""
        return symbolic.to_sympy_shape(self.dims) if type(self.dims) is tuple else self.dims


@struct_info
class TupleStructInfo(StructInfo):
    """A tuple: the StructInfo of each field, and the names of the fields if they have names.

    Names only denote positions: tuples that differ in names alone describe the same values.
    """

    fields: tuple[StructInfo, ...]
    names: Names | None = attrs.field(default=None, converter=as_names)

    def __attrs_post_init__(self) -> None:
        if self.names is not None:
            _check_names(self.names, len(self.fields))

    def index(self, key: Any) -> int | None:
        """Returns the position of a field by its name or index; None if there is none."""
        if isinstance(key, str):
            names = self.names or ()
            return names.index(key) if key in names else None
        count = len(self.fields)
        return key % count if -count <= key < count else None


DERIVE_FUNCS: dict[str, Callable[..., StructInfo]] = {}


def _derive_rule(name: str | None) -> str | None:
    """Returns the name of a registered rule; raises DiagnosticError for any other name."""
    if name is not None and name not in DERIVE_FUNCS:
        names = ", ".join(sorted(DERIVE_FUNCS)) or "none"
        message = f"derive_func: expected the name of a registered rule, found {name!r}"
        hint = f"register it: `@structir.ir.derive_func` above `def {name}(call)`; rules: {names}"
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E0107"))
    return name


@struct_info
class FuncStructInfo(StructInfo):
    """A function. With `params=None` it is opaque.

    The rule `derive_func`, a name in `DERIVE_FUNCS`, determines the result of a call; without one
    `ret` does. Arguments are checked against the parameters in both cases.
    """

    params: tuple[StructInfo, ...] | None
    ret: StructInfo
    purity: bool = True
    derive_func: str | None = attrs.field(default=None, converter=_derive_rule)


@struct_info
class KernelStructInfo(FuncStructInfo):
    """A kernel: a call passes the operands, and allocates the last `results` parameters."""

    results: int = 1


OBJECT = ObjectStructInfo()

INFO: tuple[str, Callable[[Any], bool]] = (
    "a StructInfo",
    lambda value: isinstance(value, StructInfo),
)

DeriveFunc = TypeVar("DeriveFunc", bound=Callable[..., StructInfo])


def derive_func(function: DeriveFunc) -> DeriveFunc:
    """Registers a function that infers the StructInfo of a call of an opaque function."""
    name = function.__name__
    DERIVE_FUNCS[name] = checked_rule(function, "rule", name, *INFO)
    return function


_FIELD_KINDS: dict[type, tuple[tuple[str, str], ...]] = {}


def field_kinds(cls: Any) -> tuple[tuple[str, str], ...]:
    """Returns (name, kind) of each field of a StructInfo subclass.

    The kinds are dim, dims, axes, dtype, dtype_var, info, infos, names, value (an expression) and
    static.
    """
    kinds = _FIELD_KINDS.get(cls)
    if kinds is None:
        try:
            hints = typing.get_type_hints(cls, include_extras=True)
        except NameError as error:  # of a class in a function
            hint = "import the type at the top level of the module"
            message = f"cannot evaluate the annotation of a field: {error}"
            diagnostic = Diagnostic(message, op=cls.__name__, hint=hint, code="E1134")
            raise DiagnosticError(diagnostic) from None
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
    if hint == Names | None:
        return "names"
    if hint == DtypeVar | None:
        return "dtype_var"
    plain = [h for h in typing.get_args(hint) or (hint,) if h is not type(None)]
    if hint in (tuple[StructInfo, ...], tuple[StructInfo, ...] | None):
        return "infos"
    if all(isinstance(h, type) and issubclass(h, StructInfo) for h in plain):
        return "info"
    if all(isinstance(h, type) and hasattr(h, "struct_info") for h in plain):
        return "value"
    return "dtype" if name == "dtype" else "static"


def known_dims(info: TensorStructInfo) -> tuple[Dim, ...] | None:
    """Returns the dims of a tensor: explicit ones, or those of its shape variable."""
    if type(info.dims) is tuple:
        return info.dims
    return getattr(getattr(info.dims, "struct_info", None), "dims", None)


def leaf_infos(info: Any) -> Iterator[Any]:
    """Yields the StructInfo of the leaves of nested tuples, in order."""
    if isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from leaf_infos(field)
    else:
        yield info
