"""Removal of the tokens that order the effects of a program, such as checks and prints."""

from __future__ import annotations

import attrs

from structir.frontend.torch.graph import ExportedModule, NodeSpec, StorageAttribute, names_of

WITH_EFFECTS = "higher_order.with_effects"  # (token, op, *arguments) -> token, *results


def remove_tokens(program: ExportedModule) -> ExportedModule:
    """Returns a program without tokens: the order of the nodes is that of their effects."""
    inputs = tuple([spec for spec in program.inputs if spec.kind != "token"])
    outputs = tuple([spec for spec in program.outputs if spec.kind != "token"])
    if (inputs, outputs) == (program.inputs, program.outputs):
        return program
    tokens = {name for spec in program.inputs + program.outputs if spec.kind == "token"
              for name in names_of(spec.value)}  # fmt: skip
    graph = attrs.evolve(
        program.graph,
        inputs=tuple([x for x in program.graph.inputs if not tokens & set(names_of(x))]),
        outputs=tuple([x for x in program.graph.outputs if not tokens & set(names_of(x))]),
        nodes=tuple([_without_token(node) for node in program.graph.nodes]),
    )
    return attrs.evolve(program, graph=graph, inputs=inputs, outputs=outputs)


def _without_token(node: NodeSpec) -> NodeSpec:
    """Returns the call of the op that a node calls with a token."""
    names, values = list(node.args), list(node.args.values())
    op = values[1] if node.target == WITH_EFFECTS and len(values) > 1 else None
    if not isinstance(op, StorageAttribute):
        return node
    args = dict(zip(names[2:], values[2:], strict=True))
    target = op.text.removeprefix("torch.ops.")
    return attrs.evolve(node, target=target, args=args, outputs=node.outputs[1:])
