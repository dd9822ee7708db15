"""Translates index signatures to constraint schemes for the solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add, mul
from typing import Any

import attrs

from structir.ir.dims import Dim, Poly, as_dim
from structir.ir.expr import Call, Expr, Tuple, Var
from structir.ir.polynomial import Opaque
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef import deduction
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.call_view import CallView, UnknownShape
from structir.opdef.define import SignatureOpDefinition
from structir.opdef.index_expr import (
    AttributeRef,
    AxisPack,
    FlattenedIndex,
    IndexExpr,
    IndexExtent,
    IndexVar,
    IntLiteral,
    evaluate,
)
from structir.opdef.notation import AxisIndex, IndexSignature, OperandAccess, SideCondition
from structir.opdef.shape_eval import UNKNOWN
from structir.solver.constraints.constraint import (
    AxisStack,
    Constraint,
    DimEq,
    DimJoin,
    DimLe,
    Ge,
    Ne,
    Prod,
    RowJoin,
    RowLe,
    RowStack,
    Sum,
    Window,
)
from structir.solver.constraints.scheme import Scheme, free_rows
from structir.solver.domains.terms import (
    Element,
    Row,
    RowVar,
    row_vars,
    sizes,
    symbol_of,
    variables,
)
from structir.solver.propagation.arithmetic import fresh

Paths = tuple[tuple[int, int | None], ...]  # by operand: argument index, and index in a list


@attrs.frozen(eq=False)
class OpScheme:
    """The constraint scheme of a call, and the paths of its operands in the arguments."""

    scheme: Scheme
    paths: Paths
    index_signature: IndexSignature


__all__ = ["InvalidCall", "OpScheme", "depends_on_ranks", "scheme_of"]

_MEMO: dict[Any, OpScheme] = {}
MEMO_SIZE = 4096


def depends_on_ranks(call: Call) -> bool:
    """Returns whether the index signature of a call depends on ranks."""
    definition = call.op.definition  # type: ignore[attr-defined]
    return isinstance(definition, SignatureOpDefinition) and callable(definition.index_signature)


def depends_on_sizes(call: Call) -> bool:
    """Returns whether the index signature of a call depends on sizes, such as a number of axes."""
    return depends_on_ranks(call) and call.op.definition.reads_sizes  # type: ignore[attr-defined]


def scheme_of(call: Call, infos: Sequence[StructInfo | None]) -> OpScheme | None:
    """Returns the scheme of a call for these StructInfos; None for an op without a signature.

    Raises InvalidCall where ranks or attributes are invalid.
    """
    definition = call.op.definition  # type: ignore[attr-defined]
    if not isinstance(definition, SignatureOpDefinition) or "struct_info" in definition.hooks:
        return None
    key = _call_key(definition, call, infos)
    op_scheme = _MEMO.get(key) if key is not None else None
    if op_scheme is None:
        op_scheme = _scheme_of(definition, call, infos)
        _remember(key, op_scheme)
    return op_scheme


def _scheme_of(
    definition: SignatureOpDefinition, call: Call, infos: Sequence[StructInfo | None]
) -> OpScheme:
    args = tuple([_with_info(a, info) for a, info in zip(call.args, infos, strict=True)])
    call_view = deduction.call_arguments(definition, args, call.attrs)
    resolved = deduction.resolve_call(definition, call_view)
    values = {**call_view.attributes, **resolved.attributes}
    present = tuple(
        [_is_present(call_view, access) for access in resolved.index_signature.operands]
    )
    key = _key(resolved, values, present)
    op_scheme = _MEMO.get(key) if key is not None else None
    if op_scheme is None:
        axes = {i: values[name] for i, name in resolved.at if isinstance(values[name], int)}
        scheme = _SchemeBuilder(resolved.index_signature, values, axes, present).scheme()
        paths = tuple(
            [p for p, is_present in zip(resolved.paths, present, strict=True) if is_present]
        )
        op_scheme = OpScheme(scheme, paths, resolved.index_signature)
        _remember(key, op_scheme)
    return op_scheme


def _remember(key: Any, op_scheme: OpScheme) -> None:
    if key is not None:
        if len(_MEMO) >= MEMO_SIZE:
            _MEMO.clear()
        _MEMO[key] = op_scheme


def _call_key(
    definition: SignatureOpDefinition, call: Call, infos: Sequence[StructInfo | None]
) -> Any:
    """Returns a key by op, ranks, dtypes and attributes; None if the scheme depends on others."""
    if definition.reads_sizes or definition.reads_indices:
        return None
    if not all([type(info) is TensorStructInfo for info in infos]):
        return None
    tensors = tuple([(info.ndim, info.element) for info in infos])  # type: ignore[union-attr]
    # types: 1, 1.0 and True are equal
    attributes = tuple([(n, type(v), v) for n, v in call.attrs.items()])
    return _hashable((definition, tensors, attributes))


def _hashable(key: Any) -> Any:
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _key(
    resolved: deduction.ResolvedCall, values: Mapping[str, Any], present: tuple[bool, ...]
) -> Any:
    key = (
        resolved.index_signature,
        present,
        tuple(values.items()),
        tuple([type(v) for v in values.values()]),
    )
    return _hashable(key)


def _with_info(arg: Expr, info: StructInfo | None) -> Expr:
    """Returns a variable with this StructInfo in place of an argument."""
    if info is None or info is arg.struct_info:
        return arg
    if isinstance(arg, Tuple) and isinstance(info, TupleStructInfo):
        return Tuple(tuple([Var("", field) for field in info.fields]))
    return Var("", info)


def _is_present(call_view: CallView, access: OperandAccess) -> bool:
    if access.name in call_view.operands:
        return call_view.operands[access.name] is not None
    return True


class _SchemeBuilder:
    """The builder of the scheme of one index signature."""

    def __init__(
        self,
        index_signature: IndexSignature,
        values: Mapping[str, Any],
        axes: Mapping[str, int],
        present: tuple[bool, ...],
    ) -> None:
        self.index_signature = index_signature
        self.values = values
        self.operands = [
            a for a, is_present in zip(index_signature.operands, present, strict=True) if is_present
        ]
        self.extents: dict[str, Dim] = {}
        self.rows: dict[str, Row] = {}
        self.unknown_sizes: dict[AttributeRef, Dim] = {}
        self.constraints: list[Constraint] = []
        self.loose_rows: dict[str, list[Row]] = {}
        self.loose_sizes: dict[str, list[Dim]] = {}
        self.stacked_rows: dict[str, list[Row]] = {}
        self.stacked_sizes: dict[str, list[Dim]] = {}
        results = [e for access in index_signature.results for e in access.entries]
        self.joined = frozenset([name for entry in results for name in entry.join])
        self._add_attribute_packs()
        for access in self.operands:
            self._add_packs_around(access, axes)
        self.strict = self._strict_names()

    def scheme(self) -> Scheme:
        self._bind_attribute_extents()
        operands = tuple([self._access(access, result=False) for access in self.operands])
        self._stack()
        results = tuple(
            [self._access(access, result=True) for access in self.index_signature.results]
        )
        self._join_loose()
        for condition in self.index_signature.where:
            self._add_condition(condition)
        constraints = tuple(self.constraints)
        fixed = [e for name in self.values for e in self.rows.get(name, ())]
        splits = free_rows(operands, constraints, fixed)
        return Scheme(operands, results, constraints, self._shared(), splits)

    # Axis packs

    def _add_attribute_packs(self) -> None:
        """Binds the axis packs whose dims are shape attributes."""
        for name, value in self.values.items():
            if isinstance(value, UnknownShape):
                ndim = value.ndim
                self.rows[name] = (
                    (RowVar(name),) if ndim is None else tuple([fresh() for _ in range(ndim)])
                )
            elif isinstance(value, tuple) and all(type(v) in (int, Poly) for v in value):
                self.rows[name] = tuple([self._axis_of_size(v) for v in value])

    def _axis_of_size(self, size: Dim) -> Dim:
        """Returns an axis of this size: a variable of the program may be the size of others too."""
        if symbol_of(size) is None:
            return size
        axis = fresh()
        self.constraints.append(DimEq(axis, size))
        return axis

    def _add_packs_around(self, access: OperandAccess, axes: Mapping[str, int]) -> None:
        """Binds the axis packs around an index variable whose axis is an attribute."""
        for position, entry in enumerate(access.entries):
            names = {
                f.name for f in (entry.index, entry.size) if isinstance(f, IndexVar | IndexExtent)
            }
            for name in names & axes.keys():
                axis = axes[name]
                from_front = axis >= 0
                part = access.entries[:position] if from_front else access.entries[position + 1 :]
                packs = [e.pack for e in part if e.pack is not None]
                count = (axis if from_front else -axis - 1) - (len(part) - len(packs))
                if len(packs) == 1 and count >= 0:
                    self.rows[packs[0]] = tuple([fresh() for _ in range(count)])

    def _strict_names(self) -> set[str]:
        """Returns the packs and index variables of axes that do not broadcast."""
        entries = [e for access in self.operands for e in access.entries if not e.loose]
        packs = {e.pack for e in entries if e.pack is not None} | self.rows.keys()
        extents = {e.size.name for e in entries if isinstance(e.size, IndexExtent)}
        return packs | extents

    def _row(self, name: str) -> Row:
        return self.rows.setdefault(name, (RowVar(name),))

    # Accesses

    def _access(self, access: OperandAccess, *, result: bool) -> Row:
        elements: list[Element] = []
        for entry in access.entries:
            if entry.pack is None:
                elements.append(self._axis(entry, result))
            elif entry.loose and not result:
                part: Row = (RowVar(entry.pack),)
                self.loose_rows.setdefault(entry.pack, []).append(part)
                elements += part
            elif self._is_stacked(entry.pack, result):
                part = _renewed_row(self._row(entry.pack))
                self.stacked_rows.setdefault(entry.pack, []).append(part)
                elements += part
            else:
                elements += self._row(entry.pack)
        return tuple(elements)

    def _axis(self, entry: AxisIndex, result: bool) -> Dim:
        if entry.size is None:
            return fresh()
        if entry.loose and isinstance(entry.index, IndexVar) and not result:
            name = entry.index.name
            axis = fresh() if entry.size == IndexExtent(name) else self._size(entry.size)
            self.loose_sizes.setdefault(name, []).append(axis)
            return axis
        size = self._size(entry.size)
        if isinstance(entry.size, IndexExtent) and self._is_stacked(entry.size.name, result):
            axis = _renewed(size)
            self.stacked_sizes.setdefault(entry.size.name, []).append(axis)
            return axis
        if result and entry.join:  # concatenated axes, of which some may be ragged
            parts = tuple([self._extent(name) for name in entry.join])
            if size == reduce(add, parts):
                size = fresh()
                self.constraints.append(Sum(size, parts))
        return size

    def _is_stacked(self, name: str, result: bool) -> bool:
        """Returns whether axes of an operand are beside those along which it is concatenated."""
        return bool(self.joined) and not result and name not in self.joined

    def _stack(self) -> None:
        for name, rows in self.stacked_rows.items():
            self.constraints.append(RowStack(self._row(name), tuple(rows)))
        for name, axes in self.stacked_sizes.items():
            self.constraints.append(AxisStack(self._extent(name), tuple(axes)))

    def _join_loose(self) -> None:
        for name, parts in self.loose_rows.items():
            if name in self.strict:
                self.constraints += [RowLe(part, self._row(name)) for part in parts]
            else:
                self.constraints.append(RowJoin(self._row(name), tuple(parts)))
        for name, axes in self.loose_sizes.items():
            extent = self._extent(name)
            if name in self.strict or type(extent) is int:
                self.constraints += [DimLe(axis, extent) for axis in axes]
            else:
                self.constraints.append(DimJoin(extent, tuple(axes)))

    # Sizes

    def _extent(self, name: str) -> Dim:
        if name not in self.extents:
            pack, _, index = name.rpartition("_")
            axes = self.rows.get(pack)
            if axes is not None and index.isdigit() and not row_vars(axes):
                self.extents[name] = sizes(axes)[int(index)]
            else:
                self.extents[name] = fresh(name)
        return self.extents[name]

    def _size(self, expr: IndexExpr) -> Dim:
        size: Dim = evaluate(expr, self._leaf)
        return size

    def _leaf(self, leaf: IndexExpr) -> Dim:
        match leaf:
            case IndexExtent(name):
                return self._extent(name)
            case AttributeRef():
                return self._attribute(leaf)
            case FlattenedIndex():
                return self._product(self._flat(leaf))
        raise TypeError(f"a size cannot use {leaf}")

    def _attribute(self, leaf: AttributeRef) -> Dim:
        value = self.values[leaf.name]
        for index in leaf.path:
            value = None if value is UNKNOWN or not isinstance(value, tuple) else value[index]
        if value is None or value is UNKNOWN or isinstance(value, UnknownShape):
            if leaf not in self.unknown_sizes:
                self.unknown_sizes[leaf] = fresh()
            return self.unknown_sizes[leaf]
        return as_dim(value)

    def _flat(self, expr: IndexExpr) -> Row:
        """Returns the axes of a flattened index."""
        match expr:
            case FlattenedIndex(parts):
                return tuple([axis for part in parts for axis in self._flat(part)])
            case AxisPack(name):
                return self._row(name)
            case IndexVar(name):
                return (self._extent(name),)
        return (self._size(expr),)

    def _product(self, axes: Row) -> Dim:
        if not row_vars(axes):
            return reduce(mul, sizes(axes), 1)
        count = fresh()
        self.constraints.append(Prod(axes, (count,)))
        return count

    # Side conditions

    def _bind_attribute_extents(self) -> None:
        """Binds index variables that a condition equates with an attribute."""
        for condition in self.index_signature.where:
            lhs, rhs = condition.left, condition.right
            if condition.op == "eq" and isinstance(lhs, IndexExtent) and _is_attribute(rhs):
                value = self._size(rhs)
                if lhs.name not in self.extents:
                    self.extents[lhs.name] = self._axis_of_size(value)

    def _add_condition(self, condition: SideCondition) -> None:
        lhs, rhs = self._size(condition.left), self._size(condition.right)
        match condition.op:
            case "eq":
                if lhs != rhs:
                    self.constraints.append(window_of(lhs, rhs) or DimEq(lhs, rhs))
            case "ne":
                self.constraints.append(Ne(lhs, rhs))
            case "ge" | "gt":
                self.constraints.append(Ge(lhs - rhs, int(condition.op == "gt")))
            case "le" | "lt":
                self.constraints.append(Ge(rhs - lhs, int(condition.op == "lt")))

    def _shared(self) -> Any:
        """Returns the symbolic variables of the program in attributes."""
        symbols: set[Any] = set()
        for value in self.values.values():
            for part in value if isinstance(value, tuple) else (value,):
                if type(part) is Poly:
                    symbols.update(variables(part))
        return frozenset(symbols)


def _renewed_row(row: Row) -> Row:
    """Returns a row of new template variables."""
    return tuple([RowVar(e.name) if isinstance(e, RowVar) else _renewed(e) for e in row])


def _renewed(size: Dim) -> Dim:
    """Returns a new template variable in place of one."""
    symbol = symbol_of(size)
    return size if symbol is None else fresh(symbol.name)


def _is_attribute(expr: IndexExpr) -> bool:
    return isinstance(expr, AttributeRef | IntLiteral)


def window_of(outer: Dim, positions: Dim) -> Window | None:
    """Matches `h == (H + c - d*(p - 1) - 1)//s + 1` as a window; None for another form.

    Multiples of `s` outside the quotient are moved into it.
    """
    if type(positions) is not Poly:
        return None
    atoms = [m[0] for m, c in positions.terms.items() if c == 1 and isinstance(m[0], Opaque)]
    if not atoms:
        window = _window(outer, positions - 1, 1)
        return window if window is not None and type(window.kernel) is not int else None
    if len(atoms) != 1 or atoms[0].fn != "floordiv":
        return None
    top, stride = atoms[0].args
    if type(stride) is not int:
        return None
    remainder = positions - Poly({(atoms[0],): 1}, 0) - 1
    span = top + remainder * stride
    return None if type(span) is int else _window(outer, span, stride)


def _window(outer: Dim, span: Any, stride: int) -> Window | None:
    inner: Dim | None = None
    kernel: Dim = 1
    dilation = 1
    for monomial, factor in span.terms.items():
        term = Poly({monomial: 1}, 0)
        if symbol_of(term) is not None and factor == 1 and inner is None:
            inner = term
        elif symbol_of(term) is not None and factor < 0 and type(kernel) is int:
            kernel, dilation = term, -factor
        else:
            return None
    if inner is None:
        return None
    pad = span.constant + 1 if type(kernel) is int else span.constant - dilation + 1
    return Window(outer, inner, kernel, stride, pad, dilation)
