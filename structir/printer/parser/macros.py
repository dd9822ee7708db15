"""Macros: Python functions decorated with `@R.macro`, whose statements are parsed at each call.

A macro is hygienic: its names are its own, and free names mean what they mean where it is defined.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from structir.errors import DiagnosticError, StructIRError
from structir.printer.parser.context import (
    MISSING,
    AlreadyReported,
    Context,
    PythonValue,
)
from structir.printer.parser.source_map import SourceMap
from structir.printer.parser.unrolling import item_of_program, named, size_of_syntax, starred
from structir.printer.parser.values import path_of
from structir.printer.syntax import MACRO

ReadResult = Callable[[Context, list[ast.stmt]], Any]


@attrs.frozen(eq=False)
class Macro:
    """A macro: its parameters and statements, and the values that its free names denote."""

    node: ast.FunctionDef
    source_map: SourceMap
    values: Callable[[], Mapping[str, Any]] | None = None  # None: those of the text around it
    defaults: Mapping[str, Any] = attrs.Factory(dict)
    is_valid: bool = True  # otherwise its error has been reported

    @property
    def name(self) -> str:
        """The name of the macro."""
        return self.node.name

    def __call__(self, *_args: Any, **_keywords: Any) -> Any:
        message = f"{self.name}: a macro is expanded in programs only: call it in a function "
        raise StructIRError(message + "decorated with `@R.function`")


def is_macro(node: ast.stmt) -> bool:
    """Whether a statement is a function decorated with @R.macro."""
    if not isinstance(node, ast.FunctionDef):
        return False
    called = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(path_of(item) == f"R.{MACRO}" for item in called)


def check_macro(context: Context, node: ast.FunctionDef) -> None:
    """Raises ParseError for options and parameters that macros do not have."""
    for decorator in node.decorator_list:
        for option in getattr(decorator, "keywords", ()):
            if option.arg != "hygienic" or getattr(option.value, "value", None) is not True:
                message = f"R.{MACRO}: expected no option, found `{ast.unparse(option)}`"
                hint = "pass the values that the macro uses as arguments"
                raise context.error(option, message, hint, "E0124")
    starred = node.args.vararg or node.args.kwarg
    if starred is not None:
        message = f"{node.name}: `*{starred.arg}` is not supported in parameters of macros"
        hint = f"pass a tuple: `def {node.name}({starred.arg}): ...`"
        raise context.error(starred, message, hint, "E0124")


def expand(context: Context, macro: Macro, node: ast.Call, read_result: ReadResult) -> Any:
    """Parses the statements of a macro with its arguments; returns the value of its `return`."""
    if not macro.is_valid:
        raise AlreadyReported
    if macro in context.macros:
        chain = " -> ".join([*[m.name for m in context.macros], macro.name])
        message = f"{macro.name}: a macro cannot call itself: {chain}"
        hint = "write a loop over `range(n)`, or a function of the module with `@R.function`"
        raise context.error(node, message, hint, "E0112")
    size = 1 + size_of_syntax(macro.node.body)
    context.module.expansion.add(context, node, size)
    arguments = _arguments(context, macro, node)
    count, result = len(context.errors), MISSING
    with context.nested(node), _scope_of(context, macro, arguments):
        try:
            result = read_result(context, macro.node.body)
        except DiagnosticError as error:
            context.report(error, macro.node)
        except AlreadyReported:
            pass
    if result is MISSING or len(context.errors) > count:
        note, span = f"in this call of the macro {macro.name}", context.source_map.span(node)
        context.errors[count:] = [error.note(note, span) for error in context.errors[count:]]
        raise AlreadyReported
    return result


def _arguments(context: Context, macro: Macro, node: ast.Call) -> dict[str, Any]:
    """Returns the arguments of a call by parameter."""
    args = macro.node.args
    positional = [item.arg for item in (*args.posonlyargs, *args.args)]
    names = [*positional, *[item.arg for item in args.kwonlyargs]]
    values: dict[str, Any] = {}
    items = [item for part in node.args for item in _items(context, part)]
    if len(items) > len(positional):
        message = f"{macro.name}: expected at most {len(positional)} arguments by position, "
        raise _call_error(context, macro, node, f"{message}found {len(items)}")
    values |= zip(positional, items, strict=False)
    for keyword in node.keywords:
        for name, item in named(context, keyword):
            if name not in names or name in values:
                message = f"{macro.name}: unexpected keyword argument `{name}`"
                raise _call_error(context, macro, keyword, message)
            values[name] = item
    defaults = {name: PythonValue(value) for name, value in macro.defaults.items()}
    values = {**defaults, **values}
    missing = [name for name in names if name not in values]
    if missing:
        message = f"{macro.name}: missing argument `{missing[0]}`"
        raise _call_error(context, macro, node, message)
    return values


def _items(context: Context, node: ast.expr) -> Iterator[Any]:
    if isinstance(node, ast.Starred):
        return starred(context, node)
    return iter([item_of_program(context, node)])


def _call_error(context: Context, macro: Macro, node: ast.AST, message: str) -> DiagnosticError:
    hint = f"call it as `{macro.name}({ast.unparse(macro.node.args)})`"
    return context.error(node, message, hint, "E0106")


@contextmanager
def _scope_of(context: Context, macro: Macro, arguments: dict[str, Any]) -> Iterator[None]:
    """Opens the scope of a macro: its names and the place of its text; bindings stay in order."""
    outside = {name: getattr(context, name) for name in SWAPPED}
    context.caller_names = context.caller_names or context.names
    context.names, context.infos, context.undo = {}, {}, []
    context.outputs = None if context.outputs is None else frozenset()
    context.source_map, context.macros = macro.source_map, (*context.macros, macro)
    context.declarations, context.evaluated_names = {}, frozenset()
    if macro.values is not None:
        context.module = context.module.around_macro(macro.values())
    try:
        for name, value in arguments.items():
            context.define(name, value)
        yield
    finally:
        for name, value in outside.items():
            setattr(context, name, value)


SWAPPED = (
    *("names", "infos", "undo", "outputs", "source_map", "macros", "module", "caller_names"),
    *("declarations", "evaluated_names"),
)


def shallow_copy(module: Any, values: Mapping[str, Any]) -> Any:
    """Returns the state of a module for a macro of another text: its functions have no names."""
    view = copy.copy(module)
    view.functions_are_bare, view.aliases = False, set()
    view.python_values, view.constants = values, {}
    view.macros = {}
    return view
