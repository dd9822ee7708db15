"""Describes the accesses of op calls: the index of each operand and result in each loop nest.

    out[b, o] = sum(i < 4) of w[o, i], x[b, i] for b < 5, o < 3

An axis that broadcasts is read at index 0, and a fixed index is a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from structir.analysis.declaration import analysis
from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.expr import Call, Expr, Function, Tuple, Var
from structir.projections.scalar_expr import ScalarExpr
from structir.projections.spec import AccessIndex, Condition, IndexSpec, Statement

COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


@attrs.frozen
class LoopAccesses:
    """The accesses of one loop nest: loops with their extents, written and read elements."""

    parallel: tuple[tuple[str, str], ...]
    reduced: tuple[tuple[str, str], ...]
    reduction: str | None
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    conditions: tuple[str, ...] = ()

    def __str__(self) -> str:
        reads = ", ".join(self.reads)
        if self.reduced:
            bounds = ", ".join([f"{name} < {extent}" for name, extent in self.reduced])
            reads = f"{self.reduction}({bounds}) of {reads}"
        loops = ", ".join([f"{name} < {extent}" for name, extent in self.parallel])
        text = f"{', '.join(self.writes)} = {reads}" + (f" for {loops}" if loops else "")
        return text + (f" if {' and '.join(self.conditions)}" if self.conditions else "")


@analysis
def accesses(program: Function | Call) -> tuple[LoopAccesses, ...]:
    """Returns the accesses of a call, or of every op call in a function, in program order.

    Calls without an index projection are omitted.
    """
    calls = [program] if isinstance(program, Call) else [b.value for b in program.bindings()]
    return tuple([each for call in calls for each in _accesses_of(call)])


def _accesses_of(call: Expr) -> Iterator[LoopAccesses]:
    index_spec = getattr(getattr(getattr(call, "op", None), "definition", None), "index_spec", None)
    spec: IndexSpec | None = None if index_spec is None else index_spec(call)
    if spec is None or not isinstance(call, Call):
        return
    names = [_operand_name(call, info.path, info.name) for info in spec.operands]
    for statement in spec.statements:
        yield LoopAccesses(
            tuple(_loops(statement.parallel, spec.extents)),
            tuple(_loops(statement.reduce, spec.extents)),
            statement.monoid,
            tuple([_access(spec.results[w.result].name, w.entries) for w in statement.writes]),
            tuple([_access(names[r.operand], r.entries) for r in statement.reads]),
            tuple(map(_condition, _all_conditions(statement))),
        )


def _operand_name(call: Call, path: tuple[int, ...], name: str) -> str:
    value: Any = call.args[path[0]]
    if len(path) > 1 and isinstance(value, Tuple):
        value = value.fields[path[1]]
    return value.name if isinstance(value, Var) else name


def _loops(symbols: Iterable[Sym], extents: Mapping[Sym, Any]) -> Iterator[tuple[str, str]]:
    return ((symbol.name, dims.text(extents[symbol])) for symbol in symbols)


def _access(name: str, entries: tuple[AccessIndex, ...]) -> str:
    return f"{name}[{', '.join(map(_index, entries))}]"


def _index(entry: AccessIndex) -> str:
    if entry.whole:
        return ":"
    return str(entry.index) if isinstance(entry.index, ScalarExpr) else dims.text(entry.index)


def _all_conditions(statement: Statement) -> Iterator[Condition]:
    """Yields the conditions of a statement, and those of reads that may be out of range."""
    yield from statement.conditions
    for read in statement.reads:
        for entry in read.entries:
            if not entry.inside and not entry.whole and not isinstance(entry.index, ScalarExpr):
                yield Condition("le", 0, entry.index)
                yield Condition("lt", entry.index, entry.size)


def _condition(condition: Condition) -> str:
    left, right = dims.text(condition.left), dims.text(condition.right)
    return f"{left} {COMPARED[condition.op]} {right}"
