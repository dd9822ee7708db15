"""The reader: `structir.parse` and `structir.parse_struct_info`. Nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from structir.errors import Diagnostic, ParseError, Source, Span, StructIRError
from structir.ir.axes import RowVar
from structir.ir.collection import collection_paused
from structir.ir.dims import as_dim
from structir.ir.expr import Var
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo
from structir.lazy import lazy_module
from structir.printer.parser import calls, expressions
from structir.printer.parser.chunked_parse import WRAPPER, LineRun, Unsplittable, extract_runs
from structir.printer.parser.context import AlreadyReported, Context, SourceMap
from structir.printer.parser.forms import info_of
from structir.printer.parser.modules import ModuleContext
from structir.printer.parser.sizes import MAX_BITS

symbolic = lazy_module("structir.ir.symbolic")

LONG_NUMBER = re.compile(r"[0-9a-fA-F_]{64,}")

# What reads expressions registers itself; naming the rooms here makes them complete.
RULE_MODULES = (calls, expressions)


def parse(
    text: str,
    filename: str = "<string>",
    *,
    strict: bool = False,
    constants: Mapping[str, Any] | None = None,
) -> IRModule:
    """The module of a text: a class of functions, or functions that stand alone.

    `strict` checks when it runs what an annotation says and deduction cannot decide. `constants`
    are the arrays that the text refers to.
    """
    if not isinstance(text, str):
        raise StructIRError(f"structir.parse takes a text, not {type(text).__name__}")
    text = text.removeprefix("\ufeff")  # the mark that some editors begin a file with
    return parse_source(Source(filename, text), strict=strict, constants=constants)


def parse_source(
    source: Source,
    *,
    strict: bool = False,
    constants: Mapping[str, Any] | None = None,
    evaluated_names: frozenset[str] = frozenset(),
) -> IRModule:
    """The module of a source, which may be a piece of a file and indented. `real` names sizes that
    Python evaluated in signatures."""
    with collection_paused():
        try:
            whole = LONG_NUMBER.search(source.text) is not None
            text, runs = (source.text, {}) if whole else extract_runs(source.text)
            return _parse(source, text, runs, strict, constants or {}, evaluated_names)
        except Unsplittable:
            return _parse(source, source.text, {}, strict, constants or {}, evaluated_names)


def _parse(
    source: Source,
    text: str,
    runs: dict[int, LineRun],
    strict: bool,
    constants: Mapping[str, Any],
    evaluated_names: frozenset[str],
) -> IRModule:
    indented = text.lstrip("\r\n")[:1] in (" ", "\t")
    tree = _tree(source, WRAPPER + text if indented else text, indented)
    body = tree.body[0].body if indented else tree.body  # type: ignore[attr-defined]
    place = SourceMap(source, source.first_line - 1 - indented, runs)
    module = ModuleContext(place, constants, strict, evaluated_names)
    try:
        return module.read(ast.Module(body, []))
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> ParseError:
    hint = "bind inner parts to names"
    return ParseError(Diagnostic("an expression is nested too deeply", hint=hint))


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
        raise ParseError(
            Diagnostic(f"this is not Python: {error.msg}", span, hint="the text is read as Python")
        ) from None
    except (RecursionError, MemoryError):
        raise _too_deep() from None
    except ValueError as error:
        raise ParseError(Diagnostic(f"this is not Python: {error}")) from None


def _check_literal_size(source: Source, tree: ast.Module, indented: bool) -> None:
    """Python reads numbers that it does not print."""
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if type(value) is int and value.bit_length() > MAX_BITS:
            line = node.lineno - indented + source.first_line - 1  # type: ignore[attr-defined]
            column = node.col_offset  # type: ignore[attr-defined]
            span = Span(source, line, column, line, column + 1)
            raise ParseError(Diagnostic(f"a number has more than {MOST_BITS} bits", span))


def parse_struct_info(text: str, symbols: dict[str, Any] | None = None) -> StructInfo:
    """The struct info of a text. `symbols` gives names their variables and takes in new ones."""
    if not isinstance(text, str):
        raise StructIRError(f"a struct info is read from a text, not {type(text).__name__}")
    known = {} if symbols is None else symbols
    source = Source("<string>", text.strip())
    context = Context(SourceMap(source))
    context.declares_names = context.declares_strings = context.binds_sizes = True
    for name, value in known.items():
        context.names[name] = value if isinstance(value, Var | RowVar) else as_dim(value)
    try:
        tree = ast.parse(source.text, mode="eval").body
        info = info_of(context, tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, AlreadyReported):
        span = Span(source, 1, 0, 1, max(len(source.line(1)), 1))
        raise ParseError(Diagnostic(f"{text!r} is not a struct info", span)) from None
    for name, value in context.names.items():
        if symbols is not None and name not in symbols:
            held = isinstance(value, Var | RowVar)
            symbols[name] = value if held else symbolic.to_sympy(value)
    return info
