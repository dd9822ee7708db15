"""A graph as a text with one line for each node, so that messages can show the node they mean and
the line of Python that it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from structir.errors import Source, Span
from structir.frontend.torch.graph import (
    DTypeName,
    FxGraph,
    NodeSpec,
    Ref,
    StorageAttribute,
    names_of,
)

LONGEST = 240  # characters of a line
FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+)[^\n]*(?:\n[ \t]*(?P<code>[^\n]*))?')
OWN = re.compile(r"(^|/)torch/|^<")  # frames of torch itself, and of code that it makes


def listed(nodes: Sequence[NodeSpec], where: str) -> list[Span]:
    """For each node its place in the listing of its graph."""
    lines = [line_of(node) for node in nodes]
    source = Source(where, "\n".join([text + comment for text, comment in lines]))
    return [Span(source, i, 0, i, len(text)) for i, (text, _) in enumerate(lines, start=1)]


def line_of(node: NodeSpec) -> tuple[str, str]:
    """A node in one line, such as `y = aten.relu.default(x)`, and where it comes from."""
    outputs = ", ".join(names_of(node.outputs)) or "_"
    args = ", ".join(_shown(name, value) for name, value in node.args.items())
    text = _plain(f"{outputs} = {node.target}({args})")
    text = text if len(text) <= LONGEST else text[: LONGEST - 4] + " ..."
    origin = origin_of(node.trace)
    return text, _plain(f"  # {origin}")[:LONGEST] if origin else ""


def origin_of(trace: str) -> str:
    """The user's own line that a node comes from, out of a stack trace."""
    frames = list(FRAME.finditer(trace[:20_000]))
    own = [f for f in frames if not OWN.search(f["file"])]
    if not own:
        return ""
    last = own[-1]
    return f"{last['file'].rpartition('/')[2]}:{last['line']}: {(last['code'] or '').strip()}"


def _plain(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _shown(name: str, value: Any) -> str:
    plain = not name.startswith("*") and not isinstance(value, Ref)
    return f"{name}={_text(value)}" if plain else _text(value)


def _text(value: Any) -> str:
    match value:
        case Ref(name=text) | StorageAttribute(text=text):
            return text
        case DTypeName(dtype=dtype):
            return str(dtype)
        case FxGraph():
            return "<graph>"
        case tuple():
            return f"[{', '.join(_text(v) for v in value)}]"
    return repr(value)
