"""Facts the explorer shows about values: parts of StructInfo, and the origin of each size."""

from __future__ import annotations

from typing import Any

import attrs

from structir.errors import StructIRError
from structir.ir.dims import Sym, as_sym
from structir.ir.expr import Call, Tuple
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.diagnostics import signature_text
from structir.printer.expr_printer import ExprPrinter
from structir.projections.spec import AccessIndex, IndexSpec, Statement
from structir.solver.domains.reasons import Origin
from structir.solver.program.report import Report, element_text, explain
from structir.solver.program.value_trees import leaves

NEAREST = 8  # statements that an explanation holds
Source = tuple[tuple[int, ...], int, bool]  # the operand, its axis, whether it is the very size


@attrs.define(eq=False)
class FactTable:
    """Plain data that many places refer to by number."""

    rows: list[Any] = attrs.field(factory=list)
    places: dict[Any, int] = attrs.field(factory=dict)

    def place(self, key: Any, row: Any) -> int:
        """The number of a row, which is added when its key is new."""
        if key not in self.places:
            self.places[key] = len(self.rows)
            self.rows.append(row)
        return self.places[key]


def is_told(info: StructInfo | None) -> bool:
    """Whether the shape of every tensor in a StructInfo is reported."""
    tensors = [part for part in flat(info) if isinstance(part, TensorStructInfo)]
    return all(tensor.axes is not None or type(tensor.dims) is tuple for tensor in tensors)


def info_data(info: StructInfo | None) -> dict[str, Any]:
    """A StructInfo as its text and, for each tensor in it, the sizes and the dtype."""
    return {
        "text": str(info) if info is not None else "",
        "tensors": list(map(_tensor, flat(info))),
    }


def flat(info: StructInfo | None) -> list[StructInfo | None]:
    """The parts of a StructInfo that are no tuples, in order."""
    todo, found = [info], []
    while todo:
        part = todo.pop()
        if isinstance(part, TupleStructInfo):
            todo += part.fields[::-1]
        else:
            found.append(part)
    return found


def _tensor(info: StructInfo | None) -> dict[str, Any]:
    if not isinstance(info, TensorStructInfo):
        return {"text": str(info)}
    told = {"dtype": info.dtype, "ndim": info.ndim}
    axes = info.axes if info.axes is not None else info.dims
    if type(axes) is not tuple:
        return told
    return told | {"dims": [ExprPrinter().size(axis).strip('"') for axis in axes]}


def op_line(call: Call) -> str:
    """The line that declares an op, at a call; nothing where an op has none."""
    try:
        return signature_text(call.op.definition.line_of(call))  # type: ignore[attr-defined]
    except (StructIRError, InvalidCall, AttributeError):
        return ""


def sources(call: Call) -> list[list[list[Source]]]:
    """For each result of a call and each of its axes, the axes of operands that its position moves
    along."""
    spec = _spec(call)
    if spec is None:
        return []
    found: list[list[dict[Source, None]]] = [[{} for _ in r.dims] for r in spec.results]
    for clause in spec.statements:
        for write in clause.writes:
            for axis, entry in zip(found[write.result], write.entries, strict=True):
                axis |= dict.fromkeys(_read_along(spec, clause, entry))
    return [[list(axis) for axis in result] for result in found]


def _spec(call: Call) -> IndexSpec | None:
    if not isinstance(call.op, Op):
        return None
    try:
        spec: IndexSpec | None = call.op.definition.index_spec(call)  # type: ignore[attr-defined]
    except (StructIRError, InvalidCall, AttributeError):
        return None
    return spec


def _read_along(spec: IndexSpec, clause: Statement, entry: AccessIndex) -> list[Source]:
    """The axes of operands that move as one axis of the result does."""
    index_vars: frozenset[Sym] = entry.index_vars & spec.extents.keys()
    found = []
    for read in clause.reads:
        path = spec.operands[read.operand].path
        for axis, other in enumerate(read.entries):
            if index_vars & other.index_vars:
                same = as_sym(entry.dim) is not None and other.data is None
                same = same and other.index == entry.index and other.size == entry.size
                found.append((path, axis, same))
    return found


class Explanations:
    """Which statements of a program tell each size, as the shape solver has it."""

    def __init__(self, module: IRModule) -> None:
        self.table = FactTable()
        try:
            self.report = explain(module)
        except StructIRError:
            self.report = Report({})
        self.conflicts = [str(diagnostic) for diagnostic in self.report.conflicts]

    def of(self, function: str, var: Any) -> list[list[int]]:
        """For each tensor of a variable and each of its axes, the number of an explanation."""
        hearing = self.report.functions.get(function)
        if hearing is None or var not in hearing.trees:
            return []
        solver, found = hearing.solver, []
        for value in leaves(hearing.trees[var]):
            row = solver.store.row(solver.row(value))
            origins = [solver.explain_row((element,), NEAREST) for element in row]
            found.append([self.table.place(tuple(o), list(map(_told, o))) for o in origins])
        return found

    def found(self, function: str, var: Any) -> list[list[str]]:
        """The sizes that the solver has found of each tensor of a variable."""
        hearing = self.report.functions.get(function)
        if hearing is None or var not in hearing.trees:
            return []
        shapes = [hearing.solver.shape(value) for value in leaves(hearing.trees[var])]
        return [list(map(element_text, shape)) for shape in shapes]


def _told(origin: Origin) -> dict[str, Any]:
    line = origin.span.line if origin.span is not None else None
    return {"kind": origin.kind, "text": origin.text or origin.label, "line": line}


def is_missing(argument: Any) -> bool:
    """Whether an argument stands for an operand that is not given."""
    return isinstance(argument, Tuple) and not argument.fields
