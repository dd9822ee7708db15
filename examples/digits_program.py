"""The programs of the digits example: networks, their loss, and optimizers, in the IR.

The pass `gradient` computes the gradient of the loss. An optimizer is one function that updates a
weight; `training_program` builds one training step from network, gradient and optimizer.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from structir import parse, passes
from structir.ir import BlockBuilder, Call, IRModule, TensorStructInfo, Tuple, Var

Shape = tuple[int, ...]


class Network(NamedTuple):
    """Weights with their shapes, and the source that computes `y` from the images `x` of 64
    pixels."""

    weights: Mapping[str, Shape]
    lines: str


NETWORKS = {
    "mlp": Network(
        {"w1": (64, 128), "b1": (128,), "w2": (128, 10), "b2": (10,)},
        """
        h = R.nn.relu(R.matmul(x, w1) + b1)
        y = R.matmul(h, w2) + b2""",
    ),
    "conv": Network(
        {
            **{"k1": (8, 1, 3, 3), "c1": (8, 1, 1)},
            **{"k2": (16, 8, 3, 3), "c2": (16, 1, 1)},
            **{"w": (64, 10), "b": (10,)},
        },
        """
        picture = R.reshape(x, (n, 1, 8, 8))
        a = R.nn.relu(R.nn.conv2d(picture, k1, padding=[1, 1]) + c1)
        p = R.nn.max_pool2d(a, pool_size=[2, 2], strides=[2, 2])
        q = R.nn.relu(R.nn.conv2d(p, k2, padding=[1, 1]) + c2)
        s = R.nn.max_pool2d(q, pool_size=[2, 2], strides=[2, 2])
        y = R.matmul(R.reshape(s, (n, 64)), w) + b""",
    ),
}

RULES = """
@R.function(private=True)
def sgd_{name}(weight: R.Tensor({shape}, "float32"), gradient: R.Tensor({shape}, "float32"),
               rate: R.Tensor((), "float32")):
    with R.dataflow():
        new = weight - rate * gradient
        R.output(new)
    return (new,)


@R.function(private=True)
def adam_{name}(weight: R.Tensor({shape}, "float32"), gradient: R.Tensor({shape}, "float32"),
                rate: R.Tensor((), "float32"), mean: R.Tensor({shape}, "float32"),
                square: R.Tensor({shape}, "float32"), steps: R.Tensor((), "float32")):
    with R.dataflow():
        new_mean = mean * {beta1} + gradient * {rest1}
        new_square = square * {beta2} + R.square(gradient) * {rest2}
        seen = {one} - R.power({beta1}, steps)
        spread = {one} - R.power({beta2}, steps)
        size = R.sqrt(new_square / spread) + {least}
        new = weight - rate * (new_mean / seen) / size
        R.output(new, new_mean, new_square)
    return (new, new_mean, new_square)
"""
NUMBERS = {"one": 1, "beta1": 0.9, "rest1": 0.1, "beta2": 0.999, "rest2": 0.001, "least": 1e-8}
KEPT = {"sgd": 0, "adam": 2}  # tensors that a rule keeps for each weight from step to step


def program(network: Network) -> IRModule:
    """Returns the module with `logits`, `loss` and the optimizers."""
    weights = [f'{name}: R.Tensor({shape}, "float32")' for name, shape in network.weights.items()]
    constants = {name: f'R.const({value!r}, "float32")' for name, value in NUMBERS.items()}
    rules = [RULES.format(name=n, shape=s, **constants) for n, s in network.weights.items()]
    pictures = f'x: R.Tensor(("n", 64), "float32"), {", ".join(weights)}'
    return parse(f"""
@R.function
def logits({pictures}):
    n = T.int64()
    with R.dataflow():{network.lines}
        R.output(y)
    return y


@R.function
def loss(wanted: R.Tensor(("n", 10), "float32"), {pictures}):
    with R.dataflow():
        y = logits(x, {", ".join(network.weights)})
        l = R.nn.cross_entropy_with_logits(R.nn.log_softmax(y), wanted)
        R.output(l)
    return l
{"".join(rules)}""")


def training_program(network: Network, rule: str) -> IRModule:
    """Returns a module with `logits` and `step`. `step` maps a batch, the weights, the state of the
    optimizer, the learning rate and the step number to the loss, new weights and new state."""
    names = list(network.weights)
    together = passes.pipeline("inline{functions=logits}")(program(network))
    module = passes.Gradient(function="loss", parameters=", ".join(names))(together)
    builder = BlockBuilder(module)
    loss = module["loss_adjoint"]
    batch, weights = list(loss.params[:2]), list(loss.params[2:])
    batch = [Var(param.name, param.struct_info) for param in batch]
    weights = [Var(param.name, param.struct_info) for param in weights]
    kept = [[Var(f"{w.name}_{k}", w.struct_info) for w in weights] for k in range(KEPT[rule])]
    rate, steps = (Var(name, TensorStructInfo((), "float32")) for name in ("rate", "steps"))
    params = [*batch, *weights, *(var for each in kept for var in each), rate, steps]
    with builder.function("step", params):
        found = builder.emit(Call(builder.global_var("loss_adjoint"), (*batch, *weights)))
        gradients = builder.emit(found[1])
        columns = []
        for number, weight in enumerate(weights):
            own = [each[number] for each in kept]
            more = (*own, steps) if own else ()
            given = (weight, builder.emit(gradients[number]), rate, *more)
            new = builder.emit(Call(builder.global_var(f"{rule}_{weight.name}"), given))
            columns.append([builder.emit(new[k]) for k in range(1 + len(own))])
        rows = [Tuple(tuple(row)) for row in zip(*columns, strict=True)]
        builder.emit_func_output(Tuple((builder.emit(found[0]), *rows)))
    together = passes.pipeline("inline,canonicalise,cse")(builder.get())
    return passes.DeadCodeElimination(entries="logits step")(together)


def first_weights(network: Network, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Returns initial weights: uniform, scaled to preserve the magnitude of activations."""
    rng = np.random.default_rng(seed)

    def drawn(shape: Shape) -> NDArray[np.float32]:
        bias = len([size for size in shape if size > 1]) < 2
        inputs = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        bound = 0.0 if bias else (6 / inputs) ** 0.5
        return rng.uniform(-bound, bound, shape).astype("float32")

    return {name: drawn(shape) for name, shape in network.weights.items()}
