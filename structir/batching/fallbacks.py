"""Rules for calls that no candidate computes: axes merged, and a loop over the axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from structir.analysis.deduction import callee_name
from structir.batching.candidates import tensor_operands, with_operand
from structir.build import BlockBuilder
from structir.errors import Diagnostic, StructInfoError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Call, Expr, Function, GlobalVar, PrimValue, ShapeExpr, Tuple, Var
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.opdef.batched_op import Path, apply
from structir.opdef.derived_op import is_derived
from structir.projections.scalar_expr import LoopIndex, walk
from structir.projections.spec import AccessIndex, IndexSpec, Statement


class LoopFunctions(Protocol):
    """The functions that a loop over the axis defines."""

    looped: list[str]

    def define(self, name: str, function: Function) -> GlobalVar:
        """Adds a function with an unused name."""
        ...


class OperandScope(Protocol):
    """The scope of a batched call."""

    size: Dim

    @property
    def functions(self) -> LoopFunctions:
        """The functions that the scope may define."""
        ...

    def emit(self, value: Expr, /) -> Expr:
        """Binds an expression to a variable."""
        ...

    def at(self, args: Sequence[Expr], path: Path) -> Expr:
        """Returns the operand at a path."""
        ...

    def fields(self, value: Expr) -> list[Expr]:
        """Returns the fields of a tuple."""
        ...

    def as_tuple(self, value: Expr) -> Expr:
        """Returns a tuple variable as a tuple expression."""
        ...

    def with_mapped(self, args: tuple[Expr, ...], path: Path) -> tuple[Expr, ...]:
        """Returns the arguments with the operand at a path broadcast over the axis."""
        ...


# ---- the axis merged with axis 0 of the operands


def merged(
    scope: OperandScope, element: Call, args: tuple[Expr, ...], paths: tuple[Path, ...]
) -> Expr | None:
    """Returns a call with the batch axis merged into axis 0 of operands and results, or None.

    Axis 0 must be a parallel loop that the op uses for nothing else, as the batch axis of a
    convolution.
    """
    definition: Any = element.op.definition  # type: ignore[attr-defined]
    if is_derived(element.op) or any(map(_is_size, args)):
        return None
    infos: Any = element.struct_info
    if tensor_operands(element, paths) is None or not has_known_sizes(infos):
        return None
    spec: IndexSpec | None = definition.index_spec(element)
    leading = None if spec is None or not spec.computes else _leading(spec)
    if leading is None or not {*paths} <= leading:
        return None
    changed = list(args)
    for path in leading:
        if path not in paths:
            changed = list(scope.with_mapped(tuple(changed), path))
        value = scope.at(changed, path)
        info: Any = value.struct_info
        sizes = (info.dims[0] * info.dims[1], *info.dims[2:])
        joined = scope.emit(apply("reshape", value, ShapeExpr(sizes)))
        changed[path[0]] = with_operand(scope.as_tuple(changed[path[0]]), path[1:], joined)
    result = scope.emit(replace(element, args=tuple(changed), struct_info=None))
    if not isinstance(infos, TupleStructInfo):
        return _separated(scope, result, infos)
    pairs = zip(scope.fields(result), infos.fields, strict=True)
    return Tuple(tuple([_separated(scope, field, info) for field, info in pairs]), infos.names)


def has_known_sizes(info: Any) -> bool:
    """Whether a StructInfo is a tensor of known axes, or a tuple of these."""
    if isinstance(info, TupleStructInfo):
        return all(map(has_known_sizes, info.fields))
    return isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple)


def _is_size(arg: Expr) -> bool:
    return isinstance(arg, ShapeExpr | PrimValue)


def _separated(scope: OperandScope, value: Expr, info: Any) -> Expr:
    return scope.emit(apply("reshape", value, ShapeExpr((scope.size, *info.dims))))


def _leading(spec: IndexSpec) -> set[Path] | None:
    """Returns the operands whose axis 0 is the loop of axis 0 of the results, or None."""
    paths: set[Path] = set()
    read = {r.operand for statement in spec.statements for r in statement.reads}
    if not spec.statements or spec.base is not None or len(read) != len(spec.operands):
        return None
    for statement in spec.statements:
        own = _leading_of(spec, statement)
        if own is None or (paths and own != paths):
            return None
        paths = own
    return paths


def _leading_of(spec: IndexSpec, statement: Statement) -> set[Path] | None:
    if len(statement.writes) != len(spec.results) or not statement.writes[0].entries:
        return None
    symbol = _plain(statement.writes[0].entries[0])
    if symbol is None or symbol in statement.whole:
        return None
    if any([symbol in dims.syms(d) for c in statement.conditions for d in (c.left, c.right)]):
        return None
    for write in statement.writes:
        if not write.entries or _plain(write.entries[0]) != symbol:
            return None
        if any([symbol in e.index_vars for e in write.entries[1:]]):
            return None
        values = [] if write.value is None else walk(write.value)
        if any([isinstance(n, LoopIndex) and n.index_var == symbol for n in values]):
            return None
    paths = set()
    for read in statement.reads:
        if any([symbol in e.index_vars for e in read.entries[1:]]):
            return None
        if read.entries and _plain(read.entries[0]) == symbol:
            paths.add(spec.operands[read.operand].path)
        elif read.entries and symbol in read.entries[0].index_vars:
            return None
    return paths


def _plain(entry: AccessIndex) -> Sym | None:
    """Returns the index variable of an entry that is one."""
    if entry.data is not None or entry.loose or entry.whole or not entry.inside:
        return None
    return dims.as_sym(entry.index)  # type: ignore[arg-type]


# ---- a loop over the axis


def require_known_sizes(value: Expr) -> None:
    """Raises DiagnosticError for a value that is no tensor of known axes."""
    info = value.struct_info
    if not isinstance(info, TensorStructInfo) or not isinstance(info.dims, tuple):
        message = f"vmap: expected a tensor of known sizes, found {info}"
        hint = "apply ops whose result sizes depend on elements outside of the mapped function"
        raise StructInfoError(Diagnostic(message, hint=hint, code="E1111"))


def loop_over_axis(
    scope: OperandScope, element: Call, args: tuple[Expr, ...], paths: tuple[Path, ...]
) -> Expr:
    """Returns the results of a scan over the axis, whose step calls the op."""
    scope.functions.looped.append(callee_name(element) or "")
    sources = [scope.at(args, path) for path in paths]
    for source in sources:
        require_known_sizes(source)
    slices = [Var(f"x{k}", _without_axis(s.struct_info)) for k, s in enumerate(sources)]
    placeholders = {id(scope.at(element.args, path)) for path in paths}
    free = [v for v in dict.fromkeys(_variables(element)) if id(v) not in placeholders]
    captured = [Var(v.name, v.struct_info) for v in free]
    copies = dict(zip(free, captured, strict=True))
    arguments = [_with_variables(arg, copies) for arg in element.args]
    for path, var in zip(paths, slices, strict=True):
        arguments[path[0]] = with_operand(arguments[path[0]], path[1:], var)
    builder = BlockBuilder()
    with builder.function("element", [*slices, *captured]):
        call = Call(element.op, tuple(arguments), element.attrs, element.sinfo_args)
        result = builder.emit(call)
        is_tuple = isinstance(result.struct_info, TupleStructInfo)
        builder.emit_func_output(result if is_tuple else Tuple((result,)))
    cell = scope.functions.define("element", builder.finished("element"))
    operands = Tuple(tuple(sources)) if len(sources) > 1 else sources[0]
    others = [Tuple(tuple(free))] if free else []
    results = scope.fields(scope.emit(apply("scan", cell, Tuple(()), operands, *others)))
    return Tuple(tuple(results)) if is_tuple else results[0]


def _without_axis(info: Any) -> TensorStructInfo:
    return TensorStructInfo(info.dims[1:], info.element)


def _variables(call: Call) -> list[Var]:
    parts = [f for arg in call.args for f in (arg.fields if isinstance(arg, Tuple) else (arg,))]
    return [part for part in parts if isinstance(part, Var)]


def _with_variables(arg: Expr, copies: dict[Var, Var]) -> Expr:
    if isinstance(arg, Tuple):
        return Tuple(tuple([_with_variables(field, copies) for field in arg.fields]), arg.names)
    return copies.get(arg, arg) if isinstance(arg, Var) else arg
