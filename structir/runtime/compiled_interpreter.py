"""Interprets the bindings around compiled regions; functions and loops run from step plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from structir.interpret.argument_checks import match
from structir.interpret.interpreter import Frame, Interpreter, frame_of
from structir.interpret.kernels import KernelValue
from structir.interpret.scope import Activation, Closure, Value
from structir.ir.dims import Sym
from structir.ir.expr import Call, Expr, Function, GlobalVar
from structir.ir.kernel import Kernel
from structir.runtime.kernel_calls import KernelRunner
from structir.runtime.plans.instructions import InstructionBlock
from structir.runtime.plans.plan import recording
from structir.runtime.plans.plan_cache import StepPlans
from structir.runtime.plans.sized_trace import SizedTracer
from structir.runtime.plans.step_plan import LEFT
from structir.runtime.plans.trace import PlanTracer, RegionFunction
from structir.runtime.program import RegionCall, arrange

MAX_CHECKED_CALLS = 256  # argument shapes memoized as valid


@attrs.frozen(eq=False)
class CompiledInterpreter(Interpreter):
    """Interprets control flow and calls of functions whose regions are compiled."""

    direct: Mapping[str, Any] = attrs.Factory(dict)
    checked: dict[Any, dict[Sym, int]] = attrs.Factory(dict)  # argument checks that passed before
    runner: KernelRunner = attrs.Factory(KernelRunner)
    plans: StepPlans = attrs.field(init=False)

    @plans.default
    def _plans(self) -> StepPlans:
        return StepPlans(
            lambda: PlanTracer(self.module, self.direct, [InstructionBlock()]),
            lambda: SizedTracer(self.module, self.direct, [InstructionBlock()]),
        )

    def closure(self, function: Function, outer: Activation | None, name: str) -> Closure:
        """Returns a function as a value whose calls and loops are planned."""
        value = super().closure(function, outer, name)
        return attrs.evolve(value, call=self._planned, loop=self.plans.loop)

    def _planned(self, closure: Closure, args: tuple[Value, ...]) -> Value:
        """Returns the result of a function, from its plan if there is one."""
        result = LEFT
        if closure.outer is None and len(args) == len(closure.function.params):
            pairs = zip(closure.function.params, args, strict=True)
            args = tuple([self.as_argument(p, a, closure.name or "function") for p, a in pairs])
            result = self.plans.call(closure, args)
        return self.run(self.entered(closure, args)) if result is LEFT else result

    def kernel(self, kernel: Kernel) -> KernelValue:
        """Returns the compiled form of a kernel that the host calls."""
        return KernelValue(kernel, self.runner)

    def evaluate(self, expr: Expr, scope: Activation) -> Value | Frame:
        """Evaluates an expression; a region, or a planned function, runs as a whole."""
        match expr:
            case RegionCall():
                arrays = [np.asarray(scope.value(v)) for v in expr.inputs]
                region = expr.region
                with_sizes = region.free_symbols or recording.get()
                results = region(arrays, scope.sizes) if with_sizes else region.entry(*arrays)
                return arrange(expr.results, results)
            case Call(GlobalVar(name)) if name not in self.direct:
                callee = super().global_function(name)
                if isinstance(callee, Closure):
                    args = tuple([self.value(a, scope) for a in expr.args])
                    result = self.plans.call(callee, args)
                    if result is not LEFT:
                        return result
            case GlobalVar(name) if name in self.direct:
                return RegionFunction(
                    self.direct[name], self.global_function(name), self.plans.loop
                )
        return super().evaluate(expr, scope)

    def entered(self, closure: Closure, args: tuple[Value, ...]) -> Frame:
        """Returns the activation of a call. Each combination of shapes is checked once."""
        function = closure.function
        arrays = closure.outer is None and all([type(a) is np.ndarray for a in args])
        key = (function, tuple([(a.shape, a.dtype) for a in args])) if arrays else None
        sizes = self.checked.get(key)
        if sizes is None:
            frame = super().entered(closure, args)
            if key is not None:
                if len(self.checked) >= MAX_CHECKED_CALLS:
                    self.checked.clear()
                self.checked[key] = dict(frame.scope.sizes)
            return frame
        scope = Activation(dict(zip(function.params, args, strict=True)), dict(sizes))
        result_info, where = function.ret_struct_info, f"{closure.name}: result"

        def finish(value: Value) -> Value:
            match([(result_info, value, where)], scope)
            return value

        return frame_of(function.body, scope, finish)

    def global_function(self, name: str) -> Any:
        """Returns a function of the module; one that is a single region needs no activation."""
        compiled = self.direct.get(name)
        if compiled is None:
            return super().global_function(name)
        return compiled if recording.get() else compiled.entry
