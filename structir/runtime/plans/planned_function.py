"""Functions with several regions, called through their step plans, which run natively."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from structir.interpret.out_of_memory import within_memory
from structir.interpret.ownership import owned
from structir.interpret.scope import Value
from structir.ir.dtype import numpy_dtype
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.loops.regions.leaves import flatten
from structir.runtime.compiled_interpreter import CompiledInterpreter
from structir.runtime.plans.native_call import native_call
from structir.runtime.plans.results import RESULTS
from structir.runtime.plans.step_plan import LEFT, NativeSpace
from structir.targets.cpu.layouts import TABLE


class PlannedFunction:
    """A function of an interpreter. `entry` runs plans of known sizes, and passes other calls
    to `__call__`."""

    def __init__(self, name: str, interpreter: CompiledInterpreter) -> None:
        self.interpreter = interpreter
        self.closure, self.plans = interpreter.global_function(name), interpreter.plans
        self.function = self.closure.function
        self.entry: Callable[..., Value] = self.__call__
        self.spaces: list[NativeSpace] = []
        result = self.function.ret_struct_info
        params = [_tree(p.struct_info) for p in self.function.params]
        inputs, results = _forms(params), _forms([_tree(result)])
        self.native = None
        if inputs and results:
            self.native = native_call(
                name, inputs, results, _tree(result), self.__call__, arguments=params
            )
        if self.native is not None:
            self.native.table[TABLE.out_name] = 0  # `out` is not supported: results are always new
            self.entry = self.native.function

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        record = None if names else self.plans.sized_plan(self.function, args)
        if record is not None:
            sizes = [*chain.from_iterable([a.shape for a in args])]
            with within_memory(self.closure.name):
                value = self.plans.run_sized(record, self.closure, args, sizes)
                if self.native is not None:
                    plan, count = record.plan if record.is_usable else None, len(sizes)
                    space = plan and plan.native_space(0 if record.is_only else count)
                    self.native.set_sized(space)
                if value is not LEFT:
                    return value
                value = self.interpreter.run(self.interpreter.entered(self.closure, args))
        else:
            value = self.closure(*args, **names)
        value = owned(value, (*args, *names.values()), RESULTS.copy)
        spaces = [plan.space_of_calls for plan in self.plans.of(self.function)]
        native_spaces = [space for space in spaces if space is not None]
        if self.native is not None and native_spaces != self.spaces:
            self.native.set_spaces(native_spaces)
            self.spaces = native_spaces
        return value


def _tree(info: StructInfo | None) -> Any:
    """Returns the StructInfos of the fields of tuples, nested like them."""
    return tuple(map(_tree, info.fields)) if isinstance(info, TupleStructInfo) else info


def _forms(infos: Sequence[Any]) -> list[tuple[Any, int]] | None:
    """Returns the dtypes and ranks of tensors in nested tuples; None if a value is not a tensor."""
    forms = []
    for info in flatten(infos):
        if not isinstance(info, TensorStructInfo) or info.dtype is None or info.ndim is None:
            return None
        forms.append((numpy_dtype(info.dtype), info.ndim))
    return forms
