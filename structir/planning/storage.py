"""Plans shared memory for the values of a sequence, by lifetimes and in-place writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd, prod
from typing import Any

import attrs

from structir.analysis.purity import is_pure_value
from structir.analysis.variables import variables_in
from structir.ir.dims import Dim, Poly, Sym, exact_quotient, syms
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Binding, Call, Expr, GlobalVar, SeqExpr, Tuple, Var, VarBinding
from structir.ir.op import Op
from structir.ir.struct_info import KernelStructInfo, TensorStructInfo
from structir.opdef.memo import spec_of
from structir.ops.ragged import has_ragged_axis
from structir.planning.layout import assign_offsets
from structir.projections.aliasing import can_update_in_place, is_view

ALIGNMENT = 64  # bytes, for constant sizes; symbolic sizes keep elements aligned


@attrs.define(eq=False)
class StorageBlock:
    """The memory of one value, and of values that overwrite it."""

    size: Dim
    element: int  # bytes of one element: the alignment
    first: int
    last: int


@attrs.frozen(eq=False)
class Storage:
    """One allocation and the offsets of its blocks."""

    size: Dim
    offsets: Mapping[StorageBlock, Dim]


class Lifetimes:
    """The lifetimes of the values of a sequence that the plan allocates.

    A value is live until the last use of any possible view of it: fields of tuples, results of
    branches and calls, reshapes. Values that may be part of the result are not allocated: the
    caller owns them.
    """

    def __init__(self, seq: SeqExpr, bound: Iterable[Sym], in_place: bool) -> None:
        self.bound_dims, self.in_place = frozenset(bound), in_place
        self.blocks: dict[Var, StorageBlock] = {}
        self.views: dict[Var, frozenset[Var]] = {}  # the values that a variable may be a view of
        self.allocated: set[Var] = set()  # values that need new memory
        self.overwritten: dict[Var, Var] = {}  # values that overwrite others, by variable
        bindings = seq.bindings()
        last, escaping = self._views_of(bindings, seq)
        for step, binding in enumerate(bindings):
            var = binding.var
            if var in self.allocated and var not in escaping:
                end = last.get(var, step)
                reused = self._reusable_block(binding, step, end, last)
                self.blocks[var] = reused or _new_block(var.struct_info, step, end)

    def _views_of(
        self, bindings: Sequence[Binding], seq: SeqExpr
    ) -> tuple[dict[Var, int], set[Var]]:
        """Returns the last use of each value, and the values that may escape."""
        last: dict[Var, int] = {}
        escaping: set[Var] = set()
        for step, binding in enumerate(bindings):
            value = binding.value
            read = self._read_values((value, binding.var.struct_info))
            last |= dict.fromkeys(read, step)
            if not is_pure_value(value):
                escaping |= read
            allocates = (
                planned_call(binding) and syms_of(binding.var.struct_info) <= self.bound_dims
            )
            if allocates and not is_view_call(value):  # type: ignore[arg-type]
                self.allocated.add(binding.var)
                self.views[binding.var] = frozenset({binding.var})
            else:
                self.views[binding.var] = frozenset(read)
        return last, escaping | self._read_values(seq.body)

    def _read_values(self, part: Any) -> set[Var]:
        """Returns the values that a part of the program may read."""
        read = [self.views[var] for var in variables_in(part) if var in self.views]
        return set().union(*read)

    def _reusable_block(
        self, binding: Binding, step: int, end: int, last: Mapping[Var, int]
    ) -> StorageBlock | None:
        """Returns the block of a dead operand that the result can overwrite, if any."""
        spec = spec_of(binding.value) if self.in_place else None
        if spec is None:
            return None
        call: Any = binding.value
        for info in spec.operands:
            operand = call.args[info.path[0]]
            sources = self.views.get(operand) if len(info.path) == 1 else None
            source = next(iter(sources)) if sources is not None and len(sources) == 1 else None
            if source not in self.blocks or last[source] != step:
                continue
            block = self.blocks[source]
            aliases = [
                k
                for k, other in enumerate(spec.operands)
                if source in self._read_values(call.args[other.path[0]])
            ]
            if bytes_of(binding.var.struct_info) == block.size and can_update_in_place(
                spec, aliases
            ):
                block.last = end
                self.overwritten[binding.var] = source
                return block
        return None


def planned_call(binding: Binding) -> bool:
    """Whether a binding computes one new tensor of known shape and dtype."""
    value, info = binding.value, binding.var.struct_info
    if not isinstance(binding, VarBinding) or type(value) is not Call:
        return False
    if type(info) is not TensorStructInfo or type(info.dims) is not tuple or info.dtype is None:
        return False
    if type(value.op) is GlobalVar:
        kernel = isinstance(value.op.struct_info, KernelStructInfo)
        return kernel and len(value.sinfo_args) == 1 and value.sinfo_args[0] == info
    if any([has_ragged_axis(v.struct_info) for a in value.args for v in _members(a)]):
        return False  # the call is lowered to several
    pure = type(value.op) is Op and value.op.definition.pure
    return pure and value.struct_info == info and len(value.args) > 0


def _members(value: Expr) -> tuple[Expr, ...]:
    return value.fields if isinstance(value, Tuple) else (value,)


def _new_block(info: Any, first: int, last: int) -> StorageBlock:
    return StorageBlock(bytes_of(info), numpy_dtype(info.dtype).itemsize, first, last)


def bytes_of(info: Any) -> Dim:
    """Returns the size of a tensor in bytes."""
    size: Dim = prod(info.dims) * numpy_dtype(info.dtype).itemsize
    return size


def syms_of(info: Any) -> frozenset[Sym]:
    """Returns the symbolic dims of a tensor."""
    return frozenset[Sym]().union(*[syms(d) for d in info.dims if type(d) is Poly])


def is_view_call(call: Call) -> bool:
    """Whether a call returns a view of its operand."""
    spec = spec_of(call)
    return spec is not None and any(is_view(spec, k) for k in range(len(spec.operands)))


def plan_storages(blocks: Sequence[StorageBlock]) -> list[Storage]:
    """Assigns blocks to storages: one per symbolic unit of which the sizes are multiples.

    Offsets of blocks with a common unit can be compared.
    """
    by_unit: dict[Dim, list[tuple[StorageBlock, int]]] = {}
    for block in dict.fromkeys(blocks):
        factor, unit = _factored(block.size)
        by_unit.setdefault(unit, []).append((block, factor))
    storages = []
    for unit, factors in by_unit.items():
        aligned = ALIGNMENT if unit == 1 else max(block.element for block, _ in factors)
        members = [(block, -(-factor // aligned) * aligned) for block, factor in factors]
        spans = [(block.first, block.last) for block, _ in members]
        offsets, arena_size = assign_offsets(spans, [size for _, size in members])
        pairs = zip(members, offsets, strict=True)
        block_offsets = {block: offset * unit for (block, _), offset in pairs}
        storages.append(Storage(arena_size * unit, block_offsets))
    return storages


def _factored(size: Dim) -> tuple[int, Dim]:
    """Returns a size as an integer factor and a symbolic unit; the unit of an integer is 1."""
    if isinstance(size, int):
        return size, 1
    factor = gcd(size.constant, *size.terms.values())
    unit = exact_quotient(size, factor)
    return (1, size) if unit is None else (factor, unit)
