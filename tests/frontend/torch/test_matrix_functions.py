"""Matrix exponentials and triangular systems, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *operands: Any) -> Any:
        return self.function(*operands)


def assert_equal_to_torch(function: Any, *operands: Any) -> None:
    auto = torch.export.Dim.AUTO
    sizes = {"operands": tuple([{0: auto}] * len(operands))}
    program = torch.export.export(Call(function), operands, dynamic_shapes=sizes)
    module = from_exported_program(program)
    for values in (operands, [x[:1] for x in operands]):
        result = structir.interpret(module, "main", *[x.numpy() for x in values])
        expected = function(*values).numpy()
        scale = np.abs(expected).max()
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("scale", [0.0, 0.1, 2.0, 20.0])
def test_matrix_exponential_of_any_norm(scale: float) -> None:
    torch.manual_seed(0)
    a = torch.randn(3, 5, 5, dtype=torch.float64) * scale
    a[1] *= 0.01  # the number of squarings differs within the batch
    assert_equal_to_torch(torch.linalg.matrix_exp, a)


def test_matrix_exponential_of_rotations_by_large_angles() -> None:
    angle = torch.tensor([3.0, 700.0, 30000.0], dtype=torch.float64)[:, None, None]
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    assert_equal_to_torch(torch.linalg.matrix_exp, angle * turn)


def test_orthogonal_parametrizations_import() -> None:
    torch.manual_seed(0)
    model = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(6, 6))
    program = torch.export.export(model, (torch.ones(2, 6),))
    result = structir.interpret(from_exported_program(program), "main", np.ones((2, 6), "float32"))
    np.testing.assert_allclose(result, model(torch.ones(2, 6)).detach().numpy(), rtol=1e-4)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unitriangular", [False, True])
def test_triangular_systems_use_one_triangle(upper: bool, left: bool, unitriangular: bool) -> None:
    torch.manual_seed(0)
    a = torch.randn(2, 4, 4) + torch.eye(4) * 4
    b = torch.randn(2, 4, 3) if left else torch.randn(2, 3, 4)
    options = {"upper": upper, "left": left, "unitriangular": unitriangular}
    assert_equal_to_torch(lambda a, b: torch.linalg.solve_triangular(a, b, **options), a, b)
