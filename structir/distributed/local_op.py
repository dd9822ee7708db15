"""An op made of loops alone: what a shard runs of an op of the program, on blocks of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs

from structir.errors import Span, StructIRError
from structir.ir.dims import Sym, as_dim
from structir.ir.expr import Call, Expr, ShapeExpr
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.projections.run import run
from structir.projections.spec import IndexSpec, sizes_in

np = lazy_module("numpy")


@attrs.define(eq=False, slots=False)
class LocalDefinition:
    """Answers for an op from its loops, which are all there is to it.

    A call has the operands, and after them a shape: the sizes that the loops speak of."""

    name: str
    spec: IndexSpec
    operator: str | None = None
    pure: bool = True
    reads_values: bool = False
    hooks: Mapping[str, Any] = attrs.Factory(dict)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The operands, as the op's line names them, and the sizes."""
        return (*[o.name for o in self.spec.operands], "sizes")

    @property
    def of_sizes(self) -> tuple[bool, ...]:
        """Only the last argument is made of sizes."""
        return (*[False for _ in self.spec.operands], True)

    @property
    def leading(self) -> int:
        """How many arguments there are."""
        return len(self.spec.operands) + 1

    def deduce(self, call: Call) -> StructInfo:
        """The blocks that are made."""
        infos = tuple([TensorStructInfo(r.dims, r.dtype) for r in self.spec.results])
        return infos[0] if len(infos) == 1 else TupleStructInfo(infos)

    def bind(self, args: tuple[Any, ...], keywords: dict[str, Any], span: Span | None) -> Call:
        """Parts are made from the calls of a program, not written."""
        raise StructIRError(f"{self.name} is a part of a call, and is not written as one")

    def call(self, args: tuple[Expr, ...], span: Span | None) -> Call:
        """The part's own call."""
        op = Op(self.name, self)
        given = (*args, ShapeExpr(tuple([as_dim(s) for s in self.symbols])))
        bare = Call(op, given, {}, (), None, span)
        return Call(op, given, {}, (), self.deduce(bare), span)

    @cached_property
    def symbols(self) -> tuple[Sym, ...]:
        """The sizes that the loops speak of."""
        return tuple(sorted(sizes_in(self.spec), key=lambda s: s.order))

    def decompose(self, call: Call) -> None:
        """It has no parts of its own."""

    def assumptions(self, call: Call) -> tuple[Any, ...]:
        """Every size is a number: nothing is assumed."""
        return ()

    def index_spec(self, call: Call) -> IndexSpec:
        """The loops."""
        return self.spec

    def reference(self, call: Call, values: tuple[Any, ...]) -> Any:
        """The blocks in NumPy."""
        *operands, numbers = values
        sizes = dict(zip(self.symbols, numbers, strict=True))
        results = run(self.spec, [np.asarray(value) for value in operands], sizes)
        return results[0] if len(results) == 1 else tuple(results)
