"""Ops: each declared once, by one line and one body, in one file for its family.

The families are found by listing this folder: a new file is a new family.
"""

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Import every file of ops, once; each family registers its ops."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
