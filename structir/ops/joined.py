"""Ops that join or split tensors: concat, stack, split, pad."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

from structir.ir.dims import Dim, ceildiv, dim_max, dim_min
from structir.ir.expr import Call, Expr, Tuple
from structir.opdef.attributes import Axis, Counts, Ints, Number, Operands
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, index_vars, where_text
from structir.projections.scalar_expr import ScalarExpr

Dims = tuple[Dim, ...]
Array = Any  # a NumPy array


MOST = 4096  # tensors that are joined at once: each has loops of its own


def _check_count(given: CallView) -> None:
    count = len(given.info("tensors"))
    if count > MOST:
        given.reject(f"tensors: expected at most {MOST} tensors, found {count}")


def concatenated(given: CallView) -> str:
    """Returns the signature with one index variable per operand at the axis."""
    if not given.info("tensors"):
        given.reject("tensors: expected at least one tensor, found none")
    _check_count(given)
    if given["axis"] is None:
        return "*tensors[i] -> out[join(*i)]"
    return "*tensors[*p, i, *t] -> out[*p, join(*i), *t]"


@op(concatenated, at={"i": "axis"})
def concat(tensors: Operands, axis: Axis | None = 0) -> Operands:
    """Concatenates tensors along an axis; with axis None, concatenates vectors."""
    return tensors


def _rows_added(call: Call) -> tuple[Expr, tuple[Expr, ...]] | None:
    """Returns the first tensor and the rows appended to it; None along another axis."""
    tensors = call.args[0]
    if call.attrs.get("axis", 0) != 0 or not isinstance(tensors, Tuple) or not tensors.fields:
        return None
    return tensors.fields[0], tensors.fields[1:]


concat.definition.hooks["rows_added"] = _rows_added


def stacked(given: CallView) -> ResolvedSignature:
    """Returns the signature with a new axis that has size 1 per operand."""
    ranks = [rank for rank in given.ranks("tensors") if rank is not None]
    if not given.info("tensors"):
        given.reject("tensors: expected at least one tensor, found none")
    _check_count(given)
    if not ranks:
        return ResolvedSignature("*tensors[*s] -> out[*u]")
    axis, own = given.axis("axis", ranks[0] + 1), index_vars(ranks[0], "a")
    out = [*own[:axis], "join(*u)", *own[axis:]]
    return ResolvedSignature(
        f"*{access_text('tensors', own)} -> {access_text('out', out)}", "u == 1"
    )


@op(stacked)
def stack(tensors: Operands, axis: Axis = 0) -> Operands:
    """Stacks tensors along a new axis."""
    return tensors


def divided(given: CallView) -> ResolvedSignature:
    """Returns the signature of an axis cut in pieces; overlapping pieces are separate reads."""
    cuts, rank = given["indices_or_sections"], given.rank("x")
    count = cuts if isinstance(cuts, int) else len(cuts) + 1
    if count <= 0:
        given.reject(f"indices_or_sections: expected at least 1 section, found {count}")
    if rank is not None:
        given.axis("axis", rank)
    if isinstance(cuts, int) and count == 1:
        return ResolvedSignature("x[*s] -> y[*s]")
    if rank is None:
        return ResolvedSignature("x[*s] -> " + ", ".join([f"y_{k}[*u]" for k in range(count)]))
    axis, sizes, own = given.axis("axis", rank), given.dims("x"), index_vars(rank, "a")
    outs = [access_text(f"y_{k}", [*own[:axis], f"j{k}", *own[axis + 1 :]]) for k in range(count)]
    if sizes is None:
        outs = [access_text(f"y_{k}", ["_"] * rank) for k in range(count)]
        return ResolvedSignature(f"x[*s] -> {', '.join(outs)}")
    starts, parts = _parts(cuts, sizes[axis])
    checks = [f"j{k} == parts[{k}]" for k in range(count)]
    checks += [f"j{k} >= 0" for k, part in enumerate(parts) if not isinstance(part, int)]
    attributes = {"starts": starts, "parts": parts}
    if sum(parts) == sizes[axis] and _in_order(starts, parts):
        read = f"join({', '.join([f'j{k}' for k in range(count)])})"
        line = f"{access_text('x', [*own[:axis], read, *own[axis + 1 :]])} -> {', '.join(outs)}"
        return ResolvedSignature(line, where_text(checks), "", attributes)
    if not isinstance(sizes[axis], int):  # where cuts go back, the last one is not the highest
        checks.append(f"n >= {max(starts)}")  # type: ignore[type-var]
    read = access_text("x", [*own[:axis], "n", *own[axis + 1 :]])
    return ResolvedSignature(
        f"{read} -> {', '.join(outs)}", where_text(checks), "", attributes, sizes=True
    )


def _parts(cuts: int | tuple[int, ...], size: Dim) -> tuple[Dims, Dims]:
    """Returns the start and the size of each piece."""
    if isinstance(cuts, int):
        each = ceildiv(size, cuts)
        if isinstance(size, int):
            spans = [max(min(each, size - each * k), 0) for k in range(cuts)]  # type: ignore[type-var]
            return tuple([each * k for k in range(cuts)]), tuple(spans)
        return (
            tuple([each * k for k in range(cuts)]),
            (*[each] * (cuts - 1), size - each * (cuts - 1)),
        )
    marks: list[Dim] = [0, *[max(cut, 0) for cut in cuts], size]
    if isinstance(size, int):
        marks = [dim_min(mark, size) for mark in marks]
    sizes = [_length(a, b) for a, b in pairwise(marks)]
    return tuple(marks[:-1]), tuple(sizes)


def _length(start: Dim, end: Dim) -> Dim:
    return dim_max(end - start, 0) if isinstance(end - start, int) else end - start


def _in_order(starts: Dims, parts: Dims) -> bool:
    running: Dim = 0
    for start, part in zip(starts, parts, strict=True):
        if start != running and part != 0:
            return False
        running = running + part
    return True


@op(divided, reads_sizes=True)
def split(x: ScalarExpr, indices_or_sections: Counts, axis: Axis = 0) -> ScalarExpr:
    """Splits a tensor along an axis into equal sections, or at the given indices."""
    return x


@split.reference
def _(x: Array, indices_or_sections: int | tuple[int, ...], axis: int = 0) -> Any:
    """Decomposes overlapping or incomplete pieces, which one index signature cannot express."""
    starts, parts = _parts(indices_or_sections, x.shape[axis])
    turned = x.swapaxes(0, axis)
    made = [turned[a : a + n].swapaxes(0, axis) for a, n in zip(starts, parts, strict=True)]
    return tuple(made) if len(made) > 1 else made[0]


PADDED = {
    "edge": "min(max(i{k} - pad_width[{b}], 0), size(n{k}) - 1) : n{k}",
    "circular": "(i{k} - pad_width[{b}]) % max(size(n{k}), 1) : n{k}",
    "reflect": "size(n{k}) - 1 - max(size(n{k}) - 1 - max(i{k} - pad_width[{b}], "
    "pad_width[{b}] - i{k}), max(i{k} - pad_width[{b}], pad_width[{b}] - i{k}) - "
    "(size(n{k}) - 1)) : n{k}",
}


def padded(given: CallView) -> ResolvedSignature:
    """Returns the signature with index variables for the padding, or with reflected indices."""
    width = given["pad_width"]
    rank = len(width) // 2 if given.rank("x") is None else given.rank("x")
    if len(width) != 2 * (rank or 0):
        given.reject(
            f"pad_width has {len(width)} numbers for a tensor of {rank} axes",
            "it has two for each axis: before and after",
        )
    axes = range(rank or 0)
    mode = given["pad_mode"]
    if mode == "constant":
        out = [f"join(b{k}, i{k}, e{k})" for k in axes]
        checks = [f"b{k} == pad_width[{2 * k}], e{k} == pad_width[{2 * k + 1}]" for k in axes]
        line = f"{access_text('x', index_vars(len(axes)))} -> {access_text('y', out)}"
        return ResolvedSignature(line, where_text(checks))
    read = [PADDED[mode].format(k=k, b=2 * k) for k in axes]
    checks = [f"i{k} == n{k} + pad_width[{2 * k}] + pad_width[{2 * k + 1}]" for k in axes]
    line = f"{access_text('x', read)} -> {access_text('y', index_vars(len(axes)))}"
    return ResolvedSignature(line, where_text(checks))


@op(padded, name="nn.pad", fill="pad_value")
def pad(
    x: ScalarExpr,
    pad_width: Ints,
    pad_mode: Literal["constant", "edge", "circular", "reflect"] = "constant",
    pad_value: Number = 0.0,
) -> ScalarExpr:
    """Pads a tensor with a constant, its edge values, its reflection, or its repetition."""
    return x


def crossed(given: CallView) -> ResolvedSignature:
    """Returns the signature with each vector along its own axis of every result."""
    ranks = given.ranks("tensors")
    if not ranks:
        given.reject("tensors: expected at least one vector, found none")
    axes = index_vars(len(ranks))
    reads = ", ".join([f"tensors_{k}[{i}]" for k, i in enumerate(axes)])
    results = [access_text(f"*y_{k}", axes) for k in range(len(axes))]
    known = [info.dtype for info in given.info("tensors") if info.dtype is not None]
    line = f"{reads} -> {', '.join([f'{result} @ dtype' for result in results])}"
    return ResolvedSignature(line, "", "", {"dtype": known[0] if known else None})


@op(crossed)
def meshgrid(tensors: Operands, indexing: Literal["ij", "xy"] = "ij") -> Operands:
    """Creates coordinate tensors of a grid from one vector per axis."""
    return tensors


concat.example([f32[2, 3], f32[1, 3]], axis=0)
stack.example([f32[2, 3], f32[2, 3]], axis=1)
split.example(f32[7, 2], 3, axis=0)
split.example(f32[2, 7], (2, 5), axis=1)
pad.example(f32[2, 3], (1, 0, 2, 1))
pad.example(f32[3, 4], (1, 1, 2, 0), "reflect")
meshgrid.example([f32[2], f32[3]])
