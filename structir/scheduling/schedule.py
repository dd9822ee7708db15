"""Schedules of programs and kernels: handles on kernels, with one method for each primitive."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from structir.analysis.variables import walk
from structir.errors import Diagnostic
from structir.ir.expr import Binding, Function
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule, as_module, numbered_name
from structir.lazy import lazy_module
from structir.loops.handle import KernelHandle, Recipe, TargetInfo
from structir.loops.handle import recipe as as_recipe
from structir.loops.recipes import RECIPES, find_recipe
from structir.loops.schedule.refusal import ScheduleError, UnknownPrimitiveError
from structir.scheduling.dataflow import call_values, called_kernel, explain, kernel_values, ops_of
from structir.scheduling.explanation import FusionExplanation
from structir.scheduling.fusing import fuse_calls, fuse_loops, located
from structir.scheduling.timing import measure

if TYPE_CHECKING:
    from structir.runtime.profile import Profile

lowering = lazy_module("structir.runtime.module_lowering")
fusion_log = lazy_module("structir.loops.fusion.log")


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
        self._fusions: list[str] = []  # as text, with the steps of kernels before them
        self._given: dict[str, int] = {}  # how many steps of each kernel that text covers
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
            self._function = function
        kernels = {n: f for n, f in self._module.functions.items() if isinstance(f, Kernel)}
        self._handles = {name: ScheduledKernel(k, self.exact) for name, k in kernels.items()}

    def kernel(self, name: str = "") -> ScheduledKernel:
        """Returns the handle of a kernel, by its name or by that of a value it computes; without a
        name, the only kernel."""
        if not name and len(self._handles) == 1:
            return next(iter(self._handles.values()))
        names = {**self._kernel_names(), **{n: n for n in self._handles}}
        if name == "":
            raise _unnamed([*self._handles])
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

    def fuse(self, first: str, second: str, *, loops: int = 1) -> ScheduledKernel:
        """Fuses two kernels, by their names or those of values, and returns the new kernel.

        Values of the first kernel that only the second one reads become local arrays. `loops` is
        the number of nested loops to fuse; with 0, the loops of both kernels remain. Refused if
        another op between them needs the first kernel, or if their loops cannot be fused.
        """
        ends = [self._call(name) for name in (first, second)]
        before = self._steps_of([kernel.name for _, kernel, _ in ends])
        (function,) = self._functions
        name = self._unused(f"{ends[0][1].name}_{ends[1][1].name}")
        fused = fuse_calls(function, ends, name)
        handle = ScheduledKernel(fused.kernel, self.exact)
        try:
            fuse_loops(handle, fused.first, loops)
        except ScheduleError as error:
            raise located(error, ends) from None
        self._functions = [fused.function]
        self._log.request(name, [kernel.name for _, kernel, _ in ends])
        option = f", loops={loops}" if loops != 1 else ""
        self._fusions += [*before, f"fuse({first}, {second}{option})"]
        self._given[name] = len(handle.steps)
        called = kernel_values(self._functions, [*self._handles, name])
        gone = {kernel.name for _, kernel, _ in ends if not called[kernel.name]}
        self._handles = {n: h for n, h in self._handles.items() if n not in gone} | {name: handle}
        functions = {n: f for n, f in self._module.functions.items() if n not in gone}
        functions |= {name: fused.kernel, self._function: fused.function}
        self._module = self._module.with_functions(functions)
        return handle

    def _call(self, name: str) -> tuple[Binding, Kernel, str]:
        """Returns the only call of a kernel, or the call that computes a value: its binding, its
        kernel, and its ops."""
        handle = self.kernel(name)
        kernel = handle.node.name
        calls = [
            each
            for function in self._functions
            for each in walk(function)
            if isinstance(each, Binding) and called_kernel(each.value, [kernel])
        ]
        if len(calls) > 1 and name not in self._handles:
            calls = [each for each in calls if name in call_values(self._functions, each)]
        if len(calls) != 1:
            message = f"expected one call of `{name}`, found {len(calls)}"
            hint = "name a value that the kernel computes; a lone kernel has no call"
            raise ScheduleError(Diagnostic(message, None, "fuse", hint=hint, code="E1123"))
        ops = "; ".join(ops_of(self._log, kernel)) or f"`{kernel}`"
        return calls[0], handle.node, ops

    def _unused(self, name: str) -> str:
        return numbered_name(name, {*self._module.functions, *self._handles})

    def explain(self) -> FusionExplanation:
        """Returns why the ops of each kernel were fused, and why kernels that read one another were
        not."""
        return explain(self._functions, self._handles, self._log or fusion_log.FusionLog())

    def time(self, *args: Any, sizes: Mapping[str, int] | None = None, repeat: int = 20) -> Profile:
        """Returns the CPU time of each kernel in one thread, and its share: the median of `repeat`
        calls on these arguments.

        Without arguments, random ones are sampled. `sizes` are those of symbolic dims, 64 if
        omitted. A kernel alone also takes its results as arguments.
        """
        program = self.apply()
        if self._lone:
            module = IRModule({program.name: program})
            return measure(module, program.name, program.params, args, sizes or {}, repeat)
        (function,) = self._functions
        return measure(program, self._function, function.params, args, sizes or {}, repeat)

    def text(self) -> str:
        """Returns the steps of the schedule as text, for the pass `schedule{steps=...}`."""
        return "\n".join([*self._fusions, *self._steps_of(list(self._handles))])

    def _steps_of(self, names: Sequence[str]) -> list[str]:
        """Returns a line for each kernel with new steps."""
        lines = []
        for name in dict.fromkeys(names):
            steps = self._handles[name].steps[self._given.get(name, 0) :]
            lines += [f"{name}.{'.'.join(map(str, steps))}"] if steps else []
        return lines

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


def _unnamed(kernels: list[str]) -> ScheduleError:
    """Returns the error of a request for the only kernel of a program that has several or none."""
    message = f"structir.schedule: expected one kernel, found {len(kernels)}"
    named = ", ".join([f'`s.kernel("{kernel}")`' for kernel in kernels])
    hint = f"name one: {named}" if kernels else "add an op that is compiled to a kernel"
    return ScheduleError(Diagnostic(message, code="E1115", hint=hint))


def _unknown(kind: str, name: str, names: list[str]) -> ScheduleError:
    close = difflib.get_close_matches(str(name), names, 1)
    known = ", ".join(f"`{n}`" for n in names) or "none"
    help = f"did you mean `{close[0]}`?" if close else f"the program has these: {known}"
    message = f"structir.schedule: expected the name of a {kind}, found `{name}`"
    return ScheduleError(Diagnostic(message, code="E1115", hint=help))
