"""State of the parser: the source, the names in scope, the open block, and reported errors."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from structir.analysis.constant_values import ConstantValues
from structir.analysis.deduction import annotate, deduce, leave_dataflow
from structir.build import BuilderScope, over_atoms
from structir.errors import Diagnostic, DiagnosticError, ParseError, Span
from structir.ir.axes import AnySize, RowVar
from structir.ir.dims import Poly, sym
from structir.ir.dtype import MARK, DtypeVar
from structir.ir.expr import (
    ATOMS,
    Call,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    MatchCast,
    PrimValue,
    StringImm,
    Tuple,
    Var,
    VarBinding,
)
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.printer.parser.name_hints import NAMESPACES, undefined_hint
from structir.printer.parser.source_map import SourceMap

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NESTING = 64
MAX_TERMS = 2500  # of one chain of operators; every supported CPython parses at least 2,900
MAX_VALUES = 1 << 18  # in a tuple and the tuples within it
MAX_SUGGESTIONS = 2


class AlreadyReported(Exception):
    """The binding of a name was invalid, and its error has been reported."""


class OutOfScope:
    """The former meaning of a name that is out of scope, with templates of message and hint."""

    def __init__(self, var: Any, message: str, hint: str) -> None:
        self.var, self.message, self.hint = var, message, hint


class PythonValue:
    """A value of Python that a name of the program denotes: of a loop, of a macro, of an alias."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Depth:
    """The nesting depth of the expression or branch being parsed."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        self.level -= 1


STATIC = (Poly, PythonValue)  # a text with a name of one means what the name means
INVALID: Any = object()  # the value of a name whose binding was invalid
MISSING: Any = object()


_NAME_OF_CLASS = type.__dict__["__name__"].__get__


def class_name(value: Any) -> str:
    """Returns the name of the class of a value, without code of its metaclass."""
    name: str = _NAME_OF_CLASS(type(value))
    return name


class VariableDeclaration(NamedTuple):
    """A line `y: INFO`, which states the StructInfo of the variable that is bound next."""

    info: StructInfo
    node: ast.AnnAssign


class Context:
    """The state of parsing one function of a module and everything nested in it."""

    def __init__(self, source_map: SourceMap, module: Any = None, function: str = "") -> None:
        self.source_map = source_map
        self.function = function  # name of the module's function being parsed
        self.module = module  # the other functions of the text: modules.ModuleContext
        self.names: dict[str, Any] = {}
        self.infos: dict[str, StructInfo] = {}  # by their text, while its sizes keep their meaning
        self.distinct_infos: dict[Any, Any] = {}  # equal StructInfos of tensors become one object
        self.scope = BuilderScope()
        self.constants = ConstantValues()
        self.known_scalars: dict[Var, Any] = {}  # the values of `h: R.Prim("int64") = 8`
        self.outputs: frozenset[str] | None = None  # of the open dataflow block
        self.declared_dims: set[str] = set()  # by the innermost function
        self.declarations: dict[str, VariableDeclaration] = {}  # of variables that are unbound
        self.declares_strings = False
        self.declares_names = False
        self.binds_sizes = False  # the annotation binds dims that are whole sizes in it
        self.expects_sizes = False  # the argument being parsed consists of sizes
        self.keeps_infos = True  # the StructInfo being parsed may be memoized by its text
        self.has_marked = False  # whether there are row or dtype variables
        self.evaluated_names: frozenset[str] = (
            frozenset()
        )  # dims that Python evaluated in signatures
        self.strict = False
        self.unifies = False  # arguments of calls are unified with the callee's parameters
        self.exits: frozenset[type] = frozenset()  # classes of statements that may leave the body
        self.depth = Depth()
        self.macros: tuple[Any, ...] = ()  # being expanded: macros.Macro
        self.caller_names: dict[str, Any] = {}  # of the function that calls the macro
        self.errors: list[Diagnostic] = []
        self.error_class: type[DiagnosticError] = ParseError
        self.signatures: dict[Var, Any] = {}  # of local functions, for calls by name
        self.undo: list[tuple[str, Any]] = []
        self._fresh: dict[str, int] = {}

    def copy(self) -> Context:
        """Returns a new context with the same names, to parse a body in."""
        copied = Context(self.source_map, self.module, self.function)
        copied.names, copied.strict = dict(self.names), self.strict
        copied.declared_dims, copied.unifies = set(self.declared_dims), self.unifies
        return copied

    @contextmanager
    def binding_sizes(self) -> Iterator[None]:
        """Lets annotations parsed inside bind the dims that are sizes by themselves."""
        self.binds_sizes = True
        try:
            yield
        finally:
            self.binds_sizes, self.keeps_infos = False, True

    def read_expecting(self, sizes: bool, rule: Callable[[Any, Any], Any], node: ast.expr) -> Any:
        """Parses by a rule; with `sizes`, undefined names are reported as undeclared dims."""
        outside, self.expects_sizes = self.expects_sizes, sizes
        try:
            return rule(self, node)
        finally:
            self.expects_sizes = outside

    # ---- errors

    def error(self, node: Any, message: str, hint: str | None = None, code: str = "") -> ParseError:
        """Returns an error located at a node."""
        return ParseError(Diagnostic(message, self.source_map.span(node), hint=hint, code=code))

    def report(self, error: DiagnosticError, node: Any) -> None:
        """Records an error, so that parsing continues."""
        if not self.errors:
            self.error_class = type(error)
        span = self.source_map.span(node)
        self.errors += [diagnostic.at(span) for diagnostic in error.diagnostics]

    def nested(self, node: Any, terms: int = 0) -> Depth:
        """Enters one level of nesting; raises ParseError at MAX_NESTING levels or MAX_TERMS terms.

        The returned context manager leaves the level.
        """
        depth = self.depth
        if depth.level >= MAX_NESTING or terms > MAX_TERMS:
            limit = f"{MAX_TERMS} terms" if terms > MAX_TERMS else f"{MAX_NESTING} levels"
            hint = "bind inner parts to names: `y = ...`"
            raise self.error(node, f"nested too deeply: expected at most {limit}", hint, "E0109")
        depth.level += 1
        return depth

    # ---- names

    def define(self, name: str, value: Any) -> None:
        """Binds a name to a value until the end of the region."""
        names = self.names
        old = names.get(name, MISSING)
        self.undo.append((name, old))
        if type(old) in STATIC or type(value) in STATIC:
            self.infos = {}
        names[name] = value

    def mark(self) -> int:
        """Returns the mark of the beginning of a region, for `leave`."""
        return len(self.undo)

    def restore(self, mark: int, names: Iterable[str]) -> None:
        """Gives names the values that they had at a mark; other names remain bound."""
        undo, names = self.undo, frozenset(names)
        changed = undo[mark:]
        undo[mark:] = [item for item in changed if item[0] not in names]
        for name, old in reversed(changed):
            if name in names and old is MISSING:
                self.names.pop(name, None)
            elif name in names:
                self.names[name] = old
        self.infos = {}

    def leave(self, mark: int, why: str, hint: str, retained: Iterable[str] = ()) -> None:
        """Ends a region: restores the names bound before it, except those in `retained`."""
        undo = self.undo
        retained_values = {name: self.names[name] for name in retained if name in self.names}
        while len(undo) > mark:
            name, old = undo.pop()
            new = self.names[name]
            if old is not MISSING:
                if type(old) in STATIC or type(new) in STATIC:
                    self.infos = {}
                self.names[name] = old
            elif type(new) in STATIC:
                self.infos = {}
                del self.names[name]
            elif type(new) is not OutOfScope:
                self.names[name] = OutOfScope(new, why, hint)
        if self.has_marked:
            self.infos = {}
        for name, value in retained_values.items():
            self.define(name, value)

    def leave_dataflow(self, mark: int, why: str, hint: str) -> None:
        """Ends a dataflow block: its dataflow variables go out of scope."""
        for name in {name for name, _ in self.undo[mark:]}:
            value = self.names[name]
            if isinstance(value, DataflowVar):
                self.define(name, OutOfScope(value, why, hint))

    def lookup(self, node: ast.Name) -> Any:
        """Returns the value of a name; raises ParseError if it is not in scope."""
        value = self.names.get(node.id, MISSING)
        if value is INVALID:
            raise AlreadyReported
        if type(value) is PythonValue:
            value = self.captured(node)
            if value is MISSING:
                raise self.python_value_error(node, node.id, self.names[node.id].value)
            return value
        if value is MISSING or type(value) is OutOfScope:
            if value is MISSING and self.module is not None:
                value = self.module.value_of(self, node.id, node)
            if value is MISSING:
                value = self.captured(node)
            if value is MISSING:
                raise self.undefined(node)
            if type(value) is OutOfScope:
                if value.var is INVALID:
                    raise AlreadyReported
                raise self._out_of_scope(node, value)
        return value

    def captured(self, node: ast.expr) -> Any:
        """Returns the value of a Python name, or of its items and fields, that the program uses.

        Returns MISSING if the program binds the name, or if there is no such value.
        """
        return MISSING if self.module is None else self.module.python_value(self, node)

    def signature_of(self, callee: Expr) -> Any:
        """Returns the signature of a function of the module or a local one; None of others."""
        if isinstance(callee, GlobalVar):
            return self.module.signature_of(callee.name)
        return self.signatures.get(callee) if isinstance(callee, Var) else None

    def dim_of(self, name: str) -> Poly:
        """Returns the dim of a name; declares it if there is none."""
        for names in (self.names, self.caller_names):
            if type(dim := names.get(name)) is Poly:
                return dim
        return self.declare(name)

    def names_module(self, node: ast.Name) -> bool:
        """Whether a name refers to the module itself."""
        return self.module is not None and self.module.names_module(self, node)

    def undefined(self, node: ast.Name) -> ParseError:
        """Returns the error of a name that is not in scope."""
        if self.module is not None and node.id in self.module.python_values:
            return self.python_value_error(node, node.id, self.module.python_values[node.id])
        candidates: dict[str, Any] = {
            n: v for n, v in self.names.items() if isinstance(v, Var) or type(v) is Poly
        }
        matches = difflib.get_close_matches(node.id, candidates, MAX_SUGGESTIONS)
        diagnostic = Diagnostic(
            f"`{node.id}` is not defined",
            self.source_map.span(node),
            code="E0102",
            label="not found in this scope",
        )
        for name in matches:
            if isinstance(candidates[name], Var):
                diagnostic = diagnostic.note(
                    f"{name}: {candidates[name].struct_info}", candidates[name].span
                )
        if matches:
            names = " or ".join(f"`{name}`" for name in matches)
            return ParseError(diagnostic.hinted(f"did you mean {names}?"))
        if node.id in NAMESPACES:
            message = f"expected a value, found the namespace `{node.id}`"
            return self.error(node, message, NAMESPACES[node.id], "E0102")
        return ParseError(diagnostic.hinted(undefined_hint(node.id, self.expects_sizes)))

    def python_value_error(self, node: ast.expr, text: str, value: Any) -> ParseError:
        """Returns the error of a value of Python that has no counterpart in programs."""
        message = f"`{text}` is a Python value that programs cannot capture: expected a number, a "
        message += "string, a dtype, a tuple, a NumPy array, a StructInfo, a function or an op, "
        message += f"found {class_name(value)}"
        name = text if text.isidentifier() else "w"
        hint = f'pass it as an argument: add a parameter `{name}: R.Tensor((4,), "float32")`'
        return ParseError(
            Diagnostic(
                message, self.source_map.span(node), hint=hint, code="E0111", label="Python value"
            )
        )

    def _out_of_scope(self, node: ast.Name, former: OutOfScope) -> ParseError:
        span = self.source_map.span(node)
        message, hint = [text.format(name=node.id) for text in (former.message, former.hint)]
        diagnostic = Diagnostic(message, span, hint=hint, code="E0104")
        if isinstance(former.var, Var):
            diagnostic = diagnostic.note(f"{node.id}: {former.var.struct_info}", former.var.span)
        return ParseError(diagnostic)

    def declare(self, name: str) -> Poly:
        """Declares a symbolic dim and returns it."""
        dim = sym(name)
        self.define(name, dim)
        self.declared_dims.add(name)
        return dim

    def marked(self, name: str) -> Any:
        """Returns the row variable `*s` or dtype variable `'T` of a name, or a new one."""
        variable = self.names.get(name)
        if variable is None or type(variable) is OutOfScope:
            variable = (DtypeVar if name[0] == MARK else RowVar)(name[1:])
            self.define(name, variable)
            self.infos, self.has_marked = {}, True
        return variable

    def any_size(self) -> Any:
        """Returns the size for `_`: a fresh dim where sizes are bound, else an unknown size."""
        if not self.binds_sizes:
            return AnySize()
        self.infos, self.keeps_infos = {}, False
        count = self._fresh["_"] = self._fresh.get("_", -1) + 1
        return sym(f"_{count}")

    def fresh(self) -> str:
        """Returns a fresh variable name: `lv` in a dataflow block, `gv` outside."""
        stem = "gv" if self.outputs is None else "lv"
        reserved = self.source_map.stems
        count = self._fresh.get(stem, 0)
        name = f"{stem}{count}" if count else stem
        while name in reserved:
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
        declared: StructInfo | None = None,
    ) -> Var:
        """Binds a value to a new variable at the end of the open sequence.

        The StructInfo of the variable is `declared`, or the annotation; for a tuple expression with
        an annotation it is the inferred one.
        """
        span = value.span if node is None else self.source_map.span(node)
        if type(value) is Call and Call in map(type, value.args):  # a number beside a variable
            value = over_atoms(value, self.emit)
        info = deduce(value) if value.struct_info is None else value.struct_info
        if type(info) is TupleStructInfo and _exceeds(info, MAX_VALUES):
            message = f"tuple too large: expected at most {MAX_VALUES} fields, nested ones included"
            hint = "unpack the tuple and use its fields: `a, b = y`"
            raise ParseError(Diagnostic(message, span, hint=hint, code="E0109"))
        if declared is not None:
            info = annotate(declared, info, name or "the value", span, value, as_written=True)
        elif annotation is not None and annotation is not info and annotation != info:
            info = annotate(annotation, info, name or "the value", span, value)
        outputs = self.outputs
        kind = Var if outputs is None else self.variable_class(name)
        if kind is Var and outputs is not None:
            info = leave_dataflow(info)
        if name is None:
            name = self.fresh()
        var = kind(name, info, span)
        self.scope.bindings.append(VarBinding(var, value, span))
        if type(value) is not Call:
            self.constants.bind(var, value)
        return var

    def variable_class(self, name: str | None) -> type[Var]:
        """Returns the class of a variable of this name in the open block."""
        return Var if self.outputs is None or name in self.outputs else DataflowVar

    def declared(self, name: str) -> StructInfo | None:
        """Returns the StructInfo that the declaration before a binding states, at most once."""
        declaration = self.declarations.pop(name, None)
        return None if declaration is None else declaration.info

    def emit_function(
        self,
        function: Function,
        name: str,
        node: Any,
        var: Var | None,
        declared: StructInfo | None,
    ) -> Var:
        """Binds a function to the variable of its recursive calls, or to a new one."""
        if var is None:
            return self.emit(function, name, node, declared=declared)
        if declared is not None:
            annotate(declared, deduce(function), name, var.span, function, as_written=True)
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
        """Binds a value by a match_cast, which checks its StructInfo at run time."""
        self.scope.define(info)
        kind = self.variable_class(name)
        var_span = span if node is None else self.source_map.span(node)
        var = kind(name or self.fresh(), annotation or info, var_span)
        self.scope.bindings.append(MatchCast(var, value, info, span))
        self.constants.bind(var, value)
        return var

    def atom(self, value: Any, node: Any) -> Any:
        """Returns a value in argument position; binds it first unless it is an atom."""
        if isinstance(value, Expr) and type(value) not in ATOMS and type(value) is not Tuple:
            return self.emit(value)
        return value

    def expr(self, value: Any, node: Any) -> Expr:
        """Converts a parsed value to an expression of the IR."""
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
        if self._is_null(node):
            return Tuple((), span=span)
        hint = "write a variable, a call, a number, or a tuple of them"
        raise self.error(node, f"expected an expression of the IR, found {value!r}", hint)

    def _is_null(self, node: Any) -> bool:
        """Whether an expression is `R.null_value()`, or a name of it: an object without fields."""
        is_call = isinstance(node, ast.Call) and ast.unparse(node.func) == "R.null_value"
        return is_call or (isinstance(node, ast.Name) and self.names.get(node.id, 0) is None)


def _exceeds(info: TupleStructInfo, limit: int) -> bool:
    """Whether a tuple has more fields than `limit`, nested ones included.

    A few lines of text can describe a tuple that does not fit in memory.
    """
    remaining: list[StructInfo] = [info]
    count = 0
    while remaining and count <= limit:
        part = remaining.pop()
        count += 1
        if type(part) is TupleStructInfo:
            remaining += part.fields
    return count > limit
