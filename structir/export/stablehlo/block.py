"""A block of StableHLO operations under construction."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

import attrs
import numpy as np

from structir.export.stablehlo.syntax import operation_text
from structir.export.stablehlo.tensors import (
    HloTensor,
    dense,
    identifier,
    integer,
    integers,
    literal,
    tensor_type,
)
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import SMALL_INTS, dtype_of

INDEX = "int64"  # the dtype of sizes and indices
Info = tuple[Sequence[Dim], str]  # the dims and dtype of a result


class HloUnboundSize(Exception):
    """Raised for a symbolic size that no value of the program has."""


class HloSizeSource(NamedTuple):
    """The value that has a symbolic size: along an axis, as an element of a vector, or itself."""

    value: HloTensor
    axis: int | None
    of_shape: bool = True


@attrs.frozen(eq=False)
class HloOperation:
    """One operation: the names of its results, its text after them, and the names that it uses."""

    results: tuple[str, ...]
    text: str
    uses: frozenset[str]

    @property
    def line(self) -> str:
        """The operation in MLIR text."""
        return f"{', '.join(self.results)} = {self.text}" if self.results else self.text


@attrs.frozen
class HloRegion:
    """A region in MLIR text, and the names of outer values that it uses.

    `applies` is the operation of a region that combines its two parameters.
    """

    text: str
    uses: frozenset[str]
    applies: str = ""


class HloBlock:
    """The operations of a function or of a region; regions may use the values of outer blocks.

    An operation on the same operands as an earlier one is not repeated, and one whose result is not
    used is not written.
    """

    def __init__(self) -> None:
        self.operations: list[HloOperation] = []
        self.used: dict[str, int] = {}  # names and how often they were requested
        self.stem = "value"
        self.sources: MutableMapping[Sym, HloSizeSource] = {}
        self.known: MutableMapping[Any, list[HloTensor]] = {}  # results by operation
        self.reshaped: dict[str, HloTensor] = {}  # operands of reshapes by the name of the result

    def nested(self) -> HloBlock:
        """Returns the block of a region of an operation of this block."""
        inner = HloBlock()
        inner.used, inner.stem, inner.reshaped = self.used, self.stem, self.reshaped
        inner.sources, inner.known = ChainMap({}, self.sources), ChainMap({}, self.known)
        return inner

    def fresh(self, stem: str) -> str:
        """Returns an unused name."""
        name = stem = identifier(stem)
        while name in self.used:
            self.used[stem] += 1
            name = f"{stem}_{self.used[stem]}"
        self.used[name] = 0
        return f"%{name}"

    def live(self, names: Iterable[str]) -> tuple[list[str], frozenset[str]]:
        """Returns the lines that compute values, and the names from outside that these use."""
        needed, lines = {*names}, list[str]()
        for operation in reversed(self.operations):
            if needed & {*operation.results}:
                lines += reversed(operation.line.splitlines())
                needed |= operation.uses
        own = {name for operation in self.operations for name in operation.results}
        return lines[::-1], frozenset(needed - own)

    # ---- operations

    def emit(
        self,
        op: str,
        operands: Sequence[HloTensor],
        shape: Sequence[Dim],
        dtype: str,
        attributes: Mapping[str, str] | None = None,
        regions: Sequence[HloRegion] = (),
    ) -> HloTensor:
        """Appends an operation of one result."""
        return self.emit_many(op, operands, [(shape, dtype)], attributes, regions)[0]

    def emit_many(
        self,
        op: str,
        operands: Sequence[HloTensor],
        infos: Sequence[Info],
        attributes: Mapping[str, str] | None = None,
        regions: Sequence[HloRegion] = (),
    ) -> list[HloTensor]:
        """Appends an operation; an op without a dialect is one of StableHLO."""
        types = [tensor_type(shape, dtype) for shape, dtype in infos]
        texts = [region.text for region in regions]
        applies = "".join([region.applies for region in regions])
        text = operation_text(op, operands, types, attributes or {}, texts, applies)
        known = self.known.get(text)
        if known is not None:
            pairs = zip(known, infos, strict=True)
            return [attrs.evolve(value, dims=tuple(shape)) for value, (shape, _) in pairs]
        results = [HloTensor(self.fresh(self.stem), tuple(s), d) for s, d in infos]
        uses = frozenset([o.name for o in operands]).union(*[r.uses for r in regions])
        self.operations.append(HloOperation(tuple([r.name for r in results]), text, uses))
        self.known[text] = results
        return results

    def region(
        self,
        infos: Sequence[Info],
        body: Callable[[HloBlock, list[HloTensor]], Sequence[HloTensor]],
    ) -> HloRegion:
        """Returns a region whose block has parameters of these types."""
        inner = self.nested()
        params = [HloTensor(self.fresh("arg"), tuple(s), d) for s, d in infos]
        results = body(inner, params)
        lines, uses = inner.live([r.name for r in results])
        lines.append(operation_text("return", results, [], {}, []))
        header = ", ".join([f"{p.name}: {p.type}" for p in params])
        text = ["{", *([f"^bb0({header}):"] if params else []), *[f"  {x}" for x in lines], "}"]
        return HloRegion("\n".join(text), uses - {p.name for p in params})

    def combining(self, op: str, dtype: str) -> HloRegion:
        """Returns the region that combines two elements by an operation."""

        def body(block: HloBlock, args: list[HloTensor]) -> list[HloTensor]:
            return [block.emit(op, args, (), dtype)]

        return attrs.evolve(self.region([((), dtype)] * 2, body), applies=op)

    # ---- constants and sizes

    def number(self, value: Any, dtype: str, shape: Sequence[Dim] = ()) -> HloTensor:
        """Returns a constant tensor of one number; the shape is constant."""
        attribute = f"dense<{literal(value, dtype)}> : {tensor_type(shape, dtype)}"
        return self.emit("constant", [], shape, dtype, {"value": attribute})

    def array(self, data: Any) -> HloTensor:
        """Returns a constant tensor."""
        data = np.asarray(data)
        dtype = dtype_of(data)
        if data.ndim == 0:
            return self.number(data.item(), dtype)
        if dtype == "bool" or dtype in SMALL_INTS:
            wide = self.array(data.astype("int8"))
            return self.emit("convert", [wide], data.shape, dtype)
        attribute = f"{dense(data)} : {tensor_type(data.shape, dtype)}"
        return self.emit("constant", [], data.shape, dtype, {"value": attribute})

    def bind(self, size: Dim, source: HloSizeSource) -> None:
        """Records which value has a symbolic size; computed sizes are ignored."""
        symbol = dims.as_sym(size)
        if symbol is not None:
            self.sources.setdefault(symbol, source)

    def symbol(self, symbol: Sym) -> HloTensor:
        """Returns the value of a symbolic dim. Raises HloUnboundSize where no value has it."""
        source = self.sources.get(symbol)
        if source is None:
            raise HloUnboundSize(symbol.name)
        value, axis, of_shape = source
        if axis is None:
            return self.convert(value, INDEX)
        if of_shape:
            attributes = {"dimension": integer(axis)}
            size = self.emit("get_dimension_size", [value], (), "int32", attributes)
            return self.convert(size, INDEX)
        element = self.slice(value, [axis], [axis + 1], [1])
        return self.convert(self.reshape(element, ()), INDEX)

    # ---- operations on whole tensors

    def convert(self, x: HloTensor, dtype: str) -> HloTensor:
        """Returns a tensor converted to a dtype."""
        return x if x.dtype == dtype else self.emit("convert", [x], x.dims, dtype)

    def same(self, op: str, *operands: HloTensor) -> HloTensor:
        """Returns the result of an op whose result has the type of its first operand."""
        return self.emit(op, operands, operands[0].dims, operands[0].dtype)

    def compare(self, direction: str, a: HloTensor, b: HloTensor) -> HloTensor:
        """Returns the comparison of two tensors: EQ, NE, LT, LE, GT or GE."""
        attribute = f"#stablehlo<comparison_direction {direction}>"
        return self.emit("compare", [a, b], a.dims, "bool", {"comparison_direction": attribute})

    def select(self, condition: HloTensor, a: HloTensor, b: HloTensor) -> HloTensor:
        """Returns `a` where a condition holds, else `b`."""
        return self.emit("select", [condition, a, b], a.dims, a.dtype)

    def vector(self, sizes: Sequence[HloTensor]) -> HloTensor:
        """Returns scalars as a vector."""
        parts = [self.reshape(size, (1,)) for size in sizes]
        if len(parts) == 1:
            return parts[0]
        return self.emit(
            "concatenate", parts, (len(parts),), parts[0].dtype, {"dimension": integer(0)}
        )

    def reshape(self, x: HloTensor, shape: Sequence[Dim], vector: Any = None) -> HloTensor:
        """Returns a tensor of another shape; `vector` holds the sizes of a symbolic shape."""
        if tuple(shape) == x.dims:
            return x
        before = self.reshaped.get(x.name)
        if before is not None and tuple(shape) == before.dims:
            return before
        op, operands = ("reshape", [x]) if vector is None else ("dynamic_reshape", [x, vector])
        result = self.emit(op, operands, shape, x.dtype)
        self.reshaped.setdefault(result.name, before or x)
        return result

    def transpose(self, x: HloTensor, order: Sequence[int]) -> HloTensor:
        """Returns a tensor with its axes in another order."""
        if list(order) == list(range(x.rank)):
            return x
        shape = [x.dims[k] for k in order]
        return self.emit("transpose", [x], shape, x.dtype, {"permutation": integers(order)})

    def slice(
        self, x: HloTensor, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
    ) -> HloTensor:
        """Returns a slice with constant bounds and positive steps."""
        bounds = zip(starts, ends, steps, strict=True)
        shape = [max(-(-(end - start) // step), 0) for start, end, step in bounds]
        attributes = {
            "start_indices": integers(starts),
            "limit_indices": integers(ends),
            "strides": integers(steps),
        }
        return x if tuple(shape) == x.dims else self.emit("slice", [x], shape, x.dtype, attributes)
