"""Edits for assignments to elements of tensors: `x[0:2] = y` to a call that returns the result."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

import attrs

from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.context import Context
from structir.printer.parser.edit_checks import is_valid, tensor_info


@attrs.frozen
class AssignedSlice:
    """The part of an axis that an assignment replaces; an integer drops the axis of the values."""

    axis: int
    indices: range
    drops_axis: bool

    def __str__(self) -> str:
        return f"{':, ' * self.axis}{self.indices.start}:{self.indices.stop}" + (
            f":{self.indices.step}" if self.indices.step != 1 else ""
        )


def assignment_hint(context: Context, target: ast.expr, value: ast.expr) -> str:
    """Returns the hint for an assignment to several targets, or to elements of a tensor."""
    if not isinstance(target, ast.Subscript):
        return "bind one name: `y = ...`, or unpack a tuple: `a, b = ...`"
    name = target.value.id if isinstance(target.value, ast.Name) else "y"
    edit = _edit(context, target, value)
    if edit is None or not is_valid(context, edit):
        edit = _general_form(context, target)
    return f"bind the new tensor: `{name} = {edit}`"


def _general_form(context: Context, target: ast.Subscript) -> str:
    x, infos = ast.unparse(target.value), [tensor_info(context, i) for i in _items(target)]
    if any(info is not None and info.dtype == "bool" for info in infos):
        return f"R.where(mask, values, {x})"
    if any(info is not None for info in infos):
        return f"R.index_put({x}, (indices,), values)"
    return f"R.slice_scatter({x}, values, start, end, axis=0)"


def _items(target: ast.Subscript) -> list[ast.expr]:
    return target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]


def _edit(context: Context, target: ast.Subscript, value: ast.expr) -> str | None:
    info, x = tensor_info(context, target.value), ast.unparse(target.value)
    items = _items(target)
    if info is None or not isinstance(info.dims, tuple):
        return None
    indices = [tensor_info(context, item) for item in items if not isinstance(item, ast.Slice)]
    if len(items) == 1 and indices and indices[0] is not None and indices[0].dtype == "bool":
        return _where(context, x, items[0], value, info)
    if len(indices) == len(items) and all(i is not None for i in indices):
        shape = _index_shape([i for i in indices if i is not None], info)
        source = None if shape is None else _values(context, value, shape, info)
        return source and f"R.index_put({x}, {_tuple(map(ast.unparse, items))}, {source})"
    regions = _regions(items, info.dims)
    return None if regions is None else _scatter(context, x, regions, value, info)


def _where(
    context: Context, x: str, mask: ast.expr, value: ast.expr, info: TensorStructInfo
) -> str | None:
    """Returns the edit of an assignment at a mask: of a number or a tensor with one element."""
    mask_info, value_info = tensor_info(context, mask), tensor_info(context, value)
    if mask_info is None or not mask_info.ndim or not info.ndim or mask_info.ndim > info.ndim:
        return None
    if value_info is not None and value_info.ndim != 0:
        return None
    text, new_axes = ast.unparse(mask), list(range(mask_info.ndim, info.ndim))
    if new_axes:
        text = f"R.expand_dims({text}, axis={new_axes})"
    return f"R.where({text}, {ast.unparse(value)}, {x})"


def _index_shape(indices: list[TensorStructInfo], info: TensorStructInfo) -> tuple[Any, ...] | None:
    """Returns the shape of the elements at index tensors of one shape."""
    batch = {index.dims for index in indices}
    (shape,) = batch if len(batch) == 1 else (None,)
    if not isinstance(shape, tuple) or not isinstance(info.dims, tuple):
        return None
    return (*shape, *info.dims[len(indices) :])


def _regions(items: list[ast.expr], dims: tuple[Any, ...]) -> list[AssignedSlice] | None:
    """Returns the regions of the axes that are not assigned whole; None for other subscripts."""
    is_rest = [isinstance(item, ast.Constant) and item.value is ... for item in items]
    if sum(is_rest) > 1 or len(items) - sum(is_rest) > len(dims):
        return None
    regions = []
    for position, item in enumerate(items):
        if is_rest[position]:
            continue
        axis = position
        if True in is_rest[:position]:
            axis = len(dims) - len(items) + position
        size, parts = dims[axis], _parts(item)
        if parts == slice(None):
            continue
        indices = None if parts is None else _indices(parts, size)
        if not indices or indices.step < 0:
            return None
        regions.append(AssignedSlice(axis, indices, isinstance(parts, int)))
    return regions


def _indices(parts: slice | int, size: Any) -> range | None:
    """Returns the indices of an item on an axis; None if they depend on a symbolic size."""
    if isinstance(parts, int):
        if not isinstance(size, int):
            return range(parts, parts + 1) if parts >= 0 else None
        return range(parts % size, parts % size + 1) if -size <= parts < size else None
    if isinstance(size, int):
        return range(*parts.indices(size))
    start, stop, step = parts.start or 0, parts.stop, parts.step or 1
    return None if stop is None or min(start, stop, step) < 0 else range(start, stop, step)


def _parts(item: ast.expr) -> slice | int | None:
    """Returns an integer or a slice of literals; None for other items."""
    try:
        if isinstance(item, ast.Slice):
            nodes = (item.lower, item.upper, item.step)
            values = [None if node is None else ast.literal_eval(node) for node in nodes]
            is_plain = all(value is None or type(value) is int for value in values)
            return slice(*values) if is_plain and values[2] != 0 else None
        value = ast.literal_eval(item)
    except ValueError:
        return None
    return value if type(value) is int else None


def _scatter(
    context: Context, x: str, regions: list[AssignedSlice], value: ast.expr, info: TensorStructInfo
) -> str | None:
    """Returns nested calls that each replace a slice of one axis."""
    assert isinstance(info.dims, tuple)
    by_axis = {region.axis: region for region in regions}
    sizes = [len(by_axis[k].indices) if k in by_axis else n for k, n in enumerate(info.dims)]
    dropped = [region.axis for region in regions if region.drops_axis]
    shape = tuple([size for axis, size in enumerate(sizes) if axis not in dropped])
    edit = _values(context, value, shape, info)
    if not shape:
        indices = _tuple([str(region.indices.start) for region in regions])
        return f"R.index_put({x}, {indices}, {ast.unparse(value)})"
    if dropped:
        edit = f"R.expand_dims({edit}, axis={dropped})"
    operands = [x]
    for region in regions[:-1]:
        operands.append(f"{operands[-1]}[{region}]")
    for operand, region in zip(reversed(operands), reversed(regions), strict=False):
        step = f", step={region.indices.step}" if region.indices.step != 1 else ""
        bounds = f"{region.indices.start}, {region.indices.stop}"
        edit = f"R.slice_scatter({operand}, {edit}, {bounds}{step}, axis={region.axis})"
    return edit


def _tuple(items: Iterable[str]) -> str:
    parts = [*items]
    return f"({', '.join(parts)}{',' * (len(parts) == 1)})"


def _values(
    context: Context, value: ast.expr, shape: tuple[Any, ...], info: TensorStructInfo
) -> str:
    """Returns the assigned values, broadcast to the shape of the elements."""
    sizes = _tuple(map(str, shape))
    text, value_info = ast.unparse(value), tensor_info(context, value)
    if value_info is not None and value_info.dims == shape:
        return text
    if value_info is not None:
        return f"R.broadcast_to({text}, {sizes})"
    return f'R.full({sizes}, {text}, "{info.dtype}")'
