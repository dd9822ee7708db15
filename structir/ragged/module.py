"""Modules with ragged tensors: whether there are any, and all functions lowered."""

from __future__ import annotations

from typing import Any
from weakref import ref

from structir.ir.bodies import bindings_of
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.ops.ragged import has_ragged_axis
from structir.ragged.lowering import RaggedLowering

passes = lazy_module("structir.passes")
MEMO_SIZE = 64
_MEMO: dict[int, Any] = {}  # by the id of a module: a reference, and the lowered one or None


def is_ragged(info: StructInfo | None) -> bool:
    """Returns whether a StructInfo, or a field of it, is that of a ragged tensor."""
    if isinstance(info, TupleStructInfo):
        return any(map(is_ragged, info.fields))
    return has_ragged_axis(info)


def has_ragged_values(module: IRModule) -> bool:
    """Returns whether a function of a module has a ragged tensor."""
    return any([_has_ragged(f) for f in module.functions.values() if isinstance(f, Function)])


def _has_ragged(function: Function) -> bool:
    return any([is_ragged(param.struct_info) for param in function.params]) or any(
        [is_ragged(binding.var.struct_info) for binding in bindings_of(function)]
    )


def lowered_functions(module: IRModule) -> IRModule:
    """Returns a module whose functions have no ops on ragged tensors, except on their parts."""
    functions: dict[str, Any] = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function) and _has_ragged(function):
            functions[name] = RaggedLowering(module).function(name, function)
    return module.with_functions(functions)


def lowered(module: IRModule) -> IRModule:
    """Returns a module in the form that runs; memoized, as programs are run several times."""
    known = _MEMO.get(id(module))
    if known is not None and known[0]() is module:
        return module if known[1] is None else known[1]
    result: IRModule | None = passes.LowerRagged()(module) if has_ragged_values(module) else None
    if len(_MEMO) >= MEMO_SIZE:
        _MEMO.clear()
    _MEMO[id(module)] = (ref(module), result)
    return module if result is None else result
