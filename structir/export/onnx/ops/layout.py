"""Mappings of ops that move elements: permutations, reshapes, slices, joins and padding."""

from __future__ import annotations

from structir.export.onnx.call import OpCall, dims_of
from structir.export.onnx.registry import exports
from structir.ir import dims
from structir.ir.struct_info import TensorStructInfo

INT64_MAX = 2**63 - 1
PAD_MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect", "circular": "wrap"}


@exports("permute_dims")
def permute_dims(call: OpCall) -> str:
    axes = call.attr("axes")
    rank = call.rank("x")
    order = [a % rank for a in axes] if axes is not None else [*range(rank)][::-1]
    return (
        call.emit("Transpose", call["x"], perm=order) if rank else call.emit("Identity", call["x"])
    )


@exports("expand_dims")
def expand_dims(call: OpCall) -> str:
    axes = call.attr("axis")
    return call.emit("Unsqueeze", call["x"], call.ints((axes,) if isinstance(axes, int) else axes))


@exports("squeeze")
def squeeze(call: OpCall) -> str:
    if call.attr("axis") is None:
        return call.reshape(call["x"], dims_of(call.out))
    axes = call.axes("axis", "x")
    return (
        call.emit("Squeeze", call["x"], call.ints(axes)) if axes else call["x"]
    )  # none are all axes


@exports("reshape", "flatten", "nn.batch_flatten", "collapse_sum_like", "collapse_sum_to")
def reshape(call: OpCall) -> str | None:
    if call.op.startswith("collapse"):
        return collapse(call)
    return call.reshape(call["x"], dims_of(call.out))


def collapse(call: OpCall) -> str:
    """Returns the sum over the axes that broadcasting added or expanded."""
    sizes, target = call.dims("x"), dims_of(call.out)
    added = len(sizes) - len(target)
    pairs = zip(sizes[added:], target, strict=True)
    expanded = [k + added for k, (size, new) in enumerate(pairs) if new == 1 and size != 1]
    axes = [*range(added), *expanded]
    total = call["x"]
    if axes:
        total = call.emit("ReduceSum", total, call.ints(axes), keepdims=1)
    return call.reshape(total, target)


exports("broadcast_to")(lambda call: call.expand(call["x"], dims_of(call.out)))


@exports("nn.pixel_shuffle")
def pixel_shuffle(call: OpCall) -> str | None:
    if call.rank("x") != 4:
        return None
    return call.emit("DepthToSpace", call["x"], blocksize=call.attr("upscale_factor"), mode="CRD")


@exports("repeat")
def repeat(call: OpCall) -> str:
    x, axis = call["x"], call.attr("axis")
    sizes = list(call.dims("x"))
    if axis is None:
        x, axis, sizes = call.flat(x), 0, [1]
    axis %= len(sizes)
    count = call.attr("repeats")
    target = [*[1] * (axis + 1), count, *[1] * (len(sizes) - axis - 1)]
    repeated = call.expand(call.unsqueeze(x, [axis + 1]), target)
    return call.reshape(repeated, dims_of(call.out))


@exports("tile")
def tile(call: OpCall) -> str:
    repeats = call.attr("repeats")
    repeats = list(repeats) if isinstance(repeats, tuple | list) else [repeats]
    rank = call.rank("x")
    x = call.unsqueeze(call["x"], range(len(repeats) - rank))
    return call.emit("Tile", x, call.vector([1] * (rank - len(repeats)) + repeats))


@exports("flip")
def flip(call: OpCall) -> str:
    axes = call.axes("axis", "x")
    count = len(axes)
    if not axes:
        return call.emit("Identity", call["x"])
    bounds = (call.ints([-1] * count), call.ints([-(2**63) + 1] * count))
    return call.emit("Slice", call["x"], *bounds, call.ints(axes), call.ints([-1] * count))


@exports("roll")
def roll(call: OpCall) -> str:
    axes, shifts = call.axes("axis", "x"), call.attr("shift")
    shifts = list(shifts) if isinstance(shifts, tuple | list) else [shifts]
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    axes = axes * len(shifts) if len(axes) == 1 else axes
    result: str = call["x"]
    for axis, shift in zip(axes, shifts, strict=True):
        size = call.dims("x")[axis]
        first = dims.floormod(-shift, size)
        parts = [call.slice(result, axis, first, size), call.slice(result, axis, 0, first)]
        result = call.emit("Concat", *parts, axis=axis)
    return result


@exports("concat")
def concat(call: OpCall) -> str:
    names, axis = call["tensors"], call.attr("axis")
    if axis is None:
        return call.emit("Concat", *[call.flat(n) for n in names], axis=0)
    return call.emit("Concat", *names, axis=axis)


@exports("stack")
def stack(call: OpCall) -> str:
    axis = call.attr("axis") % len(dims_of(call.out))
    return call.emit("Concat", *[call.unsqueeze(n, [axis]) for n in call["tensors"]], axis=axis)


@exports("split")
def split(call: OpCall) -> list[str] | str:
    axis = call.axis("axis", "x")
    if isinstance(call.result, TensorStructInfo):
        return call.emit("Identity", call["x"])
    sizes = [dims_of(field)[axis] for field in call.result.fields]
    bounds = call.attr("indices_or_sections")
    if not isinstance(bounds, int) and list(bounds) != sorted(set(bounds)):
        pairs = zip((0, *bounds), (*bounds, INT64_MAX), strict=True)
        return [call.slice(call["x"], axis, begin, end) for begin, end in pairs]
    return call.emit_many("Split", len(sizes), call["x"], call.vector(sizes), axis=axis)


@exports("nn.pad")
def pad(call: OpCall) -> str:
    width, mode = call.attr("pad_width"), call.attr("pad_mode")
    if not width:
        return call.emit("Identity", call["x"])
    value = call.constant(call.attr("pad_value")) if mode == "constant" else ""
    pads = call.ints([*width[0::2], *width[1::2]])
    return call.emit("Pad", call["x"], pads, value, mode=PAD_MODES[mode])


@exports("meshgrid")
def meshgrid(call: OpCall) -> list[str]:
    names = call["tensors"]
    places = list(range(len(names)))
    if call.attr("indexing") == "xy":
        places[:2] = places[1::-1]
    target = dims_of(call.result.fields[0])
    results = []
    for name, place in zip(names, places, strict=True):
        others = [k for k in range(len(names)) if k != place]
        results.append(call.expand(call.unsqueeze(name, others), target))
    return results


@exports("strided_slice")
def strided_slice(call: OpCall) -> str:
    axes = call.axes("axes", "x")
    if not axes:
        return call.emit("Identity", call["x"])
    strides = call.attr("strides") or [1] * len(axes)
    strides = list(strides) * len(axes) if len(strides) == 1 else list(strides)
    bounds = [call.vector(call.attr(name)) for name in ("begin", "end")]
    return call.emit("Slice", call["x"], *bounds, call.ints(axes), call.ints(strides))


@exports("dynamic_strided_slice")
def dynamic_strided_slice(call: OpCall) -> str:
    bounds = [call.cast(call[n], "int64") for n in ("begin", "end", "strides")]
    axes = call.ints(range(call.rank("x")))
    return call.emit("Slice", call["x"], bounds[0], bounds[1], axes, bounds[2])


@exports("slice_scatter")
def slice_scatter(call: OpCall) -> str | None:
    """Writes the new elements at the positions of the slice along its axis."""
    axis, start, step = call.axis("axis", "x"), call.attr("start"), call.attr("step")
    if not isinstance(start, int) or not isinstance(step, int) or start < 0 or step < 1:
        return None
    sizes = call.dims("src")
    count = [call.scalar(sizes[axis]), call.constant(1, "int64")]
    places = call.emit("Range", call.constant(0, "int64"), *count)
    places = call.emit("Mul", places, call.constant(step, "int64"))
    places = call.emit("Add", places, call.constant(start, "int64"))
    aligned = call.unsqueeze(places, range(1, len(sizes) - axis))
    indices = call.expand(aligned, sizes)
    return call.emit("ScatterElements", call["x"], indices, call["src"], axis=axis)
