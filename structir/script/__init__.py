"""What programs are written with: R (the language), I (modules), T (sizes)."""

from structir.script.language import R
from structir.script.modules import I
from structir.script.sizes import T

__all__ = ["I", "R", "T"]
