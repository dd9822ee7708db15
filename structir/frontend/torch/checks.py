"""Run-time checks of input sizes: the ranges and guards that torch enforces at each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structir.errors import Diagnostic, warn
from structir.frontend.torch.clamped_sizes import UNENFORCED_LOWER_BOUND
from structir.frontend.torch.graph import ExportedModule, Ref
from structir.frontend.torch.guard_origins import GuardOrigins
from structir.frontend.torch.guards import fixed_size, guard_condition, is_redundant, range_key
from structir.frontend.torch.importer import TorchImporter
from structir.frontend.torch.params import Parameters
from structir.frontend.torch.sizes import UnreadableSizeError
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.requirements import cast_of, is_condition
from structir.ir.struct_info import PrimStructInfo, StructInfo, TensorStructInfo

NO_UPPER_BOUND = 1 << 40  # torch writes larger bounds for "unbounded"


def check_sizes(
    importer: TorchImporter,
    program: ExportedModule,
    params: Parameters,
    origins: GuardOrigins,
) -> None:
    """Emits the run-time checks of sizes that torch makes at each call: ranges, then guards."""
    ranges = {range_key(importer.symbols, name): r for name, r in program.ranges.items()}
    for var in params.variables:
        _check(importer, var, params.declared_sizes[var.name])
    declared = [size for var in params.variables for size in params.declared_sizes[var.name]]
    limits = [c for size in declared if size in ranges for c in _conditions(size, *ranges[size])]
    for limit in dict.fromkeys(limits):
        _check_condition(importer, params, limit)
    enforced: set[Dim] = {1, *limits}
    inputs = _inputs(program, params)
    for guard in dict.fromkeys((*origins.guards, *program.guards)):
        condition = _condition(guard, inputs, guard in origins.internal)
        if condition not in enforced:
            enforced.add(condition)
            _check_condition(importer, params, condition)


def _inputs(program: ExportedModule, params: Parameters) -> dict[str, StructInfo]:
    """Returns the StructInfo of the inputs, by name and, for strict exports, by position."""
    infos = {var.name: var.struct_info for var in params.variables}
    user = [spec.value for spec in program.inputs if spec.kind == "user"]
    positions = {f"flat_args_{k}": v.name for k, v in enumerate(user) if isinstance(v, Ref)}
    return {alias: infos[name] for alias, name in positions.items()} | infos


def _condition(guard: str, inputs: Mapping[str, StructInfo], is_internal: bool) -> Dim:
    """Returns a guard as 1 or 0; warns about a guard that fixes a size or cannot be parsed."""
    try:
        condition = guard_condition(guard, inputs)
        if dims.equal(condition, 0) is True:
            raise UnreadableSizeError("it is false for every size")
    except UnreadableSizeError as error:
        message = f"cannot check the guard {guard[:100]} of the export: {error}; assuming it holds"
        warn(Diagnostic(message, severity="warning"))
        return 1
    fixed = fixed_size(guard, inputs)
    if fixed is not None:
        message = f"torch.export specialized {fixed}, which was declared dynamic"
        hint = (
            "replace `Dim.AUTO` with `Dim.DYNAMIC`: torch then reports the line that specializes it"
        )
        warn(Diagnostic(message, hint=hint, severity="warning"))
    return 1 if is_internal and is_redundant(guard) else condition


def _check_condition(importer: TorchImporter, params: Parameters, condition: Dim) -> None:
    """Emits the requirement of a comparison, or for other conditions a `match_cast` of one input
    that fails if the condition is 0."""
    if is_condition(condition):
        value, info = cast_of((condition,), None)
        importer.builder.match_cast(value, info, "required")
        return
    used = dims.syms(condition)
    for var in params.variables:
        sizes = _sizes(var.struct_info)
        axis = next((k for k, d in enumerate(sizes) if dims.as_sym(d) in used), None)
        if axis is not None:
            sizes[axis] = dims.select(condition, sizes[axis], sizes[axis] + 1)
            _check(importer, var, sizes)
            return


def _check(importer: TorchImporter, var: Var, sizes: Sequence[Dim]) -> None:
    if list(sizes) != _sizes(var.struct_info):
        info: StructInfo = PrimStructInfo("int64", value=sizes[0]) if sizes else var.struct_info
        if isinstance(var.struct_info, TensorStructInfo):
            info = TensorStructInfo(tuple(sizes), var.struct_info.dtype)
        importer.builder.match_cast(var, info, f"{var.name}_checked")


def _sizes(info: StructInfo) -> list[Dim]:
    """Returns the sizes of a tensor, or the value of a scalar."""
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return [info.value]
    sizes = info.dims if isinstance(info, TensorStructInfo) else None
    return list(sizes) if isinstance(sizes, tuple) else []


def _conditions(size: Dim, low: int | None, high: int | None) -> list[Dim]:
    lower = (
        [dims.compare("le", low, size)] if low is not None and low > UNENFORCED_LOWER_BOUND else []
    )
    return lower + (
        [dims.compare("le", size, high)] if high is not None and high < NO_UPPER_BOUND else []
    )
