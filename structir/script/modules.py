"""The namespace I: modules and kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, overload

from structir.ir.module import IRModule
from structir.ir.vdevice import SCOPE, VDevice, kind_of
from structir.script.source import is_member, kernel_of, module_at


class ModuleLanguage:
    """The language of modules: `@I.ir_module` parses a class to a module, without executing it."""

    @overload
    def ir_module(self, cls: type) -> IRModule: ...
    @overload
    def ir_module(self, **options: Any) -> Callable[[type], IRModule]: ...
    def ir_module(self, cls: type | None = None, **_options: Any) -> Any:
        """Decorates a class whose functions are decorated with @R.function; returns its module."""
        frame = sys._getframe(1)
        line = frame.f_lineno
        return module_at(frame, line, cls) if cls else lambda result: module_at(frame, line, result)

    def kernel(self, function: FunctionType | None = None, **launch: Any) -> Any:
        """Decorates a kernel. In a class, the class is parsed as a whole."""
        if function is None:
            return self.kernel
        return function if is_member(function) else kernel_of(function, sys._getframe(1))

    def module_attrs(self, attributes: Mapping[str, Any]) -> None:
        """Declares attributes of the enclosing module; the parser takes them from the text."""

    def module_global_infos(self, infos: Mapping[str, Any]) -> None:
        """Lists the vdevices of the enclosing module; the parser takes them from the text."""

    def vdevice(
        self, target: str | Mapping[str, Any], vdevice_id: int = 0, memory_scope: str = SCOPE
    ) -> VDevice:
        """Returns a vdevice of the kind of a target."""
        return VDevice(kind_of(target) or str(target), vdevice_id, memory_scope)


I = ModuleLanguage()  # noqa: E741  the name in the language
