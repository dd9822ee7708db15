"""Builds index specs of calls from index signatures and bodies."""

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
from structir.opdef import deduction, index_expr
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
    """Returns the index spec of a call, or None where signature and dims do not determine it.

    The writes of composites and of bodies over whole axes have no values.
    """
    resolved = definition.resolve(call)  # first: it raises the errors of invalid calls
    call_view = deduction.call_arguments(definition, call.args, call.attrs)
    resolved_call = deduction.resolve_call(definition, call_view)
    if resolved_call.only_sizes:
        return None
    if any(type(v) is deduction.UnknownShape or v is UNKNOWN for v in resolved.attributes.values()):
        return None
    loops = LoopIndices(extents_of(resolved), resolved.attributes)
    operands = _operands(resolved, call, resolved_call.paths)
    results = _results(resolved, loops, _dtypes(definition.deduce(call)))
    if operands is None or results is None:
        return None
    if not all(_has_extents(tensor, loops) for tensor in (*operands, *results)):
        return None
    tracer = BodyTracer(definition, resolved, loops, operands)
    monoid = resolved.attributes.get(definition.reduce or "", definition.reduce)
    builder = SpecBuilder(
        operands,
        results,
        loops,
        resolved.on,
        tracer.values,
        monoid,
        definition.base,
        definition.out_of_bounds,
    )
    fill = definition.fill
    fill = resolved.attributes.get(fill, 0) if isinstance(fill, str) else fill
    try:
        spec = builder.spec(0 if fill is None else fill)
    except NotOneLoopNest:
        return None
    except StructInfoError as error:
        diagnostics = [attrs.evolve(d.at(call.span), op=definition.name) for d in error.diagnostics]
        raise StructInfoError(diagnostics) from None
    _check_extents(definition, spec, call)
    return spec


def _has_extents(tensor: CallTensor, loops: LoopIndices) -> bool:
    """Returns whether the extents of all index variables of an access are known."""
    names = [name for entry in tensor.entries for name in entry.join]
    indices = [entry.index for entry in tensor.entries if entry.index is not None]
    leaves = [leaf for index in indices for leaf in index_expr.leaves(index)]
    names += [leaf.name for leaf in leaves if isinstance(leaf, index_expr.IndexVar)]
    return loops.extents.keys() >= set(names)


def _check_extents(definition: SignatureOpDefinition, spec: IndexSpec, call: Call) -> None:
    for index, extent in spec.extents.items():
        if isinstance(extent, int) and extent < 0:
            message = f"expected a size of at least 0 for index {index.name}, found {extent}"
            raise StructInfoError(Diagnostic(message, call.span, definition.name))


@attrs.frozen(eq=False)
class BodyTracer:
    """A tracer: calls the body of an op once per statement, with symbolic scalar operands."""

    definition: SignatureOpDefinition
    resolved: ResolvedShapes
    loops: LoopIndices
    operands: Sequence[CallTensor]

    def values(
        self, choice: JoinChoice, read: Sequence[CallTensor], count: int
    ) -> tuple[ScalarExpr | None, ...]:
        """Returns the scalar expression of each result, or None for another kind of body."""
        if has_whole_axes(self.resolved) or not returns_scalars(self.definition.body):
            return (None,) * count
        output = self.definition.body(**self._arguments(read))
        values = output if isinstance(output, tuple) else (output,)
        return tuple([None if v is None else as_scalar_expr(v) for v in values])

    def _arguments(self, read: Sequence[CallTensor]) -> dict[str, Any]:
        signature = self.definition.signature
        values: dict[str, Any] = {
            n: LoopIndex(self.loops.symbol(n)) for n in signature.index_params
        }
        if signature.loops_param is not None:
            values[signature.loops_param] = self.loops
        positions = {p.name: k for k, p in enumerate(signature.arguments)}
        for parameter in signature.parameters:
            name = parameter.name
            if parameter.kind is not None:
                values[name] = self.resolved.attributes[name]
            elif parameter.is_list:
                members = [t for t in read if t.path[0] == positions[name]]
                values[name] = tuple([OperandElement(t.name) for t in members])
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


def has_whole_axes(resolved: ResolvedShapes) -> bool:
    """Returns whether the body operates on whole axes."""
    signature = resolved.index_signature
    return any(
        e.whole for access in (*signature.operands, *signature.results) for e in access.entries
    )


def _dtypes(info: StructInfo) -> list[str | None]:
    fields = info.fields if isinstance(info, TupleStructInfo) else (info,)
    return [f.dtype if isinstance(f, TensorStructInfo) else None for f in fields]


def extents_of(resolved: ResolvedShapes) -> dict[str, Dim]:
    """Returns the extents of all loop indices, with undecided broadcasts as `select` dims."""
    extents = dict(resolved.extents)
    for index_var, locations in resolved.plan.joins:
        operand_axes = [(resolved.operand_dims[operand], axis) for operand, axis in locations]
        sizes = [d[axis] for d, axis in operand_axes if d is not None]
        if index_var not in extents and len(sizes) == len(operand_axes):
            extents[index_var] = reduce(broadcast, sizes)
    return extents


def broadcast(a: Dim, b: Dim) -> Dim:
    """Returns the broadcast of two sizes."""
    return dims.select(dims.compare("eq", a, 1), b, a)


def _operands(
    resolved: ResolvedShapes, call: Call, paths: Sequence[tuple[int, int | None]]
) -> list[CallTensor] | None:
    operands: list[CallTensor] = []
    for k, (access, (argument, member)) in enumerate(
        zip(resolved.index_signature.operands, paths, strict=True)
    ):
        info = info_at(call, argument, member)
        if info is None:
            continue
        entries, sizes = resolved.operands[k], resolved.operand_dims[k]
        if entries is None or sizes is None:
            return None
        path = (argument,) if member is None else (argument, member)
        operands.append(CallTensor(access.name, entries, sizes, info.dtype, path, member))
    return operands


def info_at(call: Call, argument: int, member: int | None) -> Any:
    """Returns the StructInfo of an operand; None for an omitted one."""
    info: Any = call.args[argument].struct_info if argument < len(call.args) else None
    if member is not None:
        return info.fields[member]
    return None if isinstance(info, TupleStructInfo) else info


def _results(
    resolved: ResolvedShapes, loops: LoopIndices, dtypes: Sequence[str | None]
) -> list[CallTensor] | None:
    results: list[CallTensor] = []
    for k, access in enumerate(resolved.index_signature.results):
        sizes = _sizes(resolved, loops, k)
        entries = resolved.results[k]
        if sizes is None or entries is None:
            return None
        member = k if access.many else None
        results.append(CallTensor(access.name, entries, sizes, dtypes[k], member=member))
    return results


def _sizes(resolved: ResolvedShapes, loops: LoopIndices, result: int) -> tuple[Dim, ...] | None:
    entries = resolved.results[result]
    if entries is None or any(e.size is None for e in entries):
        return None
    size_exprs = [e.size for e in entries if e.size is not None]
    used = {
        leaf.name
        for f in size_exprs
        for leaf in index_expr.leaves(f)
        if type(leaf) is index_expr.IndexExtent
    }
    if not used <= loops.extents.keys():
        return None
    return resolved.sizes(result) or tuple([loops.size(f) for f in size_exprs])
