"""HTML of nodes for notebooks: the explorer in a frame, or highlighted source."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

from structir.errors import StructIRError
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.lazy import lazy_module

explorer = lazy_module("structir.tools.explorer.page")

MAX_BINDINGS = 400  # of a drawn program; larger programs are shown as source
MAX_LINES = 400  # of source
HEIGHT = 460
TOKENS = re.compile(
    r"(?P<comment>#.*)|(?P<string>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<op>@?\b(?:I|R|T)\.[\w.]+)|(?P<number>\b\d[\w.]*)"
    r"|(?P<keyword>\b(?:def|class|return|with|if|else|for|in|while|from|import|pass)\b)"
)
STYLE = """
.structir{font:12px/1.5 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre;
overflow:auto}
.structir .comment{color:#717a8d}.structir .string{color:#0b7a4b}.structir .op{color:#2f5bd8}
.structir .keyword{color:#9a2aa8}.structir .number{color:#b0500f}
[data-jp-theme-light="false"] .structir .string,.vscode-dark .structir .string{color:#7fd6a8}
[data-jp-theme-light="false"] .structir .op,.vscode-dark .structir .op{color:#8fb0ff}
[data-jp-theme-light="false"] .structir .keyword,.vscode-dark .structir .keyword{color:#dc9bea}
[data-jp-theme-light="false"] .structir .number,.vscode-dark .structir .number{color:#efb07a}
"""


def html_of(node: Any) -> str:
    """Returns the HTML of a node for a notebook."""
    return _RENDERERS.get(type(node), _source_html)(node)


def _source_html(node: Any) -> str:
    """Returns the highlighted source of a node."""
    lines = str(node).rstrip().splitlines()
    omitted = len(lines) - MAX_LINES
    ending = f"\n# … {omitted} more lines" if omitted > 0 else ""
    source = "".join(highlight("\n".join(lines[:MAX_LINES]) + ending))
    return f'<style>{STYLE}</style><div class="structir">{source}</div>'


def highlight(source: str) -> Iterator[str]:
    """Yields source as escaped HTML, with each token in a span."""
    end = 0
    for match in TOKENS.finditer(source):
        yield html.escape(source[end : match.start()])
        yield f'<span class="{match.lastgroup}">{html.escape(match[0])}</span>'
        end = match.end()
    yield html.escape(source[end:])


def _module_html(module: IRModule) -> str:
    """Returns the explorer's page in a sandboxed frame, and the source in a closed section."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    if sum(len(function.bindings()) for function in functions) > MAX_BINDINGS:
        return _source_html(module)
    try:
        page = explorer.page(module, module.name, small=True)
    except StructIRError:  # the source needs no graph
        return _source_html(module)
    style = f"width:100%;height:{HEIGHT}px;border:1px solid #8884;border-radius:6px"
    page = html.escape(page)
    frame = f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'
    return f"{frame}<details><summary>source</summary>{_source_html(module)}</details>"


def _function_html(function: Function) -> str:
    name = function.attrs.get("global_symbol", "main")
    return _module_html(IRModule({name if str(name).isidentifier() else "main": function}))


_RENDERERS: dict[type, Callable[[Any], str]] = {
    IRModule: _module_html,
    Function: _function_html,
}
