"""Binds parameters to constant arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from structir.analysis.deduction import deduce
from structir.analysis.lattice import FAIL_L0, PASS, base_check
from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, ShapeMismatchError, StructInfoError, StructIRError
from structir.interpret.argument_checks import match
from structir.interpret.scope import Activation
from structir.ir.dim_text import one_message
from structir.ir.expr import (
    BindingBlock,
    Constant,
    Function,
    MatchCast,
    Tuple,
    Var,
    VarBinding,
)
from structir.ir.masked import unmasked
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import TupleStructInfo
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

    A parameter that is a tuple takes a tuple or a dict by the names of its fields, or arrays named
    `params.w`. A dim or row variable that a bound parameter determines becomes the size of the
    array everywhere. A size that depends on other parameters is checked at run time.
    """
    arrays = _arrays_in(file) if file is not None else dict(values or {})
    bound_function = _bind(module[function], arrays)
    return module.with_functions({**module.functions, function: bound_function})


def _arrays_in(file: str) -> dict[str, Any]:
    """Returns the arrays of a file of `numpy.savez`; raises StructIRError for other files."""
    try:
        loaded = np.load(file)
        return dict(loaded.items())
    except (OSError, ValueError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no archive"
        message = f"bind_params: file: cannot read {file!r} as an archive of arrays: {reason}"
        help_line = f"help: `numpy.savez({file!r}, w=w)`, or pass the arrays: `values={{'w': w}}`"
        raise StructIRError(f"{message}; {help_line}", code="E0611") from None


def _bind(function: Function, arrays: Mapping[str, Any]) -> Function:
    params = {param.name: param for param in function.params}
    trees = _trees(arrays, params)
    if unknown := sorted(trees.keys() - params.keys()):
        raise StructIRError(
            f"bind_params: no parameter {', '.join(unknown)}; available: {', '.join(params)}",
            code="E0613",
        )
    constants = {
        params[name]: _constant(params[name].struct_info, tree, name)
        for name, tree in trees.items()
    }
    sizes = _determined_sizes(constants)
    tuples = {p: Var(p.name, deduce(v), p.span) for p, v in constants.items() if _is_tuple(v)}
    binder = Substitution({**constants, **tuples}, sizes)
    bindings = [VarBinding(var, constants[param]) for param, var in tuples.items()]
    checks = [_check_of(param, constant, binder) for param, constant in constants.items()]
    remaining = tuple([param for param in function.params if param not in constants])
    bound = binder.function(replace(function, params=remaining))
    return _with_bindings(bound, [*bindings, *[check for check in checks if check is not None]])


def _is_tuple(value: Constant | Tuple) -> bool:
    return type(value) is Tuple


def _trees(arrays: Mapping[str, Any], params: Mapping[str, Var]) -> dict[str, Any]:
    """Returns the values of parameters, nested by field: `params.w` and `params.0` are in
    `params`."""
    trees: dict[str, Any] = {}
    for name, array in arrays.items():
        head, *path = [name] if name in params else name.split(".")
        if head not in params:
            head, path = name, []
        if path and head in arrays:
            message = f"bind_params: expected {head} or its fields, found both {head} and {name}"
            raise StructIRError(message, code="E0613")
        node, key = trees, head
        for step in path:
            node, key = node.setdefault(key, {}), step
        node[key] = array
    return trees


def _constant(info: Any, value: Any, path: str) -> Constant | Tuple:
    """Returns an array as a constant, or a tree of arrays as a tuple of constants."""
    if not isinstance(info, TupleStructInfo):
        return Constant(np.asarray(unmasked(value)))
    names = info.names or tuple(map(str, range(len(info.fields))))
    items = value if isinstance(value, Mapping) else None
    if items is None and isinstance(value, tuple | list) and len(value) == len(names):
        items = dict(zip(names, value, strict=True))
    if items is None or items.keys() != set(names):
        present = ", ".join(map(str, items)) if items is not None else type(value).__name__
        message = f"bind_params: {path}: expected the fields {', '.join(names)}, found {present}"
        raise StructIRError(message, code="E0613")
    pairs = zip(names, info.fields, strict=True)
    fields = [_constant(field, items[name], f"{path}.{name}") for name, field in pairs]
    return Tuple(tuple(fields), info.names)


def _data(value: Constant | Tuple) -> Any:
    if isinstance(value, Constant):
        return value.data
    return tuple([_data(field) for field in value.fields])  # type: ignore[arg-type]


def _determined_sizes(constants: Mapping[Var, Constant | Tuple]) -> dict[Any, Any]:
    """Returns the dims and row variables that the arrays determine."""
    scope = Activation.inside(None)
    for param, constant in constants.items():
        with one_message():
            try:
                match([(param.struct_info, _data(constant), f"bind_params: {param.name}")], scope)
            except ShapeMismatchError as error:
                raise _mismatch(param, param.struct_info, constant, error.message) from None
    return dict(scope.sizes)


def _mismatch(param: Var, info: Any, constant: Constant | Tuple, *notes: str) -> StructInfoError:
    with one_message():
        message = f"bind_params: {param.name}: expected {info}, found {constant.struct_info}"
    diagnostic = Diagnostic(message, param.span)
    for note in notes:
        diagnostic = diagnostic.note(note)
    declared, array = getattr(info, "dtype", None), getattr(constant.struct_info, "dtype", None)
    convert = declared is not None and array is not None and declared != array
    hint = "pass an array of the declared shape, or change the annotation"
    if convert:
        hint = f'convert the array: `{param.name}.astype("{declared}")`'
    return StructInfoError(diagnostic.hinted(hint))


def _check_of(param: Var, constant: Constant | Tuple, binder: Substitution) -> MatchCast | None:
    """Returns the check of an array whose sizes depend on other parameters; None if there is none.

    Raises StructInfoError if the array does not fit.
    """
    info = binder.info(param.struct_info)
    checked = base_check(info, deduce(constant))
    if checked is PASS:
        return None
    if checked is FAIL_L0:
        raise _mismatch(param, info, constant)
    return MatchCast(Var(param.name, info, param.span), constant, info, param.span)


def _with_bindings(function: Function, bindings: list[VarBinding | MatchCast]) -> Function:
    if not bindings:
        return function
    blocks = (BindingBlock(tuple(bindings)), *function.body.blocks)
    return replace(function, body=replace(function.body, blocks=blocks))
