"""The digits example learns; its compiled step is the interpreted one, and that of NumPy."""

import time

import numpy as np
import pytest

import structir
from digits import BATCH, Compiled, Digits, accuracy, batches, load_digits, train
from digits_program import KEPT, NETWORKS, first_weights, training_program

pytest.importorskip("sklearn")
every_program = pytest.mark.parametrize(
    ("network", "rule"), [(network, rule) for network in NETWORKS for rule in KEPT]
)


@pytest.fixture(scope="module")
def data() -> Digits:
    return load_digits()


@every_program
def test_a_compiled_step_is_the_interpreted_one(network: str, rule: str, data: Digits) -> None:
    module = training_program(NETWORKS[network], rule)
    assert [*module] == ["logits", "step"]
    pictures, wanted = next(batches(data, 0))
    weights = list(first_weights(NETWORKS[network]).values())
    kept = [np.full_like(w, 0.01) for w in weights * KEPT[rule]]
    numbers = np.asarray(0.01, "float32"), np.asarray(3, "float32")
    arguments = (wanted, pictures, *weights, *kept, *numbers)
    loss, *here = structir.compile(module)["step"](*arguments)
    same_loss, *there = structir.interpret(module, "step", *arguments)
    np.testing.assert_allclose(loss, same_loss, rtol=1e-5)
    for found, expected in zip(here, there, strict=True):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_rules_are_those_of_the_textbook(data: Digits) -> None:
    pictures, wanted = next(batches(data, 0))
    start = list(first_weights(NETWORKS["mlp"]).values())
    numbers = np.asarray(0.1, "float32"), np.asarray(1, "float32")
    step = structir.compile(training_program(NETWORKS["mlp"], "sgd"))["step"]
    _, moved = step(wanted, pictures, *start, *numbers)
    gradients = [(a - b) / np.float32(0.1) for a, b in zip(start, moved, strict=True)]
    step = structir.compile(training_program(NETWORKS["mlp"], "adam"))["step"]
    zeros = [np.zeros_like(w) for w in start * 2]
    _, moved, means, squares = step(wanted, pictures, *start, *zeros, *numbers)
    for gradient, old, new, mean, square in zip(
        gradients, start, moved, means, squares, strict=True
    ):
        np.testing.assert_allclose(mean, 0.1 * gradient, rtol=1e-2, atol=1e-6)
        np.testing.assert_allclose(square, 0.001 * gradient**2, rtol=1e-2, atol=1e-8)
        sure = np.abs(gradient) > 1e-4  # the first step goes by the sign
        np.testing.assert_allclose((old - new)[sure], 0.1 * np.sign(gradient)[sure], rtol=1e-2)


@every_program
def test_it_learns(
    network: str, rule: str, data: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = Compiled(network, rule)
    before = accuracy(trainer, data)
    ((loss, after, _),) = train([trainer], data, epochs=2).values()
    assert before < 0.35 and after > 0.75 and loss < 1.6
    assert trainer.steps == 2 * -(-len(data.digits) // BATCH)
    assert capsys.readouterr().out == ""


def test_progress_is_shown_on_a_terminal_alone(
    data: Digits, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    train([Compiled("mlp", "sgd")], data, epochs=1)
    out, err = capsys.readouterr()
    assert out == "" and "epochs" in err


def test_a_step_is_timed_by_the_processor(data: Digits) -> None:
    """A trainer that sleeps takes no time."""

    class Sleeping(Compiled):
        def step(self, pictures: np.ndarray, wanted: np.ndarray) -> float:
            time.sleep(0.02)
            return 0.0

    ((_, _, seconds),) = train([Sleeping("mlp", "sgd")], data, epochs=1).values()
    assert seconds < 0.01
