"""The table of syntax forms of StructInfos and leaves, used by printer and parser.

A form is `R.<name>(fields)`. Kinds of StructInfo that users register need no row: their fields are
written by keyword, as the class declares them.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import Any

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

Fields = dict[str, Any]


def _given(value: Any, _node: Any, _inside: bool) -> bool:
    return value is not None


def _always(_value: Any, _node: Any, _inside: bool) -> bool:
    return True


def _unsized(value: Any, node: Any, inside: bool) -> bool:
    """A rank is written where the sizes do not tell it, nor in a program the shape variable."""
    if value is None or type(node.dims) is tuple or getattr(node, "axes", None) is not None:
        return False
    return not inside or value != _rank(getattr(node.dims, "struct_info", None))


def _rank(shape: Any) -> int | None:
    return shape.ndim if isinstance(shape, ShapeStructInfo) else None


@attrs.frozen
class FormField:
    """One field in a form: under which names it is known, what it holds, when it is written."""

    name: str
    kind: (
        str  # dim, sizes (in brackets), shape (in parentheses, or a variable), static, info, infos
    )
    text_name: str = ""  # the keyword in the text where it is not the field's own name
    by_keyword: bool = False  # as it is written; it is read either way
    shown: Callable[[Any, Any, bool], bool] = _given  # of value, node, and whether in a program
    fuller: str = ""  # a field that is written in its place where it is given

    @property
    def keyword(self) -> str:
        return self.text_name or self.name


@attrs.frozen
class SyntaxForm:
    """`R.<name>(fields)` for one node class; a `rest` field takes all, `complete` fills gaps."""

    name: str
    node: type
    fields: tuple[FormField, ...] = ()
    rest: bool = False
    complete: Callable[[Fields], Fields] = lambda fields: fields


def _tensor(fields: Fields) -> Fields:
    """`R.Tensor("float32")` has no sizes: its only argument is the dtype."""
    dims = fields.get("dims")
    if type(dims) is UnresolvedAxes:
        fields = {**fields, **_known_rank(fields_of(tuple(dims)), fields.get("ndim"))}
    if isinstance(dims, str):
        return {"dtype": fields.pop("dims"), **fields}
    return {k: v for k, v in fields.items() if (k, v) not in (("ndim", -1), ("dtype", ""))}


def _known_rank(made: Fields, ndim: Any) -> Fields:
    if ndim not in (None, -1, made["ndim"]):
        raise TypeError(f"ndim: expected the length of the shape, found {ndim}")
    return made


def _prim(fields: Fields) -> Fields:
    return {"dtype": "int64", **fields}


def _callable(fields: Fields) -> Fields:
    """An opaque function is impure and gives any value unless it is declared otherwise."""
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
            FormField("dims", "shape", "shape", fuller="axes"),
            FormField("dtype", "static", by_keyword=True),
            FormField("ndim", "static", by_keyword=True, shown=_unsized),
        ),
        complete=_tensor,
    ),
    SyntaxForm(
        "Shape",
        ShapeStructInfo,
        (
            FormField("dims", "sizes", "values"),
            FormField("ndim", "static", by_keyword=True, shown=_unsized),
        ),
        complete=_tensor,
    ),
    SyntaxForm(
        "Prim",
        PrimStructInfo,
        (FormField("dtype", "static"), FormField("value", "dim", by_keyword=True)),
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
    """Returns the form of a StructInfo subclass; a registered one follows from its fields."""
    known = FORM_OF_NODE.get(cls)
    if known is None:
        known = FORM_OF_NODE[cls] = _form_from_fields(cls)
    return known


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


ANY_SIZE = "_"  # an axis of any size, another at each occurrence

# The words of statements and of calls that are not calls of ops.
FUNCTION = "function"
MATCH_CAST = "match_cast"
DATAFLOW = "dataflow"
OUTPUT = "output"
FUNC_ATTR = "func_attr"
REQUIRE = "require"
SIG = "sig"
CONST = "const"
TUPLE = "tuple"
CALL_PACKED = "call_packed"
CALL_PURE_PACKED = "call_pure_packed"
CALL_KERNEL = "call_kernel"
OUT_SINFO = "out_sinfo"
KERNEL = "kernel"
ZEROS, EMPTY, PART = "zeros", "empty", "part"
SHARED, SYNC = "shared", "sync_threads"  # of the threads of a block
TARGET, BLOCKS, THREADS = "target", "blocks", "threads"  # of kernels for a GPU
CUDA = "cuda"
PRIVATE = "private"
IR_MODULE = "ir_module"
MODULE_ATTRS = "module_attrs"
SYMBOL_DTYPES = frozenset({"int64", "int32", "Var", "SizeVar"})
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
    }
)
KERNEL_NAMES = frozenset({"range", "float", "min", "max", "abs"})  # what kernels call by name
RESERVED = frozenset({"R", "I", "T", "cls", METADATA}) | frozenset(keyword.kwlist)
