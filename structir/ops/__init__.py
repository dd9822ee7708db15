"""Ops: each declared once, by one line and one body, in one file for its family.

The families are found by listing this folder: a new file is a new family.
"""

import importlib
import pkgutil
from functools import cache

# Machinery that deduction does without; it loads when a call is run or lowered.
LATER = frozenset(
    {"clauses", "declaration", "entries", "gradient", "pieces", "reference", "schemes"}
)


@cache
def load() -> None:
    """Import every family of ops, once; each registers its ops."""
    for module in pkgutil.iter_modules(__path__):
        if module.name not in LATER:
            importlib.import_module(f"{__name__}.{module.name}")
