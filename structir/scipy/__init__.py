"""Functions of `scipy` on traced arrays: `special`, `stats`, `linalg` and `sparse.linalg`."""

from structir.lazy import lazy_members

__getattr__, __dir__ = lazy_members(
    __name__, ("special:", "stats:", "linalg:", "sparse:", "signal:")
)
