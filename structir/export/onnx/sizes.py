"""Symbolic sizes as ONNX values: computed from the shapes of tensors."""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from structir.export.onnx.graph import OnnxGraph
from structir.ir import dims
from structir.ir.dims import Dim, Sym

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "Less",
    ast.LtE: "LessOrEqual",
    ast.Gt: "Greater",
    ast.GtE: "GreaterOrEqual",
    ast.Eq: "Equal",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.Mod: "Mod",
}
FUNCTIONS = {"max": "Max", "min": "Min", "abs": "Abs"}


class UnboundSize(Exception):
    """Raised for a symbol that no tensor has as the size of an axis."""


class SizeSource(NamedTuple):
    """The axis of a tensor, or for `axis` None the scalar, that has the value of a symbol; or an
    element of a vector."""

    value: str
    axis: int | None
    of_shape: bool = True


class SizeValues:
    """The values of symbolic sizes in one graph and the graphs that enclose it."""

    def __init__(
        self,
        graph: OnnxGraph,
        sources: MutableMapping[Sym, SizeSource],
        computed: MutableMapping[str, str],
    ) -> None:
        self.graph, self.sources, self.computed = graph, sources, computed

    def nested(self, graph: OnnxGraph) -> SizeValues:
        """Returns the sizes of a nested graph."""
        return SizeValues(graph, ChainMap({}, self.sources), ChainMap({}, self.computed))

    def of_function(self) -> SizeValues:
        """Returns the sizes of an inlined function: other symbols, the same graph."""
        return SizeValues(self.graph, {}, {})

    def bind(self, size: Dim, source: SizeSource) -> None:
        """Records where the value of a symbol is found; computed sizes are ignored."""
        symbol = dims.as_sym(size)
        if symbol is not None:
            self.sources.setdefault(symbol, source)

    def forget(self, names: set[str]) -> None:
        """Forgets computed sizes whose nodes were removed."""
        for text in [text for text, name in self.computed.items() if name in names]:
            del self.computed[text]

    def scalar(self, size: Dim) -> str:
        """Returns the name of a size as an int64 scalar."""
        if isinstance(size, int):
            return self.graph.names.constant(np.array(size, np.int64))
        symbols: dict[str, Sym] = {}

        def name_of(symbol: Sym) -> str:
            name = f"s{symbol.order}"
            symbols[name] = symbol
            return name

        text = dims.python_text(size, name_of)
        if text not in self.computed:
            tree = ast.parse(text, mode="eval").body
            self.computed[text] = self._evaluate(tree, symbols)
        return self.computed[text]

    def vector(self, sizes: Sequence[Dim]) -> str:
        """Returns the name of sizes as an int64 vector."""
        if all(isinstance(size, int) for size in sizes):
            return self.graph.names.constant(np.array(sizes, np.int64))
        axis = self.graph.names.constant(np.array([0], np.int64))
        parts = [
            self.graph.names.constant(np.array([size], np.int64))
            if isinstance(size, int)
            else self._emit("Unsqueeze", self.scalar(size), axis)
            for size in sizes
        ]
        return parts[0] if len(parts) == 1 else self._emit("Concat", *parts, axis=0)

    def _evaluate(self, tree: ast.expr, symbols: dict[str, Sym]) -> str:
        def value(part: ast.expr) -> str:
            return self._evaluate(part, symbols)

        match tree:
            case ast.Name(id=name):
                return self._symbol(symbols[name])
            case ast.Constant(value=int() as number):
                return self.scalar(number)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._emit("Neg", value(operand))
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                a, b = value(left), value(right)
                if is_natural(left):
                    return self._emit("Div", a, b)
                exact = self._emit("Sub", a, self._emit("Mod", a, b))  # Div truncates
                return self._emit("Div", exact, b)
            case ast.BinOp(left=left, op=op, right=right):
                return self._emit(ARITHMETIC[type(op)], value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._emit(FUNCTIONS[name], *map(value, args))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._emit("Where", value(test), value(body), value(orelse))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._emit(COMPARISONS[type(op)], value(left), value(right))
        raise UnboundSize(ast.unparse(tree))

    def _symbol(self, symbol: Sym) -> str:
        source = self.sources.get(symbol)
        if source is None:
            raise UnboundSize(symbol.name)
        if source.axis is None:
            return source.value
        vector = self._emit("Shape", source.value) if source.of_shape else source.value
        return self._emit("Gather", vector, self.scalar(source.axis), axis=0)

    def _emit(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        return self.graph.emit(op_type, list(inputs), 1, "size", **attributes)[0]


def is_natural(tree: ast.expr) -> bool:
    """Returns whether an expression is surely not negative, by its form."""
    match tree:
        case ast.Name():
            return True
        case ast.Constant(value=int() as number):
            return number >= 0
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.FloorDiv(), right=right):
            return is_natural(left) and is_natural(right)
        case ast.BinOp(op=ast.Mod(), right=right):
            return is_natural(right)
        case ast.Call(func=ast.Name(id=name), args=args):
            return (any if name == "max" else all)(map(is_natural, args))
    return False
