"""Methods that use a matrix only through its products."""

from structir.lazy import lazy_members

__getattr__, __dir__ = lazy_members(__name__, ("linalg:",))
