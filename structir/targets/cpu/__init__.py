"""The CPU backend: machine code by numba and LLVM."""

from structir.lazy import import_completely

import_completely("numba")  # an interrupt between its modules would leave it unusable

from structir.targets.cpu.features import processor  # noqa: E402 (it imports numba)

processor()  # sets options of numba before any module here creates its code generator
