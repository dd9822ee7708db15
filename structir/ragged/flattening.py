"""Calls whose loops over the rows and the ragged axis become one loop over the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.batching.candidates import AXIS_KINDS, same_spec, with_operand
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Call, Expr, ShapeExpr, Tuple, Var
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo
from structir.opdef.batched_op import Path
from structir.ops.layout import broadcast_to
from structir.ops.reshape import reshape
from structir.ops.segments import segment_expand
from structir.projections.scalar_expr import LoopIndex, walk
from structir.projections.spec import AccessIndex, IndexSpec, Read, Statement, Write
from structir.ragged.parts import PartsScope, RaggedParts, Rows

Group = tuple[Sym, ...]
DEFAULT = object()  # in place of an attribute that calls leave out


@attrs.frozen(eq=False)
class DenseForm:
    """A call with a dense axis in place of the ragged axis of its operands, as `call`.

    `original` has the operands of the program. `leading` are symbols for the numbers of rows.
    """

    call: Call
    original: Call
    spec: IndexSpec
    ragged: Mapping[Path, RaggedParts]
    rows: Rows
    leading: tuple[Dim, ...]

    @property
    def is_decided(self) -> bool:
        """Whether no ragged operand may broadcast along its rows."""
        return not any(
            [
                entry.loose
                for statement in self.spec.statements
                for read in statement.reads
                if self.spec.operands[read.operand].path in self.ragged
                for entry in read.entries[: self.group_size]
            ]
        )

    def result_dims(self) -> tuple[Dim, ...]:
        """Returns the sizes of the result, with the numbers of rows of the program."""
        info: Any = self.call.struct_info
        pairs = zip(self.leading, self.rows.leading, strict=True)
        numbers: Any = {dims.as_sym(symbol): number for symbol, number in pairs}
        return tuple([dims.substitute(d, numbers) for d in info.dims])

    @property
    def group_size(self) -> int:
        """The number of axes up to the ragged one."""
        return len(self.rows.leading) + 1

    def operand(self, path: Path) -> Any:
        """Returns the operand at a path of the arguments."""
        arg: Any = self.original.args[path[0]]
        for member in path[1:]:
            arg = arg.fields[member]
        return arg

    def group(self, statement: Statement) -> Group | None:
        """Returns the loops over rows and the ragged axis; None unless every ragged operand is
        read at exactly these."""
        groups = {
            _plain_group(r.entries, self.group_size)
            for r in statement.reads
            if self.spec.operands[r.operand].path in self.ragged
        }
        if not statement.reads and len(statement.writes) == 1:  # only the sizes are read
            return _plain_group(statement.writes[0].entries, self.group_size)
        return groups.pop() if len(groups) == 1 else None


def _plain_group(entries: Sequence[AccessIndex], count: int) -> Group | None:
    """Returns the loops of the first axes, if each index is one of them."""
    group = []
    for entry in entries[:count]:
        symbol = None if entry.data is not None or entry.loose else dims.as_sym(entry.index)  # type: ignore[arg-type]
        if symbol is None or entry.whole or symbol in group:
            return None
        group.append(symbol)
    inside = frozenset(group)
    if len(group) < count or any([inside & e.index_vars for e in entries[count:]]):
        return None
    return tuple(group)


def flattened(form: DenseForm, scope: PartsScope) -> Call | None:
    """Returns the call over the values of the rows; None if its loops over rows are not parallel
    and independent.

    The call is of the same op. Its index spec is that of the dense form, with one loop over all
    values in place of the loops over rows and the ragged axis.
    """
    groups = [form.group(statement) for statement in form.spec.statements]
    if not groups or None in groups:
        return None
    if not all(map(_is_parallel, form.spec.statements, groups)):  # type: ignore[arg-type]
        return None
    alignments = list(_alignments(form, groups[0]))  # type: ignore[arg-type]
    for stripped in range(max([a.leading_ones for a in alignments], default=0) + 1):
        target = _merged_spec(form, groups, alignments, stripped)  # type: ignore[arg-type]
        operands = {a.path: a.flat(form, stripped) for a in alignments}
        for attributes in _attributes(form):
            call = _with_operands(form.original, operands, attributes)
            if call is not None and target is not None and _computes(call, target):
                values = {a.path: a.emitted(form, stripped, scope) for a in alignments}
                return _with_operands(form.original, values, attributes)
    return None


def _is_parallel(statement: Statement, group: Group) -> bool:
    """Whether every write is at the loops of the group, which nothing else of it depends on."""
    inside = frozenset(group)
    if inside & {*statement.reduce, *statement.whole} or not inside <= {*statement.parallel}:
        return False
    if any([inside & dims.syms(d) for c in statement.conditions for d in (c.left, c.right)]):
        return False
    for write in statement.writes:
        if _plain_group(write.entries, len(group)) != group:
            return False
        nodes = [] if write.value is None else walk(write.value)
        if any([isinstance(n, LoopIndex) and n.index_var in inside for n in nodes]):
            return False
    return True


# ---- operands


@attrs.frozen(eq=False)
class Alignment:
    """How one operand follows the loops over rows."""

    path: Path
    info: TensorStructInfo
    ragged: RaggedParts | None = None
    rows_end: int | None = None  # of an operand with one slice per row: its axis of size 1
    leading_ones: int = 0  # of an operand without the loops: axes of size 1 in front

    def dims(self, form: DenseForm, stripped: int) -> tuple[Dim, ...]:
        """Returns the sizes of the operand of the flat call."""
        sizes: tuple[Dim, ...] = self.info.dims
        if self.ragged is not None:
            return (form.rows.total, *self.ragged.inner)
        if self.rows_end is not None:
            return (form.rows.total, *sizes[self.rows_end + 1 :])
        return sizes[min(stripped, self.leading_ones) :]

    def flat(self, form: DenseForm, stripped: int) -> Expr:
        """Returns a placeholder of the operand of the flat call."""
        return Var("operand", TensorStructInfo(self.dims(form, stripped), self.info.element))

    def entries(self, read: Read, form: DenseForm, stripped: int, index: AccessIndex) -> Any:
        """Returns the indices of a read in the flat call."""
        if self.ragged is not None:
            return (index, *read.entries[form.group_size :])
        if self.rows_end is not None:
            return (index, *read.entries[self.rows_end + 1 :])
        return read.entries[min(stripped, self.leading_ones) :]

    def emitted(self, form: DenseForm, stripped: int, scope: PartsScope) -> Expr:
        """Returns the operand of the flat call; binds what it is computed from."""
        if self.ragged is not None:
            return self.ragged.values
        operand: Expr = form.operand(self.path)
        if self.rows_end is not None:
            return expand_rows(operand, self.rows_end, form.rows, scope)
        if not min(stripped, self.leading_ones):
            return operand
        return scope.emit(reshape(operand, ShapeExpr(self.dims(form, stripped))))


def expand_rows(x: Expr, position: int, rows: Rows, scope: PartsScope) -> Expr:
    """Returns a tensor with one slice per row, repeated for every value of the row.

    Axis `position` of the tensor, of size 1, is in place of the ragged axis.
    """
    sizes: Any = x.struct_info.dims
    rest = sizes[position + 1 :]
    x = scope.emit(reshape(x, ShapeExpr((*sizes[:position], *rest))))
    if sizes[:position] != rows.leading:
        x = scope.emit(broadcast_to(x, ShapeExpr((*rows.leading, *rest))))
    if len(rows.leading) > 1:
        x = scope.emit(reshape(x, ShapeExpr((rows.count, *rest))))
    return scope.emit(segment_expand(x, scope.ids(rows), *scope.flat_rows(rows)))


def _alignments(form: DenseForm, group: Group) -> Iterator[Alignment]:
    inside = frozenset(group)
    for k, operand in enumerate(form.spec.operands):
        info = TensorStructInfo(operand.dims, operand.dtype)
        if operand.path in form.ragged:
            yield Alignment(operand.path, info, form.ragged[operand.path])
            continue
        reads = [r for s in form.spec.statements for r in s.reads if r.operand == k]
        ends = {
            p + len(group) - 1 - group.index(symbol)
            for r in reads
            for p, e in enumerate(r.entries)
            for symbol in inside & e.index_vars
        }
        ones = 0
        while ones < len(operand.dims) and operand.dims[ones] == 1:
            ones += 1
        if ends:
            yield Alignment(operand.path, info, rows_end=max(ends))
        else:
            yield Alignment(operand.path, info, leading_ones=ones)


# ---- the flat call, and the proof that it computes the ragged one


def _merged_spec(
    form: DenseForm, groups: Sequence[Group], alignments: Sequence[Alignment], stripped: int
) -> IndexSpec | None:
    """Returns the spec of the dense form with one loop over all values in place of the group."""
    spec, total = form.spec, form.rows.total
    ((symbol),) = dims.syms(dims.sym("value"))
    index = AccessIndex(dims.as_dim(symbol), total)
    paths = {a.path: a for a in alignments}
    if not all([_follows(a, form, g) for a in alignments for g in groups]):
        return None

    def merged(statement: Statement, group: Group) -> Statement:
        def read(r: Read) -> Read:
            alignment = paths[spec.operands[r.operand].path]
            return attrs.evolve(r, entries=alignment.entries(r, form, stripped, index))

        def write(w: Write) -> Write:
            return attrs.evolve(w, entries=(index, *w.entries[len(group) :]))

        rest = tuple([s for s in statement.parallel if s not in group])
        return attrs.evolve(
            statement,
            parallel=(symbol, *rest),
            reads=tuple(map(read, statement.reads)),
            writes=tuple(map(write, statement.writes)),
        )

    operands = [attrs.evolve(o, dims=paths[o.path].dims(form, stripped)) for o in spec.operands]
    results = [attrs.evolve(r, dims=(total, *r.dims[form.group_size :])) for r in spec.results]
    statements = tuple(map(merged, spec.statements, groups))
    extents = {symbol: total, **spec.extents}
    return IndexSpec(tuple(operands), tuple(results), extents, statements, spec.fill, spec.base)


def _follows(alignment: Alignment, form: DenseForm, group: Group) -> bool:
    """Whether an operand with one slice per row is read at the rows, and at 0 of the next axis."""
    if alignment.rows_end is None:
        return True
    end, sizes = alignment.rows_end, alignment.info.dims
    if end >= len(sizes) or end >= form.group_size or sizes[end] != 1:
        return False
    expected = group[: form.group_size - 1][-end:]
    for statement in form.spec.statements:
        for read in statement.reads:
            if form.spec.operands[read.operand].path != alignment.path:
                continue
            if any([e.data is not None for e in read.entries[: end + 1]]):
                return False
            pairs = zip(read.entries[:end], expected, strict=True)
            if any([e.index_vars & frozenset(group) - {s} for e, s in pairs]):
                return False
            if any([e.index_vars & frozenset(group) for e in read.entries[end:]]):
                return False
    return True


def _computes(call: Call, target: IndexSpec) -> bool:
    """Whether a call has this index spec."""
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    try:
        spec = definition.index_spec(call)
    except DiagnosticError:
        return False
    if spec is None or [r.dims for r in spec.results] != [r.dims for r in target.results]:
        return False
    return same_spec(spec, target, {})


def _with_operands(
    call: Call, operands: Mapping[Path, Expr], attributes: Mapping[str, Any]
) -> Call | None:
    """Returns a call with other operands and attributes; None if it is invalid."""
    args = list(call.args)
    for path, value in operands.items():
        args[path[0]] = with_operand(args[path[0]], path[1:], value)
    attrs_of_call = {**call.attrs, **attributes}
    attrs_of_call = {name: v for name, v in attrs_of_call.items() if v is not DEFAULT}
    built = replace(call, args=tuple(args), attrs=attrs_of_call, struct_info=None)
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    try:
        return replace(built, struct_info=definition.deduce(built))
    except DiagnosticError:
        return None


def _attributes(form: DenseForm) -> Iterator[Mapping[str, Any]]:
    """Yields attributes of the flat call: axes counted with one axis in place of the group."""
    definition: Any = form.call.op.definition  # type: ignore[attr-defined]
    path = next(iter(form.ragged))
    rank = len(form.operand(path).struct_info.axes)
    shifted: dict[str, Any] = {}
    for parameter in definition.signature.parameters:
        expected = getattr(parameter.kind, "expected", "")
        if parameter.is_argument or expected not in AXIS_KINDS:
            continue
        value = form.call.attrs.get(parameter.name, parameter.default)
        if value is not None:
            shifted[parameter.name] = shifted_axes(value, form.group_size, rank)
            if shifted[parameter.name] == parameter.default:
                shifted[parameter.name] = DEFAULT
    if None not in shifted.values():
        yield shifted


def shifted_axes(value: Any, group: int, rank: int) -> Any:
    """Returns axes after a group of axes became one; None for an axis of the group."""
    if isinstance(value, tuple):
        if value[:group] == tuple(range(group)):
            rest = [shifted_axes(axis, group, rank) for axis in value[group:]]
            return None if None in rest else (0, *rest)
        axes = [shifted_axes(axis, group, rank) for axis in value]
        return None if None in axes else tuple(axes)
    if value < 0:
        return value if value + rank >= group else None
    return value - group + 1 if value >= group else None


def operand_paths(call: Call) -> Iterator[tuple[Path, Any]]:
    """Yields the operands of a call with their paths, those in tuples too."""
    for k, arg in enumerate(call.args):
        if isinstance(arg, Tuple):
            yield from (((k, n), field) for n, field in enumerate(arg.fields))
        else:
            yield (k,), arg
