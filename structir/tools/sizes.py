"""Reads sizes of symbolic dims from the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from structir.lazy import lazy_module
from structir.tools.completion import sizes_beginning

if TYPE_CHECKING:
    from structir.ir.expr import Function

binding_dims = lazy_module("structir.ir.binding_dims")
dims = lazy_module("structir.ir.dims")

MOST_DIGITS = 4000  # Python refuses to convert more than 4300
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
        if not name.isidentifier() or not number.isdecimal() or len(number) > MOST_DIGITS:
            raise typer.BadParameter(f"--sizes: expected NAME=INT, found {part!r}")
        if name in sizes:
            raise typer.BadParameter(f"--sizes: duplicate dim {name}")
        sizes[name] = int(number)
    return sizes


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
