"""Lowers ops on the rows of ragged tensors to a row program in a loop over rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Binding, Call, Expr, Function, Tuple, Var, VarBinding
from structir.ir.struct_info import OBJECT, TensorStructInfo
from structir.lazy import lazy_module
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import NoKernelError
from structir.loops.program.stage import Stage
from structir.loops.regions.row_copies import copies_of_rows
from structir.loops.regions.segment_rows import RowCall, RowOperand, row_loop
from structir.projections.spec import IndexSpec

regions = lazy_module("structir.loops.regions.region")
ROW_HOOKS = ("row", "copies_rows")  # of ops with stages for each row
UNITS = {
    "values": "first",
    "rows": "row",
    "shared": None,
}  # offset names of operands, by their kinds
OWN_AXES = {
    "first": 2,
    "row": 1,
    None: 0,
}  # axes of a row operand that are its own, by offset names
Rows = tuple[Buffer, Buffer]


def rows_of_op(
    region: Any,
    definition: Any,
    spec: IndexSpec,
    operands: Sequence[Buffer],
    origin: str,
) -> tuple[list[Buffer], list[Stage]] | None:
    """Returns the stages of an op with the hook `row` or `copies_rows`; None for other ops."""
    if definition.hooks.get("copies_rows"):
        return copies_of_rows(spec, operands, origin)
    row = definition.hooks.get("row")
    if row is None:
        return None
    values, starts, limits = operands
    sizes = (dims.sym("one"), dims.sym("length"), *values.shape[1:])
    var = Var("row", TensorStructInfo(sizes, values.dtype))
    dtype = spec.results[0].dtype or values.dtype
    result, out = Var("result", OBJECT), Buffer(spec.results[0].dims, dtype)
    bindings = [VarBinding(result, row(var, axis=1))]
    parts = [RowOperand(values, "first")], [RowOperand(out, "row")]
    try:
        stages = _stages(region, [var], bindings, [result], (starts, limits), *parts, origin)
    except (NoKernelError, DiagnosticError):
        return None
    return [out], stages


def rows_of_group(
    region: Any, call: Call, function: Function, buffers: Sequence[Any], origin: str
) -> tuple[Buffer, ...]:
    """Adds the stages of a function of one row for every row; returns the results."""
    operands, starts, limits = buffers
    infos: Any = call.op.definition.deduce(call)  # type: ignore[attr-defined]
    outs = [
        Buffer(tuple([dims.substitute(d, region.assumed) for d in info.dims]), info.dtype)
        for info in infos.fields
    ]
    kinds = zip(operands, call.attrs["kinds"], strict=True)
    parts = [RowOperand(b, UNITS[kind]) for b, kind in kinds]
    results = [RowOperand(b, UNITS[k]) for b, k in zip(outs, call.attrs["results"], strict=True)]
    bindings = function.body.bindings()
    region.stages += _stages(
        region,
        function.params,
        bindings,
        _fields(function.body.body, bindings),
        (starts, limits),
        parts,
        results,
        origin,
    )
    return tuple(outs)


def _fields(body: Any, bindings: Sequence[Binding]) -> Sequence[Expr]:
    """Returns the fields of the result of a function."""
    value: Any = body
    if not isinstance(body, Tuple):
        value = next(b.value for b in bindings if b.var is body)
    return value.fields  # type: ignore[no-any-return]


def _stages(
    region: Any,
    params: Sequence[Var],
    bindings: Sequence[Binding],
    fields: Sequence[Any],
    rows: Rows,
    operands: Sequence[RowOperand],
    results: Sequence[RowOperand],
    origin: str,
) -> list[Stage]:
    """Returns the stages of a loop over rows around the kernels of one row."""
    lowering = regions.RegionLowering(_sizes(params, operands))
    inputs = [lowering.lowered(param) for param in params]
    for binding in bindings:
        lowering.values[binding.var] = lowering.lowered(binding.value)
    program = lowering.region(list(fields)).program
    outputs = [lowering.values[field] for field in fields]
    if len(set(outputs)) < len(outputs) or lowering.checks:
        raise NoKernelError("two results of a row are one, or it has checks")
    region.constants |= lowering.constants
    region.kept_alive += lowering.kept_alive
    by_input = dict(zip(inputs, operands, strict=True))
    values = next(o.buffer for o in operands if o.unit == "first")
    row: Any = next(b.shape for b, o in by_input.items() if o.unit == "first")
    whole: Any = {dims.as_sym(row[0]): 1, dims.as_sym(row[1]): values.shape[0]}
    by_output = dict(zip(outputs, results, strict=True))
    call = RowCall(program, whole, *rows, by_input, by_output, origin)
    return call.stages(row_loop(call))


def _sizes(params: Sequence[Var], operands: Sequence[RowOperand]) -> Mapping[Sym, Dim]:
    """Returns the sizes of the symbols of a row function, except those of the row itself."""
    sizes: dict[Sym, Dim] = {}
    for param, operand in zip(params, operands, strict=True):
        info: Any = param.struct_info
        own = OWN_AXES[operand.unit]
        actual = operand.buffer.shape[min(own, 1) :]
        for declared, size in zip(info.dims[own:], actual, strict=True):
            symbol = dims.as_sym(declared)
            if symbol is not None and dims.as_dim(symbol) != size:
                sizes[symbol] = size
    return sizes
