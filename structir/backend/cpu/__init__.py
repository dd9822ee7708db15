"""Machine code for the CPU, by numba and LLVM."""

from structir.backend.cpu.features import processor

processor()  # sets options of numba, before any module here makes its code generator
