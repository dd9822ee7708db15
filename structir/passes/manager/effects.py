"""Records calls of functions with side effects, which passes must preserve, and branches."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import attrs
import numpy as np

from structir.analysis.purity import is_pure_call
from structir.errors import StructIRError
from structir.interpret.interpreter import Interpreter, call_kernel
from structir.interpret.kernels import KernelValue
from structir.interpret.scope import Activation
from structir.ir.expr import Call, Expr, ExternFunc, If
from structir.ir.kernel import Kernel
from structir.passes.manager.decisions import DecisionRecord
from structir.passes.manager.kernel_margins import called_kernel, run_with_margins


class TooManyStepsError(StructIRError):
    """A run that was given up."""


@attrs.frozen(eq=False)
class EffectRecorder(Interpreter):
    """An interpreter that records each call with an effect, as the function and the arguments,
    and the outcomes of conditionals and decisions."""

    effects: list[tuple[Any, ...]] = attrs.field(factory=list, init=False)
    branches: set[tuple[int, bool]] = attrs.field(factory=set, init=False)  # by the id of the node
    decisions: DecisionRecord | None = attrs.field(default=None, kw_only=True)
    steps: list[int] = attrs.field(factory=lambda: [0], init=False)  # the evaluated expressions
    most_steps: float = attrs.field(default=float("inf"), init=False)  # then a run fails

    def renewed(self, decisions: DecisionRecord | None = None, most_steps: int = 0) -> Self:
        """Returns an interpreter of the same module without records; both share what they
        memoize. A run of more than `most_steps` expressions raises TooManyStepsError."""
        other = copy(self)
        limit = self.steps[0] + most_steps if most_steps else float("inf")
        object.__setattr__(other, "most_steps", limit)
        object.__setattr__(other, "effects", [])
        object.__setattr__(other, "branches", set())
        object.__setattr__(other, "decisions", decisions)
        return other

    def evaluate(self, expr: Expr, scope: Activation) -> Any:
        self.steps[0] += 1
        if self.steps[0] > self.most_steps:
            raise TooManyStepsError("the run does not end soon")
        if type(expr) is Call and type(expr.op) is ExternFunc and not is_pure_call(expr):
            args = [self.value(arg, scope) for arg in expr.args]
            self.effects.append((expr.op.global_symbol, *args))
        elif type(expr) is If:
            self.branches.add((id(expr), bool(np.any(self.value(expr.cond, scope)))))
        if self.decisions is not None and id(expr) in self.decisions.calls:
            return self._deciding(expr, scope, self.decisions)  # type: ignore[arg-type]
        return Interpreter.evaluate(self, expr, scope)

    def _deciding(self, call: Call, scope: Activation, decisions: DecisionRecord) -> Any:
        """Returns the value of a call whose decisions are recorded."""
        kernel = called_kernel(self.module, call)
        if kernel is None:
            decisions.record(call, [self.value(arg, scope) for arg in call.args])
            return Interpreter.evaluate(self, call, scope)

        def run(kernel: Kernel, values: Sequence[Any], scope: Activation) -> None:
            decisions.record_margins(call, run_with_margins(kernel, values, scope))

        args = tuple([self.value(arg, scope) for arg in call.args])
        return call_kernel(call, KernelValue(kernel, run), args, scope)

    def observed(self, result: Any) -> Any:
        """Returns a result together with the recorded calls, if there are any."""
        return (result, *map(_comparable, self.effects)) if self.effects else result


def _comparable(value: Any) -> Any:
    """Returns a copy in which strings are arrays, which are compared by their elements."""
    if isinstance(value, tuple | list):
        return tuple([_comparable(item) for item in value])
    return np.array(value) if isinstance(value, str | np.ndarray) else value
