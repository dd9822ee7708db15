"""Rules of ops that no index signature lowers: conversions and concatenation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from structir.errors import Diagnostic, StructInfoError
from structir.ir.dims import Dim, sym
from structir.ir.expr import Call, Expr, MatchCast, PrimValue, ShapeExpr, Var
from structir.ir.node import replace
from structir.ir.requirements import cast_of, condition
from structir.ir.struct_info import ShapeStructInfo
from structir.opdef.batched_op import Path
from structir.ops.broadcast import add, less, multiply, subtract, where
from structir.ops.create import arange, constant_like, full, full_like, zeros
from structir.ops.elementwise import negative
from structir.ops.indexing import take
from structir.ops.joined import concat
from structir.ops.layout import expand_dims
from structir.ops.reduce import max_, sum_
from structir.ops.reshape import reshape
from structir.ops.scan import cumsum
from structir.ops.segments import concat_rows, contiguous_rows, segment_expand
from structir.ops.shapes import tensor_to_shape
from structir.ragged.parts import PartsScope, RaggedParts, Rows

Operands = Mapping[Path, Any]
Ragged = Mapping[Path, RaggedParts]
Rule = Callable[[Call, Operands, Ragged, PartsScope], "Expr | RaggedParts | None"]


def _values(call: Call, operands: Operands, ragged: Ragged, scope: PartsScope) -> Expr:
    return ragged[(0,)].values


def _row_starts(call: Call, operands: Operands, ragged: Ragged, scope: PartsScope) -> Expr:
    return ragged[(0,)].rows.starts


def _row_limits(call: Call, operands: Operands, ragged: Ragged, scope: PartsScope) -> Expr:
    return ragged[(0,)].rows.limits


def _row_lengths(call: Call, operands: Operands, ragged: Ragged, scope: PartsScope) -> Expr:
    rows = ragged[(0,)].rows
    return scope.emit(subtract(rows.limits, rows.starts))


def _from_values(
    call: Call, operands: Operands, ragged: Ragged, scope: PartsScope
) -> RaggedParts | None:
    values, starts, limits = call.args
    sizes: Any = values.struct_info.dims
    leading: Any = starts.struct_info.dims
    if not isinstance(sizes, tuple) or not isinstance(leading, tuple):
        return None
    label = call.attrs.get("name", "")
    keys = {("name", label)} if label else {(starts, limits)}
    for key in keys:
        if key in scope.rows and scope.rows[key].total == sizes[0]:
            return RaggedParts(values, scope.rows[key])
    known = [r for r in scope.rows.values() if r.starts is starts and r.limits is limits]
    rows = Rows(keys, leading, sizes[0], starts, limits, label)
    if not any([r.total == sizes[0] for r in known]):
        flat = scope.flat_rows(rows)
        checked = scope.emit(replace(contiguous_rows(*flat, values), span=call.span))
        shaped = checked if len(leading) == 1 else scope.emit(reshape(checked, ShapeExpr(leading)))
        rows.starts, rows.flat = shaped, (checked, flat[1])
    scope.add_rows(rows)
    return RaggedParts(values, rows)


def _take(call: Call, operands: Operands, ragged: Ragged, scope: PartsScope) -> RaggedParts | None:
    """Takes slices along the first axis at ragged indices; None for other axes and operands."""
    if set(ragged) != {(1,)} or call.attrs.get("axis") != 0:
        return None
    indices = ragged[(1,)]
    taken = scope.emit(replace(call, args=(call.args[0], indices.values), struct_info=None))
    return RaggedParts(taken, indices.rows)


# ---- padded tensors


def measured(number: Expr, scope: PartsScope, stem: str) -> Dim:
    """Returns an int64 scalar of the program as a size."""
    shape = scope.emit(tensor_to_shape(scope.emit(reshape(number, ShapeExpr((1,))))))
    size = sym(stem)
    scope.builder.match_cast(shape, ShapeStructInfo((size,)))
    return size


def _longest(rows: Rows, scope: PartsScope) -> Dim:
    zero = zeros((1,), "int64")
    lengths = scope.emit(concat((zero, scope.lengths(rows)), axis=0))
    return measured(scope.emit(max_(lengths)), scope, "longest")


def _to_padded(call: Call, operands: Operands, ragged: Ragged, scope: PartsScope) -> Expr:
    x, emit = ragged[(0,)], scope.emit
    rows, length = x.rows, call.attrs.get("length")
    size = _longest(rows, scope)
    if length is not None:
        _require_at_most(size, length, call, scope)
        size = length
    padded = padded_rows(x, size, call.attrs.get("fill", 0), scope)
    shape = (*rows.leading, size, *x.inner)
    return emit(reshape(padded, ShapeExpr(shape))) if len(rows.leading) > 1 else padded


def padded_rows(x: RaggedParts, size: Dim, fill: float, scope: PartsScope) -> Expr:
    """Returns the rows of a ragged tensor with one length, along one leading axis."""
    rows, emit = x.rows, scope.emit
    starts, _ = scope.flat_rows(rows)
    steps = emit(arange(PrimValue(size), dtype="int64"))
    steps = emit(reshape(steps, ShapeExpr((1, size))))
    inside = emit(less(steps, emit(expand_dims(scope.lengths(rows), 1))))
    index = emit(add(emit(expand_dims(starts, 1)), steps))
    taken = emit(take(x.values, index, axis=0))
    inside = emit(reshape(inside, ShapeExpr((rows.count, size, *[1] * len(x.inner)))))
    return emit(where(inside, taken, _number(fill, x.values, scope)))


def _number(value: float, like: Expr, scope: PartsScope) -> Expr:
    """Returns a number in the dtype of a tensor."""
    number = int(value) if float(value).is_integer() else value
    info: Any = like.struct_info
    if info.dtype is None:
        return scope.emit(constant_like(like, value=number))
    return scope.emit(full(ShapeExpr(()), PrimValue(number), info.dtype))


def _from_padded(
    call: Call, operands: Operands, ragged: Ragged, scope: PartsScope
) -> RaggedParts | None:
    padded, lengths = call.args
    emit = scope.emit
    sizes: Any = padded.struct_info.dims
    leading: Any = lengths.struct_info.dims
    if not isinstance(sizes, tuple) or not isinstance(leading, tuple):
        return None
    count = len(leading)
    size, inner = sizes[count], sizes[count + 1 :]
    total_rows = prod(leading)
    flat = emit(reshape(lengths, ShapeExpr((total_rows,)))) if count > 1 else lengths
    limits = emit(cumsum(flat, axis=0))
    starts = emit(subtract(limits, flat))
    shaped = starts, limits
    if count > 1:
        shape = ShapeExpr(leading)
        shaped = emit(reshape(starts, shape)), emit(reshape(limits, shape))
    total = _total_of_lengths(flat, size, call, scope)
    known: dict[str, Any] = {"flat": (starts, limits), "lengths": flat}
    rows = scope.add_rows(Rows({shaped}, leading, total, *shaped, **known))
    numbers = emit(arange(PrimValue(total_rows), dtype="int64"))
    padded_starts = emit(multiply(numbers, full_like(numbers, PrimValue(size))))
    moved = emit(subtract(padded_starts, starts))
    moved = emit(segment_expand(moved, scope.ids(rows), starts, limits))
    index = emit(add(moved, emit(arange(PrimValue(total), dtype="int64"))))
    merged = emit(reshape(padded, ShapeExpr((total_rows * size, *inner))))
    return RaggedParts(emit(take(merged, index, axis=0)), rows)


def _total_of_lengths(lengths: Expr, size: Dim, call: Call, scope: PartsScope) -> Dim:
    """Returns the sum of row lengths as a size; at run time, each is between 0 and `size`."""
    emit = scope.emit
    zero = emit(zeros((1,), "int64"))
    ends = [emit(concat((zero, each), axis=0)) for each in (lengths, emit(negative(lengths)))]
    numbers = [emit(sum_(lengths)), *[emit(max_(each)) for each in ends]]
    vectors = [emit(reshape(number, ShapeExpr((1,)))) for number in numbers]
    shape = emit(tensor_to_shape(emit(concat(tuple(vectors), axis=0))))
    total, longest, below_zero = sym("t"), sym("longest"), sym("below_zero")
    scope.builder.match_cast(shape, ShapeStructInfo((total, longest, below_zero)))
    _require_at_most(below_zero, 0, call, scope)
    _require_at_most(longest, size, call, scope)
    return total


def _require_at_most(size: Dim, limit: Dim, call: Call, scope: PartsScope) -> None:
    value, info = cast_of((condition("<=", size, limit),), call.span)
    scope.builder.take(MatchCast(Var("_", info, call.span), value, info, call.span))


# ---- concatenation


def _concat(
    call: Call, operands: Operands, ragged: Ragged, scope: PartsScope
) -> RaggedParts | None:
    """Concatenates along the ragged axis, or along the first one; None along others."""
    axis = call.attrs.get("axis", 0)
    position = {len(parts.rows.leading) for parts in ragged.values()}
    info: Any = next(iter(ragged.values())).values.struct_info
    if axis is None or len(position) != 1:
        return None
    (ragged_axis,) = position
    rank = info.ndim + ragged_axis
    axis = axis + rank if axis < 0 else axis
    if axis not in (0, ragged_axis):
        return None
    parts = [ragged.get(path) or _uniform(x, ragged_axis, scope) for path, x in operands.items()]
    return _concat_rows(parts, scope) if axis == ragged_axis else _append_rows(parts, scope)


def _uniform(x: Expr, position: int, scope: PartsScope) -> RaggedParts:
    """Returns a dense tensor as a ragged one whose rows have one length."""
    emit, info = scope.emit, x.struct_info
    sizes: Any = info.dims
    if not isinstance(sizes, tuple):
        message = f"expected a tensor of known sizes or with a ragged axis, found {info}"
        hint = 'declare the sizes: `R.match_cast(x, R.Tensor(("n", "m")))`'
        raise StructInfoError(Diagnostic(message, hint=hint, code="E0217"))
    leading, size = sizes[:position], sizes[position]
    rows = Rows(set(), leading, 0, x, x)
    steps = emit(arange(PrimValue(rows.count), dtype="int64"))
    starts = emit(multiply(steps, full_like(steps, PrimValue(size))))
    limits = emit(add(starts, full_like(steps, PrimValue(size))))
    total = rows.count * size
    values = emit(reshape(x, ShapeExpr((total, *sizes[position + 1 :]))))
    if position > 1:
        starts, limits = [emit(reshape(v, ShapeExpr(leading))) for v in (starts, limits)]
    rows = Rows({(starts, limits)}, leading, total, starts, limits)
    return RaggedParts(values, rows)


def _concat_rows(parts: list[RaggedParts], scope: PartsScope) -> RaggedParts:
    """Concatenates each row with the rows of the same number of other tensors."""
    keys = tuple([min(map(str, map(_key_id, p.rows.keys))) for p in parts])
    rows = scope.rows.get(("concat", keys))
    if rows is None:
        rows = _joined_rows([p.rows for p in parts], scope)
        rows.keys = {("concat", keys)}
        scope.add_rows(rows)
    values, own = parts[0].values, scope.flat_rows(parts[0].rows)
    for k, part in enumerate(parts[1:], 2):
        joined = rows if k == len(parts) else _joined_rows([p.rows for p in parts[:k]], scope)
        to = scope.flat_rows(joined)
        other = scope.flat_rows(part.rows)
        values = scope.emit(concat_rows(values, *own, part.values, *other, to[0]))
        own = to
    return RaggedParts(values, rows)


def _joined_rows(several: list[Rows], scope: PartsScope) -> Rows:
    """Returns rows of the lengths of the rows of the same number together. Their ends are the sums
    of the ends of these rows."""
    emit, first, total = scope.emit, several[0], sum([rows.total for rows in several])
    starts, limits = first.starts, first.limits
    for rows in several[1:]:
        starts, limits = emit(add(starts, rows.starts)), emit(add(limits, rows.limits))
    return Rows(set(), first.leading, total, starts, limits)


def _key_id(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple([_key_id(part) for part in key])
    return key if isinstance(key, str | int) else id(key)


def _append_rows(parts: list[RaggedParts], scope: PartsScope) -> RaggedParts:
    """Concatenates along the first axis: the rows of one tensor after those of another."""
    emit = scope.emit
    values = emit(concat(tuple([part.values for part in parts]), axis=0))
    starts, limits = list[Expr](), list[Expr]()
    total: Dim = 0
    for part in parts:
        shift = full_like(part.rows.starts, PrimValue(total))
        starts.append(emit(add(part.rows.starts, shift)))
        limits.append(emit(add(part.rows.limits, shift)))
        total = total + part.rows.total
    all_starts = emit(concat(tuple(starts), axis=0))
    all_limits = emit(concat(tuple(limits), axis=0))
    info: Any = all_starts.struct_info
    keys = tuple([min(map(str, map(_key_id, p.rows.keys))) for p in parts])
    rows = Rows({("append", keys)}, info.dims, total, all_starts, all_limits)
    return RaggedParts(values, scope.add_rows(rows))


RULES: dict[str, Rule] = {
    "ragged.values": _values,
    "ragged.row_starts": _row_starts,
    "ragged.row_limits": _row_limits,
    "ragged.row_lengths": _row_lengths,
    "ragged.from_values": _from_values,
    "ragged.to_padded": _to_padded,
    "ragged.from_padded": _from_padded,
    "concat": _concat,
    "take": _take,
}
