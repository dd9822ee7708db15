"""Executables for a GPU: functions of a module, called with arrays of the host or of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from structir.analysis.arguments import arguments_of, default_values
from structir.analysis.internal_functions import named_or_only_function, only_function
from structir.analysis.kernel_dtypes import kernel_dtype_vars, with_kernels_at_dtypes
from structir.batching.combinators import expanded
from structir.errors import StructIRError
from structir.interpret.scope import Closure
from structir.ir.expr import Function
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.loops.program.kernel_text import KernelText, MissingCodeError
from structir.loops.regions.data_dependent import with_counts
from structir.rewriting.call_inlining import inline_calls
from structir.runtime.compiled_function import callable_of
from structir.runtime.compiled_region import CompiledRegion
from structir.runtime.every_form import EveryForm
from structir.runtime.files.cached_plans import FunctionStore
from structir.runtime.files.serialise import StoredFunction
from structir.runtime.function_forms import form_variables, with_form_variables
from structir.runtime.program import HostProgram, WholeRegion, number_buffers
from structir.runtime.source import source_of
from structir.runtime.tuple_parameters import TupleFunction
from structir.system import progress
from structir.system.locks import cached_property
from structir.targets.cuda.arrays import on_device, owned
from structir.targets.cuda.device import Device
from structir.targets.cuda.host_part import refuse_host_ops
from structir.targets.cuda.plan import DevicePlan
from structir.targets.cuda.portable import device_routine
from structir.targets.cuda.regions import DeviceFunction, DeviceMachine, device_region

archive = lazy_module("structir.targets.cuda.archive")
Value = Any


class DeviceExecutable:
    """A module compiled for a device. `exe["main"](*arrays)` runs a function at any sizes; results
    are arrays on the device.

    A function with row variables is compiled again for each rank that it is called with.
    """

    def __init__(
        self,
        module: IRModule | Callable[[], IRModule],
        device: Device,
        tf32: bool = False,
        store: FunctionStore | None = None,
    ) -> None:
        self._module, self.device, self.tf32 = module, device, tf32
        self.direct: dict[str, DeviceFunction | TupleFunction] = {}
        self.regions: dict[str, list[Any]] = {}
        self.compile_count = 1
        self._functions: dict[str, Callable[..., Value]] = {}
        self._every_form: dict[str, EveryForm] = {}
        with progress.shown("compiling"):
            for function in () if store is None else store.functions():
                self._add_stored(function)
            names = self.module.functions if store is None else store.names
            if any(name not in self.direct for name in names):
                self._compile_the_rest()
                if store is not None:
                    store.keep([function.stored for function in self.direct.values()])

    @property
    def module(self) -> IRModule:
        """The program."""
        if not isinstance(self._module, IRModule):
            self._module = self._module()
        return self._module

    @property
    def function_names(self) -> tuple[str, ...]:
        """The names of all functions."""
        return tuple(self._functions)

    def _add(self, function: StoredFunction) -> None:
        function.region.prepare()
        self.direct[function.name] = callable_of(
            function, partial(self._defaults, function.name), DeviceFunction
        )
        self._functions[function.name] = self.direct[function.name]
        self.regions[function.name] = [function.region]

    def _defaults(self, name: str) -> dict[str, Value]:
        return default_values(self.module.functions[name])

    def _add_stored(self, function: StoredFunction) -> None:
        """Adds a function from a file if the machine code of its kernels is present."""
        with suppress(MissingCodeError):
            function.region.lower = partial(self._lowered_again, function.name)
            self._add(function)

    def _compile_the_rest(self) -> None:
        functions: dict[str, Any] = dict(self.module.functions)
        own = {n: f for n, f in functions.items() if isinstance(f, Function)}
        for name, function in own.items():
            if form_variables(generic := with_form_variables(function)):
                again = partial(self._again, name)
                every_form = EveryForm(name, generic, partial(_any_rank, name), again)
                self._every_form[name] = every_form
            elif name not in self.direct:
                functions[name] = self._compiled(name, function)
        program = self.module.with_functions(functions)
        ranks = {n: partial(self._at_rank, f) for n, f in self._every_form.items()}
        machine = DeviceMachine(program, device=self.device, direct={**self.direct, **ranks})
        self._functions = {n: ranks.get(n) or self._entry(n, machine) for n in own}

    def _entry(self, name: str, machine: DeviceMachine) -> Callable[..., Value]:
        """Returns a function of the interpreter; its results belong to the caller."""
        function = machine.global_function(name)
        return function if name in self.direct else partial(self._called, function)

    def _called(self, function: Closure, /, *args: Value, **names: Value) -> Value:
        params = function.function.params
        defaults = partial(default_values, function.function)
        bound = arguments_of(function.name, params, args, names, defaults)
        pairs = zip(params, bound, strict=True)
        given = tuple([on_device(self.device, p.struct_info, a) for p, a in pairs])
        value = function(*given)
        constants = [array for p in self.plans() for array in p.constant_arrays.values()]
        return owned(value, given, constants)

    def _at_rank(self, function: EveryForm, /, *args: Value, **names: Value) -> Value:
        """Calls a function with row or dtype variables on arrays of the device."""
        params = function.function.params
        bound = arguments_of(function.name, params, args, names, function.defaults)
        pairs = zip(params, bound, strict=True)
        return function(*[on_device(self.device, p.struct_info, a) for p, a in pairs])

    def _again(self, name: str, function: Function) -> DeviceExecutable:
        """Returns the module with another form of one function."""
        self.compile_count += 1
        changed = self.module.with_functions({**self.module.functions, name: function})
        return DeviceExecutable(expanded(with_kernels_at_dtypes(changed)), self.device, self.tf32)

    @cached_property
    def _without_calls(self) -> IRModule:
        """Returns the module with its calls inlined."""
        return expanded(inline_calls(self.module))

    def _host_program(self) -> HostProgram:
        make = partial(device_region, device=self.device, tf32=self.tf32)
        members = self.module.functions.items()
        kernels = {n: k for n, k in members if isinstance(k, Kernel) and not kernel_dtype_vars(k)}
        return HostProgram(kernels, make, device_routine)

    def _whole(self, name: str, program: HostProgram) -> WholeRegion | None:
        """Returns a function as one region, if it is one."""
        return program.whole_with_calls(self.module[name], lambda: self._without_calls[name])

    def _lowered_again(self, name: str) -> CompiledRegion:
        """Lowers the region of a function again, from the program."""
        whole = self._whole(name, self._host_program())
        if whole is None:
            raise StructIRError(f"{name} is stored as one region, and it has several")
        return whole.region

    def _compiled(self, name: str, function: Function) -> Function:
        program = self._host_program()
        whole = self._whole(name, program)
        if whole is not None:
            params, result = function.params, function.ret_struct_info
            shape = number_buffers(whole.result)
            self._add(StoredFunction(name, params, result, shape, whole.region))
            return function
        function = program.function(with_counts(self._without_calls[name]))
        refuse_host_ops(name, function, program.kernels)
        self.regions[name] = program.regions
        for region in program.regions:
            region.prepare()
        return function

    def __getitem__(self, name: str) -> Callable[..., Value]:
        """Returns a function of the module, callable with arrays."""
        if name not in self._functions:
            raise StructIRError(f"the module has no function {name!r}")
        return self._functions[name]

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Calls the only public function of the module."""
        return self[only_function(self.module)](*args, **names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.module)

    def plans(self, name: str | None = None) -> list[DevicePlan]:
        """Returns the plans of a function, or of all functions."""
        names = list(self._functions) if name is None else [name]
        plans = [p for n in names for r in self.regions.get(n, ()) for p in r.plans()]
        ranks = [(n, self._every_form[n].forms.values()) for n in names if n in self._every_form]
        return plans + [p for n, forms in ranks for form in forms if form for p in form.plans(n)]

    @property
    def kernel_count(self) -> int:
        """Returns the number of distinct kernels."""
        return len({known_by(text) for plan in self.plans() for text in plan.texts})

    def source(self, name: str | None = None) -> str:
        """Returns the kernels of a function as readable Python, with the ops that each computes.

        Without a name, the function is `main` or the only public one."""
        name = named_or_only_function(self.module, name, 'exe.source("{name}")')
        return source_of(self.plans(name)) or f"# {name} has no kernels\n"

    def ptx(self, name: str | None = None) -> str:
        """Returns the PTX of a function's kernels, each once; as `source` does without a name."""
        name = named_or_only_function(self.module, name, 'exe.ptx("{name}")')
        kernels = {k.text: k for plan in self.plans(name) for k in plan.kernels}
        texts = [getattr(kernel, "code", kernel).ptx for kernel in kernels.values()]
        return "\n\n".join(texts)

    def save(self, path: Any) -> None:
        """Saves the program and its machine code; `structir.load` restores the executable."""
        archive.save(self, path)

    def __repr__(self) -> str:
        names = ", ".join(self._functions) or "none"
        kernels = "1 kernel" if self.kernel_count == 1 else f"{self.kernel_count} kernels"
        on = self.device.architecture
        return f"<DeviceExecutable: functions {names}; {kernels}; {on}>"


def known_by(text: KernelText) -> tuple[str, ...]:
    """Returns the identity of a kernel."""
    return (text.text, *[buffer.dtype for buffer in text.pointers])


def _any_rank(name: str, *args: Value) -> Value:
    raise StructIRError(f"{name} cannot be compiled for the ranks and dtypes of its arguments")
