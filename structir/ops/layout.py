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


def permuted(given: CallView) -> str:
    """Returns `x[i0, i1, i2] -> y[i2, i0, i1]`; the axes attribute determines an unknown rank."""
    rank, axes = given.rank("x"), given["axes"]
    if axes is None:
        if rank is None:
            return "x[*s] -> y[*t]"
        order = tuple(reversed(range(rank)))
    else:
        rank = len(axes) if rank is None else rank
        order = given.axes("axes", rank)
        if len(order) != rank:
            given.reject(f"axes: expected a permutation of {rank} axes, found {list(order)}")
    own = index_vars(rank)
    return f"{access_text('x', own)} -> {access_text('y', [own[k] for k in order])}"


@op(permuted)
def permute_dims(x: ScalarExpr, axes: Ints | None = None) -> ScalarExpr:
    """Permutes axes; reverses them by default."""
    return x


def expanded(given: CallView) -> str:
    """Returns the signature with a literal `1` per new axis."""
    rank, axis = given.rank("x"), given["axis"]
    found = axes_of_any_rank(axis) if rank is None else None
    if rank is None and found is None:
        return "x[*s] -> y[*t]"
    total = (rank or 0) + (1 if isinstance(axis, int) else len(axis))
    new, places = found or (given.axes("axis", total), index_vars(total))
    own = iter(index_vars(total))
    kept = [
        place if place[0] == "*" else next(own) for k, place in enumerate(places) if k not in new
    ]
    rest = iter(kept)
    out = ["1" if k in new else next(rest) for k in range(len(places))]
    return f"{access_text('x', kept)} -> {access_text('y', out)}"


@op(expanded)
def expand_dims(x: ScalarExpr, axis: Axes) -> ScalarExpr:
    """Inserts axes of size 1 at these positions of the result."""
    return x


def squeezed(given: CallView) -> ResolvedSignature:
    """Returns the signature that reads axes of size 1 at 0."""
    rank, sizes, axis = given.rank("x"), given.dims("x"), given["axis"]
    if rank is None:
        return ResolvedSignature("x[*s] -> y[*t]")
    if axis is None:
        if sizes is None or not all(isinstance(size, int) for size in sizes):
            return ResolvedSignature("x[*s] -> y[*t]")
        gone = [k for k, size in enumerate(sizes) if size == 1]
    else:
        gone = list(given.axes("axis", rank))
        wide = [
            k for k in gone if sizes is not None and isinstance(sizes[k], int) and sizes[k] != 1
        ]
        if wide and sizes is not None:
            text = f"axis {wide[0]} of x has size {sizes[wide[0]]}, and only axes of size 1 can go"
            given.reject(text, "merge axes of other sizes with `R.reshape`")
    own = index_vars(rank)
    read = [f"0 : q{k}" if k in gone else i for k, i in enumerate(own)]
    out = [i for k, i in enumerate(own) if k not in gone]
    checks = [f"q{k} == 1" for k in gone]
    return ResolvedSignature(
        f"{access_text('x', read)} -> {access_text('y', out)}", where_text(checks)
    )


@op(squeezed, reads_sizes=True)
def squeeze(x: ScalarExpr, axis: Axes | None = None) -> ScalarExpr:
    """Removes axes of size 1: those given, or all."""
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


def repeated(given: CallView) -> ResolvedSignature:
    """Returns the signature with copies as the inner part of the axis."""
    rank = given.rank("x")
    if given["axis"] is None:
        return ResolvedSignature("x[*s] -> y[flat(*s, q)]", "q == repeats")
    if rank is None:
        return ResolvedSignature("x[*s] -> y[*t]")
    axis, own = given.axis("axis", rank), index_vars(rank)
    out = [f"flat({i}, q)" if k == axis else i for k, i in enumerate(own)]
    return ResolvedSignature(f"{access_text('x', own)} -> {access_text('y', out)}", "q == repeats")


@op(repeated)
def repeat(x: ScalarExpr, repeats: Size, axis: Axis | None = None) -> ScalarExpr:
    """Repeats each element consecutively, along an axis or over the flattened tensor."""
    return x


def tiled(given: CallView) -> ResolvedSignature:
    """Returns the signature with copies as the outer part of each axis."""
    rank, repeats = given.rank("x"), given["repeats"]
    counts = repeats if isinstance(repeats, tuple) else (repeats,)
    if rank is None:
        return ResolvedSignature("x[*s] -> y[*t]")
    counts = (1,) * (rank - len(counts)) + counts
    extra, own = len(counts) - rank, index_vars(rank)
    out = [f"q{k}" if k < extra else f"flat(q{k}, {own[k - extra]})" for k in range(len(counts))]
    checks = [f"q{k} == counts[{k}]" for k in range(len(counts))]
    line = f"{access_text('x', own)} -> {access_text('y', out)}"
    return ResolvedSignature(line, where_text(checks), "", {"counts": counts})


@op(tiled)
def tile(x: ScalarExpr, repeats: SizeOrSizes) -> ScalarExpr:
    """Repeats the whole tensor along each axis."""
    return x


@squeeze.reference
def _(x: Any, axis: Any = None) -> Any:
    axes = (axis,) if isinstance(axis, int) else axis
    wrong = [k for k in axes or () if x.shape[k] != 1]
    if wrong:
        raise ShapeMismatchError(f"squeeze: axis {wrong[0]} has size {x.shape[wrong[0]]}, not 1")
    return x.squeeze(axes)


def flipped(given: CallView) -> ResolvedSignature:
    """Returns the signature that reads axes in reverse."""
    found = _axes_and_letters(given)
    if found is None:
        return ResolvedSignature("x[*s] -> y[*s]", sizes=True)
    axes, own = found
    read = [f"size({i}) - 1 - {i} : {i}" if k in axes else i for k, i in enumerate(own)]
    return ResolvedSignature(f"{access_text('x', read)} -> {access_text('y', own)}")


def _axes_and_letters(given: CallView) -> tuple[tuple[int, ...], list[str]] | None:
    """Returns the axes and index variables, or None where the rank is unknown."""
    rank = given.rank("x")
    if rank is None:
        return axes_of_any_rank(given["axis"])
    return given.axes("axis", rank), index_vars(rank)


@op(flipped)
def flip(x: ScalarExpr, axis: Axes) -> ScalarExpr:
    """Reverses the order of elements along axes."""
    return x


def rolled(given: CallView) -> ResolvedSignature:
    """Returns the signature that reads `shift` elements before, modulo the size."""
    shift, found = given["shift"], _axes_and_letters(given)
    if found is None or isinstance(shift, UnknownShape):
        return ResolvedSignature("x[*s] -> y[*s]", sizes=True)
    axes, own = found
    if isinstance(shift, tuple) and len(shift) not in (1, len(axes)):
        given.reject(f"shift: expected 1 or {len(axes)} numbers, found {len(shift)}")
    read = list(own)
    for place, k in enumerate(axes):
        one = isinstance(shift, tuple) and f"shift[{place if len(shift) > 1 else 0}]"
        read[k] = f"({own[k]} - {one or 'shift'}) % size({own[k]}) : {own[k]}"
    return ResolvedSignature(f"{access_text('x', read)} -> {access_text('y', own)}")


@op(rolled)
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
