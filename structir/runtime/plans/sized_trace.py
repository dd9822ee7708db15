"""Traces functions at symbolic sizes, into plans for all sizes.

A shape is a tuple of dims over the sizes of the call. A size that a branch or a loop changes is a
new symbol. Equations that do not follow from others are instructions that end the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np

from structir.interpret.argument_checks import gathered
from structir.interpret.interpreter import Frame
from structir.interpret.row_binding import AxisEquation
from structir.interpret.scope import Activation, Value
from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Binding, Call, Expr, MatchCast, PrimValue
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import StructInfo
from structir.loops.program.kernel_text import MissingCodeError
from structir.ops.loop import LoopSpec
from structir.ops.shapes import tensor_to_shape
from structir.planning import layout
from structir.runtime.compiled_region import CompiledRegion
from structir.runtime.plans.instructions import (
    CopyInstruction,
    InstructionBlock,
    MemoryCell,
    NotPlannedError,
    Slot,
    leaves,
)
from structir.runtime.plans.plan import KernelPlan
from structir.runtime.plans.sized_code import AssignSizes, LoadSizes, Require, SizedAppend, SizedRun
from structir.runtime.plans.sized_loop import SizedLoopTrace, nbytes
from structir.runtime.plans.sized_plan import size_register
from structir.runtime.plans.trace import PlanTracer
from structir.runtime.program import rows_added

BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)


@attrs.frozen(eq=False)
class SizedTracer(PlanTracer):
    """A tracer of abstract values whose shapes are dims. `known` maps symbols to the dims that
    they are equal to in the open blocks."""

    known: dict[Sym, Dim] = attrs.Factory(dict)

    @contextmanager
    def inside(self) -> Iterator[InstructionBlock]:
        """Emits instructions to a separate block, whose equations hold only there."""
        before = dict(self.known)
        try:
            with super().inside() as block:
                yield block
        finally:
            self.known.clear()
            self.known.update(before)

    # ---- equations

    def simplified(self, dim: Dim) -> Dim:
        """Returns a dim under the known equations."""
        return dims.substitute(dim, self.known) if self.known else dim

    def simplified_shape(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """Returns a shape under the known equations."""
        return tuple([self.simplified(d) for d in shape])

    def require(self, condition: Dim, reason: str) -> None:
        """Emits a condition, unless it holds for all sizes."""
        condition = self.simplified(condition)
        if isinstance(condition, int):
            if not condition:
                raise NotPlannedError(reason)
            return
        self.step(Require(condition, reason))

    def require_equal(self, first: Dim, second: Dim, where: str) -> None:
        """Emits an equation, unless it is known."""
        first, second = self.simplified(first), self.simplified(second)
        if first == second:
            return
        self.require(dims.compare("==", first, second), f"{where}: sizes that differ")
        for symbol, value in ((dims.as_sym(first), second), (dims.as_sym(second), first)):
            if symbol is not None and symbol not in dims.syms(value):
                for key, dim in self.known.items():
                    self.known[key] = dims.substitute(dim, {symbol: value})
                self.known[symbol] = value
                return

    def match(self, declared: Iterable[tuple[StructInfo, Value, str]], scope: Activation) -> None:
        """Binds new symbols to the dims of values; requires the other equations."""
        facts = gathered(declared, scope)
        remaining, before = facts.equations, len(facts.equations) + 1
        while len(remaining) < before:
            before = len(remaining)
            remaining = [e for e in remaining if not self._is_solved(e, scope)]
        for var, shape, where in facts.shapes:
            expected = scope.values.get(var)
            if expected is not None:
                if len(expected) != len(shape):
                    raise NotPlannedError("a shape of another rank")
                for pair in zip(expected, shape, strict=True):
                    self.require_equal(*pair, where)

    def _is_solved(self, equation: AxisEquation, scope: Activation) -> bool:
        """Requires an equation of known symbols, or binds its unknown one."""
        declared, where = equation.declared, equation.where
        unbound = [s for s in dims.syms(declared) if s not in scope.sizes]
        if not unbound:
            self.require_equal(scope.size(declared), equation.actual, where)
            return True
        if len(unbound) > 1:
            return False
        symbol, sizes = (
            unbound[0],
            {s: scope.sizes[s] for s in dims.syms(declared) if s in scope.sizes},
        )
        form = dims.linear(dims.substitute(declared, sizes), symbol)
        if form is None or not isinstance(form[0], int) or not form[0]:
            return False
        coefficient, difference = form[0], equation.actual - form[1]
        if coefficient != 1:
            self.require_equal(dims.floormod(difference, coefficient), 0, where)
            difference = dims.floordiv(difference, coefficient)
        self.require(dims.compare(">=", difference, 0), f"{where}: a negative size")
        scope.sizes[symbol] = self.simplified(difference)
        return True

    def check_conditions(self, binding: MatchCast, scope: Activation) -> None:
        """Requires the conditions of `R.require`."""
        for condition in conditions_of(binding):
            self.require(scope.size(condition), "a condition of R.require")

    # ---- values

    def number(self, value: Dim, dtype: Any = INT64) -> Slot:
        """Returns a size as a value: the register of a new symbol."""
        symbol = dims.sym("number")
        (name,) = dims.syms(symbol)
        self.step(AssignSizes((name,), (value,)))
        return Slot(size_register(name), (), dtype)

    def _evaluate(self, expr: Expr, scope: Activation) -> Value | Frame:
        match expr:
            case PrimValue(value) if isinstance(value, Poly):
                size = scope.size(value)
                if isinstance(size, Poly):
                    return self.number(size, BOOL if dims.is_condition(value) else INT64)
            case Call(op, (vector,)) if op is tensor_to_shape.definition.op:
                value = self.value(vector, scope)
                if isinstance(value, Slot):
                    return self._sizes_in(value)
        return super()._evaluate(expr, scope)

    def _sizes_in(self, vector: Slot) -> tuple[Dim, ...]:
        """Returns the elements of a vector as sizes, which are new symbols."""
        (count,) = self.simplified_shape(vector.shape)
        if not isinstance(count, int):
            raise NotPlannedError("a shape of unknown rank")
        sizes = tuple([dims.sym("read") for _ in range(count)])
        symbols = tuple([s for size in sizes for s in dims.syms(size)])
        self.step(LoadSizes(symbols, vector.cell))
        return sizes

    def _append_rows(self, call: Call, scope: Activation) -> Value:
        """Returns a tensor of unknown sizes with the rows that a call appends; None for other
        calls."""
        added = rows_added(call)
        if added is None:
            return None
        parts = [self.slot(self.value(part, scope)) for part in (added[0], *added[1])]
        return self._joined(parts) if parts[0].shape else None

    def _joined(self, parts: Sequence[Slot]) -> Slot:
        """Returns the rows of values of one shape after another."""
        first = parts[0]
        for part in parts[1:]:
            if len(part.shape) != len(first.shape) or part.dtype != first.dtype:
                raise NotPlannedError("rows of another rank or dtype")
            for pair in zip(part.shape[1:], first.shape[1:], strict=True):
                self.require_equal(*pair, "concat")
        rows: Dim = sum([self.simplified(part.shape[0]) for part in parts])
        joined = self.new((rows, *first.shape[1:]), first.dtype)
        (filled,) = dims.syms(dims.sym("filled"))
        self.step(AssignSizes((filled,), (0,)))
        for part in parts:
            self.step(SizedAppend(joined.cell, part.cell, filled, nbytes(part)))
        return joined

    def _bind(self, binding: Binding, value: Value, scope: Activation) -> None:
        if isinstance(binding, MatchCast):
            self.check_conditions(binding, scope)
            self.match([(binding.struct_info, value, f"match_cast of {binding.var.name}")], scope)
            scope.values[binding.var] = value
        else:
            super()._bind(binding, value, scope)

    def _check_call(self, call: Call, args: Sequence[Value]) -> None:
        super()._check_call(call, args)
        definition: Any = getattr(call.op, "definition", None)
        if (
            definition is not None
            and "loop" not in definition.hooks
            and any(isinstance(leaf, Poly) for arg in args for leaf in leaves(arg))
        ):
            raise NotPlannedError(f"{definition.name} has no kernel for these sizes")

    # ---- regions

    def region(
        self, region: CompiledRegion, values: Sequence[Value], sizes: Mapping[Sym, Any]
    ) -> list[Value]:
        """Returns the results of a region; constants if all inputs and sizes are known."""
        free_sizes = {s: sizes[s] for s in region.free_symbols if s in sizes}
        if len(free_sizes) < len(region.free_symbols):
            raise NotPlannedError("a size that no argument determines")
        if not any(isinstance(v, Slot) for v in values) and not any(
            isinstance(size, Poly) for size in free_sizes.values()
        ):
            return region([np.asarray(v) for v in values], free_sizes)
        slots = [self.slot(v) for v in values]
        bound = self._bound_symbols(region, slots, free_sizes)
        plan = self._plan(region, bound)
        bound = {s: self.simplified(d) for s, d in bound.items()}
        for index in plan.overwritten:
            slots[index] = self._copy(slots[index])
        owned = [self._owned(b.shape, b.dtype, bound) for b in plan.owned]
        inputs = tuple([s.cell for s in slots])
        self.step(SizedRun(plan, region.threads, bound, inputs, tuple([s.cell for s in owned])))
        memory: dict[Any, Any] = dict(zip(plan.owned, owned, strict=True))
        memory |= dict(zip(plan.inputs, slots, strict=True))
        results = []
        for buffer in plan.results:
            root = buffer.root
            value = self.slot(memory.get(root, root.data))
            if buffer.base is not None:
                value = value.reshape([dims.substitute(d, bound) for d in buffer.shape])
            results.append(value)
        return results

    def _owned(self, shape: Sequence[Dim], dtype: str, sizes: Mapping[Sym, Dim]) -> Slot:
        return self.new([dims.substitute(d, sizes) for d in shape], numpy_dtype(dtype))

    def _bound_symbols(
        self, region: CompiledRegion, slots: Sequence[Slot], sizes: Mapping[Sym, Dim]
    ) -> dict[Sym, Dim]:
        """Returns the dims of a region's symbols; requires its declared shapes and its checks."""
        values = dict(sizes)
        pairs: list[tuple[Dim, Dim]] = []
        for slot, buffer, (dtype, rank) in zip(slots, region.inputs, region.forms, strict=True):
            if slot.dtype.name != dtype.name or len(slot.shape) != rank:
                raise NotPlannedError("a region called with another dtype or rank")
            pairs += zip(buffer.shape, slot.shape, strict=True)
        for declared, actual in pairs:
            symbol = dims.as_sym(declared)
            if symbol is not None:
                values.setdefault(symbol, self.simplified(actual))
        for declared, actual in pairs:
            self.require_equal(dims.substitute(declared, values), actual, "an operand")
        for check in region.boundary.checks:
            left, right = [
                self.simplified(dims.substitute(d, values)) for d in (check.left, check.right)
            ]
            if not check.loose:
                self.require_equal(left, right, check.description)
            elif left not in (right, 1):
                either = dims.compare("==", left, right) + dims.compare("==", left, 1)
                self.require(dims.compare(">", either, 0), check.description)
        for size in region.boundary.doubtful:
            condition = dims.compare(">=", dims.substitute(size, values), 0)
            self.require(condition, f"{dims.text(size)} is negative")
        return values

    def _plan(self, region: CompiledRegion, sizes: Mapping[Sym, Dim]) -> KernelPlan:
        """Returns the plan that is compiled first; requires its usual equations."""
        equal = region.boundary.equal
        for symbol, dim in equal.items():
            self.require_equal(
                sizes[symbol], dims.substitute(dim, sizes), "operands that broadcast"
            )
        try:
            plan = region.plan(bool(equal))
        except MissingCodeError:
            raise NotPlannedError("a kernel without machine code") from None
        if len(plan.arena.spans) > layout.MOST_COMPARED:
            raise NotPlannedError("a region with too many intermediate values")
        return plan

    # ---- branches and loops

    def merge_forms(
        self, then: InstructionBlock, then_slot: Slot, otherwise: InstructionBlock, else_slot: Slot
    ) -> Slot:
        """Merges arrays of different shapes: each branch assigns the sizes of its own."""
        if len(then_slot.shape) != len(else_slot.shape) or then_slot.dtype != else_slot.dtype:
            raise NotPlannedError("branches whose values differ in rank or dtype")
        pairs = list(zip(then_slot.shape, else_slot.shape, strict=True))
        shape = [a if a == b else dims.sym("merged") for a, b in pairs]
        different = [k for k, (a, b) in enumerate(pairs) if a != b]
        symbols = tuple([s for k in different for s in dims.syms(shape[k])])
        merged = self.new(shape, then_slot.dtype)
        for block, slot in ((then, then_slot), (otherwise, else_slot)):
            if symbols:
                block.steps.append(AssignSizes(symbols, tuple([slot.shape[k] for k in different])))
            copy = MemoryCell(nbytes(slot), same=merged.cell)
            block.steps.append(CopyInstruction(copy, slot.cell))
        return merged

    def loop(self, function: Any, steps: LoopSpec) -> tuple[tuple[Value, ...], list[Value]] | None:
        """Returns the carried values after a loop, and its outputs; None without a step."""
        trips = steps.trips
        if isinstance(trips, Poly):
            self.require(dims.compare(">=", trips, 1), "a loop without steps")
            steps = attrs.evolve(steps, trips=self.number(self.simplified(trips)))
        elif trips is not None and not isinstance(trips, Slot):
            if not np.asarray(trips) > 0:
                return None
            steps = attrs.evolve(steps, trips=np.asarray(int(trips), np.int64))
        if steps.going is not None and not isinstance(steps.going, Slot) and not steps.going:
            return None
        return SizedLoopTrace(self, function, steps).trace()
