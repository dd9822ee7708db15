"""Mappings of ai.onnx.ml: feature preprocessing and linear models."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.onnx.node import OnnxNode, alternatives
from structir.frontend.onnx.registry import CLASSIC, R, onnx_op
from structir.frontend.onnx.scalars import like
from structir.frontend.onnx.tensors import array_of
from structir.frontend.scalars import number, reshape_to
from structir.ir.expr import Constant, Expr, StringImm, Tuple
from structir.ir.struct_info import TensorStructInfo

FLOAT = "float32"
NORMS = ("MAX", "L1", "L2")
INTEGER_LABELS = "train the classifier on integer labels: `LabelEncoder().fit_transform(y)`"
POST_TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX")


def as_floats(node: OnnxNode, index: int = 0) -> Expr:
    """Returns an operand cast to a float dtype."""
    x = node[index]
    return x if node.dtype(index) in (FLOAT, "float64") else R.astype(x, FLOAT)


def row(values: Any, dtype: str = FLOAT) -> Constant:
    """Returns attribute values as a constant vector, one element per feature."""
    return Constant(np.asarray(values, dtype))


@onnx_op("ArrayFeatureExtractor", domain=CLASSIC)
def array_feature_extractor(node: OnnxNode) -> Expr:
    indices = reshape_to(R.astype(node[1], "int64"), (-1,))
    result = R.take(node[0], indices, axis=node.rank() - 1)
    return reshape_to(result, (1, -1)) if node.rank() == 1 else result


@onnx_op("Binarizer", domain=CLASSIC)
def binarizer(node: OnnxNode) -> Expr:
    above = R.greater(node[0], like(node, node.attr("threshold", 0.0)))
    return R.astype(above, node.dtype())


@onnx_op("Scaler", domain=CLASSIC)
def scaler(node: OnnxNode) -> Expr:
    offset, scale = node.attr("offset", None), node.attr("scale", None)
    x = R.astype(node[0], FLOAT)
    x = x if offset is None else R.subtract(x, row(offset))
    return x if scale is None else R.multiply(x, row(scale))


@onnx_op("Imputer", domain=CLASSIC)
def imputer(node: OnnxNode) -> Expr:
    floats = node.attr("imputed_value_floats", None)
    replacements = floats if floats is not None else node.attr("imputed_value_int64s")
    kind = "float" if floats is not None else "int64"
    missing = node.attr(f"replaced_value_{kind}", 0)
    is_missing = R.isnan(node[0]) if missing != missing else R.equal(node[0], like(node, missing))
    return R.where(is_missing, row(replacements, node.dtype()), node[0])


@onnx_op("Normalizer", domain=CLASSIC)
def normalizer(node: OnnxNode) -> Expr:
    x, norm = node.emit(R.astype(node[0], FLOAT)), node.choice("norm", NORMS, "MAX")
    axes: dict[str, Any] = {"axis": [node.rank() - 1], "keepdims": True}
    if norm == "MAX":
        size = R.max(x, **axes)
    elif norm == "L1":
        size = R.sum(R.abs(x), **axes)
    else:
        size = R.sqrt(R.sum(R.multiply(x, x), **axes))
    size, zero = node.emit(size), number(0, FLOAT)
    return R.divide(x, R.where(R.equal(size, zero), number(1, FLOAT), size))


@onnx_op("FeatureVectorizer", domain=CLASSIC)
def feature_vectorizer(node: OnnxNode) -> Expr:
    parts = [R.astype(x, FLOAT) for x in node.operands]
    return R.concat(Tuple(tuple(parts)), axis=1)


@onnx_op("OneHotEncoder", domain=CLASSIC)
def one_hot_encoder(node: OnnxNode) -> Expr:
    categories = node.attr("cats_int64s", None)
    if categories is None:
        node.fail(
            "cats_strings is not supported: expected cats_int64s",
            "encode the categories as integers before the model",
        )
    expanded = R.expand_dims(R.astype(node[0], "int64"), [node.rank()])
    return R.astype(R.equal(expanded, row(categories, "int64")), FLOAT)


# ---- labels

KINDS = {"strings": None, "int64s": "int64", "floats": FLOAT}


@onnx_op("LabelEncoder", domain=CLASSIC)
def label_encoder(node: OnnxNode) -> Expr:
    """Builds a lookup from keys to values, which may be strings."""
    keys, _ = _column(node, "keys")
    values, dtype = _column(node, "values")
    default = _default(node, dtype)
    info = (
        TensorStructInfo(node.dims(), dtype) if dtype else TensorStructInfo(None, None, node.rank())
    )
    return R.call_pure_packed("text.labelled", node[0], keys, values, default, sinfo_args=info)


def _column(node: OnnxNode, name: str) -> tuple[Expr, str | None]:
    """Returns keys or values, and their dtype; strings are joined by NUL characters into one
    string."""
    if f"{name}_tensor" in node.attributes:
        data = array_of(node.attr(f"{name}_tensor"), node.importer.files)
        if data.dtype == object:
            return StringImm("\0".join([_text(t) for t in data])), None
        return Constant(data), data.dtype.name
    for kind, dtype in KINDS.items():
        values = node.attr(f"{name}_{kind}", None)
        if values is not None and dtype is None:
            return StringImm("\0".join(values)), None
        if values is not None:
            return row(values, str(dtype)), dtype
    raise node.wrong(f"expected {name}_strings, {name}_int64s, {name}_floats or {name}_tensor")


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _default(node: OnnxNode, dtype: str | None) -> Expr:
    if "default_tensor" in node.attributes:
        data = array_of(node.attr("default_tensor"), node.importer.files).reshape(-1)[:1]
        return StringImm(_text(data[0])) if dtype is None else Constant(data.astype(dtype))
    if dtype is None:
        return StringImm(node.attr("default_string", "_Unused"))
    is_integer = "int" in dtype
    default = node.attr("default_int64", -1) if is_integer else node.attr("default_float", -0.0)
    return row([default], dtype)


# ---- linear models


@onnx_op("LinearRegressor", domain=CLASSIC)
def linear_regressor(node: OnnxNode) -> Expr:
    return apply_post_transform(
        node, _linear(node, int(node.attr("targets", 1))), node.attr("post_transform")
    )


def _linear(node: OnnxNode, rows: int) -> Expr:
    coefficients = np.asarray(node.attr("coefficients"), FLOAT).reshape(rows, -1)
    result = R.matmul(R.astype(node[0], FLOAT), Constant(np.ascontiguousarray(coefficients.T)))
    shift = node.attr("intercepts", None)
    return result if shift is None else R.add(result, row(shift))


@onnx_op("LinearClassifier", domain=CLASSIC)
def linear_classifier(node: OnnxNode) -> list[Any]:
    labels = node.attr("classlabels_ints", None)
    if labels is None:
        node.fail("classlabels_strings is not supported: expected classlabels_ints", INTEGER_LABELS)
    width = node.dims()[-1]
    rows = len(node.attr("intercepts", None) or labels)
    if isinstance(width, int) and width:
        rows = len(node.attr("coefficients")) // width
    scores = node.emit(_linear(node, rows))
    return classify(node, scores, labels, rows, node.attr("post_transform"))


def classify(node: OnnxNode, scores: Expr, labels: Any, count: int, transform: str) -> list[Any]:
    """Returns the label of the highest score, and all scores. A single column of scores belongs to
    the second of two labels."""
    label_values = row(labels, "int64")
    if count == 1 and len(labels) == 2:
        result = node.emit(apply_post_transform(node, scores, transform))
        limit = 0.0 if transform in ("NONE", "LOGISTIC") else 0.5
        second = reshape_to(R.greater(scores, number(limit, FLOAT)), (-1,))
        label = R.where(second, number(labels[1], "int64"), number(labels[0], "int64"))
        first_score = (
            R.subtract(number(1, FLOAT), result) if transform == "LOGISTIC" else R.negative(result)
        )
        return [label, R.concat(Tuple((first_score, result)), axis=1)]
    best = R.argmax(scores, axis=1)
    return [R.take(label_values, best, axis=0), apply_post_transform(node, scores, transform)]


def apply_post_transform(node: OnnxNode, x: Expr, transform: str) -> Expr:
    """Applies the function that the attribute `post_transform` names to scores."""
    if transform == "NONE":
        return x
    if transform == "LOGISTIC":
        return R.sigmoid(x)
    if transform == "SOFTMAX":
        return R.nn.softmax(x, axis=1)
    options = alternatives(POST_TRANSFORMS)
    raise node.wrong(f"post_transform: expected {options}, found {transform!r}")
