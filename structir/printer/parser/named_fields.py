"""Parses fields of tuples by name, and the names of fields."""

from __future__ import annotations

import ast
import difflib
from typing import Any

from structir.analysis.deduction import deduce
from structir.ir.expr import Expr, TupleGetItem
from structir.ir.struct_info import Names
from structir.printer.parser.context import Context
from structir.printer.parser.values import path_of
from structir.printer.syntax import is_word


def named_fields(
    context: Context, node: ast.Call, fields: list[ast.expr]
) -> tuple[list[ast.expr], Names | None]:
    """Returns the fields of a tuple and their names: `w=x`, or `**{"in": x}` for other names."""
    if not node.keywords:
        return fields, None
    pairs: list[tuple[Any, ast.expr]] = []
    for keyword in node.keywords:
        if keyword.arg is not None:
            pairs.append((keyword.arg, keyword.value))
            continue
        display: Any = keyword.value
        keys = [getattr(key, "value", None) for key in getattr(display, "keys", [None])]
        if not isinstance(display, ast.Dict) or not all([isinstance(key, str) for key in keys]):
            message = f"expected a dict with strings as keys, found {ast.unparse(display)}"
            raise context.error(keyword, message, 'write `**{"name": ...}`', "E0107")
        pairs += zip(keys, display.values, strict=True)
    if fields:
        message = f"expected names for all fields or for none, found {ast.unparse(node)}"
        hint = f"name every field: `{path_of(node.func)}(first=..., second=...)`"
        raise context.error(node, message, hint, "E0106")
    return [item for _, item in pairs], tuple([name for name, _ in pairs])


MAX_NAMES = 8  # that a message lists


def field_of(context: Context, node: ast.Attribute | ast.Subscript, whole: Expr, name: str) -> Expr:
    """Returns the field of a tuple with this name."""
    info: Any = deduce(whole)
    index = info.index(name)
    if index is not None:
        return TupleGetItem(whole, index, info.fields[index], context.source_map.span(node))
    text = ast.unparse(node.value)
    if info.names is None:
        message = f"`{text}` has no field `{name}`: its fields have no names"
        hint = f"use an index: `{text}[0]`; or name the fields: `R.Tuple({name}=...)`"
        raise context.error(node, message, hint, "E0138")
    names = [*info.names[:MAX_NAMES], *["..."] * (len(info.names) > MAX_NAMES)]
    message = f"`{text}` has no field `{name}`: expected one of {', '.join(names)}"
    match = (difflib.get_close_matches(name, info.names, 1) or info.names)[0]
    access = f".{match}" if is_word(match) else f"[{match!r}]"
    raise context.error(node, message, f"write `{text}{access}`", "E0138")
