"""Replaces tuple parameters of internal functions by their fields."""

from __future__ import annotations

from structir.analysis.internal_functions import internal_functions, replace_functions
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import TupleStructInfo
from structir.passes.base import module_pass


@module_pass
def expand_tuple_arguments(module: IRModule) -> IRModule:
    """Replaces tuple parameters of private functions by one parameter per field."""
    while True:  # a field may itself be a tuple
        changed = {
            name: _expand(function)
            for name, function in internal_functions(module).items()
            if any(isinstance(p.struct_info, TupleStructInfo) for p in function.params)
        }
        if not changed:
            return module
        module = _update_calls(module, changed)


def _expand(function: Function) -> Function:
    params: list[Var] = []
    tuples: list[Binding] = []
    for param in function.params:
        info = param.struct_info
        if not isinstance(info, TupleStructInfo):
            params.append(param)
            continue
        keys = info.names or range(len(info.fields))
        pairs = zip(keys, info.fields, strict=True)
        fields = [Var(f"{param.name}_{key}", each) for key, each in pairs]
        params += fields
        tuples.append(VarBinding(param, Tuple(tuple(fields), info.names)))
    blocks = (BindingBlock(tuple(tuples)), *function.body.blocks)
    return replace(function, params=tuple(params), body=replace(function.body, blocks=blocks))


def _update_calls(module: IRModule, changed: dict[str, Function]) -> IRModule:
    old = {name: module[name].params for name in changed}

    def call(binding: Binding, name: str) -> list[Binding]:
        value = binding.value
        assert isinstance(value, Call)
        kind = DataflowVar if isinstance(binding.var, DataflowVar) else Var
        new_bindings: list[Binding] = []
        args: list[Expr] = []
        for param, argument in zip(old[name], value.args, strict=True):
            if isinstance(param.struct_info, TupleStructInfo):
                args += _fields(argument, len(param.struct_info.fields), new_bindings, kind)
            else:
                args.append(argument)
        callee = GlobalVar(name, changed[name].struct_info)
        return [*new_bindings, replace(binding, value=replace(value, op=callee, args=tuple(args)))]

    return replace_functions(module, changed, call)


def _fields(argument: Expr, count: int, new_bindings: list[Binding], kind: type[Var]) -> list[Expr]:
    if isinstance(argument, Tuple):
        return list(argument.fields)
    infos = argument.struct_info.fields
    fields: list[Expr] = []
    for k in range(count):
        var = kind("field", infos[k])
        new_bindings.append(VarBinding(var, TupleGetItem(argument, k, infos[k])))
        fields.append(var)
    return fields
