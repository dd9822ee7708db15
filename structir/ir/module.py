"""A module: functions by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from keyword import iskeyword
from typing import Any, NoReturn

import attrs

from structir.errors import Diagnostic, DiagnosticError, StructIRError
from structir.ir.expr import NO_ATTRS, Attrs, Function
from structir.ir.node import Node, node


@node
class IRModule(Node):
    """Functions by name, in order, with attributes of the whole."""

    functions: Mapping[str, Node] = attrs.Factory(dict)
    attrs: Attrs = NO_ATTRS
    name: str = "Module"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a module is kept by `structir.save`, or as the text of `script()`")

    def __deepcopy__(self, memo: Any) -> IRModule:
        return self  # nothing in it changes

    __copy__ = __deepcopy__

    def __attrs_post_init__(self) -> None:
        for name in self.functions:
            if not name.isidentifier() or iskeyword(name):
                text = f"{name!r} is no name of a function: names are Python identifiers"
                raise DiagnosticError(Diagnostic(text))

    def __getitem__(self, name: str) -> Function:
        found = self.functions.get(name)
        if found is None:
            known = ", ".join(self.functions)
            raise StructIRError(f"no function `{name}` in module; available: {known}", code="E1002")
        return found  # type: ignore[return-value]

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def with_functions(self, functions: Mapping[str, Node]) -> IRModule:
        """The same module over other functions."""
        return IRModule(functions, self.attrs, self.name)

    def script(self) -> str:
        """The text of the module, which `structir.parse` reads back."""
        return str(self)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.functions)


def as_module(program: Any, asked_by: str) -> IRModule:
    """What stands for a module: one, or a function, which becomes its `main`."""
    if isinstance(program, IRModule):
        return program
    if isinstance(program, Function):
        return IRModule({"main": program})
    found = type(program).__name__
    hint = ": structir.parse reads a text" if isinstance(program, str) else ""
    raise StructIRError(f"{asked_by} takes a module or a function, not {found}{hint}")
