"""Error functions, Bessel functions, orthogonal polynomials and `ldexp`, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import mpmath  # noqa: E402

import structir  # noqa: E402
from structir.errors import StructIRError  # noqa: E402
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


BESSEL: dict[str, Any] = {  # torch's own ones are accurate to 1e-6 only
    "bessel_j0": lambda x: mpmath.besselj(0, x),
    "bessel_j1": lambda x: mpmath.besselj(1, x),
    "bessel_y0": lambda x: mpmath.bessely(0, x),
    "bessel_y1": lambda x: mpmath.bessely(1, x),
    "modified_bessel_k0": lambda x: mpmath.besselk(0, x),
    "modified_bessel_k1": lambda x: mpmath.besselk(1, x),
    "scaled_modified_bessel_k0": lambda x: mpmath.besselk(0, x) * mpmath.exp(x),
    "scaled_modified_bessel_k1": lambda x: mpmath.besselk(1, x) * mpmath.exp(x),
    "spherical_bessel_j0": mpmath.sinc,
    "airy_ai": mpmath.airyai,
}


@pytest.mark.parametrize("name", BESSEL)
def test_bessel_functions_are_accurate(name: str) -> None:
    """The error is that of the phase of a wave, far from 0."""
    function = getattr(torch.special, name)
    has_negative = not name.endswith(("y0", "y1", "k0", "k1"))
    x = np.concatenate([np.linspace(0.01, 9, 61), np.linspace(9, 60, 41)])
    x = np.concatenate([x, -x]) if has_negative else x
    module = from_exported_program(torch.export.export(Call(function), (torch.tensor(x),)))
    result = structir.interpret(module, "main", x)
    expected = [float(BESSEL[name](value)) for value in x]
    np.testing.assert_allclose(result, expected, rtol=1e-13, atol=2e-14)


@pytest.mark.parametrize("name", BESSEL)
def test_bessel_functions_of_special_values(name: str) -> None:
    function = getattr(torch.special, name)
    x = torch.cat([SPECIAL, torch.tensor([-1.5, 1.5])])
    module = from_exported_program(torch.export.export(Call(function), (x,)))
    result = structir.interpret(module, "main", x.numpy())
    np.testing.assert_allclose(result, function(x).numpy(), rtol=1e-6)


POLYNOMIALS = [
    *[f"chebyshev_polynomial_{kind}" for kind in "tuvw"],
    *[f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"],
    *("hermite_polynomial_h", "hermite_polynomial_he"),
    *("laguerre_polynomial_l", "legendre_polynomial_p"),
]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_orthogonal_polynomials_of_a_constant_degree(name: str) -> None:
    function = getattr(torch.special, name)
    x = torch.linspace(-2, 2, 81).double()
    degrees = (0, 1, 2, 5, 12)
    assert_equal_to_torch(lambda x: torch.stack([function(x, n) for n in degrees]), x)
    with pytest.raises(StructIRError, match="pass the degree as a Python integer"):
        assert_equal_to_torch(function, x, torch.tensor(3))
