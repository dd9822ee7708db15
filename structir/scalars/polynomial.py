"""Polynomials in bodies of ops."""

from collections.abc import Sequence
from typing import Any


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Returns the value of a polynomial by Horner's rule; the constant coefficient is the first."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total
