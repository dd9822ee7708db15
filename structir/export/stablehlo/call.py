"""The view of a call that mappings receive: operands, attributes and the block."""

from __future__ import annotations

from typing import Any, Protocol

from structir.export.stablehlo.block import HloBlock
from structir.export.stablehlo.elements import LoopGrid
from structir.export.stablehlo.values import HloValue
from structir.ir.expr import Call, Expr
from structir.ir.struct_info import TupleStructInfo
from structir.opdef.call_view import CallView
from structir.opdef.resolution import call_arguments


class HloContext(Protocol):
    """The interface of the exporter that mappings may use."""

    block: HloBlock

    def value(self, expr: Expr) -> HloValue:
        """Returns the value of an expression."""
        ...


class HloCall:
    """One call of an op with exported operands; `grid` broadcasts and reshapes tensors."""

    def __init__(self, context: HloContext, call: Call) -> None:
        definition: Any = call.op.definition  # type: ignore[attr-defined]
        self.block, self.call = context.block, call
        self.grid = LoopGrid(context.block)
        self.view: CallView = call_arguments(definition, call.args, call.attrs)
        self.result: Any = call.struct_info
        arguments = [p for p in definition.signature.parameters if p.is_argument]
        pairs = [(p, arg) for p, arg in zip(arguments, call.args, strict=False) if p.kind is None]
        self.values = {p.name: context.value(arg) for p, arg in pairs}

    def __getitem__(self, name: str) -> HloValue:
        """Returns an operand; None where it is omitted."""
        return self.values.get(name) or None

    def attr(self, name: str) -> Any:
        """Returns an attribute, or its default."""
        return self.view.attributes[name]

    def axis(self, name: str, operand: str) -> int:
        """Returns an axis of an operand, or of the first of a list, counted from the first axis."""
        value = self[operand]
        first = value[0] if isinstance(value, list) else value
        return int(self.attr(name) % max(first.rank, 1))

    @property
    def infos(self) -> list[Any]:
        """The StructInfo of the result, or of each field of a tuple."""
        info = self.result
        return list(info.fields) if isinstance(info, TupleStructInfo) else [info]
