"""References to the arrays of stored plans: packed weights as a constant and its packing.

Packing is cheaper than a second copy of the weights in a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from structir.backend.loops.packing import origin_of, panels_of
from structir.backend.stored_checks import matrix_form

Json = Any


def reference_to(array: Any, key_of: Callable[[Any], Json]) -> list[Json]:
    """Returns the reference to an array: the key of its constant, and the packing if packed."""
    origin = origin_of(array)
    data = None if origin is None else origin.data()
    if origin is None or data is None:
        return [key_of(array)]
    return [key_of(data), origin.packing, *attrs.astuple(origin.form)]


def referenced(reference: Json, array_of: Callable[[Json], Any]) -> Any:
    """Returns the array of a reference; packs the constant if needed."""
    key, *panels = reference
    constant = array_of(key)
    if not panels:
        return constant
    packing, *form = panels
    return panels_of(constant, matrix_form(constant, packing, form), packing)
