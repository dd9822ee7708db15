"""Executables: the compiled functions of a module, called with NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from structir.analysis.arguments import default_values
from structir.analysis.donation import donated_of
from structir.analysis.internal_functions import named_or_only_function, only_function
from structir.analysis.kernel_dtypes import kernel_dtype_vars, with_kernels_at_dtypes
from structir.analysis.variables import walk_values
from structir.errors import StructIRError
from structir.interpret.ownership import donating, owning
from structir.interpret.state import State
from structir.interrupts import collection_paused
from structir.ir.expr import Function, GlobalVar
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.lazy import lazy_module
from structir.loops.program.kernel_text import MissingCodeError
from structir.loops.regions.data_dependent import with_counts
from structir.rewriting.call_inlining import inline_calls
from structir.runtime.compiled_function import CompiledFunction, callable_of
from structir.runtime.compiled_interpreter import CompiledInterpreter
from structir.runtime.compiled_region import CompiledRegion, lowered_region
from structir.runtime.every_form import EveryForm
from structir.runtime.files import archive
from structir.runtime.files.cached_plans import CachedPlans, FunctionStore
from structir.runtime.files.serialise import StoredFunction
from structir.runtime.function_forms import form_variables, with_form_variables
from structir.runtime.host_ops import host_calls
from structir.runtime.plans.plan import KernelPlan, recording
from structir.runtime.plans.planned_function import PlannedFunction
from structir.runtime.profile import Profile, profile_calls
from structir.runtime.program import (
    HostProgram,
    WholeRegion,
    number_buffers,
)
from structir.runtime.source import source_of
from structir.runtime.tables import html_of, table
from structir.runtime.tuple_parameters import TupleFunction
from structir.system import cache as disk
from structir.system import progress
from structir.system.locks import cached_property
from structir.targets.cpu.features import check_host
from structir.targets.cpu.runner import started_entry
from structir.targets.cpu.threads import thread_count

combinators = lazy_module("structir.batching.combinators")
Value = Any


def _without_function(reason: str) -> str:
    """Returns the reason of a fallback without the name of the function."""
    return reason.partition(": ")[2]


def _function_names(module: IRModule) -> list[str]:
    return [name for name, member in module.functions.items() if isinstance(member, Function)]


def _has_one_form(function: Function) -> bool:
    """Whether the ranks and dtypes of all parameters are known, and they are tensors."""
    return all([_is_known_tensor(param.struct_info) for param in function.params])


def _is_known_tensor(info: StructInfo | None) -> bool:
    return isinstance(info, TensorStructInfo) and type(info.dims) is tuple and bool(info.dtype)


def options_text(exact_division: bool, fast_math: bool) -> str:
    """Returns the options of the compiler that plans depend on, for the key of the cache."""
    return f"exact_division={exact_division} fast_math={fast_math}"


class Executable:
    """A compiled module. `exe["main"](*arrays)` calls a function, `exe(*arrays)` the only public
    one, with arguments by position or by name; symbolic sizes may differ at every call.

    A function with row variables or dtype variables is compiled once for each rank and dtype of a
    call.
    """

    def __init__(
        self,
        module: IRModule | Callable[[], IRModule],
        num_threads: int | None = None,
        store: FunctionStore | None = None,
        exact_division: bool = False,
        fast_math: bool = False,
    ) -> None:
        self._module, self.exact_division, self.fast_math = module, exact_division, fast_math
        self.num_threads = thread_count(num_threads)
        self.direct: dict[str, CompiledFunction | TupleFunction] = {}
        self.compile_count = 1
        self._regions: dict[str, list[CompiledRegion]] = {}
        self._every_form: dict[str, EveryForm] = {}
        self._on_host: dict[str, Function] = {}
        self._planned: dict[str, PlannedFunction] = {}
        if store is None and disk.store() is not None:
            store = CachedPlans(self.module, options_text(exact_division, fast_math))
        names = _function_names(self.module) if store is None else store.names
        self.function_names = tuple(names)
        with progress.shown("compiling"), collection_paused():
            for function in () if store is None else store.functions():
                self._add_stored(function)
            if any(name not in self.direct for name in names):
                self._compile_missing(store)

    @property
    def module(self) -> IRModule:
        """The program."""
        if not isinstance(self._module, IRModule):
            self._module = self._module()
        return self._module

    @cached_property
    def _interpreter(self) -> CompiledInterpreter:
        functions = {**self.module.functions, **self._on_host}
        return CompiledInterpreter(self.module.with_functions(functions), self.direct)

    def _add(self, function: StoredFunction) -> None:
        function.region.threads = self.num_threads
        started_entry()
        function.region.prepare()
        self.direct[function.name] = callable_of(
            function, partial(self._defaults, function.name), CompiledFunction
        )
        self._regions[function.name] = [function.region]

    def _defaults(self, name: str) -> dict[str, Value]:
        return default_values(self.module.functions[name])

    def _add_stored(self, function: StoredFunction) -> None:
        """Uses a function loaded from a file, if the machine code of its kernels is available."""
        with suppress(MissingCodeError):
            function.region.lower = partial(self._lower_again, function.name)
            self._add(function)

    def _host_program(self) -> HostProgram:
        members = self.module.functions.items()
        kernels = {
            n: k
            for n, k in members
            if isinstance(k, Kernel) and k.blocks is None and not kernel_dtype_vars(k)
        }
        make = partial(
            lowered_region,
            threads=self.num_threads,
            exact=self.exact_division,
            fast=self.fast_math,
        )
        functions = {n: f for n, f in self.module.functions.items() if isinstance(f, Function)}
        return HostProgram(kernels, make, functions=functions)

    def _lower_again(self, name: str) -> CompiledRegion:
        """Lowers the region of a function again from the program."""
        compiled = self._as_one_region(name, self._host_program())
        if compiled is None:
            raise StructIRError(f"{name} is stored as one region, but has several")
        return compiled.region

    def _compile_missing(self, store: FunctionStore | None) -> None:
        before = len(self.direct)
        functions = {n: f for n, f in self.module.functions.items() if isinstance(f, Function)}
        for name, function in functions.items():
            if name not in self.direct:
                self._compile(name, function, self._host_program())
        self._regions = {name: self._regions[name] for name in functions}
        several = {n: f for n, f in functions.items() if not _has_one_form(f)}
        self._every_form = {
            name: EveryForm(
                name,
                function,
                owning(self._interpreter.global_function(name)),
                partial(self._with_form, name),
            )
            for name, function in zip(
                several, map(with_form_variables, several.values()), strict=True
            )
            if form_variables(function)
        }
        if store is not None and len(self.direct) > before:
            store.keep([function.stored for function in self.direct.values()])

    def _with_form(self, name: str, function: Function) -> Executable:
        """Returns the module with another form of one function."""
        self.compile_count += 1
        changed = self.module.with_functions({**self.module.functions, name: function})
        module = combinators.expanded(with_kernels_at_dtypes(changed))
        return Executable(
            module,
            self.num_threads,
            exact_division=self.exact_division,
            fast_math=self.fast_math,
        )

    @cached_property
    def _without_calls(self) -> IRModule:
        """The module with all calls inlined."""
        inlined: IRModule = combinators.expanded(inline_calls(self.module))
        return inlined

    def _as_one_region(self, name: str, program: HostProgram) -> WholeRegion | None:
        """Returns a function as one region, if it is one."""
        return program.whole_with_calls(self.module[name], lambda: self._without_calls[name])

    def _compile(self, name: str, function: Function, program: HostProgram) -> None:
        compiled = self._as_one_region(name, program)
        if compiled is not None:
            params, result = function.params, function.ret_struct_info
            shape = number_buffers(compiled.result)
            donated = tuple(donated_of(function).items()) if function.attrs else ()
            self._add(StoredFunction(name, params, result, shape, compiled.region, donated))
            return
        self._on_host[name] = program.function(with_counts(function))
        self._regions[name] = program.regions
        for region in program.regions:
            region.prepare()

    def __getitem__(self, name: str) -> Callable[..., Value]:
        """Returns a function of the module, which is called with arrays.

        Raises DiagnosticError if its code is for another CPU, whose instructions this one lacks.
        """
        check_host()
        if name in self.direct and not recording.get():
            return self.direct[name].public
        return donating(name, self.module.functions.get(name), self._on_interpreter(name))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name != "module" and name in self.module.functions:
                message += f'; help: `exe["{name}"]`'
            raise AttributeError(message)

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Calls the only public function of the module."""
        return self[self._only_name](*args, **names)

    @cached_property
    def _only_name(self) -> str:
        return only_function(self.module)

    def _on_interpreter(self, name: str) -> Callable[..., Value]:
        """Returns a function that is not one region."""
        if name in self._every_form:
            return self._every_form[name]
        if recording.get() or name not in self._on_host:
            return owning(self._interpreter.global_function(name))
        if name not in self._planned:
            self._planned[name] = PlannedFunction(name, self._interpreter)
        return self._planned[name].entry

    @cached_property
    def state(self) -> State:
        """The state of the program, such as KV caches: `exe.state["main"](*inputs)` updates it."""
        return self.new_state()

    def new_state(self) -> State:
        """Returns another state with the initial values, independent of others."""
        return State(self.module, self.run_donating)

    def run_donating(self, name: str, donated: Mapping[int, int], args: Sequence[Value]) -> Value:
        """Calls a function with donated arguments: `donated` maps their numbers to results."""
        if name in self.direct and donated and not recording.get():
            return self.direct[name].donating(donated, args)
        return self[name](*args)

    def __iter__(self) -> Any:
        return iter(self.module)

    def plans(self, name: str | None = None) -> list[KernelPlan]:
        """Returns the plans of a function, or of all functions."""
        names = self._regions if name is None else [name]
        plans = [p for n in names for r in self._regions[n] for p in r.plans()]
        for function in names:
            if function in self._every_form:
                forms = self._every_form[function].forms.values()
                plans += [p for form in forms if form is not None for p in form.plans(function)]
        return plans

    def profile(
        self, /, *args: Value, name: str | None = None, repeat: int = 20, **names: Value
    ) -> Profile:
        """Profiles calls of the function `name`, by default `main` or the only public one: print
        the result, or use its `kernels`."""
        name = named_or_only_function(self.module, name, 'exe.profile(..., name="{name}")')
        # a function that is looked up while kernels are recorded runs its plans one by one
        result = profile_calls(lambda: self[name](*args, **names), repeat)
        return attrs.evolve(result, left=self.fallbacks)

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The calls that run on the host instead of a compiled plan, with location and reason.

        Calls without a kernel are listed before the first run. Reasons that depend on sizes or on
        the Python values of arguments are added when they occur."""
        listed = list(self._host_calls)
        for name, function in self._every_form.items():
            forms = [form for form in function.forms.values() if form is not None]
            listed += [reason for form in forms for reason in form.fallbacks]
            listed += [] if forms else self._sampled_host_calls.get(name, [])
        known = {_without_function(reason) for reason in listed}
        outer = self._interpreter.plans.fallbacks if self._on_host else ()
        listed += [reason for reason in outer if _without_function(reason) not in known]
        return tuple(dict.fromkeys(listed))

    @cached_property
    def _host_calls(self) -> list[str]:
        """The calls of functions of one form that run on the host, and of functions of any rank or
        dtype that these call."""
        names = [name for name in self._on_host if name not in self._every_form]
        for name in names:  # it grows
            called = [v.name for v in walk_values(self._on_host[name]) if type(v) is GlobalVar]
            names += [n for n in dict.fromkeys(called) if n in self._on_host and n not in names]
        return host_calls({name: self._on_host[name] for name in names}, self.module)

    @cached_property
    def _sampled_host_calls(self) -> dict[str, list[str]]:
        """For each function of any rank or dtype, the host calls at a sample rank and dtype."""
        return {
            name: self._host_calls_of(name, form)
            for name, function in self._every_form.items()
            if (form := function.sample()) is not None
        }

    def _host_calls_of(self, name: str, function: Function) -> list[str]:
        """Returns the calls that run on the host in a form of a function, without compiling it."""
        module = self.module.with_functions({**self.module.functions, name: function})
        program = self._host_program()
        if program.whole_with_calls(function, lambda: inline_calls(module)[name]) is not None:
            return []
        return host_calls({name: program.function(with_counts(function))}, module)

    def save(self, path: archive.Path) -> None:
        """Writes the program and its machine code; `structir.load` returns the executable."""
        archive.save(self, path)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an executable cannot be pickled: use `exe.save(path)` and `structir.load`")

    @property
    def kernel_count(self) -> int:
        """The number of distinct kernels."""
        return len({k.text for plan in self.plans() for k in plan.kernels})

    def source(self, name: str | None = None) -> str:
        """Returns the generated kernels of a function as Python, with the ops that each computes.

        Without a name, the function is `main` or the only public one."""
        name = named_or_only_function(self.module, name, 'exe.source("{name}")')
        reason = "it runs on the host"
        if name in self._every_form:
            forms = self._every_form[name].described
            reason = f"it is compiled for each {forms} at its first call"
        return source_of(self.plans(name)) or f"# {name} has no kernels: {reason}\n"

    def __repr__(self) -> str:
        names = ", ".join(self._regions) or "none"
        kernels = "1 kernel" if self.kernel_count == 1 else f"{self.kernel_count} kernels"
        return f"<Executable: functions {names}; {kernels}; compile count {self.compile_count}>"

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook displays: the functions and their kernels."""
        rows = []
        for name in self._regions:
            function = self.module[name]
            params = [f"{p.name}: {p.struct_info}" for p in function.params]
            kernels = str(sum(len(plan.kernels) for plan in self.plans(name)))
            rows.append((name, "\n".join(params), str(function.struct_info.ret), kernels))
        return html_of([table(("function", "parameters", "result", "kernels"), rows)])


def compiled(
    module: IRModule,
    num_threads: int | None = None,
    exact_division: bool = False,
    fast_math: bool = False,
) -> Executable:
    """Compiles a module for the CPU; `structir.compile` describes the options."""
    return Executable(module, num_threads, exact_division=exact_division, fast_math=fast_math)
