"""A printed form of a graph, one line per node, that diagnostics show as source."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import NodeProto

from structir.errors import Source, Span

MAX_LENGTH = 240  # characters of a line


def node_spans(nodes: Iterable[NodeProto], where: str) -> list[Span]:
    """Returns the location of each node in the printed form of its graph."""
    lines = [line_of(node) for node in nodes]
    source = Source(where, "\n".join(lines))
    return [Span(source, i, 0, i, len(line)) for i, line in enumerate(lines, start=1)]


def line_of(node: NodeProto) -> str:
    """Returns the printed form of a node: `y = Conv(x, w)  # name`."""
    outputs = ", ".join(o or "_" for o in node.output)
    domain = f"{node.domain}::" if node.domain not in ("", "ai.onnx") else ""
    name = f"  # {node.name}" if node.name else ""
    line = f"{outputs} = {domain}{node.op_type}({', '.join(i or '_' for i in node.input)}){name}"
    if not line.isprintable():
        line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= MAX_LENGTH else line[: MAX_LENGTH - 4] + " ..."
