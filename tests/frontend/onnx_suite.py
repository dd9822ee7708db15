"""ONNX's own node tests, as the onnx package builds them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

with warnings.catch_warnings(), np.errstate(all="ignore"):
    warnings.simplefilter("ignore")
    from onnx.backend.test.case import base


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
        yield
