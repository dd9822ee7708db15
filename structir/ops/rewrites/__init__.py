"""Rewrites about particular ops: what passes know of an op, said beside the ops.

Every file of this folder is read when passes first ask for rewrites; a new file needs no entry.
"""

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Import every file of rewrites, once; each registers its own."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
