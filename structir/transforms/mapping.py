"""`structir.vmap`: maps a function over an axis of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.batching.combinators import expanded
from structir.batching.functions import Batching
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo
from structir.numpy.shaping import axis_of, moveaxis
from structir.tracing.array import TracedArray, expression, joint_operands
from structir.tracing.context import fields, session
from structir.tracing.size import as_dim
from structir.tracing.trees import flatten
from structir.transforms.functions import arrays_of, build, inline
from structir.transforms.jit import transformed


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Returns a function that is mapped over an axis of its arguments.

    `in_axes` is the mapped axis of each argument: an int or None (not mapped) for all, or a tuple,
    list or dict in the structure of the arguments. `out_axes` is the position of the mapped axis in
    the results. The ops of the result have one more axis; see `structir.batching`.
    """

    @transformed(function)
    def mapped(*args: Any, **keywords: Any) -> Any:
        every = (args, keywords)
        leaves, structure = flatten(every)
        axes = _broadcast_axes((in_axes_of(in_axes, len(args)), 0 if keywords else {}), every)
        chosen = [k for k, axis in enumerate(axes) if axis is not None]
        if not chosen:
            message = "vmap: expected at least one mapped argument, found none"
            hint = "set `in_axes` of an argument to an axis"
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E1111"))
        mapped_leaves = joint_operands([leaves[k] for k in chosen])
        arrays = [_front(x, axes[k] or 0) for k, x in zip(chosen, mapped_leaves, strict=True)]
        size = _common_size(arrays)

        def of_elements(*values: TracedArray) -> Any:
            filled = list(leaves)
            for k, value in zip(chosen, values, strict=True):
                filled[k] = value
            positional, named = structure.unflatten(filled)
            return function(*positional, **named)

        infos = [TensorStructInfo(a.dims[1:], a.dtype_name) for a in arrays]
        traced = build(of_elements, infos, "element")
        operands = traced.operands([expression(array) for array in arrays])
        current = session()
        functions = current.builder.functions
        module = IRModule({n: value for n, value in functions.items() if value is not None})
        module = expanded(module)
        functions.update({n: f for n, f in module.functions.items() if n not in functions})
        batching = Batching(module)
        name = current.fresh_name(f"{traced.name}_batched")
        flags = [k < len(arrays) for k in range(len(traced.function.params))]
        batching.add(name, traced.name, flags, size)
        functions.update(batching.generated)
        results = arrays_of(fields(inline(batching.generated[name], operands)))
        positions = _broadcast_axes(out_axes, traced.result.unflatten(results))
        moved = [_back(array, axis) for array, axis in zip(results, positions, strict=True)]
        return traced.result.unflatten(moved)

    return mapped


def in_axes_of(in_axes: Any, count: int) -> Any:
    """Returns the axes of each argument as a tuple."""
    if isinstance(in_axes, list):
        return tuple(in_axes)
    return in_axes if isinstance(in_axes, tuple) else (in_axes,) * count


def _broadcast_axes(axes: Any, tree: Any) -> list[int | None]:
    """Returns the axis of each leaf of a tree; an int or None holds for all leaves below it."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(flatten(tree)[0])
    parts, structure = flatten(axes, is_leaf=lambda value: value is None)
    subtrees = structure.flatten_up_to(tree)
    pairs = zip(parts, subtrees, strict=True)
    return [axis for part, subtree in pairs for axis in _broadcast_axes(part, subtree)]


def _front(array: TracedArray, axis: int) -> TracedArray:
    return moveaxis(array, axis_of(axis, array.ndim, "in_axes"), 0)


def _back(array: TracedArray, axis: int | None) -> TracedArray:
    if axis is None:
        return array[0]
    return moveaxis(array, 0, axis_of(axis, array.ndim, "out_axes"))


def _common_size(arrays: list[TracedArray]) -> Any:
    size = arrays[0].shape[0]
    for array in arrays[1:]:
        if array.shape[0] != size:
            message = f"vmap: expected mapped axes of one size, found {size} and {array.shape[0]}"
            hint = "map fewer arguments: `in_axes=(0, None)` maps the first one only"
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E1111"))
    return as_dim(size)
