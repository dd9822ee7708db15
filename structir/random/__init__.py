"""Random arrays from keys, by the counter-based generator Threefry-2x32, with JAX's results."""

from structir.lazy import lazy_members

__getattr__, __dir__ = lazy_members(
    __name__,
    (
        *("keys", "distributions", "transformed"),
        *("structir.scipy.samplers.gamma", "structir.scipy.samplers.counts"),
    ),
)
