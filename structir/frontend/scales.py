"""Scale factors of sizes as fractions."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

CHECKED_SIZES = 1 << 17
LARGEST_DENOMINATORS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


def as_fraction(scale: float, dtype: str = "float64") -> Fraction:
    """Returns a fraction with a small denominator that rounds to a float, or else the exact value.

    A framework computes a size as `floor(fl(scale * size))`, and the product of 1.7 and 10 rounds
    to 17, although the float 1.7 is less than 17/10. The floor of the product with the fraction is
    the same size, except for a few factors, such as 0.29 times 100, whose float product is rounded
    to the float below the integer. Raises `ValueError` or `OverflowError` for a float that is not
    finite.
    """
    exact = Fraction(scale)
    kind = np.dtype(dtype).type
    for limit in LARGEST_DENOMINATORS:
        fraction = exact.limit_denominator(limit)
        if kind(fraction.numerator / fraction.denominator) == kind(scale):
            return fraction
    return exact


@lru_cache(256)
def size_fraction(scale: float, dtype: str) -> Fraction | None:
    """Returns a fraction whose product with a size has the floor of the product of floats.

    None if no fraction has it for all sizes that are checked: where products that are integers are
    rounded down depends on their magnitude. Of the scales with two digits these are 12 %.
    """
    kind = np.dtype(dtype).type
    sizes = np.arange(1, CHECKED_SIZES + 1)
    floors = np.floor(sizes.astype(kind) * kind(scale)).astype("int64")
    least = (floors / sizes).argmax()
    smallest = Fraction(int(floors[least]), int(sizes[least]))
    for fraction in (as_fraction(scale, dtype), smallest):
        products = sizes * fraction.numerator // fraction.denominator
        if fraction.numerator < 1 << 45 and np.array_equal(products, floors):
            return fraction
    return None
