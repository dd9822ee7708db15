"""An op made of loops alone: what a shard runs of an op of the program, on blocks of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from structir.errors import Span, StructIRError
from structir.ir.expr import Call, Expr
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.projections.run import run
from structir.projections.spec import IndexSpec

np = lazy_module("numpy")


@attrs.frozen(eq=False)
class LocalDefinition:
    """Answers for an op from its loops, which are all there is to it."""

    name: str
    spec: IndexSpec
    operator: None = None
    pure: bool = True
    hooks: Mapping[str, Any] = attrs.Factory(dict)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The operands, as the op's line names them."""
        return tuple([o.name for o in self.spec.operands])

    @property
    def of_sizes(self) -> tuple[bool, ...]:
        """No operand is made of sizes."""
        return (False,) * self.leading

    @property
    def leading(self) -> int:
        """How many operands there are."""
        return len(self.spec.operands)

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
        bare = Call(op, args, {}, (), None, span)
        return Call(op, args, {}, (), self.deduce(bare), span)

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
        results = run(self.spec, [np.asarray(value) for value in values])
        return results[0] if len(results) == 1 else tuple(results)
