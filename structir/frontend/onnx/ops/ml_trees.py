"""Mappings of the decision tree ensembles of ai.onnx.ml: TreeEnsemble and the two older ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.ml_ops import (
    FLOAT,
    INTEGER_LABELS,
    apply_post_transform,
    as_floats,
    classify,
    row,
)
from structir.frontend.onnx.registry import CLASSIC, R, onnx_op
from structir.frontend.onnx.tensors import array_of
from structir.frontend.onnx.trees import LEAF, MEMBER, Trees, tree_kernel
from structir.frontend.scalars import number
from structir.ir.expr import Constant, Expr
from structir.ir.struct_info import TensorStructInfo

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def tree_scores(node: OnnxNode, trees: Trees, targets: int, aggregate: str) -> Expr:
    """Builds a tree ensemble; returns the combined leaf weights of each target."""
    x = node.emit(as_floats(node))
    info = node.tensor_info(x)
    dtype, kernel_kind = (
        str(info.dtype),
        "sum" if aggregate in ("SUM", "AVERAGE") else aggregate.lower(),
    )
    shape = (node.dims()[0], targets)
    call = R.call_kernel(
        node.importer.builder.kernel(tree_kernel(kernel_kind, dtype)),
        (x, *[Constant(a) for a in trees.arrays(dtype)]),
        out_sinfo=(TensorStructInfo(shape, dtype), TensorStructInfo(shape, "bool")),
    )
    result: Expr = node.emit(node.emit(call)[0])
    if aggregate == "AVERAGE":
        result = R.divide(result, number(len(trees.roots), dtype))
    return result


@onnx_op("TreeEnsemble", domain=CLASSIC)
def tree_ensemble(node: OnnxNode) -> Expr:
    trees = _current_trees(node)
    aggregate = AGGREGATES[node.choice("aggregate_function", range(len(AGGREGATES)), 1)]
    result = tree_scores(node, trees, int(node.attr("n_targets")), aggregate)
    return apply_post_transform(
        node, result, TRANSFORMS[node.choice("post_transform", range(len(TRANSFORMS)), 0)]
    )


def _numbers(node: OnnxNode, name: str) -> list[Any]:
    value = node.attr(name, None)
    return [] if value is None else array_of(value, node.importer.files).ravel().tolist()


def _current_trees(node: OnnxNode) -> Trees:
    """Returns the trees of TreeEnsemble: inner nodes, then leaves. NaN terminates each member
    set."""
    modes, members = _numbers(node, "nodes_modes"), _numbers(node, "membership_values")
    weights = _numbers(node, "leaf_weights")
    inner, leaves = len(modes), len(weights)
    ends = [k for k, v in enumerate(members) if v != v]
    first, last, start = [0] * inner, [0] * inner, 0
    for k, mode in enumerate(modes):
        if mode == MEMBER:
            if not ends:
                node.fail("membership_values: expected NaN at the end of each set")
            first[k], last[k] = start, ends.pop(0)
            start = last[k] + 1

    def children(side: str) -> list[int]:
        child_ids, leaf_flags = node.attr(f"nodes_{side}nodeids"), node.attr(f"nodes_{side}leafs")
        return [p + inner * bool(f) for p, f in zip(child_ids, leaf_flags, strict=True)] + [
            0
        ] * leaves

    missing = node.attr("nodes_missing_value_tracks_true", None) or [0] * inner
    return Trees(
        [*modes, *[LEAF] * leaves],
        [*node.attr("nodes_featureids"), *[0] * leaves],
        [*_numbers(node, "nodes_splits"), *[0.0] * leaves],
        children("true"),
        children("false"),
        [*missing, *[0] * leaves],
        [*first, *range(leaves)],
        [*last, *range(1, leaves + 1)],
        members,
        node.attr("tree_roots"),
        weights,
        node.attr("leaf_targetids"),
    )


@onnx_op("TreeEnsembleRegressor", domain=CLASSIC)
def tree_ensemble_regressor(node: OnnxNode) -> Expr:
    aggregate, targets = (
        node.choice("aggregate_function", AGGREGATES, "SUM"),
        int(node.attr("n_targets")),
    )
    result = tree_scores(node, _legacy_trees(node, "target"), targets, aggregate)
    base = node.attr("base_values", None)
    result = result if base is None else R.add(result, row(base))
    return apply_post_transform(node, R.astype(result, FLOAT), node.attr("post_transform"))


@onnx_op("TreeEnsembleClassifier", domain=CLASSIC)
def tree_ensemble_classifier(node: OnnxNode) -> list[Any]:
    labels = node.attr("classlabels_int64s", None)
    if labels is None:
        node.fail(
            "classlabels_strings is not supported: expected classlabels_int64s", INTEGER_LABELS
        )
    trees = _legacy_trees(node, "class")
    is_single_column = len(labels) == 2 and len(set(trees.targets)) == 1
    if is_single_column:
        trees = attrs.evolve(trees, targets=[0] * len(trees.targets))
    result = tree_scores(node, trees, 1 if is_single_column else len(labels), "SUM")
    base = node.attr("base_values", None)
    result = node.emit(R.astype(result if base is None else R.add(result, row(base)), FLOAT))
    transform = node.attr("post_transform")
    if is_single_column and transform == "NONE":
        return _two_labels(node, result, labels)
    return classify(node, result, labels, 1 if is_single_column else len(labels), transform)


def _two_labels(node: OnnxNode, scores: Expr, labels: Sequence[int]) -> list[Any]:
    """Returns the labels and scores for a single column of scores, which belongs to the second
    label."""
    is_second = R.reshape(R.greater(scores, number(0.5, FLOAT)), (-1,))
    label = R.where(is_second, number(labels[1], "int64"), number(labels[0], "int64"))
    return [label, R.concat((R.subtract(number(1, FLOAT), scores), scores), axis=1)]


def _legacy_trees(node: OnnxNode, kind: str) -> Trees:
    """Returns the trees of the older ops, which identify nodes by tree id and node id."""
    tree_ids, numbers = node.attr("nodes_treeids"), node.attr("nodes_nodeids")
    indices = {pair: k for k, pair in enumerate(zip(tree_ids, numbers, strict=True))}
    modes = [_mode(node, name) for name in node.attr("nodes_modes")]
    ids = zip(node.attr(f"{kind}_treeids"), node.attr(f"{kind}_nodeids"), strict=True)
    leaf_indices = [indices[pair] for pair in ids]
    order = np.argsort(leaf_indices, kind="stable")
    bounds = np.searchsorted(np.asarray(leaf_indices)[order], np.arange(len(modes) + 1))

    def child(side: str) -> list[int]:
        branches = zip(tree_ids, node.attr(f"nodes_{side}nodeids"), modes, strict=True)
        return [0 if mode == LEAF else indices[tree, k] for tree, k, mode in branches]

    weights, targets = node.attr(f"{kind}_weights"), node.attr(f"{kind}_ids")
    roots: dict[int, int] = {}
    for k, tree in enumerate(tree_ids):
        roots.setdefault(tree, k)
    missing = node.attr("nodes_missing_value_tracks_true", None) or [0] * len(modes)
    return Trees(
        modes,
        node.attr("nodes_featureids"),
        node.attr("nodes_values"),
        child("true"),
        child("false"),
        missing,
        bounds[:-1].tolist(),
        bounds[1:].tolist(),
        [],
        list(roots.values()),
        [weights[k] for k in order],
        [targets[k] for k in order],
    )


def _mode(node: OnnxNode, name: str) -> int:
    if name == "LEAF":
        return LEAF
    mode = name.removeprefix("BRANCH_")
    if mode not in MODES[:-1]:
        options = ", ".join(f"BRANCH_{mode}" for mode in MODES[:-1])
        node.fail(f"nodes_modes: expected LEAF, {options}, found {name!r}")
    return MODES.index(mode)
