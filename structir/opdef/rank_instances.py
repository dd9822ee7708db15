"""Instances of a call with row variables or unknown ranks, at small ranks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from structir.errors import DiagnosticError
from structir.ir.axes import AnySize, Labelled, Ragged, RowVar
from structir.ir.dims import Dim, sym
from structir.ir.expr import Call, Expr, Tuple, Var
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo, leaf_infos

RANKS = range(4)  # of row variables
UNKNOWN_RANKS = range(6)  # of tensors of unknown rank
MOST = 64  # instances of one call
SHARED = "n"  # the size of all axes that only an instance has

NewSize = Callable[[], Dim]


def instances(call: Call) -> Iterator[Call]:
    """Yields calls of the op over tensors of known rank: each row variable becomes some axes.

    Axes of row variables have sizes of their own, or, for tensors of unknown rank that a signature
    relates, one size.
    """
    rows = sorted({row for info in _infos(call.args) for row in _rows(info)}, key=_order)
    unknown = any(_has_unknown_rank(info) for info in _infos(call.args))
    counts = [RANKS] * len(rows) + [UNKNOWN_RANKS] * unknown
    for sizes_differ in (True, False):
        count = 0
        for ranks in itertools.islice(itertools.product(*counts), MOST):
            instance = _instance(call, dict(zip([*rows, None], ranks, strict=False)), sizes_differ)
            if instance is not None:
                count += 1
                yield instance
        if count:
            return


def has_known_ranks(call: Call) -> bool:
    """Whether the axes of all tensor operands are plain sizes."""
    return all(isinstance(info.dims, tuple) for info in _infos(call.args))


def is_of_scalars(call: Call) -> bool:
    """Whether all tensor operands have rank 0."""
    return all(info.dims == () for info in _infos(call.args))


def _order(row: RowVar) -> int:
    return row.order


def _infos(args: tuple[Expr, ...]) -> Iterator[TensorStructInfo]:
    for arg in args:
        if isinstance(arg, Tuple):
            yield from _infos(arg.fields)
        else:
            infos = leaf_infos(arg.struct_info)
            yield from (info for info in infos if isinstance(info, TensorStructInfo))


def _rows(info: TensorStructInfo) -> set[RowVar]:
    return {axis for axis in info.axes or () if isinstance(axis, RowVar)}


def _has_unknown_rank(info: TensorStructInfo) -> bool:
    return info.ndim is None and not _rows(info)


def _instance(call: Call, ranks: Mapping[RowVar | None, int], sizes_differ: bool) -> Call | None:
    """Returns the call at ranks; None where the op does not accept them."""
    sizes = _InstanceSizes(ranks, sizes_differ)
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    args = tuple([sizes.argument(arg) for arg in call.args])
    named = {
        name: arg
        for name, arg in zip(definition.argument_names, args, strict=False)
        if not (isinstance(arg, Tuple) and not arg.fields)
    }
    try:
        instance: Call = definition.bind((), {**named, **call.attrs}, call.span)
    except DiagnosticError:
        return None
    return instance


@attrs.frozen(eq=False)
class _InstanceSizes:
    """The sizes of one instance."""

    ranks: Mapping[RowVar | None, int]
    differ: bool
    axes: dict[RowVar | None, tuple[Dim, ...]] = attrs.Factory(dict)
    shared: Dim = attrs.Factory(lambda: sym(SHARED))

    def argument(self, arg: Expr) -> Expr:
        """Returns an argument, with tensors replaced by variables of known rank."""
        if isinstance(arg, Tuple):
            return replace(arg, fields=tuple([self.argument(field) for field in arg.fields]))
        info = self.info(arg.struct_info)
        return arg if info is arg.struct_info else Var(getattr(arg, "name", "value"), info)

    def info(self, info: Any) -> Any:
        """Returns a StructInfo at the ranks."""
        if isinstance(info, TupleStructInfo):
            fields = tuple([self.info(field) for field in info.fields])
            changed = any(a is not b for a, b in zip(fields, info.fields, strict=True))
            return TupleStructInfo(fields, info.names) if changed else info
        if not isinstance(info, TensorStructInfo) or (
            isinstance(info.dims, tuple) and info.axes is None
        ):
            return info
        return TensorStructInfo(tuple(self.sizes(info)), info.element)

    def sizes(self, info: TensorStructInfo) -> Iterator[Dim]:
        """Yields the sizes of a tensor."""
        if info.axes is None:
            count = self.ranks[None] if info.ndim is None else info.ndim
            row = self.row(None, max(count, max(UNKNOWN_RANKS)))
            yield from row[len(row) - count :]
            return
        for axis in info.axes:
            size = axis.size if isinstance(axis, Labelled) else axis
            if isinstance(size, RowVar):
                yield from self.row(size, self.ranks[size])
            else:
                yield self.shared if isinstance(size, AnySize | Ragged) else size

    def row(self, row: RowVar | None, count: int) -> tuple[Dim, ...]:
        """Returns the axes of a row variable; None: of tensors of unknown rank."""
        if row not in self.axes:
            name = "u" if row is None else row.name or "s"
            own = [sym(f"{name}_{k}") if self.differ else self.shared for k in range(count)]
            self.axes[row] = tuple(own)
        return self.axes[row]
