"""The dataflow graph of a program as JSON data: its nodes, and the containers that nest them.

Locations are lines of the printed program, so the graph is built from the parsed text.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import attrs

from structir.errors import DiagnosticWarning
from structir.ir.expr import Binding, Function, If, MatchCast, SeqExpr, Tuple, Var
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.printer.parser.parser import parse
from structir.tools.explorer.node_content import (
    Operands,
    cast_content,
    operand_text,
    value_content,
)
from structir.tools.explorer.shape_data import (
    InternTable,
    ShapeExplanations,
    axis_sources,
    has_known_shapes,
    info_data,
)

FILE = "program"  # the file name of the printed program in locations
Traversal = Iterator[Any]  # yields the traversals of nested bodies; the caller runs them
Data = dict[str, Any]


@attrs.frozen(eq=False)
class ProgramData:
    """The data of a program, and the module whose locations it contains."""

    module: IRModule
    data: Data


def program_data(module: IRModule, draw: bool = True) -> ProgramData:
    """Returns the data of a module; without `draw`, its source only."""
    text = module.script()
    if not draw:
        empty: Data = {"nodes": [], "containers": [], "infos": [], "signatures": []}
        message = f"{text.count(chr(10)):,} lines are too many to draw; select one function"
        data = {"text": text, "name": module.name, "conflicts": [message], "explanations": []}
        return ProgramData(module, data | empty)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        parsed = parse(text, FILE)
        explanations = ShapeExplanations(parsed)
        builder = GraphBuilder(explanations)
        for name, member in parsed.functions.items():
            builder.add_member(name, member)
    return ProgramData(
        parsed,
        {
            "text": text,
            "name": parsed.name,
            "nodes": builder.nodes,
            "containers": builder.containers,
            "infos": builder.infos.rows,
            "signatures": builder.signatures.rows,
            "explanations": explanations.table.rows,
            "conflicts": explanations.conflicts,
        },
    )


class GraphBuilder:
    """Collects the nodes and containers of a module, numbered together in program order."""

    def __init__(self, explanations: ShapeExplanations) -> None:
        self.explanations = explanations
        self.nodes: list[Data] = []
        self.containers: list[Data] = []
        self.infos, self.signatures = InternTable(), InternTable()
        self.producers: dict[Var, int] = {}  # the node or container that defines a variable
        self.count = 0
        self.function = ""

    def add_member(self, name: str, member: Any) -> None:
        """Adds a function or a kernel of the module; nesting depth does not use Python's stack."""
        self.function = name
        if isinstance(member, Kernel):
            kernel = self._container("kernel", name, None, _line(member))
            kernel["text"] = str(member)
            return
        stack = [self._add_function(member, name, None, _line(member))]
        while stack:
            nested = next(stack[-1], None)
            if nested is None:
                stack.pop()
            else:
                stack.append(nested)

    # Containers

    def _add_function(
        self, function: Function, name: str, parent: int | None, line: int | None
    ) -> Traversal:
        """Adds the parameters, bindings and result of a function."""
        kind = "function" if parent is None else "closure"
        container = self._container(kind, name, parent, line)
        for param in function.params:
            node = self._node("param", param.name, container["id"], param.span or function.span)
            self._define(node, param)
        yield self._add_bindings(function.body, container["id"])
        result = self._node("result", "return", container["id"], function.body.body.span)
        result["line"] = result["line"] or self._last_line(container["id"])
        self._add_operands(result, [((0,), "", function.body.body)])
        result["info"] = self._info_index(function.ret_struct_info)

    def _add_bindings(self, seq: SeqExpr, parent: int) -> Traversal:
        """Adds the bindings of a sequence."""
        for binding in seq.bindings():
            kind: Any = type(binding.value)
            if kind is If:
                yield self._add_conditional(binding, parent)
            elif kind is Function:
                self.producers[binding.var] = self.count
                line = _line(binding.value) or _line(binding)
                yield self._add_function(binding.value, binding.var.name, parent, line)  # type: ignore[arg-type]
            else:
                self._add_binding(binding, parent)

    def _add_conditional(self, binding: Binding, parent: int) -> Traversal:
        """Adds a conditional: the condition, a container per branch, and the join of results."""
        value: Any = binding.value
        container = self._container("if", binding.var.name, parent, _line(value) or _line(binding))
        cond = self._node("value", "if", container["id"], value.span or binding.span)
        self._add_operands(cond, [((0,), "", value.cond)])
        results = []
        for label, body in (("then", value.true_branch), ("else", value.false_branch)):
            branch = self._container("branch", label, container["id"], None)
            branch["after"] = cond["id"]
            yield self._add_bindings(body, branch["id"])
            results.append((label, body.body))
        join = self._node("join", "join", container["id"], binding.span or value.span)
        self._add_operands(join, [((k,), label, expr) for k, (label, expr) in enumerate(results)])
        self._define(join, binding.var)

    # Nodes

    def _add_binding(self, binding: Binding, parent: int) -> None:
        """Adds the node of an op, a call or any other value without a body."""
        value, var = binding.value, binding.var
        is_cast = isinstance(binding, MatchCast)
        content = cast_content(value) if is_cast else value_content(value)
        node = self._node(content.kind, content.label, parent, binding.span or value.span)
        texts = {"detail": content.detail, "family": content.family, "callee": content.callee}
        node |= {key: text for key, text in texts.items() if text}
        if content.signature:
            node["signature"] = self.signatures.index(content.signature, content.signature)
        self._add_operands(node, content.operands)
        if content.kind == "op":
            inputs = {tuple(entry["path"]): k for k, entry in enumerate(node["inputs"])}
            node["axisSources"] = [
                [[[inputs[p], a, same] for p, a, same in axis if p in inputs] for axis in result]
                for result in axis_sources(value)  # type: ignore[arg-type]
            ]
        self._define(node, var)

    def _define(self, node: Data, var: Var) -> None:
        """Records that a node defines a variable."""
        self.producers[var] = node["id"]
        node["name"] = var.name
        node["info"] = self._info_index(var.struct_info)
        node["explanations"] = self.explanations.explanation_indices(self.function, var)
        if not has_known_shapes(var.struct_info):
            node["inferred"] = self.explanations.inferred_shapes(self.function, var)

    def _info_index(self, info: Any) -> int:
        return self.infos.index(info, info_data(info))

    def _add_operands(self, node: Data, operands: Operands) -> None:
        """Adds the operands of a node: variables by their producers, other values as text."""
        inputs = []
        for path, slot, operand in _flatten(operands):
            entry: Data = {"path": list(path), "slot": slot}
            producer = self.producers.get(operand) if isinstance(operand, Var) else None
            if producer is not None:
                entry["from"] = producer
            else:
                entry["text"] = operand_text(operand)
            inputs.append(entry)
        node["inputs"] = inputs

    def _node(self, kind: str, label: str, parent: int, span: Any) -> Data:
        line = span.line if span is not None else None
        node = {
            "id": self._next_id(),
            "parent": parent,
            "kind": kind,
            "label": label,
            "line": line,
        }
        self.nodes.append(node)
        return node

    def _container(self, kind: str, label: str, parent: int | None, line: int | None) -> Data:
        container = {
            "id": self._next_id(),
            "parent": parent,
            "kind": kind,
            "label": label,
            "line": line,
        }
        self.containers.append(container)
        return container

    def _next_id(self) -> int:
        self.count += 1
        return self.count - 1

    def _last_line(self, parent: int) -> int | None:
        lines = [node["line"] for node in self.nodes if node["parent"] == parent and node["line"]]
        return max(lines, default=None)


def _flatten(operands: Operands) -> Iterator[Any]:
    """Yields operands with the fields of tuples as separate operands."""
    todo = operands[::-1]
    while todo:
        path, slot, operand = todo.pop()
        if isinstance(operand, Tuple):
            fields = enumerate(operand.fields)
            todo += [((*path, k), slot, field) for k, field in fields][::-1]
        else:
            yield path, slot, operand


def _line(node: Any) -> int | None:
    return node.span.line if node.span is not None else None
