"""Float32 math functions that LLVM vectorizes; the tests state their error bounds."""

from structir.lazy import import_completely

import_completely("numba")  # an interrupt between its modules would leave it unusable
