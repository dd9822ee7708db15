"""The table of syntax forms of StructInfos and leaves, used by printer and parser.

A form is `R.<name>(fields)`. The form of a registered StructInfo subclass is derived from the
class; its fields are keyword arguments.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any
from unicodedata import normalize

import attrs

from structir.ir.axes import UnresolvedAxes, fields_of
from structir.ir.expr import DataTypeImm, ExternFunc, PrimValue, ShapeExpr, StringImm
from structir.ir.struct_info import (
    KINDS,
    OBJECT,
    SUFFIX,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    field_kinds,
)
from structir.system.locks import cached_property

Fields = dict[str, Any]


def _is_present(value: Any, _node: Any, _inside: bool) -> bool:
    return value is not None


def _always(_value: Any, _node: Any, _inside: bool) -> bool:
    return True


def _rank_is_printed(value: Any, node: Any, inside: bool) -> bool:
    """Whether a rank is printed: neither sizes nor, in a program, a shape variable imply it."""
    if value is None or type(node.dims) is tuple or getattr(node, "axes", None) is not None:
        return False
    return not inside or value != _rank(getattr(node.dims, "struct_info", None))


def _rank(shape: Any) -> int | None:
    return shape.ndim if isinstance(shape, ShapeStructInfo) else None


@attrs.frozen
class FormField:
    """A field of a form: its names, its kind, and when it is printed."""

    name: str
    kind: (
        str  # dim, sizes (in brackets), shape (in parentheses, or a variable), static, info, infos
    )
    text_name: str = ""  # the keyword in source, if it is not the field name
    by_keyword: bool = False  # in printed source; the parser accepts both
    shown: Callable[[Any, Any, bool], bool] = (
        _is_present  # of value, node, and whether in a program
    )
    refined_by: str = ""  # a field that is printed instead of this one if present

    @property
    def keyword(self) -> str:
        return self.text_name or self.name


@attrs.frozen
class SyntaxForm:
    """`R.<name>(fields)` of a node class.

    With `rest`, one field holds all arguments. `complete` fills in missing fields.
    """

    name: str
    node: type
    fields: tuple[FormField, ...] = ()
    rest: bool = False
    complete: Callable[[Fields], Fields] = lambda fields: fields

    @cached_property
    def field_of(self) -> dict[str, FormField]:
        """The fields by their keywords and by their names."""
        return {f.keyword: f for f in self.fields} | {f.name: f for f in self.fields}

    @property
    def call_hint(self) -> str:
        """The hint that shows the arguments of the form."""
        arguments = [f"{f.keyword}=..." if f.by_keyword else f.keyword for f in self.fields]
        return f"call it as `R.{self.name}({', '.join(arguments)})`"


def _tensor(fields: Fields) -> Fields:
    """Completes the fields of a tensor or shape; `R.Tensor("float32")` has only a dtype."""
    dims = fields.get("dims")
    if type(dims) is UnresolvedAxes:
        fields = {**fields, **_check_rank(fields_of(tuple(dims)), fields.get("ndim"))}
    if isinstance(dims, str):
        return {"dtype": fields.pop("dims"), **fields}
    if fields.get("dtype") in UNKNOWN_DTYPES:
        fields = {k: v for k, v in fields.items() if k != "dtype"}
    return {k: v for k, v in fields.items() if (k, v) != ("ndim", -1)}


def _check_rank(fields: Fields, ndim: Any) -> Fields:
    if ndim not in (None, -1, fields["ndim"]):
        rank = fields["ndim"]
        expected = "no rank for a shape with row variables" if rank is None else rank
        raise TypeError(f"ndim: expected {expected}, found {ndim}")
    return fields


def _prim(fields: Fields) -> Fields:
    return {"dtype": "int64", **fields}


def _callable(fields: Fields) -> Fields:
    """Completes a callable; an opaque one is impure and returns an Object by default."""
    params = fields.get("params")
    return {"params": None, "ret": OBJECT, "purity": params is not None, **fields}


def _purity(value: bool, node: Any, _inside: bool) -> bool:
    return value is not (node.params is not None)


def _result(value: StructInfo, node: Any, _inside: bool) -> bool:
    return node.params is not None or value != OBJECT


INFO_FORMS = (
    SyntaxForm("Object", ObjectStructInfo),
    SyntaxForm(
        "Tensor",
        TensorStructInfo,
        (
            FormField("dims", "shape", "shape", refined_by="axes"),
            FormField("dtype", "dtype", by_keyword=True, refined_by="dtype_var"),
            FormField("vdevice", "vdevice", by_keyword=True),
            FormField("ndim", "static", by_keyword=True, shown=_rank_is_printed),
        ),
        complete=_tensor,
    ),
    SyntaxForm(
        "Shape",
        ShapeStructInfo,
        (
            FormField("dims", "sizes", "values"),
            FormField("ndim", "static", by_keyword=True, shown=_rank_is_printed),
        ),
        complete=_tensor,
    ),
    SyntaxForm(
        "Prim",
        PrimStructInfo,
        (
            FormField("dtype", "dtype", refined_by="dtype_var"),
            FormField("value", "dim", by_keyword=True),
        ),
        complete=_prim,
    ),
    SyntaxForm("Tuple", TupleStructInfo, (FormField("fields", "infos"),), rest=True),
    SyntaxForm(
        "Callable",
        FuncStructInfo,
        (
            FormField("params", "infos"),
            FormField("ret", "info", shown=_result),
            FormField("purity", "static", by_keyword=True, shown=_purity),
            FormField("derive_func", "static", by_keyword=True),
        ),
        complete=_callable,
    ),
)

LEAF_FORMS = (
    SyntaxForm("prim_value", PrimValue, (FormField("value", "number", shown=_always),)),
    SyntaxForm("str", StringImm, (FormField("value", "static"),)),
    SyntaxForm("dtype", DataTypeImm, (FormField("value", "static"),)),
    SyntaxForm("shape", ShapeExpr, (FormField("dims", "sizes"),)),
    SyntaxForm("ExternFunc", ExternFunc, (FormField("global_symbol", "static"),)),
)

FORM_OF_NODE: dict[type, SyntaxForm] = {form.node: form for form in (*INFO_FORMS, *LEAF_FORMS)}
INFO_OF_NAME: dict[str, SyntaxForm] = {form.name: form for form in INFO_FORMS}
LEAF_OF_NAME: dict[str, SyntaxForm] = {form.name: form for form in LEAF_FORMS}

_KIND_OF_FIELD = {"dims": "shape", "dtype": "static"}


def info_form_of(cls: type) -> SyntaxForm:
    """Returns the form of a StructInfo subclass; a registered one has a derived form."""
    form = FORM_OF_NODE.get(cls)
    if form is None:
        form = FORM_OF_NODE[cls] = _form_from_fields(cls)
    return form


def _form_from_fields(cls: type) -> SyntaxForm:
    defaults = {f.name: f.default for f in attrs.fields(cls)}
    fields = []
    for name, kind in field_kinds(cls):
        shown = _differs_from(defaults[name])
        fields.append(FormField(name, _KIND_OF_FIELD.get(kind, kind), by_keyword=True, shown=shown))
    return SyntaxForm(cls.__name__.removesuffix(SUFFIX), cls, tuple(fields))


def _differs_from(default: Any) -> Callable[[Any, Any, bool], bool]:
    return lambda value, _node, _inside: default is attrs.NOTHING or value != default


def info_form(name: str) -> SyntaxForm | None:
    """Returns the form of the StructInfo written `R.<name>`, or None."""
    form = INFO_OF_NAME.get(name)
    if form is None and name in KINDS:
        form = info_form_of(KINDS[name])
    return form


def is_word(key: int | str) -> bool:
    """Whether a key is a name that is written without quotes; Python normalizes identifiers."""
    is_name = isinstance(key, str) and key.isidentifier() and not keyword.iskeyword(key)
    return is_name and normalize("NFKC", str(key)) == key


CAST = "cast"  # in kernels: the conversion to the dtype of a dtype variable
ANY_SIZE = "_"  # an axis of unknown size, distinct at each occurrence

# The names of statements and of calls that are not op calls.
FUNCTION = "function"
MATCH_CAST = "match_cast"
DATAFLOW = "dataflow"
OUTPUT = "output"
FUNC_ATTR = "func_attr"
REQUIRE = "require"
SIG = "sig"
MACRO = "macro"  # decorates helpers that are expanded at each call
CONST = "const"
TUPLE = "tuple"
CALL_PACKED = "call_packed"
CALL_PURE_PACKED = "call_pure_packed"
CALL_KERNEL = "call_kernel"
OUT_SINFO = "out_sinfo"
KERNEL = "kernel"
TIR_FUNCTION = "prim_func"
ZEROS, EMPTY, PART = "zeros", "empty", "part"
NON_TEMPORAL = "non_temporal"  # non-temporal stores: `out[i] = T.non_temporal(x[i])`
PREFETCH = "prefetch"  # a hint: `T.prefetch(x[i])`
SYNC = "sync_threads"  # for the threads of a block
TARGET, BLOCKS, THREADS = "target", "blocks", "threads"  # of kernels for a GPU
CUDA = "cuda"
PRIVATE = "private"
OPAQUE_RESULT = "opaque_result"  # the result is R.Object, although the body is known better
IR_MODULE = "ir_module"
MODULE_ATTRS = "module_attrs"
GLOBAL_INFOS = "module_global_infos"  # also the key of the devices in a module's attributes
VDEVICE = "vdevice"
SYMBOL_DTYPES = frozenset({"int64", "int32", "Var", "SizeVar", "dynamic", "var"})
UNKNOWN_DTYPES = ("", "void")  # in TVM, an unknown dtype, or that of the operands
METADATA = "metadata"
HEADER = "from structir.script import I, R, T"

FORM_WORDS = frozenset(
    {
        MATCH_CAST,
        DATAFLOW,
        OUTPUT,
        FUNC_ATTR,
        REQUIRE,
        SIG,
        CONST,
        TUPLE,
        CALL_PACKED,
        CALL_PURE_PACKED,
        CALL_KERNEL,
        FUNCTION,
        MACRO,
    }
)
KERNEL_NAMES = frozenset(
    {"range", "float", "min", "max", "abs"}
)  # Python functions that kernels call
RESERVED = frozenset({"R", "I", "T", "cls", METADATA}) | frozenset(keyword.kwlist)
