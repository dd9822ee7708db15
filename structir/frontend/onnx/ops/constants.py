"""Mappings of constants, ranges, identity matrices, one-hot encoding and window functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import carries, onnx_op
from structir.frontend.onnx.scalars import scalar
from structir.frontend.onnx.sizes import run_time_sizes, sizes_of
from structir.frontend.onnx.tensors import array_of, dense
from structir.frontend.onnx.values import Elements
from structir.frontend.scalars import constant, index_range, size_number
from structir.ir.dims import Poly
from structir.ir.dtype import is_float
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr
from structir.script import R


@onnx_op("Constant")
def constant_node(node: OnnxNode) -> Expr:
    attributes = node.attributes
    if "value" in attributes:
        return Constant(array_of(attributes["value"].t, node.importer.files))
    if "sparse_value" in attributes:
        return Constant(dense(attributes["sparse_value"].sparse_tensor, node.importer.files))
    for name, dtype in LITERALS.items():
        if name in attributes:
            return constant(node.attr(name), dtype)
    if "value_string" in attributes or "value_strings" in attributes:
        return Constant(np.array(node.attr(next(iter(attributes))), object))
    raise node.wrong(f"expected an attribute value, value_float, ..., found {list(attributes)}")


LITERALS = {
    "value_float": "float32",
    "value_floats": "float32",
    "value_int": "int64",
    "value_ints": "int64",
}


@onnx_op("ConstantOfShape")
def constant_of_shape(node: OnnxNode) -> Expr:
    filler = np.zeros(1, np.float32)
    if "value" in node.attributes:
        filler = array_of(node.attributes["value"].t, node.importer.files)
    return R.full(ShapeExpr(sizes_of(node, 0)), Constant(filler.reshape(())))


@carries("ConstantOfShape")
def _constant_of_shape(node: OnnxNode, shape: Elements) -> Any:
    if any(isinstance(d, Poly) for d in shape.ravel()) or np.prod(shape, initial=1) > 64:
        return None
    data = np.zeros(1, np.float32)
    if "value" in node.attributes:
        data = array_of(node.attributes["value"].t, node.importer.files)
    if data.dtype.kind not in "ib":
        return None
    return np.full(tuple(shape.ravel()), data.item(), object), data.dtype.name


@onnx_op("Range")
def range_of(node: OnnxNode) -> Expr:
    bounds = [node.elements(index) for index in range(3)]
    dtype = node.dtype()
    if all(b is not None and not isinstance(b.item(), float) for b in bounds):
        start, end, step = [_number(b.item()) for b in bounds]  # type: ignore[union-attr]
        if not is_float(dtype) or not any(isinstance(b.item(), Poly) for b in bounds):  # type: ignore[union-attr]
            return R.arange(start, end, step, dtype=dtype)
    start, end, step = [scalar(node, node[index]) for index in range(3)]
    bounds64 = [R.astype(v, "float64") for v in (start, end, step)]
    count = R.ceil(R.divide(R.subtract(bounds64[1], bounds64[0]), bounds64[2]))
    count = R.astype(R.maximum(count, constant(0.0, "float64")), "int64")
    (size,) = run_time_sizes(node, R.reshape(count, ShapeExpr((1,))))
    indices = index_range(size, dtype)
    return R.add(start, R.multiply(indices, step))


def _number(value: Any) -> Any:
    return PrimValue(value) if isinstance(value, Poly) else int(value)


@carries("Range")
def _range(node: OnnxNode, start: Elements, end: Elements, step: Elements) -> Any:
    bounds = [start.item(), end.item(), step.item()]
    if any(not isinstance(b, int) for b in bounds) or abs(bounds[1] - bounds[0]) > 4096:
        return None
    return np.array(list(range(*bounds)), object), node.dtype()


@onnx_op("EyeLike")
def eye_like(node: OnnxNode) -> Expr:
    dtype = node.dtype_attr("dtype", node.dtype()) or ""
    return R.eye_like(node[0], k=node.attr("k"), dtype=dtype)


@onnx_op("OneHot")
def one_hot(node: OnnxNode) -> Expr:
    axis = node.attr("axis")
    axis = node.normalize_axis(axis, node.rank() + 1)
    depth = sizes_of(node, 1)[0]
    indices = R.expand_dims(R.astype(node[0], "int64"), [axis])
    trailing = node.rank() - axis
    classes = R.reshape(
        index_range(depth),
        ShapeExpr((depth, *[1] * trailing)),
    )
    depth_value = size_number(depth)
    indices = R.where(R.less(indices, constant(0)), R.add(indices, depth_value), indices)
    values = [R.take(node[2], constant(k), axis=0) for k in (0, 1)]
    return R.where(R.equal(indices, classes), values[1], values[0])


@onnx_op("Trilu")
def trilu(node: OnnxNode) -> Expr:
    k: Any = 0
    if node.has(1):
        k = node.sizes(1)[0]
    op = R.triu if node.flag("upper", 1) else R.tril
    x, dtype = node[0], node.dtype()
    if dtype == "bool":
        return R.astype(op(R.astype(x, "int8"), k), "bool")
    return op(x, k)


def _window(terms: tuple[float, ...]) -> Any:
    def build(node: OnnxNode) -> Expr:
        dtype = node.dtype_attr("output_datatype", "float32") or "float32"
        size = sizes_of(node, 0)[0]
        positions = index_range(size, "float64")
        length = size if node.flag("periodic", 1) else size - 1
        phase = R.divide(
            R.multiply(positions, constant(2 * np.pi, "float64")), size_number(length, "float64")
        )
        result: Expr = constant(terms[0], "float64")
        for k, weight in enumerate(terms[1:], start=1):
            wave = R.cos(R.multiply(phase, constant(float(k), "float64")))
            result = R.add(result, R.multiply(wave, constant(weight, "float64")))
        return R.astype(result, dtype)

    return build


onnx_op("HannWindow")(_window((0.5, -0.5)))
onnx_op("HammingWindow")(_window((25 / 46, -21 / 46)))
onnx_op("BlackmanWindow")(_window((0.42, -0.5, 0.08)))
