"""Tables of functions, which the modules of a package fill."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

K = TypeVar("K")
F = TypeVar("F", bound=Callable[..., Any])
G = TypeVar("G", bound=Callable[..., Any])


class RegistrationTable(dict[K, F]):
    """Functions by key; a call with keys returns the decorator that registers a function."""

    def __call__(self, *keys: K) -> Callable[[G], G]:
        """Registers the decorated function under these keys."""

        def register(function: G) -> G:
            self.update(dict.fromkeys(keys, function))  # type: ignore[arg-type]
            return function

        return register


def loader(package: str) -> Callable[[], None]:
    """Returns a function that imports every module of a package once; each registers its parts."""

    @cache
    def load() -> None:
        for module in pkgutil.iter_modules(sys.modules[package].__path__):
            importlib.import_module(f"{package}.{module.name}")

    return load
