"""ONNX's own node tests, as the onnx package builds them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

with warnings.catch_warnings(), np.errstate(all="ignore"):
    warnings.simplefilter("ignore")
    from onnx.backend.test.case import base
    from onnx.reference.ops import op_pool_common

Pool = Callable[..., np.ndarray]
LOOP: Pool = op_pool_common.pool
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "MAX": lambda windows, axes, p: windows.max(axes),
    "AVG": lambda windows, axes, p: windows.mean(axes),
    "LPPOOL": lambda windows, axes, p: (np.abs(windows) ** p).sum(axes) ** (1.0 / p),
}


def pool(
    padded: np.ndarray,
    x_shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    out_shape: Sequence[int],
    kind: str,
    *others: Any,
    p: int = 1,
    **options: Any,
) -> np.ndarray:
    """Computes a pool without padding by NumPy's windows: ONNX's loop over the windows of three
    volumes took most of the time of all cases. Others are computed by ONNX."""
    shape = tuple(x_shape)
    if others or options or padded.shape != shape or not strides or np.isnan(padded).any():
        return LOOP(padded, x_shape, kernel, strides, out_shape, kind, *others, p=p, **options)
    spatial = tuple(range(2, padded.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), spatial)
    windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    axes = tuple(range(padded.ndim, windows.ndim))
    return REDUCTIONS[kind](windows, axes, p).astype(padded.dtype)


@contextmanager
def building() -> Iterator[None]:
    """Builds the tests without warnings, and without the source of each for ONNX's documents."""
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        pytest.MonkeyPatch.context() as patch,
    ):
        warnings.simplefilter("ignore")
        if hasattr(base, "process_snippet"):
            patch.setattr(base, "process_snippet", lambda *_: ("", ""))
        patch.setattr(op_pool_common, "pool", pool)
        yield
