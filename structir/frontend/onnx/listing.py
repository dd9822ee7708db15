"""A graph as a text with one line for each node, so that messages can show the node they mean."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import NodeProto

from structir.errors import Source, Span

LONGEST = 240  # characters of a line


def listed(nodes: Iterable[NodeProto], where: str) -> list[Span]:
    """For each node its place in the listing of its graph."""
    lines = [line_of(node) for node in nodes]
    source = Source(where, "\n".join(lines))
    return [Span(source, i, 0, i, len(line)) for i, line in enumerate(lines, start=1)]


def line_of(node: NodeProto) -> str:
    """A node in one line: `y = Conv(x, w)  # name`."""
    outputs = ", ".join(o or "_" for o in node.output)
    domain = f"{node.domain}::" if node.domain not in ("", "ai.onnx") else ""
    name = f"  # {node.name}" if node.name else ""
    line = f"{outputs} = {domain}{node.op_type}({', '.join(i or '_' for i in node.input)}){name}"
    if not line.isprintable():
        line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= LONGEST else line[: LONGEST - 4] + " ..."
