"""Removes unused parameters of internal functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.analysis.declared_checks import proven_params
from structir.analysis.internal_functions import internal_functions, replace_functions
from structir.analysis.variables import symbols_in, variables_in, walk_values
from structir.ir.binding_dims import bound_dims
from structir.ir.expr import Binding, Call, Function, GlobalVar
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import FuncStructInfo, StructInfo
from structir.passes.base import module_pass


@module_pass
def remove_unused_parameters(module: IRModule) -> IRModule:
    """Removes unused parameters of private functions, and their arguments.

    A parameter counts as used if it alone determines the size of a dim, or has a size
    such as `n + 1`, which callers solve for `n`. So does one whose check some call may fail.
    """
    while (after := _remove_once(module)) is not module:
        module = after  # removing an argument may leave other parameters unused
    return module


def _remove_once(module: IRModule) -> IRModule:
    """Returns the module without the parameters that are unused now."""
    functions = internal_functions(module)
    checked = _checked_params(module, functions)
    used = {name: _used_params(function, checked[name]) for name, function in functions.items()}
    changed = {
        name: replace(function, params=tuple([function.params[k] for k in used[name]]))
        for name, function in functions.items()
        if len(used[name]) < len(function.params)
    }

    def call(binding: Binding, name: str) -> list[Binding]:
        value = binding.value
        assert isinstance(value, Call)
        callee = GlobalVar(name, changed[name].struct_info)
        args = tuple([value.args[k] for k in used[name]])
        return [replace(binding, value=replace(value, op=callee, args=args))]

    return replace_functions(module, changed, call)


def _checked_params(module: IRModule, functions: Iterable[str]) -> dict[str, frozenset[int]]:
    """Returns the indices of the parameters of each function whose checks some call may fail."""
    checked = dict.fromkeys(functions, frozenset[int]())
    for value in walk_values(tuple(module.functions.values())):
        if type(value) is Call and isinstance(value.op, GlobalVar) and value.op.name in checked:
            checked[value.op.name] |= _may_fail(value)
    return checked


def _may_fail(call: Call) -> frozenset[int]:
    """Returns the indices of parameters that are not proven, or share dims with such a one."""
    info = call.op.struct_info
    if not isinstance(info, FuncStructInfo) or info.params is None:
        return frozenset(range(len(call.args)))
    proven = list(proven_params(info, [each.struct_info for each in call.args]))
    dims = [set(symbols_in(param)) for param in info.params]
    unproven = [k for k, is_proven in enumerate(proven) if not is_proven]
    shared = set[Any]().union(*[dims[k] for k in unproven])
    return frozenset([*unproven, *[k for k, own in enumerate(dims) if own & shared]])


def _used_params(function: Function, checked: frozenset[int]) -> list[int]:
    """Returns the indices of the parameters that must remain."""
    live = variables_in((function.body, function.ret_struct_info))
    params = enumerate(function.params)
    used = [
        k for k, param in params if param in live or k in checked or _is_solved(param.struct_info)
    ]
    for k in range(len(function.params)):
        if k in used:
            continue
        trial = replace(function, params=tuple([function.params[i] for i in used]))
        determined = bound_dims([function.params[i].struct_info for i in used])
        if (set(symbols_in(trial)) - determined) & bound_dims([function.params[k].struct_info]):
            used.append(k)
    return sorted(used)


def _is_solved(info: StructInfo | None) -> bool:
    """Whether a size is more than a variable."""
    return info is not None and not set(symbols_in(info)) <= bound_dims([info])
