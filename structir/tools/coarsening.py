"""Replaces StructInfos of a program by coarser ones, as passes and the API may."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from structir.analysis.axes import ANY, axes_of
from structir.analysis.axes import tensor as tensor_of
from structir.analysis.substitution import Substitution
from structir.analysis.variables import variables_in, walk
from structir.analysis.well_formed import well_formed
from structir.ir.axes import RowVar
from structir.ir.expr import Function, Var, VarBinding
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    KernelStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

SHARE = 0.6  # of the variables and results; halved until the program is well formed


def coarsened(info: StructInfo, rng: Random) -> StructInfo:
    """Returns a StructInfo that describes every value that `info` describes."""
    if isinstance(info, TupleStructInfo) and rng.random() < 0.8:
        return TupleStructInfo(tuple([coarsened(field, rng) for field in info.fields]))
    return rng.choice([info, info, OBJECT, *_coarser(info, rng)])


def _coarser(info: StructInfo, rng: Random) -> Iterator[StructInfo]:
    """Yields StructInfos of the same subclass that are at most as precise."""
    match info:
        case TensorStructInfo(dtype=dtype, ndim=ndim):
            dtype, ndim = rng.choice([dtype, None]), rng.choice([ndim, ndim, None])
            yield from [TensorStructInfo(None, dtype, ndim)] * 3
            axes = axes_of(info)
            if axes:
                unknown = [a if rng.random() < 0.6 or type(a) is RowVar else ANY for a in axes]
                yield tensor_of(tuple(unknown), dtype)
        case ShapeStructInfo(ndim=ndim):
            yield ShapeStructInfo(ndim=rng.choice([ndim, None]))
        case PrimStructInfo(dtype=dtype):
            yield PrimStructInfo(dtype)
        case KernelStructInfo():
            return
        case FuncStructInfo(params=params, ret=ret, purity=purity):
            yield FuncStructInfo(params, coarsened(ret, rng), purity)
            yield FuncStructInfo(None, OBJECT, purity)


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
        info = coarsened(self.info(var.struct_info), self.rng)
        new = self.variables[var] = type(var)(var.name, info, var.span)
        self.infos.clear()
        return new

    def function(self, function: Function) -> Function:
        new = super().function(function)
        if function not in self.chosen:
            return new
        return replace(new, ret_struct_info=coarsened(new.ret_struct_info, self.rng))
