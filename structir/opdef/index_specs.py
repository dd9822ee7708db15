"""Builds index specs of calls from index signature and body."""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import TYPE_CHECKING, Any

import attrs

from structir.errors import Diagnostic, StructInfoError
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Call
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef import deduction
from structir.opdef import index_expr as formulas
from structir.opdef.attributes import Operands
from structir.opdef.index_exprs import LoopIndices
from structir.opdef.notation import REQUIRED
from structir.opdef.shape_eval import UNKNOWN, ResolvedShapes
from structir.opdef.statements import CallTensor, JoinChoice, NotOneLoopNest, SpecBuilder
from structir.projections.scalar_expr import LoopIndex, OperandElement, ScalarExpr, as_scalar_expr
from structir.projections.spec import IndexSpec

if TYPE_CHECKING:
    from structir.opdef.define import SignatureOpDefinition


def index_spec(definition: SignatureOpDefinition, call: Call) -> IndexSpec | None:
    """Returns the loops of a call; None where its signature or dims do not determine them.

    Composites and bodies over whole axes have writes without values.
    """
    resolved = definition.resolve(call)  # first, as it determines what is wrong with the call
    given = deduction.call_arguments(definition, call.args, call.attrs)
    reading = deduction.resolve_call(definition, given)
    if reading.only_sizes:
        return None
    if any(type(v) is deduction.UnknownShape or v is UNKNOWN for v in resolved.attributes.values()):
        return None
    letters = LoopIndices(extents_of(resolved), resolved.attributes)
    operands = _operands(resolved, call, reading.paths)
    results = _results(resolved, letters, _dtypes(definition.deduce(call)))
    if operands is None or results is None:
        return None
    tracer = BodyTracer(definition, resolved, letters, operands)
    monoid = resolved.attributes.get(definition.reduce or "", definition.reduce)
    maker = SpecBuilder(
        operands, results, letters, resolved.on, tracer.values, monoid, definition.base
    )
    fill = definition.fill
    fill = resolved.attributes.get(fill, 0) if isinstance(fill, str) else fill
    try:
        spec = maker.spec(0 if fill is None else fill)
    except NotOneLoopNest:
        return None
    _check_extents(definition, spec, call)
    return spec


def _check_extents(definition: SignatureOpDefinition, spec: IndexSpec, call: Call) -> None:
    for letter, extent in spec.extents.items():
        if isinstance(extent, int) and extent < 0:
            message = f"{letter.name} would have size {extent}"
            raise StructInfoError(Diagnostic(message, call.span, definition.name))


@attrs.frozen(eq=False)
class BodyTracer:
    """Calls the body of an op once per statement, with symbolic scalar operands."""

    definition: SignatureOpDefinition
    resolved: ResolvedShapes
    letters: LoopIndices
    operands: Sequence[CallTensor]

    def values(
        self, piece: JoinChoice, read: Sequence[CallTensor], count: int
    ) -> tuple[ScalarExpr | None, ...]:
        """Returns the value of each result; None where the body is no scalar expression."""
        if is_whole(self.resolved) or not returns_scalars(self.definition.body):
            return (None,) * count
        made = self.definition.body(**self._arguments(read))
        values = made if isinstance(made, tuple) else (made,)
        return tuple([None if v is None else as_scalar_expr(v) for v in values])

    def _arguments(self, read: Sequence[CallTensor]) -> dict[str, Any]:
        signature = self.definition.signature
        values: dict[str, Any] = {
            n: LoopIndex(self.letters.symbol(n)) for n in signature.index_params
        }
        if signature.loops_param is not None:
            values[signature.loops_param] = self.letters
        positions = {p.name: k for k, p in enumerate(signature.arguments)}
        for parameter in signature.parameters:
            name = parameter.name
            if parameter.kind is not None:
                values[name] = self.resolved.attributes[name]
            elif parameter.is_list:
                own = [t for t in read if t.path[0] == positions[name]]
                values[name] = tuple([OperandElement(t.name) for t in own])
            else:
                values[name] = self._operand(name)
        return values

    def _operand(self, name: str) -> Any:
        if any(t.name == name for t in self.operands):
            return OperandElement(name)
        defaults = {a.name: a.default for a in self.resolved.index_signature.operands}
        default = defaults.get(name, REQUIRED)
        return None if default is REQUIRED else default


@cache
def returns_scalars(body: Callable[..., Any]) -> bool:
    """Returns whether a body is declared to return scalar expressions."""
    return typing.get_type_hints(body, include_extras=True)["return"] in (ScalarExpr, Operands)


def is_whole(resolved: ResolvedShapes) -> bool:
    """Returns whether the body receives whole axes."""
    line = resolved.index_signature
    return any(e.whole for access in (*line.operands, *line.results) for e in access.entries)


def _dtypes(info: StructInfo) -> list[str | None]:
    fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
    return [f.dtype if isinstance(f, TensorStructInfo) else None for f in fields]


def extents_of(resolved: ResolvedShapes) -> dict[str, Dim]:
    """Returns the extents of all loop indices; undecided broadcasts get the joined size."""
    found = dict(resolved.extents)
    for letter, places in resolved.plan.joins:
        given = [(resolved.operand_dims[operand], axis) for operand, axis in places]
        sizes = [d[axis] for d, axis in given if d is not None]
        if letter not in found and len(sizes) == len(given):
            found[letter] = reduce(broadcast, sizes)
    return found


def broadcast(a: Dim, b: Dim) -> Dim:
    """Returns the broadcast of sizes."""
    return dims.select(dims.compare("eq", a, 1), b, a)


def _operands(
    resolved: ResolvedShapes, call: Call, paths: Sequence[tuple[int, int | None]]
) -> list[CallTensor] | None:
    found: list[CallTensor] = []
    for k, (access, (argument, member)) in enumerate(
        zip(resolved.index_signature.operands, paths, strict=True)
    ):
        info = info_at(call, argument, member)
        if info is None:
            continue
        entries, given = resolved.operands[k], resolved.operand_dims[k]
        if entries is None or given is None:
            return None
        path = (argument,) if member is None else (argument, member)
        found.append(CallTensor(access.name, entries, given, info.dtype, path, member))
    return found


def info_at(call: Call, argument: int, member: int | None) -> Any:
    """Returns the StructInfo of an operand; None for an omitted one."""
    info: Any = call.args[argument].struct_info if argument < len(call.args) else None
    if member is not None:
        return info.fields[member]
    return None if isinstance(info, TupleStructInfo) else info


def _results(
    resolved: ResolvedShapes, letters: LoopIndices, dtypes: Sequence[str | None]
) -> list[CallTensor] | None:
    found: list[CallTensor] = []
    for k, access in enumerate(resolved.index_signature.results):
        sizes = _sizes(resolved, letters, k)
        entries = resolved.results[k]
        if sizes is None or entries is None:
            return None
        member = k if access.many else None
        found.append(CallTensor(access.name, entries, sizes, dtypes[k], member=member))
    return found


def _sizes(resolved: ResolvedShapes, letters: LoopIndices, result: int) -> tuple[Dim, ...] | None:
    entries = resolved.results[result]
    if entries is None or any(e.size is None for e in entries):
        return None
    formulas_ = [e.size for e in entries if e.size is not None]
    used = {
        leaf.name
        for f in formulas_
        for leaf in formulas.leaves(f)
        if type(leaf) is formulas.IndexExtent
    }
    if not used <= letters.extents.keys():
        return None
    return resolved.sizes(result) or tuple([letters.size(f) for f in formulas_])
