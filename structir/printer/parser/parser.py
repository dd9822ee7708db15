"""Entry points of the parser: `structir.parse` and `structir.parse_struct_info`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from structir.errors import Diagnostic, ParseError, Source, Span, StructIRError
from structir.interrupts import collection_paused
from structir.ir.axes import RowVar
from structir.ir.dims import as_dim
from structir.ir.dtype import DtypeVar
from structir.ir.expr import Var
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo
from structir.lazy import lazy_module
from structir.printer.parser import calls, expressions, unrolling
from structir.printer.parser.chunked_parse import WRAPPER, LineRun, Unsplittable, extract_runs
from structir.printer.parser.context import AlreadyReported, Context
from structir.printer.parser.forms import info_of
from structir.printer.parser.macros import Macro, check_macro
from structir.printer.parser.modules import NO_VALUES, ModuleContext
from structir.printer.parser.sizes import MAX_BITS, long_number
from structir.printer.parser.source_map import SourceMap

symbolic = lazy_module("structir.ir.symbolic")

VARIABLES = Var | RowVar | DtypeVar
MAX_QUOTED = 200  # characters of a text in a message
MAX_ITEMS = 1 << 16  # of a list in a text; its `ast` takes a kilobyte per item
LIST_RUN = re.compile(r"[^=:#@]{131072,}")  # at least MAX_ITEMS items, in one statement
LONG_NUMBER = re.compile(r"[0-9a-fA-F_]{64,}")

# Importing these modules registers their parsing rules.
RULE_MODULES = (calls, expressions, unrolling)


def parse(
    text: str,
    filename: str = "<string>",
    *,
    strict: bool = False,
    constants: Mapping[str, Any] | None = None,
) -> IRModule:
    """Returns the module of a program text; the text is not executed.

    The text is a class of functions, or functions at module level. With `strict`, annotations that
    inference cannot decide are checked at run time. `constants` are the arrays and other values of
    Python that the text refers to, by name. Raises ParseError or StructInfoError with all
    independent errors.
    """
    if not isinstance(text, str):
        raise StructIRError(f"structir.parse: expected a str, found {type(text).__name__}")
    text = text.removeprefix("\ufeff")  # the byte order mark that some editors write
    return parse_source(Source(filename, text), strict=strict, constants=constants)


def parse_source(
    source: Source,
    *,
    strict: bool = False,
    constants: Mapping[str, Any] | None = None,
    evaluated_names: frozenset[str] = frozenset(),
    python_values: Mapping[str, Any] = NO_VALUES,
    name: str = "",
) -> IRModule:
    """Parses a source, which may be an indented block of a file.

    `evaluated_names` are the dims that Python evaluated in signatures; `python_values` are the
    names around a decorated function, whose values the program captures. `name` is that of a
    function that belongs to no module: functions that it captures are local to it.
    """
    extras = (constants or {}, strict, evaluated_names, python_values, name)
    _check_list_lengths(source)
    with collection_paused():
        try:
            unsplit = LONG_NUMBER.search(source.text) is not None
            text, runs = (source.text, {}) if unsplit else extract_runs(source.text)
            return _parse(source, text, runs, extras)
        except Unsplittable:
            return _parse(source, source.text, {}, extras)


def _parse(
    source: Source,
    text: str,
    runs: dict[int, LineRun],
    extras: tuple[Mapping[str, Any], bool, frozenset[str], Mapping[str, Any], str],
) -> IRModule:
    body, source_map = _statements(source, text, runs)
    module = ModuleContext(source_map, *extras)
    try:
        return module.read(ast.Module(body, []))
    except RecursionError:
        raise _too_deep(source_map.span(_deepest(body))) from None
    finally:
        module.contexts.clear()  # they refer to the module, which would outlive this function


def _statements(
    source: Source, text: str, runs: dict[int, LineRun]
) -> tuple[list[ast.stmt], SourceMap]:
    """Returns the statements of a text, which may be indented, with their locations."""
    indented = text.lstrip("\r\n")[:1] in (" ", "\t")
    tree = _tree(source, WRAPPER + text if indented else text, indented)
    body = tree.body[0].body if indented else tree.body  # type: ignore[attr-defined]
    return body, SourceMap(source, source.first_line - 1 - indented, runs)


def parse_macro(
    source: Source, values: Callable[[], Mapping[str, Any]], defaults: Mapping[str, Any]
) -> Macro:
    """Returns the macro of a source, whose free names denote `values` when it is called."""
    (node, *_), source_map = _statements(source, source.text, {})
    assert isinstance(node, ast.FunctionDef)
    check_macro(Context(source_map), node)
    return Macro(node, source_map, values, defaults)


def _too_deep(span: Span | None) -> ParseError:
    hint = "bind inner parts to names: `y = ...`"
    message = "an expression is nested too deeply"
    return ParseError(Diagnostic(message, span, hint=hint, code="E0109"))


def _deepest(body: list[ast.stmt]) -> ast.AST:
    """Returns the statement that contains the most deeply nested node."""
    pending: list[tuple[int, ast.AST, ast.AST]] = [(0, node, node) for node in body]
    deepest, most = pending[0][1], 0
    while pending:
        depth, node, statement = pending.pop()
        if depth > most:
            deepest, most = statement, depth
        for child in ast.iter_child_nodes(node):
            inner = child if isinstance(child, ast.stmt) else statement
            pending.append((depth + 1, child, inner))
    return deepest


def _tree(source: Source, text: str, indented: bool) -> ast.Module:
    try:
        tree = ast.parse(text, source.filename)
        if LONG_NUMBER.search(text) is not None:
            _check_literal_size(source, tree, indented)
        return tree
    except SyntaxError as error:
        line = (error.lineno or 1) - indented + source.first_line - 1
        column = max((error.offset or 1) - 1, 0)
        span = Span(source, line, column, line, column + 1)
        hint = "program text uses Python syntax: correct it at the marked position"
        raise ParseError(Diagnostic(f"syntax error: {error.msg}", span, hint=hint)) from None
    except (RecursionError, MemoryError):  # Python gives no location
        lines = source.text.splitlines()
        longest = max(lines, key=len)
        line, first = source.first_line + lines.index(longest), longest.index(longest.strip())
        raise _too_deep(Span(source, line, first, line, len(longest))) from None
    except ValueError as error:
        hint = "remove the characters that Python source cannot contain"
        raise ParseError(Diagnostic(f"syntax error: {error}", hint=hint)) from None


def _check_list_lengths(source: Source) -> None:
    """Rejects a list of too many items before the `ast` of its items is built."""
    text = source.text
    if text.count(",") <= MAX_ITEMS:
        return
    for run in LIST_RUN.finditer(text):
        count = run[0].count(",")
        if count > MAX_ITEMS:
            before = text[: run.start()]
            line = before.count("\n") + 1 + source.first_line - 1
            column = run.start() - (before.rfind("\n") + 1)
            message = f"expected a list of at most {MAX_ITEMS} items, found {count}"
            hint = "pass the array as a parameter, or as a constant: `structir.save` stores arrays"
            span = Span(source, line, column, line, column + 1)
            raise ParseError(Diagnostic(message, span, hint=hint, code="E0109"))


def _check_literal_size(source: Source, tree: ast.Module, indented: bool) -> None:
    """Rejects numbers that Python parses but refuses to print."""
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if type(value) is int and value.bit_length() > MAX_BITS:
            line = node.lineno - indented + source.first_line - 1  # type: ignore[attr-defined]
            column = node.col_offset  # type: ignore[attr-defined]
            span = Span(source, line, column, line, column + 1)
            raise ParseError(long_number(value, span))


def parse_struct_info(text: str, symbols: dict[str, Any] | None = None) -> StructInfo:
    """Returns the StructInfo of a text such as `R.Tensor(("n", 4), "float32")`.

    `symbols` maps names to their variables; names new in the text are added to it.
    """
    if not isinstance(text, str):
        raise StructIRError(
            f"structir.parse_struct_info: expected a str, found {type(text).__name__}"
        )
    variables = {} if symbols is None else symbols
    source = Source("<string>", text.strip())
    context = Context(SourceMap(source))
    context.declares_names = context.declares_strings = context.binds_sizes = True
    for name, value in variables.items():
        context.names[name] = value if isinstance(value, VARIABLES) else as_dim(value)
    try:
        tree = ast.parse(source.text, mode="eval").body
        info = info_of(context, tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, AlreadyReported):
        span = Span(source, 1, 0, 1, max(len(source.line(1)), 1))
        quoted = text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."
        message = f"expected a StructInfo such as R.Tensor((n, 4), dtype), found {quoted!r}"
        hint = '`R.Tensor(("n", 4), "float32")`, or `R.Object` for any value'
        raise ParseError(Diagnostic(message, span, hint=hint, code="E0119")) from None
    for name, value in context.names.items():
        if symbols is not None and name not in symbols:
            is_variable = isinstance(value, VARIABLES)
            symbols[name] = value if is_variable else symbolic.to_sympy(value)
    return info
