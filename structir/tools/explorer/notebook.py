"""What a notebook shows of a program: the explorer in a frame, and its text in colours."""

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

MOST_SHOWN = 400  # bindings that are drawn in a notebook; of larger programs the text is shown
MOST_LINES = 400  # of a text
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
    """A node as a notebook shows it."""
    return SHOWN.get(type(node), _text)(node)


def _text(node: Any) -> str:
    """The text of a node, in colours."""
    lines = str(node).rstrip().splitlines()
    more = f"\n# … {len(lines) - MOST_LINES} lines more" if len(lines) > MOST_LINES else ""
    text = "".join(coloured("\n".join(lines[:MOST_LINES]) + more))
    return f'<style>{STYLE}</style><div class="structir">{text}</div>'


def coloured(text: str) -> Iterator[str]:
    """A text as HTML: its tokens in spans, all else escaped."""
    done = 0
    for match in TOKENS.finditer(text):
        yield html.escape(text[done : match.start()])
        yield f'<span class="{match.lastgroup}">{html.escape(match[0])}</span>'
        done = match.end()
    yield html.escape(text[done:])


def _program(module: IRModule) -> str:
    """The explorer's page in a frame that may run nothing else, and the text to be opened."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    if sum(len(function.bindings()) for function in functions) > MOST_SHOWN:
        return _text(module)
    try:
        page = explorer.page(module, module.name, small=True)
    except StructIRError:  # what cannot be drawn can still be read
        return _text(module)
    style = f"width:100%;height:{HEIGHT}px;border:1px solid #8884;border-radius:6px"
    page = html.escape(page)
    frame = f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'
    return f"{frame}<details><summary>text</summary>{_text(module)}</details>"


def _function(function: Function) -> str:
    name = function.attrs.get("global_symbol", "main")
    return _program(IRModule({name if str(name).isidentifier() else "main": function}))


SHOWN: dict[type, Callable[[Any], str]] = {IRModule: _program, Function: _function}
