"""The namespaces of the DSL: R (functions and ops), I (modules and kernels), T (sizes)."""

from typing import TYPE_CHECKING

from structir.lazy import lazy_names
from structir.script.language import R
from structir.script.modules import I
from structir.script.sizes import T

if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(__name__, {})  # the message for other names

__all__ = ["I", "R", "T"]
