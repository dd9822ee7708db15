"""Control flow and the primitives of arrays under the names that users of `jax.lax` know."""

from structir.lazy import lazy_members

__getattr__, __dir__ = lazy_members(
    __name__,
    (
        *("flow", "primitives", "arithmetic", "bits", "reductions"),
        *("windows", "window_reductions", "gathers", "patches", "ragged", "linalg:"),
        *("structir.transforms.linear_solve", "structir.scipy.special.primitives"),
    ),
)
