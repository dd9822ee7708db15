"""Sizes as the command line writes them."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def sizes_of(text: str) -> dict[str, int]:
    """`batch=4,seq=16` as a dict."""
    sizes = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if not number.strip().isdecimal():
            raise typer.BadParameter(f"{part!r} is no size; write them as batch=4,seq=16")
        sizes[name.strip()] = int(number)
    return sizes


def refuse_unknown(what: str, given: Iterable[str], known: set[str]) -> None:
    unknown = ", ".join(sorted(set(given) - known))
    if unknown:
        has = ", ".join(sorted(known)) or "none"
        raise typer.BadParameter(f"there is no {what} {unknown}; there are: {has}")
