"""The explorer's page: one HTML file that holds the program, its passes and the code that shows
them, and asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from structir.ir.module import IRModule
from structir.passes.base import PassRun
from structir.passes.manager.trace import record
from structir.tools.explorer.kernels import Timed, kernel_data
from structir.tools.explorer.program import shown

CLIENT = ("layout.js", "scene.js", "drawing.js", "text.js", "panels.js", "main.js")
MOST_DRAWN = 20_000  # lines of all programs on a page that are drawn
MOST_FUSED = 3_000  # of those that are shown with their kernels, but for the first and the last
MOST_FUSED_ALONE = 6_000  # of one program
MOST_FUSED_SMALL = 150  # of a program in a notebook, which is not waited for
HARMFUL = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page(
    module: IRModule,
    title: str,
    steps: Sequence[PassRun] = (),
    timed: Timed | None = None,
    small: bool = False,
) -> str:
    """The page of a program, and of the passes that ran over it; `small` is for notebooks."""
    if small:
        fused = _lines(module) <= MOST_FUSED_SMALL
        return html_of(data_of(module, title, fused=fused) | {"small": True})
    return html_of(data_of(module, title, steps, timed))


def data_of(
    module: IRModule,
    title: str,
    steps: Sequence[PassRun] = (),
    timed: Timed | None = None,
    fused: bool = True,
) -> dict[str, Any]:
    """All that the page shows. Of a long run of passes the first and the last program are drawn.
    Without `fused` the kernels are left out."""
    modules = {id(module): module}
    for step in steps:
        after = step.after
        if step.changed and after is not None:
            modules[id(after)] = after
    for step in steps:
        if step.depth == 0 and step.after is not None:  # what passes inside of it gave came before
            modules[id(step.after)] = modules.pop(id(step.after), step.after)
    programs = list(modules.values())
    lines = sum(map(_lines, programs))
    if lines > MOST_DRAWN and len(programs) > 2:
        programs = [programs[0], programs[-1]]
    drawn = []
    for place, each in enumerate(programs):
        found = shown(each, drawn=_lines(each) <= MOST_DRAWN)
        last = place == len(programs) - 1
        run = timed if last else None
        outer = last or place == 0
        few = lines <= MOST_FUSED or (outer and _lines(each) <= MOST_FUSED_ALONE)
        wanted = fused and bool(found.data["nodes"]) and (few or run is not None)
        drawn.append(found.data | {"compiled": kernel_data(found.module, run) if wanted else {}})
    places = {id(each): place for place, each in enumerate(programs)}
    start = steps[0].start if steps else 0.0
    told = [record(s, start) | {"program": places.get(id(s.after))} for s in steps]
    opened = len(told) - 1 if timed is not None else -1  # the last program is the one with times
    return {"title": title, "programs": drawn, "steps": told, "opened": opened}


def _lines(module: IRModule) -> int:
    return module.script().count("\n")


def html_of(data: dict[str, Any]) -> str:
    """The page that shows some data. What a program says stays data: a browser is reported to run
    nothing but the client."""
    style, script = client()
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    parts = {
        "POLICY": policy,
        "TITLE": html.escape(str(data["title"])),
        "STYLE": style,
        "DATA": embedded(data),
        "SCRIPT": script,
    }
    text = _client_file("page.html")
    pieces = text.split("@@")  # every other piece is the name of a part
    return "".join([parts[p] if k % 2 else p for k, p in enumerate(pieces)])


def embedded(data: Any) -> str:
    """Data as JSON that no HTML can end."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character, escape in HARMFUL.items():
        text = text.replace(character, escape)
    return text


@cache
def client() -> tuple[str, str]:
    """The style and the code of the page."""
    return _client_file("style.css"), "\n".join(map(_client_file, CLIENT))


def _client_file(name: str) -> str:
    return (resources.files(__package__) / "client" / name).read_text(encoding="utf-8")
