"""Compiled regions: functions from arrays to arrays, with one plan per tuple of sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from structir.errors import ShapeMismatchError, StructIRError
from structir.ir import dims
from structir.ir.dim_text import display_name, one_message
from structir.ir.dims import Sym
from structir.ir.dtype import numpy_dtype
from structir.loops.kernel.schedule import scheduled
from structir.loops.program.buffer import Buffer
from structir.loops.program.kernel_text import MissingCodeError
from structir.loops.regions.region import LoweredRegion, SizeCheck
from structir.runtime.kernel_sequence import (
    Assumed,
    Boundary,
    KernelSequence,
    boundary_of,
    writer_of,
)
from structir.runtime.plans.native_call import NativeCall, native_call
from structir.runtime.plans.plan import BoundPlan, BoundPlans, KernelPlan
from structir.runtime.plans.results import RESULTS
from structir.runtime.plans.tensor_forms import ShapeForms
from structir.runtime.plans.workspace import Workspace
from structir.system.locks import cached_property, new_lock

Array = Any


class CompiledRegion:
    """A region with its kernels, called with the arrays of its inputs in order.

    `write` generates the recipe, under the usual equations or without them, at first use.
    """

    def __init__(
        self, boundary: Boundary, write: Callable[[bool], KernelSequence], threads: int = 1
    ) -> None:
        self.boundary, self.threads = boundary, threads
        self.inputs = boundary.inputs
        self._write = write
        self._plans: dict[bool, KernelPlan] = {}
        self._bound = BoundPlans()
        self.forms = _forms(self.inputs)
        self._ranks = [len(b.shape) for b in self.inputs]
        self.free_symbols = boundary.free_symbols
        self._native: NativeCall | None = None
        self.lower: Callable[[], CompiledRegion] | None = None  # lowers the program again
        self._lowered: CompiledRegion | None = None
        self._lock = new_lock()

    def plan(self, under_equations: bool) -> KernelPlan:
        """Returns the plan for the general form, or under the usual equations; memoized."""
        with self._lock:
            if under_equations not in self._plans:
                self._plans[under_equations] = self.planned(self._write(under_equations))
            return self._plans[under_equations]

    def recipe(self, under_equations: bool) -> KernelSequence:
        """Returns the kernels of a form, compiled or not."""
        plan = self._plans.get(under_equations)
        return plan.recipe if plan else self._write(under_equations)

    def planned(self, recipe: KernelSequence) -> KernelPlan:
        """Returns the plan of a recipe, compiled."""
        return KernelPlan(recipe)

    def prepare(self) -> KernelPlan:
        """Compiles the form that will most likely run."""
        return self.plan(bool(self.boundary.equal))

    def plans(self) -> list[KernelPlan]:
        """Returns the plans compiled so far."""
        plans = list(self._plans.values())
        return plans if self._lowered is None else plans + self._lowered.plans()

    def __call__(
        self, arrays: Sequence[Array], sizes: Mapping[Sym, int] | None = None, out: Any = None
    ) -> list[Array]:
        """Returns the arrays of the results; `sizes` are those that no input determines."""
        key: Any = tuple([a.shape for a in arrays])
        if self.free_symbols:
            key = (key, self._free_sizes(sizes or {}))
        bound = self.bound(key)
        if bound is None:
            bound = self.bind(key, arrays, sizes or {})
        return self.run(bound, arrays, out)

    def _free_sizes(self, sizes: Mapping[Sym, int]) -> tuple[int, ...]:
        try:
            return tuple([sizes[s] for s in self.free_symbols])
        except KeyError as missing:
            raise ShapeMismatchError(
                f"cannot infer dim `{missing}`: no argument has an axis of exactly size "
                f"`{missing}`",
                code="E0502",
            ) from None

    def bound(self, key: Any) -> BoundPlan | None:
        """Returns the plan bound to these sizes, if it has been bound before."""
        return self._bound.get(key)

    def run(
        self,
        bound: BoundPlan,
        arrays: Sequence[Array],
        out: Any = None,
        *,
        donated: Collection[int] = (),
    ) -> list[Array]:
        """Runs a bound plan. Inputs that are not dense are copied, and those that the plan
        overwrites, unless they are donated."""
        inputs = [dense(a, d) for a, (d, _) in zip(arrays, self.forms, strict=True)]
        for index in bound.plan.overwritten:
            if inputs[index] is arrays[index] and index not in donated:
                inputs[index] = RESULTS.copy(inputs[index])
        owned = [RESULTS.new(s, d) for s, d in bound.owned_forms] if out is None else out
        if self._native is not None and is_native(bound) and bound.is_short_of_spaces():
            self._add_space(bound, self._native)
        space = bound.workspace()
        space.outside[:-1] = [a.ctypes.data for a in (*inputs, *owned)]
        bound.run(space)
        return owned if bound.is_plain else results_of(bound, inputs, owned)

    def _add_space(self, bound: BoundPlan, native: NativeCall) -> None:
        """Adds a workspace for one more concurrent native call."""
        with self._lock:
            if bound.is_short_of_spaces() and self._bound.has(bound):
                space = Workspace(bound)
                bound.spaces_of_calls.append(space)
                native.add_space(space)

    @cached_property
    def entry(self) -> Callable[..., Any]:
        """The native function of the region, from arrays to a tuple of arrays."""
        shape = tuple(range(len(self.boundary.results)))
        return self.native("region", shape, lambda *arrays: tuple(self(arrays)))

    def native(self, name: str, shape: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that runs natively for bound sizes, and else calls another one; its
        results have the numbers in `shape`, nested tuples."""
        if not self.free_symbols:
            results = _forms(self.boundary.results)
            self._native = native_call(name, self.forms, results, shape, otherwise)
        return self._native.function if self._native else otherwise

    def set_sized(self, space: Any) -> None:
        """Sets the workspace of native calls at sizes without a bound plan, or None."""
        if self._native is not None:
            self._native.set_sized(space)

    def bind(self, key: Any, arrays: Sequence[Array], sizes: Mapping[Sym, int]) -> BoundPlan:
        """Checks the sizes and binds the plan to them.

        A form loaded from a file without machine code is lowered again from the program.
        """
        values = self._valid_sizes([a.shape for a in arrays], sizes)
        if values is None:
            values = self.symbol_sizes(arrays, sizes)
            self._check_sizes(values)
        return self._bind(key, arrays, values)

    def bind_valid(self, shapes: Any, arrays: Sequence[Array]) -> BoundPlan | None:
        """Binds the plan to the sizes of the arrays; None if any check fails."""
        values = self._valid_sizes(shapes, {})
        return None if values is None else self._bind(shapes, arrays, values)

    def _bind(self, key: Any, arrays: Sequence[Array], values: Mapping[Sym, int]) -> BoundPlan:
        try:
            bound = self.plan(self._equations_hold(values)).bound(values, self.threads)
        except MissingCodeError:
            bound = self._bind_lowered_again(arrays, values)
        evicted = self._bound.put(key, bound)
        if self._native is not None:
            if evicted:
                latest = [b for b in self._bound.latest() if is_native(b)]
                self._native.set_spaces([s for b in latest for s in b.spaces_of_calls])
            elif is_native(bound):
                self._native.add_space(bound.spaces_of_calls[0])
        return bound

    def _bind_lowered_again(self, arrays: Sequence[Array], values: Mapping[Sym, int]) -> BoundPlan:
        if self.lower is None:
            raise StructIRError("a kernel loaded from a file has no machine code")
        if self._lowered is None:
            self._lowered = self.lower()
            self._lowered.threads = self.threads
        free_sizes = [values[s] for s in self.free_symbols]
        key = tuple([a.shape for a in arrays])
        return self._lowered.bind(
            key, arrays, dict(zip(self._lowered.free_symbols, free_sizes, strict=True))
        )

    @cached_property
    def _conditions(self) -> ShapeForms:
        """The shapes of the inputs, and both sides of the checks, and the doubtful sizes."""
        checks = self.boundary.checks
        sides = [c.left for c in checks] + [c.right for c in checks]
        return ShapeForms([b.shape for b in self.inputs], [*sides, *self.boundary.doubtful])

    def _valid_sizes(
        self, shapes: Sequence[tuple[int, ...]], sizes: Mapping[Sym, int]
    ) -> dict[Sym, int] | None:
        """Returns the size of every symbol, or None if any check fails."""
        forms, checks = self._conditions, self.boundary.checks
        if [len(shape) for shape in shapes] != self._ranks:
            return None
        if forms.free and not all([s in sizes for s in forms.free]):
            return None
        values = forms.sizes(shapes, sizes)
        further = forms.further(shapes, values)
        if further is None:
            return None
        count = len(checks)
        for check, left, right in zip(checks, further, further[count:], strict=False):
            if not check.holds(left, right):
                return None
        if any([size < 0 for size in further[2 * count :]]):
            return None
        return {**sizes, **values}

    def _check_sizes(self, values: Mapping[Sym, int]) -> None:
        """Raises the error of the first failing check."""
        for check in self.boundary.checks:
            _check(check, values, self.inputs)
        for size in self.boundary.doubtful:
            if dims.evaluate(size, values) < 0:
                raise ShapeMismatchError(
                    f"expected {dims.text(size)} >= 0, found {dims.evaluate(size, values)}"
                )

    def _equations_hold(self, values: Mapping[Sym, int]) -> bool:
        equal = self.boundary.equal
        return bool(equal) and all(values[s] == dims.evaluate(d, values) for s, d in equal.items())

    def symbol_sizes(self, arrays: Sequence[Array], sizes: Mapping[Sym, int]) -> dict[Sym, int]:
        """Returns the size of every symbol, from the shapes of the inputs.

        Raises ShapeMismatchError if a shape differs from the declared one.
        """
        values: dict[Sym, int] = dict(sizes)
        for buffer, array in zip(self.inputs, arrays, strict=True):
            if len(array.shape) != len(buffer.shape):
                raise _mismatch(buffer, f"{len(buffer.shape)} axes", f"shape {array.shape}")
            for dim, size in zip(buffer.shape, array.shape, strict=True):
                symbol = dims.as_sym(dim)
                if symbol is not None:
                    values.setdefault(symbol, size)
        for buffer, array in zip(self.inputs, arrays, strict=True):
            for axis, (dim, size) in enumerate(zip(buffer.shape, array.shape, strict=True)):
                expected = dims.evaluate(dim, values)
                if expected != size:
                    declared = f"{dims.text(dim)} = {expected} on axis {axis}"
                    raise _mismatch(buffer, declared, str(size))
        return values


def lowered_region(
    region: LoweredRegion,
    assumed: Assumed | None = None,
    threads: int = 1,
    exact: bool = False,
    fast: bool = False,
) -> CompiledRegion:
    """Returns a newly lowered region, with a second form under equations that usually hold."""
    write = writer_of(region, assumed, partial(scheduled, exact=exact, fast=fast))
    return CompiledRegion(boundary_of(region, assumed), write, threads)


def _check(check: SizeCheck, values: Mapping[Sym, int], inputs: Sequence[Buffer]) -> None:
    lhs, rhs = dims.evaluate(check.left, values), dims.evaluate(check.right, values)
    if not check.holds(lhs, rhs):
        with one_message():
            raise _violation(check, lhs, rhs, values, inputs)


def _violation(
    check: SizeCheck, lhs: int, rhs: int, values: Mapping[Sym, int], inputs: Sequence[Buffer]
) -> ShapeMismatchError:
    if "{left}" in check.description:
        message = check.description.replace("{left}", str(lhs)).replace("{right}", str(rhs))
        return ShapeMismatchError(message, code="E0721")
    if check.right == 1 and dims.is_comparison(check.left):
        symbols = sorted(dims.syms(check.left), key=lambda symbol: symbol.order)
        texts = [f"{display_name(s)} = {values[s]}{_axis_text(s, inputs)}" for s in symbols]
        sizes = ", ".join(texts)
        message = f"{check.description}: expected {dims.text(check.left)}, found {sizes}"
        return ShapeMismatchError(message, code="E0721")
    left, right = _equation(check.left, lhs), _equation(check.right, rhs)
    sizes = f"1 or {right}, found {left}" if check.loose else f"{left}, found {right}"
    return ShapeMismatchError(f"{check.description}: expected {sizes}", code="E0721")


def _axis_text(symbol: Sym, inputs: Sequence[Buffer]) -> str:
    """Returns the first axis that is a size: ` (axis 0 of x)`; nothing if there is none."""
    for buffer in inputs:
        for axis, size in enumerate(buffer.shape):
            if dims.as_sym(size) is symbol:
                return f" (axis {axis} of {buffer})"
    return ""


def _equation(dim: Any, value: int) -> str:
    """Returns `n = 3` for a symbolic size, `3` for a constant."""
    return f"{dims.text(dim)} = {value}" if dims.syms(dim) else str(value)


def _mismatch(buffer: Buffer, expected: str, actual: str) -> ShapeMismatchError:
    return ShapeMismatchError(f"{buffer}: expected {expected}, found {actual}")


def _forms(buffers: Sequence[Buffer]) -> list[tuple[Any, int]]:
    """Returns the dtype and the rank of the array of each buffer."""
    return [(numpy_dtype(b.dtype), len(b.shape)) for b in buffers]


def is_native(bound: BoundPlan) -> bool:
    """Whether native calls can run a plan."""
    return bound.is_plain and not bound.is_large


def dense(array: Array, dtype: Any) -> Array:
    """Returns a dense array with the same elements; a copy only if needed."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype is dtype:
        return array
    if array.dtype.name != dtype.name:
        raise TypeError(f"expected dtype {dtype}, found {array.dtype}")
    return np.array(array, dtype, order="C", copy=True, ndmin=array.ndim)


def results_of(bound: BoundPlan, arrays: Sequence[Any], owned: Sequence[Any]) -> list[Any]:
    """Returns the results, some of which are not simply the output buffers."""
    plan = bound.plan
    memory = dict(zip(plan.owned, owned, strict=True))
    memory |= dict(zip(plan.inputs, arrays, strict=True))
    shapes = dict(zip(plan.outputs, bound.output_shapes, strict=True))
    results = []
    for buffer in plan.results:
        root = buffer.root
        array = memory.get(root, root.data)
        results.append(array if buffer.base is None else array.reshape(shapes[buffer]))
    return results
