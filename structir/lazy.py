"""The one lazy door: modules and public names that load on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


class LazyModule:
    """Stands for a module until one of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


def lazy_module(name: str) -> Any:
    """A module that is imported when it is first used."""
    return LazyModule(name)


class _Facade(ModuleType):
    """A package whose public names win over its files of the same name.

    Python sets every imported file as an attribute of its package, over what `__getattr__` gives.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        own_file = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        home = self._homes.get(name)
        if not own_file or home in (None, f"{self.__name__}.{name}:"):
            super().__setattr__(name, value)


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names live in the modules that `homes`
    tells.

    A home `"a.b"` holds the name itself; a home `"a.b:"` is the module that the name stands for.
    """
    module = sys.modules[package]
    module.__dict__.setdefault("_homes", {}).update(homes)
    module.__class__ = _Facade

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        found = importlib.import_module(home.removesuffix(":"))
        return found if home.endswith(":") else getattr(found, name)

    return find, lambda: sorted(homes)
