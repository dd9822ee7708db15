"""Shapes as JSON data: the tensors of a StructInfo, and the source of each size."""

from __future__ import annotations

from typing import Any

import attrs

from structir.errors import StructIRError
from structir.ir.dims import Sym, as_sym
from structir.ir.expr import Call
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef.axis_packs import InvalidCall
from structir.opdef.diagnostics import signature_text
from structir.printer.expr_printer import ExprPrinter
from structir.projections.spec import AccessIndex, IndexSpec, Statement
from structir.solver.domains.reasons import Origin
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.report import Report, element_text, explain
from structir.solver.program.value_trees import leaves

MAX_ORIGINS = 8  # of one explanation
AxisSource = tuple[tuple[int, ...], int, bool]  # operand path, its axis, whether sizes are equal


@attrs.define(eq=False)
class InternTable:
    """Distinct rows of plain data, which other data refers to by index."""

    rows: list[Any] = attrs.field(factory=list)
    indices: dict[Any, int] = attrs.field(factory=dict)

    def index(self, key: Any, row: Any) -> int:
        """Returns the index of the row of a key; adds the row if the key is new."""
        if key not in self.indices:
            self.indices[key] = len(self.rows)
            self.rows.append(row)
        return self.indices[key]


def has_known_shapes(info: StructInfo | None) -> bool:
    """Returns whether the axes of every tensor in a StructInfo are known."""
    tensors = [part for part in flatten(info) if isinstance(part, TensorStructInfo)]
    return all(tensor.axes is not None or type(tensor.dims) is tuple for tensor in tensors)


def info_data(info: StructInfo | None) -> dict[str, Any]:
    """Returns the text of a StructInfo, and the sizes and dtype of each tensor in it."""
    return {
        "text": str(info) if info is not None else "",
        "tensors": list(map(_tensor_data, flatten(info))),
    }


def flatten(info: StructInfo | None) -> list[StructInfo | None]:
    """Returns the parts of a StructInfo that are not tuples, in order."""
    todo, parts = [info], []
    while todo:
        part = todo.pop()
        if isinstance(part, TupleStructInfo):
            todo += part.fields[::-1]
        else:
            parts.append(part)
    return parts


def _tensor_data(info: StructInfo | None) -> dict[str, Any]:
    if not isinstance(info, TensorStructInfo):
        return {"text": str(info)}
    data = {"dtype": info.dtype, "ndim": info.ndim}
    axes = info.axes if info.axes is not None else info.dims
    if type(axes) is not tuple:
        return data
    return data | {"dims": [ExprPrinter().size(axis).strip('"') for axis in axes]}


def index_signature(call: Call) -> str:
    """Returns the index signature of an op at a call; "" for an op without one."""
    try:
        return signature_text(call.op.definition.index_signature_of(call))  # type: ignore[attr-defined]
    except (StructIRError, InvalidCall, AttributeError):
        return ""


def axis_sources(call: Call) -> list[list[list[AxisSource]]]:
    """Returns the operand axes that share an index variable with each axis of each result."""
    spec = _index_spec(call)
    if spec is None:
        return []
    sources: list[list[dict[AxisSource, None]]] = [[{} for _ in r.dims] for r in spec.results]
    for statement in spec.statements:
        for write in statement.writes:
            for axis, entry in zip(sources[write.result], write.entries, strict=True):
                axis |= dict.fromkeys(_sources_of_axis(spec, statement, entry))
    return [[list(axis) for axis in result] for result in sources]


def _index_spec(call: Call) -> IndexSpec | None:
    if not isinstance(call.op, Op):
        return None
    try:
        spec: IndexSpec | None = call.op.definition.index_spec(call)  # type: ignore[attr-defined]
    except (StructIRError, InvalidCall, AttributeError):
        return None
    return spec


def _sources_of_axis(
    spec: IndexSpec, statement: Statement, written: AccessIndex
) -> list[AxisSource]:
    """Returns the operand axes that share an index variable with one axis of the result."""
    index_vars: frozenset[Sym] = written.index_vars & spec.extents.keys()
    sources = []
    for read in statement.reads:
        path = spec.operands[read.operand].path
        for axis, entry in enumerate(read.entries):
            if index_vars & entry.index_vars:
                is_direct = as_sym(written.dim) is not None and entry.data is None
                same_size = entry.index == written.index and entry.size == written.size
                sources.append((path, axis, is_direct and same_size))
    return sources


class ShapeExplanations:
    """The shapes that the solver infers, and the origins of each size."""

    def __init__(self, module: IRModule) -> None:
        self.table = InternTable()
        try:
            self.report = explain(module)
        except StructIRError:
            self.report = Report({})
        self.conflicts = [str(diagnostic) for diagnostic in self.report.conflicts]

    def explanation_indices(self, function: str, var: Any) -> list[list[int]]:
        """Returns the index of the explanation of each axis of each tensor of a variable."""
        generator = self._generator(function, var)
        if generator is None:
            return []
        solver, indices = generator.solver, []
        for value in leaves(generator.trees[var]):
            row = solver.store.row(solver.row(value))
            origins = [solver.explain((element,), MAX_ORIGINS) for element in row]
            indices.append(
                [self.table.index(tuple(o), list(map(_origin_data, o))) for o in origins]
            )
        return indices

    def inferred_shapes(self, function: str, var: Any) -> list[list[str]]:
        """Returns the shape that the solver infers for each tensor of a variable."""
        generator = self._generator(function, var)
        if generator is None:
            return []
        shapes = [generator.solver.shape(value) for value in leaves(generator.trees[var])]
        return [list(map(element_text, shape)) for shape in shapes]

    def _generator(self, function: str, var: Any) -> ConstraintGenerator | None:
        """Returns the constraints of a function if they include this variable."""
        generator = self.report.functions.get(function)
        return generator if generator is not None and var in generator.trees else None


def _origin_data(origin: Origin) -> dict[str, Any]:
    line = origin.span.line if origin.span is not None else None
    return {"kind": origin.kind, "text": origin.text or origin.label, "line": line}
