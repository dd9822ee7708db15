"""Removes unused parameters of internal functions."""

from __future__ import annotations

from structir.analysis.internal_functions import internal_functions, replace_functions
from structir.analysis.variables import symbols_in, variables_in
from structir.ir.binding_dims import bound_dims
from structir.ir.expr import Binding, Call, Function, GlobalVar
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo
from structir.passes.base import module_pass


@module_pass
def remove_unused_parameters(module: IRModule) -> IRModule:
    """Removes unused parameters of private functions, and their arguments.

    A parameter counts as used if it alone determines the size of a dim, or has a size
    such as `n + 1`, which callers solve for `n`. Checks of a removed parameter are removed with it.
    """
    while (after := _remove_once(module)) is not module:
        module = after  # removing an argument may leave other parameters unused
    return module


def _remove_once(module: IRModule) -> IRModule:
    """Returns the module without the parameters that are unused now."""
    used = {name: _used_params(function) for name, function in internal_functions(module).items()}
    changed = {
        name: replace(function, params=tuple([function.params[k] for k in used[name]]))
        for name, function in internal_functions(module).items()
        if len(used[name]) < len(function.params)
    }

    def call(binding: Binding, name: str) -> list[Binding]:
        value = binding.value
        assert isinstance(value, Call)
        callee = GlobalVar(name, changed[name].struct_info)
        args = tuple([value.args[k] for k in used[name]])
        return [replace(binding, value=replace(value, op=callee, args=args))]

    return replace_functions(module, changed, call)


def _used_params(function: Function) -> list[int]:
    """Returns the indices of the parameters that must remain."""
    live = variables_in((function.body, function.ret_struct_info))
    params = enumerate(function.params)
    used = [k for k, param in params if param in live or _is_solved(param.struct_info)]
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
