"""Sizes of symbolic dims as the command line writes them."""

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
    """Returns `batch=4,seq=16` as a dict."""
    sizes: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, number = [word.strip() for word in part.partition("=")]
        if not name.isidentifier() or not number.isdecimal() or len(number) > MOST_DIGITS:
            raise typer.BadParameter(f"--sizes: expected NAME=INT, found {part!r}")
        if name in sizes:
            raise typer.BadParameter(f"--sizes: {name} is given twice")
        sizes[name] = int(number)
    return sizes


def sizes_for(function: Function, text: str) -> dict[str, int]:
    """Returns the sizes that `text` gives to symbolic dims of a function's parameters."""
    infos = [param.struct_info for param in function.params]
    known = {sym.name for sym in binding_dims.standing_alone(infos) if type(sym) is dims.Sym}
    sizes = sizes_of(text)
    refuse_unknown("--sizes", "symbolic dim", sizes, known)
    return sizes


def refuse_unknown(option: str, what: str, names: Iterable[str], known: set[str]) -> None:
    """Raises BadParameter if some of the names are unknown."""
    unknown = ", ".join(sorted(set(names) - known))
    if unknown:
        available = ", ".join(sorted(known)) or "none"
        raise typer.BadParameter(f"{option}: no {what} {unknown}; available: {available}")
