"""Inlining of block ops such as `no_grad`, so that their in-place writes are visible outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from structir.frontend.torch.graph import ExportedModule, FxGraph, NodeSpec, Ref, names_of

SET_GRAD = "higher_order.wrap_with_set_grad_enabled"
# block ops: the argument index of the graph, and of the first operand
BLOCKS = {
    SET_GRAD: (1, 2),  # its argument 0 is the mode
    "higher_order.wrap_with_autocast": (4, 5),
    "higher_order.invoke_subgraph": (0, 2),
}
AUTOCAST = "higher_order.wrap_with_autocast"  # if enabled it changes dtypes, and is not inlined


def inline_blocks(program: ExportedModule) -> ExportedModule:
    """Returns a program with its blocks inlined."""
    graph, replacements = _inline_graph(program.graph)
    outputs = [attrs.evolve(o, value=_substitute(o.value, replacements)) for o in program.outputs]
    return attrs.evolve(program, graph=graph, outputs=tuple(outputs))


def _inline_graph(graph: FxGraph) -> tuple[FxGraph, Mapping[str, Any]]:
    """Returns a graph with its blocks inlined, and the values that replace the blocks' results."""
    body = _Body(graph)
    for spec in graph.nodes:
        args = {name: body.argument(value) for name, value in spec.args.items()}
        spec = attrs.evolve(spec, args=args)
        if _is_block(spec):
            body.inline(spec)
        else:
            body.nodes.append(spec)
    return body.graph(graph), body.replacements


def _is_block(spec: NodeSpec) -> bool:
    values = list(spec.args.values())
    index = BLOCKS.get(spec.target, (len(values), 0))[0]
    enabled = spec.target == AUTOCAST and values[2:3] != [False]
    return not enabled and index < len(values) and isinstance(values[index], FxGraph)


class _Body:
    """The nodes of a graph while blocks are inlined."""

    def __init__(self, graph: FxGraph) -> None:
        self.nodes: list[NodeSpec] = []
        self.tensors, self.scalars = dict(graph.tensors), dict(graph.scalars)
        self.names = {name for spec in graph.nodes for name in names_of(spec.outputs)}
        self.names |= set(names_of(graph.inputs))
        self.replacements: dict[str, Any] = {}

    def argument(self, value: Any) -> Any:
        """Returns an argument with the results of blocks replaced."""
        return (
            _inline_graph(value)[0]
            if isinstance(value, FxGraph)
            else _substitute(value, self.replacements)
        )

    def inline(self, spec: NodeSpec) -> None:
        """Replaces a block with its nodes."""
        values = list(spec.args.values())
        index, first = BLOCKS[spec.target]
        inner = values[index]
        inputs = [name for graph_input in inner.inputs for name in names_of(graph_input)]
        replacements: dict[str, Any] = dict(zip(inputs, values[first:], strict=True))
        for node in inner.nodes:
            replacements |= {name: Ref(self.fresh(name)) for name in names_of(node.outputs)}
            args = {k: _substitute(v, replacements) for k, v in node.args.items()}
            outputs = _substitute(node.outputs, replacements)
            self.nodes.append(attrs.evolve(node, args=args, outputs=outputs, line=spec.line))
        for name in replacements.keys() - set(inputs):
            new_name = replacements[name].name
            if name in inner.tensors:
                self.tensors[new_name] = inner.tensors[name]
            if name in inner.scalars:
                self.scalars[new_name] = inner.scalars[name]
        results = _flat([_substitute(output, replacements) for output in inner.outputs])
        if spec.target == SET_GRAD and values[0] is False:
            results = [self.detached(result, spec) for result in results]
        self.replacements |= dict(zip(names_of(spec.outputs), results, strict=False))

    def detached(self, result: Ref, spec: NodeSpec) -> Ref:
        """Returns a result of a `no_grad` block without its gradient."""
        meta = self.tensors.get(result.name)
        if meta is None:
            return result
        detached = Ref(self.fresh(f"{result.name}_detached"))
        self.tensors[detached.name] = meta
        node = NodeSpec("aten.detach.default", {"self": result}, (detached,), detached.name)
        self.nodes.append(attrs.evolve(node, line=spec.line))
        return detached

    def fresh(self, name: str) -> str:
        """Returns a fresh name."""
        result, count = name, 0
        while result in self.names:
            count += 1
            result = f"{name}_in{count}"
        self.names.add(result)
        return result

    def graph(self, original: FxGraph) -> FxGraph:
        """Returns the graph with the inlined nodes."""
        return attrs.evolve(
            original,
            nodes=tuple(self.nodes),
            outputs=_substitute(original.outputs, self.replacements),
            tensors=self.tensors,
            scalars=self.scalars,
        )


def _flat(values: Any) -> list[Ref]:
    """Returns the references in nested lists; other items are dropped."""
    results: list[Ref] = []
    for value in values:
        if isinstance(value, list | tuple):
            results += _flat(value)
        elif isinstance(value, Ref):
            results.append(value)
    return results


def _substitute(value: Any, replacements: Mapping[str, Any]) -> Any:
    """Returns a value with references replaced."""
    if isinstance(value, Ref):
        return replacements.get(value.name, value)
    if isinstance(value, tuple):
        return tuple([_substitute(item, replacements) for item in value])
    return value
