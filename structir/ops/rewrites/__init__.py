"""Rewrite rules of particular ops.

Each file of this package is loaded when a pass first requests rules. A new file needs no
registration.
"""

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Imports every file of rules once; each registers its rules."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
