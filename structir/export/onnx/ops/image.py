"""Mappings of resampling ops."""

from __future__ import annotations

from structir.export.onnx.call import OpCall, dims_of
from structir.export.onnx.ops.contract import to_order
from structir.export.onnx.registry import exports
from structir.opdef.layouts import SPATIAL

METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
ROUNDINGS = {"round": "round_prefer_ceil", "": "round_prefer_ceil"}
COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
SAMPLING = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}


@exports("image.resize2d", "image.resize3d")
def resize(call: OpCall) -> str | None:
    count = int(call.op[-2])
    data = f"NC{SPATIAL[count]}"
    layout = call.attr("layout") or data
    x = to_order(call, call["x"], layout, data)
    coordinates = call.attr("coordinate_transformation_mode")
    if x is None or coordinates not in COORDINATES or call.attr("roi"):
        return None
    order = [layout.index(axis) for axis in data]
    target = [dims_of(call.out)[k] for k in order]
    method, rounding = METHODS[call.attr("method")], call.attr("rounding_method")
    result = call.emit(
        "Resize",
        *(x, "", "", call.vector(target)),
        mode=method,
        coordinate_transformation_mode=coordinates,
        nearest_mode=ROUNDINGS.get(rounding, rounding),
        cubic_coeff_a=float(call.attr("cubic_alpha")),
        exclude_outside=int(call.attr("cubic_exclude")) if method == "cubic" else None,
    )
    if call.out.dtype != call.dtype("x"):
        result = call.cast(result, call.out.dtype)
    return call.transpose(result, [data.index(axis) for axis in layout])


@exports("image.grid_sample")
def grid_sample(call: OpCall) -> str | None:
    rank = call.rank("data")
    if call.attr("layout") not in ("NCHW", "NCDHW"):
        return None
    grid = call.transpose(call["grid"], [0, *range(2, rank), 1])  # coordinates last
    return call.emit(
        "GridSample",
        call["data"],
        grid,
        mode=SAMPLING[call.attr("method")],
        padding_mode=call.attr("padding_mode"),
        align_corners=int(call.attr("align_corners")),
    )


@exports("image.affine_grid")
def affine_grid(call: OpCall) -> str:
    batch, _, *spatial = dims_of(call.out)
    size = call.vector((batch, 1, *spatial))
    align = int(call.attr("align_corners"))
    grid = call.emit("AffineGrid", call["data"], size, align_corners=align)
    rank = len(spatial) + 2
    return call.transpose(grid, [0, rank - 1, *range(1, rank - 1)])


@exports("vision.roi_align")
def roi_align(call: OpCall) -> str | None:
    if call.attr("layout") != "NCHW" or call.attr("mode") != "avg":
        return None  # runtimes compute the maximum in other ways
    rois = call["rois"]  # rows of batch index and corners
    batch = call.emit("Squeeze", call.slice(rois, 1, 0, 1), call.ints([1]))
    height, width = dims_of(call.out)[2:]
    return call.emit(
        "RoiAlign",
        *(call["data"], call.slice(rois, 1, 1, 5), call.cast(batch, "int64")),
        output_height=height,
        output_width=width,
        spatial_scale=float(call.attr("spatial_scale")),
        sampling_ratio=max(int(call.attr("sample_ratio")), 0),
        coordinate_transformation_mode=(
            "half_pixel" if call.attr("aligned") else "output_half_pixel"
        ),
    )
