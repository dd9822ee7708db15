"""How LLVM is led through a kernel: its functions optimised once, machine code only where it is
asked for."""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock


class _Detached:
    """What numba tells of a function once it is compiled: nobody calls ours from Python."""

    def set_env(self, name: str, environment: Any) -> None:
        """A place for Python objects, which kernels never ask for."""


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc,unused-ignore]
    """A function with all that it calls.

    numba optimises every function alone, then all of them cheaply, to bring counts of references
    together, then in full. Kernels count no references: the last step is all they need. And most
    functions are only ever taken into others, so that machine code of them is never run.
    """

    codegen = _Detached()
    _emitted = False

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        tuned = {} if self._emitted else {"opt": 1, "loop_vectorize": False, "slp_vectorize": False}
        passes, builder = self._codegen._module_pass_manager(**tuned)
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function, which makes its machine code; 0 where it is not here."""
        if not any(f.name == name and not f.is_declaration for f in self._final_module.functions):
            return 0
        with global_compiler_lock:
            if not self._emitted:
                self._emitted = True
                self._ensure_finalized()
                super()._finalize_final_module()
        address: int = super().get_pointer_to_function(name)
        return address
