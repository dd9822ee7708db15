"""The loops of copies, and keys of equal loops."""

from __future__ import annotations

from collections.abc import Hashable

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.projections.scalar_expr import OperandElement
from structir.projections.spec import (
    AccessIndex,
    IndexSpec,
    OperandInfo,
    Read,
    ResultInfo,
    Statement,
    Write,
)


def copy_spec(shape: tuple[Dim, ...], dtype: str) -> IndexSpec:
    """Returns the IndexSpec of a copy."""
    index_vars = tuple([Sym(f"i{k}") for k in range(len(shape))])
    entries = tuple(
        [AccessIndex(dims.as_dim(s), n) for s, n in zip(index_vars, shape, strict=True)]
    )
    statement = Statement(
        index_vars, (), (), (Read("x", 0, entries),), (Write(0, entries, OperandElement("x")),)
    )
    operand, result = OperandInfo("x", (0,), shape, dtype), ResultInfo("y", shape, dtype)
    return IndexSpec((operand,), (result,), dict(zip(index_vars, shape, strict=True)), (statement,))


def loop_signature(spec: IndexSpec) -> Hashable:
    """Returns a key that two restrictions of one spec share if they compute the same."""
    statements = tuple(
        [
            (
                tuple([(s, spec.extents[s]) for s in (*c.parallel, *c.reduce)]),
                c.reads,
                c.writes,
                c.conditions,
            )
            for c in spec.statements
        ]
    )
    sizes = tuple([o.dims for o in spec.operands]) + tuple([r.dims for r in spec.results])
    return sizes, statements, spec.base
