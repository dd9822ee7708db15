"""Scalar functions of floats: one file per family, which declares all facts of its functions.

A new file needs no registration.
"""

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Imports every family, which declares its functions."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
