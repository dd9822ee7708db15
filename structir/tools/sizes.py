"""Reads sizes of symbolic dims from the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from structir.lazy import lazy_module
from structir.tools.completion import sizes_beginning

if TYPE_CHECKING:
    from structir.ir.expr import Function

binding_dims = lazy_module("structir.ir.binding_dims")
dims = lazy_module("structir.ir.dims")

MOST_DIGITS = 4000  # Python refuses to convert more than 4300
BETWEEN = re.compile(r",(?![^\[]*\])")  # a comma outside of brackets
Sizes = Annotated[
    str,
    typer.Option(
        "--sizes",
        "-s",
        metavar="NAME=INT,...",
        help="Sizes of symbolic dims, such as batch=4,seq=16.",
        autocompletion=sizes_beginning,
    ),
]


def sizes_of(text: str) -> dict[str, int]:
    """Parses sizes such as `batch=4,seq=16`. Raises BadParameter if one is invalid or repeated."""
    sizes: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, number = [word.strip() for word in part.partition("=")]
        if not name.isidentifier() or not _is_size(number):
            raise typer.BadParameter(f"--sizes: expected NAME=INT, found {part!r}")
        _add(sizes, name, int(number))
    return sizes


def sizes_and_lengths_of(text: str) -> dict[str, int | list[int]]:
    """Parses sizes and row lengths of ragged parameters, such as `n=4,x=[3,1,0,2]`.

    Raises BadParameter if one is invalid or repeated.
    """
    sizes: dict[str, int | list[int]] = {}
    for part in filter(None, BETWEEN.split(text)):
        name, _, value = [word.strip() for word in part.partition("=")]
        is_list = value.startswith("[") and value.endswith("]")
        words = [word.strip() for word in value[1:-1].split(",")] if is_list else [value]
        words = [] if words == [""] and is_list else words
        if not name.isidentifier() or not all(map(_is_size, words)):
            expected = "--sizes: expected NAME=INT or NAME=[INT,...]"
            raise typer.BadParameter(f"{expected}, found {part!r}")
        _add(sizes, name, list(map(int, words)) if is_list else int(value))
    return sizes


def _is_size(text: str) -> bool:
    return text.isdecimal() and len(text) <= MOST_DIGITS


def _add(sizes: dict[str, Any], name: str, size: int | list[int]) -> None:
    if name in sizes:
        raise typer.BadParameter(f"--sizes: duplicate dim {name}")
    sizes[name] = size


def sizes_for(function: Function, text: str) -> dict[str, int]:
    """Parses sizes of symbolic dims of a function's parameters.

    Raises BadParameter if a dim is unknown.
    """
    infos = [param.struct_info for param in function.params]
    dim_names = {sym.name for sym in binding_dims.standing_alone(infos) if type(sym) is dims.Sym}
    sizes = sizes_of(text)
    reject_unknown("--sizes", "symbolic dim", sizes, dim_names)
    return sizes


def reject_unknown(option: str, kind: str, names: Iterable[str], available: set[str]) -> None:
    """Raises BadParameter if some of the names are not available."""
    unknown = ", ".join(sorted(set(names) - available))
    if unknown:
        listed = ", ".join(sorted(available)) or "none"
        raise typer.BadParameter(f"{option}: no {kind} {unknown}; available: {listed}")
