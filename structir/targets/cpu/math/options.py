"""The numbers of the math functions: IEEE arithmetic with contraction, without reordering.

LLVM must be able to convert the branches of the math functions to selects.
"""

from __future__ import annotations

from typing import Any

Number = Any  # a float32, float64 or integer in compiled code
