"""Imports functions and kernels of other modules that a program captures: private functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from structir.analysis.substitution import Substitution
from structir.analysis.variables import walk_values
from structir.errors import Diagnostic, ParseError
from structir.ir.expr import BindingBlock, Expr, Function, GlobalVar, SeqExpr, Var, VarBinding
from structir.ir.kernel import Kernel
from structir.ir.node import Node, replace
from structir.printer.parser.captured import ModuleFunction
from structir.printer.syntax import PRIVATE


class _Renaming(Substitution):
    """Replaces references to functions of a module."""

    def __init__(self, references: Mapping[str, Expr]) -> None:
        super().__init__()
        self.references = references

    def part(self, part: Any) -> Any:
        if type(part) is GlobalVar:
            return self.references.get(part.name, part)
        return super().part(part)


class Imports:
    """The functions of other modules that a text imports, by their names in it."""

    def __init__(self, is_taken: Callable[[str], bool]) -> None:
        self.is_taken = is_taken
        self.functions: dict[str, Node] = {}
        self.names: dict[int, tuple[Any, str]] = {}  # the objects stay alive with their ids

    def add(self, value: Any, name: str) -> str:
        """Imports a function with all functions that it calls; returns its name."""
        module = value.module.functions if type(value) is ModuleFunction else {}
        name = value.name if type(value) is ModuleFunction else name
        function = module[name] if type(value) is ModuleFunction else value
        return self._import(function, name, module)

    def signature_of(self, name: str) -> Function | None:
        """Returns an imported function, which has the parameters and defaults of its calls."""
        function = self.functions.get(name)
        return function if isinstance(function, Function) else None

    def _import(self, function: Any, name: str, module: Mapping[str, Node]) -> str:
        imported = self.names.get(id(function))
        if imported is not None:
            return imported[1]
        own = self._free_name(name)
        self.names[id(function)] = function, own
        self.functions[own] = function
        references = {
            reference.name: self._reference(reference, module)
            for reference in _references(function)
        }
        self.functions[own] = _private(function, references)
        return own

    def _reference(self, reference: GlobalVar, module: Mapping[str, Node]) -> GlobalVar:
        callee = module.get(reference.name)
        if callee is None:
            message = f"a captured function calls `{reference.name}`, which is not captured with it"
            hint = f'name it through its module: `module["{reference.name}"](x)`'
            raise ParseError(Diagnostic(message, hint=hint, code="E0111"))
        return GlobalVar(self._import(callee, reference.name, module), reference.struct_info)

    def _free_name(self, name: str) -> str:
        free, count = name, 0
        while free in self.functions or self.is_taken(free):
            count += 1
            free = f"{name}_{count}"
        return free


def _references(function: Any) -> Iterator[GlobalVar]:
    for item in walk_values(function):
        if isinstance(item, GlobalVar):
            yield item


def _private(function: Any, references: Mapping[str, Expr]) -> Any:
    if isinstance(function, Kernel):
        return function
    renamed = _Renaming(references).function(function) if references else function
    return replace(renamed, attrs={**renamed.attrs, PRIVATE: True})


def with_local_functions(function: Function, imports: Mapping[str, Node]) -> Function:
    """Returns a function that binds imported functions first, as it belongs to no module."""
    used = _callees_first(function, imports)
    if not used:
        return function
    references: dict[str, Expr] = {}
    bindings = []
    for name in used:
        imported = imports[name]
        if not isinstance(imported, Function):
            raise _needs_module(name, "a kernel")
        if any([r.name in imports and r.name not in references for r in _references(imported)]):
            raise _needs_module(name, "recursive")
        references[name] = var = Var(name, imported.struct_info)
        local = _Renaming(references).function(imported)
        attributes = {key: value for key, value in local.attrs.items() if key != PRIVATE}
        bindings.append(VarBinding(var, replace(local, attrs=attributes)))
    renamed = _Renaming(references).function(function)
    body = renamed.body
    blocks = (BindingBlock(tuple(bindings)), *body.blocks)
    return replace(renamed, body=SeqExpr(blocks, body.body, body.struct_info, body.span))


def _needs_module(name: str, kind: str) -> ParseError:
    message = f"`{name}` is {kind}: expected a caller in a module, found a function outside of one"
    hint = "write the function in a class decorated with `@I.ir_module`"
    return ParseError(Diagnostic(message, hint=hint, code="E0111"))


def _callees_first(function: Function, imports: Mapping[str, Node]) -> list[str]:
    """Returns the imported functions that a function calls; each follows those that it calls."""
    order: dict[str, None] = {}
    entered: set[str] = set()
    stack = [iter(list(_references(function)))]
    names = [""]
    while stack:
        callee = next(
            (r.name for r in stack[-1] if r.name in imports and r.name not in entered), None
        )
        if callee is None:
            stack.pop()
            order[names.pop()] = None
            continue
        entered.add(callee)
        names.append(callee)
        stack.append(iter(list(_references(imports[callee]))))
    return [name for name in order if name]
