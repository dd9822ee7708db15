"""The namespace I: modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, overload

from structir.ir.module import IRModule
from structir.script.source import is_member, kernel_of, module_at


class ModuleLanguage:
    """`@I.ir_module` makes a module of a class; its body is read, never executed."""

    @overload
    def ir_module(self, cls: type) -> IRModule: ...
    @overload
    def ir_module(self, **options: Any) -> Callable[[type], IRModule]: ...
    def ir_module(self, cls: type | None = None, **_options: Any) -> Any:
        """Decorate a class whose functions stand under @R.function."""
        frame = sys._getframe(1)
        filename, line, namespace = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
        if cls is None:
            return lambda result: module_at(filename, line, namespace, vars(result).values())
        return module_at(filename, line, namespace, vars(cls).values())

    def kernel(self, function: Callable[..., Any] | None = None, **launch: Any) -> Any:
        """Decorate loops over elements. In a class, the class is read as a whole."""
        if function is None:
            return self.kernel
        return function if is_member(function) else kernel_of(function)

    def module_attrs(self, attributes: Mapping[str, Any]) -> None:
        """State attributes of the module around; the reader takes them from the text."""


I = ModuleLanguage()  # noqa: E741  the name that the language has for it
