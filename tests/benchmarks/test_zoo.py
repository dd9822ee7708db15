"""The benchmark of architectures: its list, the comparison of results, the counts of states."""

import numpy as np
import pytest

from benchmarks.zoo import STATES, difference, parse_arguments, reached, selected, summary, table
from benchmarks.zoo_models import cases, small_fields

X = np.array([[1.0, -2.0], [np.inf, 1e-4]], "float32")


def test_every_case_runs_at_three_sizes_with_batch_1_and_length_1() -> None:
    every = cases()
    assert len(every) >= 150 and {name.partition(":")[0] for name in every} == {
        "torchvision",
        "timm",
        "transformers",
    }
    for case in every.values():
        batches, lengths = zip(*case.sizes, strict=True)
        assert len(set(case.sizes)) == 3 and 1 in batches and case.example[0] > 1
        assert all(axes for axes in case.axes.values())
        if "input_ids" in case.axes:
            assert 1 in lengths and case.example[1] > 1


@pytest.mark.parametrize(
    ("results", "reference", "text"),
    [
        ([X], [X.copy()], ""),
        ([X * np.float32(1 + 1e-5)], [X], ""),
        ([X], [X, X], "expected 2 results, found 1"),
        ([X[0]], [X], "result 0: expected the shape (2, 2), found (2,)"),
        ([X, np.where(X == 1, 1.5, X).astype("float32")], [X, X], "result 1: differs by 0.5"),
        ([X.astype("float64")], [X], "result 0: expected the dtype float32, found float64"),
        ([np.nan_to_num(X)], [X], "result 0: non-finite elements differ"),
        ([np.where(X == 1, np.float32("nan"), X)], [X], "result 0: differs by nan"),
        ([np.array([1, 2])], [np.array([1, 3])], "result 0: integers differ"),
        ([np.zeros((0, 2))], [np.zeros((0, 2))], ""),
    ],
)
def test_a_difference_is_described(results: list, reference: list, text: str) -> None:
    assert difference(results, reference).startswith(text)
    assert bool(difference(results, reference)) == bool(text)


def test_the_share_counts_only_exported_models() -> None:
    states = ["correct", "correct", "wrong", "not exported", "not built", "time limit"]
    records = [{"name": s, "state": s, "message": "", "seconds": 1.0} for s in states]
    assert summary(records).endswith("66.7% of 3 exported models are correct")
    assert table(records).row_count == len(records)


def test_states_are_reached_in_order() -> None:
    assert [sum(reached(state)) for state in STATES] == [0, 0, 1, 2, 2, 3]
    assert sum(reached("crashed")) == 0


def test_names_are_selected_by_words() -> None:
    names = ["timm:vit", "timm:vit2", "transformers:bert"]
    assert selected("", names) == names
    assert selected("vit$,bert", names) == ["timm:vit", "transformers:bert"]


def test_small_fields_of_nested_configurations() -> None:
    fields = {"n_layer": 12, "text_config": {"hidden_size": 512, "name": "x"}, "image_size": [2, 2]}
    small = {"hidden_size": 32, "name": "x"}
    assert small_fields(fields) == {"n_layer": 2, "text_config": small}


def test_options() -> None:
    options = parse_arguments(["--names", "vit", "--compiled", "--onnx"])
    assert options.compiled and options.onnx and options.limit > 0 and options.jobs == 1
