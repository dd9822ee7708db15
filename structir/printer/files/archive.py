"""`structir.save` and `structir.load`: a text and its large constants, kept together in one file.

A `.sir` file is a safetensors file: the arrays that the text refers to, and the text as metadata.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from structir.analysis.variables import walk
from structir.errors import Diagnostic, ParseError
from structir.ir.dtype import EXTENDED, numpy_dtype
from structir.ir.expr import Constant
from structir.ir.module import IRModule, as_module
from structir.lazy import lazy_module
from structir.printer.constants import is_inline, reference_name
from structir.printer.files.safetensors_file import mapped_file, read_json, write_file
from structir.printer.parser.parser import parse
from structir.printer.text import text_of

np = lazy_module("numpy")

TEXT = "structir"
Path = str | os.PathLike[str]


def save(module: IRModule, path: Path) -> None:
    """Write a module, its text and its constants, into one file."""
    write(*contents(as_module(module, "structir.save")), path)


def contents(module: IRModule) -> tuple[dict[str, Any], dict[str, str]]:
    """What a module's file holds: arrays by name, and facts as text."""
    held = [node.data for node in walk(module) if isinstance(node, Constant)]
    arrays = {reference_name(data): stored(data) for data in held if not is_inline(data)}
    return arrays, {TEXT: text_of(module)}


def write(arrays: dict[str, Any], facts: dict[str, str], path: Path) -> None:
    """Write arrays and facts into one file."""
    write_file(arrays, facts, pathlib.Path(path))


def load(path: Path) -> IRModule:
    """The module that `save` wrote."""
    return module_of(path, *read(path))


def read(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """All arrays of a module's file, and its facts."""
    try:
        stored, facts = mapped_file(pathlib.Path(path))
    except ValueError:
        stored, facts = {}, {}
    if TEXT not in facts:
        name = os.fspath(path)
        raise ParseError(
            Diagnostic(f"{name} holds no module", hint="structir.save writes one", code="E1003")
        )
    return {name: _restored(name, data) for name, data in stored.items()}, facts


def listed(facts: Mapping[str, str], name: str) -> list[str] | None:
    """The names that a fact lists; None where it is damaged."""
    try:
        found = read_json(facts.get(name, ""))
    except ValueError:
        return None
    whole = isinstance(found, list) and all(isinstance(each, str) for each in found)
    return found if whole else None


def module_of(path: Path, arrays: dict[str, Any], facts: dict[str, str]) -> IRModule:
    """The module of a file that has been read."""
    return parse(facts[TEXT], os.fspath(path), constants=arrays)


def stored(data: Any) -> Any:
    """An array that safetensors takes; dtypes that NumPy does not know go as plain bits."""
    data = np.ascontiguousarray(data).reshape(data.shape)
    return data.view(f"uint{8 * data.itemsize}") if data.dtype.name in EXTENDED else data


def _restored(name: str, data: Any) -> Any:
    dtype = next((d for d in EXTENDED if name.startswith(f"{d}_")), None)
    return data if dtype is None else data.view(numpy_dtype(dtype))
