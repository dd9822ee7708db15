"""Delta debugging: removes parts of a module while a failure persists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from structir.analysis.deduction import result_info
from structir.analysis.substitution import Substitution
from structir.analysis.variables import variables_in, walk
from structir.analysis.well_formed import well_formed
from structir.errors import StructIRError
from structir.ir.bodies import bindings_of
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import FuncStructInfo, ObjectStructInfo
from structir.passes.dead_code_elimination import dead_code_elimination

Fails = Callable[[IRModule], bool]
Report = Callable[[IRModule, int], None]  # smallest module so far, number of candidates


def reduce_module(
    module: IRModule, fails: Fails, report: Report = lambda module, tries: None
) -> IRModule:
    """Removes all functions, bindings, results and parameters that a failure does not need.

    Every candidate is well formed. A used value whose binding is removed becomes a parameter.
    """
    tries = 0
    while True:
        for candidate in _candidates(module):
            tries += 1
            if _size(candidate) < _size(module) and well_formed(candidate) and fails(candidate):
                module = candidate
                report(module, tries)
                break
            report(module, tries)
        else:
            return module


def size_of(module: IRModule) -> int:
    """Returns the number of bindings of a module, nested ones included."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    return sum(1 for function in functions for _ in bindings_of(function))


def ops_of(module: IRModule) -> list[str]:
    """Returns the names of the ops that a module calls."""
    calls = [part for f in module.functions.values() for part in walk(f) if isinstance(part, Call)]
    return sorted({call.op.name for call in calls if isinstance(call.op, Op)})


def _size(module: IRModule) -> tuple[int, int, int, int]:
    """Returns the measure to minimize: numbers of functions, bindings, results, parameters."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    results = sum(len(getattr(f.body.body, "fields", "1")) for f in functions)
    parameters = sum(len(f.params) for f in functions)
    return len(module.functions), size_of(module), results, parameters


def _candidates(module: IRModule) -> Iterator[IRModule]:
    """Yields smaller modules, those with the most removed first."""
    yield from _with_fewer_functions(module)
    cleaned = dead_code_elimination.transform(module)
    if cleaned is not module:
        yield cleaned
    called = {item.name for item in walk(module) if isinstance(item, GlobalVar)}
    for name, function in module.functions.items():
        if isinstance(function, Function):
            for each in _reduced_functions(function):
                if name not in called or each.struct_info == function.struct_info:
                    yield module.with_functions({**module.functions, name: each})


def _with_fewer_functions(module: IRModule) -> Iterator[IRModule]:
    called = {item.name for item in walk(module) if isinstance(item, GlobalVar)}
    for names in _chunks(list(module.functions)):
        dropped = set(module.functions) - set(names)
        if names and not dropped & called:
            yield module.with_functions({name: module.functions[name] for name in names})


def _reduced_functions(function: Function) -> Iterator[Function]:
    body = function.body.body
    bindings = function.bindings()
    if isinstance(body, Tuple) and len(body.fields) > 1:
        for fields in _chunks(list(body.fields)):
            yield from _with_bindings(
                function, bindings, fields[0] if len(fields) == 1 else None, fields
            )
    for fewer in _chunks(bindings):
        yield from _with_bindings(function, fewer, body)
    for index, binding in enumerate(bindings[:-1]):
        yield from _with_bindings(function, bindings[: index + 1], binding.var)
    for binding in bindings:
        if isinstance(binding.value, If):
            for branch in (binding.value.true_branch, binding.value.false_branch):
                yield _with_branch(function, binding, branch)
    for binding in bindings:
        if isinstance(binding.value, Function):
            yield from _with_reduced_closure(function, binding, binding.value)
    used = variables_in((function.body, function.ret_struct_info))
    params = tuple([param for param in function.params if param in used])
    if len(params) < len(function.params):
        yield replace(function, params=params)


def _chunks(items: list[Binding] | list[Expr] | list[str]) -> Iterator[list]:  # type: ignore[type-arg]
    """Yields the items without one range, for ranges of half the length and then shorter ones."""
    size = len(items)
    while size > 1 or (size == 1 and items):
        size = max(size // 2, 1)
        for start in range(len(items) - size, -size, -size):
            rest = items[: max(start, 0)] + items[start + size :]
            if len(rest) < len(items):
                yield rest
        if size == 1:
            return


def _with_bindings(
    function: Function,
    bindings: Iterable[Binding],
    body: Expr | None,
    fields: list[Expr] | None = None,
) -> Iterator[Function]:
    """Yields the function with fewer bindings; used variables without one become parameters."""
    result = Tuple(tuple(fields or ())) if body is None else body
    remaining = set(bindings)
    blocks = []
    for block in function.body.blocks:
        inside = tuple([binding for binding in block.bindings if binding in remaining])
        if inside:
            blocks.append(replace(block, bindings=inside))
    removed = [b.var for b in function.bindings() if b not in remaining]
    read = variables_in((tuple(blocks), result))
    missing = [var for var in removed if var in read]
    if any(_cannot_be_param(var) for var in missing):
        return
    try:
        local = [var for var in (*missing, result) if isinstance(var, DataflowVar)]
        replacements: dict[Var, Expr] = {v: Var(v.name, v.struct_info, v.span) for v in local}
        result = replacements.get(result, result)  # type: ignore[call-overload]
        blocks = [_with_outputs(block, replacements) for block in blocks]
        params: Any = (*function.params, *[replacements.get(var, var) for var in missing])
        info = result_info(result.struct_info, params)
        seq = SeqExpr(tuple(blocks), result, result.struct_info)
        seq = Substitution(replacements).sequence(seq)
        yield replace(function, params=params, body=seq, ret_struct_info=info)
    except StructIRError:
        return


def _with_outputs(block: BindingBlock, replacements: dict[Var, Any]) -> BindingBlock:
    """Returns the block with some of its local variables exported."""
    bindings = [
        replace(b, var=replacements[b.var]) if b.var in replacements else b for b in block.bindings
    ]
    return replace(block, bindings=tuple(bindings))


def _with_branch(function: Function, conditional: Binding, branch: SeqExpr) -> Function:
    """Returns the function with a conditional replaced by one of its branches."""
    blocks: list[BindingBlock] = []
    others = [binding for binding in function.bindings() if binding is not conditional]
    is_used = conditional.var in variables_in((tuple(others), function.body.body))
    value = [VarBinding(conditional.var, branch.body)] if is_used else []
    for block in function.body.blocks:
        if conditional not in block.bindings:
            blocks.append(block)
            continue
        index = block.bindings.index(conditional)
        rest = (*value, *block.bindings[index + 1 :])
        blocks += [BindingBlock(block.bindings[:index]), *branch.blocks, BindingBlock(rest)]
    nonempty = tuple([block for block in blocks if block.bindings])
    return replace(function, body=replace(function.body, blocks=nonempty))


def _with_reduced_closure(
    function: Function, closure: Binding, value: Function
) -> Iterator[Function]:
    """Yields the function with smaller nested functions; one that is used keeps its StructInfo."""
    others = [binding for binding in function.bindings() if binding is not closure]
    is_used = closure.var in variables_in((tuple(others), function.body.body))
    for smaller in _reduced_functions(value):
        if is_used and smaller.struct_info != closure.var.struct_info:
            continue
        var = closure.var if is_used else replace(closure.var, struct_info=smaller.struct_info)
        new = VarBinding(var, smaller)
        blocks = [
            replace(block, bindings=tuple([new if b is closure else b for b in block.bindings]))
            for block in function.body.blocks
        ]
        yield replace(function, body=replace(function.body, blocks=tuple(blocks)))


def _cannot_be_param(var: Var) -> bool:
    """Returns whether a variable cannot become a parameter."""
    return isinstance(var.struct_info, FuncStructInfo | ObjectStructInfo)
