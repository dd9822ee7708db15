"""Separates a function from the recursive calls of it: only the function itself is sharded."""

from __future__ import annotations

from typing import Any

from structir.analysis.internal_functions import PRIVATE
from structir.analysis.substitution import Substitution
from structir.analysis.variables import walk
from structir.distributed.distinct_names import unused_name
from structir.ir.expr import Function, GlobalVar
from structir.ir.module import IRModule
from structir.ir.node import replace


def with_separate_entry(module: IRModule, name: str) -> IRModule:
    """Returns a module in which a recursive function calls a copy of itself, so that branches and
    sizes of one call are not those of the others; other modules are returned unchanged."""
    function = module.functions.get(name)
    if not isinstance(function, Function) or not _calls(module, name):
        return module
    copy = unused_name(f"{name}_", module.functions)
    calls = _Renamed(name, copy)
    functions: dict[str, Any] = {
        key: calls.function(each) if isinstance(each, Function) else each
        for key, each in module.functions.items()
    }
    original = functions[name]
    functions[copy] = replace(original, attrs={**original.attrs, PRIVATE: True})
    return module.with_functions(functions)


def _calls(module: IRModule, name: str) -> bool:
    """Whether a function calls itself, also by way of others."""
    todo: list[str] = [name]
    reached: set[str] = set()
    while todo:
        called = {p.name for p in walk(module.functions[todo.pop()]) if isinstance(p, GlobalVar)}
        if name in called:
            return True
        todo += sorted((called - reached) & module.functions.keys())
        reached |= called
    return False


class _Renamed(Substitution):
    """Renames a function of the module where it is called."""

    def __init__(self, name: str, new: str) -> None:
        super().__init__()
        self.name, self.new = name, new

    def part(self, part: Any) -> Any:
        """Returns any part of a program with the new name."""
        if type(part) is GlobalVar and part.name == self.name:
            return GlobalVar(self.new, part.struct_info)
        return super().part(part)
