"""Functions run on the forms of values: what they would do at these sizes, as steps.

All that sizes and constants decide is decided here, by the interpreter's own machine. What only the
values decide becomes a choice or a loop; what steps cannot do is left to the host, where it comes
to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.backend.compiled_region import CompiledRegion, results_of
from structir.backend.growing import ROWS, Growing, Grown
from structir.backend.growing import joined as joined_growth
from structir.backend.loop_trace import LoopTrace, is_array, is_never, may_grow, require_flag
from structir.backend.program import RegionCall, arranged, rows_added
from structir.backend.steps import (
    GIVEN_UP,
    Append,
    BranchInstruction,
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
from structir.interpret.argument_checks import match
from structir.interpret.extern import is_by_form
from structir.interpret.interpreter import Frame, Interpreter, frame_of
from structir.interpret.kernels import KernelValue
from structir.interpret.scope import Activation, Closure, ScopeChain, Value
from structir.ir import dims
from structir.ir.dims import Sym
from structir.ir.expr import Binding, Call, Expr, ExternFunc, Function, If, MatchCast, SeqExpr
from structir.ir.kernel import Kernel
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo
from structir.ops.loop import LoopSpec

MOST_STEPS = 4096
MOST_INSIDE = 64  # calls within each other


LEFT = object()  # in place of a value that the host must make


class EndlessError(NotPlannedError):
    """There would be too many steps."""


@attrs.frozen(eq=False)
class Whole:
    """A function that is one region, as a value of a program."""

    function: Any
    call: Callable[..., Value]
    loop: Callable[..., Any]

    @property
    def name(self) -> str:
        """What the module calls it."""
        return str(self.function.name)

    def __call__(self, *args: Value) -> Value:
        return self.call(*args)


@attrs.frozen(eq=False)
class PlanTracer(Interpreter):
    """The machine on forms. `blocks` are being written, the last of them now."""

    direct: Mapping[str, Any] = attrs.Factory(dict)
    blocks: list[InstructionBlock] = attrs.Factory(list)
    constants: dict[int, tuple[Any, MemoryCell]] = attrs.Factory(dict)
    written: list[int] = attrs.Factory(lambda: [0, 0])  # steps, and calls that are not done
    growing: list[Growing] = attrs.Factory(list)
    left: dict[str, None] = attrs.Factory(dict)  # why branches are the host's

    # steps

    def step(self, step: Any) -> None:
        """Write one more step."""
        self.written[0] += 1
        if self.written[0] > MOST_STEPS:
            raise EndlessError("too many steps")
        self.blocks[-1].steps.append(step)

    def new(self, shape: Sequence[int], dtype: Any) -> Slot:
        """A value that is made here."""
        made = Slot(MemoryCell(prod(shape) * dtype.itemsize), shape, dtype)
        self.blocks[-1].fresh.add(made.cell)
        return made

    def slot(self, value: Value) -> Slot:
        """A value as one that lies in memory."""
        if isinstance(value, Slot):
            return value
        if not isinstance(value, np.ndarray | np.generic | bool | int | float):
            raise NotPlannedError("a value that is no array")
        array = np.asarray(value)
        if id(array) not in self.constants:
            self.constants[id(array)] = array, constant(array)
        return Slot(self.constants[id(array)][1], array.shape, array.dtype)

    @contextmanager
    def inside(self) -> Iterator[InstructionBlock]:
        """Steps go to a block of their own meanwhile."""
        block, calls = InstructionBlock(), self.written[1]
        self.blocks.append(block)
        try:
            yield block
        finally:
            self.blocks.pop()
            self.written[1] = calls

    # values

    def evaluate(self, expr: Expr, scope: Activation) -> Value | Frame:
        """The value of an expression, or its form. What steps cannot do is told with its place."""
        try:
            return self._evaluated(expr, scope)
        except NotPlannedError as error:
            error.span = error.span or expr.span
            raise

    def _evaluated(self, expr: Expr, scope: Activation) -> Value | Frame:
        match expr:
            case RegionCall():
                values = [scope.value(v) for v in expr.inputs]
                return arranged(expr.results, self.region(expr.region, values, scope.sizes))
            case If():
                test = self.value(expr.cond, scope)
                if isinstance(test, Slot):
                    return self.choice(test, expr, scope)
            case Call(Op()):
                found = self._with_rows(expr, scope)
                if found is not None:
                    return found
                self._may_call(expr, [self.value(a, scope) for a in expr.args])
            case Call(ExternFunc(name)):
                if not is_by_form(name):
                    raise NotPlannedError(f"{name} looks into its arguments")
        return super().evaluate(expr, scope)

    def _with_rows(self, call: Call, scope: Activation) -> Value:
        """A value that grows, with the rows that a call adds to it; None where it does not."""
        added = rows_added(call)
        found = None if added is None else self.value(added[0], scope)
        if added is None or not isinstance(found, Grown):
            return None
        for rows in added[1]:
            found = self.append(found, self.value(rows, scope))
        return found

    def append(self, value: Grown, item: Value) -> Grown:
        """A value that grows with one thing more."""
        growing, one = value.growing, self.slot(item)
        if value.version != growing.version or value.kind != growing.kind:
            raise NotPlannedError("a value that is no longer there")
        if not growing.fits(one.shape[growing.kind == ROWS :], one.dtype):
            raise NotPlannedError("elements of different forms")
        self.step(Append(growing.cell, one.cell, growing.filled))
        growing.change()
        return growing.value

    def _bind(self, binding: Binding, value: Value, scope: Activation) -> None:
        """A binding. Of what grows a cast can tell all but how many there are, if it is new."""
        info = binding.struct_info if isinstance(binding, MatchCast) else None
        if isinstance(value, Grown) and isinstance(info, TensorStructInfo):
            sizes = info.dims if isinstance(info.dims, tuple) else ()
            if not sizes or dims.as_sym(sizes[0]) in (None, *scope.sizes):
                raise NotPlannedError("a size that only running tells")
            element = Slot(MemoryCell(0), value.shape[1:], value.dtype)
            match([(TensorStructInfo(sizes[1:], info.dtype), element, "")], scope)
            scope.values[binding.var] = value
        else:
            super()._bind(binding, value, scope)

    def _may_call(self, call: Call, args: Sequence[Value]) -> None:
        """An op that is not in a region is run now, if it is told all; loops look into nothing."""
        definition: Any = call.op.definition  # type: ignore[attr-defined]
        known = not any(isinstance(leaf, Slot) for arg in args for leaf in leaves(arg))
        if not (definition.pure and (known or "loop" in definition.hooks)):
            raise NotPlannedError(f"{definition.name} has no kernel for what it is given")

    def region(
        self, region: CompiledRegion, values: Sequence[Value], sizes: Mapping[Sym, int]
    ) -> list[Value]:
        """The results of a region: known if all that it is given is."""
        if not any(isinstance(v, Slot) for v in values):
            return region([np.asarray(v) for v in values], sizes)
        slots = [self.slot(v) for v in values]
        for slot, (dtype, _) in zip(slots, region.forms, strict=True):
            if slot.dtype.name != dtype.name:
                raise NotPlannedError("a region that is given another dtype")
        key: Any = tuple([s.shape for s in slots])
        if region.free_symbols:
            key = (key, tuple([sizes[s] for s in region.free_symbols]))
        bound = region.bound(key) or region.bind(key, slots, sizes)
        owned = [self.new(shape, dtype) for shape, dtype in bound.owned_forms]
        self.step(RunInstruction(bound, tuple([s.cell for s in (*slots, *owned)])))
        return owned if bound.is_plain else results_of(bound, values, owned)

    # calls

    def entered(self, closure: Closure, args: tuple[Value, ...]) -> Frame:
        """The frame of a call, of which there are not too many within each other."""
        self.written[1] += 1
        if self.written[1] > MOST_INSIDE:
            raise EndlessError("too many calls within each other")
        frame = super().entered(closure, args)
        checked = frame.finish

        def finish(value: Value) -> Value:
            self.written[1] -= 1
            return value if checked is None else checked(value)

        frame.finish = finish
        return frame

    def closure(self, function: Function, outer: Activation | None, name: str) -> Closure:
        """A function as a value, which a loop can look into."""
        return attrs.evolve(super().closure(function, outer, name), loop=self.loop)

    def global_function(self, name: str) -> Any:
        """A function of the module as a value."""
        found = self.direct.get(name)
        return super().global_function(name) if found is None else self.whole(found)

    def whole(self, function: Any) -> Whole:
        """A function that is one region as a value."""
        return Whole(function, lambda *args: self._called(function, args), self.loop)

    def _called(self, function: Any, args: tuple[Value, ...]) -> Value:
        scope = Activation({}, {})
        stated = [(p.struct_info, "") for p in function.params]
        match([(i, v, where) for (i, where), v in zip(stated, args, strict=True)], scope)
        results = self.region(function.region, args, scope.sizes)
        value = arranged(function.stored.shape, results)
        match([(function.stored.result, value, "")], scope)
        return value

    def kernel(self, kernel: Kernel) -> KernelValue:
        """A kernel that is called from the host is left to it."""
        raise NotPlannedError(f"{kernel.name} is called by the host")

    # choices

    def choice(self, test: Slot, expr: If, scope: Activation) -> Value:
        """Both branches, and the value that either of them gives."""
        require_flag(test)
        before = self._versions()
        then, one = self.branch(expr.true_branch, scope)
        after = self._versions()
        for growing, version in before.items():
            growing.version = version
        other, two = self.branch(expr.false_branch, scope)
        if one is LEFT and two is LEFT:
            raise NotPlannedError("neither branch can be steps")
        for growing, version in self._versions().items():
            ends = (one, after[growing]), (two, version)
            growing.chosen(*[None if found is LEFT else end for found, end in ends])
        value = self.joined(then, one, other, two)
        self.step(BranchInstruction(test.cell, then, other))
        return value

    def _versions(self) -> dict[Growing, int]:
        return {growing: growing.version for growing in self.growing}

    def branch(self, seq: SeqExpr, scope: Activation) -> tuple[InstructionBlock, Value]:
        """The steps of a branch, and what it gives; the host's, where steps do not do."""
        inner = Activation(scope.values, ScopeChain({}, scope.sizes))
        with self.inside() as block:
            try:
                return block, self.run(frame_of(seq, inner))
            except EndlessError:
                raise
            except GIVEN_UP as error:
                self.left[reason_of(error)] = None
                return InstructionBlock([Leave()]), LEFT

    def joined(
        self, then: InstructionBlock, one: Value, other: InstructionBlock, two: Value
    ) -> Value:
        """What is known of a value that is made in either of two blocks."""
        if one is two or two is LEFT:
            return one
        if one is LEFT:
            return two
        if isinstance(one, tuple) and isinstance(two, tuple) and len(one) == len(two):
            pairs = zip(one, two, strict=True)
            return tuple([self.joined(then, a, other, b) for a, b in pairs])
        if not is_array(one) and type(one) is type(two) and one == two:
            return one
        if isinstance(one, Grown):
            return joined_growth(one, two)
        left, right = self.slot(one), self.slot(two)
        if left.shape != right.shape or left.dtype != right.dtype:
            raise NotPlannedError("branches that give values of different forms")
        if left.cell.root is right.cell.root:
            return left
        made = self.new(left.shape, left.dtype)
        then.move(made.cell, left.cell)
        other.move(made.cell, right.cell)
        return made

    # loops

    def loop(self, function: Any, steps: LoopSpec) -> tuple[tuple[Value, ...], list[Value]] | None:
        """The carried values after a loop, and its outputs; None where there is no step to make."""
        if is_never(steps.trips) or is_never(steps.going):
            return None
        before, grown = len(self.blocks[-1].steps), len(self.growing)
        growing = may_grow(function, steps)
        if growing:
            try:
                return LoopTrace(self, function, steps, growing).made()
            except EndlessError:
                raise
            except GIVEN_UP:  # what does not grow may do
                del self.blocks[-1].steps[before:], self.growing[grown:]
        return LoopTrace(self, function, steps).made()
