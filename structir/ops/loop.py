"""Loops over the first axis of a tensor: a function of the program, applied to state and slice."""

from __future__ import annotations

from typing import Any

from structir.analysis.axes import axes_of, tensor
from structir.analysis.calls import derive_call_ret_struct_info
from structir.analysis.lattice import FAIL_L0, base_check
from structir.errors import Diagnostic, ShapeMismatchError, StructInfoError
from structir.ir.axes import RowVar
from structir.ir.expr import Call, Expr
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module
from structir.ops.opaque import opaque_op

np = lazy_module("numpy")
NOTHING = TupleStructInfo(())


def scanned(
    cell: StructInfo, states: StructInfo, x: StructInfo, captured: StructInfo = NOTHING
) -> StructInfo:
    """The states as they were, and the outputs of all steps."""
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
    """The number of steps, where it is known, and what each step gets."""
    if not isinstance(x, TensorStructInfo):
        raise _wrong("what is scanned is a tensor")
    axes = axes_of(x)
    if axes == ():
        raise _wrong("a scalar has no axis to scan")
    if axes is None or type(axes[0]) is RowVar:
        return None, TensorStructInfo(None, x.dtype)
    return axes[0], tensor(axes[1:], x.dtype)


def _outputs(given: StructInfo, states: tuple[StructInfo, ...]) -> tuple[StructInfo, ...]:
    """What a step gives beside the states, which stay as they are."""
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


@opaque_op(scanned)
def scan(cell: Any, states: Any, x: Any, captured: Any = ()) -> Any:
    """The states after the last step, and the outputs of all steps along a new first axis."""
    if not len(x):
        raise ShapeMismatchError("scan: there is no step, so no output has a shape")
    count, columns = len(states), []
    for element in x:
        given = cell(*states, np.asarray(element), *captured)
        states, outputs = given[:count], given[count:]
        columns.append(outputs)
    return (*states, *[np.stack(column) for column in zip(*columns, strict=True)])


def _loop(call: Call) -> tuple[Expr, int]:
    """What the solver asks of a loop: its body, and how many states it has."""
    states = call.args[1].struct_info
    return call.args[0], len(states.fields) if isinstance(states, TupleStructInfo) else 0


scan.definition.hooks["loop"] = _loop  # type: ignore[attr-defined]
