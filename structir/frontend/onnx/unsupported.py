"""What a model needs that nothing here maps: found over all its graphs before anything is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onnx import AttributeProto, FunctionProto, NodeProto

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.onnx.node import schema_of
from structir.frontend.onnx.registry import find_build

Functions = Mapping[tuple[str, str], FunctionProto]
DEEPEST = 64  # graphs within graphs


def all_nodes(nodes: Iterable[NodeProto], depth: int = 0) -> Iterator[NodeProto]:
    """The nodes of a graph and of all graphs within it."""
    if depth > DEEPEST:
        raise DiagnosticError(Diagnostic(f"graphs are nested more than {DEEPEST} deep"))
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in graphs_of(attribute):
                yield from all_nodes(graph.node, depth + 1)


def graphs_of(attribute: AttributeProto) -> list[Any]:
    """The graphs that an attribute holds."""
    if attribute.type == AttributeProto.GRAPH:
        return [attribute.g]
    return list(attribute.graphs) if attribute.type == AttributeProto.GRAPHS else []


def plain_domain(domain: str) -> str:
    """A domain, the default one by its short name."""
    return "" if domain == "ai.onnx" else domain


def check_supported(
    nodes: Iterable[NodeProto], functions: Functions, opsets: Mapping[str, int]
) -> None:
    """Report all ops that cannot be built, by name and count; each op is looked at once."""
    counts = Counter((plain_domain(n.domain), n.op_type) for n in all_nodes(nodes))
    for function in functions.values():
        counts.update((plain_domain(n.domain), n.op_type) for n in all_nodes(function.node))
    missing = {key: n for key, n in counts.items() if not _supported(key, functions, opsets)}
    if not missing:
        return
    total = sum(missing.values())
    diagnostic = Diagnostic(
        f"{total} node{'s' * (total > 1)} of {len(missing)} op{'s' * (len(missing) > 1)} "
        "cannot be imported",
        code="E0801",
    )
    for (domain, name), count in sorted(missing.items(), key=lambda item: (-item[1], item[0])):
        diagnostic = diagnostic.note(f"{count} x {domain + '::' if domain else ''}{name}")
    raise DiagnosticError(diagnostic)


def _supported(key: tuple[str, str], functions: Functions, opsets: Mapping[str, int]) -> bool:
    domain, name = key
    version = opsets.get(domain, 1)
    if key in functions or find_build(domain, name, version) is not None:
        return True
    schema = schema_of(domain, name, version)
    return schema is not None and has_body(schema)


def has_body(schema: Any) -> bool:
    """Whether ONNX itself says an op by other ops."""
    return bool(schema.has_function or schema.has_context_dependent_function)
