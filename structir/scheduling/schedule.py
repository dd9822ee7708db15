"""Schedules of programs and kernels: handles on kernels, with one method for each primitive."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from structir.errors import Diagnostic
from structir.ir.expr import Function
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule, as_module
from structir.lazy import lazy_module
from structir.loops.handle import KernelHandle
from structir.loops.recipe import Recipe, TargetInfo
from structir.loops.recipe import recipe as as_recipe
from structir.loops.recipes import RECIPES, find_recipe
from structir.loops.refusal import ScheduleError, UnknownPrimitiveError
from structir.scheduling.dataflow import explain, kernel_values
from structir.scheduling.explanation import FusionExplanation

lowering = lazy_module("structir.backend.lower")
fusion_log = lazy_module("structir.backend.fusion_log")


def schedule(
    program: Kernel | Function | IRModule, function: str = "main", *, exact: bool = False
) -> Schedule:
    """Returns a schedule of a kernel, or of the kernels that the ops of a function become.

    `s.kernel("y").split("i", 64)` applies a primitive to the kernel that computes `y`, and
    `s.apply()` returns the scheduled program. `exact` refuses primitives that change rounding.
    """
    return Schedule(program, function, exact)


class Schedule:
    """The kernels of a program, each with a handle that applies primitives to it."""

    def __init__(
        self, program: Kernel | Function | IRModule, function: str, exact: bool = False
    ) -> None:
        self.exact = exact
        self._lone = isinstance(program, Kernel)
        self._log: Any = None  # of lowering
        if isinstance(program, Kernel):
            self._module = IRModule({program.name: program})
            self._functions: list[Any] = []
        else:
            whole = as_module(program, "structir.schedule")
            self._functions = [f for f in whole.functions.values() if isinstance(f, Function)]
            if self._functions and not isinstance(whole.functions.get(function), Function):
                raise _unknown("function", function, _names(whole, Function))
            self._log = fusion_log.FusionLog()
            self._module = lowering.lowered(whole, self._log) if self._functions else whole
            self._functions = [self._module.functions[function]] if self._functions else []
        kernels = {n: f for n, f in self._module.functions.items() if isinstance(f, Kernel)}
        self._handles = {name: ScheduledKernel(k, self.exact) for name, k in kernels.items()}

    def kernel(self, name: str = "") -> ScheduledKernel:
        """Returns the handle of a kernel, by its name or by that of a value it computes; without a
        name, the only kernel."""
        if not name and len(self._handles) == 1:
            return next(iter(self._handles.values()))
        names = {**self._kernel_names(), **{n: n for n in self._handles}}
        if not isinstance(name, str) or name not in names:
            raise _unknown("kernel or value", name, list(names))
        return self._handles[names[name]]

    __getitem__ = kernel

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        hint = f'a handle applies primitives: `s.kernel("{next(iter(self._handles), "y")}").{name}`'
        message = f"structir.schedule: a schedule has no attribute `{name}`"
        raise UnknownPrimitiveError(Diagnostic(message, code="E1115", hint=hint))

    def _kernel_names(self) -> dict[str, str]:
        """Returns the names of the kernels that compute values, by the names of the values."""
        values = kernel_values(self._functions, self._handles)
        return {value: name for name, each in values.items() for value in each}

    def explain(self) -> FusionExplanation:
        """Returns why the ops of each kernel were fused, and why kernels that read one another were
        not."""
        return explain(self._functions, self._handles, self._log or fusion_log.FusionLog())

    def apply(self) -> Any:
        """Returns the scheduled program: a kernel for a kernel, else a module."""
        if self._lone:
            return self.kernel().node
        kernels = {name: h.node for name, h in self._handles.items() if h.is_changed()}
        return self._module.with_functions({**self._module.functions, **kernels})

    def __str__(self) -> str:
        values = kernel_values(self._functions, self._handles)
        lines = [f"{name}: {', '.join(each)}" if each else name for name, each in values.items()]
        return "\n".join(["Schedule", *[f"  {line}" for line in lines]])

    __repr__ = __str__

    def _ipython_key_completions_(self) -> list[str]:
        return [*self._handles, *self._kernel_names()]


class ScheduledKernel(KernelHandle):
    """A handle on a kernel of a program, with recipes."""

    def recipe(
        self, name: str | Recipe, target: TargetInfo | None = None, **numbers: float
    ) -> ScheduledKernel:
        """Applies a recipe, of this name or the recipe itself; the numbers replace its defaults."""
        (find_recipe(name) if isinstance(name, str) else name)(self, target, **numbers)
        return self


def recipe(function: Callable[..., None]) -> Recipe:
    """Declares a recipe: a function that applies primitives to a handle, as in
    `def tile(kernel, target, size=8): kernel.split("i", size)`.

    `s.kernel("y").recipe("tile", size=16)` applies it. `target` is a TargetInfo.
    """
    return RECIPES.add(function.__name__, as_recipe(function))


def _names(module: IRModule, kind: type) -> list[str]:
    return [name for name, value in module.functions.items() if isinstance(value, kind)]


def _unknown(kind: str, name: str, names: list[str]) -> ScheduleError:
    close = difflib.get_close_matches(str(name), names, 1)
    known = ", ".join(f"`{n}`" for n in names) or "none"
    help = f"did you mean `{close[0]}`?" if close else f"the program has these: {known}"
    message = f"structir.schedule: expected the name of a {kind}, found `{name}`"
    return ScheduleError(Diagnostic(message, code="E1115", hint=help))
