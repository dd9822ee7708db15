"""An ONNX node as its mapping sees it: operands, attributes, and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, Protocol

import attrs
import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto

from structir.errors import Diagnostic, DiagnosticError, Span
from structir.frontend.builder import NodeBuilder
from structir.frontend.onnx.names import GraphNames
from structir.frontend.onnx.tensors import dtype_name
from structir.frontend.onnx.types import OnnxSymbols, info_of_type
from structir.frontend.onnx.values import Elements, OnnxValue
from structir.ir.dims import Dim, Poly
from structir.ir.expr import Constant, Expr, Tuple, Var
from structir.ir.struct_info import StructInfo, TensorStructInfo

ABSENT = Tuple(())  # an operand that is not given
REQUIRED: Any = object()


class OnnxImportContext(Protocol):
    """What a mapping may ask of the import that it is part of."""

    builder: NodeBuilder
    folder: Path | None
    symbols: OnnxSymbols

    def inner_graph(
        self, graph: GraphProto, names: GraphNames, given: Mapping[str, OnnxValue]
    ) -> list[OnnxValue]:
        """The results of a graph within another one, built into the open scope."""
        ...

    def measured(self, value: OnnxValue, name: str, place: Span) -> OnnxValue:
        """A value of known rank, its unknown sizes named and bound when the program runs."""
        ...

    def looked_at(self, build: Callable[[], list[OnnxValue]]) -> None:
        """A branch that no run takes, built aside where the sizes of all values are asked for."""
        ...

    def worked_out(self, value: Expr) -> Expr:
        """A value that only constants make, as a constant; any other as it is."""
        ...


class RunTimeValueError(DiagnosticError):
    """The structure of a program hangs on a value that is only known at run time; `inputs` are the
    graph inputs that tell it."""

    def __init__(self, diagnostic: Diagnostic, inputs: frozenset[str]) -> None:
        super().__init__(diagnostic)
        self.inputs = inputs


@cache
def schema_of(domain: str, name: str, version: int) -> Any:
    """What ONNX itself says of an op; None for ops that it does not know."""
    try:
        return onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None


class OnnxNode:
    """One node of a graph, with its operands looked up."""

    def __init__(
        self,
        proto: NodeProto,
        version: int,
        values: list[OnnxValue | None],
        importer: OnnxImportContext,
        names: GraphNames,
        place: Span,
    ) -> None:
        self.proto, self.version, self.values = proto, version, values
        self.importer, self.names, self.place = importer, names, place
        self.domain = proto.domain if proto.domain != "ai.onnx" else ""
        self.op_type: str = proto.op_type
        self.inputs: list[str] = list(proto.input)
        self.outputs: list[str] = list(proto.output)
        self.attributes: dict[str, AttributeProto] = names.attributes(proto)

    # ---- operands

    @property
    def operands(self) -> list[Expr]:
        """The expressions of all operands; an absent one is the empty tuple."""
        return [ABSENT if v is None else v.expr for v in self.values]

    def __getitem__(self, place: int) -> Expr:
        value = self.get(place)
        if value is None:
            self.fail(f"operand {place} is missing")
        return value

    def get(self, place: int) -> Expr | None:
        """An operand, or None where it is not given."""
        value = self.values[place] if place < len(self.values) else None
        return None if value is None else value.expr

    def has(self, place: int) -> bool:
        """Whether an operand is given."""
        return self.get(place) is not None

    def info(self, place: int = 0) -> TensorStructInfo:
        """The StructInfo of an operand, which must be a tensor."""
        return self.tensor_info(self[place])

    def tensor_info(self, expr: Expr) -> TensorStructInfo:
        """The StructInfo of an expression, which must be a tensor."""
        info = expr.struct_info
        if not isinstance(info, TensorStructInfo):
            self.fail(f"a tensor is expected here, not {info}")
        return info

    def dims(self, place: int = 0) -> tuple[Dim, ...]:
        """The sizes of an operand."""
        dims = self.info(place).dims
        if not isinstance(dims, tuple):
            self.fail(f"the rank of operand {place}, {self.inputs[place]!r}, is not known")
        return dims

    def static_dims(self, place: int = 0) -> tuple[int, ...]:
        """The sizes of an operand, which must all be numbers."""
        dims = self.dims(place)
        if any(isinstance(d, Poly) for d in dims):
            self.fail(f"the sizes of operand {place}, {self.inputs[place]!r}, must be numbers")
        return dims  # type: ignore[return-value]

    def rank(self, place: int = 0) -> int:
        """How many axes an operand has."""
        rank = self.info(place).ndim
        if rank is None:
            self.fail(f"the rank of operand {place}, {self.inputs[place]!r}, is not known")
        return rank

    def dtype(self, place: int = 0) -> str:
        """The dtype of an operand."""
        dtype = self.info(place).dtype
        if dtype is None:
            self.fail(f"the dtype of operand {place}, {self.inputs[place]!r}, is not known")
        return dtype

    # ---- operands whose elements are known

    def elements(self, place: int) -> Elements | None:
        """The elements of an operand as numbers and sizes, where they are known."""
        value = self.values[place] if place < len(self.values) else None
        return None if value is None else value.elements

    def sizes(self, place: int) -> tuple[Dim, ...]:
        """The elements of an operand that states sizes; they may be symbolic."""
        elements = self.elements(place)
        if elements is None:
            self.needs(place)
        return tuple(elements.ravel().tolist())

    def ints(self, place: int) -> tuple[int, ...]:
        """The elements of an operand that must be plain numbers."""
        sizes = self.sizes(place)
        if any(isinstance(d, Poly) for d in sizes):
            self.needs(place)
        return tuple([int(d) for d in sizes])  # type: ignore[arg-type]

    def constant(self, place: int) -> np.ndarray[Any, Any]:
        """The elements of an operand that must be a constant."""
        expr = self[place]
        if type(expr) is not Constant:
            self.needs(place)
        return expr.data

    def is_constant(self, place: int) -> bool:
        """Whether an operand is there and its elements are known numbers."""
        return type(self.get(place)) is Constant

    def needs(self, place: int) -> NoReturn:
        """Say that the elements of an operand must be known before the program runs."""
        value = self.values[place] if place < len(self.values) else None
        if value is None:
            self.fail(f"operand {place} is missing")
        diagnostic = Diagnostic(
            f"operand {place}, {self.inputs[place]!r}, must be known when the model is imported",
            self.place,
            self.op_type,
            hint="give the inputs that it is made from to from_onnx(..., values={...})",
        )
        raise RunTimeValueError(diagnostic, value.sources)

    # ---- attributes

    def attr(self, name: str, default: Any = REQUIRED) -> Any:
        """An attribute: its value, ONNX's own default for it, or the default given here."""
        proto = self.attributes.get(name)
        if proto is not None:
            return attribute_value(proto)
        schema = schema_of(self.domain, self.op_type, self.version)
        declared = schema.attributes.get(name) if schema is not None else None
        if declared is not None and declared.default_value.name:
            return attribute_value(declared.default_value)
        if default is REQUIRED:
            self.fail(f"attribute {name!r} is missing")
        return default

    @property
    def graphs(self) -> bool:
        """Whether the node holds graphs."""
        return any(
            a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS)
            for a in self.attributes.values()
        )

    def flag(self, name: str, default: int = 0) -> bool:
        """An attribute that is 0 or 1."""
        return bool(self.attr(name, default))

    def dtype_attr(self, name: str, default: str | None = None) -> str | None:
        """An attribute that names an element type."""
        number = self.attr(name, 0)
        return dtype_name(number) if number else default

    def axis(self, name: str = "axis", default: Any = REQUIRED, rank: int | None = None) -> int:
        """An attribute that names an axis, counted from the front."""
        return self.counted(self.attr(name, default), self.rank() if rank is None else rank)

    def counted(self, axis: int, rank: int) -> int:
        """An axis counted from the front."""
        if not -rank <= axis < rank:
            self.fail(f"there is no axis {axis} among {rank}")
        return int(axis) % rank

    # ---- results

    def emit(self, value: Expr, name: str | None = None) -> Var:
        """Bind a value that is used more than once."""
        return self.importer.builder.emit(value, name or self.part_name())

    def part_name(self) -> str:
        """A name for something inside of the node."""
        return f"{next((o for o in self.outputs if o), self.op_type)}_part"

    def inside(
        self, graph: GraphProto, given: Mapping[str, OnnxValue] | None = None
    ) -> list[OnnxValue]:
        """The outputs of a graph within the node, built into the open scope."""
        names = self.names.inner(graph, f"{self.names.where}: {self.part_name()}")
        return self.importer.inner_graph(graph, names, given or {})

    def declared(self, place: int) -> StructInfo | None:
        """The dtype and the rank that the graph declares of an output."""
        name = self.outputs[place] if place < len(self.outputs) else ""
        found = self.names.types.get(name)
        info = None if found is None else info_of_type(found, OnnxSymbols(), name)
        if isinstance(info, TensorStructInfo):
            return TensorStructInfo(None, info.dtype, info.ndim)
        return info

    def wants(self, place: int) -> bool:
        """Whether anybody reads this output."""
        return place < len(self.outputs) and bool(self.outputs[place])

    def wrong(self, message: str, hint: str | None = None) -> DiagnosticError:
        """The error that says what is wrong with this node."""
        return DiagnosticError(Diagnostic(message, self.place, self.op_type, hint=hint))

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Say what is wrong with this node."""
        raise self.wrong(message, hint)


@attrs.frozen(eq=False)
class Split:
    """A choice between two graphs whose outputs have different ranks: what follows must be built in
    both branches."""

    node: OnnxNode
    condition: Expr
    graphs: tuple[GraphProto, GraphProto]


def attribute_value(proto: AttributeProto) -> Any:
    """The value of an attribute; texts are decoded, lists are tuples."""
    value = onnx.helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if proto.type in LISTS:
        items = [v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else v for v in value]
        return tuple(items)
    return value


LISTS = frozenset(
    {
        AttributeProto.FLOATS,
        AttributeProto.INTS,
        AttributeProto.STRINGS,
        AttributeProto.TENSORS,
        AttributeProto.GRAPHS,
        AttributeProto.TYPE_PROTOS,
    }
)
