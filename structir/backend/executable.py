"""Executables: the compiled functions of a module, called with NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import combinations
from typing import Any, NoReturn

import attrs
import numpy as np

from structir.analysis.donation import donated_of
from structir.analysis.internal_functions import only_function
from structir.analysis.variables import walk_values
from structir.backend import archive, progress
from structir.backend.cached_plans import CachedPlans, FunctionStore
from structir.backend.compiled_interpreter import CompiledInterpreter
from structir.backend.compiled_region import CompiledRegion, lowered_region
from structir.backend.cpu.features import check_host
from structir.backend.every_rank import EveryRank, rows_of
from structir.backend.host_ops import host_calls
from structir.backend.loops.writer import MissingCodeError
from structir.backend.plan import BoundPlan, KernelPlan, recording
from structir.backend.planned_function import PlannedFunction
from structir.backend.profile import Profile, profiled
from structir.backend.program import (
    HostProgram,
    WholeRegion,
    arranged,
    numbered,
)
from structir.backend.results import RESULTS
from structir.backend.sized_function import SizedFunction
from structir.backend.source import source_of
from structir.backend.step_plan import LEFT
from structir.backend.stored import StoredFunction
from structir.backend.tensor_forms import CallForms, call_forms
from structir.backend.threads import thread_count
from structir.errors import ShapeMismatchError, StructIRError
from structir.interpret.argument_checks import as_value, described, match
from structir.interpret.out_of_memory import within_memory
from structir.interpret.ownership import check_donated, donating, owned, owning
from structir.interpret.scope import Activation, arguments_of, check_call
from structir.interpret.state import State
from structir.ir.collection import collection_paused
from structir.ir.expr import Function, GlobalVar
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.struct_info import TupleStructInfo
from structir.passes.inline_functions import inline_functions

Value = Any


class CompiledFunction:
    """A function that is one region. `entry` runs its kernels for bound sizes, and passes other
    calls to `__call__`."""

    def __init__(self, stored: StoredFunction) -> None:
        self.stored = stored
        self.name, self.params, self.region = stored.name, stored.params, stored.region
        self._shape = stored.shape
        self._has_out = any([param.name == "out" for param in self.params])  # its argument by name
        self._single = isinstance(stored.shape, int)
        flat = self._single or self._shape == tuple(range(len(self._shape)))
        flat = flat and not self._has_out
        fallback: Callable[..., Value] = self.__call__
        self.entry = self.region.native(self.name, self._single, fallback) if flat else fallback
        self._is_native = self.entry is not fallback
        self._sized = SizedFunction(self)

    def __call__(
        self, /, *args: Value, out: Sequence[Value] | None = None, **names: Value
    ) -> Value:
        if out is not None and self._has_out:
            names, out = {**names, "out": out}, None
        if names:
            options = {} if out is None else {"out": out}
            return self.entry(*arguments_of(self.name, self.params, args, names), **options)
        if out is None:
            value = self._call_at_new_sizes(args)
            if value is not LEFT:
                return value
        check_call(self.name, self.params, args)
        with within_memory(self.name):
            return self._call(args, out, {})

    @cached_property
    def public(self) -> Callable[..., Value]:
        """The function as users call it: with donated arguments, if it declares any."""
        donated = dict(self.stored.donated)

        def call(*args: Value, out: Any = None, **names: Value) -> Value:
            if out is not None and self._has_out:
                names, out = {**names, "out": out}, None
            arguments = arguments_of(self.name, self.params, args, names)
            check_donated(self.name, self.params, arguments, donated)
            return self.donating(donated, arguments) if out is None else self(*arguments, out=out)

        return call if donated else self.entry

    def donating(self, donated: Mapping[int, int], args: Sequence[Value]) -> Value:
        """Calls the function with donated arguments: `donated` maps the numbers of arguments to
        those of the results that may take their memory."""
        check_call(self.name, self.params, args)
        with within_memory(self.name):
            return self._call(args, None, donated)

    @cached_property
    def _forms(self) -> CallForms | None:
        """The forms of arguments and results."""
        results = [*_fields(self.stored.result)]
        inputs = [b.shape for b in self.region.inputs]
        return call_forms([p.struct_info for p in self.params], results, inputs)

    def _call_at_new_sizes(self, args: Sequence[Value]) -> Value:
        """Calls the plan for all sizes, or binds one to these for native calls; LEFT if one is
        bound, or if a check fails."""
        if self._forms is None:
            return LEFT
        shapes = self._forms.shapes(args)
        if shapes is None or self.region.bound(shapes) is not None:
            return LEFT
        with within_memory(self.name):
            value = self._sized(shapes, args)
            if value is not LEFT or not self._is_native:
                return value
            bound = self.region.bind_valid(shapes, args)
        if bound is None:
            return LEFT
        sizes = [shape for shape, _ in bound.owned_forms]
        declared = self._forms.are_results(bound.plan.owned_dims, sizes, shapes)
        return self.entry(*args) if declared else LEFT

    def _call(
        self, args: Sequence[Value], out: Sequence[Value] | None, donated: Mapping[int, int]
    ) -> Value:
        params = self.params
        scope = Activation({}, {})
        arguments = [as_value(p.struct_info, a) for p, a in zip(params, args, strict=True)]
        match(
            [
                (p.struct_info, value, f"{self.name}: parameter {p.name}")
                for p, value in zip(params, arguments, strict=True)
            ],
            scope,
        )
        key = tuple([a.shape for a in arguments])
        bound = self.region.bound(key) or self.region.bind(key, arguments, scope.sizes)
        results = self._results(bound, arguments, out, donated)
        value = results[0] if self._single else arranged(self._shape, results)
        match([(self.stored.result, value, f"{self.name}: result")], scope)
        return value

    def _results(
        self,
        bound: BoundPlan,
        arguments: Sequence[Value],
        out: Sequence[Value] | None,
        donated: Mapping[int, int],
    ) -> list[Value]:
        """Returns the results, in the arrays `out` if the caller passes them.

        Arrays that share memory with an argument are filled after the run.
        """
        if out is None:
            return self._new_results(bound, arguments, donated)
        if not isinstance(out, np.ndarray | list | tuple):
            raise self._output_mismatch("an array, or one for each result", described(out))
        outputs = self._check_out(bound, [out] if isinstance(out, np.ndarray) else list(out))
        overlap = any(
            np.may_share_memory(array, argument) for array in outputs for argument in arguments
        )
        if bound.is_plain and not overlap:
            return self.region.run(bound, arguments, outputs)
        for array, result in zip(outputs, self._new_results(bound, arguments, {}), strict=True):
            array[...] = result
        return outputs

    def _new_results(
        self, bound: BoundPlan, arguments: Sequence[Value], donated: Mapping[int, int]
    ) -> list[Value]:
        """Returns the results in arrays that the caller owns: new ones, or donated arguments."""
        results = self.region.run(bound, arguments, donated=donated)
        if bound.is_plain:
            return results
        others = [a for k, a in enumerate(arguments) if k not in donated]
        order = sorted(range(len(results)), key=lambda k: k not in donated.values())
        copies = owned(tuple([results[k] for k in order]), others, RESULTS.copy)
        by_index = dict(zip(order, copies, strict=True))
        return [by_index[k] for k in range(len(results))]

    def _check_out(self, bound: BoundPlan, outputs: list[Value]) -> list[Value]:
        """Returns the caller's arrays for the results; raises ShapeMismatchError if they are not
        suitable."""
        forms = bound.result_forms
        if len(outputs) != len(forms):
            raise ShapeMismatchError(f"{self.name}: out: expected one array for each result")
        for array, (shape, dtype) in zip(outputs, forms, strict=True):
            expected = f"a dense {dtype} array of shape {shape}"
            if not isinstance(array, np.ndarray):
                raise self._output_mismatch(expected, described(array))
            flags = array.flags
            dense = flags.c_contiguous and flags.aligned
            if array.shape != shape or array.dtype != dtype or not dense:
                actual = f"{array.dtype} {array.shape}" + ("" if dense else ", not dense")
                raise self._output_mismatch(expected, actual)
            if not flags.writeable:
                raise self._output_mismatch(expected, "a read-only array")
        for k, other in combinations(range(len(outputs)), 2):
            if np.may_share_memory(outputs[k], outputs[other]):
                expected = "arrays that share no memory"
                raise self._output_mismatch(expected, f"arrays {k} and {other}, which overlap")
        return outputs

    def _output_mismatch(self, expected: str, actual: str) -> ShapeMismatchError:
        return ShapeMismatchError(
            f"{self.name}: out: expected {expected}, found {actual}", code="E0722"
        )


def _fields(info: Any) -> Iterator[Any]:
    """Returns the StructInfo of the leaves of nested tuples."""
    if isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from _fields(field)
    else:
        yield info


def _without_function(reason: str) -> str:
    """Returns the reason of a fallback without the name of the function."""
    return reason.partition(": ")[2]


def options_text(exact_division: bool, fast_math: bool) -> str:
    """Returns the options of the compiler that plans depend on, for the key of the cache."""
    return f"exact_division={exact_division} fast_math={fast_math}"


class Executable:
    """A compiled module. `exe["main"](*arrays)` calls a function, `exe(*arrays)` the only public
    one, with arguments by position or by name; symbolic sizes may differ at every call.

    A function with row variables is compiled once for each rank that it is called with.
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
        self.direct: dict[str, CompiledFunction] = {}
        self.compile_count = 1
        self._regions: dict[str, list[CompiledRegion]] = {}
        self._every_rank: dict[str, EveryRank] = {}
        self._on_host: dict[str, Function] = {}
        self._planned: dict[str, PlannedFunction] = {}
        compiled: FunctionStore = store or CachedPlans(
            self.module, options_text(exact_division, fast_math)
        )
        self.function_names = tuple(compiled.names)
        with progress.shown("compiling"), collection_paused():
            for function in compiled.functions():
                self._add_stored(function)
            if any(name not in self.direct for name in compiled.names):
                self._compile_missing(compiled)

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
        function.region.prepare()
        self.direct[function.name] = CompiledFunction(function)
        self._regions[function.name] = [function.region]

    def _add_stored(self, function: StoredFunction) -> None:
        """Uses a function loaded from a file, if the machine code of its kernels is available."""
        with suppress(MissingCodeError):
            function.region.lower = partial(self._lower_again, function.name)
            self._add(function)

    def _host_program(self) -> HostProgram:
        members = self.module.functions.items()
        kernels = {n: k for n, k in members if isinstance(k, Kernel) and k.blocks is None}
        make = partial(
            lowered_region,
            threads=self.num_threads,
            exact=self.exact_division,
            fast=self.fast_math,
        )
        return HostProgram(kernels, make)

    def _lower_again(self, name: str) -> CompiledRegion:
        """Lowers the region of a function again from the program."""
        compiled = self._as_one_region(name, self._host_program())
        if compiled is None:
            raise StructIRError(f"{name} is stored as one region, but has several")
        return compiled.region

    def _compile_missing(self, store: FunctionStore) -> None:
        before = len(self.direct)
        functions = {n: f for n, f in self.module.functions.items() if isinstance(f, Function)}
        for name, function in functions.items():
            if name not in self.direct:
                self._compile(name, function, self._host_program())
        self._regions = {name: self._regions[name] for name in functions}
        self._every_rank = {
            name: EveryRank(
                name,
                function,
                owning(self._interpreter.global_function(name)),
                partial(self._with_form, name),
            )
            for name, function in functions.items()
            if rows_of(function)
        }
        if len(self.direct) > before:
            store.keep([function.stored for function in self.direct.values()])

    def _with_form(self, name: str, function: Function) -> Executable:
        """Returns the module with another form of one function."""
        self.compile_count += 1
        module = self.module.with_functions({**self.module.functions, name: function})
        return Executable(
            module,
            self.num_threads,
            exact_division=self.exact_division,
            fast_math=self.fast_math,
        )

    @cached_property
    def _without_calls(self) -> IRModule:
        """The module with all calls inlined."""
        return inline_functions(self.module)

    def _as_one_region(self, name: str, program: HostProgram) -> WholeRegion | None:
        """Returns a function as one region, if it is one."""
        return program.whole_with_calls(self.module[name], lambda: self._without_calls[name])

    def _compile(self, name: str, function: Function, program: HostProgram) -> None:
        compiled = self._as_one_region(name, program)
        if compiled is not None:
            params, result = function.params, function.ret_struct_info
            shape = numbered(compiled.result)
            donated = tuple(donated_of(function).items())
            self._add(StoredFunction(name, params, result, shape, compiled.region, donated))
            return
        self._on_host[name] = program.function(function)
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

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Calls the only public function of the module."""
        return self[only_function(self.module)](*args, **names)

    def _on_interpreter(self, name: str) -> Callable[..., Value]:
        """Returns a function that is not one region."""
        if name in self._every_rank:
            return self._every_rank[name]
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
        return State(self.module, self._run_donating)

    def _run_donating(self, name: str, donated: Mapping[int, int], args: Sequence[Value]) -> Value:
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
            if function in self._every_rank:
                forms = self._every_rank[function].forms.values()
                plans += [p for form in forms if form is not None for p in form.plans(function)]
        return plans

    def profile(
        self, /, *args: Value, name: str = "main", repeat: int = 20, **names: Value
    ) -> Profile:
        """Profiles calls: print the result, or use its `kernels`."""
        result = profiled(lambda: self[name](*args, **names), repeat)
        return attrs.evolve(result, left=self.fallbacks)

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The calls that run on the host instead of a compiled plan, with location and reason.

        Calls without a kernel are listed before the first run. Reasons that depend on sizes or on
        the Python values of arguments are added when they occur."""
        listed = list(self._host_calls)
        for name, function in self._every_rank.items():
            forms = [form for form in function.forms.values() if form is not None]
            listed += [reason for form in forms for reason in form.fallbacks]
            listed += [] if forms else self._sampled_host_calls.get(name, [])
        known = {_without_function(reason) for reason in listed}
        outer = self._interpreter.plans.fallbacks if self._on_host else ()
        listed += [reason for reason in outer if _without_function(reason) not in known]
        return tuple(dict.fromkeys(listed))

    @cached_property
    def _host_calls(self) -> list[str]:
        """The calls of functions of known rank that run on the host, and of functions of any rank
        that these call."""
        names = [name for name in self._on_host if name not in self._every_rank]
        for name in names:  # it grows
            called = [v.name for v in walk_values(self._on_host[name]) if type(v) is GlobalVar]
            names += [n for n in dict.fromkeys(called) if n in self._on_host and n not in names]
        return host_calls({name: self._on_host[name] for name in names}, self.module)

    @cached_property
    def _sampled_host_calls(self) -> dict[str, list[str]]:
        """For each function of any rank, the calls that run on the host at a sample rank."""
        return {
            name: self._host_calls_of(name, form)
            for name, function in self._every_rank.items()
            if (form := function.sample()) is not None
        }

    def _host_calls_of(self, name: str, function: Function) -> list[str]:
        """Returns the calls that run on the host in a form of a function, without compiling it."""
        module = self.module.with_functions({**self.module.functions, name: function})
        program = self._host_program()
        if program.whole_with_calls(function, lambda: inline_functions(module)[name]) is not None:
            return []
        return host_calls({name: program.function(function)}, module)

    def save(self, path: archive.Path) -> None:
        """Writes the program and its machine code; `structir.load` returns the executable."""
        archive.save(self, path)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an executable cannot be pickled: use `exe.save(path)` and `structir.load`")

    @property
    def kernel_count(self) -> int:
        """The number of distinct kernels."""
        return len({k.text for plan in self.plans() for k in plan.kernels})

    def source(self, name: str = "main") -> str:
        """Returns the generated kernels of a function as Python, with the ops that each
        computes."""
        if name not in self._regions:
            available = ", ".join(self._regions) or "none"
            message = f"no function `{name}` in module; available: {available}"
            raise StructIRError(message, code="E1002")
        reason = "it runs on the host"
        if name in self._every_rank:
            reason = "it is compiled for each rank at its first call"
        return source_of(self.plans(name)) or f"# {name} has no kernels: {reason}\n"

    def __repr__(self) -> str:
        names = ", ".join(self._regions) or "none"
        kernels = "1 kernel" if self.kernel_count == 1 else f"{self.kernel_count} kernels"
        return f"<Executable: functions {names}; {kernels}; compile count {self.compile_count}>"
