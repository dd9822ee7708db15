"""References to the arrays of stored plans: packed weights as a constant and its packing.

The cache on disk packs the constants of a program again. A saved executable holds the panels of
the constants that only products read, in place of these constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from structir.loops.products.contraction import MatrixForm
from structir.loops.products.packing import origin_of, panels_of, restored_panels, widths_of
from structir.printer.files.column_panels import ColumnPanels, ModuleArrays
from structir.runtime.files.serialise_checks import matrix_form, require

Json = Any
STORED_PACKINGS = ("wide", "paired", "few_rows", "narrow")
MAX_PADDING = 1.05  # larger panels are packed again on load


def reference_to(array: Any, key_of: Callable[[Any], Json]) -> list[Json]:
    """Returns the reference to an array: the key of its constant, and the packing if packed."""
    origin = origin_of(array)
    data = None if origin is None else origin.data()
    if origin is None or data is None:
        return [key_of(array)]
    return [key_of(data), origin.packing, *attrs.astuple(origin.form)]


def resolve_reference(reference: Json, array_of: Callable[[Json], Any]) -> Any:
    """Returns the array of a reference; packs the constant if needed."""
    key, *panels = reference
    constant = array_of(key)
    if not panels:
        return constant
    packing, *form = panels
    return panels_of(constant, matrix_form(constant, packing, form), packing)


def resolve_in_file(reference: Json, arrays: ModuleArrays) -> Any:
    """Returns the array of a reference in a file, which may hold its panels."""
    name, *packing_and_form = reference
    stored = arrays.panels.get(name)
    if stored is None or not packing_and_form:
        return resolve_reference(reference, arrays.__getitem__)
    packing, *fields = packing_and_form
    panels = arrays.arrays[stored.array]
    form = whole_matrix(stored)
    require(packing in STORED_PACKINGS and list(attrs.astuple(form)) == fields, "other panels")
    widths = widths_of(form.columns, panels.dtype.name, packing)
    require(tuple(widths) == stored.widths, "panels of other widths")
    return restored_panels(panels, partial(arrays.__getitem__, name), form, packing)


def whole_matrix(stored: ColumnPanels) -> MatrixForm:
    """Returns the form of a matrix that is a whole constant."""
    terms, columns = stored.terms, stored.columns
    down, across = (1, terms) if stored.is_transposed else (columns, 1)
    return MatrixForm(0, terms, columns, down, across)


class StoredPanels:
    """The panels of a program's constants, while its plans are written."""

    def __init__(self) -> None:
        self._panels: dict[str, dict[Any, Any]] = {}  # by the name of the constant
        self._read: set[str] = set()  # constants that plans read as they are

    def add(self, reference: list[Json], array: Any) -> list[Json]:
        """Records the use of an array; returns its reference."""
        name, *form = reference
        if form:
            self._panels.setdefault(name, {})[tuple(form)] = array
        else:
            self._read.add(name)
        return reference

    def replace_constants(self, arrays: dict[str, Any]) -> Mapping[str, Json]:
        """Replaces constants by their panels, where nothing else reads them.

        Returns the JSON of the panels by the names of the constants.
        """
        records = {}
        for name, packed in self._panels.items():
            constant = arrays.get(name)
            if len(packed) > 1 or name in self._read or constant is None:
                continue
            (((packing, *fields), panels),) = packed.items()
            record = _record(f"{name} in panels", constant, panels, packing, fields)
            if record is not None:
                del arrays[name]
                arrays[record.array] = panels.view(constant.dtype)
                records[name] = attrs.astuple(record)
        return records


def _record(
    name: str, constant: Any, panels: Any, packing: str, fields: list[int]
) -> ColumnPanels | None:
    """Returns the panels of a whole constant; None if the constant is to be stored."""
    form = MatrixForm(*fields)
    if packing not in STORED_PACKINGS or panels.nbytes > MAX_PADDING * constant.nbytes:
        return None
    widths = tuple(widths_of(form.columns, panels.dtype.name, packing))
    is_transposed = (form.down, form.across) == (1, form.terms)
    record = ColumnPanels(name, constant.shape, form.terms, is_transposed, widths)
    is_whole = form.terms * form.columns == constant.size and whole_matrix(record) == form
    return record if is_whole and record.fits(panels) else None
