"""NumPy's functions on traced arrays, with the names of the array API standard.

In a function that is traced they build ops of the program. Outside of it they are evaluated at once
and return NumPy arrays. Dtypes follow JAX: Python numbers take the dtype of the other operand, and
the default dtypes are float32 and int32. Source: Python array API standard, v2024.12.
"""

from structir.lazy import lazy_members

__getattr__, __dir__ = lazy_members(
    __name__,
    (
        "elementwise",
        "reals",
        "creation",
        "shaping",
        "padding",
        "reductions",
        "contraction",
        "indexing",
        "updates",
        "sorting",
        "floats",
        "joining",
        "polynomials",
        "nan_reductions",
        "constants",
        *("integers", "selections", "matrices"),
        *("structir.transforms.vectorise", "structir.transforms.along_axis"),
        *("linalg:", "fft:"),
    ),
)
