"""Branches and joins: the StructInfo common to the branches of a conditional or the iterations of a
loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.lattice import unify_to_lca
from structir.errors import DiagnosticError, Span
from structir.frontend.onnx.names import ValueKey
from structir.frontend.onnx.node import OnnxImportContext, RunTimeValueError
from structir.frontend.onnx.types import unsized
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, StringImm, Tuple, Var
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.script import R

Infos = list[Any]
Side = Callable[[], Sequence[Expr]]


@attrs.frozen(eq=False)
class BranchJoin:
    """A conditional that was built, and the StructInfo of its outputs in the two branches."""

    var: Var
    infos: tuple[Infos, Infos]
    failing: int | None = None  # index of a branch that raises at run time


def build_branches(
    context: OnnxImportContext, condition: Expr, sides: Sequence[Side], stem: str
) -> BranchJoin:
    """Builds a conditional. A branch that is invalid raises at run time, when it is taken.

    Models contain such branches for ranks that their inputs do not have.
    """
    branches = _Branches(sides)
    result = context.builder.if_else(condition, branches.build(0), branches.build(1), stem)
    failed = [k for k in (0, 1) if branches.errors[k] is not None]
    if not failed:
        return BranchJoin(result, (branches.infos[0], branches.infos[1]))
    if len(failed) == 2:
        raise DiagnosticError([d for e in branches.errors if e is not None for d in e.diagnostics])
    context.builder.scopes[-1].bindings.pop()
    (bad,), good = failed, branches.infos[1 - failed[0]]
    message = branches.errors[bad].diagnostics[0].message  # type: ignore[union-attr]
    failing = _failing_branch(context, message, good)
    emitters = [branches.build(k) if k != bad else failing for k in (0, 1)]
    result = context.builder.if_else(condition, emitters[0], emitters[1], stem)
    return BranchJoin(result, (branches.infos[1 - bad], branches.infos[1 - bad]), bad)


def _failing_branch(context: OnnxImportContext, message: str, infos: Infos) -> Callable[[], Expr]:
    info = TupleStructInfo(tuple([unsized(i) for i in infos]))
    call = R.call_pure_packed("fail.because", StringImm(message), sinfo_args=info)
    return lambda: context.builder.emit(call)


class _Branches:
    """The branches of a conditional while they are built: their results or their errors."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self.sides = sides
        self.infos: list[Infos] = [[], []]
        self.errors: list[DiagnosticError | None] = [None, None]

    def build(self, k: int) -> Callable[[], Expr]:
        """Returns a function that emits one branch."""

        def emit() -> Expr:
            try:
                values = self.sides[k]()
            except RunTimeValueError:
                raise
            except DiagnosticError as error:
                self.errors[k] = error
                return Tuple(())
            self.infos[k] = [v.struct_info for v in values]
            return Tuple(tuple(values))

        return emit


def differ(infos: Sequence[Any]) -> bool:
    """Returns whether tensors have different ranks, so that one join cannot represent them."""
    tensors = all(isinstance(i, TensorStructInfo) for i in infos)
    return tensors and len({i.ndim for i in infos}) > 1


def common_info(context: OnnxImportContext, stem: str, infos: Sequence[Any]) -> StructInfo:
    """Returns the StructInfo common to all cases, axis by axis; sizes that differ become fresh
    variables."""
    if not all(isinstance(i, TensorStructInfo) for i in infos):
        return unify_to_lca(infos[0], infos[-1])
    dtype = infos[0].dtype if len({i.dtype for i in infos}) == 1 else None
    if differ(infos) or infos[0].ndim is None:
        return TensorStructInfo(None, dtype)
    in_scope = context.builder.scopes[-1].symbols()
    sizes: list[Dim] = []
    for axis in range(infos[0].ndim):
        candidates = [i.dims[axis] if isinstance(i.dims, tuple) else None for i in infos]
        first = candidates[0]
        same = first is not None and all(f is not None and dims.equal(first, f) for f in candidates)
        if same and first is not None and dims.syms(first) <= in_scope:
            sizes.append(first)
        else:
            sizes.append(context.symbols.fresh(f"{stem}_{axis}"))
    return TensorStructInfo(tuple(sizes), dtype)


def merge_infos(
    programs: Iterable[Mapping[ValueKey, StructInfo | None]],
) -> dict[ValueKey, StructInfo | None]:
    """Returns the least upper bound of the StructInfo of each name over several programs."""
    merged_infos: dict[ValueKey, StructInfo | None] = {}
    for infos in programs:
        for name, info in infos.items():
            merged = merged_infos.get(name, info)
            same = merged is None or info is None or merged == info
            merged_infos[name] = (merged or info) if same else unify_to_lca(merged, info)  # type: ignore[arg-type]
    return merged_infos


def cast_checked(
    context: OnnxImportContext, stem: str, value: Expr, info: StructInfo, span: Span
) -> Expr:
    """Returns a value cast with `match_cast` to a StructInfo, which is checked at run time."""
    if value.struct_info == info or not isinstance(info, TensorStructInfo):
        return value
    if info.ndim is None:
        return value
    return context.builder.match_cast(context.builder.emit(value, stem), info, stem, span)
