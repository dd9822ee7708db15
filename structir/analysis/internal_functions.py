"""Internal functions: private functions of a module, whose signatures passes may change."""

from __future__ import annotations

from collections.abc import Callable

from structir.analysis.variables import walk_values
from structir.ir.bodies import bindings_of, with_bindings
from structir.ir.expr import Binding, Call, Function, GlobalVar
from structir.ir.module import IRModule
from structir.ir.node import Node

PRIVATE = "private"  # the attribute of a function that only its module calls


def internal_functions(module: IRModule) -> dict[str, Function]:
    """Returns the private functions that are only called, not used as values."""
    if not any(
        getattr(function, "attrs", {}).get(PRIVATE) for function in module.functions.values()
    ):
        return {}
    calls, uses = dict[str, int](), dict[str, int]()
    for function in module.functions.values():
        if not isinstance(function, Function):
            continue
        for item in walk_values(function):
            if isinstance(item, GlobalVar):
                uses[item.name] = uses.get(item.name, 0) + 1
        for binding in bindings_of(function):
            name = called_function(binding)
            if name is not None:
                calls[name] = calls.get(name, 0) + 1
    return {
        name: function
        for name, function in module.functions.items()
        if isinstance(function, Function)
        and function.attrs.get(PRIVATE)
        and calls.get(name, 0) == uses.get(name, 0) > 0
    }


def called_function(binding: Binding) -> str | None:
    """Returns the name of the module's function that a binding calls, or None."""
    value = binding.value
    if isinstance(value, Call) and isinstance(value.op, GlobalVar):
        return value.op.name
    return None


def replace_functions(
    module: IRModule,
    changed: dict[str, Function],
    rewrite_call: Callable[[Binding, str], list[Binding]],
) -> IRModule:
    """Returns the module with some functions replaced.

    `rewrite_call` replaces each binding that calls one of them.
    """
    if not changed:
        return module
    functions: dict[str, Node] = {**module.functions, **changed}

    def rewrite(binding: Binding) -> list[Binding]:
        name = called_function(binding)
        return [binding] if name is None or name not in changed else rewrite_call(binding, name)

    for name, function in functions.items():
        if isinstance(function, Function):
            functions[name] = with_bindings(function, rewrite)
    return module.with_functions(functions)
