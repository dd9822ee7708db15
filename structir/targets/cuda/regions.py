"""Regions on a device, and the interpreter that runs the program around them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from structir.analysis.arguments import Defaults, arguments_of
from structir.interpret.argument_checks import match
from structir.interpret.interpreter import Frame, Interpreter, applied
from structir.interpret.scope import Activation
from structir.ir.expr import Call, Expr, Var
from structir.ir.op import Op
from structir.loops.regions.region import LoweredRegion
from structir.runtime.compiled_region import CompiledRegion
from structir.runtime.files.serialise import StoredFunction
from structir.runtime.kernel_sequence import (
    Assumed,
    Boundary,
    KernelSequence,
    boundary_of,
    writer_of,
)
from structir.runtime.plans.plan import MAX_CACHED_PLANS
from structir.runtime.program import RegionCall, arrange
from structir.targets.cuda.arrays import DeviceArray, new_array, on_device, owned
from structir.targets.cuda.device import Device
from structir.targets.cuda.plan import BoundDevicePlan, DevicePlan
from structir.targets.cuda.schedule import scheduled

Value = Any


class DeviceRegion(CompiledRegion):
    """A region with its kernels on a device."""

    def __init__(
        self,
        boundary: Boundary,
        write: Callable[[bool], KernelSequence],
        device: Device,
        tf32: bool = False,
    ) -> None:
        super().__init__(boundary, write)
        self.device, self.tf32 = device, tf32

    def planned(self, recipe: KernelSequence) -> DevicePlan:
        """Returns the plan of a recipe on the device."""
        return DevicePlan(recipe, self.device, self.tf32)

    def run(
        self,
        bound: Any,
        arrays: Sequence[DeviceArray],
        out: Any = None,
        stream: int = 0,
        *,
        donated: Collection[int] = (),
    ) -> list[DeviceArray]:
        """Returns the results at bound sizes, in new arrays."""
        for array, (dtype, _) in zip(arrays, self.forms, strict=True):
            if array.dtype is not dtype and array.dtype.name != dtype.name:
                raise TypeError(f"expected dtype {dtype}, found {array.dtype}")
        owned = [new_array(self.device, s, d, stream) for s, d in bound.owned_forms]
        bound.run(arrays, owned, stream)
        return owned if bound.is_plain else _results(bound, arrays, owned)


def device_region(
    region: LoweredRegion, assumed: Assumed | None, device: Device, tf32: bool = False
) -> DeviceRegion:
    """Returns the device region of a region that was just lowered."""
    write = writer_of(region, assumed, partial(scheduled, tf32=tf32))
    return DeviceRegion(boundary_of(region, assumed), write, device, tf32)


def _results(
    bound: BoundDevicePlan, arrays: Sequence[DeviceArray], owned: Sequence[DeviceArray]
) -> list[DeviceArray]:
    """Returns the results where they differ from the buffers that were written."""
    plan = bound.plan
    memory = {**plan.constant_arrays, **dict(zip(plan.owned, owned, strict=True))}
    memory |= dict(zip(plan.inputs, arrays, strict=True))
    shapes = dict(zip(plan.outputs, bound.output_shapes, strict=True))
    roots = [(buffer, memory[buffer.root]) for buffer in plan.results]
    return [a if b.base is None else a.reshape(shapes[b]) for b, a in roots]


class DeviceFunction:
    """A function that is one region."""

    call_options = ("stream",)  # keywords of calls that are not parameters

    def __init__(self, stored: StoredFunction, defaults: Defaults) -> None:
        self.entry = self.public = self
        self.stored, self.defaults = stored, defaults
        self.name, self.params = stored.name, stored.params
        self.region: Any = stored.region
        self._met: dict[Any, Any] = {}  # the shapes of arguments, by everything that is checked

    def __call__(self, /, *args: Value, stream: int = 0, **names: Value) -> Value:
        params = self.params
        args = arguments_of(self.name, params, args, names, self.defaults)
        device = self.region.device
        given = [
            a if type(a) is DeviceArray else on_device(device, p.struct_info, a, stream)
            for p, a in zip(params, args, strict=True)
        ]
        form = tuple([(a.shape, a.dtype) if type(a) is DeviceArray else None for a in given])
        shapes = self._met.get(form)
        bound = None if shapes is None else self.region.bound(shapes)
        if bound is not None:
            return self._run(bound, given, stream)
        value, shapes = self._checked(given, stream)
        if len(self._met) >= MAX_CACHED_PLANS:
            self._met.clear()
        if None not in form:
            self._met[form] = shapes
        return value

    def _checked(self, given: list[Value], stream: int) -> tuple[Value, Any]:
        """Checks arguments of a new form, and returns the call and their shapes."""
        region, scope, params = self.region, Activation({}, {}), self.params
        where = [f"{self.name}: parameter {p.name}" for p in params]
        infos = [p.struct_info for p in params]
        match(zip(infos, given, where, strict=True), scope)
        key = tuple([a.shape for a in given])
        bound = region.bound(key) or region.bind(key, given, scope.sizes)
        value = self._run(bound, given, stream)
        match([(self.stored.result, value, f"{self.name}: result")], scope)
        return value, key

    def _run(self, bound: BoundDevicePlan, given: Sequence[Value], stream: int) -> Value:
        results = self.region.run(bound, given, stream=stream)
        if not bound.is_plain:
            results = owned(
                tuple(results), tuple(given), bound.plan.constant_arrays.values(), stream
            )
        return arrange(self.stored.shape, results)


@attrs.frozen(eq=False)
class DeviceMachine(Interpreter):
    """The interpreter of functions whose regions run on a device."""

    device: Any = None
    direct: Mapping[str, Any] = attrs.Factory(dict)

    def as_argument(self, param: Var, value: Value, function: str) -> Value:
        """Converts an argument of a call: tensors are moved to the device."""
        return on_device(self.device, param.struct_info, value)

    def evaluate(self, expr: Expr, scope: Activation) -> Value | Frame:
        """Evaluates an expression; a region runs as one."""
        if type(expr) is RegionCall:
            pairs = [(v.struct_info, scope.value(v)) for v in expr.inputs]
            arrays = [on_device(self.device, info, value) for info, value in pairs]
            return arrange(expr.results, expr.region(arrays, scope.sizes))
        if type(expr) is Call and isinstance(expr.op, Op):  # a shape, which the host computes
            args = [self.value(arg, scope) for arg in expr.args]
            read = [np.asarray(a) if isinstance(a, DeviceArray) else a for a in args]
            self.check_assumptions(expr.op, expr, scope)
            return applied(expr.op.definition, expr, tuple(read))
        return super().evaluate(expr, scope)

    def global_function(self, name: str) -> Any:
        """Returns a function of the module, called without a frame if it is one region."""
        return self.direct.get(name) or super().global_function(name)
