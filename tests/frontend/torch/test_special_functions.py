"""Error functions, modified Bessel functions and `ldexp`, compared with torch."""

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
    program = torch.export.export(Call(function), operands)
    module = from_exported_program(program)
    result = structir.interpret(module, "main", *[x.numpy() for x in operands])
    np.testing.assert_allclose(result, function(*operands).numpy(), rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_erfinv_is_accurate_near_its_ends_and_in_the_middle(dtype: Any) -> None:
    distances = 10.0 ** -torch.arange(0, 7, 0.25, dtype=dtype)
    positive = torch.cat([distances, 1 - distances])
    special = torch.tensor([0.0, 1.0, -1.0, 1.5, -2.0, torch.nan], dtype=dtype)
    assert_equal_to_torch(torch.erfinv, torch.cat([positive, -positive, special]))


def test_ldexp_of_integers_and_tensors_that_broadcast() -> None:
    x = torch.tensor([[0.5], [-3.0]])
    assert_equal_to_torch(torch.ldexp, x, torch.tensor([-3, 0, 5]))


SPECIAL = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan], dtype=torch.float64)
FUNCTIONS = {
    "erfc": (torch.erfc, 27.0),
    "erfcx": (torch.special.erfcx, 26.0),
    "log_ndtr": (torch.special.log_ndtr, 30.0),
    "i0": (torch.special.i0, 60.0),
    "i0e": (torch.special.i0e, 1e5),
    "i1": (torch.special.i1, 60.0),
    "i1e": (torch.special.i1e, 1e5),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_functions_are_accurate_in_their_tails(name: str, dtype: Any) -> None:
    function, largest = FUNCTIONS[name]
    x = torch.linspace(-largest, largest, 401, dtype=torch.float64)
    small = torch.linspace(-9, 9, 181, dtype=torch.float64)
    x = torch.cat([x, small, SPECIAL if name != "i1" else SPECIAL[:2]]).to(dtype)
    reference = function(x.double()).to(dtype).numpy()  # in float32, torch itself is less accurate
    module = from_exported_program(torch.export.export(Call(function), (x,)))
    result = structir.interpret(module, "main", x.numpy())
    is_small = np.abs(reference) < 1e-37  # denormal
    rtol = 1e-12 if dtype == torch.float64 else 2e-7
    np.testing.assert_allclose(result[~is_small], reference[~is_small], rtol=rtol)
    np.testing.assert_allclose(result[is_small], reference[is_small], rtol=0, atol=1e-37)
