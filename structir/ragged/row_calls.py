"""Calls of ops on ragged tensors that have no flat form, computed row by row."""

from __future__ import annotations

from typing import Any

from structir.batching.candidates import with_operand
from structir.build import BlockBuilder
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Expr, PrimValue, ShapeExpr, TupleGetItem, Var
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo
from structir.opdef.batched_op import Path
from structir.projections.scalar_expr import LoopIndex, walk
from structir.projections.spec import Statement
from structir.ragged.flattening import DenseForm, operand_paths
from structir.ragged.parts import PartsScope, RaggedParts
from structir.ragged.row_op import row_call


def computed_row_by_row(form: DenseForm, scope: PartsScope) -> Expr | RaggedParts | None:
    """Returns the result of a call whose rows are independent of each other; None for others."""
    rows = form.rows
    if len(rows.leading) != 1 or not isinstance(form.call.struct_info, TensorStructInfo):
        return None
    kinds = _kinds(form)
    if kinds is None or any([_mentions_sizes(arg, form) for arg in form.call.args]):
        return None
    program = _of_one_row(form, kinds)
    try:
        operands = [
            form.ragged[path].values if path in form.ragged else form.operand(path)
            for path in kinds
        ]
        call = row_call(program, operands, tuple(kinds.values()), scope.flat_rows(rows))
    except DiagnosticError:
        return None
    result = scope.emit(TupleGetItem(scope.emit(call), 0))
    return RaggedParts(result, rows) if call.attrs["results"] == ("values",) else result


def _kinds(form: DenseForm) -> dict[Path, str] | None:
    """Returns how each operand follows the rows; None if a row depends on others."""
    row_of = [_row_of(statement) for statement in form.spec.statements]
    if not row_of or None in row_of:
        return None
    kinds: dict[Path, str] = {}
    for k, operand in enumerate(form.spec.operands):
        followed = {
            _follows(read.entries, row)
            for statement, row in zip(form.spec.statements, row_of, strict=True)
            for read in statement.reads
            if read.operand == k
        }
        if len(followed) != 1 or None in followed:
            return None
        (is_followed,) = followed
        if operand.path in form.ragged and not is_followed:
            return None
        kind = "rows" if is_followed else "shared"
        kinds[operand.path] = "values" if operand.path in form.ragged else kind
    return kinds


def _row_of(statement: Statement) -> Sym | None:
    """Returns the loop over rows of a statement, whose index all writes begin with."""
    firsts = {w.entries[0].index for w in statement.writes if w.entries}
    row = dims.as_sym(firsts.pop()) if len(firsts) == 1 else None  # type: ignore[arg-type]
    if row is None or row not in statement.parallel:
        return None
    if any([row in dims.syms(d) for c in statement.conditions for d in (c.left, c.right)]):
        return None
    for write in statement.writes:
        nodes = [] if write.value is None else walk(write.value)
        if any([isinstance(n, LoopIndex) and n.index_var == row for n in nodes]):
            return None
        if write.entries[0].data is not None or not _follows(write.entries, row):
            return None
    return row


def _follows(entries: Any, row: Sym | None) -> bool | None:
    """Whether an access is at the row along its first axis; None if it is elsewhere, too."""
    if any([row in e.index_vars for e in entries[1:]]):
        return None
    if not entries or row not in entries[0].index_vars:
        return False
    first = entries[0]
    return (
        True if first.data is None and not first.loose and dims.as_sym(first.index) == row else None
    )


def _mentions_sizes(arg: Expr, form: DenseForm) -> bool:
    """Whether an argument is a shape or a size that depends on the rows."""
    if isinstance(arg, PrimValue):
        return bool(dims.syms(arg.value)) if isinstance(arg.value, dims.Poly) else False
    return isinstance(arg, ShapeExpr)


def _of_one_row(form: DenseForm, kinds: dict[Path, str]) -> Any:
    """Returns the call for one row, as a function."""
    one: Dim = dims.sym("one")
    leading: Any = dims.as_sym(form.leading[0])
    params, args = list[Var](), list(form.call.args)
    placed = dict(operand_paths(form.call))
    for k, (path, kind) in enumerate(kinds.items()):
        info: Any = placed[path].struct_info
        sizes = tuple([dims.substitute(d, {leading: one}) for d in info.dims])
        if kind == "rows":
            sizes = (one, *sizes[1:])
        params.append(Var(f"x{k}", TensorStructInfo(sizes, info.element)))
        args[path[0]] = with_operand(args[path[0]], path[1:], params[-1])
    builder = BlockBuilder()
    with builder.function("main", params):
        call = replace(form.call, args=tuple(args), struct_info=None)
        builder.emit_func_output(builder.emit(call))
    return builder.finished("main")
