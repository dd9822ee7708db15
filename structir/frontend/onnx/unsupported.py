"""A check before the import that every op of a model has a mapping."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onnx import AttributeProto, FunctionProto, NodeProto

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.onnx.node import schema_of
from structir.frontend.onnx.registry import find_build

Functions = Mapping[tuple[str, str], FunctionProto]
MAX_DEPTH = 64  # graphs within graphs


def all_nodes(nodes: Iterable[NodeProto], depth: int = 0) -> Iterator[NodeProto]:
    """Yields the nodes of a graph and of all graphs nested in it."""
    if depth > MAX_DEPTH:
        raise DiagnosticError(Diagnostic(f"graphs are nested more than {MAX_DEPTH} deep"))
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in graphs_of(attribute):
                yield from all_nodes(graph.node, depth + 1)


def graphs_of(attribute: AttributeProto) -> list[Any]:
    """Returns the graphs of an attribute."""
    if attribute.type == AttributeProto.GRAPH:
        return [attribute.g]
    return list(attribute.graphs) if attribute.type == AttributeProto.GRAPHS else []


def plain_domain(domain: str) -> str:
    """Returns a domain with `ai.onnx` normalized to the empty string."""
    return "" if domain == "ai.onnx" else domain


def check_supported(
    nodes: Iterable[NodeProto], functions: Functions, opsets: Mapping[str, int]
) -> None:
    """Raises one `DiagnosticError` that lists all ops without a mapping, with their counts."""
    counts = Counter((plain_domain(n.domain), n.op_type) for n in all_nodes(nodes))
    for function in functions.values():
        counts.update((plain_domain(n.domain), n.op_type) for n in all_nodes(function.node))
    missing = {key: n for key, n in counts.items() if not _is_supported(key, functions, opsets)}
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


def _is_supported(key: tuple[str, str], functions: Functions, opsets: Mapping[str, int]) -> bool:
    domain, name = key
    version = opsets.get(domain, 1)
    if key in functions or find_build(domain, name, version) is not None:
        return True
    schema = schema_of(domain, name, version)
    return schema is not None and has_body(schema)


def has_body(schema: Any) -> bool:
    """Returns whether ONNX's schema decomposes an op into other ops."""
    return bool(schema.has_function or schema.has_context_dependent_function)
