"""Lazy imports: modules and public names that load on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from structir.interrupts import defer_interrupts


def import_completely(name: str) -> ModuleType:
    """Imports a module; an interrupt that arrives meanwhile is handled after it.

    A module that an interrupt leaves half imported fails at every later import: numba's modules
    import each other in cycles.
    """
    with defer_interrupts():
        return importlib.import_module(name)


class LazyModule:
    """A proxy that imports its module on the first attribute access."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_completely(self._name), attribute)
        setattr(self, attribute, value)
        return value


def lazy_module(name: str) -> Any:
    """Returns a proxy of a module that is imported on first use."""
    return LazyModule(name)


class _Facade(ModuleType):
    """A package whose public names take precedence over submodules of the same name.

    The import system sets each submodule as an attribute of its package, which would hide the name
    that `__getattr__` resolves.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        is_submodule = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        home = self._homes.get(name)
        if not is_submodule or home in (None, f"{self.__name__}.{name}:"):
            super().__setattr__(name, value)


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package with lazy public names.

    `homes` maps each name to its module: `"a.b"` defines the name, `"a.b:"` is the named module.
    """
    module = sys.modules[package]
    module.__dict__.setdefault("_homes", {}).update(homes)
    module.__class__ = _Facade

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        loaded = importlib.import_module(home.removesuffix(":"))
        return loaded if home.endswith(":") else getattr(loaded, name)

    return find, lambda: sorted(homes)
