"""Weights bound as constants: sizes that they determine, and invalid arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import StructInfoError, StructIRError
from structir.ir import structural_equal
from structir.passes import BindParams

MODULE = structir.parse("""
@R.function
def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", 2), "float32")):
    k = T.int64()
    y = R.matmul(x, w)
    z = R.zeros((k,), "float32")
    return (y, z)
""")
AFTER = structir.parse("""
@R.function
def main(x: R.Tensor(("n", 1), "float32")):
    y = R.matmul(x, R.const([[3.0, 4.0]], "float32"))
    z = R.zeros((1,), "float32")
    return (y, z)
""")
W = np.array([[3.0, 4.0]], "float32")


def test_a_bound_weight_determines_symbolic_sizes(tmp_path: Path) -> None:
    bound = BindParams(values={"w": W})(MODULE)
    assert structural_equal(bound, AFTER)
    np.savez(tmp_path / "weights.npz", w=W)
    assert structural_equal(BindParams(file=str(tmp_path / "weights.npz"))(MODULE), AFTER)
    x = np.ones((5, 1), "float32")
    for a, b in zip(
        structir.interpret(MODULE, "main", x, W), structir.interpret(bound, "main", x), strict=True
    ):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("data", [W.astype("float64"), np.ones((1, 3), "float32"), W[0]])
def test_an_array_of_another_shape_or_dtype_is_an_error(data: np.ndarray) -> None:
    with pytest.raises(StructInfoError, match=r"bind_params: w: expected .*, found"):
        BindParams(values={"w": data})(MODULE)


def test_an_unknown_parameter_is_an_error() -> None:
    with pytest.raises(StructIRError, match="no parameter v; available: x, w"):
        BindParams(values={"v": W})(MODULE)


@pytest.mark.parametrize(
    ("bound", "other", "fitting", "wrong"),
    [
        ('("n * m",)', '("n", "m")', (2, 3), (4, 5)),
        ('("*r", 3)', '("*r",)', (2,), (4,)),
        ('("n + 4",)', '("n",)', (2,), (4,)),
        ('("n", "m")', '("n * m",)', (12,), (6,)),
        ('("n", 3)', '("*r", "n")', (5, 2), (5, 3)),
    ],
)
def test_a_size_of_the_array_is_checked_against_other_parameters(
    bound: str, other: str, fitting: tuple[int, ...], wrong: tuple[int, ...]
) -> None:
    module = structir.parse(
        f"@R.function\ndef main(w: R.Tensor({bound}, 'float32'), "
        f"x: R.Tensor({other}, 'float32')):\n"
        "    return R.add(R.sum(w), x)\n"
    )
    shapes = {"n * m": (6,), "*r": (2, 3), "n + 4": (6,), '"n", "m"': (3, 4), '"n", 3': (2, 3)}
    shape = next(shape for part, shape in shapes.items() if part in bound)
    weights = np.ones(shape, "float32")
    after = BindParams(values={"w": weights})(module)
    result = structir.interpret(after, "main", np.ones(fitting, "float32"))
    assert np.array_equal(result, np.full(fitting, weights.sum() + 1, "float32"))
    with pytest.raises(StructIRError):
        structir.interpret(after, "main", np.ones(wrong, "float32"))
    with pytest.raises(StructIRError):
        structir.compile(after)["main"](np.ones(wrong, "float32"))


TREE = structir.parse("""
@R.function
def main(
    x: R.Tensor(("n",), "float32"),
    params: R.Tuple(
        w=R.Tensor(("n",), "float32"),
        b=R.Tuple(R.Tensor(("m",), "int8"), R.Tensor((1,), "float32")),
    ),
):
    return R.multiply(R.add(x, params.w), params.b[1])
""")
W3, I2, B1 = np.arange(3, dtype="float32"), np.ones(2, "int8"), np.full(1, 2, "float32")


@pytest.mark.parametrize(
    "values",
    [
        {"params": {"b": (I2, B1), "w": W3}},
        {"params": (W3, [I2, B1])},
        {"params.w": W3, "params.b.0": I2, "params.b.1": B1},
        {"params.w": W3, "params.b": (I2, B1)},
    ],
)
def test_a_tuple_of_parameters_is_bound_by_the_names_of_its_fields(values: dict[str, Any]) -> None:
    bound = BindParams(values=values)(TREE)
    assert [param.struct_info.dims for param in bound["main"].params] == [(3,)]
    assert structural_equal(structir.parse(bound.script()), bound)
    x = np.ones(3, "float32")
    for result in (structir.interpret(bound, "main", x), structir.compile(bound)["main"](x)):
        assert np.array_equal(result, (x + W3) * 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"params": {"w": W3}}, "params: expected the fields w, b, found w"),
        ({"params": W3}, "params: expected the fields w, b, found ndarray"),
        ({"params.v": W3}, "params: expected the fields w, b, found v"),
        ({"params": {"w": W3, "b": (I2,)}}, "params.b: expected the fields 0, 1, found tuple"),
        ({"params": {}, "params.w": W3}, "found both params and params.w"),
        ({"other.w": W3}, "no parameter other.w"),
    ],
)
def test_a_wrong_tree_is_an_error_with_the_names_of_the_fields(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(StructIRError, match=message):
        BindParams(values=values)(TREE)
