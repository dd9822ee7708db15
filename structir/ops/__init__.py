"""Op families: one file for each family, one index signature and one body for each op.

The families are the files of this folder: a new file is a new family.
"""

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Imports every family, which registers its ops."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
