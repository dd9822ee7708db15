"""Replaces StructInfos of a program by coarser ones, as passes and the API may."""

from __future__ import annotations

from random import Random
from typing import Any

from structir.analysis.axes import ANY, axes_of
from structir.analysis.axes import tensor as tensor_of
from structir.analysis.substitution import Substitution
from structir.analysis.variables import variables_in, walk
from structir.analysis.well_formed import well_formed
from structir.errors import StructIRError
from structir.ir.axes import RowVar
from structir.ir.expr import Function, Var, VarBinding
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.runtime.function_forms import OfForm

SHARE = 0.6  # of the variables and results; halved until the program is well formed


def coarsened(info: StructInfo, rng: Random) -> StructInfo:
    """Returns a StructInfo that describes every value that `info` describes."""
    share = rng.random() if isinstance(info, TupleStructInfo) else 1.0
    if isinstance(info, TupleStructInfo) and share < 0.8:
        fields = tuple([coarsened(field, rng) for field in info.fields])
        return TupleStructInfo(fields, info.names if share < 0.4 else None)
    choices: list[StructInfo] = [info, info, OBJECT]
    if isinstance(info, TensorStructInfo):
        dtype, ndim = rng.choice([info.element, None]), rng.choice([info.ndim, info.ndim, None])
        choices += [TensorStructInfo(None, dtype, ndim)] * 3
    if isinstance(info, ShapeStructInfo):
        choices.append(ShapeStructInfo(ndim=rng.choice([info.ndim, None])))
    if isinstance(info, PrimStructInfo):
        choices.append(PrimStructInfo(info.dtype))
    return rng.choice(choices)


def _coarsened_inside(info: StructInfo, rng: Random) -> StructInfo:
    """Returns a StructInfo of which some axes, or the result of a function type, are coarser."""
    if type(info) is FuncStructInfo and info.params is not None and not info.derive_func:
        return FuncStructInfo(info.params, coarsened(info.ret, rng), info.purity)
    axes = axes_of(info) if isinstance(info, TensorStructInfo) else None
    if not axes or type(getattr(info, "dims", None)) is Var:
        return coarsened(info, rng)
    unknown = [axis if rng.random() < 0.6 or type(axis) is RowVar else ANY for axis in axes]
    return tensor_of(tuple(unknown), rng.choice([info.element, None]))  # type: ignore[attr-defined]


def coarsened_module(module: IRModule, rng: Random) -> IRModule:
    """Returns the module with coarser StructInfos of variables and of function results."""
    functions = [part for part in walk(module) if isinstance(part, Function)]
    bindings = [part for part in walk(module) if isinstance(part, VarBinding)]
    chosen: list[Function | Var] = [
        binding.var for binding in bindings if binding.var not in variables_in(binding.value)
    ]
    chosen = rng.sample([*chosen, *functions], round(SHARE * len(chosen + functions)))
    while chosen:
        coarse = _Coarsening(chosen, rng).module(module)
        if well_formed(coarse):
            return coarse
        chosen = rng.sample(chosen, len(chosen) // 2)
    return module


def with_open_parameters(module: IRModule, rng: Random) -> IRModule:
    """Returns the module with some parameters of unknown rank, sizes or dtype, and with the
    StructInfos that follow from them; a function that is invalid then is unchanged."""
    for name, function in module.functions.items():
        if not isinstance(function, Function):
            continue
        params = [type(p)(p.name, _open(p.struct_info, rng), p.span) for p in function.params]
        pairs = zip(function.params, params, strict=True)
        changed = {old: new for old, new in pairs if old.struct_info != new.struct_info}
        body = Substitution(changed).part(function.body)
        try:
            opened = _Inferred({}).instance(replace(function, params=tuple(params), body=body))
        except StructIRError:
            continue
        candidate = module.with_functions({**module.functions, name: opened})
        module = candidate if well_formed(candidate) else module
    return module


def _open(info: StructInfo, rng: Random) -> StructInfo:
    """Returns a tensor with fewer known facts, in one of two cases."""
    if not isinstance(info, TensorStructInfo) or rng.random() < 0.5:
        return info
    row: Any = ("*s",)
    unknown = [(None, info.element, info.ndim), (None, info.element), (), (row, info.element)]
    axes = axes_of(info)
    if axes and rng.random() < 0.3:  # some of its axes
        return tensor_of(
            tuple([a if type(a) is RowVar or rng.random() < 0.5 else ANY for a in axes]),
            info.element,
        )
    return TensorStructInfo(*rng.choice(unknown))


class _Inferred(OfForm):
    """Infers the StructInfos of a function again, without those that it declares."""

    def _sharper(self, declared: StructInfo, inferred: StructInfo) -> StructInfo:
        return declared if inferred is None else inferred


class _Coarsening(Substitution):
    """Rebuilds a program with coarser StructInfos of the chosen variables and results."""

    def __init__(self, chosen: list[Function | Var], rng: Random) -> None:
        super().__init__()
        self.chosen, self.rng = frozenset(chosen), rng

    def module(self, module: IRModule) -> IRModule:
        functions = {
            name: self.function(function) if isinstance(function, Function) else function
            for name, function in module.functions.items()
        }
        return module.with_functions(functions)

    def bound(self, var: Var) -> Var:
        if var not in self.chosen:
            return super().bound(var)
        coarser = self.rng.choice([coarsened, coarsened, _coarsened_inside])
        info = coarser(self.info(var.struct_info), self.rng)
        new = self.variables[var] = type(var)(var.name, info, var.span)
        self.infos.clear()
        return new

    def function(self, function: Function) -> Function:
        new = super().function(function)
        if function not in self.chosen:
            return new
        return replace(new, ret_struct_info=coarsened(new.ret_struct_info, self.rng))
