"""The namespaces of the DSL: R (functions and ops), I (modules and kernels), T (sizes)."""

from structir.script.language import R
from structir.script.modules import I
from structir.script.sizes import T

__all__ = ["I", "R", "T"]
