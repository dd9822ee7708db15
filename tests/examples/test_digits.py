"""The digits example learns; its compiled step is the interpreted one, and that of NumPy."""

import time
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import structir
from digits import BATCH, Compiled, Digits, accuracy, batches, load_digits, train
from digits_program import NETWORKS, OPTIMIZERS, RATES, first_weights, loss_of, train_step

# `importorskip` would import it in each process that collects tests, for 2 s.
pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="sklearn is not installed")
every_program = pytest.mark.parametrize(
    ("network", "rule"), [(network, rule) for network in NETWORKS for rule in OPTIMIZERS]
)


@pytest.fixture(scope="module")
def data() -> Digits:
    return load_digits()


@every_program
def test_a_compiled_step_is_the_interpreted_one(network: str, rule: str, data: Digits) -> None:
    step = structir.jit(train_step(NETWORKS[network], rule))
    pictures, wanted = next(batches(data, 0))
    weights = first_weights(NETWORKS[network])
    state = OPTIMIZERS[rule].init(weights)
    arguments = (weights, state, pictures, wanted)
    results = structir.tree.leaves(step(*arguments))
    interpreted = structir.interpret(step.trace(*arguments), "main", *map(nested, arguments))
    for result, expected in zip(results, structir.tree.leaves(interpreted), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)


def nested(value: Any) -> Any:
    """A tree as nested tuples, as programs have them; the keys of a dict are sorted."""
    if isinstance(value, dict):
        return tuple([nested(value[key]) for key in sorted(value)])
    return () if value is None else value


def test_the_rules_are_those_of_the_textbook(data: Digits) -> None:
    pictures, wanted = next(batches(data, 0))
    network = NETWORKS["mlp"]
    start = first_weights(network)
    gradients = structir.grad(loss_of(network))(start, pictures, wanted)
    moved = {}
    for rule, optimizer in OPTIMIZERS.items():
        step = structir.jit(train_step(network, rule))
        moved[rule], state, _ = step(start, optimizer.init(start), pictures, wanted)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(
            start[name] - moved["sgd"][name], RATES["sgd"] * gradient, rtol=1e-2, atol=1e-6
        )
        np.testing.assert_allclose(state["mean"][name], 0.1 * gradient, rtol=1e-2, atol=1e-6)
        sure = np.abs(gradient) > 1e-4  # the first step goes by the sign
        change = (start[name] - moved["adam"][name])[sure]
        np.testing.assert_allclose(change, RATES["adam"] * np.sign(gradient)[sure], rtol=1e-2)


@every_program
def test_it_learns(
    network: str, rule: str, data: Digits, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = Compiled(network, rule)
    before = accuracy(trainer, data)
    ((loss, after, _),) = train([trainer], data, epochs=2).values()
    assert before < 0.35 and after > 0.75 and loss < 1.6
    assert int(trainer.state["step"]) == 2 * -(-len(data.digits) // BATCH)
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
