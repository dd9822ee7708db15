"""Renders the explorer's page: one HTML file with all data, style and code."""

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
from structir.tools.explorer.graph import program_data
from structir.tools.explorer.kernels import ProfileOptions, kernel_data

CLIENT = ("layout.js", "scene.js", "graph_view.js", "source_pane.js", "panels.js", "main.js")
MAX_DRAWN_LINES = 20_000  # of all programs of a page
MAX_KERNEL_LINES = 3_000  # of all programs; beyond, only the first and the last have kernels
MAX_KERNEL_LINES_SINGLE = 6_000  # of the first or the last program
MAX_KERNEL_LINES_NOTEBOOK = (
    150  # of a program in a notebook, where planning kernels delays the cell
)
ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page(
    module: IRModule,
    title: str,
    steps: Sequence[PassRun] = (),
    profile: ProfileOptions | None = None,
    small: bool = False,
) -> str:
    """Returns the HTML page of a program and of the passes that ran on it.

    `small` selects the layout for notebooks.
    """
    if small:
        with_kernels = _line_count(module) <= MAX_KERNEL_LINES_NOTEBOOK
        return render(page_data(module, title, with_kernels=with_kernels) | {"small": True})
    return render(page_data(module, title, steps, profile))


def page_data(
    module: IRModule,
    title: str,
    steps: Sequence[PassRun] = (),
    profile: ProfileOptions | None = None,
    with_kernels: bool = True,
) -> dict[str, Any]:
    """Returns the data of the page. The last program is the one that `profile` applies to.

    If all programs together are too large, only the first and the last one are included.
    """
    modules = _distinct_modules(module, steps)
    total = sum(map(_line_count, modules))
    if total > MAX_DRAWN_LINES and len(modules) > 2:
        modules = [modules[0], modules[-1]]
    programs = []
    for index, version in enumerate(modules):
        lines, is_last = _line_count(version), index == len(modules) - 1
        program = program_data(version, draw=lines <= MAX_DRAWN_LINES)
        options = profile if is_last else None
        fits_alone = (is_last or index == 0) and lines <= MAX_KERNEL_LINES_SINGLE
        is_small = total <= MAX_KERNEL_LINES or fits_alone or options is not None
        has_kernels = with_kernels and bool(program.data["nodes"]) and is_small
        kernels = kernel_data(program.module, options) if has_kernels else {}
        programs.append(program.data | {"compiled": kernels})
    indices = {id(version): index for index, version in enumerate(modules)}
    start = steps[0].start if steps else 0.0
    records = [record(step, start) | {"program": indices.get(id(step.after))} for step in steps]
    initial_step = len(records) - 1 if profile is not None else -1
    return {"title": title, "programs": programs, "steps": records, "initialStep": initial_step}


def _distinct_modules(module: IRModule, steps: Sequence[PassRun]) -> list[IRModule]:
    """Returns the module and the results of passes, each once, the final result last."""
    modules = {id(module): module}
    for step in steps:
        if step.changed and step.after is not None:
            modules[id(step.after)] = step.after
    for step in steps:
        if step.depth == 0 and step.after is not None:  # after the results of its inner passes
            modules[id(step.after)] = modules.pop(id(step.after), step.after)
    return list(modules.values())


def _line_count(module: IRModule) -> int:
    return module.script().count("\n")


def render(data: dict[str, Any]) -> str:
    """Returns the page for this data. Its content policy permits no script but the client."""
    style, script = client_assets()
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script_hash}'"
    substitutions = {
        "POLICY": policy,
        "TITLE": html.escape(str(data["title"])),
        "STYLE": style,
        "DATA": escaped_json(data),
        "SCRIPT": script,
    }
    parts = _client_file("page.html").split("@@")  # every second part is a name to substitute
    return "".join([substitutions[p] if k % 2 else p for k, p in enumerate(parts)])


def escaped_json(data: Any) -> str:
    """Returns data as JSON that cannot close an HTML element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character, escape in ESCAPES.items():
        text = text.replace(character, escape)
    return text


@cache
def client_assets() -> tuple[str, str]:
    """Returns the style sheet and the script of the page."""
    return _client_file("style.css"), "\n".join(map(_client_file, CLIENT))


def _client_file(name: str) -> str:
    return (resources.files(__package__) / "client" / name).read_text(encoding="utf-8")
