"""Removes the labels of axes from a program."""

from __future__ import annotations

from typing import Any

from structir.analysis.axes import axes_of, tensor
from structir.analysis.substitution import Substitution
from structir.ir.axes import Labelled, size_in
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.ir.node import rebuild
from structir.ir.struct_info import StructInfo, TensorStructInfo


def without_labels(module: IRModule) -> IRModule:
    """Returns the program with the sizes of its labelled axes only; itself if it has no labels."""
    removal = _LabelRemoval()
    functions = {
        name: removal.function(function) if isinstance(function, Function) else function
        for name, function in module.functions.items()
    }
    return module.with_functions(functions)


class _LabelRemoval(Substitution):
    """Rebuilds a program with unlabelled axes."""

    def info(self, info: StructInfo) -> StructInfo:
        if not isinstance(info, TensorStructInfo):
            return rebuild(info, self._part_of_info)
        axes = axes_of(info) or ()
        if not any([type(axis) is Labelled for axis in axes]):
            return info
        return tensor(tuple(map(size_in, axes)), info.element, info.vdevice)

    def _part_of_info(self, value: Any) -> Any:
        return self.info(value) if isinstance(value, StructInfo) else value
