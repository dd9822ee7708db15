"""The one lazy door: modules and public names that load on first use."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType


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


def lazy_names(
    package: ModuleType | str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names live in the modules that `homes`
    tells.

    A home `"a.b"` holds the name itself; a home `"a.b:"` is the module that the name stands for.
    """
    package_name = package if isinstance(package, str) else package.__name__

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package_name!r} has no attribute {name!r}")
        home = homes[name]
        module = importlib.import_module(home.removesuffix(":"))
        return module if home.endswith(":") else getattr(module, name)

    return find, lambda: sorted(homes)
