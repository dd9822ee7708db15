"""Binds parameters to constant arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from structir.analysis.lattice import FAIL_L0, PASS, base_check
from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, ShapeMismatchError, StructInfoError, StructIRError
from structir.interpret.argument_checks import match
from structir.interpret.scope import Activation
from structir.ir.display_names import one_message
from structir.ir.expr import BindingBlock, Constant, Function, MatchCast, Var
from structir.ir.masked import unmasked
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.passes.base import module_pass


@module_pass(comparable=False)
def bind_params(
    module: IRModule,
    *,
    values: Mapping[str, Any] | None = None,
    file: str | None = None,
    function: str = "main",
) -> IRModule:
    """Replaces parameters by constants: arrays by name, or those of a file written by
    `numpy.savez`.

    A dim or row variable that a bound parameter determines becomes the size of the array
    everywhere. A size that depends on other parameters is checked at run time.
    """
    arrays = dict(np.load(file)) if file is not None else dict(values or {})
    bound_function = _bind(
        module[function], {name: np.asarray(unmasked(data)) for name, data in arrays.items()}
    )
    return module.with_functions({**module.functions, function: bound_function})


def _bind(function: Function, arrays: Mapping[str, Any]) -> Function:
    params = {param.name: param for param in function.params}
    if unknown := sorted(arrays.keys() - params.keys()):
        raise StructIRError(
            f"bind_params: no parameter {', '.join(unknown)}; available: {', '.join(params)}",
            code="E0613",
        )
    constants = {params[name]: Constant(data) for name, data in arrays.items()}
    binder = Substitution(constants, _determined_sizes(constants))
    checks = [_check_of(param, constant, binder) for param, constant in constants.items()]
    remaining = tuple([param for param in function.params if param not in constants])
    bound = binder.function(replace(function, params=remaining))
    return _with_checks(bound, [check for check in checks if check is not None])


def _determined_sizes(constants: Mapping[Var, Constant]) -> dict[Any, Any]:
    """Returns the dims and row variables that the arrays determine."""
    scope = Activation.inside(None)
    for param, constant in constants.items():
        with one_message():
            try:
                match([(param.struct_info, constant.data, f"bind_params: {param.name}")], scope)
            except ShapeMismatchError as error:
                raise _mismatch(param, param.struct_info, constant, error.message) from None
    return dict(scope.sizes)


def _mismatch(param: Var, info: Any, constant: Constant, *notes: str) -> StructInfoError:
    with one_message():
        message = f"bind_params: {param.name}: expected {info}, found {constant.struct_info}"
    diagnostic = Diagnostic(message, param.span)
    for note in notes:
        diagnostic = diagnostic.note(note)
    return StructInfoError(diagnostic)


def _check_of(param: Var, constant: Constant, binder: Substitution) -> MatchCast | None:
    """Returns the check of an array whose sizes depend on other parameters; None if there is none.

    Raises StructInfoError if the array does not fit.
    """
    info = binder.info(param.struct_info)
    checked = base_check(info, constant.struct_info)
    if checked is PASS:
        return None
    if checked is FAIL_L0:
        raise _mismatch(param, info, constant)
    return MatchCast(Var(param.name, info, param.span), constant, info, param.span)


def _with_checks(function: Function, checks: list[MatchCast]) -> Function:
    if not checks:
        return function
    blocks = (BindingBlock(tuple(checks)), *function.body.blocks)
    return replace(function, body=replace(function.body, blocks=blocks))
