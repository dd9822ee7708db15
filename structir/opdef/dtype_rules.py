"""The dtypes of operands and results that the index signature of a call equates or fixes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from structir.ir.expr import Call
from structir.ir.op import Op
from structir.opdef import deduction
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.define import SignatureOpDefinition
from structir.opdef.dtypes import family_of
from structir.opdef.notation import OperandAccess


@attrs.frozen
class DtypeTerm:
    """A dtype, or a variable: terms of one call with equal names have equal dtypes."""

    name: str
    is_variable: bool


@attrs.frozen(eq=False)
class DtypeRule:
    """The dtypes of one call; None where the signature determines nothing."""

    operands: tuple[tuple[tuple[int, int | None], DtypeTerm], ...]  # by argument, index in a list
    results: tuple[DtypeTerm | None, ...]


def dtype_rule(call: Call) -> DtypeRule | None:
    """Returns the dtypes of a call; None for an op without an index signature."""
    definition = call.op.definition if isinstance(call.op, Op) else None
    if not isinstance(definition, SignatureOpDefinition) or "struct_info" in definition.hooks:
        return None
    try:
        view = deduction.call_arguments(definition, call.args, call.attrs)
        resolved = deduction.resolve_call(definition, view)
    except InvalidCall:
        return None
    values = {**view.attributes, **resolved.attributes}
    accesses = resolved.index_signature.operands
    operands = tuple(
        [
            (path, _operand_term(access, values))
            for access, path in zip(accesses, resolved.paths, strict=True)
            if view.operands.get(access.name, access) is not None
        ]
    )
    bound = {term.name for _, term in operands if term.is_variable}
    results = [_result_term(access, bound, values) for access in resolved.index_signature.results]
    return DtypeRule(operands, tuple(results))


def _operand_term(access: OperandAccess, values: Mapping[str, Any]) -> DtypeTerm:
    name = access.dtypes[0]
    family = family_of(name)
    if family is None:
        return DtypeTerm(str(values.get(name, name)), False)
    dtypes = tuple(family[0])
    return DtypeTerm(dtypes[0], False) if len(dtypes) == 1 else DtypeTerm(name, True)


def _result_term(
    access: OperandAccess, bound: set[str], values: Mapping[str, Any]
) -> DtypeTerm | None:
    """Returns the dtype of a result: its first bound alternative."""
    for name in access.dtypes:
        if name in values:
            if values[name]:
                return DtypeTerm(str(values[name]), False)
        elif name in bound:
            return DtypeTerm(name, True)
        elif family_of(name) is None:
            return DtypeTerm(name, False)
    return None
