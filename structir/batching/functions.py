"""Generates the batched functions of a module: functions mapped over a new leading axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.adjoints.declared import floating_params
from structir.analysis.derivative_rules import PULLBACK, TANGENT, derived_attributes
from structir.analysis.internal_functions import PRIVATE
from structir.analysis.substitution import Substitution
from structir.batching.scope import BatchedScope, Flags
from structir.build import BlockBuilder
from structir.errors import StructIRError
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Call, Function, GlobalVar, Tuple, Var
from structir.ir.module import IRModule, numbered_name
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef.batched_op import apply, with_axis


class Batching:
    """The batched functions generated for one module; `looped` are ops that loop over the axis."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.generated: dict[str, Function] = {}
        self.looped: list[str] = []
        self.used_names = set(module.functions)
        self._callees: dict[Any, GlobalVar] = {}

    def add(self, name: str, of: str, mapped: Sequence[Flags], size: Dim | None = None) -> None:
        """Generates the function `name`: the function `of` mapped over a new leading axis.

        `mapped` has for each parameter whether its tensors have the axis; for a tuple parameter
        also a tuple of these. The axis has the size `size`, a dim of the caller or an integer, or a
        new symbolic dim. Each tensor of the result has the axis. Raises DiagnosticError for a call
        that cannot be mapped.
        """
        function = self.module[of]
        if not isinstance(function, Function):
            raise StructIRError(f"batching: expected a function, found {of}")
        self.used_names.add(name)
        axis = dims.sym("batch") if size is None else size
        copier = Substitution(fresh=True)
        copier.new_dims([param.struct_info for param in function.params])
        flags = [
            spread(flag, p.struct_info) for flag, p in zip(mapped, function.params, strict=True)
        ]
        infos = [
            batched_info(copier.info(param.struct_info), flag, axis)
            for param, flag in zip(function.params, flags, strict=True)
        ]
        params = [Var(p.name, info) for p, info in zip(function.params, infos, strict=True)]
        builder = BlockBuilder()
        attributes = {**derived_attributes(function.attrs), PRIVATE: True}
        with builder.function(name, params, pure=function.is_pure, attrs=attributes):
            scope = BatchedScope(builder, self, axis, copier)
            for param, new, flag in zip(function.params, params, flags, strict=True):
                scope.define(param, new, flag)
            result, result_flags = scope.run(function.body)
            builder.emit_func_output(scope.spread(result, result_flags))
        self.generated[name] = builder.finished(name)

    def callee(self, name: str, mapped: tuple[Flags, ...], size: Dim) -> GlobalVar:
        """Returns the batched function of a function of the module, which is generated once."""
        key = name, mapped, size if isinstance(size, int) else None
        if key not in self._callees:
            unique = self.unique_name(f"{name}_batched")
            self.add(unique, name, mapped, size if isinstance(size, int) else None)
            self._callees[key] = GlobalVar(unique, self.generated[unique].struct_info)
            self._add_rules(unique, name, mapped, size)
        return self._callees[key]

    def _add_rules(self, batched: str, name: str, mapped: tuple[Flags, ...], size: Dim) -> None:
        """Declares the batched rules of a function as those of the batched function."""
        function: Any = self.module[name]
        rules: dict[str, str] = {}
        if TANGENT in function.attrs:
            flags = (*mapped, *[mapped[k] for k in floating_params(function)])
            rules[TANGENT] = self.callee(function.attrs[TANGENT], flags, size).name
        if PULLBACK in function.attrs:
            rule: Any = self.module[function.attrs[PULLBACK]]
            flags = (*mapped, *[True] * (len(rule.params) - len(mapped)))
            callee = self.callee(function.attrs[PULLBACK], flags, size)
            rules[PULLBACK] = self._summed(callee, [mapped[k] for k in floating_params(function)])
        if rules:
            own = self.generated[batched]
            self.generated[batched] = replace(own, attrs={**own.attrs, **rules})

    def _summed(self, pullback: GlobalVar, mapped: Sequence[Flags]) -> str:
        """Returns a pullback that sums the cotangents of parameters without the axis over it."""
        if all(mapped):
            return pullback.name
        function = self.generated[pullback.name]
        copier = Substitution(fresh=True)
        copier.new_dims([param.struct_info for param in function.params])
        params = [copier.bound(param) for param in function.params]
        builder, unique = BlockBuilder(), self.unique_name(pullback.name)
        with builder.function(unique, params, attrs={PRIVATE: True}):
            result = builder.emit(Call(pullback, tuple(params)))
            fields = [builder.emit(result[k]) for k in range(len(mapped))]
            summed = [
                f if flag else builder.emit(apply("sum", f, axis=[0]))
                for f, flag in zip(fields, mapped, strict=True)
            ]
            builder.emit_func_output(Tuple(tuple(summed)))
        self.generated[unique] = builder.finished(unique)
        return unique

    def define(self, name: str, function: Function) -> GlobalVar:
        """Adds a function with an unused name."""
        unique = self.unique_name(name)
        self.generated[unique] = function
        return GlobalVar(unique, function.struct_info)

    def unique_name(self, name: str) -> str:
        """Returns an unused name of a function, and reserves it."""
        unique = numbered_name(name, self.used_names)
        self.used_names.add(unique)
        return unique


def spread(flag: Flags, info: StructInfo) -> Flags:
    """Returns a flag for each tensor: a bool for a tuple holds for all its fields."""
    if isinstance(info, TupleStructInfo):
        flags = flag if isinstance(flag, tuple) else (flag,) * len(info.fields)
        return tuple([spread(f, field) for f, field in zip(flags, info.fields, strict=True)])
    return bool(flag) and isinstance(info, TensorStructInfo)


def batched_info(info: StructInfo, flag: Flags, size: Dim) -> StructInfo:
    """Returns a StructInfo whose mapped tensors have the axis in front."""
    if isinstance(info, TupleStructInfo) and isinstance(flag, tuple):
        fields = [batched_info(i, f, size) for i, f in zip(info.fields, flag, strict=True)]
        return TupleStructInfo(tuple(fields), info.names)
    if flag is not True or not isinstance(info, TensorStructInfo):
        return info
    if not isinstance(info.dims, tuple):
        return with_axis(info, size)
    return TensorStructInfo((size, *info.dims), info.element)
