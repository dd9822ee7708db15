"""What the reader knows at a point of the text: the source, the names in sight, the open block."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from structir.analysis.deduction import annotate, deduce, leave_dataflow
from structir.build import BuilderScope
from structir.errors import Diagnostic, DiagnosticError, ParseError, Source, Span
from structir.ir.axes import AnySize, RowVar
from structir.ir.dims import Poly, sym
from structir.ir.expr import (
    ATOMS,
    DataflowVar,
    Expr,
    Function,
    MatchCast,
    PrimValue,
    StringImm,
    Tuple,
    Var,
    VarBinding,
)
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.printer.parser.chunked_parse import LineRun, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NESTING = 64
MAX_TERMS = 2500  # of one chain of operators: no Python that there is reads fewer than 2,900
MAX_VALUES = 1 << 18  # in a tuple and the tuples within it
MAX_SUGGESTIONS = 2


class AlreadyReported(Exception):
    """A name stands for something that was wrong and has been reported."""


class OutOfScope:
    """What a name meant that is not in sight any longer, and why."""

    def __init__(self, var: Any, message: str, hint: str) -> None:
        self.var, self.message, self.hint = var, message, hint


class Depth:
    """How deep the reader is inside of expressions and branches."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        self.level -= 1


INVALID: Any = object()  # the value of a name whose binding was wrong
MISSING: Any = object()


class SourceMap:
    """A source and how its `ast` lies in it: lines and columns of nodes become spans."""

    def __init__(
        self, source: Source, line_shift: int = 0, runs: Mapping[int, LineRun] | None = None
    ) -> None:
        self.source = source
        self.line_shift = line_shift
        self.runs = runs or {}
        self.lines = lines_of(source.text)
        self.ascii = source.text.isascii()

    def span(self, node: Any) -> Span:
        """Where a node stands."""
        shift = self.line_shift
        line, end = node.lineno + shift, node.end_lineno + shift
        start, stop = node.col_offset, node.end_col_offset
        if not self.ascii:
            start, stop = self.column(line, start), self.column(end, stop)
        return Span(self.source, line, start, end, stop)

    def run_at(self, node: ast.AST) -> LineRun | None:
        """The run of lines that a statement stands for."""
        line: int = node.lineno  # type: ignore[attr-defined]
        return self.runs.get(line + self.line_shift - self.source.first_line + 1)

    @contextmanager
    def shifted(self, lines: int) -> Iterator[None]:
        """While nodes of a piece are read: their lines count from elsewhere."""
        outside, self.line_shift = self.line_shift, lines + self.source.first_line - 1
        try:
            yield
        finally:
            self.line_shift = outside

    def column(self, line: int, offset: int) -> int:
        """`ast` counts the bytes of a line, a span its characters."""
        text = self.lines[line - self.source.first_line]
        return len(text.encode()[:offset].decode(errors="ignore"))

    @cached_property
    def stems(self) -> frozenset[str]:
        """Names of the text that a fresh variable might be given, were they free."""
        return frozenset(re.findall(r"\b[lg]v\d*\b", self.source.text))

    def on_one_line(self, node: Any) -> str | None:
        """The text of a node that stands on one line of an ASCII source."""
        if node.lineno != node.end_lineno or not self.ascii:
            return None
        index = node.lineno + self.line_shift - self.source.first_line
        line: str = self.lines[index]
        return line[node.col_offset : node.end_col_offset]


class Context:
    """The state of reading one function of a module, and of everything nested in it."""

    def __init__(self, place: SourceMap, module: Any = None, function: str = "") -> None:
        self.source_map = place
        self.function = function  # of the module, that is being read
        self.module = module  # what else the text holds: modules.ModuleContext
        self.names: dict[str, Any] = {}
        self.infos: dict[str, StructInfo] = {}  # by their text, as long as its sizes mean the same
        self.scope = BuilderScope()
        self.outputs: frozenset[str] | None = None  # of the open dataflow block
        self.declared_dims: set[str] = set()  # symbolic dims that the innermost function declares
        self.branch_annotations: dict[str, StructInfo] = {}  # annotations of what the next branch gives
        self.declares_strings = False
        self.declares_names = False
        self.binds_sizes = False  # what is read binds the sizes that stand alone in it
        self.keeps_infos = True  # the struct info that is being read may stand for its text
        self.has_rows = False
        self.evaluated_names: frozenset[str] = frozenset()  # names of sizes that Python knows in signatures
        self.strict = False
        self.depth = Depth()
        self.errors: list[Diagnostic] = []
        self.error_class: type[DiagnosticError] = ParseError
        self._undo: list[tuple[str, Any]] = []
        self._fresh: dict[str, int] = {}

    def copy(self) -> Context:
        """The same names in a context of its own, to read a body in."""
        result = Context(self.source_map, self.module, self.function)
        result.names, result.declared_dims, result.strict = dict(self.names), set(self.declared_dims), self.strict
        return result

    @contextmanager
    def binding_sizes(self) -> Iterator[None]:
        """What is read inside binds the sizes that stand alone in it."""
        self.binds_sizes = True
        try:
            yield
        finally:
            self.binds_sizes, self.keeps_infos = False, True

    # ---- errors

    def error(self, node: Any, message: str, hint: str | None = None, code: str = "") -> ParseError:
        """Returns an error located at a node."""
        return ParseError(Diagnostic(message, self.source_map.span(node), hint=hint, code=code))

    def report(self, error: DiagnosticError, node: Any) -> None:
        """Keep an error and go on reading."""
        if not self.errors:
            self.error_class = type(error)
        span = self.source_map.span(node)
        self.errors += [diagnostic.at(span) for diagnostic in error.diagnostics]

    def nested(self, node: Any, terms: int = 0) -> Depth:
        """Guard against texts nested deeper than they can be read, and chains of too many terms;
        leaving it goes up again."""
        depth = self.depth
        if depth.level >= MAX_NESTING or terms > MAX_TERMS:
            limit = f"{MOST_TERMS} terms are" if terms > MAX_TERMS else f"{MAX_NESTING} is"
            hint = f"bind inner parts to names: {limit} the limit"
            raise self.error(node, "nested too deeply", hint)
        depth.level += 1
        return depth

    # ---- names

    def define(self, name: str, value: Any) -> None:
        """Give a name its meaning until the end of the region."""
        names = self.names
        old = names.get(name, MISSING)
        self._undo.append((name, old))
        if type(old) is Poly or type(value) is Poly:
            self.infos = {}
        names[name] = value

    def mark(self) -> int:
        """The beginning of a region."""
        return len(self._undo)

    def leave(self, mark: int, why: str, hint: str, kept: Iterable[str] = ()) -> None:
        """End a region: names mean again what they meant before it."""
        undo = self._undo
        kept_values = {name: self.names[name] for name in kept if name in self.names}
        while len(undo) > mark:
            name, old = undo.pop()
            new = self.names[name]
            if old is not MISSING:
                if type(old) is Poly or type(new) is Poly:
                    self.infos = {}
                self.names[name] = old
            elif type(new) is Poly:
                self.infos = {}
                del self.names[name]
            elif type(new) is not OutOfScope:
                self.names[name] = OutOfScope(new, why.format(name=name), hint)
        if self.has_rows:
            self.infos = {}
        for name, value in kept_values.items():
            self.define(name, value)

    def leave_dataflow(self, mark: int, why: str, hint: str) -> None:
        """End a dataflow block: only what it gives out keeps its meaning."""
        for name in {name for name, _ in self._undo[mark:]}:
            value = self.names[name]
            if isinstance(value, DataflowVar):
                self.define(name, OutOfScope(value, why.format(name=name), hint))

    def lookup(self, node: ast.Name) -> Any:
        """What a name means here."""
        value = self.names.get(node.id, MISSING)
        if value is INVALID:
            raise AlreadyReported
        if value is MISSING or type(value) is OutOfScope:
            if value is MISSING and self.module is not None:
                value = self.module.value_of(self, node.id, node)
            if value is MISSING:
                raise self.undefined(node)
            if type(value) is OutOfScope:
                if value.var is INVALID:
                    raise AlreadyReported
                raise self._out_of_scope(node, value)
        return value

    def names_module(self, node: ast.Name) -> bool:
        """Whether a name means the module itself."""
        return self.module is not None and self.module.names_module(self, node)

    def undefined(self, node: ast.Name) -> ParseError:
        """The error for a name that means nothing."""
        known: dict[str, Any] = {
            n: v for n, v in self.names.items() if isinstance(v, Var) or type(v) is Poly
        }
        near = difflib.get_close_matches(node.id, known, MAX_SUGGESTIONS)
        diagnostic = Diagnostic(f"{node.id} is not defined", self.source_map.span(node), code="E0102")
        for name in near:
            if isinstance(known[name], Var):
                diagnostic = diagnostic.note(f"{name}: {known[name].struct_info}", known[name].span)
        if near:
            return ParseError(diagnostic.hinted(f"did you mean {' or '.join(near)}?"))
        return ParseError(
            diagnostic.hinted("bind it first; a symbolic dim is declared by n = T.int64()")
        )

    def _out_of_scope(self, node: ast.Name, gone: OutOfScope) -> ParseError:
        diagnostic = Diagnostic(gone.message, self.source_map.span(node), hint=gone.hint, code="E0104")
        if isinstance(gone.var, Var):
            diagnostic = diagnostic.note(f"{node.id}: {gone.var.struct_info}", gone.var.span)
        return ParseError(diagnostic)

    def declare(self, name: str) -> Poly:
        """A new symbolic dim."""
        result = sym(name)
        self.define(name, result)
        self.declared_dims.add(name)
        return result

    def row(self, name: str) -> RowVar:
        """The row variable of a name, which has its star; a new one where the name is free."""
        known = self.names.get(name)
        if known is None or type(known) is OutOfScope:
            known = RowVar(name[1:])
            self.define(name, known)
            self.infos, self.has_rows = {}, True
        return known

    def any_size(self) -> Any:
        """`_`: a size of its own where sizes are bound, else one that nothing is known of."""
        if not self.binds_sizes:
            return AnySize()
        self.infos, self.keeps_infos = {}, False
        count = self._fresh["_"] = self._fresh.get("_", -1) + 1
        return sym(f"_{count}")

    def fresh(self) -> str:
        """A name for what the text leaves unnamed: `lv` in a dataflow block, `gv` outside."""
        stem = "gv" if self.outputs is None else "lv"
        written = self.source_map.stems
        count = self._fresh.get(stem, 0)
        name = f"{stem}{count}" if count else stem
        while name in written:
            count += 1
            name = f"{stem}{count}"
        self._fresh[stem] = count + 1
        return name

    # ---- bindings

    def emit(
        self,
        value: Expr,
        name: str | None = None,
        node: Any = None,
        annotation: StructInfo | None = None,
    ) -> Var:
        """Bind a value to a new variable at the end of the open sequence."""
        span = value.span if node is None else self.source_map.span(node)
        info = value.struct_info
        if info is None:
            info = deduce(value)
        if type(info) is TupleStructInfo and exceeds(info, MAX_VALUES):
            raise ParseError(Diagnostic(f"a tuple holds more than {MOST_VALUES} values", span))
        if annotation is not None and annotation is not info:
            info = annotate(annotation, info, name or "the value", span, value)
        outputs = self.outputs
        kind = Var if outputs is None or name in outputs else DataflowVar
        if kind is Var and outputs is not None:
            info = leave_dataflow(info)
        if name is None:
            name = self.fresh()
        var = kind(name, info, span)
        self.scope.bindings.append(VarBinding(var, value, span))
        return var

    def emit_function(self, function: Function, name: str, node: Any, var: Var | None) -> Var:
        """Bind a function to the variable that it calls itself by, or to a new one."""
        if var is None:
            return self.emit(function, name, node)
        kind = Var if self.outputs is None or name in self.outputs else DataflowVar
        var = var if type(var) is kind else kind(name, var.struct_info, var.span)
        self.scope.bindings.append(VarBinding(var, function, var.span))
        return var

    def emit_cast(
        self,
        value: Expr,
        info: StructInfo,
        span: Span | None,
        name: str | None = None,
        node: Any = None,
        annotation: StructInfo | None = None,
    ) -> Var:
        """Bind a value under a struct info that is checked when it runs."""
        self.scope.define(info)
        outputs = self.outputs
        kind = Var if outputs is None or name in outputs else DataflowVar
        place = span if node is None else self.source_map.span(node)
        var = kind(name or self.fresh(), annotation or info, place)
        self.scope.bindings.append(MatchCast(var, value, info, span))
        return var

    def atom(self, value: Any, node: Any) -> Any:
        """A value that may stand as an argument: what is not an atom is bound first."""
        if isinstance(value, Expr) and type(value) not in ATOMS and type(value) is not Tuple:
            return self.emit(value)
        return value

    def expr(self, value: Any, node: Any) -> Expr:
        """What was read as an expression of the IR."""
        if isinstance(value, Expr):
            return value
        kind = type(value)
        span = self.source_map.span(node)
        if kind is tuple or kind is list:
            parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node] * len(value)
            fields = [self.expr(item, part) for item, part in zip(value, parts, strict=True)]
            return Tuple(tuple(fields), span=span)
        if kind is str:
            return StringImm(value, span=span)
        if kind in (int, float, bool, Poly):
            return PrimValue(value, span=span)
        raise self.error(node, f"{value!r} is not a value of a program")


def exceeds(info: TupleStructInfo, most: int) -> bool:
    """Whether the tuples within a tuple hold more values than this: a text of few lines can name
    one that no memory holds."""
    todo: list[StructInfo] = [info]
    count = 0
    while todo and count <= most:
        part = todo.pop()
        count += 1
        if type(part) is TupleStructInfo:
            todo += part.fields
    return count > most
