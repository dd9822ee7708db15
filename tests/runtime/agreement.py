"""Compares compiled results with those of the interpreter."""

import numpy as np

from structir import RaggedArray

TOLERANCES = {"float64": 1e-9, "float32": 2e-4}
COARSE = 3e-2  # float16 and bfloat16: kernels keep float32 between ops


def assert_agree(wanted, found, where="result"):
    """Two run-time values are alike: structure, shapes and dtypes exactly, floats closely."""
    if isinstance(wanted, tuple):
        assert isinstance(found, tuple) and len(found) == len(wanted), where
        for k, (one, other) in enumerate(zip(wanted, found, strict=True)):
            assert_agree(one, other, f"{where}[{k}]")
    elif isinstance(wanted, RaggedArray):
        assert isinstance(found, RaggedArray), where
        assert_agree(tuple(wanted.rows()), tuple(found.rows()), where)
    elif isinstance(wanted, np.ndarray | np.generic):
        found = np.asarray(found)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), where
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(found, wanted, where)
        else:
            near = TOLERANCES.get(wanted.dtype.name, COARSE)
            wide = np.asarray(wanted, np.float64)
            reach = np.abs(wide[np.isfinite(wide)]).max(initial=1.0)
            np.testing.assert_allclose(
                found.astype(np.float64), wide, rtol=near, atol=near * reach, err_msg=where
            )
    else:
        assert found == wanted, where


def copied(value):
    """A value of its own, so that nothing written into it is seen elsewhere."""
    if isinstance(value, tuple):
        return tuple(copied(item) for item in value)
    return value.copy() if isinstance(value, np.ndarray) else value
