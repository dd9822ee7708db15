"""Loops over the first axis of a tensor, with a function of the program as the body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from structir.analysis.axes import axes_of, tensor
from structir.analysis.calls import derive_call_ret_struct_info
from structir.analysis.lattice import FAIL_L0, base_check
from structir.errors import Diagnostic, ShapeMismatchError, StructInfoError
from structir.ir.axes import RowVar
from structir.ir.dims import sym
from structir.ir.dtype import is_float
from structir.ir.expr import Call, Expr, Function, GlobalVar, Tuple, Var
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Emit
from structir.opdef.opaque import opaque_op
from structir.ops.create import arange, zeros, zeros_like
from structir.ops.indexing import take
from structir.ops.layout import flip

np = lazy_module("numpy")
NOTHING = TupleStructInfo(())


def scan_struct_info(
    cell: StructInfo, states: StructInfo, x: StructInfo, captured: StructInfo = NOTHING
) -> StructInfo:
    """Infers the StructInfo of final states and stacked outputs."""
    if not isinstance(states, TupleStructInfo) or not isinstance(captured, TupleStructInfo):
        raise _invalid_scan(f"states, captured: expected tuples, found {states} and {captured}")
    steps, step = _trip_count_and_slice(x)
    outputs: tuple[StructInfo, ...] = (TensorStructInfo(),)
    if isinstance(cell, FuncStructInfo) and cell.params is not None:
        results = derive_call_ret_struct_info(cell, [*states.fields, step, *captured.fields])
        if results != OBJECT:
            outputs = _outputs(results, states.fields)
    elif isinstance(cell, FuncStructInfo) or cell == OBJECT:
        return OBJECT
    else:
        raise _invalid_scan(f"cell: expected a function of the program, found {cell}")
    return TupleStructInfo(
        (*states.fields, *[_stacked_output(steps, output) for output in outputs])
    )


def _invalid_scan(message: str) -> StructInfoError:
    return StructInfoError(Diagnostic(message, hint="R.scan(cls.cell, (state,), x, (weight,))"))


def _trip_count_and_slice(x: StructInfo) -> tuple[Any, StructInfo]:
    """Returns the trip count, if known, and the StructInfo of a slice."""
    if not isinstance(x, TensorStructInfo):
        raise _invalid_scan(f"x: expected a tensor, found {x}")
    axes = axes_of(x)
    if axes == ():
        raise _invalid_scan("x: expected at least 1 axis, found a scalar")
    if axes is None or type(axes[0]) is RowVar:
        return None, TensorStructInfo(None, x.element)
    return axes[0], tensor(axes[1:], x.element)


def _outputs(results: StructInfo, states: tuple[StructInfo, ...]) -> tuple[StructInfo, ...]:
    """Returns the outputs of a step after its states, whose StructInfo must not change."""
    fields = results.fields if isinstance(results, TupleStructInfo) else (results,)
    if len(fields) <= len(states):
        raise _invalid_scan(
            f"cell: expected more than {len(states)} results, states and outputs,"
            f" found {len(fields)}"
        )
    for before, after in zip(states, fields, strict=False):
        if base_check(before, after) is FAIL_L0 and base_check(after, before) is FAIL_L0:
            raise _invalid_scan(f"cell: expected a state {before} as result, found {after}")
    return tuple(fields[len(states) :])


def _stacked_output(steps: Any, output: StructInfo) -> StructInfo:
    if not isinstance(output, TensorStructInfo):
        return OBJECT
    axes = axes_of(output)
    if axes is None or steps is None:
        return TensorStructInfo(None, output.element)
    return tensor((steps, *axes), output.element)


@attrs.frozen(eq=False)
class LoopSpec:
    """A loop over a function: trip count, condition, and the carried values.

    With `read`, a step receives an element of it, then the captured values. Without, it receives
    its index and the condition first, and returns the next condition first.
    """

    trips: Any
    going: Any
    carried: tuple[Any, ...]
    read: Any = None
    captured: tuple[Any, ...] = ()

    def given(self, step: Any, going: Any, carried: Any, element: Any) -> tuple[Any, ...]:
        """Builds the arguments of a step."""
        if self.read is None:
            return (step, going, *carried)
        return (*carried, element, *self.captured)

    def taken(self, results: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        """Splits the results of a step into next condition, carried values and outputs."""
        if self.read is not None:
            going = np.asarray(True)
        else:
            going, results = results[0], results[1:]
        count = len(self.carried)
        return going, results[:count], results[count:]


def at_once(function: Any, steps: LoopSpec) -> tuple[tuple[Any, ...], list[Any]] | None:
    """Evaluates a loop in one call where the backend can: returns carried values and outputs."""
    loop = getattr(function, "loop", None)
    results: tuple[tuple[Any, ...], list[Any]] | None = loop(function, steps) if loop else None
    return results


@opaque_op(scan_struct_info)
def scan(cell: Any, states: Any, x: Any, captured: Any = ()) -> Any:
    """Runs a function over slices of the first axis: returns final states and stacked outputs."""
    if not x.shape[0]:
        raise ShapeMismatchError("scan: axis 0 of x: expected at least 1 slice, found 0")
    loop_results = at_once(cell, LoopSpec(x.shape[0], None, states, x, captured))
    if loop_results is not None:
        return (*loop_results[0], *loop_results[1])
    count, steps = len(states), []
    for element in x:
        results = cell(*states, np.asarray(element), *captured)
        states, outputs = results[:count], results[count:]
        steps.append(outputs)
    return (*states, *[np.stack(outputs) for outputs in zip(*steps, strict=True)])


def _loop(call: Call) -> tuple[Expr, int]:
    """Returns the body of a loop and its number of states, for the solver."""
    states = call.args[1].struct_info
    return call.args[0], len(states.fields) if isinstance(states, TupleStructInfo) else 0


scan.definition.hooks["loop"] = _loop  # type: ignore[attr-defined]


# The backward pass recomputes the states before each step, then loops from the last step to the
# first.


@attrs.frozen(eq=False)
class _BodyLayout:
    """Positions of states, slice and captured values among parameters and results of the body."""

    params: tuple[StructInfo, ...]
    results: tuple[StructInfo, ...]
    states: int

    @classmethod
    def of(cls, cell: Function, states: int) -> _BodyLayout:
        ret = cell.ret_struct_info
        params = tuple([param.struct_info for param in cell.params])
        fields = ret.fields if isinstance(ret, TupleStructInfo) else ()
        if not all(map(_is_known, (*params, *fields))) or len(fields) <= states:
            raise StructInfoError(
                Diagnostic("cell: expected parameters and results of known shape and dtype")
            )
        return cls(params, fields, states)

    def floating(self, positions: range) -> list[int]:
        """Returns the positions of floating-point parameters."""
        return [k for k in positions if _is_floating(self.params[k])]


def _is_known(info: StructInfo) -> bool:
    return isinstance(info, TensorStructInfo) and type(info.dims) is tuple and bool(info.dtype)


def _is_floating(info: Any) -> bool:
    return is_float(info.dtype)


def _stacked_info(steps: Any, info: Any) -> TensorStructInfo:
    """Returns the StructInfo stacked over all steps."""
    return TensorStructInfo((steps, *info.dims), info.dtype)


def _loop_gradient(call: Call, cotangents: Any, loop: Any) -> list[Any]:
    """Returns the cotangents of states, scanned tensor and captured values.

    `loop` is defined in `adjoints.reverse`.
    """
    states = len(call.args[1].struct_info.fields)
    layout, x = _BodyLayout.of(loop.cell, states), call.args[2]
    if not _is_known(x.struct_info):
        raise StructInfoError(Diagnostic("x: expected a known shape for the gradient"))
    return _BackwardLoop(call, cotangents, loop, layout).argument_cotangents()


@attrs.frozen(eq=False)
class _BackwardLoop:
    """The backward pass of one loop."""

    call: Call
    cotangents: Any
    loop: Any
    layout: _BodyLayout

    def argument_cotangents(self) -> list[Any]:
        """Returns the cotangent of each argument of the loop."""
        emit, layout, count = self.loop.emit, self.layout, self.layout.states
        float_states, captured = layout.floating(range(count)), self.captured()
        x: Any = self.call.args[2]
        starts = [self.state_cotangent(k) for k in float_states]
        starts += [emit(zeros_like(captured[k - count - 1])) for k in self.floating_captured()]
        indices = emit(flip(emit(arange(x.struct_info.dims[0])), axis=0))
        tensors = [x, *self.states_before(), *self.output_cotangents(), *captured]
        results = emit(
            scan(self.backward_step(), Tuple(tuple(starts)), indices, Tuple(tuple(tensors)))
        )
        positions = dict(
            zip([*float_states, *self.floating_captured()], range(len(starts)), strict=True)
        )
        to_states = [emit(results[positions[k]]) if k in positions else None for k in range(count)]
        to_x = (
            emit(flip(emit(results[len(starts)]), axis=0)) if _is_floating(x.struct_info) else None
        )
        captured_positions = range(count + 1, len(layout.params))
        to_captured = [
            emit(results[positions[k]]) if k in positions else None for k in captured_positions
        ]
        return [None, tuple(to_states), to_x, tuple(to_captured)][: len(self.call.args)]

    def captured(self) -> list[Expr]:
        """Returns the captured values, one by one."""
        if len(self.call.args) < 4:
            return []
        values: Any = self.call.args[3]
        return [self.field(values, k) for k in range(len(values.struct_info.fields))]

    def field(self, tuple_value: Any, k: int) -> Expr:
        """Returns a field of a tuple expression or a tuple variable."""
        if isinstance(tuple_value, Tuple):
            return tuple_value.fields[k]
        value: Expr = self.loop.emit(tuple_value[k])
        return value

    def floating_captured(self) -> list[int]:
        """Returns the positions of floating-point captured values."""
        return self.layout.floating(range(self.layout.states + 1, len(self.layout.params)))

    def state_cotangent(self, k: int) -> Expr:
        """Returns the cotangent of a final state."""
        cotangent = self.cotangents[k]
        state = self.field(self.call.args[1], k)
        value: Expr = cotangent if cotangent is not None else self.loop.emit(zeros_like(state))
        return value

    def output_cotangents(self) -> list[Expr]:
        """Returns the cotangents of the floating-point outputs of all steps."""
        cotangents: list[Expr] = []
        for k in self.floating_outputs():
            cotangent = self.cotangents[k]
            if cotangent is None:
                info: Any = self.call.struct_info.fields[k]  # type: ignore[union-attr]
                cotangent = self.loop.emit(zeros(info.dims, info.dtype))
            cotangents.append(cotangent)
        return cotangents

    def floating_outputs(self) -> list[int]:
        """Returns the positions of floating-point outputs."""
        results = self.layout.results
        return [k for k in range(self.layout.states, len(results)) if _is_floating(results[k])]

    def states_before(self) -> list[Expr]:
        """Returns the states before each step, from a loop that also outputs them."""
        count, callee, emit = self.layout.states, self.loop.callee, self.loop.emit
        if not count:
            return []

        def recording_step(params: Sequence[Var], emit: Emit) -> Expr:
            results = emit(Call(callee, tuple(params)))
            return Tuple((*[emit(results[k]) for k in range(count)], *params[:count]))

        cell = self.loop.define("states", self.layout.params, recording_step)
        results = emit(scan(cell, *self.call.args[1:]))
        return [emit(results[count + k]) for k in range(count)]

    def backward_step(self) -> GlobalVar:
        """Defines the body of the backward loop.

        It receives the accumulated cotangents and the step index, then the tensors read. It returns
        the cotangents before the step.
        """
        layout, count = self.layout, self.layout.states
        states, captured = layout.floating(range(count)), self.floating_captured()
        outputs = self.floating_outputs()
        steps = sym("steps")
        infos = [layout.params[k] for k in (*states, *captured)]
        infos.append(TensorStructInfo((), "int64"))
        infos += [_stacked_info(steps, layout.params[k]) for k in (count, *range(count))]
        infos += [_stacked_info(steps, layout.results[k]) for k in outputs]
        infos += layout.params[count + 1 :]
        slices = layout.floating(range(count, count + 1))
        seeds = [(k,) for k in (*states, *outputs)]
        pullback, leaves = self.loop.apply_pullback([*states, *slices, *captured], seeds)

        def step(params: Sequence[Var], emit: Emit) -> Expr:
            remaining = iter(params)
            after = [next(remaining) for _ in states]
            sums = [next(remaining) for _ in captured]
            index = next(remaining)
            x, *before = [emit(take(next(remaining), index, axis=0)) for _ in range(count + 1)]
            cotangents = [emit(take(next(remaining), index, axis=0)) for _ in outputs]
            results = emit(Call(pullback, (*before, x, *remaining, *after, *cotangents)))
            by_leaf = {k: emit(results[position]) for position, (k, _) in enumerate(leaves)}
            sums_after = [emit(total + by_leaf[k]) for total, k in zip(sums, captured, strict=True)]
            return Tuple(
                (*[by_leaf[k] for k in states], *sums_after, by_leaf[count] if slices else index)
            )

        function: GlobalVar = self.loop.define("step_back", infos, step)
        return function


scan.definition.hooks["loop_gradient"] = _loop_gradient  # type: ignore[attr-defined]
