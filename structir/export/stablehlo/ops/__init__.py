"""Mappings of ops whose values no index spec has: one file per op family; `load` imports all."""

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Imports every file of this folder once; each registers its mappings."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
