"""The view of an ONNX node that mappings receive: operands, attributes and StructInfo."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, NoReturn, Protocol

import attrs
import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from structir.errors import Diagnostic, DiagnosticError, Span
from structir.frontend.builder import NodeBuilder
from structir.frontend.onnx.names import Functions, GraphNames, GraphStep, ScopePath
from structir.frontend.onnx.tensors import ExternalFiles, dtype_name
from structir.frontend.onnx.types import OnnxSymbols, info_of_type
from structir.frontend.onnx.values import Elements, OnnxValue
from structir.ir.dims import Dim, Poly
from structir.ir.expr import Constant, Expr, Tuple, Var
from structir.ir.struct_info import StructInfo, TensorStructInfo

ABSENT = Tuple(())  # an absent operand
REQUIRED: Any = object()
SINGLE = onnx.defs.OpSchema.FormalParameterOption.Single


class OnnxImportContext(Protocol):
    """The interface of the importer that mappings may use."""

    builder: NodeBuilder
    functions: Functions
    files: ExternalFiles
    symbols: OnnxSymbols

    def build_subgraph(
        self, graph: GraphProto, names: GraphNames, bindings: Mapping[str, OnnxValue]
    ) -> list[OnnxValue]:
        """Builds a nested graph into the current scope; returns its outputs."""
        ...

    def name_sizes(self, value: OnnxValue, name: str, span: Span) -> OnnxValue:
        """Returns a value of known rank and unknown sizes cast to fresh symbolic sizes."""
        ...

    def build_unreachable(self, build: Callable[[], list[OnnxValue]]) -> None:
        """Builds a branch that is never taken, to infer the shapes of its values, and discards
        it."""
        ...

    def fold_constant(self, value: Expr) -> Expr:
        """Returns the value of an expression of constants as a constant; other values unchanged."""
        ...


class RunTimeValueError(DiagnosticError):
    """Raised when the structure of a program depends on a value unknown at import time; `inputs`
    are the graph inputs that determine it."""

    def __init__(self, diagnostic: Diagnostic, inputs: frozenset[str]) -> None:
        super().__init__(diagnostic)
        self.inputs = inputs


@cache
def schema_of(domain: str, name: str, version: int) -> Any:
    """Returns ONNX's schema of an op, or None."""
    try:
        return onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None


@cache
def attribute_defaults(domain: str, name: str, version: int) -> dict[str, Any]:
    """Returns the default values of the attributes of an op."""
    schema = schema_of(domain, name, version)
    declared = () if schema is None else schema.attributes.items()
    return {k: attribute_value(a.default_value) for k, a in declared if a.default_value.name}


class OnnxNode:
    """One node of a graph with resolved operands."""

    def __init__(
        self,
        proto: NodeProto,
        version: int,
        values: list[OnnxValue | None],
        importer: OnnxImportContext,
        names: GraphNames,
        span: Span,
    ) -> None:
        self.proto, self.version, self.values = proto, version, values
        self.importer, self.names, self.span = importer, names, span
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

    def __getitem__(self, index: int) -> Expr:
        value = self.get(index)
        if value is None:
            self.fail(f"missing operand {self.label(index)}")
        return value

    def label(self, index: int) -> str:
        """Returns an operand's index, and its name in the graph or else in the schema of the op."""
        name = self.inputs[index] if index < len(self.inputs) else ""
        schema = schema_of(self.domain, self.op_type, self.version)
        if not name and schema is not None and index < len(schema.inputs):
            name = schema.inputs[index].name
        return f"{index} ({name!r})" if name else str(index)

    def get(self, index: int) -> Expr | None:
        """Returns an operand, or None if it is absent."""
        value = self.values[index] if index < len(self.values) else None
        return None if value is None else value.expr

    def has(self, index: int) -> bool:
        """Returns whether an operand is present."""
        return self.get(index) is not None

    def info(self, index: int = 0) -> TensorStructInfo:
        """Returns the StructInfo of an operand, which must be a tensor."""
        info = self[index].struct_info
        if not isinstance(info, TensorStructInfo):
            self.fail(f"operand {self.label(index)}: expected a tensor, found {info}")
        return info

    def tensor_info(self, expr: Expr) -> TensorStructInfo:
        """Returns the StructInfo of an expression, which must be a tensor."""
        info = expr.struct_info
        if not isinstance(info, TensorStructInfo):
            self.fail(f"expected a tensor, found {info}")
        return info

    def dims(self, index: int = 0) -> tuple[Dim, ...]:
        """Returns the shape of an operand, which must be known."""
        dims = self.info(index).dims
        if not isinstance(dims, tuple):
            self._require_declared("rank", index)
        return dims

    def static_dims(self, index: int = 0) -> tuple[int, ...]:
        """Returns the shape of an operand, which must be static."""
        dims = self.dims(index)
        if any(isinstance(d, Poly) for d in dims):
            axis = [isinstance(d, Poly) for d in dims].index(True)
            message = f"operand {self.label(index)}: expected a static shape, found {dims}"
            self.fail(message, self.static_size_hint(index, axis))
        return dims  # type: ignore[return-value]

    def static_size_hint(self, index: int = 0, axis: int = 0) -> str | None:
        """Returns the hint that sets a size of a graph input; None for an intermediate value."""
        value = self.values[index] if index < len(self.values) else None
        expr = None if value is None else value.expr
        if value is None or not isinstance(expr, Var) or expr.name not in value.sources:
            return None
        declared = f'next(i for i in model.graph.input if i.name == "{expr.name}")'
        edit = f"{declared}.type.tensor_type.shape.dim[{axis}].dim_value = 4"
        return f"set the size of the input: `{edit}`"

    def rank(self, index: int = 0) -> int:
        """Returns the rank of an operand."""
        rank = self.info(index).ndim
        if rank is None:
            self._require_declared("rank", index)
        return rank

    def dtype(self, index: int = 0) -> str:
        """Returns the dtype of an operand."""
        dtype = self.info(index).dtype
        if dtype is None:
            self._require_declared("dtype", index)
        return dtype

    def _require_declared(self, field: str, index: int) -> NoReturn:
        """Raises the error of an operand whose rank or dtype is unknown."""
        info, value = self.info(index), self.values[index]
        hint = None
        if value is not None and isinstance(value.expr, Var) and value.expr.name in value.sources:
            name = value.expr.name
            if field == "dtype" and _has_strings(value):
                hint = f"pass numbers for the strings of `{name}`, and run this node before"
                self.fail(f"operand {self.label(index)}: expected numbers, found strings", hint)
            declaration = f'helper.make_tensor_value_info("{name}", TensorProto.FLOAT, ["n", 4])'
            if field == "rank":
                declaration = f'from_onnx(model, shapes={{"{name}": ("n", 4)}})'
            hint = f"declare the input: `{declaration}`"
        message = f"operand {self.label(index)}: expected a known {field}, found {info}"
        if hint is None and value is not None and value.sources:
            self._require_inputs(message, value.sources)
        self.fail(message, hint)

    def cast_operand(self, index: int, sizes: tuple[Dim, ...]) -> None:
        """Casts an operand of unknown rank to a shape, also for later uses of its name."""
        value, name = self.values[index], self.inputs[index]
        assert value is not None
        info = TensorStructInfo(sizes, self.info(index).dtype)
        stem = name or self.part_name()
        var = self.importer.builder.match_cast(value.expr, info, stem, self.span)
        cast = attrs.evolve(value, expr=var)
        self.values = [cast if other is value else other for other in self.values]
        if name in self.names.local_values():
            self.names.values[name] = cast

    # ---- operands whose elements are known

    def elements(self, index: int) -> Elements | None:
        """Returns the elements of an operand as numbers and sizes, or None if unknown."""
        value = self.values[index] if index < len(self.values) else None
        return None if value is None else value.elements

    def sizes(self, index: int) -> tuple[Dim, ...]:
        """Returns the elements of an operand of sizes, which may be symbolic."""
        elements = self.elements(index)
        if elements is None:
            self.require_known(index)
        return tuple(elements.ravel().tolist())

    def ints(self, index: int) -> tuple[int, ...]:
        """Returns the elements of an operand, which must be known integers."""
        sizes = self.sizes(index)
        if any(isinstance(d, Poly) for d in sizes):
            self.require_known(index)
        return tuple([int(d) for d in sizes])  # type: ignore[arg-type]

    def constant(self, index: int) -> np.ndarray[Any, Any]:
        """Returns the elements of an operand, which must be a constant."""
        expr = self[index]
        if type(expr) is not Constant:
            self.require_known(index)
        return expr.data

    def is_constant(self, index: int) -> bool:
        """Returns whether an operand is present and a constant."""
        return type(self.get(index)) is Constant

    def require_sources(self, sizes: Iterable[Dim]) -> None:
        """Raises `RunTimeValueError` if the elements of graph inputs fix sizes that must be known
        at import time."""
        symbols = self.importer.symbols
        sources = frozenset().union(*[symbols.sources_of(size) for size in sizes])
        if sources:
            self._require_inputs("expected a static shape, found sizes that inputs fix", sources)

    def require_known(self, index: int) -> NoReturn:
        """Raises `RunTimeValueError`: the elements of an operand must be known at import time."""
        value = self.values[index] if index < len(self.values) else None
        if value is None:
            self.fail(f"missing operand {self.label(index)}")
        message = f"operand {self.label(index)} must be constant at import time"
        self._require_inputs(message, value.sources)

    def _require_inputs(self, message: str, sources: frozenset[str]) -> NoReturn:
        """Raises the error that the values of graph inputs must be known at import time."""
        hint = _fix_inputs(sources)
        diagnostic = Diagnostic(message, self.span, self.op_type, hint=hint, code="E0804")
        raise RunTimeValueError(diagnostic, sources)

    # ---- attributes

    def attr(self, name: str, default: Any = REQUIRED) -> Any:
        """Returns an attribute: its value, ONNX's default for it, or `default`."""
        proto = self.attributes.get(name)
        if proto is not None:
            return attribute_value(proto)
        defaults = attribute_defaults(self.domain, self.op_type, self.version)
        if name in defaults:
            return defaults[name]
        if default is REQUIRED:
            self.fail(f"missing attribute {name!r}")
        return default

    def choice(self, name: str, options: Collection[Any], default: Any = REQUIRED) -> Any:
        """Returns an attribute; raises `DiagnosticError` if it is not one of the options."""
        value = self.attr(name, default)
        if value not in options:
            self.fail(f"{name}: expected {alternatives(options)}, found {value!r}")
        return value

    @property
    def graphs(self) -> bool:
        """Whether the node has graph attributes."""
        return any(
            a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS)
            for a in self.attributes.values()
        )

    def flag(self, name: str, default: int = 0) -> bool:
        """Returns an attribute that is 0 or 1 as a bool."""
        value = self.attr(name, default)
        if value not in (0, 1):
            self.fail(f"{name}: expected 0 or 1, found {value}")
        return bool(value)

    def dtype_attr(self, name: str, default: str | None = None) -> str | None:
        """Returns the dtype that an attribute names, or `default`."""
        number = self.attr(name, 0)
        return dtype_name(number) if number else default

    def axis(self, name: str = "axis", default: Any = REQUIRED, rank: int | None = None) -> int:
        """Returns the axis that an attribute names, normalized to [0, rank)."""
        return self.normalize_axis(self.attr(name, default), self.rank() if rank is None else rank)

    def normalize_axis(self, axis: int, rank: int) -> int:
        """Returns an axis normalized to [0, rank); raises `DiagnosticError` if it is out of
        range."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} is out of range for rank {rank}")
        return int(axis) % rank

    def axis_of_any_rank(self, axis: int) -> int:
        """Returns an axis of operand 0, normalized if its rank is known."""
        rank = self.info().ndim
        return int(axis) if rank is None else self.normalize_axis(axis, rank)

    # ---- results

    def emit(self, value: Expr, name: str | None = None) -> Var:
        """Binds a value to a variable; returns the variable."""
        return self.importer.builder.emit(value, name or self.part_name())

    def part_name(self) -> str:
        """Returns the name of an intermediate value of the node."""
        return f"{next((o for o in self.outputs if o), self.op_type)}_part"

    def build_subgraph(
        self, graph: GraphProto, bindings: Mapping[str, OnnxValue] | None = None
    ) -> list[OnnxValue]:
        """Builds a graph attribute of the node into the current scope; returns its outputs."""
        where = f"{self.names.where}: {self.part_name()}"
        names = self.names.inner(graph, where, self.subgraph_scope(graph))
        return self.importer.build_subgraph(graph, names, bindings or {})

    def subgraph_scope(self, graph: GraphProto) -> ScopePath:
        """Returns the path of a graph attribute of the node."""
        attribute = next(k for k, a in self.attributes.items() if attribute_value(a) is graph)
        return (*self.names.scope, GraphStep(first_output(self.proto), attribute))

    def declared_info(self, index: int) -> StructInfo | None:
        """Returns the dtype and rank that the graph declares for an output, or None."""
        name = self.outputs[index] if index < len(self.outputs) else ""
        value = self.names.types.get(name)
        info = None if value is None else info_of_type(value, OnnxSymbols(), name)
        if isinstance(info, TensorStructInfo):
            return TensorStructInfo(None, info.dtype, info.ndim)
        return info

    def is_used(self, index: int) -> bool:
        """Returns whether the node has this output."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def wrong(self, message: str, hint: str | None = None, code: str = "E0805") -> DiagnosticError:
        """Returns the error of this node with its op and location."""
        return DiagnosticError(Diagnostic(message, self.span, self.op_type, hint=hint, code=code))

    def check_operands(self) -> None:
        """Raises `DiagnosticError` if an operand that the op's schema requires is missing."""
        schema = schema_of(self.domain, self.op_type, self.version)
        if schema is None or (len(self.values) >= schema.min_input and None not in self.values):
            return
        for index, operand in enumerate(schema.inputs[: schema.min_input]):
            if operand.option == SINGLE and not self.has(index):
                self.fail(f"missing operand {self.label(index)}")

    def fail(self, message: str, hint: str | None = None, code: str = "E0805") -> NoReturn:
        """Raises the error of this node with its op and location."""
        raise self.wrong(message, hint, code)


@attrs.frozen(eq=False)
class Split:
    """A conditional whose outputs differ in rank: the nodes after it are built in both branches."""

    node: OnnxNode
    condition: Expr
    graphs: tuple[GraphProto, GraphProto]


def first_output(proto: NodeProto) -> str:
    """Returns the name of the first output of a node that is used."""
    return next((o for o in proto.output if o), "")


def alternatives(options: Iterable[Any]) -> str:
    """Returns options as `a, b or c`."""
    *first, last = map(str, options)
    return f"{', '.join(first)} or {last}" if first else last


def _has_strings(value: OnnxValue) -> bool:
    declared = value.onnx_type
    return declared is not None and declared.tensor_type.elem_type == TensorProto.STRING


def _fix_inputs(sources: frozenset[str]) -> str | None:
    """Returns the hint to fix the values of the graph inputs that an operand depends on."""
    fixed = ", ".join(f'"{name}": ...' for name in sorted(sources))
    return f"fix the inputs: `from_onnx(model, values={{{fixed}}})`" if sources else None


def attribute_value(proto: AttributeProto) -> Any:
    """Returns the value of an attribute; strings are decoded, lists are tuples."""
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
