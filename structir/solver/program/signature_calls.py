"""Calls with a size signature: their results, and the check of run-time shapes."""

from __future__ import annotations

from collections.abc import Sequence

from structir.errors import Diagnostic, StructInfoError
from structir.ir.expr import Call
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.solver.constraints.signature import read_signature
from structir.solver.domains.reasons import Conflict, Origin
from structir.solver.program.result_refinement import refine_result
from structir.solver.solver import ConstraintSolver, Value

Shape = tuple[int, ...]


def result_of(call: Call) -> StructInfo:
    """Returns the StructInfo of the result. Raises StructInfoError if operands do not fit."""
    scheme = read_signature(call.attrs["signature"])
    if len(scheme.operands) != len(call.args):
        expected, count = len(scheme.operands), len(call.args)
        message = f"expected {expected} operands by the signature, found {count}"
        raise StructInfoError(Diagnostic(message, call.span, code="E0408"))
    infos = [arg.struct_info for arg in call.args]
    if not all(isinstance(info, TensorStructInfo) for info in infos):
        other = next(info for info in infos if not isinstance(info, TensorStructInfo))
        message = f"the operands of a size signature must be tensors: found {other}"
        raise StructInfoError(Diagnostic(message, call.span, code="E0408"))
    dtypes = {info.element for info in infos}
    dtype = call.attrs.get("dtype") or (dtypes.pop() if len(dtypes) == 1 else None)
    results = (TensorStructInfo(dtype=dtype),) * len(scheme.results)
    plain = results[0] if len(results) == 1 else TupleStructInfo(results)
    try:
        return refine_result(replace(call, struct_info=plain))
    except Conflict as conflict:
        message = f"the operands do not fit the signature: {conflict.message}"
        raise StructInfoError(Diagnostic(message, code="E0408")) from None


def violation_of(signature: str, operands: Sequence[Shape], results: Sequence[Shape]) -> str | None:
    """Returns how these shapes violate a signature, or None."""
    scheme, solver = read_signature(signature), ConstraintSolver(0)
    ins = [Value(f"operand {k}") for k in range(len(operands))]
    outs = [Value(f"result {k}") for k in range(len(results))]
    if len(results) != len(scheme.results):
        return f"expected {len(scheme.results)} results, found {len(results)}"
    try:
        for value, shape in zip([*ins, *outs], [*operands, *results], strict=True):
            solver.assert_shape(value, shape, Origin(value.name, "parameter"))
        solver.apply(scheme, ins, outs, Origin("call"))
        solver.solve()
    except Conflict as conflict:
        return conflict.message
    return None
