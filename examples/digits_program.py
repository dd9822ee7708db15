"""The programs of the digits example: networks, their loss and the train step, as traced functions.

A network is a function of a tree of weights. `structir.value_and_grad` differentiates the loss, and
`structir.optim` updates the weights; the whole train step is compiled once for all batch sizes.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import structir
import structir.numpy as snp
from structir import lax, nn, optim

Shape = tuple[int, ...]
Weights = dict[str, Any]
RATES = {"sgd": 0.1, "adam": 0.003}
OPTIMIZERS = {name: getattr(optim, name)(rate) for name, rate in RATES.items()}


class Network(NamedTuple):
    """Weights with their shapes, and the logits of images of 64 pixels."""

    weights: Mapping[str, Shape]
    logits: Callable[[Weights, Any], Any]


def perceptron(w: Weights, x: Any) -> Any:
    """Two layers."""
    return nn.relu(x @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"]


def convolution(x: Any, kernel: Any, bias: Any) -> Any:
    """A convolution of NCHW images that keeps their size, relu, and the maximum of 2 x 2 pixels."""
    y = nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME") + bias)
    return lax.reduce_window(y, -snp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def convolutional(w: Weights, x: Any) -> Any:
    """Two convolutions and a layer."""
    images = x.reshape(-1, 1, 8, 8)
    first = convolution(images, w["k1"], w["c1"])
    second = convolution(first, w["k2"], w["c2"])
    return second.reshape(-1, 64) @ w["w"] + w["b"]


NETWORKS = {
    "mlp": Network({"w1": (64, 128), "b1": (128,), "w2": (128, 10), "b2": (10,)}, perceptron),
    "conv": Network(
        {
            **{"k1": (8, 1, 3, 3), "c1": (8, 1, 1)},
            **{"k2": (16, 8, 3, 3), "c2": (16, 1, 1)},
            **{"w": (64, 10), "b": (10,)},
        },
        convolutional,
    ),
}


def loss_of(network: Network) -> Callable[..., Any]:
    """Returns the mean cross-entropy of a batch with one-hot digits."""

    def loss(weights: Weights, pictures: Any, wanted: Any) -> Any:
        scores = nn.log_softmax(network.logits(weights, pictures))
        return -(wanted * scores).sum(axis=-1).mean()

    return loss


def train_step(network: Network, rule: str) -> Callable[..., Any]:
    """Returns a function from weights, the state of the optimizer and a batch to new weights, new
    state and the loss."""
    optimizer, loss = OPTIMIZERS[rule], loss_of(network)

    def step(weights: Weights, state: Any, pictures: Any, wanted: Any) -> Any:
        value, gradients = structir.value_and_grad(loss)(weights, pictures, wanted)
        weights, state = optimizer.step(weights, gradients, state)
        return weights, state, value

    return step


def first_weights(network: Network, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Returns initial weights: uniform, scaled to preserve the magnitude of activations."""
    rng = np.random.default_rng(seed)

    def drawn(shape: Shape) -> NDArray[np.float32]:
        bias = len([size for size in shape if size > 1]) < 2
        inputs = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        bound = 0.0 if bias else (6 / inputs) ** 0.5
        return rng.uniform(-bound, bound, shape).astype("float32")

    return {name: drawn(shape) for name, shape in network.weights.items()}
