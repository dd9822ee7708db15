"""A printed form of a graph, one line per node, that diagnostics show as source.

Each line ends with the line of user code that the node was traced from.
"""

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

MAX_LENGTH = 240  # characters of a line
FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+)[^\n]*(?:\n[ \t]*(?P<code>[^\n]*))?')
TORCH_FRAME = re.compile(r"(^|/)torch/|^<")  # frames of torch itself and of generated code


def node_spans(nodes: Sequence[NodeSpec], where: str) -> list[Span]:
    """Returns the location of each node in the printed form of its graph."""
    lines = [line_of(node) for node in nodes]
    source = Source(where, "\n".join([text + comment for text, comment in lines]))
    return [Span(source, i, 0, i, len(text)) for i, (text, _) in enumerate(lines, start=1)]


def line_of(node: NodeSpec) -> tuple[str, str]:
    """Returns the printed form of a node, such as `y = aten.relu.default(x)`, and its origin as a
    comment."""
    outputs = ", ".join(names_of(node.outputs)) or "_"
    args = ", ".join(_format_argument(name, value) for name, value in node.args.items())
    text = _printable(f"{outputs} = {node.target}({args})")
    text = text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 4] + " ..."
    origin = origin_of(node.trace)
    return text, _printable(f"  # {origin}")[:MAX_LENGTH] if origin else ""


def origin_of(trace: str) -> str:
    """Returns the innermost user frame of a stack trace as `file:line: code`, or an empty
    string."""
    frames = list(FRAME.finditer(trace[:20_000]))
    user_frames = [f for f in frames if not TORCH_FRAME.search(f["file"])]
    if not user_frames:
        return ""
    last = user_frames[-1]
    return f"{last['file'].rpartition('/')[2]}:{last['line']}: {(last['code'] or '').strip()}"


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _format_argument(name: str, value: Any) -> str:
    plain = not name.startswith("*") and not isinstance(value, Ref)
    return f"{name}={_format_value(value)}" if plain else _format_value(value)


def _format_value(value: Any) -> str:
    match value:
        case Ref(name=text) | StorageAttribute(text=text):
            return text
        case DTypeName(dtype=dtype):
            return str(dtype)
        case FxGraph():
            return "<graph>"
        case tuple():
            return f"[{', '.join(_format_value(v) for v in value)}]"
    return repr(value)
