"""Trains a small network on handwritten digits, and the same network in PyTorch if it is installed.

The network, its loss, its gradient and the optimizer are one traced function, compiled once for all
batch sizes (`digits_program.py`). Both systems start from the same weights and train on the
same batches with one thread; times are CPU times.

    python examples/digits.py --network conv --rule adam
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np
from rich.console import Console
from rich.progress import Progress

import structir
from digits_program import NETWORKS, OPTIMIZERS, RATES, first_weights, train_step

BATCH = 64


class Digits(NamedTuple):
    """Images of 64 pixels in [0, 1] with their digits; a fifth of them is the test set."""

    pictures: np.ndarray
    digits: np.ndarray
    test_pictures: np.ndarray
    test_digits: np.ndarray


class Trainer(Protocol):
    """Trains a network batch by batch."""

    name: str

    def step(self, pictures: np.ndarray, wanted: np.ndarray) -> float:
        """Runs one training step on a batch and returns its loss."""
        ...

    def logits(self, pictures: np.ndarray) -> np.ndarray:
        """Returns the logits of images."""
        ...


def load_digits() -> Digits:
    """Returns the digits data set of scikit-learn."""
    from sklearn import datasets

    pictures, digits = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    pictures = (pictures[order] / 16).astype("float32")
    digits, kept = digits[order], len(digits) // 5
    return Digits(pictures[kept:], digits[kept:], pictures[:kept], digits[:kept])


class Compiled:
    """Trains the network in StructIR."""

    name = "StructIR"

    def __init__(self, network: str, rule: str) -> None:
        chosen = NETWORKS[network]
        self.compiled_step: Callable[..., Any] = structir.jit(
            train_step(chosen, rule), donate_argnums=(0, 1), num_threads=1
        )
        self.compiled_logits: Callable[..., Any] = structir.jit(chosen.logits, num_threads=1)
        self.weights: Any = first_weights(chosen)
        self.state = OPTIMIZERS[rule].init(self.weights)

    def step(self, pictures: np.ndarray, wanted: np.ndarray) -> float:
        self.weights, self.state, loss = self.compiled_step(
            self.weights, self.state, pictures, wanted
        )
        return float(loss)

    def logits(self, pictures: np.ndarray) -> np.ndarray:
        logits: np.ndarray = self.compiled_logits(self.weights, pictures)
        return logits


class Torch:
    """Trains the same network in PyTorch, with one thread."""

    name = "PyTorch"

    def __init__(self, network: str, rule: str) -> None:
        import torch

        torch.set_num_threads(1)
        self.torch, functional = torch, torch.nn.functional
        start = first_weights(NETWORKS[network])
        w = {name: torch.tensor(value, requires_grad=True) for name, value in start.items()}
        made = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[rule]
        self.optimiser = made(w.values(), lr=RATES[rule])
        self.loss = functional.cross_entropy

        def mlp(x: Any) -> Any:
            return functional.relu(x @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"]

        def conv(x: Any) -> Any:
            a = functional.conv2d(x.reshape(-1, 1, 8, 8), w["k1"], w["c1"].reshape(-1), padding=1)
            p = functional.max_pool2d(functional.relu(a), 2)
            q = functional.conv2d(p, w["k2"], w["c2"].reshape(-1), padding=1)
            s = functional.max_pool2d(functional.relu(q), 2)
            return s.reshape(-1, 64) @ w["w"] + w["b"]

        self.network = {"mlp": mlp, "conv": conv}[network]

    def step(self, pictures: np.ndarray, wanted: np.ndarray) -> float:
        self.optimiser.zero_grad()
        logits = self.network(self.torch.from_numpy(pictures))
        loss = self.loss(logits, self.torch.from_numpy(wanted))
        loss.backward()
        self.optimiser.step()
        return float(loss.detach())

    def logits(self, pictures: np.ndarray) -> np.ndarray:
        with self.torch.no_grad():
            found: np.ndarray = self.network(self.torch.from_numpy(pictures)).numpy()
        return found


def batches(data: Digits, epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields shuffled batches of images with one-hot digits."""
    order = np.random.default_rng(epoch).permutation(len(data.digits))
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        yield data.pictures[chosen], np.eye(10, dtype="float32")[data.digits[chosen]]


def accuracy(trainer: Trainer, data: Digits) -> float:
    """Returns the test accuracy."""
    told = trainer.logits(data.test_pictures).argmax(axis=1)
    return float((told == data.test_digits).mean())


def train(
    trainers: list[Trainer], data: Digits, epochs: int
) -> dict[str, tuple[float, float, float]]:
    """Returns the loss of the last epoch, the accuracy and the median CPU seconds per step."""
    seconds: dict[str, list[float]] = {trainer.name: [] for trainer in trainers}
    losses = dict.fromkeys(seconds, 0.0)
    terminal = Console(stderr=True)
    with Progress(console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        for epoch in progress.track(range(epochs), description="epochs"):
            rounds = list(batches(data, epoch))
            losses = dict.fromkeys(seconds, 0.0)
            for number, (pictures, wanted) in enumerate(rounds):
                for trainer in trainers[:: 1 if number % 2 else -1]:
                    start = time.process_time()
                    losses[trainer.name] += trainer.step(pictures, wanted) / len(rounds)
                    seconds[trainer.name].append(time.process_time() - start)
    return {
        trainer.name: (
            losses[trainer.name],
            accuracy(trainer, data),
            float(np.median(seconds[trainer.name])),
        )
        for trainer in trainers
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=NETWORKS, default="mlp")
    parser.add_argument("--rule", choices=OPTIMIZERS, default="adam")
    parser.add_argument("--epochs", type=int, default=20)
    chosen = parser.parse_args()
    trainers: list[Trainer] = [Compiled(chosen.network, chosen.rule)]
    if find_spec("torch") is not None:
        trainers.append(Torch(chosen.network, chosen.rule))
    found = train(trainers, load_digits(), chosen.epochs)
    print(f"{chosen.network}, {chosen.rule}, {chosen.epochs} epochs of batches of {BATCH}")
    for name, (loss, share, seconds) in found.items():
        print(
            f"{name:9} loss {loss:.4f}   test accuracy {share:.1%}   {seconds * 1e6:.0f} us a step"
        )


if __name__ == "__main__":
    main()
