"""Decides whether a result can share the memory of an operand: in-place updates and views."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.polynomial import Opaque, Poly, rewritten
from structir.projections.scalar_expr import OperandElement
from structir.projections.spec import AccessIndex, IndexSpec, Statement


def can_update_in_place(spec: IndexSpec, operands: Sequence[int]) -> bool:
    """Whether the only result can overwrite these operands elementwise.

    Requires that each point reads from them only the element at the address that it writes.
    """
    if len(spec.results) != 1 or len(spec.statements) != 1 or spec.base is not None:
        return False
    (statement,) = spec.statements
    if statement.whole or statement.reduce or statement.conditions or len(statement.writes) != 1:
        return False
    size = prod(spec.results[0].dims)
    if any(dims.equal(prod(spec.operands[k].dims), size) is not True for k in operands):
        return False
    write = statement.writes[0]
    injective = write.unique and all(entry.inside for entry in write.entries)
    written = _address(write.entries) if injective else None
    read = [_address(read.entries) for read in statement.reads if read.operand in operands]
    return written is not None and all(
        address is not None and dims.equal(address, written) is True for address in read
    )


def is_view(spec: IndexSpec, operand: int) -> bool:
    """Whether the result is a reshaped view of an operand."""
    if not can_update_in_place(spec, [operand]):
        return False
    statement: Statement = spec.statements[0]
    reads = [read.name for read in statement.reads if read.operand == operand]
    same_dtype = spec.results[0].dtype == spec.operands[operand].dtype
    return same_dtype and [statement.writes[0].value] == [OperandElement(name) for name in reads]


def _address(entries: Sequence[AccessIndex]) -> Dim | None:
    """Returns the row-major address of an access; None if it is unknown.

    The index of the first axis may be unchecked: the address is compared with one that is in bounds
    of a tensor with as many elements.
    """
    address: Dim = 0
    for number, entry in enumerate(entries):
        if entry.data is not None or entry.loose or entry.whole or not (entry.inside or not number):
            return None
        address = address * entry.size + entry.dim
    return _without_remainders(address)


def _without_remainders(dim: Dim) -> Dim:
    """Returns the dim with `a % b` replaced by `a - a // b * b`, so that split indices cancel."""
    while type(dim) is Poly:
        atoms = {atom for monomial in dim.terms for atom in monomial}
        replacements = {
            atom: atom.args[0] - dims.floordiv(*atom.args) * atom.args[1]
            for atom in atoms
            if type(atom) is Opaque and atom.fn == "floormod"
        }
        if not replacements:
            break
        dim = rewritten(dim, replacements)
    return dim
