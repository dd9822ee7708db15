"""Sorts the nodes of a graph topologically: editors of models append nodes out of order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from onnx import AttributeProto, GraphProto, NodeProto


def sort_nodes(
    nodes: Sequence[NodeProto], is_defined: Callable[[str], bool]
) -> Sequence[NodeProto]:
    """Returns nodes with each after those that compute its operands; sorted nodes are unchanged.

    `is_defined` is whether a name is defined outside these nodes. Nodes with a cycle are unchanged.
    """
    producers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            producers.setdefault(name, index)
    operands = [
        {producers[n] for n in _used_names(node) if n in producers and not is_defined(n)}
        for node in nodes
    ]
    if all(max(indices, default=-1) < k for k, indices in enumerate(operands)):
        return nodes
    try:
        return [nodes[k] for k in TopologicalSorter(dict(enumerate(operands))).static_order()]
    except CycleError:  # reported where a node reads what is not computed
        return nodes


def _used_names(node: NodeProto) -> Iterator[str]:
    """Yields the names that a node and its subgraphs read from its graph."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield from _free_names(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            for graph in attribute.graphs:
                yield from _free_names(graph)


def _free_names(graph: GraphProto) -> set[str]:
    """Returns the names that a subgraph reads and does not define."""
    used = {name for node in graph.node for name in _used_names(node)}
    used |= {output.name for output in graph.output}
    defined = {value.name for value in (*graph.input, *graph.initializer)}
    defined |= {sparse.values.name for sparse in graph.sparse_initializer}
    return used - defined - {name for node in graph.node for name in node.output}
