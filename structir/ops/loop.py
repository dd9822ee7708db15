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


def scanned(
    cell: StructInfo, states: StructInfo, x: StructInfo, captured: StructInfo = NOTHING
) -> StructInfo:
    """Infers the StructInfo of final states and stacked outputs."""
    if not isinstance(states, TupleStructInfo) or not isinstance(captured, TupleStructInfo):
        raise _wrong("states and captured values are tuples")
    steps, step = _taken_apart(x)
    outputs: tuple[StructInfo, ...] = (TensorStructInfo(),)
    if isinstance(cell, FuncStructInfo) and cell.params is not None:
        given = derive_call_ret_struct_info(cell, [*states.fields, step, *captured.fields])
        if given != OBJECT:
            outputs = _outputs(given, states.fields)
    elif isinstance(cell, FuncStructInfo) or cell == OBJECT:
        return OBJECT
    else:
        raise _wrong("the first argument is a function of the program")
    return TupleStructInfo((*states.fields, *[_stacked(steps, output) for output in outputs]))


def _wrong(message: str) -> StructInfoError:
    return StructInfoError(Diagnostic(message, hint="R.scan(cls.cell, (state,), x, (weight,))"))


def _taken_apart(x: StructInfo) -> tuple[Any, StructInfo]:
    """Returns the trip count, if known, and the StructInfo of a slice."""
    if not isinstance(x, TensorStructInfo):
        raise _wrong("what is scanned is a tensor")
    axes = axes_of(x)
    if axes == ():
        raise _wrong("a scalar has no axis to scan")
    if axes is None or type(axes[0]) is RowVar:
        return None, TensorStructInfo(None, x.dtype)
    return axes[0], tensor(axes[1:], x.dtype)


def _outputs(given: StructInfo, states: tuple[StructInfo, ...]) -> tuple[StructInfo, ...]:
    """Returns the outputs of a step after its states, whose StructInfo must not change."""
    fields = given.fields if isinstance(given, TupleStructInfo) else (given,)
    if len(fields) <= len(states):
        raise _wrong(f"a step gives {len(states)} states and an output, not {len(fields)} values")
    for before, after in zip(states, fields, strict=False):
        if base_check(before, after) is FAIL_L0 and base_check(after, before) is FAIL_L0:
            raise _wrong(f"a state is {before} before a step and {after} after it")
    return tuple(fields[len(states) :])


def _stacked(steps: Any, output: StructInfo) -> StructInfo:
    if not isinstance(output, TensorStructInfo):
        return OBJECT
    axes = axes_of(output)
    if axes is None or steps is None:
        return TensorStructInfo(None, output.dtype)
    return tensor((steps, *axes), output.dtype)


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
        """Returns the arguments of a step."""
        if self.read is None:
            return (step, going, *carried)
        return (*carried, element, *self.captured)

    def taken(self, made: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        """Splits the results of a step into next condition, carried values and outputs."""
        going, made = (np.asarray(True), made) if self.read is not None else (made[0], made[1:])
        return going, made[: len(self.carried)], made[len(self.carried) :]


def at_once(function: Any, steps: LoopSpec) -> tuple[tuple[Any, ...], list[Any]] | None:
    """Evaluates a loop whose steps can be batched: carried values and outputs."""
    loop = getattr(function, "loop", None)
    made: tuple[tuple[Any, ...], list[Any]] | None = loop(function, steps) if loop else None
    return made


@opaque_op(scanned)
def scan(cell: Any, states: Any, x: Any, captured: Any = ()) -> Any:
    """Runs a function over slices of the first axis: returns final states and stacked outputs."""
    if not x.shape[0]:
        raise ShapeMismatchError("scan: there is no step, so no output has a shape")
    made = at_once(cell, LoopSpec(int(x.shape[0]), None, states, x, captured))
    if made is not None:
        return (*made[0], *made[1])
    count, columns = len(states), []
    for element in x:
        given = cell(*states, np.asarray(element), *captured)
        states, outputs = given[:count], given[count:]
        columns.append(outputs)
    return (*states, *[np.stack(column) for column in zip(*columns, strict=True)])


def _loop(call: Call) -> tuple[Expr, int]:
    """Returns the body of a loop and its number of states, for the solver."""
    states = call.args[1].struct_info
    return call.args[0], len(states.fields) if isinstance(states, TupleStructInfo) else 0


scan.definition.hooks["loop"] = _loop  # type: ignore[attr-defined]


# The way back: the states before each step once more, then a loop from the last step to the first.


@attrs.frozen(eq=False)
class _Parts:
    """Positions of states, slice and captured values among parameters and results of the body."""

    params: tuple[StructInfo, ...]
    gives: tuple[StructInfo, ...]
    states: int

    @classmethod
    def of(cls, cell: Function, states: int) -> _Parts:
        gives = cell.ret_struct_info
        params = tuple([param.struct_info for param in cell.params])
        fields = gives.fields if isinstance(gives, TupleStructInfo) else ()
        if not all(map(_is_known, (*params, *fields))) or len(fields) <= states:
            raise StructInfoError(Diagnostic("the sizes of what a step takes and gives are open"))
        return cls(params, fields, states)

    def real(self, places: range) -> list[int]:
        """Returns the positions of floating-point parameters."""
        return [k for k in places if _is_real(self.params[k])]


def _is_known(info: StructInfo) -> bool:
    return isinstance(info, TensorStructInfo) and type(info.dims) is tuple and bool(info.dtype)


def _is_real(info: Any) -> bool:
    return is_float(info.dtype)


def _along(steps: Any, info: Any) -> TensorStructInfo:
    """Returns the StructInfo stacked over all steps."""
    return TensorStructInfo((steps, *info.dims), info.dtype)


def _loop_gradient(call: Call, back: Any, loop: Any) -> list[Any]:
    """Returns the cotangents of states, scanned tensor and captured values.

    `loop` is defined in `adjoints.reverse`.
    """
    states = len(call.args[1].struct_info.fields)
    parts, x = _Parts.of(loop.cell, states), call.args[2]
    if not _is_known(x.struct_info):
        raise StructInfoError(Diagnostic("the number of steps is not known"))
    return _BackwardLoop(call, back, loop, parts).found()


@attrs.frozen(eq=False)
class _BackwardLoop:
    """The backward pass of one loop."""

    call: Call
    back: Any
    loop: Any
    parts: _Parts

    def found(self) -> list[Any]:
        """Returns the cotangent of each argument of the loop."""
        emit, parts, count = self.loop.emit, self.parts, self.parts.states
        real, captured = parts.real(range(count)), self.captured()
        x: Any = self.call.args[2]
        starts = [self.came_back(k) for k in real]
        starts += [emit(zeros_like(captured[k - count - 1])) for k in self.real_captured()]
        places = emit(flip(emit(arange(x.struct_info.dims[0])), axis=0))
        read = [x, *self.states_before(), *self.outputs_back(), *captured]
        made = emit(scan(self.step_back(), Tuple(tuple(starts)), places, Tuple(tuple(read))))
        came = dict(zip([*real, *self.real_captured()], range(len(starts)), strict=True))
        to_states = [emit(made[came[k]]) if k in came else None for k in range(count)]
        to_x = emit(flip(emit(made[len(starts)]), axis=0)) if _is_real(x.struct_info) else None
        places_of = range(count + 1, len(parts.params))
        to_captured = [emit(made[came[k]]) if k in came else None for k in places_of]
        return [None, tuple(to_states), to_x, tuple(to_captured)][: len(self.call.args)]

    def captured(self) -> list[Expr]:
        """Returns the captured values, one by one."""
        if len(self.call.args) < 4:
            return []
        whole: Any = self.call.args[3]
        return [self.field(whole, k) for k in range(len(whole.struct_info.fields))]

    def field(self, whole: Any, k: int) -> Expr:
        """Returns a field of a tuple expression or a tuple variable."""
        made: Expr = whole.fields[k] if isinstance(whole, Tuple) else self.loop.emit(whole[k])
        return made

    def real_captured(self) -> list[int]:
        """Returns the positions of floating-point captured values."""
        return self.parts.real(range(self.parts.states + 1, len(self.parts.params)))

    def came_back(self, k: int) -> Expr:
        """Returns the cotangent of a final state."""
        given = self.back[k]
        state = self.field(self.call.args[1], k)
        made: Expr = given if given is not None else self.loop.emit(zeros_like(state))
        return made

    def outputs_back(self) -> list[Expr]:
        """Returns the cotangents of the floating-point outputs of all steps."""
        found: list[Expr] = []
        for k in self.real_outputs():
            given = self.back[k]
            if given is None:
                info: Any = self.call.struct_info.fields[k]  # type: ignore[union-attr]
                given = self.loop.emit(zeros(info.dims, info.dtype))
            found.append(given)
        return found

    def real_outputs(self) -> list[int]:
        """Returns the positions of floating-point outputs."""
        gives = self.parts.gives
        return [k for k in range(self.parts.states, len(gives)) if _is_real(gives[k])]

    def states_before(self) -> list[Expr]:
        """Returns the states before each step, from a loop that also outputs them."""
        count, callee, emit = self.parts.states, self.loop.callee, self.loop.emit
        if not count:
            return []

        def remembering(params: Sequence[Var], emit: Emit) -> Expr:
            made = emit(Call(callee, tuple(params)))
            return Tuple((*[emit(made[k]) for k in range(count)], *params[:count]))

        cell = self.loop.define("states", self.parts.params, remembering)
        made = emit(scan(cell, *self.call.args[1:]))
        return [emit(made[count + k]) for k in range(count)]

    def step_back(self) -> GlobalVar:
        """Defines the body of the backward loop.

        It receives the accumulated cotangents and the step index, then the tensors read. It returns
        the cotangents before the step.
        """
        parts, count = self.parts, self.parts.states
        states, captured = parts.real(range(count)), self.real_captured()
        outputs = self.real_outputs()
        steps = sym("steps")
        infos = [parts.params[k] for k in (*states, *captured)]
        infos.append(TensorStructInfo((), "int64"))
        infos += [_along(steps, parts.params[k]) for k in (count, *range(count))]
        infos += [_along(steps, parts.gives[k]) for k in outputs]
        infos += parts.params[count + 1 :]
        slices = parts.real(range(count, count + 1))
        given = [(k,) for k in (*states, *outputs)]
        pullback, leaves = self.loop.apply_pullback([*states, *slices, *captured], given)

        def step(params: Sequence[Var], emit: Emit) -> Expr:
            rest = iter(params)
            after = [next(rest) for _ in states]
            sums = [next(rest) for _ in captured]
            place = next(rest)
            x, *before = [emit(take(next(rest), place, axis=0)) for _ in range(count + 1)]
            backs = [emit(take(next(rest), place, axis=0)) for _ in outputs]
            made = emit(Call(pullback, (*before, x, *rest, *after, *backs)))
            came = {k: emit(made[number]) for number, (k, _) in enumerate(leaves)}
            added = [emit(total + came[k]) for total, k in zip(sums, captured, strict=True)]
            return Tuple((*[came[k] for k in states], *added, came[count] if slices else place))

        made: GlobalVar = self.loop.define("step_back", infos, step)
        return made


scan.definition.hooks["loop_gradient"] = _loop_gradient  # type: ignore[attr-defined]
