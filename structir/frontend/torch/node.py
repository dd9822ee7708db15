"""The view of a torch node that mappings receive: arguments by name, and recorded result
metadata."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NoReturn, Protocol

import attrs
import numpy as np

from structir.errors import Diagnostic, DiagnosticError, Span
from structir.frontend.builder import NodeBuilder
from structir.frontend.torch.complex import ComplexTensor
from structir.frontend.torch.graph import (
    FxGraph,
    Meta,
    NodeSpec,
    Ref,
    has_complex,
    is_used,
    names_of,
)
from structir.frontend.torch.scalars import as_tensor, cast, is_number, tensor_info
from structir.frontend.torch.sizes import Ratio, TorchSymbols
from structir.ir import dims
from structir.ir.dims import Dim, Poly
from structir.ir.dtype import is_float, is_int, numpy_dtype
from structir.ir.expr import Constant, Expr, ShapeExpr, Tuple, Var
from structir.ir.requirements import cast_of, condition
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

REQUIRED: Any = object()


@attrs.frozen(eq=False)
class FxScope:
    """The scope of one graph: its values by name."""

    graph: FxGraph
    values: MutableMapping[str, Any]
    where: str
    results: frozenset[str] = frozenset()  # values that are visible after the dataflow block


class TorchImportContext(Protocol):
    """The interface of the importer that mappings may use."""

    builder: NodeBuilder
    symbols: TorchSymbols
    seed: int  # of random ops
    built: int  # the number of nodes so far

    def build_subgraph(self, graph: FxGraph, operands: Sequence[Any], where: str) -> list[Any]:
        """Builds a nested graph into the current scope; returns its outputs."""
        ...

    def is_size(self, expression: Any) -> bool:
        """Returns whether a symbolic number is a variable with a lower bound of at least 0."""
        ...

    def read(self, scope: FxScope, name: str) -> Any:
        """Returns the current value of a name, after the in-place writes so far."""
        ...

    def write(self, node: FxNode, name: str, value: Expr) -> None:
        """Updates the value of a name, and of the tensors that share its memory."""
        ...

    def fold_constant(self, value: Expr) -> Expr:
        """Returns the value of an expression of constants as a constant; other values unchanged."""
        ...


class FxNode:
    """One node of a graph."""

    def __init__(
        self, spec: NodeSpec, host: TorchImportContext, scope: FxScope, span: Span
    ) -> None:
        self.spec, self.host, self.scope, self.span = spec, host, scope, span
        self.replaced: Mapping[str, Any] = {}  # values of arguments, by name
        self.recorded_reads: list[int] = []  # results whose recorded sizes the mapping reads
        self.narrow_dtype: str | None = None  # of the results of a widened node

    def replace(self, values: Mapping[str, Any]) -> FxNode:
        """Returns this node with other values of some arguments."""
        node = copy.copy(self)
        node.replaced = {**self.replaced, **values}
        return node

    def widen(self) -> FxNode:
        """Returns this node with operands and results of 16-bit floats in float32.

        Tensors have the dtype of the result before, but a scalar `other` keeps its digits.
        """
        node = copy.copy(self)
        node.narrow_dtype = self.out_dtype()
        return node

    def as_given(self) -> FxNode:
        """Returns the node that was widened."""
        node = copy.copy(self)
        node.narrow_dtype = None
        return node

    def is_complex(self) -> bool:
        """Returns whether an argument or a result is complex."""
        return has_complex(self.scope.graph, self.spec)

    # ---- arguments

    def arg(self, name: str, default: Any = REQUIRED) -> Any:
        """Returns an argument: a tensor is an expression, a symbolic number a size or a `Ratio`."""
        if name in self.replaced:
            return self.replaced[name]
        if name not in self.spec.args:
            if default is REQUIRED:
                self.fail(f"missing argument {name!r}")
            return default
        value = self._value(self.spec.args[name])
        if self.narrow_dtype is None or not _is_float_tensor(value):
            return value
        if name != "other" or tensor_info(value).ndim != 0:
            value = cast(value, self.narrow_dtype)
        return cast(value, "float32")

    def _value(self, argument: Any) -> Any:
        if isinstance(argument, Ref):
            return self.host.read(self.scope, argument.name)
        if isinstance(argument, tuple):
            return tuple([self._value(item) for item in argument])
        return argument

    def __getitem__(self, name: str) -> Expr:
        """Returns a tensor argument; raises `DiagnosticError` if it is missing."""
        value = self.get(name)
        if value is None:
            self.fail(f"missing argument {name!r}")
        return value

    def get(self, name: str) -> Expr | None:
        """Returns a tensor argument, or None if it is absent."""
        value = self.arg(name, None)
        if value is not None and not isinstance(value, Expr):
            text = "a complex one" if isinstance(value, ComplexTensor) else repr(value)
            self.fail(f"argument {name!r}: expected a real tensor, found {text}")
        return value

    def operand(self, name: str, dtype: str) -> Expr:
        """Returns a tensor or number argument as a tensor in a dtype."""
        return as_tensor(self.arg(name), dtype)

    def rounded(self, name: str) -> Expr:
        """Returns an argument in the dtype of the result; numbers have the digits of 16-bit floats
        if the result has, also where it is computed in float32."""
        value, dtype = self.arg(name), self.out_dtype()
        is_tensor = isinstance(value, Expr) and tensor_info(value).ndim != 0
        if is_tensor or self.narrow_dtype is None:
            return as_tensor(value, dtype)
        return cast(as_tensor(value, self.narrow_dtype), dtype)

    def positional(self) -> list[Any]:
        """Returns the values of all arguments in order."""
        return [self.arg(name) for name in self.spec.args]

    def size(self, name: str, default: Any = REQUIRED) -> Dim:
        """Returns an integer argument, which may be symbolic."""
        return self.whole(self.arg(name, default))

    def whole(self, value: Any) -> Dim:
        """Returns a value as an integer, which may be symbolic; raises `DiagnosticError` for a
        fraction."""
        if isinstance(value, Expr) and is_int(self.dtype_of(value)):
            return self._number_of(value)
        if isinstance(value, Ratio):
            value = value.whole()
        if isinstance(value, int | Poly):
            return int(value) if isinstance(value, bool) else value
        if not isinstance(value, float) or not value.is_integer():
            self.fail(f"expected an integer, found {value!r}")
        return int(value)

    def sizes(self, name: str, default: Any = REQUIRED) -> tuple[Dim, ...]:
        """Returns an argument that is a list of integers, which may be symbolic."""
        value = self.arg(name, default)
        items = value if isinstance(value, tuple | list) else (value,)
        return tuple([self.whole(v) for v in items])

    def ints(self, name: str, default: Any = REQUIRED) -> tuple[int, ...]:
        """Returns an argument that is a list of constant integers."""
        value = self.sizes(name, default)
        if any(isinstance(d, Poly) for d in value):
            self.fail(f"argument {name!r}: expected constant integers, found {value}")
        return value  # type: ignore[return-value]

    def plain(self, name: str, default: Any = REQUIRED) -> int:
        """Returns an argument that is a constant integer."""
        return self.ints(name, default)[0]

    def flag(self, name: str, default: bool = False) -> bool:
        """Returns a boolean argument."""
        return bool(self.arg(name, default))

    # ---- data-dependent numbers

    def bind_sizes(self, vector: Expr, sizes: Sequence[Dim]) -> None:
        """Binds the symbols of sizes to the elements of an int64 vector."""
        shape = self.emit(R.tensor_to_shape(vector))
        self.host.builder.match_cast(shape, R.Shape(tuple(sizes)), self.part_name(), self.span)

    def require(self, conditions: Sequence[Dim]) -> None:
        """Requires conditions on sizes at run time, as `R.require` does in program text."""
        open_conditions = tuple([each for each in conditions if each != 1])
        if open_conditions:
            value, info = cast_of(open_conditions, self.span)
            self.host.builder.match_cast(value, info, self.part_name(), self.span)

    def require_nonzero(self, x: Expr, name: str) -> None:
        """Requires a tensor of one element to be different from 0 at run time."""
        if self.dtype_of(x) != "bool":
            x = R.not_equal(x, Constant(np.zeros((), numpy_dtype(self.dtype_of(x)))))
        holds = self.host.symbols.fresh(name)
        number = R.reshape(cast(self.emit(x), "int64"), ShapeExpr((1,)))
        self.bind_sizes(self.emit(number), (holds,))
        self.require([condition("==", holds, 1)])

    def bind_parts(self, x: Expr, parts: tuple[Dim, Dim]) -> None:
        """Binds two symbols, which are at least 0, to max(x, 0) and max(-x, 0) of an integer."""
        number = self.emit(R.reshape(cast(x, "int64"), ShapeExpr((1,))))
        zero = Constant(np.zeros((1,), "int64"))
        positive, negative = R.maximum(number, zero), R.maximum(R.negative(number), zero)
        self.bind_sizes(self.emit(R.concat(Tuple((positive, negative)), axis=0)), parts)

    def _number_of(self, x: Expr) -> Dim:
        """Returns an integer of a tensor as a number, which may be negative."""
        if isinstance(x, Constant):
            return int(x.data.item())
        stem = self.part_name()
        parts = self.host.symbols.fresh(f"{stem}_plus"), self.host.symbols.fresh(f"{stem}_minus")
        self.bind_parts(x, parts)
        return parts[0] - parts[1]

    # ---- StructInfo of operands

    def dims(self, name: str = "self") -> tuple[Dim, ...]:
        """Returns the shape of an operand, which must be known."""
        value = self.arg(name, None)
        return self.dims_of(value.real if isinstance(value, ComplexTensor) else self[name])

    def dims_of(self, x: Expr) -> tuple[Dim, ...]:
        """Returns the shape of a tensor, whose rank must be known."""
        sizes = tensor_info(x).dims
        if not isinstance(sizes, tuple):
            self.fail(f"expected an operand of known rank, found {tensor_info(x)}")
        return sizes

    def static_dims(self, name: str = "self") -> tuple[int, ...]:
        """Returns the shape of an operand, which must be static."""
        value = self.dims(name)
        if any(isinstance(d, Poly) for d in value):
            self.fail(
                f"argument {name!r}: expected a static shape, found {value}",
                "export with static sizes: remove its `Dim` from `dynamic_shapes`",
            )
        return value  # type: ignore[return-value]

    def rank(self, name: str = "self") -> int:
        """Returns the rank of an operand."""
        return len(self.dims(name))

    def dtype(self, name: str = "self") -> str:
        """Returns the dtype of an operand."""
        return self.dtype_of(self[name])

    def dtype_of(self, x: Expr) -> str:
        """Returns the dtype of a tensor, which must be known."""
        value = tensor_info(x).dtype
        if value is None:
            self.fail(f"expected an operand of known dtype, found {tensor_info(x)}")
        return value

    def axis(self, name: str = "dim", default: Any = REQUIRED, of: str = "self") -> int:
        """Returns the axis that an argument names, normalized to [0, rank)."""
        return self.normalize_axis(self.plain(name, default), self.rank(of))

    def normalize_axis(self, axis: int, rank: int) -> int:
        """Returns an axis normalized to [0, rank); a tensor of rank 0 counts as rank 1."""
        limit = max(rank, 1)
        if not -limit <= axis < limit:
            self.fail(f"axis {axis} is out of range for rank {rank}")
        return int(axis) % limit

    def axes(self, name: str = "dim", of: str = "self") -> list[int] | None:
        """Returns the sorted, normalized axes that an argument names, or None if it is absent or
        empty."""
        value = self.arg(name, None)
        if value is None or value == ():
            return None
        return sorted({self.normalize_axis(a, self.rank(of)) for a in self.ints(name)})

    # ---- metadata of results

    def meta(self, index: int = 0) -> Meta:
        """Returns the metadata that torch recorded for a result."""
        names = names_of(self.spec.outputs)
        value = self.scope.graph.tensors.get(names[index]) if index < len(names) else None
        if value is None:
            self.fail(f"the exported program has no metadata of result {index}")
        return value

    def out_dtype(self, index: int = 0) -> str:
        """Returns the dtype that torch recorded for a result, or for its parts if it is complex."""
        dtype = self.meta(index).dtype
        if dtype is None:
            self.fail(f"result {index}: unsupported dtype")
        return "float32" if dtype == self.narrow_dtype else dtype

    def out_dims(self, index: int = 0) -> tuple[Dim, ...]:
        """Returns the shape that torch recorded for a result."""
        self.recorded_reads.append(index)
        return self.recorded_dims(self.meta(index))

    def has_recorded_dims(self, name: str = "self") -> bool:
        """Returns whether the inferred shape of an operand is the one that torch recorded."""
        argument = self.spec.args.get(name)
        meta = self.scope.graph.tensors.get(argument.name) if isinstance(argument, Ref) else None
        if meta is None:
            return True
        pairs = zip(self.recorded_dims(meta), self.dims(name), strict=False)
        return all([dims.equal(a, b) is True for a, b in pairs])

    def recorded_dims(self, meta: Meta) -> tuple[Dim, ...]:
        """Returns the shape in the metadata of a tensor."""
        return tuple([self.host.symbols.dim(s) for s in meta.sizes])

    # ---- results

    def is_result_used(self, index: int) -> bool:
        """Returns whether a node or an output of the graph refers to a result."""
        names = names_of(self.spec.outputs)
        return index < len(names) and is_used(self.scope.graph, names[index])

    def emit(self, value: Expr, name: str | None = None) -> Var:
        """Binds a value to a variable; returns the variable."""
        if isinstance(value, Var):
            return value
        return self.host.builder.emit(value, name or self.part_name())

    def update(self, arg: str, value: Expr) -> None:
        """Replaces the value of a tensor argument that the op writes in place."""
        ref = self.spec.args.get(arg)
        if not isinstance(ref, Ref):
            self.fail(f"{arg}: expected a tensor of the graph to write, found {ref!r}")
        self.host.write(self, ref.name, self.host.builder.emit(value, ref.name))

    def part_name(self) -> str:
        """Returns the name of an intermediate value of the node."""
        return f"{self.spec.name}_part"

    def fold(self, value: Expr) -> Expr:
        """Returns an expression of constants as a constant; binds any other."""
        match = self.host.fold_constant(value)
        return match if isinstance(match, Constant) else self.emit(match)

    def float_operand(self, name: str = "self") -> Expr:
        """Returns a tensor argument in the dtype of the result, or in float32 if that is not a
        float."""
        dtype = self.out_dtype()
        return cast(self[name], dtype if is_float(dtype) else "float32")

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raises the error of this node with its op and location."""
        diagnostic = Diagnostic(message, self.span, self.spec.target, hint=hint, code="E0805")
        raise DiagnosticError(diagnostic)

    def require_default(self, name: str, supported: Any) -> None:
        """Raises `DiagnosticError` unless an argument is absent or has the supported value."""
        value = self.arg(name, supported)
        if value is not None and not is_number(value, supported):
            self.fail(f"{name}: expected {supported!r}, found {value!r}")


def are_equal(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Returns whether two shapes are provably equal."""
    return len(a) == len(b) and all(dims.equal(x, y) for x, y in zip(a, b, strict=True))


def _is_float_tensor(value: Any) -> bool:
    info = value.struct_info if isinstance(value, Expr) else None
    return isinstance(info, TensorStructInfo) and is_float(info.dtype or "")
