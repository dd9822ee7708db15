"""The encoder's program interpreted and compiled, against PyTorch; and what the demo prints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sentence_encoder
import structir
from minilm_files import Weights
from minilm_program import minilm_text

from .conftest import Case
from .test_minilm import assert_case


@pytest.fixture(scope="module")
def program() -> Any:
    return structir.parse(minilm_text(), filename="minilm")


def test_text_round_trip(program: Any) -> None:
    assert structir.structural_equal(structir.parse(program.script()), program)


def test_one_compilation_serves_every_size(
    program: Any, cases: list[Case], weights: Weights
) -> None:
    executable = structir.compile(program)
    for case in cases:
        inputs = (case.input_ids, case.attention_mask, *weights.values())
        assert_case(case, *executable["main"](*inputs))
    assert executable.compile_count == 1


def test_interpreter_agrees_with_pytorch(program: Any, cases: list[Case], weights: Weights) -> None:
    for case in cases:
        inputs = (case.input_ids, case.attention_mask, *weights.values())
        assert_case(case, *structir.interpret(program, "main", *inputs))


def test_wrong_mask_is_refused(program: Any, cases: list[Case], weights: Weights) -> None:
    executable = structir.compile(program)
    longer = np.ones((1, 17), np.int64)
    with pytest.raises(structir.errors.ShapeMismatchError, match="attention_mask"):
        executable["main"](cases[0].input_ids, longer, *weights.values())


@pytest.mark.exhaustive
def test_demo_prints_its_table(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    sentence_encoder.main()
    printed, progress = capsys.readouterr()
    assert progress == ""
    assert "How alike the sentences are" in printed
    assert "compiled 1 time" in printed
    assert printed.count("NumPy op by op") == len(sentence_encoder.BATCHES)


def test_times_are_those_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([2.0, 2.5])
    monkeypatch.setattr(sentence_encoder.time, "process_time", lambda: next(clock))
    idle: Any = lambda *_: None  # noqa: E731
    assert sentence_encoder.seconds(idle, (np.ones(1), np.ones(1))) == 0.5
