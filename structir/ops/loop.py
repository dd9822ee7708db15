"""Loops over the first axis of a tensor, with a function of the program as the body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from structir.analysis.axes import axes_of, tensor
from structir.analysis.calls import derive_call_ret_struct_info
from structir.analysis.lattice import FAIL_L0, base_check
from structir.analysis.loop_view import LoopView, Sliced
from structir.errors import Diagnostic, ShapeMismatchError, StructInfoError
from structir.ir.axes import RowVar
from structir.ir.dims import equal, sym
from structir.ir.dtype import is_float
from structir.ir.expr import Call, Expr, Function, GlobalVar, MatchCast, Tuple, Var
from structir.ir.polynomial import Poly
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Emit
from structir.opdef.opaque import opaque_op
from structir.ops.create import arange, zeros_like
from structir.ops.indexing import take
from structir.ops.layout import flip

np = lazy_module("numpy")
NOTHING = TupleStructInfo(())


def scan_struct_info(
    cell: StructInfo, states: StructInfo, x: StructInfo, captured: StructInfo = NOTHING
) -> StructInfo:
    """Infers the StructInfo of final states and stacked outputs."""
    if not isinstance(states, TupleStructInfo):
        raise _invalid_scan(f"states: expected a tuple such as `(state,)`, found {states}")
    if not isinstance(captured, TupleStructInfo):
        raise _invalid_scan(f"captured: expected a tuple such as `(weight,)`, found {captured}")
    scanned = x.fields if isinstance(x, TupleStructInfo) else (x,)
    if not scanned:
        raise _invalid_scan("x: expected at least 1 tensor, found an empty tuple")
    pairs = [_trip_count_and_slice(each) for each in scanned]
    slices = [step for _, step in pairs]
    steps = next((steps for steps, _ in pairs if steps is not None), None)
    for other, _ in pairs:
        if steps is not None and other is not None and equal(steps, other) is False:
            raise _invalid_scan(f"x: expected axes 0 of one size, found {steps} and {other}")
    outputs: tuple[StructInfo, ...] = (TensorStructInfo(),)
    if isinstance(cell, FuncStructInfo) and cell.params is not None:
        results = derive_call_ret_struct_info(cell, [*states.fields, *slices, *captured.fields])
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
    return StructInfoError(
        Diagnostic(message, hint="call it as `R.scan(cls.cell, (state,), x, (weight,))`")
    )


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
    if len(fields) < len(states):
        raise _invalid_scan(
            f"cell: expected at least {len(states)} results, states and outputs,"
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

    With `read`, a step receives an element of each of its tensors, then the captured values.
    Without, it receives its index and the condition first, and returns the next condition first.
    """

    trips: Any
    going: Any
    carried: tuple[Any, ...]
    read: tuple[Any, ...] = ()
    captured: tuple[Any, ...] = ()

    def given(
        self, step: Any, going: Any, carried: Any, elements: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Builds the arguments of a step."""
        if not self.read:
            return (step, going, *carried)
        return (*carried, *elements, *self.captured)

    def taken(self, results: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        """Splits the results of a step into next condition, carried values and outputs."""
        if self.read:
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
    """Runs a function over slices of the first axis: returns final states and stacked outputs.

    `x` is a tensor, or a tuple of tensors with equal axes 0: the function receives a slice of each.
    """
    scanned = x if isinstance(x, tuple) else (x,)
    lengths = {each.shape[0] for each in scanned}
    if len(lengths) > 1:
        message = f"scan: x: expected axes 0 of one size, found {sorted(lengths)}"
        raise ShapeMismatchError(message)
    if 0 in lengths:
        return (*states, *_empty_outputs(cell, states, scanned, captured))
    loop_results = at_once(cell, LoopSpec(lengths.pop(), None, states, scanned, captured))
    if loop_results is not None:
        require_kept_shapes("scan", states, loop_results[0])
        return (*loop_results[0], *loop_results[1])
    initial, count, steps = states, len(states), []
    for elements in zip(*scanned, strict=True):
        results = cell(*states, *[np.asarray(element) for element in elements], *captured)
        states, outputs = results[:count], results[count:]
        steps.append(outputs)
    require_kept_shapes("scan", initial, states)
    return (*states, *[_stacked(outputs) for outputs in zip(*steps, strict=True)])


def require_kept_shapes(name: str, initial: Any, final: Any) -> None:
    """Raises ShapeMismatchError if a state of a loop ends with another shape."""
    if isinstance(initial, tuple):
        for first, last in zip(initial, final, strict=True):
            require_kept_shapes(name, first, last)
    elif getattr(initial, "shape", None) != getattr(final, "shape", None):
        message = f"{name}: expected a state of shape {initial.shape}, found {final.shape}"
        raise ShapeMismatchError(message)


def _stacked(outputs: Sequence[Any]) -> Any:
    shapes = {output.shape for output in outputs}
    if len(shapes) > 1:
        message = f"scan: expected outputs of one shape, found {sorted(shapes)}"
        raise ShapeMismatchError(message)
    return np.stack(outputs)


def _empty_outputs(cell: Any, states: Any, scanned: Any, captured: Any) -> list[Any]:
    """Returns the outputs of no steps, with the shapes of those of a step on zeros."""
    slices = [np.zeros(each.shape[1:], each.dtype) for each in scanned]
    outputs = cell(*states, *slices, *captured)[len(states) :]
    return [np.zeros((0, *output.shape), output.dtype) for output in outputs]


def _view(call: Call) -> LoopView:
    """Returns the operands of each parameter: states, slices of tensors, captured values."""
    states, x = _members(call, 1), _members(call, 2)
    slices = [Sliced(path, (0,)) for path in x]
    captured = [Sliced(path) for path in (_members(call, 3) if len(call.args) > 3 else [])]
    return LoopView(call.args[0], (*map(Sliced, states), *slices, *captured), len(states))


def _members(call: Call, index: int) -> list[tuple[int, ...]]:
    """Returns the paths of the fields of a tuple operand, or that of another operand."""
    info = call.args[index].struct_info
    if not isinstance(info, TupleStructInfo):
        return [(index,)]
    return [(index, k) for k in range(len(info.fields))]


scan.definition.hooks["loop"] = _view  # type: ignore[attr-defined]
scan.definition.hooks["scan_of_maps"] = True  # type: ignore[attr-defined]


# The backward pass recomputes the states before each step, then loops from the last step to the
# first.


@attrs.frozen(eq=False)
class _BodyLayout:
    """Positions of states, slices and captured values among parameters and results of the body."""

    params: tuple[StructInfo, ...]
    results: tuple[StructInfo, ...]
    states: int
    slices: int

    @classmethod
    def of(cls, cell: Function, call: Call, states: int, slices: int) -> _BodyLayout:
        ret = cell.ret_struct_info
        params = tuple([param.struct_info for param in cell.params])
        fields = ret.fields if isinstance(ret, TupleStructInfo) else ()
        passed = [*_fields(call, 1), *map(_of_one_step, _fields(call, 2))]
        passed += _fields(call, 3) if len(call.args) > 3 else []
        returned = getattr(call.struct_info, "fields", ())
        results = [*passed[:states], *map(_of_one_step, returned[states:])]
        params = tuple(map(_known_of, params, passed))
        fields = _of_equal_variables(cell, tuple(map(_known_of, fields, results)))
        tensors = (*[p for p in params if not isinstance(p, ShapeStructInfo)], *fields)
        if not all(map(_is_known, tensors)) or len(fields) < states:
            raise StructInfoError(
                Diagnostic("cell: expected parameters and results of known shape and dtype")
            )
        return cls(params, fields, states, slices)

    @property
    def captured(self) -> range:
        """Returns the positions of captured values."""
        return range(self.states + self.slices, len(self.params))

    def floating(self, positions: range) -> list[int]:
        """Returns the positions of floating-point parameters."""
        return [k for k in positions if _is_floating(self.params[k])]


def _of_equal_variables(cell: Function, fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the StructInfos of the results of a body; those of one value are equal, with and
    without a match_cast."""
    cast = {b.var: b.value for b in cell.body.bindings() if isinstance(b, MatchCast)}
    values = [cast.get(v, v) for v in getattr(cell.body.body, "fields", ())]
    if len(values) != len(fields):
        return fields
    known = {v: info for v, info in zip(values, fields, strict=True) if _is_known(info)}
    return tuple([known.get(v, info) for v, info in zip(values, fields, strict=True)])


def _fields(call: Call, index: int) -> list[Any]:
    """Returns the StructInfos of the fields of an operand, or that of another operand."""
    info = call.args[index].struct_info
    return list(info.fields) if isinstance(info, TupleStructInfo) else [info]


def _of_one_step(info: Any) -> Any:
    """Returns the StructInfo of a slice along the first axis."""
    axes = _axes(info) if isinstance(info, TensorStructInfo) else None
    return info if not axes else TensorStructInfo(axes[1:], info.element)


def _known_of(own: StructInfo, passed: Any) -> StructInfo:
    """Returns the StructInfo of a parameter or result of the body; that of the call if unknown."""
    return passed if not _is_known(own) and _is_known(passed) else own


def _is_known(info: StructInfo) -> bool:
    return isinstance(info, TensorStructInfo) and _axes(info) is not None and bool(info.element)


def _axes(info: Any) -> tuple[Any, ...] | None:
    """Returns the axes of a tensor, which may include row variables; None if they are unknown."""
    return info.dims if type(info.dims) is tuple else info.axes


def _is_floating(info: Any) -> bool:
    return isinstance(info, TensorStructInfo) and (info.dtype is None or is_float(info.dtype))


def _stacked_info(steps: Any, info: Any) -> TensorStructInfo:
    """Returns the StructInfo stacked over all steps."""
    return TensorStructInfo((steps, *(_axes(info) or ())), info.element)


def _loop_gradient(call: Call, cotangents: Any, loop: Any) -> list[Any]:
    """Returns the cotangents of states, scanned tensor and captured values.

    `loop` is defined in `adjoints.reverse`.
    """
    states = len(call.args[1].struct_info.fields)
    scanned = _scanned(call)
    steps = _axes(scanned[0]) if _is_known(scanned[0]) else None
    if not all(map(_is_known, scanned)) or not steps or not isinstance(steps[0], int | Poly):
        message = "x: expected a known first axis and dtype for the gradient"
        hint = 'state the axes of the scanned tensor: `x: R.Tensor(("n", "*s"), "float32")`'
        raise StructInfoError(Diagnostic(message, hint=hint))
    layout = _BodyLayout.of(loop.cell, call, states, len(scanned))
    return _BackwardLoop(call, cotangents, loop, layout).argument_cotangents()


def _scanned(call: Call) -> tuple[Any, ...]:
    """Returns the StructInfo of the tensors whose slices a step receives."""
    info = call.args[2].struct_info
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


@attrs.frozen(eq=False)
class _BackwardLoop:
    """The backward pass of one loop."""

    call: Call
    cotangents: Any
    loop: Any
    layout: _BodyLayout

    @property
    def count(self) -> Any:
        """The number of steps."""
        axes = _axes(_scanned(self.call)[0])
        return axes and axes[0]

    def argument_cotangents(self) -> list[Any]:
        """Returns the cotangent of each argument of the loop."""
        emit, layout, count = self.loop.emit, self.layout, self.layout.states
        float_states, captured = layout.floating(range(count)), self.captured()
        scanned, infos = self.scanned(), _scanned(self.call)
        starts = [self.state_cotangent(k) for k in float_states]
        first = layout.captured.start
        starts += [emit(zeros_like(captured[k - first])) for k in self.floating_captured()]
        indices = emit(flip(emit(arange(self.count)), axis=0))
        tensors = [*scanned, *self.states_before(), *self.output_cotangents(), *captured]
        results = emit(
            scan(self.backward_step(), Tuple(tuple(starts)), indices, Tuple(tuple(tensors)))
        )
        positions = dict(
            zip([*float_states, *self.floating_captured()], range(len(starts)), strict=True)
        )
        to_states = [emit(results[positions[k]]) if k in positions else None for k in range(count)]
        outputs = iter(range(len(starts), len(starts) + len(scanned)))
        to_slices = [
            emit(flip(emit(results[next(outputs)]), axis=0)) if _is_floating(info) else None
            for info in infos
        ]
        to_x: Any = tuple(to_slices)
        if not isinstance(self.call.args[2].struct_info, TupleStructInfo):
            (to_x,) = to_slices
        to_captured = [
            emit(results[positions[k]]) if k in positions else None for k in layout.captured
        ]
        return [None, tuple(to_states), to_x, tuple(to_captured)][: len(self.call.args)]

    def scanned(self) -> list[Expr]:
        """Returns the tensors whose slices a step receives, one by one."""
        x: Any = self.call.args[2]
        info = x.struct_info
        if not isinstance(info, TupleStructInfo):
            return [x]
        return [self.field(x, k) for k in range(len(info.fields))]

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
        return self.layout.floating(self.layout.captured)

    def state_cotangent(self, k: int) -> Expr:
        """Returns the cotangent of a final state."""
        cotangent = self.cotangents[k]
        state = self.field(self.call.args[1], k)
        value: Expr = cotangent if cotangent is not None else self.loop.emit(zeros_like(state))
        return value

    def output_cotangents(self) -> list[Expr]:
        """Returns the cotangents of the used floating-point outputs of all steps."""
        return [self.cotangents[k] for k in self.floating_outputs()]

    def floating_outputs(self) -> list[int]:
        """Returns the positions of floating-point outputs with a cotangent."""
        outputs = range(self.layout.states, len(self.layout.results))
        used = [k for k in outputs if self.cotangents[k] is not None]
        return [k for k in used if _is_floating(self.layout.results[k])]

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
        layout, count, first = self.layout, self.layout.states, self.layout.captured.start
        states, captured = layout.floating(range(count)), self.floating_captured()
        outputs = self.floating_outputs()
        steps = sym("steps")
        infos = [layout.params[k] for k in (*states, *captured)]
        infos.append(TensorStructInfo((), "int64"))
        infos += [_stacked_info(steps, layout.params[k]) for k in range(count, first)]
        infos += [_stacked_info(steps, layout.params[k]) for k in range(count)]
        infos += [_stacked_info(steps, layout.results[k]) for k in outputs]
        infos += layout.params[first:]
        slices = layout.floating(range(count, first))
        seeds = [(k,) for k in (*states, *outputs)]
        pullback, leaves = self.loop.apply_pullback([*states, *slices, *captured], seeds)

        def step(params: Sequence[Var], emit: Emit) -> Expr:
            remaining = iter(params)
            after = [next(remaining) for _ in states]
            sums = [next(remaining) for _ in captured]
            index = next(remaining)
            elements = [emit(take(next(remaining), index, axis=0)) for _ in range(count, first)]
            before = [emit(take(next(remaining), index, axis=0)) for _ in range(count)]
            cotangents = [emit(take(next(remaining), index, axis=0)) for _ in outputs]
            results = emit(Call(pullback, (*before, *elements, *remaining, *after, *cotangents)))
            by_leaf = {k: emit(results[position]) for position, (k, _) in enumerate(leaves)}
            sums_after = [emit(total + by_leaf[k]) for total, k in zip(sums, captured, strict=True)]
            outputs_after = [by_leaf[k] for k in slices]
            return Tuple((*[by_leaf[k] for k in states], *sums_after, *outputs_after))

        function: GlobalVar = self.loop.define("step_back", infos, step)
        return function


scan.definition.hooks["loop_gradient"] = _loop_gradient  # type: ignore[attr-defined]
