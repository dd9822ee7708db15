"""Replaces calls of module functions by their bodies."""

from __future__ import annotations

from typing import Any

from structir.analysis.declared_checks import DeclaredChecks
from structir.analysis.internal_functions import PRIVATE
from structir.analysis.variables import walk_values
from structir.ir.bodies import bindings_of
from structir.ir.expr import (
    Function,
    GlobalVar,
    Var,
)
from structir.ir.module import IRModule
from structir.passes.base import NonNegative, module_pass, named_functions
from structir.passes.canonicalise_bindings import canonicalise_bindings
from structir.passes.dead_code_elimination import without_unused
from structir.rewriting.call_inlining import LARGEST, inline_calls


@module_pass(aliases=("inline", "inline_private_functions"))
def inline_functions(
    module: IRModule, *, largest: NonNegative = LARGEST, functions: str = ""
) -> IRModule:
    """Replaces calls by the bodies of the functions, all or those named.

    Argument checks of the callee remain, as match_casts. Aliases, and fields of tuples that the
    caller takes apart, are replaced by the values. Pure values of the callee that the caller does
    not use are removed. Private functions without a remaining
    call are removed. Not inlined are: recursive functions; those with more than `largest` bindings;
    those with branches or effects when called in a dataflow block; those whose parameters
    mutually depend on each other's sizes; and those that declare a pullback or a tangent, unless
    they are named.
    """
    named_functions(module, functions)
    while True:  # without an unused value that is wrong for its caller, a function can be inlined
        inlined = _round(module, largest, functions)
        if inlined is module:
            return module
        module = inlined


def _round(module: IRModule, largest: int, functions: str) -> IRModule:
    """Runs one round of inlining, and removes bindings and functions that become unused."""
    inlined = inline_calls(module, largest=largest, functions=functions, keep_rules=True)
    if inlined is module:
        return module
    new = inlined.functions
    changed = {name: value for name, value in new.items() if value is not module.functions[name]}
    canonical = canonicalise_bindings.transform(inlined.with_functions(changed)).functions
    checks = DeclaredChecks(new)
    used = {
        name: without_unused(function, checks, _bound_to_no_call(module.functions[name]))
        for name, function in canonical.items()
        if isinstance(function, Function)
    }
    remaining = inlined.with_functions({**new, **canonical, **used})
    return _remove_inlined(remaining, _referenced_names(module) - _referenced_names(inlined))


def _bound_to_no_call(function: Any) -> set[Var]:
    """Returns the variables of a function that are no result of another function."""
    return {
        binding.var
        for binding in bindings_of(function)
        if not isinstance(getattr(binding.value, "op", None), GlobalVar)
    }


def _referenced_names(module: IRModule) -> set[str]:
    """Returns the names of the functions that functions of the module refer to."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    values = [item for function in functions for item in walk_values(function)]
    return {item.name for item in values if isinstance(item, GlobalVar)}


def _remove_inlined(module: IRModule, inlined: set[str]) -> IRModule:
    """Removes the private functions among those whose last call was inlined."""
    remaining = {
        name: function
        for name, function in module.functions.items()
        if name not in inlined or not getattr(function, "attrs", {}).get(PRIVATE)
    }
    return module.with_functions(remaining)
