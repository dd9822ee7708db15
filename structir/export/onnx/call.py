"""The view of a call that mappings receive: names of operands, attributes and StructInfo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from structir.export.onnx.graph import OnnxGraph
from structir.export.onnx.sizes import SizeValues
from structir.ir.dims import Dim
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Call, Expr
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.opdef.call_view import CallView, UnknownShape
from structir.opdef.resolution import call_arguments

Names = Any  # the name of a tensor, or a list of them for a tuple


class ExportContext(Protocol):
    """The interface of the exporter that mappings may use."""

    graph: OnnxGraph
    sizes: SizeValues

    def value(self, expr: Expr) -> Names:
        """Returns the name of a value, or a list of names for a tuple."""
        ...


class OpCall:
    """One call of an op with exported operands."""

    def __init__(self, context: ExportContext, call: Call, stem: str) -> None:
        definition: Any = call.op.definition  # type: ignore[attr-defined]
        self.context, self.call, self.stem = context, call, stem
        self.op: str = definition.name
        self.view: CallView = call_arguments(definition, call.args, call.attrs)
        self.result: Any = call.struct_info
        arguments = [p for p in definition.signature.parameters if p.is_argument]
        operands = [
            (p, arg) for p, arg in zip(arguments, call.args, strict=False) if p.kind is None
        ]
        self.names = {p.name: self._operand(arg) for p, arg in operands}

    def _operand(self, arg: Expr) -> Names:
        absent = isinstance(arg.struct_info, TupleStructInfo) and not arg.struct_info.fields
        return "" if absent else self.context.value(arg)

    # ---- operands and attributes

    @property
    def operands(self) -> list[str]:
        """The names of all operands; those of a list one after the other."""
        nested = [n if isinstance(n, list) else [n] for n in self.names.values()]
        return [name for names in nested for name in names]

    def __getitem__(self, name: str) -> Names:
        return self.names.get(name, "")

    def attr(self, name: str) -> Any:
        """Returns an attribute, or its default."""
        return self.view.attributes[name]

    def info(self, name: str) -> Any:
        """Returns the StructInfo of an operand."""
        return self.view.operands[name]

    def rank(self, name: str) -> int:
        """Returns the rank of an operand; raises LookupError where it is unknown."""
        rank = self.view.rank(name)
        if rank is None:
            raise LookupError(name)
        return rank

    def dims(self, name: str) -> tuple[Dim, ...]:
        """Returns the dims of an operand; raises LookupError where they are unknown."""
        return dims_of(self.info(name))

    def axis(self, name: str, operand: str) -> int:
        """Returns an axis attribute of an operand, counted from the first axis."""
        return int(self.attr(name)) % max(self.rank(operand), 1)

    def axes(self, name: str, operand: str) -> tuple[int, ...]:
        """Returns the axes of an attribute, counted from the first; None means all."""
        value, rank = self.attr(name), self.rank(operand)
        values = range(rank) if value is None else (value,) if isinstance(value, int) else value
        return tuple([axis % rank for axis in values])

    def dtype(self, name: str) -> str:
        """Returns the dtype of an operand."""
        return str(self.info(name).dtype)

    @property
    def out(self) -> TensorStructInfo:
        """The StructInfo of the result, or of the first field of a tuple."""
        info = self.result
        return info.fields[0] if isinstance(info, TupleStructInfo) else info  # type: ignore[return-value]

    # ---- nodes

    def emit(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Appends a node of one output; returns its name."""
        return self.emit_many(op_type, 1, *inputs, **attributes)[0]

    def emit_many(self, op_type: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Appends a node; returns the names of its outputs."""
        return self.context.graph.emit(op_type, list(inputs), outputs, self.stem, **attributes)

    def cast(self, name: str, dtype: str | None) -> str:
        """Returns a value cast to a dtype."""
        return self.context.graph.cast(name, str(dtype), self.stem)

    def constant(self, value: Any, dtype: str | None = None) -> str:
        """Returns the name of a constant: of the dtype of the result, if none is given."""
        return self.context.graph.names.constant(
            np.asarray(value, numpy_dtype(dtype or str(self.out.dtype)))
        )

    def ints(self, values: Sequence[int]) -> str:
        """Returns the name of a constant int64 vector."""
        return self.context.graph.names.constant(np.array(values, np.int64))

    def vector(self, sizes: Any) -> str:
        """Returns the name of sizes as an int64 vector."""
        if isinstance(sizes, UnknownShape):
            return str(self.context.value(sizes.value))
        sizes = sizes if isinstance(sizes, tuple | list) else (sizes,)
        return self.context.sizes.vector(tuple(sizes))

    def scalar(self, size: Dim) -> str:
        """Returns the name of a size as an int64 scalar."""
        return self.context.sizes.scalar(size)

    # ---- frequent compositions

    def reshape(self, name: str, sizes: Any) -> str:
        """Returns a value reshaped to sizes."""
        return self.emit("Reshape", name, self.vector(sizes), allowzero=1)

    def flat(self, name: str) -> str:
        """Returns a value with one axis."""
        return self.emit("Reshape", name, self.ints([-1]))

    def transpose(self, name: str, order: Sequence[int]) -> str:
        """Returns a value with its axes in another order."""
        identity = list(order) == list(range(len(order)))
        return name if identity else self.emit("Transpose", name, perm=list(order))

    def expand(self, name: str, sizes: Any) -> str:
        """Returns a value broadcast to sizes."""
        return self.emit("Expand", name, self.vector(sizes))

    def unsqueeze(self, name: str, axes: Sequence[int]) -> str:
        """Returns a value with new axes of size 1."""
        return self.emit("Unsqueeze", name, self.ints(axes)) if axes else name

    def slice(self, name: str, axis: int, begin: Dim, end: Dim, step: int = 1) -> str:
        """Returns a slice along one axis."""
        bounds = (self.vector((begin,)), self.vector((end,)))
        return self.emit("Slice", name, *bounds, self.ints([axis]), self.ints([step]))


def dims_of(info: Any) -> tuple[Dim, ...]:
    """Returns the dims of a tensor; raises LookupError where they are unknown."""
    if not isinstance(info, TensorStructInfo) or not isinstance(info.dims, tuple):
        raise LookupError(str(info))
    return info.dims
