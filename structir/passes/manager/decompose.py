"""Replaces composite ops by their decomposition."""

from __future__ import annotations

import difflib
from typing import Any

from structir.errors import StructIRError
from structir.ir.bodies import with_bindings
from structir.ir.expr import Binding, Call, Function, MatchCast, VarBinding
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op, registered_ops
from structir.ir.requirements import cast_of, condition, is_condition
from structir.ir.struct_info import TensorStructInfo
from structir.passes.manager.input_sizes import assumptions_of
from structir.passes.normalise import normalise

TRAINING = "training"  # the attribute of an op whose training and inference modes differ


def named_ops(text: str) -> frozenset[str]:
    """Returns the ops that an option lists; raises StructIRError for an unknown one."""
    names = frozenset([name.removeprefix("R.") for name in text.replace(",", " ").split()])
    known = [op.name for op in registered_ops()] if names else []
    for name in sorted(names.difference(known)):
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; help: did you mean {close[0]}?" if close else ""
        raise StructIRError(f"ops: no op {name}{hint}", code="E0611")
    return names


def decompose_ops(module: IRModule, names: frozenset[str], training: bool) -> IRModule:
    """Returns the module without composite ops of these names, or with a training mode."""
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function):
            functions[name] = with_bindings(function, lambda b: _decompose(b, names, training))
    same = all(functions[name] is function for name, function in module.functions.items())
    return module if same else normalise.transform(module.with_functions(functions))


def _decompose(binding: Binding, names: frozenset[str], training: bool) -> list[Binding]:
    """Returns the bindings of a decomposed call, after those that check what it assumes of sizes:
    the simpler ops may broadcast where the call does not."""
    call: Any = binding.value
    if not isinstance(binding, VarBinding) or type(call) is not Call or type(call.op) is not Op:
        return [binding]
    definition: Any = call.op.definition
    signature = getattr(definition, "signature", None)  # None for an op without an index signature
    modes = [p for p in signature.attributes if p.name == TRAINING] if signature else []
    if (not modes and call.op.name not in names) or (names and call.op.name not in names):
        return [binding]
    if modes and not training:
        call = replace(call, attrs={**call.attrs, TRAINING: False})
    if any(_has_no_sizes(arg) for arg in call.args):
        return [binding]  # bodies use the sizes of their operands
    try:
        parts = definition.decompose(call)
    except StructIRError:
        return [binding]
    if parts is None:
        return [binding]
    return [*_checks_of(binding), VarBinding(binding.var, parts, binding.span)]


def _checks_of(binding: VarBinding) -> list[Binding]:
    """Returns the binding that checks the sizes that a call assumes to be equal, if any."""
    assumptions = assumptions_of(binding.value)  # type: ignore[arg-type]
    pairs = [(each.left, each.right) for each in assumptions if not each.broadcasts]
    conditions = [
        left if right == 1 and is_condition(left) else condition("==", left, right)
        for left, right in pairs
    ]
    if not conditions:
        return []
    shape, ones = cast_of(tuple(dict.fromkeys(conditions)), binding.span)
    return [MatchCast(type(binding.var)("_", ones, binding.span), shape, ones, binding.span)]


def _has_no_sizes(value: Any) -> bool:
    info = value.struct_info
    return type(info) is TensorStructInfo and info.dims is None
