"""Moves computations on weights alone to a function that runs once."""

from __future__ import annotations

from structir.analysis.closures import params_for
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

INPUTS = "num_input"  # the attribute that states how many parameters are inputs; others are weights
SUFFIX = "_transform_params"


@module_pass(comparable=False)
def lift_transform_params(module: IRModule) -> IRModule:
    """Moves computations that depend on weights alone to a new function `main_transform_params`.

    The attribute num_input states how many parameters are inputs; the others are weights. `main`
    then takes the fields of the result of the new function instead of the weights.
    """
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function) and INPUTS in function.attrs:
            if name + SUFFIX in functions:
                message = (
                    f"lift_transform_params: function {name + SUFFIX} already exists in the module"
                )
                raise StructIRError(message, code="E0614")
            functions[name], functions[name + SUFFIX] = _split(function)
    return module.with_functions(functions)


def _split(function: Function) -> tuple[Function, Function]:
    """Returns the function of inputs and transformed weights, and the one that transforms them."""
    count = function.attrs[INPUTS]
    inputs, weights = function.params[:count], function.params[count:]
    lifted, shared = _of_weights(function, weights)
    moved = {binding.var for binding in lifted} - shared
    rest = [b for b in function.bindings() if b.var not in moved]
    read = variables_in((tuple(rest), function.body.body))
    transformed = [var for var in (*weights, *[b.var for b in lifted]) if var in read]
    transformed = [var for var in transformed if var not in shared]
    transformed += _size_weights(function, (*inputs, *transformed), weights, tuple(rest))
    result = Tuple(tuple(transformed))
    seq = SeqExpr((BindingBlock(tuple(lifted)),) if lifted else (), result)
    assert result.struct_info is not None
    transform = Function(weights, seq, result.struct_info)
    params = params_for(transformed)
    blocks = tuple([_without(block, moved) for block in function.body.blocks])
    remaining = tuple([block for block in blocks if block.bindings])
    body = Substitution(dict(params)).sequence(replace(function.body, blocks=remaining))
    attrs = {name: value for name, value in function.attrs.items() if name != INPUTS}
    main = replace(function, params=(*inputs, *params.values()), body=body, attrs=attrs)
    return main, _plain(Substitution(fresh=True).function(transform))


def _size_weights(
    function: Function, params: tuple[Var, ...], weights: tuple[Var, ...], rest: tuple[Binding, ...]
) -> list[Var]:
    """Returns the weights that alone determine dims that the remaining function uses."""
    used = set(symbols_in((rest, function.body.body, function.ret_struct_info)))
    used |= set(symbols_in(tuple([param.struct_info for param in params])))
    undetermined = used - bound_dims([param.struct_info for param in params])
    added: list[Var] = []
    for weight in weights:
        bound = undetermined & bound_dims([weight.struct_info])
        if bound and weight not in set(params):
            added.append(weight)
            undetermined -= bound
    return added


def _of_weights(function: Function, weights: tuple[Var, ...]) -> tuple[list[Binding], set[Var]]:
    """Returns the pure bindings that need only weights, and no dim that only inputs determine.

    Bindings without weights, which compute values of sizes, are among them where a binding on
    weights needs them; the second result are those variables that the inputs' function needs too.
    """
    available, on_weights = set(weights), set(weights)
    determined = bound_dims([weight.struct_info for weight in weights])
    candidates: list[Binding] = []
    for binding in function.bindings():
        if not isinstance(binding, VarBinding) or not is_pure_value(binding.value):
            continue
        parts = (binding.value, binding.var.struct_info)
        read = set(variables_in(parts))
        if read <= available and set(symbols_in(parts)) <= determined:
            available.add(binding.var)
            candidates.append(binding)
            on_weights |= {binding.var} if read & on_weights else set()
    needed = set(on_weights)
    for binding in reversed(candidates):
        if binding.var in needed:
            needed |= set(variables_in(binding.value))
    lifted = [binding for binding in candidates if binding.var in needed]
    moved = {binding.var for binding in lifted}
    others = tuple([b.value for b in function.bindings() if b.var not in moved])
    free = moved - on_weights
    shared = free & set(variables_in((others, function.body.body)))
    for binding in reversed(lifted):
        if binding.var in shared:
            shared |= free & set(variables_in(binding.value))
    return lifted, shared


def _without(block: BindingBlock, removed: set[Var]) -> BindingBlock:
    return replace(block, bindings=tuple([b for b in block.bindings if b.var not in removed]))


def _plain(function: Function) -> Function:
    """Returns the function with plain variables in place of dataflow variables."""
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
