"""`structir.schedule`: the kernels of a function as handles, which primitives change."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from structir.backend.lower import lowered
from structir.ir.expr import Call, Expr, Function, GlobalVar, TupleGetItem
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.node import Node
from structir.loops.handles import KernelHandle
from structir.loops.refusal import refusal


class Schedule:
    """The kernels of a function, each with its handle.

    A kernel is found by its name, or by the name of the variable that is bound to its result.
    """

    def __init__(self, program: Kernel | IRModule, name: str, exact: bool) -> None:
        self.program, self.name = program, name
        self.handles: dict[str, KernelHandle] = {}
        self._kernel_names: dict[str, str] = {}  # by the variables of their results
        if isinstance(program, Kernel):
            self.handles[program.name] = KernelHandle(program, exact)
            return
        for called, variable in _kernel_calls(program, name):
            kernel = program.functions[called]
            if isinstance(kernel, Kernel) and kernel.blocks is None:
                self.handles.setdefault(called, KernelHandle(kernel, exact))
                self._kernel_names[variable] = called

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels."""
        return list(self.handles)

    def kernel(self, name: str | None = None) -> KernelHandle:
        """Returns the handle of a kernel; without a name, of the only one.

        Raises ScheduleError for an unknown name.
        """
        if name is None and len(self.handles) == 1:
            return next(iter(self.handles.values()))
        handle = self.handles.get(self._kernel_names.get(name or "", name or ""))
        if handle is None:
            names = [*self.handles, *self._kernel_names]
            close = difflib.get_close_matches(name or "", names, 1)
            listed = ", ".join(f"`{n}`" for n in names) or "none"
            help = f"did you mean `{close[0]}`?" if close else f"the kernels are {listed}"
            raise refusal("E1115", f"expected the name of a kernel, found {name!r}", help=help)
        return handle

    def apply(self) -> Kernel | IRModule:
        """Returns the kernel, or the module, with the scheduled kernels."""
        if isinstance(self.program, Kernel):
            return self.handles[self.program.name].kernel
        changed: dict[str, Node] = {n: h.kernel for n, h in self.handles.items() if h.steps}
        return self.program.with_functions({**self.program.functions, **changed})

    def __getitem__(self, name: str) -> KernelHandle:
        return self.kernel(name)

    def _ipython_key_completions_(self) -> list[str]:
        return [*self.handles, *self._kernel_names]

    def __str__(self) -> str:
        return "\n".join(map(str, self.handles.values()))

    def __repr__(self) -> str:
        return f"<schedule of {', '.join(self.handles) or 'no kernels'}>"


def schedule(
    program: Kernel | IRModule | Function, name: str = "main", *, exact: bool = False
) -> Schedule:
    """Returns the kernels of a function of a module, or one kernel, to be scheduled by primitives.

    Ops of the function are lowered to naive kernels, as by `passes.Lower`. With `exact`, primitives
    that may change results by rounding are refused. `apply()` returns the scheduled program.

    Raises ScheduleError if the module has no function of this name.
    """
    if isinstance(program, Kernel):
        return Schedule(program, name, exact)
    module = IRModule({name: program}) if isinstance(program, Function) else program
    if not isinstance(module, IRModule) or name not in module.functions:
        names = ", ".join(getattr(module, "functions", ())) or "none"
        message = f"schedule: expected a function `{name}` of a module, found none"
        raise refusal("E1115", message, help=f"the functions are {names}")
    function = module.functions[name]
    if isinstance(function, Kernel):
        module_of_kernel = Schedule(module, name, exact)
        module_of_kernel.handles[name] = KernelHandle(function, exact)
        return module_of_kernel
    return Schedule(lowered(module), name, exact)


def _kernel_calls(module: IRModule, name: str) -> Iterator[tuple[str, str]]:
    """Yields the names of kernels that a function calls, with those of their results."""
    function = module.functions[name]
    results: dict[Expr, str] = {}
    for binding in function.body.bindings() if isinstance(function, Function) else ():
        value = binding.value
        if isinstance(value, Call) and isinstance(value.op, GlobalVar):
            results[binding.var] = value.op.name
            yield value.op.name, binding.var.name
        elif isinstance(value, TupleGetItem) and value.tuple_value in results:
            yield results[value.tuple_value], binding.var.name
