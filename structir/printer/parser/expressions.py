"""Parses leaves and operators: names, literals, tuples, tuple fields, arithmetic."""

from __future__ import annotations

import ast
import difflib
from types import ModuleType
from typing import Any

from structir.analysis.deduction import deduce
from structir.errors import Diagnostic, ParseError
from structir.ir.dims import Poly
from structir.ir.expr import Call, Constant, Expr, TupleGetItem, Var
from structir.ir.op import find_op, registered_ops
from structir.ir.operators import OPERATORS
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.printer import constants
from structir.printer.parser.captured import MAX_ITEMS, PLAIN, arrays_in, stored_names
from structir.printer.parser.context import MISSING, Context, PythonValue, class_name
from structir.printer.parser.name_hints import (
    attribute_hint,
    dtype_of_name,
    example_of,
    is_namespace,
)
from structir.printer.parser.named_fields import field_of
from structir.printer.parser.sizes import (
    BINARY,
    BITWISE,
    COMPARISONS,
    MAX_BITS,
    SIZE_EXAMPLE,
    is_number,
    long_number,
    static_binary,
    static_compare,
)
from structir.printer.parser.static_values import is_of_program, static_value
from structir.printer.parser.subscripts import tensor_subscript
from structir.printer.parser.unrolling import display
from structir.printer.parser.values import argument, path_of, reads, unsupported, value_of
from structir.printer.syntax import METADATA


@reads(ast.Constant)
def _constant(context: Context, node: ast.Constant) -> Any:
    value = node.value
    if type(value) is int and value.bit_length() > MAX_BITS:
        raise ParseError(long_number(value, context.source_map.span(node)))
    if value is None or type(value) in (int, float, bool, str):
        return value
    raise unsupported(context, node, "write a number, a bool or a string")


@reads(ast.Name)
def _name(context: Context, node: ast.Name) -> Any:
    value = context.names.get(node.id)
    if isinstance(value, Expr) or type(value) is Poly:
        return value
    return context.lookup(node)


@reads(ast.Tuple, ast.List)
def _tuple(context: Context, node: ast.Tuple | ast.List) -> Any:
    with context.nested(node):
        return tuple(display(context, node.elts))


@reads(ast.Attribute)
def _attribute(context: Context, node: ast.Attribute) -> Any:
    base = node.value
    if isinstance(base, ast.Name) and context.module is not None:
        function = context.module.function_of(context, base.id, node)
        if function is not None:
            return function
    path = path_of(node)
    if path is not None and path.startswith("R."):
        if is_namespace(path):
            message = f"expected a value, found the namespace `{path}`"
            raise context.error(node, message, f"call an op: `{example_of(path)}`", "E0103")
        message = f"expected a call, found the bare op {path}"
        dtype = dtype_of_name(node.attr)
        edit = f'quote the dtype: `"{dtype}"`' if dtype else f"call it: `{path}(...)`"
        raise context.error(node, message, edit, "E0103")
    is_static = not is_of_program(context, base)
    value = context.captured(node) if is_static else MISSING
    if value is not MISSING:
        return value
    missing = _no_stored_value(context, node) if is_static else None
    if missing is None and _begins_in_program(context, node.value):
        with context.nested(node):
            whole = context.expr(argument(context, node.value), node.value)
        if isinstance(deduce(whole), TupleStructInfo):
            return field_of(context, node, whole, node.attr)
        value = _static_attribute(deduce(whole), node.attr)
        if value is not None:
            return value
    raise missing or _no_attribute(context, node)


def _static_attribute(info: StructInfo | None, attribute: str) -> Any:
    """Returns `x.shape`, `x.ndim` or `x.dtype` of a tensor if it is known; None otherwise."""
    if not isinstance(info, TensorStructInfo):
        return None
    if attribute == "shape":
        return info.dims if isinstance(info.dims, tuple) else None
    return getattr(info, attribute) if attribute in ("ndim", "dtype") else None


def _begins_in_program(context: Context, node: ast.AST) -> bool:
    """Whether an expression begins with a value of the program or with a call of an op."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    if not isinstance(node, ast.Name):
        return False
    if node.id in context.names:
        return type(context.names[node.id]) not in (PythonValue, Poly)
    return node.id == "R" or context.names_module(node)


def _no_stored_value(context: Context, node: ast.Attribute | ast.Subscript) -> ParseError | None:
    """Returns the error of a field or an item of a value of Python; None for other values."""
    base = static_value(context, node.value)
    if base is MISSING or type(base) is ModuleType:
        return None
    value = static_value(context, node)
    if value is not MISSING:
        return context.python_value_error(node, ast.unparse(node), value)
    key = node.attr if isinstance(node, ast.Attribute) else ast.unparse(node.slice)
    if isinstance(node, ast.Subscript) and type(node.slice) is not ast.Slice:
        index = static_value(context, node.slice)
        if index is MISSING:
            message = f"expected a key that is known at parse time, found {key}"
            hint = f"write a literal or a captured value as the key: `{ast.unparse(node.value)}[0]`"
            return context.error(node, message, hint, "E0114")
        key = repr(index) if type(index) in PLAIN else key
    part = f"no stored field `{key}`" if isinstance(node, ast.Attribute) else f"no item {key}"
    stored = [str(each) for each in stored_names(base)]
    matches = difflib.get_close_matches(key.strip("'"), stored, 2)
    hint = "compute the value before the program, and name it: `value = ...`"
    if stored:
        hint = f"use one of {', '.join(f'`{name}`' for name in stored[:8])}"
    if matches:
        hint = f"did you mean {' or '.join(f'`{match}`' for match in matches)}?"
    message = f"`{ast.unparse(node.value)}` ({class_name(base)}) has {part}"
    return context.error(node, message, hint, "E0111")


def _no_attribute(context: Context, node: ast.Attribute) -> ParseError:
    """Returns the error of `x.name`: values have no attributes."""
    base = context.names.get(node.value.id) if isinstance(node.value, ast.Name) else None
    name = ast.unparse(node.value)
    if isinstance(base, Var):
        kind = "tensors have" if isinstance(base.struct_info, TensorStructInfo) else f"`{name}` has"
        diagnostic = Diagnostic(
            f"{kind} no attribute `{node.attr}`",
            context.source_map.span(node),
            hint=_hint_of_attribute(name, node.attr),
            code="E0113",
            label=f"`{name}` is {base.struct_info}",
        )
        return ParseError(diagnostic)
    hint = attribute_hint(node)
    message = f"`{ast.unparse(node)}` is not part of the language"
    return context.error(node, message, hint, "E0103")


def _hint_of_attribute(name: str, attribute: str) -> str:
    if attribute in ATTRIBUTE_HINTS:
        return ATTRIBUTE_HINTS[attribute].format(name)
    if find_op(attribute) is not None:
        return f"call the op: `R.{attribute}({name})`"
    return "call an op on the value: `R.name(x)`; `dir(R)` lists the ops"


# Hints for tensor attributes of NumPy and PyTorch.
ATTRIBUTE_HINTS = {
    "T": "`R.permute_dims({})`",
    "mT": "`R.permute_dims({})`",
    "shape": "the sizes are unknown here: `R.shape_of({})`, or name them: `R.Tensor((n, 4))`",
    "view": "`R.reshape({}, (...))`",
    "transpose": "`R.permute_dims({})`",
    "dtype": "the dtype is unknown here: annotate the tensor, or use a dtype variable `'T`",
    "ndim": "the rank is unknown here: annotate the tensor, or use `R.match_cast`",
}


@reads(ast.Subscript)
def _subscript(context: Context, node: ast.Subscript) -> Any:
    base = node.value
    if isinstance(base, ast.Name) and base.id == METADATA:
        return _referenced_constant(context, node, node)
    if isinstance(base, ast.Subscript) and getattr(base.value, "id", None) == METADATA:
        return _referenced_constant(context, base, node)
    if not is_of_program(context, base):
        value = context.captured(node)
        if value is not MISSING:
            return value
        missing = _no_stored_value(context, node)
        if missing is not None:
            raise missing
    with context.nested(node):
        base = argument(context, node.value)
        if isinstance(base, Expr) and isinstance(deduce(base), TensorStructInfo):
            return tensor_subscript(context, node, base)
        index = None if isinstance(node.slice, ast.Slice) else value_of(context, node.slice)
    if type(base) is tuple and type(index) is int and -len(base) <= index < len(base):
        return base[index]
    if type(index) is str and isinstance(base, Expr):
        whole = context.expr(base, node.value)
        if isinstance(deduce(whole), TupleStructInfo):
            return field_of(context, node, whole, index)
    if type(index) is not int:
        hint = f"select a field by its index: `{ast.unparse(node.value)}[0]`"
        index_text = ast.unparse(node.slice)
        message = f"expected a constant integer as the index, found {index_text}"
        raise context.error(node, message, hint, "E0114")
    span = context.source_map.span(node)
    item = TupleGetItem(context.expr(base, node.value), index, None, span)
    info = deduce(item)
    if index < 0:
        index += len(getattr(item.tuple_value.struct_info, "fields", ()))
    return TupleGetItem(item.tuple_value, index, info, span)


def _referenced_constant(context: Context, base: ast.Subscript, node: ast.Subscript) -> Constant:
    """Parses `metadata["name"]`, and `metadata["name"][0]` of a list of constants."""
    name: Any = getattr(base.slice, "value", None)
    arrays = context.module.constants if context.module is not None else {}
    if base is not node:
        items: Any = arrays.get(name)
        listed = items if isinstance(items, list | tuple) else ()
        arrays = {f"{name}[{k}]": item for k, item in enumerate(listed)}
        name = f"{name}[{getattr(node.slice, 'value', None)}]"
    constant = None
    if isinstance(name, str) and context.module is not None:
        constant = constants.referred_constant(name, arrays, arrays_in(context.module.constants))
    if constant is None:
        hint = "load the text with its constants: `structir.load(path)`, "
        hint += 'or pass the arrays, under any names: `structir.parse(text, constants={"w": w})`'
        if base is not node and isinstance(base.slice, ast.Constant):
            key = str(base.slice.value)
            hint = "pass the arrays in their order in the module: "
            hint += f'`structir.parse(text, constants={{"{key}": [a, b]}})`'
        raise context.error(node, f"missing constant {name!r}", hint, "E0102")
    return constant


@reads(ast.BinOp)
def _binary(context: Context, node: ast.BinOp) -> Any:
    """Parses a chain of binary operators from the left, without recursion."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    with context.nested(node, len(chain)):
        left = argument(context, chain[-1].left)
        for link in reversed(chain):
            right = argument(context, link.right)
            if is_number(left) and is_number(right):
                left = static_binary(context, link, left, right)
            elif (joined := _joined(context, link, left, right)) is not MISSING:
                left = joined
            else:
                symbol = BITWISE.get(type(link.op)) or BINARY[type(link.op)][0]
                left = _operator(context, link, symbol, left, right)
                left = left if link is node else context.atom(left, link)
    return left


def _joined(context: Context, node: ast.BinOp, left: Any, right: Any) -> Any:
    """Returns `+` of strings or of tuples of Python, or `(1,) * 3`; MISSING for other operands."""
    if type(left) is tuple and type(right) is int and isinstance(node.op, ast.Mult):
        return left * right if len(left) * right <= MAX_ITEMS else MISSING
    if type(left) is not type(right) or type(left) not in (str, tuple):
        return MISSING
    if type(left) is tuple and isinstance(node.op, ast.Add):
        return left + right
    return context.captured(node)


def _operator(context: Context, node: ast.expr, symbol: str, *operands: Any) -> Expr:
    if symbol not in OPERATORS:
        registered_ops()  # loading all ops fills the table
    op: Any = OPERATORS.get(symbol)
    if op is None:
        raise unsupported(context, node)
    call: Call = op.definition.bind(operands, {}, context.source_map.span(node))
    return call


@reads(ast.UnaryOp)
def _unary(context: Context, node: ast.UnaryOp) -> Any:
    if isinstance(node.op, ast.Not):
        value = context.captured(node)
        if value is not MISSING:
            return value
    with context.nested(node):
        value = argument(context, node.operand)
    if isinstance(node.op, ast.USub):
        return -value if is_number(value) else _operator(context, node, "neg", value)
    if isinstance(node.op, ast.UAdd):
        return value
    if isinstance(node.op, ast.Invert):
        if is_number(value):
            raise context.error(node, "`~` is not defined on numbers", SIZE_EXAMPLE, "E0121")
        return _operator(context, node, "~", value)
    raise unsupported(context, node, f"`R.logical_not({ast.unparse(node.operand)})`")


@reads(ast.Compare)
def _compare(context: Context, node: ast.Compare) -> Any:
    """Parses a comparison; `a < b < c` is `(a < b) & (b < c)`, with `b` evaluated once."""
    is_known = all([type(op) in COMPARISONS for op in node.ops])
    if len(node.ops) != 1 or not is_known:
        value = context.captured(node)
        if value is not MISSING:
            return value
    if not is_known:
        raise unsupported(context, node, "compare by `<`, `<=`, `>`, `>=`, `==` or `!=`")
    with context.nested(node, len(node.ops)):
        values = [argument(context, each) for each in (node.left, *node.comparators)]
    pairs = zip(node.ops, values, values[1:], strict=False)
    parts = [_compared(context, node, op, left, right) for op, left, right in pairs]
    whole = parts[0]
    for part in parts[1:]:
        if is_number(whole) and is_number(part):
            whole = whole * part
        else:
            terms = [context.atom(term, node) for term in (whole, part)]
            whole = _operator(context, node, BITWISE[ast.BitAnd], *terms)
    return whole


def _compared(context: Context, node: ast.Compare, op: ast.cmpop, left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        return static_compare(op, left, right)
    if not isinstance(left, Expr) and not isinstance(right, Expr):
        value = context.captured(node)
        if value is not MISSING:
            return value
    return _operator(context, node, COMPARISONS[type(op)][0], left, right)
