"""The CUDA backend: kernels by LLVM from the same loops, and memory, streams and graphs."""

from structir.lazy import import_completely

import_completely("numba")  # an interrupt between its modules would leave it unusable
