"""The state of tracing: the functions under construction, and the values that they capture."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from structir.analysis.internal_functions import PRIVATE
from structir.analysis.variables import symbols_in
from structir.build import BuilderScope
from structir.errors import Diagnostic, DiagnosticError, caller_span
from structir.frontend.builder import NodeBuilder, without_op_hint
from structir.ir import dims
from structir.ir.binding_dims import bound_dims
from structir.ir.expr import Expr, ShapeExpr, Tuple, Var
from structir.ir.struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import exported, provided_module

F = TypeVar("F", bound=Callable[..., Any])
evaluation = provided_module("evaluation")  # of functions outside of a trace
namespace = provided_module("array functions")


def operator(name: str) -> Callable[..., Any]:
    """Returns the function of arrays that an operator or a method applies."""
    return getattr(namespace, name)


class FunctionFrame:
    """A function under construction: its parameters, among them the captured values."""

    def __init__(self, outer: FunctionFrame | None) -> None:
        self.outer = outer
        self.params: list[Var] = []
        self.captured: dict[Var, Var] = {}  # variables of the outer function, and parameters
        self.scope: BuilderScope | None = None

    def is_inside(self, other: FunctionFrame) -> bool:
        """Whether this function is `other`, or is defined inside of it."""
        frame: FunctionFrame | None = self
        while frame is not None and frame is not other:
            frame = frame.outer
        return frame is not None

    def capture(self, var: Var, owner: FunctionFrame) -> Var:
        """Returns the variable of this function for a variable of an enclosing function."""
        if owner is self:
            return var
        assert self.outer is not None and self.scope is not None
        outer = self.outer.capture(var, owner)
        param = self.captured.get(outer)
        if param is None:
            info = outer.struct_info
            param = self.captured[outer] = Var(f"{outer.name}_captured", info)
            self.params.append(param)
            self.scope.outer_symbols |= bound_dims([info])
        return param


class Session:
    """A module that is being traced."""

    def __init__(self, fixes_sizes: bool = False) -> None:
        self.fixes_sizes = fixes_sizes  # whether a symbolic size may be given its value
        self.builder = NodeBuilder()
        self.frame: FunctionFrame | None = None
        self.has_derived = False  # whether a transform copied generated bindings
        self.depth = 0  # nested calls of functions of arrays
        self.functions_by_type: dict[Any, Any] = {}  # traced functions with own derivatives
        self._counts: dict[str, int] = {}

    @property
    def scope(self) -> BuilderScope:
        """The scope that receives bindings."""
        return self.builder.scopes[-1]

    def fresh_name(self, stem: str) -> str:
        """Returns an unused name of a function of the module."""
        name, count = stem, self._counts.get(stem, 0)
        while name in self.builder.functions:
            count += 1
            name = f"{stem}_{count}"
        self._counts[stem] = count
        return name

    @contextmanager
    def function(self, name: str, params: Sequence[Var], private: bool) -> Iterator[FunctionFrame]:
        """Opens a function. The values that its body captures become further parameters."""
        outer, depth, span = self.frame, self.depth, self.builder.span
        frame = FunctionFrame(outer)
        frame.params = list(params)
        attributes = {PRIVATE: True} if private else {}
        try:
            with self.builder.function(name, frame.params, attrs=attributes):
                frame.scope = self.scope
                frame.scope.outer_symbols = set(frame.scope.outer_symbols)
                self.frame, self.depth = frame, 0
                yield frame
        finally:
            self.frame, self.depth, self.builder.span = outer, depth, span

    def close(self, frame: FunctionFrame, output: Expr | tuple[Any, ...]) -> None:
        """Sets the result of the open function, and captures the sizes that no parameter binds."""
        self.builder.emit_func_output(output)
        if frame.outer is None:
            return
        scope = self.scope
        parts = [*scope.blocks, *[p.struct_info for p in frame.params]]
        bound = bound_dims([p.struct_info for p in frame.params]) | scope.own_symbols
        result = self.builder._results[-1]
        used = symbols_in((*parts, result[0] if result else ()))
        free = tuple([dims.as_dim(symbol) for symbol in used if symbol not in bound])
        if free:
            frame.params.append(Var("sizes", ShapeStructInfo(free)))

    def captured_operands(self, frame: FunctionFrame) -> list[Expr]:
        """Returns the arguments for the captured parameters of a function that is finished."""
        assert self.frame is not None
        operands: list[Expr] = list(frame.captured)
        last = frame.params[-1] if frame.params else None
        if last is not None and isinstance(last.struct_info, ShapeStructInfo):
            sizes: Any = last.struct_info.dims
            operands.append(ShapeExpr(sizes))
        return operands


class _State(threading.local):
    session: Session | None = None


STATE = _State()


def is_tracing() -> bool:
    """Whether a function is being traced in this thread."""
    return STATE.session is not None


def session() -> Session:
    """Returns the module that is being traced in this thread."""
    current = STATE.session
    assert current is not None
    return current


@contextmanager
def new_session(fixes_sizes: bool = False) -> Iterator[Session]:
    """Traces into a new module; with `fixes_sizes`, symbolic sizes have values that are known."""
    before, STATE.session = STATE.session, Session(fixes_sizes)
    try:
        yield STATE.session
    finally:
        STATE.session = before


def traced(function: F) -> F:
    """Makes a function that emits ops a function of arrays.

    Bindings and errors have the location of the user's call. Outside of a trace the function is
    evaluated at once and returns NumPy arrays. Raises DiagnosticError for an array `out=`.
    """

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        current = STATE.session
        if keywords.get("out") is not None:
            message = f"{function.__name__}: out: arrays do not change in place"
            hint = "use the result of the call"
            raise DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1107"))
        if current is None:
            return evaluation.evaluate(call, args, keywords)
        if current.depth:
            return function(*args, **keywords)
        current.depth = 1
        current.builder.span = span = caller_span()
        try:
            return function(*args, **keywords)
        except DiagnosticError as error:
            if span is None or all([d.span is not None for d in error.diagnostics]):
                raise
            located = [d if d.span else without_op_hint(d.at(span)) for d in error.diagnostics]
            raise type(error)(located) from None
        finally:
            current.depth = 0

    return exported(call)  # type: ignore[return-value]


@contextmanager
def user_code() -> Iterator[None]:
    """Runs a function of the user inside of a function of arrays: its calls have own locations."""
    current = session()
    depth, span = current.depth, current.builder.span
    current.depth = 0
    try:
        yield
    finally:
        current.depth, current.builder.span = depth, span


def leaked(name: str) -> DiagnosticError:
    """Returns the error of a value that is used outside of the function that computes it."""
    message = f"`{name}` is a traced value of a function that has been traced"
    hint = "return the value from the function; do not store it in a variable outside"
    return DiagnosticError(Diagnostic(message, caller_span(), hint=hint, code="E1101"))


def sized(value: Var) -> Var:
    """Returns a variable with known axes: unknown sizes of a known rank become symbolic dims."""
    info: Any = value.struct_info
    if type(info) is TensorStructInfo and info.dims is None and info.ndim > 0:  # type: ignore[operator]
        sizes = tuple([dims.sym(f"d{k}") for k in range(int(info.ndim or 0))])
        return session().builder.match_cast(value, TensorStructInfo(sizes, info.dtype))
    return value


def fields(value: Expr) -> list[Expr]:
    """Returns the fields of a tuple, bound to variables."""
    if isinstance(value, Tuple):
        return list(value.fields)
    info: StructInfo = value.struct_info
    assert isinstance(info, TupleStructInfo)
    emit = session().builder.emit
    return [emit(value[k]) for k in range(len(info.fields))]
