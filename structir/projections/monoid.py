"""Monoids of reductions and accumulating writes."""

from __future__ import annotations

import attrs

from structir.ir.dtype import int_limits, is_float
from structir.projections.scalar_expr import Scalar


@attrs.frozen
class Monoid:
    """A reduction. `combine` names its elementwise function; a mean and an argmax derive from
    another monoid.
    """

    name: str
    combine: str
    least: float  # the identity, before conversion to a dtype

    def identity(self, dtype: str) -> Scalar:
        """Returns the identity element as a Python number of the dtype."""
        if dtype == "bool":
            return bool(self.least > 0)
        if is_float(dtype):
            return float(self.least)
        if self.least in (float("inf"), float("-inf")):
            return int_limits(dtype)[self.least > 0]
        return int(self.least)

    def of_nothing(self, dtype: str) -> Scalar:
        """Returns the result of an empty reduction."""
        match self.name:
            case "mean":
                return float("nan") if is_float(dtype) else 0
            case "argmax" | "argmin":
                return 0
        return self.identity(dtype)


def exact_sum_dtype(dtype: str) -> str:
    """Returns the dtype in which a mean of integers is summed before the division."""
    return "uint64" if dtype.startswith("uint") else "int64"


INF = float("inf")
MONOIDS: dict[str, Monoid] = {
    monoid.name: monoid
    for monoid in (
        Monoid("sum", "add", 0.0),
        Monoid("prod", "mul", 1.0),
        Monoid("max", "max", -INF),
        Monoid("min", "min", INF),
        Monoid("any", "or", 0.0),
        Monoid("all", "and", 1.0),
        Monoid("mean", "add", 0.0),  # the sum divided by the number of points, truncated
        Monoid("argmax", "max", -INF),  # the linear index of the first maximum
        Monoid("argmin", "min", INF),
    )
}
