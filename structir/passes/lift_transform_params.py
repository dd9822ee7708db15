"""What is computed from weights alone, in a function that runs once, before the others."""

from __future__ import annotations

from structir.analysis.purity import is_pure_value
from structir.analysis.substitution import Substitution
from structir.analysis.variables import symbols_in, variables_in
from structir.errors import StructIRError
from structir.ir.binding_dims import bound_dims
from structir.ir.expr import (
    Binding,
    BindingBlock,
    DataflowVar,
    Expr,
    Function,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.passes.base import module_pass

INPUTS = "num_input"  # the attribute that tells how many parameters are inputs; others are weights
SUFFIX = "_transform_params"


@module_pass(comparable=False)
def lift_transform_params(module: IRModule) -> IRModule:
    """Move what depends on weights alone into a function main_transform_params of the weights.

    The attribute num_input tells how many parameters are inputs; the others are weights. The
    function takes the fields of the new one's result in their place.
    """
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function) and INPUTS in function.attrs:
            if name + SUFFIX in functions:
                raise StructIRError(f"the module has a function {name + SUFFIX} already")
            functions[name], functions[name + SUFFIX] = _split(function)
    return module if len(functions) == len(module.functions) else module.with_functions(functions)


def _split(function: Function) -> tuple[Function, Function]:
    """The function of inputs and transformed weights, and the one that transforms them."""
    count = function.attrs[INPUTS]
    inputs, weights = function.params[:count], function.params[count:]
    lifted = _of_weights(function, weights)
    there = {binding.var for binding in lifted}
    rest = [b for b in function.bindings() if b.var not in there]
    read = variables_in((tuple(rest), function.body.body))
    handed = [var for var in (*weights, *[b.var for b in lifted]) if var in read]
    made = Tuple(tuple(handed))
    seq = SeqExpr((BindingBlock(tuple(lifted)),) if lifted else (), made)
    assert made.struct_info is not None
    transform = Function(weights, seq, made.struct_info)
    params: dict[Var, Expr] = {var: Var(var.name, var.struct_info, var.span) for var in handed}
    blocks = tuple([_without(block, there) for block in function.body.blocks])
    kept = tuple([block for block in blocks if block.bindings])
    body = Substitution(params).sequence(replace(function.body, blocks=kept))
    attrs = {name: value for name, value in function.attrs.items() if name != INPUTS}
    main = replace(function, params=(*inputs, *params.values()), body=body, attrs=attrs)
    return main, _plain(Substitution(fresh=True).function(transform))


def _of_weights(function: Function, weights: tuple[Var, ...]) -> list[Binding]:
    """The pure bindings that need nothing but weights, and no dim that only inputs tell."""
    known = set(weights)
    told = bound_dims([weight.struct_info for weight in weights])
    found: list[Binding] = []
    for binding in function.bindings():
        if not isinstance(binding, VarBinding) or not is_pure_value(binding.value):
            continue
        parts = (binding.value, binding.var.struct_info)
        read = set(variables_in(parts))
        if read and read <= known and set(symbols_in(parts)) <= told:
            known.add(binding.var)
            found.append(binding)
    return found


def _without(block: BindingBlock, gone: set[Var]) -> BindingBlock:
    return replace(block, bindings=tuple([b for b in block.bindings if b.var not in gone]))


def _plain(function: Function) -> Function:
    """The function with no variable of a dataflow block, which it has none of."""
    names: dict[Var, Expr] = {
        b.var: Var(b.var.name, b.var.struct_info)
        for b in function.bindings()
        if isinstance(b.var, DataflowVar)
    }
    renamed = Substitution(names)
    blocks = []
    for block in function.body.blocks:
        bindings = [
            VarBinding(names.get(b.var, b.var), renamed.part(b.value), b.span)  # type: ignore[arg-type]
            for b in block.bindings
        ]
        blocks.append(replace(block, bindings=tuple(bindings)))
    body = renamed.part(function.body.body)
    return replace(function, body=replace(function.body, blocks=tuple(blocks), body=body))
