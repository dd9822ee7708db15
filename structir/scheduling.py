"""Schedules of programs and kernels: handles on kernels, with one method for each primitive."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from structir.analysis.variables import walk
from structir.errors import Diagnostic
from structir.ir.expr import Function, GlobalVar, VarBinding
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule, as_module
from structir.loops.loop_tree import loop_tree, prepared
from structir.loops.primitives import find_primitive, primitive_names
from structir.loops.refusal import ScheduleError
from structir.passes import find_pass


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
        if isinstance(program, Kernel):
            self._module = IRModule({program.name: program})
            self._functions: list[Any] = []
        else:
            whole = as_module(program, "structir.schedule")
            self._functions = [f for f in whole.functions.values() if isinstance(f, Function)]
            if self._functions and not isinstance(whole.functions.get(function), Function):
                raise _unknown("function", function, _names(whole, Function))
            self._module = find_pass("lower")(whole) if self._functions else whole
            self._functions = [self._module.functions[function]] if self._functions else []
        kernels = {n: f for n, f in self._module.functions.items() if isinstance(f, Kernel)}
        self._handles = {name: KernelHandle(self, prepared(k)) for name, k in kernels.items()}

    def kernel(self, name: str = "") -> KernelHandle:
        """Returns the handle of a kernel, by its name or by that of a value it computes; without a
        name, the only kernel."""
        if not name and len(self._handles) == 1:
            return next(iter(self._handles.values()))
        names = {**self._kernel_names(), **{n: n for n in self._handles}}
        if not isinstance(name, str) or name not in names:
            raise _unknown("kernel or value", name, list(names))
        return self._handles[names[name]]

    __getitem__ = kernel

    def _kernel_names(self) -> dict[str, str]:
        """Returns the names of the kernels that compute values, by the names of the values."""
        names: dict[str, str] = {}
        for function in self._functions:
            for binding in walk(function):
                if isinstance(binding, VarBinding):
                    called = [p for p in walk(binding.value) if isinstance(p, GlobalVar)]
                    kernels = [p.name for p in called if p.name in self._handles]
                    names |= dict.fromkeys([binding.var.name], kernels[0]) if kernels else {}
        return names

    def apply(self) -> Any:
        """Returns the scheduled program: a kernel for a kernel, else a module."""
        if self._lone:
            return self.kernel().node
        kernels = {name: h.node for name, h in self._handles.items() if h.is_changed()}
        return self._module.with_functions({**self._module.functions, **kernels})

    def __str__(self) -> str:
        values: dict[str, list[str]] = {name: [] for name in self._handles}
        for value, name in self._kernel_names().items():
            values[name].append(value)
        lines = [f"{name}: {', '.join(each)}" if each else name for name, each in values.items()]
        return "\n".join(["Schedule", *[f"  {line}" for line in lines]])

    __repr__ = __str__

    def _ipython_key_completions_(self) -> list[str]:
        return [*self._handles, *self._kernel_names()]


class KernelHandle:
    """A kernel under a schedule. Each primitive is a method, which changes the kernel and returns
    the handle; `handle["i"]` is a loop of it."""

    def __init__(self, owner: Schedule, node: Kernel) -> None:
        self._owner, self.node = owner, node
        self._history: list[Kernel] = []

    def __getattr__(self, name: str) -> Callable[..., KernelHandle]:
        if name.startswith("_"):
            raise AttributeError(name)
        primitive = find_primitive(name)

        def apply(*args: Any, **options: Any) -> KernelHandle:
            options.setdefault("exact", self._owner.exact)
            new = primitive(self.node, *args, **options)
            self._history.append(self.node)
            self.node = new
            return self

        apply.__name__, apply.__doc__ = name, primitive.__doc__
        return apply

    def __getitem__(self, loop: str) -> LoopHandle:
        loop_tree(self.node).loop(loop)
        return LoopHandle(self, loop)

    def is_changed(self) -> bool:
        """Whether a primitive was applied."""
        return bool(self._history)

    def undo(self) -> KernelHandle:
        """Takes the last primitive back, if there is one."""
        if self._history:
            self.node = self._history.pop()
        return self

    def loops(self) -> list[str]:
        """Returns the names of the loops, in order."""
        return list(loop_tree(self.node).loops)

    def __str__(self) -> str:
        return self.node.script().rstrip()

    __repr__ = __str__

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *primitive_names()})

    def _ipython_key_completions_(self) -> list[str]:
        return self.loops()


class LoopHandle:
    """A loop of a kernel: `handle["i"].split(64)` is `handle.split("i", 64)`."""

    def __init__(self, kernel: KernelHandle, name: str) -> None:
        self._kernel, self._name = kernel, name

    def __getattr__(self, name: str) -> Callable[..., KernelHandle]:
        apply = getattr(self._kernel, name)
        return lambda *args, **options: apply(self._name, *args, **options)

    def __str__(self) -> str:
        return str(loop_tree(self._kernel.node).loop(self._name))

    __repr__ = __str__

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *primitive_names()})


def _names(module: IRModule, kind: type) -> list[str]:
    return [name for name, value in module.functions.items() if isinstance(value, kind)]


def _unknown(kind: str, name: str, names: list[str]) -> ScheduleError:
    close = difflib.get_close_matches(str(name), names, 1)
    known = ", ".join(f"`{n}`" for n in names) or "none"
    help = f"did you mean `{close[0]}`?" if close else f"the program has these: {known}"
    message = f"structir.schedule: expected the name of a {kind}, found `{name}`"
    return ScheduleError(Diagnostic(message, code="E1115", hint=help))
