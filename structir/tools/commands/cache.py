"""`structir cache`: prints or clears the disk cache of compiled kernels."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from structir.lazy import lazy_module
from structir.tools.as_json import Json, write
from structir.tools.terminal import console

rich_table = lazy_module("rich.table")
disk = lazy_module("structir.system.cache")
PANEL = "Run"


class Action(StrEnum):
    """An action on the cache."""

    show = "show"
    clear = "clear"


def cache(
    action: Annotated[
        Action,
        typer.Argument(help="show prints the size and location of the cache; clear empties it."),
    ],
    json: Json = False,
) -> None:
    """Print or clear the cache of compiled kernels.

    The environment variable STRUCTIR_CACHE is its folder, or [bold]off[/bold]. \
STRUCTIR_CACHE_MAX_BYTES is its maximum size; beyond it, least recently used entries are evicted.

    With --json: `directory`, `entries`, `bytes`, `max_bytes`, `last_used`; for clear, the number
    of entries `removed`.

    [bold]Examples[/bold]

        structir cache show

        structir cache clear
    """
    store = disk.store()
    if store is None:
        if json:
            write({"directory": None})
        else:
            console().print("the cache is turned off (STRUCTIR_CACHE=off)")
        return
    if json:
        write({"removed": store.clear()} if action is Action.clear else _data(store))
        return
    if action is Action.clear:
        count = store.clear()
        console().print(f"removed {count} {'entry' if count == 1 else 'entries'}")
        return
    console().print(_table(store))


def _data(store: Any) -> dict[str, Any]:
    files = list(store.files())
    sizes = {"bytes": sum(f.size for f in files), "max_bytes": store.max_bytes}
    used = max((f.used for f in files), default=None)
    return {"directory": str(store.root), "entries": len(files), **sizes, "last_used": used}


def _table(store: Any) -> Any:
    files = list(store.files())
    size = sum(f.size for f in files)
    table = rich_table.Table(show_header=False, box=None)
    table.add_row("directory", str(store.root))
    table.add_row("entries", f"{len(files):,}")
    table.add_row("bytes", f"{size:,} of {store.max_bytes:,} allowed")
    if files:
        last = time.strftime("%Y-%m-%d %H:%M", time.localtime(max(f.used for f in files)))
        table.add_row("last used", last)
    return table
