"""A check before the import that every op of a model has a mapping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.onnx.listing import line_of
from structir.frontend.onnx.names import FunctionKey, Functions
from structir.frontend.onnx.node import schema_of
from structir.frontend.onnx.registry import find_build

OpKey = tuple[str, str]  # domain, op_type
MAX_DEPTH = 64  # nested graphs


def all_nodes(nodes: Iterable[NodeProto], depth: int = 0) -> Iterator[NodeProto]:
    """Yields the nodes of a graph and of all graphs nested in it."""
    if depth > MAX_DEPTH:
        raise DiagnosticError(
            Diagnostic(f"graphs are nested more than {MAX_DEPTH} deep", code="E0802")
        )
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


def function_key(proto: NodeProto | FunctionProto) -> FunctionKey:
    """Returns the key of a function, or of the function that a node calls."""
    name = proto.name if isinstance(proto, FunctionProto) else proto.op_type
    return plain_domain(proto.domain), name, proto.overload


def opsets_of(proto: ModelProto | FunctionProto) -> dict[str, int]:
    """Returns the versions of the opsets that a model or a function imports, by domain."""
    return {plain_domain(o.domain): int(o.version) for o in proto.opset_import}


def check_supported(
    nodes: Iterable[NodeProto], functions: Functions, opsets: Mapping[str, int]
) -> None:
    """Raises one `DiagnosticError` that lists all ops without a mapping, with their counts."""
    bodies = [(nodes, opsets)]
    bodies += [(f.node, {**opsets, **opsets_of(f)}) for f in functions.values()]
    missing: dict[OpKey, list[NodeProto]] = {}
    for body, versions in bodies:
        for node in all_nodes(body):
            if function_key(node) in functions or is_supported(node, versions):
                continue
            missing.setdefault((plain_domain(node.domain), node.op_type), []).append(node)
    if missing:
        raise DiagnosticError(_missing_mappings(missing))


def _missing_mappings(missing: Mapping[OpKey, list[NodeProto]]) -> Diagnostic:
    """Returns the error that lists ops without a mapping, the most frequent first."""
    total = sum(map(len, missing.values()))
    ops = sorted(missing.items(), key=lambda item: (-len(item[1]), item[0]))
    (domain, name), _ = ops[0]
    domain_argument = f', domain="{domain}"' if domain else ""
    diagnostic = Diagnostic(
        f"{total} node{'s' * (total > 1)} of {len(ops)} op{'s' * (len(ops) > 1)} "
        "cannot be imported",
        code="E0801",
        hint=f'register a mapping: `@onnx_op("{name}"{domain_argument})`',
    )
    for (domain, name), nodes in ops:
        op = f"{domain + '::' if domain else ''}{name}"
        diagnostic = diagnostic.note(f"{len(nodes)} x {op}, first in `{line_of(nodes[0])}`")
    return diagnostic


def is_supported(node: NodeProto, opsets: Mapping[str, int]) -> bool:
    """Returns whether an op has a mapping or a decomposition."""
    domain = plain_domain(node.domain)
    version = opsets.get(domain, 1)
    if find_build(domain, node.op_type, version) is not None:
        return True
    schema = schema_of(domain, node.op_type, version)
    return schema is not None and has_body(schema)


def has_body(schema: Any) -> bool:
    """Returns whether ONNX's schema decomposes an op into other ops."""
    return bool(schema.has_function or schema.has_context_dependent_function)
