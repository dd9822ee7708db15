"""A program as the explorer's data: its text, and what is in it as nodes within containers.

The data is of the program that the text reads back as, so that all places are lines of that text.
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
from structir.tools.explorer.facts import Explanations, FactTable, info_data, is_told, sources
from structir.tools.explorer.values import Operands, brief, cast, described

FILE = "program"  # what the text is called in places
Steps = Iterator[Any]
Data = dict[str, Any]


@attrs.frozen(eq=False)
class Shown:
    """A program as data, and the module that its text reads back as."""

    module: IRModule
    data: Data


def shown(module: IRModule, drawn: bool = True) -> Shown:
    """A module for the explorer; what is too large to be drawn is its text."""
    text = module.script()
    if not drawn:
        empty: Data = {"nodes": [], "containers": [], "infos": [], "lines": [], "explanations": []}
        told = f"{text.count(chr(10)):,} lines are too many to be drawn; choose one function"
        return Shown(module, {"text": text, "name": module.name, "conflicts": [told], **empty})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosticWarning)
        again = parse(text, FILE)
        explanations = Explanations(again)
        drawing = Drawing(explanations)
        for name, member in again.functions.items():
            drawing.member(name, member)
    return Shown(
        again,
        {
            "text": text,
            "name": again.name,
            "nodes": drawing.nodes,
            "containers": drawing.containers,
            "infos": drawing.infos.rows,
            "lines": drawing.op_lines.rows,
            "explanations": explanations.table.rows,
            "conflicts": explanations.conflicts,
        },
    )


class Drawing:
    """The nodes and containers of a module, numbered together in the order of the text."""

    def __init__(self, explanations: Explanations) -> None:
        self.explanations = explanations
        self.nodes: list[Data] = []
        self.containers: list[Data] = []
        self.infos, self.op_lines = FactTable(), FactTable()
        self.made: dict[Var, int] = {}  # by which node or container a variable is made
        self.count = 0
        self.function = ""

    def member(self, name: str, member: Any) -> None:
        """A function or a kernel of the module; nothing nested in it meets Python's stack."""
        self.function = name
        if isinstance(member, Kernel):
            kernel = self._container("kernel", name, None, _line(member))
            kernel["text"] = str(member)
            return
        stack = [self.body(member, name, None, _line(member))]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
            else:
                stack.append(inner)

    # ---- containers

    def body(self, function: Function, name: str, inside: int | None, line: int | None) -> Steps:
        """A function: its parameters, its bindings, its result."""
        kind = "function" if inside is None else "closure"
        container = self._container(kind, name, inside, line)
        for param in function.params:
            node = self._node("param", param.name, container["id"], param.span or function.span)
            self._value(node, param)
        yield self.sequence(function.body, container["id"])
        result = self._node("result", "return", container["id"], function.body.body.span)
        result["line"] = result["line"] or self._last_line(container["id"])
        self._operands(result, [((0,), "", function.body.body)])
        result["info"] = self._info(function.ret_struct_info)

    def sequence(self, seq: SeqExpr, inside: int) -> Steps:
        """The bindings of a sequence."""
        for binding in seq.bindings():
            kind: Any = type(binding.value)
            if kind is If:
                yield self.choice(binding, inside)
            elif kind is Function:
                self.made[binding.var] = self.count
                line = _line(binding.value) or _line(binding)
                yield self.body(binding.value, binding.var.name, inside, line)  # type: ignore[arg-type]
            else:
                self.binding(binding, inside)

    def choice(self, binding: Binding, inside: int) -> Steps:
        """A choice: the condition, a container for each branch, and where they meet."""
        value: Any = binding.value
        whole = self._container("if", binding.var.name, inside, _line(value) or _line(binding))
        cond = self._node("value", "if", whole["id"], value.span or binding.span)
        self._operands(cond, [((0,), "", value.cond)])
        ends = []
        sides = ("then", value.true_branch), ("else", value.false_branch)
        for label, side in sides:
            branch = self._container("branch", label, whole["id"], None)
            branch["after"] = cond["id"]
            yield self.sequence(side, branch["id"])
            ends.append((label, side.body))
        join = self._node("join", "join", whole["id"], binding.span or value.span)
        self._operands(join, [((k,), label, end) for k, (label, end) in enumerate(ends)])
        self._value(join, binding.var)

    # ---- nodes

    def binding(self, binding: Binding, inside: int) -> None:
        """One line: an op, a call, or any other value."""
        value, var = binding.value, binding.var
        told = cast(value) if isinstance(binding, MatchCast) else described(value)
        node = self._node(told.kind, told.label, inside, binding.span or value.span)
        texts = {"detail": told.detail, "family": told.family, "callee": told.callee}
        node |= {key: text for key, text in texts.items() if text}
        if told.rule:
            node["rule"] = self.op_lines.place(told.rule, told.rule)
        self._operands(node, told.operands)
        if told.kind == "op":
            paths = {tuple(entry["path"]): k for k, entry in enumerate(node["inputs"])}
            along = sources(value)  # type: ignore[arg-type]
            node["along"] = [
                [[[paths[p], a, same] for p, a, same in axis if p in paths] for axis in result]
                for result in along
            ]
        self._value(node, var)

    def _value(self, node: Data, var: Var) -> None:
        """A node makes a variable."""
        self.made[var] = node["id"]
        node["name"] = var.name
        node["info"] = self._info(var.struct_info)
        node["why"] = self.explanations.of(self.function, var)
        if not is_told(var.struct_info):
            node["found"] = self.explanations.found(self.function, var)

    def _info(self, info: Any) -> int:
        return self.infos.place(info, info_data(info))

    def _operands(self, node: Data, operands: Operands) -> None:
        """What a node reads: variables by what makes them, all else as text."""
        inputs = []
        for path, slot, operand in _flat(operands):
            entry: Data = {"path": list(path), "slot": slot}
            made = self.made.get(operand) if isinstance(operand, Var) else None
            if made is not None:
                entry["from"] = made
            else:
                entry["text"] = brief(operand)
            inputs.append(entry)
        node["inputs"] = inputs

    def _node(self, kind: str, label: str, inside: int, span: Any) -> Data:
        line = span.line if span is not None else None
        node = {"id": self._number(), "in": inside, "kind": kind, "label": label, "line": line}
        self.nodes.append(node)
        return node

    def _container(self, kind: str, label: str, inside: int | None, line: int | None) -> Data:
        made = {"id": self._number(), "in": inside, "kind": kind, "label": label, "line": line}
        self.containers.append(made)
        return made

    def _number(self) -> int:
        self.count += 1
        return self.count - 1

    def _last_line(self, container: int) -> int | None:
        lines = [node["line"] for node in self.nodes if node["in"] == container and node["line"]]
        return max(lines, default=None)


def _flat(operands: Operands) -> Iterator[Any]:
    """Operands with the fields of tuples as operands of their own."""
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
