"""Op families: one file per family, one index signature and one body per op.

Each file of this package is a family. A new file needs no registration.
"""

import importlib
import pkgutil
from functools import cache

from structir.ir.scalar_functions import declared
from structir.lazy import lazy_names

__getattr__, __dir__ = lazy_names(  # the functions of `jax.ops`
    __name__,
    {f"segment_{kind}": "structir.numpy.segments" for kind in ("sum", "prod", "max", "min")},
)


@cache
def load() -> None:
    """Imports every family, which registers its ops; some are beside their scalar functions."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    declared()
