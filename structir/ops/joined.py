"""Ops that join or split tensors: concat, stack, split, pad."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

from structir.ir.dims import Dim, ceildiv, dim_max, dim_min
from structir.ir.expr import Call, Expr, Tuple
from structir.ir.struct_info import MAX_RANK
from structir.opdef.attributes import Axis, Counts, Ints, Number, Operands
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, index_vars, where_text
from structir.projections.scalar_expr import ScalarExpr

Dims = tuple[Dim, ...]
Array = Any
MAX_TENSORS = 4096  # operands or results of one call: each generates its own loops


def _check_count(call: CallView) -> None:
    count = len(call.info("tensors"))
    if count > MAX_TENSORS:
        message = f"tensors: expected at most {MAX_TENSORS} tensors, found {count}"
        call.reject(message, "join parts of the list first", "E0109")


def concat_signature(call: CallView) -> str:
    """Returns the signature with one index variable per operand at the axis."""
    if not call.info("tensors"):
        call.reject("tensors: expected at least one tensor, found none")
    _check_count(call)
    if call["axis"] is None:
        return "*tensors[i] -> out[join(*i)]"
    return "*tensors[*p, i, *t] -> out[*p, join(*i), *t]"


@op(concat_signature, at={"i": "axis"})
def concat(tensors: Operands, axis: Axis | None = 0) -> Operands:
    """Concatenates tensors along an axis; with axis None, concatenates vectors."""
    return tensors


def _appended_rows(call: Call) -> tuple[Expr, tuple[Expr, ...]] | None:
    """Returns the first tensor and the rows appended to it; None along another axis."""
    tensors = call.args[0]
    if call.attrs.get("axis", 0) != 0 or not isinstance(tensors, Tuple) or not tensors.fields:
        return None
    return tensors.fields[0], tensors.fields[1:]


concat.definition.hooks["rows_added"] = _appended_rows


def stack_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with a new axis that has size 1 per operand."""
    ranks = [rank for rank in call.ranks("tensors") if rank is not None]
    if not call.info("tensors"):
        call.reject("tensors: expected at least one tensor, found none")
    _check_count(call)
    if ranks:
        axis, variables = call.axis("axis", ranks[0] + 1), index_vars(ranks[0], "a")
    else:
        axis, variables = _axis_of_any_rank(call["axis"])
    out = [*variables[:axis], "join(*u)", *variables[axis:]]
    return ResolvedSignature(
        f"*{access_text('tensors', variables)} -> {access_text('out', out)}", "u == 1"
    )


def _axis_of_any_rank(axis: int) -> tuple[int, list[str]]:
    """Returns the position of a new axis in an access with an axis pack, and that access."""
    count = axis if axis >= 0 else -axis - 1
    variables = index_vars(count, "a")
    return (axis, [*variables, "*rest"]) if axis >= 0 else (1, ["*rest", *variables])


@op(stack_signature)
def stack(tensors: Operands, axis: Axis = 0) -> Operands:
    """Stacks tensors along a new axis."""
    return tensors


def split_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of a split axis; overlapping sections are separate reads."""
    split_points, rank = call["indices_or_sections"], call.rank("x")
    count = split_points if isinstance(split_points, int) else len(split_points) + 1
    if count <= 0:
        call.reject(f"indices_or_sections: expected at least 1 section, found {count}")
    if count > MAX_TENSORS:
        message = f"indices_or_sections: expected at most {MAX_TENSORS} sections, found {count}"
        call.reject(message, "split into fewer sections, and split these again", "E0109")
    if rank is not None:
        call.axis("axis", rank)
    if isinstance(split_points, int) and count == 1:
        return ResolvedSignature("x[*s] -> y[*s]")
    if rank is None:
        return ResolvedSignature("x[*s] -> " + ", ".join([f"y_{k}[*u{k}]" for k in range(count)]))
    axis, sizes, variables = call.axis("axis", rank), call.dims("x"), index_vars(rank, "a")
    outs = [
        access_text(f"y_{k}", [*variables[:axis], f"j{k}", *variables[axis + 1 :]])
        for k in range(count)
    ]
    if sizes is None:
        sections = [*variables[:axis], "_", *variables[axis + 1 :]]
        outs = [access_text(f"y_{k}", sections) for k in range(count)]
        return ResolvedSignature(f"{access_text('x', variables)} -> {', '.join(outs)}")
    starts, section_sizes = _sections(split_points, sizes[axis])
    checks = [f"j{k} == sections[{k}]" for k in range(count)]
    checks += [f"j{k} >= 0" for k, size in enumerate(section_sizes) if not isinstance(size, int)]
    attributes = {"starts": starts, "sections": section_sizes}
    if sum(section_sizes) == sizes[axis] and _is_partition(starts, section_sizes):
        read = f"join({', '.join([f'j{k}' for k in range(count)])})"
        access = access_text("x", [*variables[:axis], read, *variables[axis + 1 :]])
        signature = f"{access} -> {', '.join(outs)}"
        return ResolvedSignature(signature, where_text(checks), "", attributes)
    if not isinstance(sizes[axis], int):  # split points may descend: the last is not the largest
        checks.append(f"n >= {max(starts)}")  # type: ignore[type-var]
    read = access_text("x", [*variables[:axis], "n", *variables[axis + 1 :]])
    return ResolvedSignature(
        f"{read} -> {', '.join(outs)}", where_text(checks), "", attributes, sizes=True
    )


def _sections(split_points: int | tuple[int, ...], size: Dim) -> tuple[Dims, Dims]:
    """Returns the start and the size of each section."""
    if isinstance(split_points, int):
        section = ceildiv(size, split_points)
        if isinstance(size, int):
            section_sizes = [max(min(section, size - section * k), 0) for k in range(split_points)]  # type: ignore[type-var]
            return tuple([section * k for k in range(split_points)]), tuple(section_sizes)
        return (
            tuple([section * k for k in range(split_points)]),
            (*[section] * (split_points - 1), size - section * (split_points - 1)),
        )
    marks: list[Dim] = [0, *[max(cut, 0) for cut in split_points], size]
    if isinstance(size, int):
        marks = [dim_min(mark, size) for mark in marks]
    sizes = [_length(a, b) for a, b in pairwise(marks)]
    return tuple(marks[:-1]), tuple(sizes)


def _length(start: Dim, end: Dim) -> Dim:
    return dim_max(end - start, 0) if isinstance(end - start, int) else end - start


def _is_partition(starts: Dims, section_sizes: Dims) -> bool:
    running: Dim = 0
    for start, size in zip(starts, section_sizes, strict=True):
        if start != running and size != 0:
            return False
        running = running + size
    return True


@op(split_signature, reads_sizes=True)
def split(x: ScalarExpr, indices_or_sections: Counts, axis: Axis = 0) -> ScalarExpr:
    """Splits a tensor along an axis into equal sections, or at the given indices."""
    return x


@split.reference
def _(x: Array, indices_or_sections: int | tuple[int, ...], axis: int = 0) -> Any:
    """Computes overlapping or incomplete sections, which one index signature cannot express."""
    starts, section_sizes = _sections(indices_or_sections, x.shape[axis])
    moved = x.swapaxes(0, axis)
    sections = [
        moved[a : a + n].swapaxes(0, axis) for a, n in zip(starts, section_sizes, strict=True)
    ]
    return tuple(sections) if len(sections) > 1 else sections[0]


PADDING_INDICES = {
    "edge": "min(max(i{k} - pad_width[{b}], 0), size(n{k}) - 1) : n{k}",
    "circular": "(i{k} - pad_width[{b}]) % max(size(n{k}), 1) : n{k}",
    "reflect": "min(max(size(n{k}) - 1 - max(size(n{k}) - 1 - max(i{k} - pad_width[{b}], "
    "pad_width[{b}] - i{k}), max(i{k} - pad_width[{b}], pad_width[{b}] - i{k}) - "
    "(size(n{k}) - 1)), 0), size(n{k}) - 1) : n{k}",
}


def pad_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature: joined axes for constant padding, computed indices for other modes."""
    width = call["pad_width"]
    rank = len(width) // 2 if call.rank("x") is None else call.rank("x")
    if len(width) != 2 * (rank or 0):
        call.reject(
            f"pad_width: expected {2 * (rank or 0)} numbers for {rank} axes, found {len(width)}",
            f"pass a pair (before, after) per axis: `pad_width={(0, 1) * (rank or 0)}`",
        )
    axes = range(rank or 0)
    mode = call["pad_mode"]
    if mode == "constant":
        call.check_number("pad_value", "x")
        out = [f"join(b{k}, i{k}, e{k})" for k in axes]
        checks = [f"b{k} == pad_width[{2 * k}], e{k} == pad_width[{2 * k + 1}]" for k in axes]
        signature = f"{access_text('x', index_vars(len(axes)))} -> {access_text('y', out)}"
        return ResolvedSignature(signature, where_text(checks))
    padded = [k for k in axes if width[2 * k : 2 * k + 2] != (0, 0)]
    read = [PADDING_INDICES[mode].format(k=k, b=2 * k) if k in padded else f"i{k}" for k in axes]
    checks = [f"i{k} == n{k} + pad_width[{2 * k}] + pad_width[{2 * k + 1}]" for k in padded]
    for k in padded:  # each element of a border is one of the axis; a reflection leaves out its end
        least = [f"pad_width[{j}] + 1" for j in (2 * k, 2 * k + 1)] if mode == "reflect" else ["1"]
        checks += [f"n{k} >= {size}" for size in least]
    signature = f"{access_text('x', read)} -> {access_text('y', index_vars(len(axes)))}"
    return ResolvedSignature(signature, where_text(checks))


@op(pad_signature, name="nn.pad", fill="pad_value")
def pad(
    x: ScalarExpr,
    pad_width: Ints,
    pad_mode: Literal["constant", "edge", "circular", "reflect"] = "constant",
    pad_value: Number = 0.0,
) -> ScalarExpr:
    """Pads a tensor with a constant, its edge values, its reflection, or its repetition."""
    return x


def meshgrid_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature in which each vector defines one axis of every result."""
    ranks = call.ranks("tensors")
    if not ranks:
        call.reject("tensors: expected at least one vector, found none")
    if len(ranks) > MAX_RANK:
        message = f"tensors: expected at most {MAX_RANK} vectors, found {len(ranks)}"
        call.reject(message, "merge axes: each vector is an axis of the results", "E0109")
    axes = index_vars(len(ranks))
    reads = ", ".join([f"tensors_{k}[{i}]" for k, i in enumerate(axes)])
    order = axes if call.attributes["indexing"] == "ij" else [*axes[1::-1], *axes[2:]]
    results = [access_text(f"*y_{k}", order) for k in range(len(axes))]
    dtypes = [info.element for info in call.info("tensors") if info.element is not None]
    signature = f"{reads} -> {', '.join([f'{result} @ dtype' for result in results])}"
    return ResolvedSignature(signature, "", "", {"dtype": dtypes[0] if dtypes else None})


@op(meshgrid_signature)
def meshgrid(tensors: Operands, indexing: Literal["ij", "xy"] = "ij") -> Operands:
    """Creates coordinate tensors of a grid from one vector per axis.

    With `indexing="xy"` the first two axes of the results are swapped, as in numpy.meshgrid.
    """
    return tensors


concat.example([f32[2, 3], f32[1, 3]], axis=0)
stack.example([f32[2, 3], f32[2, 3]], axis=1)
split.example(f32[7, 2], 3, axis=0)
split.example(f32[2, 7], (2, 5), axis=1)
pad.example(f32[2, 3], (1, 0, 2, 1))
pad.example(f32[3, 4], (1, 1, 2, 0), "reflect")
meshgrid.example([f32[2], f32[3]])
meshgrid.example([f32[2], f32[3], f32[4]], "xy")
meshgrid.example([f32[2]], "xy")
