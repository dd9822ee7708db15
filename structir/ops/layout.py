"""Ops that move elements: permute, expand, squeeze, repeat, flip, roll."""

from __future__ import annotations

from typing import Any

from structir.errors import ShapeMismatchError
from structir.opdef.attributes import Axes, Axis, Ints, Size, SizeOrSizes, Sizes
from structir.opdef.call_view import CallView, ResolvedSignature, UnknownShape
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, axes_of_any_rank, index_vars, where_text
from structir.projections.scalar_expr import ScalarExpr


def permute_dims_signature(call: CallView) -> str:
    """Returns `x[i0, i1, i2] -> y[i2, i0, i1]`; the axes attribute determines an unknown rank."""
    rank, axes = call.rank("x"), call["axes"]
    if axes is None:
        if rank is None:
            return "x[*s] -> y[*t]"
        order = tuple(reversed(range(rank)))
    else:
        rank = len(axes) if rank is None else rank
        if len(set(axes)) != rank or len(axes) != rank:
            hint = f"write each axis once: `axes={list(reversed(range(rank)))}`"
            call.reject(f"axes: expected a permutation of {rank} axes, found {list(axes)}", hint)
        order = call.axes("axes", rank)
    variables = index_vars(rank)
    return f"{access_text('x', variables)} -> {access_text('y', [variables[k] for k in order])}"


@op(permute_dims_signature)
def permute_dims(x: ScalarExpr, axes: Ints | None = None) -> ScalarExpr:
    """Permutes axes; reverses them by default."""
    return x


def expand_dims_signature(call: CallView) -> str:
    """Returns the signature with a literal `1` per new axis."""
    rank, axis = call.rank("x"), call["axis"]
    axes_and_variables = axes_of_any_rank(axis) if rank is None else None
    if rank is None and axes_and_variables is None:
        return "x[*s] -> y[*t]"
    total = (rank or 0) + (1 if isinstance(axis, int) else len(axis))
    new, out_variables = axes_and_variables or (call.axes("axis", total), index_vars(total))
    variables = iter(index_vars(len(out_variables)))
    in_variables = [
        variable if variable[0] == "*" else next(variables)
        for k, variable in enumerate(out_variables)
        if k not in new
    ]
    remaining = iter(in_variables)
    out = ["1" if k in new else next(remaining) for k in range(len(out_variables))]
    return f"{access_text('x', in_variables)} -> {access_text('y', out)}"


@op(expand_dims_signature)
def expand_dims(x: ScalarExpr, axis: Axes) -> ScalarExpr:
    """Inserts axes of size 1 at these positions of the result."""
    return x


def squeeze_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature that reads axes of size 1 at 0."""
    rank, sizes, axis = call.rank("x"), call.dims("x"), call["axis"]
    if rank is None:
        return ResolvedSignature("x[*s] -> y[*t]")
    if axis is None:
        if sizes is None or not all(isinstance(size, int) for size in sizes):
            return ResolvedSignature("x[*s] -> y[*t]")
        removed = [k for k, size in enumerate(sizes) if size == 1]
    else:
        removed = list(call.axes("axis", rank))
        larger = [
            k for k in removed if sizes is not None and isinstance(sizes[k], int) and sizes[k] != 1
        ]
        if larger and sizes is not None:
            text = f"axis: expected size 1, found size {sizes[larger[0]]} of axis {larger[0]} of x"
            call.reject(text, "merge larger axes by `R.reshape`")
    variables = index_vars(rank)
    read = [f"0 : q{k}" if k in removed else i for k, i in enumerate(variables)]
    out = [i for k, i in enumerate(variables) if k not in removed]
    checks = [f"q{k} == 1" for k in removed]
    return ResolvedSignature(
        f"{access_text('x', read)} -> {access_text('y', out)}", where_text(checks)
    )


@op(squeeze_signature, reads_sizes=True)
def squeeze(x: ScalarExpr, axis: Axes | None = None) -> ScalarExpr:
    """Removes the listed axes of size 1, or all of them."""
    return x


@op("x[*s] -> y[flat(*s)]")
def flatten(x: ScalarExpr) -> ScalarExpr:
    """Reshapes to one axis in row-major order."""
    return x


@op("x[n, m, *s] -> y[n, flat(m, *s)]", name="nn.batch_flatten")
def batch_flatten(x: ScalarExpr) -> ScalarExpr:
    """Reshapes all axes but the first to one."""
    return x


@op(
    "x[*s, flat(c, p, q), h, w] -> y[*s, c, flat(h, p), flat(w, q)]",
    name="nn.pixel_shuffle",
    where="p == upscale_factor, q == upscale_factor, 1 <= upscale_factor",
)
def pixel_shuffle(x: ScalarExpr, upscale_factor: int) -> ScalarExpr:
    """Rearranges blocks of channels to blocks of pixels."""
    return x


def _reject_negative(call: CallView) -> None:
    """Rejects a negative number of copies."""
    repeats = call["repeats"]
    counts = repeats if isinstance(repeats, tuple) else (repeats,)
    if any(isinstance(count, int) and count < 0 for count in counts):
        hint = "write a number of at least 0: `repeats=1`"
        call.reject(f"repeats: expected no negative number, found {repeats}", hint)


def repeat_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with copies as the inner part of the axis."""
    _reject_negative(call)
    rank = call.rank("x")
    if call["axis"] is None:
        return ResolvedSignature("x[*s] -> y[flat(*s, q)]", "q == repeats")
    if rank is None:
        return ResolvedSignature("x[*s] -> y[*t]")
    axis, variables = call.axis("axis", rank), index_vars(rank)
    out = [f"flat({i}, q)" if k == axis else i for k, i in enumerate(variables)]
    return ResolvedSignature(
        f"{access_text('x', variables)} -> {access_text('y', out)}", "q == repeats"
    )


@op(repeat_signature)
def repeat(x: ScalarExpr, repeats: Size, axis: Axis | None = None) -> ScalarExpr:
    """Repeats each element consecutively, along an axis or over the flattened tensor."""
    return x


def tile_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with copies as the outer part of each axis."""
    _reject_negative(call)
    rank, repeats = call.rank("x"), call["repeats"]
    counts = repeats if isinstance(repeats, tuple) else (repeats,)
    if rank is None:
        return ResolvedSignature("x[*s] -> y[*t]")
    counts = (1,) * (rank - len(counts)) + counts
    extra, variables = len(counts) - rank, index_vars(rank)
    out = [
        f"q{k}" if k < extra else f"flat(q{k}, {variables[k - extra]})" for k in range(len(counts))
    ]
    checks = [f"q{k} == counts[{k}]" for k in range(len(counts))]
    signature = f"{access_text('x', variables)} -> {access_text('y', out)}"
    return ResolvedSignature(signature, where_text(checks), "", {"counts": counts})


@op(tile_signature)
def tile(x: ScalarExpr, repeats: SizeOrSizes) -> ScalarExpr:
    """Repeats the whole tensor along each axis."""
    return x


@squeeze.reference
def _(x: Any, axis: Any = None) -> Any:
    axes = (axis,) if isinstance(axis, int) else axis
    wrong = [k for k in axes or () if x.shape[k] != 1]
    if wrong:
        raise ShapeMismatchError(
            f"squeeze: axis {wrong[0]} of x: expected size 1, found {x.shape[wrong[0]]}"
        )
    return x.squeeze(axes)


def flip_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature that reads axes in reverse."""
    axes_and_variables = _axes_and_variables(call)
    if axes_and_variables is None:
        return ResolvedSignature("x[*s] -> y[*s]", sizes=True)
    axes, variables = axes_and_variables
    read = [f"size({i}) - 1 - {i} : {i}" if k in axes else i for k, i in enumerate(variables)]
    return ResolvedSignature(f"{access_text('x', read)} -> {access_text('y', variables)}")


def _axes_and_variables(call: CallView) -> tuple[tuple[int, ...], list[str]] | None:
    """Returns the axes and index variables, or None where the rank is unknown."""
    rank = call.rank("x")
    if rank is None:
        return axes_of_any_rank(call["axis"])
    return call.axes("axis", rank), index_vars(rank)


@op(flip_signature)
def flip(x: ScalarExpr, axis: Axes) -> ScalarExpr:
    """Reverses the order of elements along axes."""
    return x


def roll_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature that reads at the index minus `shift`, modulo the size."""
    shift, axes_and_variables = call["shift"], _axes_and_variables(call)
    if axes_and_variables is None or isinstance(shift, UnknownShape):
        return ResolvedSignature("x[*s] -> y[*s]", sizes=True)
    axes, variables = axes_and_variables
    if isinstance(shift, tuple) and len(shift) not in (1, len(axes)):
        call.reject(f"shift: expected 1 or {len(axes)} numbers, found {len(shift)}")
    read = list(variables)
    for position, k in enumerate(axes):
        axis_shift = isinstance(shift, tuple) and f"shift[{position if len(shift) > 1 else 0}]"
        read[k] = (
            f"({variables[k]} - {axis_shift or 'shift'}) % size({variables[k]}) : {variables[k]}"
        )
    return ResolvedSignature(f"{access_text('x', read)} -> {access_text('y', variables)}")


@op(roll_signature)
def roll(x: ScalarExpr, shift: SizeOrSizes, axis: Axes) -> ScalarExpr:
    """Shifts elements along axes cyclically, by one shift or one per axis."""
    return x


@op("x[~shape] -> y[*shape]")
def broadcast_to(x: ScalarExpr, shape: Sizes) -> ScalarExpr:
    """Broadcasts a tensor to a shape."""
    return x


roll.example(f32[5, 3], 2, axis=0)
roll.example(f32[5, 3, 4], (2, -1), axis=(0, -1))
flip.example(f32[2, 3, 2], axis=(0, -1))
pixel_shuffle.example(f32[2, 8, 3, 2], 2)
permute_dims.example(f32[2, 3, 4], (2, 0, 1))
expand_dims.example(f32[2, 3], (0, -1))
squeeze.example(f32[2, 1, 3], axis=1)
flatten.example(f32[2, 3])
repeat.example(f32[2, 3], 2, axis=1)
tile.example(f32[2, 3], (2, 1))
flip.example(f32[2, 3], axis=1)
broadcast_to.example(f32[3, 1], (2, 3, 4))
