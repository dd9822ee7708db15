"""The tangent of the gradient of every op: its difference quotient, and a symmetric form."""

import numpy as np
import pytest

import structir
from structir.adjoints.functions import Adjoints
from structir.adjoints.tangents import Tangents
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.ir import IRModule
from tests.batching.test_gradients_of_every_op import EXAMPLES, with_losses
from tests.data.example_calls import ExampleCall, leaves

STEP = 1e-5
# The examples have operands at which a partial derivative jumps, or leave the domain.
KINKS = {"atanh", "floor_mod", "log", "mod"}


@pytest.mark.parametrize("name", sorted({e.name for e in EXAMPLES} - KINKS))
def test_tangents_of_gradients(name: str) -> None:
    for example in [e for e in EXAMPLES if e.name == name][:2]:
        check(example)


def check(example: ExampleCall) -> None:
    results = leaves(structir.interpret(example.module, "main", *example.values))
    module = with_losses(example, results)
    if module is None:
        return
    floats = [k for k, v in enumerate(example.values) if v.dtype == "float64"]
    adjoints = Adjoints(module)
    try:
        names = [module["loss"].params[k].name for k in floats]
        adjoints.add("gradient", "loss", names, 0, with_value=False)
        with_gradient = IRModule({**module.functions, **adjoints.generated})
        tangents = Tangents(with_gradient)
        tangents.add("second", "gradient", floats)
    except DiagnosticError:
        return
    whole = IRModule({**with_gradient.functions, **tangents.generated})
    rng = np.random.default_rng(0)
    shapes = [example.values[k].shape for k in floats]
    first, other = ([rng.normal(size=shape) for shape in shapes] for _ in range(2))

    def gradient(scale: float) -> list[np.ndarray]:
        moved = list(example.values)
        for k, direction in zip(floats, first, strict=True):
            moved[k] = moved[k] + scale * direction
        return leaves(structir.interpret(with_gradient, "gradient", *moved))

    def product(direction: list[np.ndarray]) -> list[np.ndarray]:
        return leaves(structir.interpret(whole, "second", *example.values, *direction)[1])

    try:
        pairs = list(zip(gradient(STEP), gradient(-STEP), strict=True))
    except ShapeMismatchError:
        return
    changes, others = product(first), product(other)
    for change, (after, before) in zip(changes, pairs, strict=True):
        expected = (after - before) / (2 * STEP)
        np.testing.assert_allclose(change, expected, rtol=1e-4, atol=1e-4)
    left = sum([np.sum(a * b) for a, b in zip(changes, other, strict=True)])
    right = sum([np.sum(a * b) for a, b in zip(others, first, strict=True)])
    np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-8)
