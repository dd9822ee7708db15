"""Converts the operands of contractions to a narrow float dtype."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.errors import DiagnosticError, StructIRError
from structir.ir.bodies import with_bindings
from structir.ir.dtype import is_float
from structir.ir.expr import (
    Binding,
    Call,
    DataflowVar,
    Expr,
    Function,
    MatchCast,
    Var,
    VarBinding,
)
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo
from structir.passes.base import function_pass
from structir.passes.manager.rules import op_with_trait

WIDE, RESULT = "float32", "out_dtype"


# values too large for the narrow dtype become infinite
@function_pass(comparable=False)
def to_mixed_precision(function: Function, *, dtype: str = "float16") -> Function:
    """Converts the operands of contractions such as matrix products to `dtype`; results stay
    float32.

    It applies to ops that sum a product of operands and have an attribute for the result dtype. An
    `out_dtype` that is the dtype of the operands changes nothing.
    """
    if not is_float(dtype):
        message = f"to_mixed_precision: dtype: expected a floating-point dtype, found {dtype!r}"
        raise StructIRError(f"{message}; help: `dtype=bfloat16`", code="E0611")
    convert = op_with_trait("convert")

    def mixed(binding: Binding) -> Iterable[Binding]:
        call: Any = binding.value
        if isinstance(binding, MatchCast) or not _adds_products(call):
            return [binding]
        conversions: list[Binding] = []
        kind = DataflowVar if isinstance(binding.var, DataflowVar) else Var
        args: dict[str, Any] = {}
        for name, operand in zip(call.op.definition.argument_names, call.args, strict=False):
            args[name] = operand
            if isinstance(operand.struct_info, TensorStructInfo):
                narrow: Expr = convert(operand, dtype)
                args[name] = kind(f"{name}_narrow", narrow.struct_info)
                conversions.append(VarBinding(args[name], narrow, call.span))
        try:
            new = call.op(**args, **{**call.attrs, RESULT: WIDE})
        except DiagnosticError:
            return [binding]
        return [*conversions, VarBinding(binding.var, new, binding.span)]

    return with_bindings(function, mixed)


def _adds_products(call: Any) -> bool:
    """Whether a call sums a product of float32 operands and has a float32 result."""
    if type(call) is not Call or type(call.op) is not Op:
        return False
    definition: Any = call.op.definition
    if getattr(definition, "reduce", None) != "sum":  # ops with an inference rule have none
        return False
    named = {parameter.name for parameter in definition.signature.attributes}
    if RESULT not in named or call.attrs.get(RESULT, WIDE) != WIDE:
        return False
    infos = [operand.struct_info for operand in call.args]
    dtypes = {info.dtype for info in infos if isinstance(info, TensorStructInfo)}
    return dtypes == {WIDE} and len(infos) > 1
