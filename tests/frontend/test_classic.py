"""Ops of ai.onnx.ml, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx.helper import np_dtype_to_tensor_dtype

from structir.frontend.onnx_backend import Backend

RNG = np.random.default_rng(3)


def agree(op: str, *operands: Any, outputs: int = 1, **attributes: Any) -> None:
    names = [f"x{k}" for k in range(len(operands))]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, domain="ai.onnx.ml", **attributes)
    inputs = [
        helper.make_tensor_value_info(n, np_dtype_to_tensor_dtype(x.dtype), ["n", *x.shape[1:]])
        for n, x in zip(names, operands, strict=True)
    ]
    made = [helper.make_empty_tensor_value_info(r) for r in results]
    graph = helper.make_graph([node], "small", inputs, made)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, dict(zip(names, operands, strict=True)))
    for one, other in zip(Backend.run_model(model, operands), wanted, strict=True):
        assert one.shape == other.shape
        if other.dtype == object:
            assert (one == other).all()
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


X = RNG.standard_normal((5, 3)).astype("f4")


def test_features() -> None:
    agree("Scaler", X, offset=[0.1, 0.2, 0.3], scale=[2.0, 3.0, 4.0])
    agree("Binarizer", X, threshold=0.2)
    gaps = np.where(X > 0, X, np.float32(np.nan))
    agree("Imputer", gaps, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
    for norm in ("L1", "L2"):
        agree("Normalizer", X, norm=norm)
    agree("OneHotEncoder", np.array([1, 7, 3, 1, 2]), cats_int64s=[1, 2, 3])
    agree("FeatureVectorizer", X, X[:, :2], inputdimensions=[3, 2])


def test_labels() -> None:
    texts = np.array(["a", "b", "no", "a", ""], object)
    agree("LabelEncoder", texts, keys_strings=["a", "b"], values_int64s=[3, 4], default_int64=9)
    numbers = np.array([1, 5, 2, 2, 1])
    agree("LabelEncoder", numbers, keys_int64s=[1, 2], values_floats=[0.5, 1.5])
    agree("LabelEncoder", numbers, keys_int64s=[1, 2], values_strings=["one", "two"])


@pytest.mark.parametrize("how", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear_models(how: str) -> None:
    rows = RNG.standard_normal(12).tolist()
    agree("LinearRegressor", X, coefficients=rows[:6], intercepts=[0.1, 0.2], targets=2)
    attributes = {"coefficients": rows, "intercepts": [0.1, 0.2, 0.3, 0.4], "multi_class": 1}
    labels = {"classlabels_ints": [4, 7, 8, 9]}
    agree("LinearClassifier", X, outputs=2, post_transform=how, **attributes, **labels)


def grown(random: np.random.Generator, kind: str, targets: int) -> dict[str, Any]:
    """Returns three trees of depth 2; leaves have weights for one or two targets."""
    nodes: dict[str, list[Any]] = {
        name: []
        for name in (
            "treeids",
            "nodeids",
            "featureids",
            "values",
            "modes",
            "truenodeids",
            "falsenodeids",
        )
    }
    leaves: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(3):
        for number in range(7):
            inner = number < 3
            mode = "BRANCH_LEQ" if inner else "LEAF"
            after = (2 * number + 1, 2 * number + 2) if inner else (0, 0)
            row = (tree, number, int(random.integers(3)), float(random.normal()), mode, *after)
            for name, item in zip(nodes, row, strict=True):
                nodes[name].append(item)
            for target in [] if inner else random.permutation(targets)[: 1 + number % 2]:
                entry = (tree, number, int(target), float(random.random()))
                for name, item in zip(leaves, entry, strict=True):
                    leaves[name].append(item)
    made = {f"nodes_{k}": v for k, v in nodes.items()}
    return made | {f"{kind}_{k}": v for k, v in leaves.items()}


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_that_give_numbers(how: str) -> None:
    trees = grown(np.random.default_rng(1), "target", 2)
    agree("TreeEnsembleRegressor", X, n_targets=2, aggregate_function=how, **trees)


@pytest.mark.parametrize("how", ["NONE", "SOFTMAX"])
def test_trees_that_choose(how: str) -> None:
    trees = grown(np.random.default_rng(2), "class", 3)
    labels = {"classlabels_int64s": [2, 5, 6]}
    agree("TreeEnsembleClassifier", X, outputs=2, post_transform=how, **labels, **trees)


def test_trees_that_choose_one_of_two() -> None:
    trees = grown(np.random.default_rng(4), "class", 1)
    agree("TreeEnsembleClassifier", X, outputs=2, classlabels_int64s=[0, 1], **trees)
