"""Results that nothing reads, of functions that only their module calls."""

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


@module_pass(idempotent="a result that only a dropped one has read is unread from then on")
def remove_unused_outputs(module: IRModule) -> IRModule:
    """Drop fields of the tuples that private functions give and that no caller looks at."""
    read = _fields_read(module, internal_functions(module))
    changed = {}
    for name, places in read.items():
        function = module[name]
        body, info = function.body.body, function.ret_struct_info
        if not isinstance(body, Tuple) or not isinstance(info, TupleStructInfo):
            continue
        if len(info.fields) > len(places):
            fields = Tuple(tuple([body.fields[k] for k in places]))
            stated = TupleStructInfo(tuple([info.fields[k] for k in places]))
            inner = replace(function.body, body=fields, struct_info=stated)
            changed[name] = replace(function, body=inner, ret_struct_info=stated)
    return _renumbered(module, changed, read)


def _fields_read(module: IRModule, functions: Mapping[str, Function]) -> dict[str, list[int]]:
    """Which fields the callers of each function read; none that hand on a result as a whole."""
    results: dict[Var, str] = {}
    every = [f for f in module.functions.values() if isinstance(f, Function)]
    for function in every:
        for binding in bindings_of(function):
            name = called_function(binding)
            if name in functions:
                results[binding.var] = name  # type: ignore[assignment]
    fields: dict[str, set[int]] = {name: set() for name in results.values()}
    looks: dict[Var, int] = dict.fromkeys(results, 1)  # the binding itself
    for function in every:
        for binding in bindings_of(function):
            value = binding.value
            if isinstance(value, TupleGetItem) and value.tuple_value in results:
                fields[results[value.tuple_value]].add(value.index)
                looks[value.tuple_value] += 1
        for item in walk_values(function):
            if isinstance(item, Var) and item in looks:
                looks[item] -= 1
    whole = {results[var] for var, left in looks.items() if left != 0}
    return {name: sorted(found) for name, found in fields.items() if name not in whole}


def _renumbered(
    module: IRModule, changed: dict[str, Function], read: dict[str, list[int]]
) -> IRModule:
    """The calls of changed functions, and the fields taken of their results."""
    results: dict[Var, tuple[Var, list[int]]] = {}

    def call(binding: Binding, name: str) -> list[Binding]:
        value = binding.value
        assert isinstance(value, Call)
        old = binding.var.struct_info
        assert isinstance(old, TupleStructInfo)
        info = TupleStructInfo(tuple([old.fields[k] for k in read[name]]))
        made = type(binding.var)(binding.var.name, info, binding.var.span)
        results[binding.var] = made, read[name]
        callee = GlobalVar(name, changed[name].struct_info)
        return [replace(binding, var=made, value=replace(value, op=callee, struct_info=info))]

    module = replace_functions(module, changed, call)

    def field(binding: Binding) -> list[Binding]:
        value = binding.value
        if not isinstance(value, TupleGetItem) or value.tuple_value not in results:
            return [binding]
        whole, places = results[value.tuple_value]
        item = TupleGetItem(whole, places.index(value.index), value.struct_info, value.span)
        return [replace(binding, value=item)]

    if not changed:
        return module
    functions = {
        name: with_bindings(f, field) if isinstance(f, Function) else f
        for name, f in module.functions.items()
    }
    return module.with_functions(functions)
