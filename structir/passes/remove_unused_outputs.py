"""Removes unused results of internal functions."""

from __future__ import annotations

from collections.abc import Mapping

from structir.analysis.internal_functions import (
    called_function,
    internal_functions,
    replace_functions,
)
from structir.analysis.variables import walk_values
from structir.ir.bodies import bindings_of, with_bindings
from structir.ir.expr import Binding, Call, Function, GlobalVar, Tuple, TupleGetItem, Var
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import TupleStructInfo
from structir.passes.base import module_pass


@module_pass(idempotent="removing a result may leave another one without uses")
def remove_unused_outputs(module: IRModule) -> IRModule:
    """Removes the fields of tuple results of private functions that no caller uses."""
    fields_used = _used_fields(module, internal_functions(module))
    changed = {}
    for name, indices in fields_used.items():
        function = module[name]
        body, info = function.body.body, function.ret_struct_info
        if not isinstance(body, Tuple) or not isinstance(info, TupleStructInfo):
            continue
        if len(info.fields) > len(indices):
            fields = Tuple(tuple([body.fields[k] for k in indices]))
            stated = TupleStructInfo(tuple([info.fields[k] for k in indices]))
            inner = replace(function.body, body=fields, struct_info=stated)
            changed[name] = replace(function, body=inner, ret_struct_info=stated)
    return _renumber(module, changed, fields_used)


def _used_fields(module: IRModule, functions: Mapping[str, Function]) -> dict[str, list[int]]:
    """Returns the fields that callers of each function use, without functions whose result escapes
    whole."""
    results: dict[Var, str] = {}
    functions_with_calls = [f for f in module.functions.values() if isinstance(f, Function)]
    for function in functions_with_calls:
        for binding in bindings_of(function):
            name = called_function(binding)
            if name in functions:
                results[binding.var] = name  # type: ignore[assignment]
    fields: dict[str, set[int]] = {name: set() for name in results.values()}
    uses: dict[Var, int] = dict.fromkeys(results, 1)  # the binding itself
    for function in functions_with_calls:
        for binding in bindings_of(function):
            value = binding.value
            whole = value.tuple_value if isinstance(value, TupleGetItem) else None
            if isinstance(value, TupleGetItem) and isinstance(whole, Var) and whole in results:
                fields[results[whole]].add(value.index)
                uses[whole] += 1
        for item in walk_values(function):
            if isinstance(item, Var) and item in uses:
                uses[item] -= 1
    escaping = {results[var] for var, remaining in uses.items() if remaining != 0}
    return {name: sorted(indices) for name, indices in fields.items() if name not in escaping}


def _renumber(
    module: IRModule, changed: dict[str, Function], fields_used: dict[str, list[int]]
) -> IRModule:
    """Updates the calls of changed functions and the indices of their fields."""
    results: dict[Var, tuple[Var, list[int]]] = {}

    def call(binding: Binding, name: str) -> list[Binding]:
        value = binding.value
        assert isinstance(value, Call)
        old = binding.var.struct_info
        assert isinstance(old, TupleStructInfo)
        info = TupleStructInfo(tuple([old.fields[k] for k in fields_used[name]]))
        var = type(binding.var)(binding.var.name, info, binding.var.span)
        results[binding.var] = var, fields_used[name]
        callee = GlobalVar(name, changed[name].struct_info)
        return [replace(binding, var=var, value=replace(value, op=callee, struct_info=info))]

    module = replace_functions(module, changed, call)

    def field(binding: Binding) -> list[Binding]:
        value = binding.value
        if not isinstance(value, TupleGetItem) or not isinstance(value.tuple_value, Var):
            return [binding]
        if value.tuple_value not in results:
            return [binding]
        whole, indices = results[value.tuple_value]
        item = TupleGetItem(whole, indices.index(value.index), value.struct_info, value.span)
        return [replace(binding, value=item)]

    if not changed:
        return module
    functions = {
        name: with_bindings(f, field) if isinstance(f, Function) else f
        for name, f in module.functions.items()
    }
    return module.with_functions(functions)
