"""Samples of moderate magnitudes, at which programs that are equal over the reals should agree.

Such programs differ where one of them overflows, or loses the digits of numbers that are near one
another: the samples are scaled, and shifted away from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from structir.ir.dtype import FLOATS, dtype_of
from structir.passes.manager.input_sample import InputSample, finite_share
from structir.passes.manager.perturbation import leaves
from structir.passes.manager.samples import Sampler

MODERATE = 16  # bits of the magnitudes of moderate numbers
SCALES = (8.0, 100.0, 2000.0)
SHIFTS = (300.0, 5000.0)


def scaled_samples(sampler: Sampler, samples: Sequence[InputSample]) -> Iterator[InputSample]:
    """Yields the first sample with elements, with all floats scaled, or shifted."""
    first = next((each for each in samples if each.accepted and each.elements), None)
    if first is None:
        return
    for scale, shift in (*((each, 0.0) for each in SCALES), *((1.0, each) for each in SHIFTS)):
        flat = [_scaled(leaf, scale, shift) for leaf in first.flat]
        sample = sampler.run(first.sizes, first.nested(flat))
        if sample is not None:
            yield sample


def _scaled(leaf: Any, scale: float, shift: float) -> Any:
    if not isinstance(leaf, np.ndarray) or dtype_of(leaf) not in FLOATS:
        return leaf
    with np.errstate(all="ignore"):
        return (leaf.astype("float64") * scale + shift).astype(leaf.dtype)


def is_moderate(sample: InputSample) -> bool:
    """Returns whether the magnitudes of all floats are 0 or from 2**-16 to 2**16, those of narrow
    floats in a quarter of their exponents, and the result, if there is one, is finite."""
    is_finite = not sample.accepted or finite_share(sample) == 1
    return is_finite and all(map(_is_moderate, leaves(tuple(sample.arguments))))


def _is_moderate(leaf: Any) -> bool:
    if not isinstance(leaf, np.ndarray | np.generic | float):
        return True
    values = np.asarray(leaf)
    if values.dtype.kind in "biuOSU":
        return True
    bits = min(MODERATE, int(ml_dtypes.finfo(values.dtype).maxexp) // 4)  # type: ignore[no-untyped-call]
    sizes = np.abs(values.astype("float64"))
    return bool(np.all((sizes == 0) | ((sizes >= 2.0**-bits) & (sizes <= 2.0**bits))))
