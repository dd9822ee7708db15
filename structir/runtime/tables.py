"""Tables of results, as text and as HTML for notebooks."""

from __future__ import annotations

import io
from typing import Any

from structir.lazy import lazy_module

rich_table = lazy_module("rich.table")
rich_console = lazy_module("rich.console")
rich_text = lazy_module("rich.text")
WIDTH = 160  # columns


def table(columns: tuple[str, ...], rows: Any) -> Any:
    """Returns a table for a terminal."""
    result = rich_table.Table(box=None, header_style="bold")
    for name in columns:
        result.add_column(name)
    for row in rows:
        result.add_row(*[rich_text.Text(cell) for cell in row])
    return result


def text_of(tables: list[Any], width: int = WIDTH) -> str:
    """Returns tables as text, without spaces at the ends of lines."""
    out = io.StringIO()
    console = rich_console.Console(file=out, width=width)
    for number, each in enumerate(tables):
        console.print(*[""] * min(number, 1), each, sep="\n")
    return "\n".join([line.rstrip() for line in out.getvalue().splitlines()])


def html_of(tables: list[Any]) -> str:
    """Returns tables as HTML."""
    console = rich_console.Console(file=io.StringIO(), record=True, width=WIDTH)
    for each in tables:
        console.print(each)
    exported: str = console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
    return exported
