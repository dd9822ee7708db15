"""Parameters that nothing reads, of functions that only their module calls."""

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
    """Drop parameters of private functions that nothing reads, and the arguments for them.

    A parameter that tells the size of a dim, which no other one tells, is read, and so is one
    with a size such as `n + 1`, which callers solve for `n`. What a parameter that goes away would
    have checked is not checked any more.
    """
    while (after := _without_unused(module)) is not module:
        module = after  # what only a dropped argument read is now unused itself
    return module


def _without_unused(module: IRModule) -> IRModule:
    """The module without the parameters that nothing reads now."""
    kept = {name: _read(function) for name, function in internal_functions(module).items()}
    changed = {
        name: replace(function, params=tuple([function.params[k] for k in kept[name]]))
        for name, function in internal_functions(module).items()
        if len(kept[name]) < len(function.params)
    }

    def call(binding: Binding, name: str) -> list[Binding]:
        value = binding.value
        assert isinstance(value, Call)
        callee = GlobalVar(name, changed[name].struct_info)
        args = tuple([value.args[k] for k in kept[name]])
        return [replace(binding, value=replace(value, op=callee, args=args))]

    return replace_functions(module, changed, call)


def _read(function: Function) -> list[int]:
    """The places of the parameters that must stay."""
    used = variables_in((function.body, function.ret_struct_info))
    params = enumerate(function.params)
    kept = [k for k, param in params if param in used or _is_solved(param.struct_info)]
    for k in range(len(function.params)):
        if k in kept:
            continue
        trial = replace(function, params=tuple([function.params[i] for i in kept]))
        told = bound_dims([function.params[i].struct_info for i in kept])
        if (set(symbols_in(trial)) - told) & bound_dims([function.params[k].struct_info]):
            kept.append(k)
    return sorted(kept)


def _is_solved(info: StructInfo | None) -> bool:
    """Whether a size is more than a variable."""
    return info is not None and not set(symbols_in(info)) <= bound_dims([info])
