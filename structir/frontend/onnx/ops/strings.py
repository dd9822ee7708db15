"""Mappings of ops on strings, which call external functions: StructIR has no string dtype."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import onnx_op
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr, StringImm
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.script import R


def call_string_function(name: str, *args: Expr, info: StructInfo) -> Expr:
    """Calls an external function on strings."""
    return R.call_pure_packed(f"text.{name}", *args, sinfo_args=info)


@onnx_op("StringConcat")
def concat(node: OnnxNode) -> Expr:
    rank = max(node.rank(0), node.rank(1))
    return call_string_function("joined", node[0], node[1], info=TensorStructInfo(None, None, rank))


@onnx_op("StringSplit")
def split(node: OnnxNode) -> list[Any]:
    rank = node.rank()
    infos = TensorStructInfo(None, None, rank + 1), TensorStructInfo(node.dims(), "int64")
    max_splits = node.attr("maxsplit", None)
    result = node.emit(
        call_string_function(
            "split",
            node[0],
            StringImm(node.attr("delimiter", None) or ""),
            PrimValue(-1 if max_splits is None else int(max_splits)),
            info=TupleStructInfo(infos),
        )
    )
    return [result[0], result[1]]


@onnx_op("RegexFullMatch")
def regex_full_match(node: OnnxNode) -> Expr:
    pattern = node.attr("pattern", "")
    try:
        re.compile(pattern)
    except re.error as error:
        node.fail(f"invalid regular expression: {error}")
    info = TensorStructInfo(node.dims(), "bool")
    return call_string_function("matches", node[0], StringImm(pattern), info=info)


@onnx_op("StringNormalizer")
def string_normalizer(node: OnnxNode) -> Expr:
    stops = "\0".join(node.attr("stopwords", None) or ())
    is_case_sensitive = PrimValue(int(node.flag("is_case_sensitive")))
    case = StringImm(node.choice("case_change_action", ("NONE", "LOWER", "UPPER"), "NONE"))
    info = TensorStructInfo(None, None, node.rank())
    return call_string_function(
        "normalised", node[0], case, is_case_sensitive, StringImm(stops), info=info
    )


@onnx_op("TfIdfVectorizer")
def tf_idf_vectorizer(node: OnnxNode) -> Expr:
    """Builds TfIdfVectorizer: n-gram counts, weights, or their product, according to `mode`."""
    strings, weights = node.attr("pool_strings", None), node.attr("weights", None)
    pool: Expr = (
        StringImm("\0".join(strings))
        if strings is not None
        else _int64_attribute(node, "pool_int64s")
    )
    width = max(node.attr("ngram_indexes")) + 1
    lengths = [int(node.attr(f"{name}_gram_length")) for name in ("min", "max")]
    result = call_string_function(
        "ngrams",
        node[0],
        pool,
        _int64_attribute(node, "ngram_counts"),
        _int64_attribute(node, "ngram_indexes"),
        ShapeExpr(tuple(lengths)),
        PrimValue(int(node.attr("max_skip_count"))),
        info=TensorStructInfo((*node.dims()[:-1], width), "float32"),
    )
    mode = node.choice("mode", ("TF", "IDF", "TFIDF"))
    if mode == "TF" or (mode == "TFIDF" and weights is None):
        return result
    zero = Constant(np.zeros((), np.float32))
    column_weights = np.ones(width, np.float32)
    if weights is not None:
        column_weights[list(node.attr("ngram_indexes"))] = weights
    if mode == "TFIDF":
        return R.multiply(result, Constant(column_weights))
    return R.where(R.greater(result, zero), Constant(column_weights), zero)


def _int64_attribute(node: OnnxNode, name: str) -> Constant:
    return Constant(np.asarray(node.attr(name), np.int64))
