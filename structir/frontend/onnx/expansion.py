"""Counts the nodes of a model after its functions are expanded, without expanding them."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from onnx import NodeProto

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.onnx.listing import line_of
from structir.frontend.onnx.names import Functions
from structir.frontend.onnx.unsupported import all_nodes, function_key

MAX_NODES = 300_000  # nodes after expansion: nested functions can grow exponentially
MAX_DEPTH = 100  # nested functions


def check_expansion(nodes: Iterable[NodeProto], functions: Functions) -> None:
    """Raises DiagnosticError if the nodes expand to more than `MAX_NODES` nodes."""
    counter = _Counter(functions)
    total = 0
    for node in nodes:
        total += counter.expanded([node], 0)
        if total > MAX_NODES:
            message = f"the model expands to more than {MAX_NODES} nodes"
            hint = "reduce the nesting of the model's functions, or the calls in their bodies"
            diagnostic = Diagnostic(message, op=node.op_type, hint=hint, code="E0109")
            raise DiagnosticError(diagnostic.note(f"at the node `{line_of(node)}`"))


@attrs.frozen(eq=False)
class _Counter:
    """Counts expanded nodes; the count of each function is memoized."""

    functions: Functions
    counts: dict[object, int] = attrs.Factory(dict)

    def expanded(self, nodes: Iterable[NodeProto], depth: int) -> int:
        """Returns the number of nodes after expansion, at most `MAX_NODES + 1`."""
        total = 0
        for node in all_nodes(nodes):
            key = function_key(node)
            total += 1 + (self.body(key, depth) if key in self.functions else 0)
            if total > MAX_NODES:
                return MAX_NODES + 1
        return total

    def body(self, key: object, depth: int) -> int:
        """Returns the number of nodes of a function; the importer reports deep recursion."""
        if depth > MAX_DEPTH:
            return 0
        if key not in self.counts:
            self.counts[key] = 0  # of a function that calls itself
            self.counts[key] = self.expanded(self.functions[key].node, depth + 1)  # type: ignore[index]
        return self.counts[key]
