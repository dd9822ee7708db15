"""How ONNX's ops are said in StructIR: a file for each family, found by listing this folder."""

import importlib
import pkgutil
from functools import cache


@cache
def load() -> None:
    """Import every family, once; each registers its mappings."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
