"""Removes unused results of internal functions."""

from __future__ import annotations

from collections.abc import Mapping

from structir.analysis.internal_functions import (
    called_function,
    internal_functions,
    replace_functions,
)
from structir.analysis.substitution import Substitution
from structir.analysis.variables import walk_values
from structir.ir.bodies import bindings_of, with_bindings
from structir.ir.expr import (
    Binding,
    Call,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    MatchCast,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.passes.base import module_pass


@module_pass(idempotent="removing a result may leave another one without uses")
def remove_unused_outputs(module: IRModule) -> IRModule:
    """Removes the fields of tuple results of private functions that no caller uses.

    A result of one field becomes the field itself.
    """
    fields_used = _used_fields(module, internal_functions(module))
    changed = {}
    for name, indices in fields_used.items():
        function = module[name]
        info = function.ret_struct_info
        if isinstance(info, TupleStructInfo) and len(info.fields) > len(indices):
            shortened = _with_fields(function, indices)
            if shortened is not None:
                changed[name] = shortened
    return _renumber(module, changed, fields_used)


def _with_fields(function: Function, indices: list[int]) -> Function | None:
    """Returns a function whose result has these fields; None if its result is no known tuple."""
    result, info = function.body.body, function.ret_struct_info
    binding = next((b for b in function.bindings() if b.var is result), None)
    whole = result if binding is None else binding.value
    if not isinstance(whole, Tuple) or isinstance(binding, MatchCast):
        return None
    stated = _selected_info(info, indices)
    fields = [whole.fields[k] for k in indices]
    names = getattr(stated, "names", None)
    selected: Expr = fields[0] if len(fields) == 1 else Tuple(tuple(fields), names)
    var = Var(getattr(result, "name", "result"), stated)
    if binding is not None and any(isinstance(field, DataflowVar) for field in fields):
        output = VarBinding(var, selected, binding.span)  # the fields are local to its block
        function = with_bindings(function, lambda b: [b, output] if b is binding else [b])
        selected = var
    seq = replace(function.body, body=selected, struct_info=stated)
    function = replace(function, body=seq, ret_struct_info=stated)
    if sum(item is result for item in walk_values(function)) > 1:  # its binding, and other uses
        return function
    return with_bindings(function, lambda b: [b] * (b is not binding))


def _selected_info(info: StructInfo, indices: list[int]) -> StructInfo:
    if not isinstance(info, TupleStructInfo):  # nothing is known of the fields
        return info
    fields = tuple([info.fields[k] for k in indices])
    names = tuple([info.names[k] for k in indices]) if info.names else None
    return fields[0] if len(fields) == 1 else TupleStructInfo(fields, names)


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
        indices = fields_used[name]
        info = _selected_info(binding.var.struct_info, indices)
        var = type(binding.var)(binding.var.name, info, binding.var.span)
        results[binding.var] = var, indices
        callee = GlobalVar(name, changed[name].struct_info)
        of_call = _selected_info(value.struct_info, indices)
        return [replace(binding, var=var, value=replace(value, op=callee, struct_info=of_call))]

    module = replace_functions(module, changed, call)

    same: dict[Var, Expr] = {}  # a field that is the whole result

    def field(binding: Binding) -> list[Binding]:
        value = binding.value
        if not isinstance(value, TupleGetItem) or not isinstance(value.tuple_value, Var):
            return [binding]
        if value.tuple_value not in results:
            return [binding]
        whole, indices = results[value.tuple_value]
        if len(indices) == 1:
            is_hidden = isinstance(whole, DataflowVar) and not isinstance(binding.var, DataflowVar)
            if is_hidden or binding.var.struct_info != whole.struct_info:
                return [VarBinding(binding.var, whole, binding.span)]
            same[binding.var] = whole
            return []
        item = TupleGetItem(whole, indices.index(value.index), value.struct_info, value.span)
        return [replace(binding, value=item)]

    if not changed:
        return module
    functions = {
        name: with_bindings(f, field) if isinstance(f, Function) else f
        for name, f in module.functions.items()
    }
    names = Substitution(same)
    for name, function in functions.items():
        if same and isinstance(function, Function):
            functions[name] = replace(function, body=names.sequence(function.body))
    return module.with_functions(functions)
