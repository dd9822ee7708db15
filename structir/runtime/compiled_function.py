"""Compiled functions that are one region, and their calls at sizes that occur for the first
time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np

from structir.analysis.arguments import Defaults, arguments_of, check_call
from structir.errors import ShapeMismatchError
from structir.interpret.argument_checks import described, match
from structir.interpret.argument_conversion import argument_value
from structir.interpret.out_of_memory import within_memory
from structir.interpret.ownership import check_donated, owned
from structir.interpret.scope import Activation
from structir.ir.module import IRModule
from structir.ir.struct_info import TupleStructInfo
from structir.loops.regions.leaves import flatten
from structir.runtime.compiled_region import dense
from structir.runtime.files.serialise import StoredFunction
from structir.runtime.plans.instructions import FALLBACK_ERRORS, InstructionBlock
from structir.runtime.plans.plan import MAX_CACHED_PLANS, BoundPlan, recording
from structir.runtime.plans.plan_cache import MAX_ELEMENTS_ALONE, MAX_FALLBACKS, SizedPlaceholders
from structir.runtime.plans.results import RESULTS
from structir.runtime.plans.sized_plan import SizedCallSpace, SizedPlan
from structir.runtime.plans.sized_trace import SizedTracer
from structir.runtime.plans.step_plan import LEFT
from structir.runtime.plans.tensor_forms import CallForms, call_forms
from structir.runtime.program import arrange
from structir.runtime.tuple_parameters import TupleFunction
from structir.system.locks import cached_property

Value = Any


class CompiledFunction:
    """A function that is one region. `entry` runs its kernels for bound sizes, and passes other
    calls to `__call__`."""

    call_options = ("out",)  # keywords of calls that are not parameters

    def __init__(self, stored: StoredFunction, defaults: Defaults) -> None:
        self.stored, self.defaults = stored, defaults
        self.name, self.params, self.region = stored.name, stored.params, stored.region
        self._shape = stored.shape
        self._has_out = any([param.name == "out" for param in self.params])  # its argument by name
        self._single = isinstance(stored.shape, int)
        results = [*range(len(self.region.boundary.results))]
        in_order = results == ([0] if self._single else flatten([stored.shape]))
        fallback: Callable[..., Value] = self.__call__
        self.entry = fallback
        if in_order and not self._has_out:
            self.entry = self.region.native(self.name, stored.shape, fallback)
        self._is_native = self.entry is not fallback
        self._sized = SizedFunction(self)

    def __call__(
        self, /, *args: Value, out: Sequence[Value] | None = None, **names: Value
    ) -> Value:
        if out is not None and self._has_out:
            names, out = {**names, "out": out}, None
        if names or len(args) < len(self.params):
            options = {} if out is None else {"out": out}
            return self.entry(*self._arguments(args, names), **options)
        if out is None:
            value = self._call_at_new_sizes(args)
            if value is not LEFT:
                return value
        check_call(self.name, self.params, args)
        with within_memory(self.name):
            return self._call(args, out, {})

    def set_sized(self, space: SizedCallSpace | None) -> None:
        """Sets the workspace of native calls at sizes that occur for the first time."""
        if self._is_native:
            self.region.set_sized(space)

    @cached_property
    def public(self) -> Callable[..., Value]:
        """The function as users call it: with donated arguments, if it declares any."""
        donated = dict(self.stored.donated)

        def call(*args: Value, out: Any = None, **names: Value) -> Value:
            if out is not None and self._has_out:
                names, out = {**names, "out": out}, None
            arguments = self._arguments(args, names)
            check_donated(self.name, self.params, arguments, donated)
            return self.donating(donated, arguments) if out is None else self(*arguments, out=out)

        return call if donated else self.entry

    def donating(self, donated: Mapping[int, int], args: Sequence[Value]) -> Value:
        """Calls the function with donated arguments: `donated` maps the numbers of arguments to
        those of the results that may take their memory."""
        check_call(self.name, self.params, args)
        with within_memory(self.name):
            return self._call(args, None, donated)

    def _arguments(self, args: Sequence[Value], names: Mapping[str, Value]) -> Sequence[Value]:
        return arguments_of(self.name, self.params, args, names, self.defaults)

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
        arguments = [argument_value(p, a, self.name) for p, a in zip(params, args, strict=True)]
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
        value = results[0] if self._single else arrange(self._shape, results)
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
            expected = f"{len(forms)} arrays, one for each result"
            raise self._output_mismatch("one array" if len(forms) == 1 else expected, len(outputs))
        for array, (shape, dtype) in zip(outputs, forms, strict=True):
            expected = f'a writable `np.empty({shape}, "{dtype}")`'
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

    def _output_mismatch(self, expected: str, actual: object) -> ShapeMismatchError:
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


MIN_SIZES = 2  # sizes that have plans of their own; most programs have few


class SizedFunction:
    """The plan for all sizes of a function, used once for each tuple of sizes: a second call binds
    the kernels to them."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.seen: OrderedDict[Any, None] = OrderedDict()
        self.plan: SizedPlan | None = None
        self.is_usable = True
        self.fallbacks = 0  # successive ones

    def __call__(self, shapes: Any, arrays: Sequence[Any]) -> Value:
        """Returns the result; LEFT if kernels are to be bound to the sizes."""
        if not self.is_usable or shapes in self.seen or recording.get():
            return LEFT
        sizes = [*chain.from_iterable(shapes)]
        if self.plan is not None and self.plan.has_run_natively(sizes):
            return LEFT
        self.seen[shapes] = None
        if len(self.seen) > MAX_CACHED_PLANS:
            self.seen.popitem(last=False)
        if len(self.seen) <= MIN_SIZES or sum([a.size for a in arrays]) > MAX_ELEMENTS_ALONE:
            return LEFT
        if self.plan is None:
            self._trace(arrays)
        return LEFT if self.plan is None else self._run(self.plan, sizes, arrays)

    def _run(self, plan: SizedPlan, sizes: Sequence[int], arrays: Sequence[Any]) -> Value:
        value = plan.run([dense(a, a.dtype) for a in arrays], sizes)
        self.fallbacks = self.fallbacks + 1 if value is LEFT else 0
        self.is_usable = self.fallbacks <= MAX_FALLBACKS
        self.function.set_sized(plan.native_space(len(sizes)) if self.is_usable else None)
        return value

    def _trace(self, arrays: Sequence[Any]) -> None:
        tracer = SizedTracer(IRModule({}), {}, [InstructionBlock()])
        placeholders = SizedPlaceholders(lambda _: (), tracer)
        block = tracer.blocks[-1]
        try:
            arguments = [placeholders.of(array) for array in arrays]
            value = tracer.region_function(self.function)(*arguments)
            self.plan = SizedPlan(block, placeholders.slots, placeholders.symbols, value)
        except FALLBACK_ERRORS:
            self.is_usable = False


def callable_of(
    stored: StoredFunction, defaults: Defaults, make: Callable[[StoredFunction, Defaults], Any]
) -> Any:
    """Returns a stored function as users call it; `make` creates a function of tensors."""
    if any([isinstance(param.struct_info, TupleStructInfo) for param in stored.params]):
        return TupleFunction(stored, defaults, make)
    return make(stored, defaults)
