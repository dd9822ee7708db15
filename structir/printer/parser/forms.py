"""Parses StructInfo annotations and leaves by the table of syntax forms."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from typing import Any

import attrs

from structir.analysis.erasure import map_dims
from structir.analysis.variables import free_symbols_in
from structir.errors import DiagnosticError, ParseError
from structir.ir.axes import RowVar, UnresolvedAxes
from structir.ir.dims import Poly
from structir.ir.dtype import DTYPES, MARK, DtypeVar, dtype_hint, is_dtype_var
from structir.ir.expr import DataflowVar, DataTypeImm, Expr, PrimValue, StringImm, Var
from structir.ir.struct_info import (
    OBJECT,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
)
from structir.printer.parser.captured import is_sequence
from structir.printer.parser.context import MISSING, Context
from structir.printer.parser.named_fields import named_fields
from structir.printer.parser.prim_sizes import hint_of_size, with_known_sizes
from structir.printer.parser.sizes import SIZE_EXAMPLE, is_number, size_of_string
from structir.printer.parser.static_values import static_value
from structir.printer.parser.tvm_spellings import counterpart
from structir.printer.parser.unrolling import program_item, starred
from structir.printer.parser.values import path_of, value_of
from structir.printer.parser.vdevices import vdevice_of
from structir.printer.syntax import ANY_SIZE, INFO_OF_NAME, SyntaxForm, info_form, info_form_of


def info_of(context: Context, node: ast.expr) -> StructInfo:
    """Parses an annotation to its StructInfo."""
    text = context.source_map.on_one_line(node)
    if text is not None:
        memoized = context.infos.get(text)
        if memoized is not None:
            return memoized
    info = _read_info(context, node)
    if type(info) is TensorStructInfo:
        info = context.distinct_infos.setdefault(info, info)
    keeps = context.keeps_infos and not context.declares_strings
    if text is not None and keeps and not _holds_variable(info):
        context.infos[text] = info
    return info


def _holds_variable(info: StructInfo) -> bool:
    """Whether a shape variable may occur, whose name may be rebound later."""
    return not isinstance(info, TensorStructInfo) or isinstance(info.dims, Var)


ANNOTATIONS = {  # of Python and of other libraries
    **{"float": 'R.Prim("float32")', "int": 'R.Prim("int64")', "bool": 'R.Prim("bool")'},
    **dict.fromkeys(("ndarray", "Array", "ArrayLike", "Tensor"), 'R.Tensor(("n", 4), "float32")'),
    **dict.fromkeys(("list", "tuple", "List", "Tuple"), "R.Tuple(R.Tensor, R.Tensor)"),
    "str": "R.Object",
}


def _read_info(context: Context, node: ast.expr) -> StructInfo:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = _quoted(context, node)
    path = path_of(node.func if isinstance(node, ast.Call) else node)
    form = info_form(path[2:]) if path is not None and path.startswith("R.") else None
    if form is None and isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        value = context.captured(node)
        if isinstance(value, StructInfo):
            return _with_own_dims(context, value)
    if form is None:
        form = _captured_form(context, node.func if isinstance(node, ast.Call) else node)
    if form is None and path is not None:
        rewritten = counterpart(path, node)
        if rewritten is not None:
            return _read_info(context, rewritten)
    if form is None:
        matches = difflib.get_close_matches((path or "")[2:], INFO_OF_NAME, 1)
        hint = f"did you mean `R.{matches[0]}`?" if matches else None
        edit = ANNOTATIONS.get((path or "").rpartition(".")[2])
        hint = f"write `{edit}`" if edit else hint
        if isinstance(node, ast.Call) and static_value(context, node.func) is not MISSING:
            hint = f"name the StructInfo before the program: `info = {ast.unparse(node)}`"
        hint = hint or '`R.Tensor((n, 4), "float32")`, or `R.Object` for any value'
        raise _not_an_info(context, node, ast.unparse(node), hint)
    if isinstance(node, ast.Call):
        with context.nested(node):
            info: StructInfo = read_form(context, node, form)
            return info
    fields = form.complete({})
    if form.rest:
        fields = {form.fields[0].name: ()}
    elif _required(form) - fields.keys():
        raise _missing_fields(context, node, form)
    bare: StructInfo = form.node(**fields)
    return bare


def _captured_form(context: Context, node: ast.expr) -> SyntaxForm | None:
    """Returns the form of a captured StructInfo subclass, or None."""
    cls = static_value(context, node)
    is_class = issubclass(type(cls), type) and issubclass(cls, StructInfo)
    return info_form_of(cls) if is_class and cls is not StructInfo else None


def _with_own_dims(context: Context, info: StructInfo) -> StructInfo:
    """Returns a StructInfo of Python whose dims are those of the function with their names."""
    dims: dict[Any, Any] = {}
    for symbol in free_symbols_in(info):
        dims[symbol] = _own_variable(context, symbol)
    return map_dims(info, dims) if dims else info


def _own_variable(context: Context, symbol: Any) -> Any:
    """Returns the variable that the name of a dim, row or dtype variable denotes in a function."""
    if type(symbol) in (RowVar, DtypeVar):
        return context.marked(("*" if type(symbol) is RowVar else MARK) + symbol.name)
    own = context.names.get(symbol.name, MISSING)
    return context.declare(symbol.name) if own is MISSING else own


def _not_an_info(
    context: Context, node: ast.expr, text: str, hint: str | None = None
) -> ParseError:
    message = f"expected a StructInfo such as R.Tensor((n, 4), dtype), found {text}"
    return context.error(node, message, hint, "E0119")


def dtype_error(context: Context, node: ast.AST, dtype: Any) -> ParseError:
    """Returns the error of a string that is not the name of a dtype."""
    return context.error(node, f"unknown dtype {dtype!r}", dtype_hint(dtype), "E0122")


def _required(form: SyntaxForm) -> set[str]:
    """Returns the fields of a node that have no default."""
    fields: Any = attrs.fields(form.node)
    return {f.name for f in fields if f.init and f.default is attrs.NOTHING}


def _lacks_fields(form: SyntaxForm, fields: dict[str, Any]) -> bool:
    try:
        return bool(_required(form) - form.complete(fields).keys())
    except TypeError:  # contradictory fields
        return False


def _missing_fields(context: Context, node: ast.expr, form: SyntaxForm) -> ParseError:
    """Returns the error of a StructInfo without its required fields."""
    names = [f.keyword for f in form.fields if f.name in _required(form)]
    example = f"R.{form.name}({', '.join(f'{name}=...' for name in names)})"
    message = f"R.{form.name}: missing fields: expected {example}, found {ast.unparse(node)}"
    hint = f"give every field: `{example}`; write `R.Object` for any value"
    return context.error(node, message, hint, "E0108")


def _quoted(context: Context, node: ast.Constant) -> ast.expr:
    """Parses an annotation written as a string to its `ast`."""
    try:
        tree = ast.parse(str(node.value), mode="eval")
        return ast.copy_location(tree.body, node)
    except (SyntaxError, ValueError):
        raise _not_an_info(context, node, repr(node.value)) from None


def is_info(context: Context, node: ast.expr) -> bool:
    """Whether an expression has the syntax of a StructInfo, or names a captured one."""
    base = node.func if isinstance(node, ast.Call) else node
    path = path_of(base)
    own = None if path is None else counterpart(path, node)
    if own is not None:
        return is_info(context, own)
    if path is not None and path.startswith("R."):
        return info_form(path[2:]) is not None
    value = static_value(context, node)
    return issubclass(type(value), StructInfo) or _captured_form(context, base) is not None


def read_form(context: Context, node: ast.Call, form: SyntaxForm) -> Any:
    """Parses a node by its syntax form."""
    fields: dict[str, Any] = {}
    if form.rest:
        nodes, fields["names"] = named_fields(context, node, _rest(node))
        fields[form.fields[0].name] = _infos(context, nodes)
    else:
        if len(node.args) > len(form.fields):
            message = f"R.{form.name}: expected at most {len(form.fields)} arguments, "
            message += f"found {len(node.args)}"
            hint = form.call_hint
            raise context.error(node, message, hint, "E0106")
        for field, item in zip(form.fields, node.args, strict=False):
            fields[field.name] = _FIELDS[field.kind](context, item)
        for keyword in node.keywords:
            named = form.field_of.get(keyword.arg or "")
            if named is None:
                message = f"R.{form.name}: unexpected keyword argument `{keyword.arg}`"
                hint = form.call_hint
                raise context.error(keyword, message, hint, "E0106")
            fields[named.name] = _FIELDS[named.kind](context, keyword.value)
    try:
        complete = form.complete(fields)
        _check_fields(context, node, form, complete)
        if not issubclass(form.node, StructInfo):
            complete["span"] = context.source_map.span(node)
        return form.node(**complete)
    except TypeError as error:
        if issubclass(form.node, StructInfo) and _lacks_fields(form, fields):
            raise _missing_fields(context, node, form) from None
        hint = form.call_hint
        raise context.error(node, f"R.{form.name}: {error}", hint, "E0106") from None
    except ValueError as error:  # of a class of another package that checks its fields
        message = f"R.{form.name}: {error}"
        raise context.error(node, message, form.call_hint, "E0106") from error
    except DiagnosticError as error:
        first = error.diagnostics[0]
        raise context.error(node, first.message, first.hint, first.code) from None


WITH_DTYPE = (TensorStructInfo, PrimStructInfo)  # of a known dtype or of a dtype variable


def _check_fields(
    context: Context, node: ast.Call, form: SyntaxForm, fields: dict[str, Any]
) -> None:
    """Checks dtype and rank; replaces the name of a dtype variable by the variable."""
    dtype = fields.get("dtype")
    if dtype is not None and dtype not in DTYPES:  # of tensors and of numbers
        if form.node not in WITH_DTYPE or not is_dtype_var(dtype):
            raise dtype_error(context, node, dtype)
        fields["dtype"] = context.marked(dtype)
    dims, ndim = fields.get("dims"), fields.get("ndim")
    if ndim is not None and (type(ndim) is not int or ndim < 0):
        message = f"ndim: expected an integer of at least 0, found {ndim!r}"
        raise context.error(node, message, 'write `R.Tensor(dtype="float32", ndim=2)`', "E0107")
    if type(dims) is tuple and ndim is not None and ndim != len(dims):
        message = f"ndim: expected {len(dims)}, the length of the shape, found {ndim}"
        raise context.error(node, message, f"remove `ndim={ndim}`", "E0107")
    if isinstance(dims, Var) and ndim is None:
        fields.pop("ndim", None)


def _rest(node: ast.Call) -> list[ast.expr]:
    """Returns the fields of `R.Tuple(a, b)`, which may also be written `R.Tuple([a, b])`."""
    only_argument = node.args[0] if len(node.args) == 1 else None
    return only_argument.elts if isinstance(only_argument, ast.List | ast.Tuple) else node.args


def _infos(context: Context, nodes: list[ast.expr]) -> tuple[StructInfo, ...]:
    return tuple([info_of(context, item) for item in nodes])


def _infos_field(context: Context, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if isinstance(node, ast.Tuple | ast.List):
        return _infos(context, node.elts)
    return (info_of(context, node),)


def _value_field(context: Context, node: ast.expr) -> Expr | None:
    """Parses a value of the program, a variable in scope."""
    value = value_of(context, node)
    if value is not None and not isinstance(value, Expr):
        message = f"expected a variable, found {ast.unparse(node)}"
        raise context.error(node, message, "name a parameter or a binding: `x`", "E0107")
    return value


def size_of(context: Context, node: ast.expr) -> Any:
    """Parses one size: an integer or an expression over dims."""
    size = _axis(context, node)
    if type(size) is not int and type(size) is not Poly:
        hint = "row variables, ragged axes and labels are only allowed in shapes of `R.Tensor`"
        raise size_error(context, node, ast.unparse(node), hint)
    return size


def size_error(context: Context, node: ast.AST, text: str, hint: str = SIZE_EXAMPLE) -> ParseError:
    """Returns the error of an expression in the position of a size."""
    return context.error(node, f"expected a size, found {text}", hint, "E0121")


def _axis(context: Context, node: ast.expr) -> Any:
    """Parses one axis of a tensor: a size, a row variable, a ragged or a labelled axis."""
    if isinstance(node, ast.Constant) and type(node.value) is str:
        return size_of_string(context, node, _axis)
    if type(node) is ast.Starred and type(node.value) is ast.Name:
        return context.marked(f"*{node.value.id}")
    if type(node) is ast.Name and node.id == ANY_SIZE and ANY_SIZE not in context.names:
        return context.any_size()
    if isinstance(node, ast.Name) and context.declares_names:
        value_in_scope = context.names.get(node.id, MISSING)
        if value_in_scope is MISSING:
            return context.declare(node.id)
    if context.evaluated_names and context.declares_strings:
        for inner in ast.walk(node):
            if (
                isinstance(inner, ast.Name)
                and inner.id in context.evaluated_names - context.names.keys()
            ):
                context.declare(inner.id)
    if context.declares_names:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id not in context.names and inner.id != "T":
                context.declare(inner.id)
    value = context.read_expecting(True, value_of, node)
    if isinstance(value, PrimValue):
        value = value.value
    if type(value) in (Var, DataflowVar):
        value = with_known_sizes(context, value)
    if type(value) is not int and type(value) is not Poly:
        info = f", which is {value.struct_info}" if isinstance(value, Expr) else ""
        hint = hint_of_size((value,)) or SIZE_EXAMPLE
        raise size_error(context, node, f"{ast.unparse(node)}{info}", hint)
    return value


def _sizes(context: Context, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if not isinstance(node, ast.List | ast.Tuple):
        value = value_of(context, node) if type(node) in _COMPUTED else None
        if type(value) is tuple and all(map(is_number, value)):
            return value
        raise _shape_error(context, node)
    sizes: tuple[Any, ...] = ()
    for item in node.elts:
        size = _unpacked if type(item) is ast.Starred else _one_size
        sizes += size(context, item)
    return sizes


# Expressions whose value may be a tuple of Python.
_COMPUTED = frozenset({ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.Call, ast.ListComp})


def _shape(context: Context, node: ast.expr) -> Any:
    """Parses a shape: axes, a shape variable, or (in R.Tensor only) a dtype."""
    if isinstance(node, ast.Constant) and (node.value is None or _is_dtype(node.value)):
        return node.value
    if isinstance(node, ast.Name):
        value_in_scope = context.names.get(node.id, MISSING)
        if value_in_scope is MISSING and context.declares_names:
            value_in_scope = Var(node.id, ShapeStructInfo())
            context.define(node.id, value_in_scope)
        if value_in_scope is MISSING or type(value_in_scope) is not Poly:
            value = context.lookup(node)
            if isinstance(value, Var) and _may_be_shape(value):
                return value
            if type(value) is tuple and all(map(is_number, value)):
                return value
            if type(value) is str and value in DTYPES:
                return value
            raise _shape_error(context, node, value)
    if isinstance(node, ast.Call) and path_of(node.func) == "R.shape" and node.args:
        node = node.args[0]
    elif isinstance(node, ast.Call):
        return _known_shape(context, node)
    if not isinstance(node, ast.List | ast.Tuple):
        return _sizes(context, node)
    axes: tuple[Any, ...] = ()
    for item in node.elts:
        axes += _unpacked(context, item) if _is_unpacked(context, item) else (_axis(context, item),)
    plain = all([type(axis) is int or type(axis) is Poly for axis in axes])
    return axes if plain else UnresolvedAxes(axes)


def _is_dtype(value: Any) -> bool:
    return value in DTYPES or is_dtype_var(value)


def _is_unpacked(context: Context, node: ast.expr) -> bool:
    """Whether an axis is `*x` of a value of Python; `*s` of another name is a row variable."""
    if type(node) is not ast.Starred:
        return False
    return type(node.value) is not ast.Name or is_sequence(static_value(context, node.value))


def _one_size(context: Context, node: ast.expr) -> tuple[Any, ...]:
    return (size_of(context, node),)


def _unpacked(context: Context, node: Any) -> tuple[Any, ...]:
    """Returns the sizes that `*x` stands for in a shape."""
    sizes = tuple([program_item(context, item, node) for item in starred(context, node)])
    if not all(map(is_number, sizes)):
        message = f"expected sizes, found {ast.unparse(node)}"
        raise context.error(node, message, SIZE_EXAMPLE, "E0121")
    return sizes


def _known_shape(context: Context, node: ast.Call) -> Any:
    """Parses a call whose result is a known shape to its sizes."""
    value = value_of(context, node)
    if type(value) is tuple and all(map(is_number, value)):
        return value
    info = value.struct_info if isinstance(value, Expr) else None
    if not isinstance(info, ShapeStructInfo) or info.dims is None:
        message = f"expected a shape of known sizes or a variable, found {ast.unparse(node)}"
        hint = f"bind the shape to a name: `s = {ast.unparse(node)}`, and write `R.Tensor(s)`"
        raise context.error(node, message, hint, "E0121")
    return info.dims


def _shape_error(context: Context, node: ast.expr, value: Any = None) -> ParseError:
    info = f", which is {value.struct_info}" if isinstance(value, Expr) else ""
    message = f"expected a shape such as `(n, 4)`, found {ast.unparse(node)}{info}"
    return context.error(node, message, f"write a tuple: `({ast.unparse(node)},)`", "E0121")


def _may_be_shape(var: Var) -> bool:
    return isinstance(var.struct_info, ShapeStructInfo) or var.struct_info == OBJECT


def _number(context: Context, node: ast.expr) -> Any:
    value = value_of(context, node)
    if not is_number(value):
        message = f"expected a number known at compile time, found {ast.unparse(node)}"
        raise context.error(node, message, SIZE_EXAMPLE, "E0121")
    return bool(value) if isinstance(node, ast.Compare) and type(value) is int else value


def static_of(context: Context, node: ast.expr) -> Any:
    """Parses a static Python value: literals, lists, tuples, dicts, sizes."""
    if isinstance(node, ast.Dict):
        if None in node.keys:
            hint = "write the entries out: `{'key': value}`"
            raise context.error(node, "`**` is not supported in a dict", hint, "E0103")
        key_nodes = [key for key in node.keys if key is not None]
        keys = [static_of(context, key) for key in key_nodes]
        for key, key_node in zip(keys, key_nodes, strict=True):
            if type(key) is not str:
                message = f"expected a string as a key, found {ast.unparse(key_node)}"
                raise context.error(key_node, message, "write `{'key': value}`", "E0107")
        return dict(zip(keys, (static_of(context, v) for v in node.values), strict=True))
    if isinstance(node, ast.List):
        return [static_of(context, item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple([static_of(context, item) for item in node.elts])
    value = value_of(context, node)
    if isinstance(value, StringImm | DataTypeImm):
        return value.value
    if isinstance(value, Expr):
        message = f"expected a Python value, found `{ast.unparse(node)}`"
        hint = "write a number, a string, or a list, tuple or dict of them"
        raise context.error(node, message, hint, "E0107")
    return value


_FIELDS: dict[str, Callable[[Context, Any], Any]] = {
    "dim": size_of,
    "number": _number,
    "sizes": _sizes,
    "shape": _shape,
    "info": info_of,
    "infos": _infos_field,
    "dtype": static_of,
    "static": static_of,
    "value": _value_field,
    "vdevice": vdevice_of,
}
