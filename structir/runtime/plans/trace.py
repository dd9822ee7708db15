"""Traces functions with abstract values, at given sizes, into step instructions.

Sizes and constants are evaluated during the trace. A decision that depends on values
becomes a branch or a loop. A construct without instructions falls back to the host at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.interpret.interpreter import Frame, Interpreter, frame_of
from structir.interpret.kernels import KernelValue
from structir.interpret.scope import Activation, Closure, ScopeChain, Value
from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.expr import Binding, Call, Expr, ExternFunc, Function, If, MatchCast, SeqExpr
from structir.ir.kernel import Kernel
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo
from structir.loops.regions.leaves import flatten
from structir.ops.loop import LoopSpec
from structir.runtime.compiled_region import CompiledRegion, results_of
from structir.runtime.host_ops import ENDLESS_CALLS, host_reason, kernel_reason
from structir.runtime.plans.growing import ROWS, Growing, Grown, merge_growing
from structir.runtime.plans.instructions import (
    FALLBACK_ERRORS,
    Append,
    BranchInstruction,
    CopyInstruction,
    InstructionBlock,
    Leave,
    MemoryCell,
    NotPlannedError,
    RunInstruction,
    Slot,
    constant,
    leaves,
    reason_of,
)
from structir.runtime.plans.loop_trace import LoopTrace, is_array, is_never, may_grow, require_flag
from structir.runtime.program import RegionCall, arrange, rows_added

MAX_STEPS = 4096
MAX_CALL_DEPTH = 64  # nested calls


LEFT = object()  # a value that the host must compute


class EndlessError(NotPlannedError):
    """The trace has too many steps."""


class BranchesError(NotPlannedError):
    """Both branches of a conditional run on the host; their reasons have been recorded."""


@attrs.frozen(eq=False)
class RegionFunction:
    """A function that is one region, as a value of a program."""

    function: Any
    call: Callable[..., Value]
    loop: Callable[..., Any]

    @property
    def name(self) -> str:
        """Its name in the module."""
        return str(self.function.name)

    def __call__(self, *args: Value) -> Value:
        return self.call(*args)


@attrs.frozen(eq=False)
class PlanTracer(Interpreter):
    """An interpreter of abstract values. `blocks` are the open instruction blocks, innermost
    last."""

    direct: Mapping[str, Any] = attrs.Factory(dict)
    blocks: list[InstructionBlock] = attrs.Factory(list)
    constants: dict[int, tuple[Any, MemoryCell]] = attrs.Factory(dict)
    written: list[int] = attrs.Factory(
        lambda: [0, 0]
    )  # number of instructions, depth of open calls
    growing: list[Growing] = attrs.Factory(list)
    fallbacks: dict[str, None] = attrs.Factory(dict)  # reasons why branches run on the host

    def step(self, step: Any) -> None:
        """Emits one instruction."""
        self.written[0] += 1
        if self.written[0] > MAX_STEPS:
            raise EndlessError("too many steps")
        self.blocks[-1].steps.append(step)

    def new(self, shape: Sequence[Any], dtype: Any) -> Slot:
        """Returns a new cell for a value."""
        slot = Slot(MemoryCell(prod(shape) * dtype.itemsize), shape, dtype)
        self.blocks[-1].fresh.add(slot.cell)
        return slot

    def slot(self, value: Value) -> Slot:
        """Returns the memory slot of a value."""
        if isinstance(value, Slot):
            return value
        if not isinstance(value, np.ndarray | np.generic | bool | int | float):
            raise NotPlannedError("a value that is not an array")
        array = np.asarray(value)
        if id(array) not in self.constants:
            self.constants[id(array)] = array, constant(array)
        return Slot(self.constants[id(array)][1], array.shape, array.dtype)

    @contextmanager
    def inside(self) -> Iterator[InstructionBlock]:
        """Emits instructions to a separate block in this context."""
        block, calls = InstructionBlock(), self.written[1]
        self.blocks.append(block)
        try:
            yield block
        finally:
            self.blocks.pop()
            self.written[1] = calls

    def evaluate(self, expr: Expr, scope: Activation) -> Value | Frame:
        """Evaluates an expression to a value or an abstract value; errors get its location."""
        try:
            return self._evaluate(expr, scope)
        except NotPlannedError as error:
            error.span = error.span or expr.span
            raise

    def _evaluate(self, expr: Expr, scope: Activation) -> Value | Frame:
        match expr:
            case RegionCall():
                values = [scope.value(v) for v in expr.inputs]
                return arrange(expr.results, self.region(expr.region, values, scope.sizes))
            case If():
                test = self.value(expr.cond, scope)
                if isinstance(test, Slot):
                    return self.conditional(test, expr, scope)
            case Call(Op()):
                result = self._append_rows(expr, scope)
                if result is not None:
                    return result
                self._check_call(expr, [self.value(a, scope) for a in expr.args])
            case Call(ExternFunc()):
                self._check_call(expr, ())
        return super().evaluate(expr, scope)

    def _append_rows(self, call: Call, scope: Activation) -> Value:
        """Returns a growing value with the rows that a call appends; None if it does not grow."""
        added = rows_added(call)
        value = None if added is None else self.value(added[0], scope)
        if added is None or not isinstance(value, Grown):
            return None
        for rows in added[1]:
            value = self.append(value, self.value(rows, scope))
        return value

    def append(self, value: Grown, item: Value) -> Grown:
        """Appends an element to a growing value."""
        growing, element = value.growing, self.slot(item)
        if value.version != growing.version or value.kind != growing.kind:
            raise NotPlannedError("a value whose memory has been reused")
        if not growing.fits(element.shape[growing.kind == ROWS :], element.dtype):
            raise NotPlannedError("elements of different shapes or dtypes")
        self.step(Append(growing.cell, element.cell, growing.filled))
        growing.change()
        return growing.value

    def _bind(self, binding: Binding, value: Value, scope: Activation) -> None:
        """Evaluates a binding. A cast can determine the shape and dtype of a growing value,
        except its length."""
        info = binding.struct_info if isinstance(binding, MatchCast) else None
        if isinstance(value, Grown) and isinstance(info, TensorStructInfo):
            sizes = info.dims if isinstance(info.dims, tuple) else ()
            if not sizes or dims.as_sym(sizes[0]) in (None, *scope.sizes):
                raise NotPlannedError("a size known only at run time")
            element = Slot(MemoryCell(0), value.shape[1:], value.dtype)
            self.match([(TensorStructInfo(sizes[1:], info.dtype), element, "")], scope)
            scope.values[binding.var] = value
        else:
            super()._bind(binding, value, scope)

    def _check_call(self, call: Call, args: Sequence[Value]) -> None:
        """Raises NotPlannedError unless a call outside any region can run during the trace."""
        is_constant = not any(isinstance(leaf, Slot) for arg in args for leaf in leaves(arg))
        reason = host_reason(call.op, is_constant)
        if reason is not None:
            raise NotPlannedError(reason)

    def region(
        self, region: CompiledRegion, values: Sequence[Value], sizes: Mapping[Sym, int]
    ) -> list[Value]:
        """Returns the results of a region; constants if all inputs are known."""
        if not any(isinstance(v, Slot) for v in values):
            return region([np.asarray(v) for v in values], sizes)
        slots = [self.slot(v) for v in values]
        for slot, (dtype, _) in zip(slots, region.forms, strict=True):
            if slot.dtype.name != dtype.name:
                raise NotPlannedError("a region called with another dtype")
        key: Any = tuple([s.shape for s in slots])
        if region.free_symbols:
            key = (key, tuple([sizes[s] for s in region.free_symbols]))
        bound = region.bound(key) or region.bind(key, slots, sizes)
        for index in bound.plan.overwritten:
            slots[index] = self._copy(slots[index])
        owned = [self.new(shape, dtype) for shape, dtype in bound.owned_forms]
        self.step(RunInstruction(bound, tuple([s.cell for s in (*slots, *owned)])))
        return owned if bound.is_plain else results_of(bound, slots, owned)

    def _copy(self, slot: Slot) -> Slot:
        """Emits a copy of a value."""
        copy = self.new(slot.shape, slot.dtype)
        self.step(CopyInstruction(copy.cell, slot.cell))
        return copy

    def entered(self, closure: Closure, args: tuple[Value, ...]) -> Frame:
        """Returns the activation of a call, up to a maximum depth."""
        self.written[1] += 1
        if self.written[1] > MAX_CALL_DEPTH:
            raise EndlessError(ENDLESS_CALLS)
        frame = super().entered(closure, args)
        checked = frame.finish

        def finish(value: Value) -> Value:
            self.written[1] -= 1
            return value if checked is None else checked(value)

        frame.finish = finish
        return frame

    def closure(self, function: Function, outer: Activation | None, name: str) -> Closure:
        """Returns a function as a value that a loop can trace."""
        return attrs.evolve(super().closure(function, outer, name), loop=self.loop)

    def global_function(self, name: str) -> Any:
        """Returns a function of the module as a value."""
        compiled = self.direct.get(name)
        return super().global_function(name) if compiled is None else self.region_function(compiled)

    def region_function(self, function: Any) -> RegionFunction:
        """Returns a function that is one region as a value."""
        return RegionFunction(function, lambda *args: self._call(function, args), self.loop)

    def _call(self, function: Any, args: tuple[Value, ...]) -> Value:
        scope = Activation({}, {})
        declared = [(p.struct_info, "") for p in function.params]
        self.match([(i, v, where) for (i, where), v in zip(declared, args, strict=True)], scope)
        results = self.region(function.region, flatten(args), scope.sizes)
        value = arrange(function.stored.shape, results)
        self.match([(function.stored.result, value, "")], scope)
        return value

    def kernel(self, kernel: Kernel) -> KernelValue:
        """Raises NotPlannedError: a kernel called from the host runs there."""
        raise NotPlannedError(kernel_reason(kernel.name))

    def conditional(self, test: Slot, expr: If, scope: Activation) -> Value:
        """Traces both branches, and merges their values."""
        require_flag(test)
        if test.shape != ():
            raise NotPlannedError("a condition of another rank than 0")
        before = self._versions()
        then, then_value = self.branch(expr.true_branch, scope)
        after = self._versions()
        for growing, version in before.items():
            growing.version = version
        otherwise, else_value = self.branch(expr.false_branch, scope)
        if then_value is LEFT and else_value is LEFT:
            raise BranchesError("neither branch has instructions")
        for growing, version in self._versions().items():
            ends = (then_value, after[growing]), (else_value, version)
            growing.merge_versions(*[None if value is LEFT else end for value, end in ends])
        result = self.merge(then, then_value, otherwise, else_value)
        self.step(BranchInstruction(test.cell, then, otherwise))
        return result

    def _versions(self) -> dict[Growing, int]:
        return {growing: growing.version for growing in self.growing}

    def branch(self, seq: SeqExpr, scope: Activation) -> tuple[InstructionBlock, Value]:
        """Traces a branch, and its value; it falls back to the host if it has no instructions."""
        inner = Activation(scope.values, ScopeChain({}, scope.sizes))
        with self.inside() as block:
            try:
                return block, self.run(frame_of(seq, inner))
            except EndlessError:
                raise
            except FALLBACK_ERRORS as error:
                self.record_fallback(error)
                return InstructionBlock([Leave()]), LEFT

    def record_fallback(self, error: Exception) -> None:
        """Records why a part of the program runs on the host."""
        if not isinstance(error, BranchesError):
            self.fallbacks[reason_of(error)] = None

    def merge(
        self,
        then: InstructionBlock,
        then_value: Value,
        otherwise: InstructionBlock,
        else_value: Value,
    ) -> Value:
        """Merges the values of two blocks."""
        if then_value is else_value or else_value is LEFT:
            return then_value
        if then_value is LEFT:
            return else_value
        if (
            isinstance(then_value, tuple)
            and isinstance(else_value, tuple)
            and len(then_value) == len(else_value)
        ):
            pairs = zip(then_value, else_value, strict=True)
            return tuple([self.merge(then, a, otherwise, b) for a, b in pairs])
        if (
            not is_array(then_value)
            and type(then_value) is type(else_value)
            and then_value == else_value
        ):
            return then_value
        if isinstance(then_value, Grown):
            return merge_growing(then_value, else_value)
        then_slot, else_slot = self.slot(then_value), self.slot(else_value)
        if then_slot.shape != else_slot.shape or then_slot.dtype != else_slot.dtype:
            return self.merge_forms(then, then_slot, otherwise, else_slot)
        if then_slot.cell.root is else_slot.cell.root:
            return then_slot
        merged = self.new(then_slot.shape, then_slot.dtype)
        then.move(merged.cell, then_slot.cell)
        otherwise.move(merged.cell, else_slot.cell)
        return merged

    def merge_forms(
        self, then: InstructionBlock, then_slot: Slot, otherwise: InstructionBlock, else_slot: Slot
    ) -> Slot:
        """Merges arrays of different shapes or dtypes: only plans for all sizes can."""
        raise NotPlannedError("branches whose values differ in shape or dtype")

    def loop(self, function: Any, steps: LoopSpec) -> tuple[tuple[Value, ...], list[Value]] | None:
        """Returns the carried values after a loop, and its outputs; None without a step."""
        if is_never(steps.trips) or is_never(steps.going):
            return None
        before, grown = len(self.blocks[-1].steps), len(self.growing)
        growing = may_grow(function, steps)
        if growing:
            try:
                return LoopTrace(self, function, steps, growing).trace()
            except EndlessError:
                raise
            except FALLBACK_ERRORS:  # try again without growing values
                del self.blocks[-1].steps[before:], self.growing[grown:]
        return LoopTrace(self, function, steps).trace()
