"""Special functions."""

from structir.lazy import lazy_members

__getattr__, __dir__ = lazy_members(
    __name__,
    (
        *("functions", "factorials", "entropy", "incomplete"),
        *("bessel", "integrals", "scaled_errors"),
    ),
)
