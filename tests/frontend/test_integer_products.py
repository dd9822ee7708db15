"""MatMulInteger with a constant: all dtypes and zero points, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from structir.frontend.onnx_backend import Backend
from tests.frontend.models import made, node, value

TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


def drawn(dtype: str, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    random = np.random.default_rng(len(shape))
    return random.integers(limits.min, limits.max + 1, shape).astype(dtype)


def zero_points(dtype: str, columns: int) -> list[Any]:
    """Zero points: absent, the shift from uint8 to int8, an odd one, one per column."""
    plain = np.array(128 if dtype == "uint8" else 0, dtype)
    return [None, plain, np.array(77, dtype), drawn(dtype, columns)]


@pytest.mark.parametrize(("left", "right"), list(itertools.product(TYPES, TYPES)))
def test_zero_points(left: str, right: str) -> None:
    weights, x = drawn(right, 10, 19), drawn(left, 2, 5, 10)
    for own, other in itertools.product([None, 3, "run"], zero_points(right, 19)):
        inputs, names = [value("x", [2, "n", 10], TYPES[left])], ["x", "w", "", ""]
        constants, given = {"w": weights}, [x]
        if own == 3:
            constants["z"], names[2] = np.array(3, left), "z"
        if own == "run":
            inputs.append(value("z", [], TYPES[left]))
            given.append(np.array(11, left))
            names[2] = "z"
        if other is not None:
            constants["v"], names[3] = other, "v"
        product = node("MatMulInteger", "", "y")
        product.input[:] = names
        (found,) = Backend.prepare(made([product], inputs, ["y"], constants)).run(given)
        shift = {None: 0, 3: 3, "run": 11}[own]
        moved = weights.astype(int) - (0 if other is None else other.astype(int))
        assert (found == (x.astype(int) - shift) @ moved).all(), (own, other)


def test_a_zero_point_for_each_row() -> None:
    x, weights, zeros = drawn("uint8", 5, 10), drawn("int8", 10, 19), drawn("uint8", 5)
    inputs = [value("x", [5, 10], TensorProto.UINT8), value("z", [5], TensorProto.UINT8)]
    model = made([node("MatMulInteger", "x w z", "y")], inputs, ["y"], {"w": weights})
    (found,) = Backend.prepare(model).run([x, zeros])
    assert (found == (x.astype(int) - zeros[:, None]) @ weights.astype(int)).all()
