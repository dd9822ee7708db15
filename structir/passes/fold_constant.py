"""Evaluates operations on constants at compile time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from structir.analysis.deduction import deduce
from structir.analysis.lattice import FAIL_L1, base_check
from structir.analysis.variables import variables_in, walk_values
from structir.errors import StructIRError
from structir.ir.bodies import bindings_of, with_bindings
from structir.ir.expr import (
    Binding,
    Call,
    Constant,
    DataTypeImm,
    Expr,
    Function,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.passes.base import NonNegative, function_pass

UNKNOWN = object()


@function_pass(aliases=("fold",))
def fold_constant(function: Function, *, max_bytes: NonNegative = 1 << 20) -> Function:
    """Replaces pure op calls on constants by their results, up to `max_bytes`.

    Calls use folded constants directly, so that their bindings are removed; results of functions
    and of dataflow blocks remain bound. A call whose reference raises an error remains: it fails at
    run time.
    """
    kept: set[Var] = set()
    while True:  # a constant outside of a branch or a closure is known inside of it afterwards
        changed = _fold_calls(function, max_bytes, kept)
        if changed is function:
            return function
        function = changed


def _fold_calls(function: Function, max_bytes: int, kept: set[Var]) -> Function:
    """Folds the calls whose operands are known; adds to `kept` the bindings that must remain."""
    constants: dict[Var, Expr] = {}
    folded: set[Var] = set()

    def fold(binding: Binding) -> Iterable[Binding]:
        if not isinstance(binding, VarBinding) or binding.var in kept:
            return (binding,)
        value = binding.value
        new = _fold(value, constants, max_bytes)
        if type(new) in (Constant, Tuple, ShapeExpr, PrimValue):
            constants[binding.var] = new
        elif isinstance(new, Var) and new in constants:
            constants[binding.var] = constants[new]
        if new is value:
            return (binding,)
        folded.add(binding.var)
        return (VarBinding(binding.var, new, binding.span),)

    changed = with_bindings(function, fold)
    if not folded:
        return function
    operands = {var: constants[var] for var in folded if type(constants.get(var)) is Constant}
    rejected = _rejected(changed, operands)
    kept |= rejected
    if rejected:
        return _fold_calls(function, max_bytes, kept)
    return _without_bindings(changed, folded, operands)


def _without_bindings(function: Function, folded: set[Var], operands: dict[Var, Expr]) -> Function:
    """Returns a function whose op calls use folded constants themselves, without the bindings of
    constants that are not used otherwise."""

    def with_constants(binding: Binding) -> Iterable[Binding]:
        value = binding.value
        if type(value) is not Call or type(value.op) is not Op:
            return (binding,)
        if operands.keys().isdisjoint(variables_in(value.args)):
            return (binding,)
        args = tuple([_operand(arg, operands) for arg in value.args])
        return (replace(binding, value=replace(value, args=args)),)

    function = with_bindings(function, with_constants)
    uses = Counter(item for item in walk_values(function) if isinstance(item, Var))
    unused = {var for var in folded if uses[var] == 1}  # its binding
    return with_bindings(function, lambda b: () if b.var in unused else (b,))


def _rejected(function: Function, operands: Mapping[Var, Expr]) -> set[Var]:
    """Returns the variables whose constants must not replace their uses.

    An op may check the elements of a constant, such as indices, and the StructInfo of a variable
    may be coarser than that of its constant; the call fails at run time.
    """
    rejected: set[Var] = set()
    for binding in bindings_of(function) if operands else ():
        value = binding.value
        used = operands.keys() & set(variables_in(value.args)) if type(value) is Call else ()
        if used:
            try:
                deduce(replace(value, args=tuple([_operand(arg, operands) for arg in value.args])))  # type: ignore[attr-defined]
            except StructIRError:
                rejected |= used
    return rejected


def _operand(argument: Expr, constants: Mapping[Var, Expr]) -> Expr:
    if type(argument) is Tuple:
        return replace(argument, fields=tuple([_operand(f, constants) for f in argument.fields]))
    return constants.get(argument, argument)  # type: ignore[call-overload, no-any-return]


def _fold(value: Expr, constants: dict[Var, Expr], max_bytes: int) -> Expr:
    if type(value) is TupleGetItem:
        source = constants.get(value.tuple_value)  # type: ignore[call-overload]
        if isinstance(source, Tuple) and value.index < len(source.fields):
            field = source.fields[value.index]
            return field if isinstance(field, Constant) else value
        return value
    if type(value) is not Call or type(value.op) is not Op or not value.op.definition.pure:
        return value
    args = []
    for argument in value.args:
        array = _array(argument, constants)
        if array is UNKNOWN:
            return value
        args.append(array)
    if not args or not _is_small(value.struct_info, max_bytes):
        return value
    return _evaluate(value, tuple(args))


def _array(argument: Any, constants: dict[Var, Expr]) -> Any:
    """Returns the compile-time value of an operand, or UNKNOWN."""
    kind = type(argument)
    if isinstance(argument, Var):
        argument = constants.get(argument)
        kind = type(argument)
    if kind is Constant:
        return argument.data
    if kind is ShapeExpr:
        return argument.dims if all([type(dim) is int for dim in argument.dims]) else UNKNOWN
    if kind is PrimValue:
        return argument.value if type(argument.value) in (int, float, bool) else UNKNOWN
    if kind is StringImm or kind is DataTypeImm:
        return argument.value
    if kind is Tuple:
        fields = [_array(field, constants) for field in argument.fields]
        return UNKNOWN if any([field is UNKNOWN for field in fields]) else tuple(fields)
    return UNKNOWN


def _is_small(info: Any, max_bytes: int) -> bool:
    """Whether a result is known to be small, at 8 bytes per element."""
    if isinstance(info, TupleStructInfo):
        return all([_is_small(field, max_bytes) for field in info.fields])
    if not isinstance(info, TensorStructInfo) or not isinstance(info.dims, tuple):
        return False
    size = prod(info.dims, start=8)
    return type(size) is int and size <= max_bytes


def _evaluate(call: Call, args: tuple[Any, ...]) -> Expr:
    try:
        with np.errstate(all="ignore"):
            result = call.op.definition.reference(call, args)  # type: ignore[attr-defined]
    except StructIRError:
        return call
    constant = _constant(result)
    if constant is None or base_check(call.struct_info, constant.struct_info) <= FAIL_L1:  # type: ignore[arg-type]
        return call
    return constant


def _constant(value: Any) -> Expr | None:
    if isinstance(value, np.ndarray | np.generic):
        return Constant(np.ascontiguousarray(value).reshape(np.shape(value)))
    if isinstance(value, tuple):
        fields = [_constant(field) for field in value]
        constants = [field for field in fields if field is not None]
        return Tuple(tuple(constants)) if len(constants) == len(fields) else None
    return None
