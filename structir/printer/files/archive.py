"""Saves and loads modules as `.sir` files.

A `.sir` file is a safetensors file of the large constants, with the source of the module as
metadata.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from structir.analysis.variables import walk
from structir.build import runnable_module
from structir.errors import Diagnostic, ParseError
from structir.ir.dtype import EXTENDED, numpy_dtype
from structir.ir.expr import Constant
from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.printer.constants import is_inline, reference_name
from structir.printer.files.column_panels import ModuleArrays, panels_of_json
from structir.printer.files.safetensors_file import mapped_file, read_json, write_file
from structir.printer.parser.parser import parse
from structir.printer.text import text_of

np = lazy_module("numpy")

TEXT = "structir"
PANELS = "structir.panels"  # the constants that are stored as panels
Path = str | os.PathLike[str]


def save(module: IRModule, path: Path) -> None:
    """Writes a module, its source and its constants, to a file."""
    write(*contents(runnable_module(module, "structir.save")), path)


def contents(module: IRModule) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the contents of the file of a module: arrays by name, and metadata."""
    arrays = {reference_name(data): stored(data) for data in large_constants(module)}
    return arrays, {TEXT: text_of(module)}


def large_constants(module: IRModule) -> list[Any]:
    """Returns the constants that the source of a module refers to by name."""
    constants = [node.data for node in walk(module) if isinstance(node, Constant)]
    return [data for data in constants if not is_inline(data)]


def write(arrays: dict[str, Any], facts: dict[str, str], path: Path) -> None:
    """Writes arrays and metadata to a file."""
    write_file(arrays, facts, pathlib.Path(path))


def load(path: Path) -> IRModule:
    """Reads a module that `save` wrote; raises ParseError if the file holds no module."""
    return module_of(path, *read(path))


def read(path: Path) -> tuple[ModuleArrays, dict[str, str]]:
    """Reads the arrays and the metadata of the file of a module."""
    try:
        stored, facts = mapped_file(pathlib.Path(path))
        records = read_json(facts.get(PANELS, "{}")).items()
        panels = {name: panels_of_json(name, fields) for name, fields in records}
        restored = {name: _restored(name, data) for name, data in stored.items()}
        arrays = ModuleArrays(restored, panels)
    except (ValueError, AttributeError):
        arrays, facts = ModuleArrays({}), {}
    if TEXT not in facts:
        name = os.fspath(path)
        raise ParseError(
            Diagnostic(
                f"{name}: not a StructIR module file",
                hint=f'write the file with `structir.save(module, "{name}")`',
                code="E1003",
            )
        )
    return arrays, facts


def listed(facts: Mapping[str, str], name: str) -> list[str] | None:
    """Returns the names in a JSON list of the metadata; None if it is invalid."""
    try:
        names = read_json(facts.get(name, ""))
    except ValueError:
        return None
    valid = isinstance(names, list) and all(isinstance(item, str) for item in names)
    return names if valid else None


def module_of(path: Path, arrays: Mapping[str, Any], facts: dict[str, str]) -> IRModule:
    """Parses the module of a file from its contents."""
    return parse(facts[TEXT], os.fspath(path), constants=arrays)


def stored(data: Any) -> Any:
    """Converts an array for safetensors; dtypes unknown to NumPy become unsigned integers."""
    data = np.ascontiguousarray(data).reshape(data.shape)
    return data.view(f"uint{8 * data.itemsize}") if data.dtype.name in EXTENDED else data


def _restored(name: str, data: Any) -> Any:
    dtype = next((d for d in EXTENDED if name.startswith(f"{d}_")), None)
    return data if dtype is None else data.view(numpy_dtype(dtype))
