"""How LLVM is led through a kernel: all of it optimised once, machine code only where it is asked
for."""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock

from structir.interrupts import defer_interrupts

PART = {"opt": 1, "loop_vectorize": False, "slp_vectorize": False}  # before others take it in
WHOLE = {"opt": 1}  # with vectors; what more it does at 2 finds nothing, at 3 it doubles loops


class _Detached:
    """Who is told of the Python objects of a function that is compiled: ours have none."""

    def set_env(self, name: str, environment: Any) -> None:
        """Where they are, if machine code has been made."""


def store_code_uninterrupted(codegen: Any) -> None:
    """Defers interrupts while LLVM hands over machine code, also of libraries of numba.

    LLVM calls Python with the code. An exception in the callback is dropped, and the code with it.
    """
    engine = codegen._engine
    if "finalize_object" in vars(engine):
        return
    finalize = engine.finalize_object

    def finalize_uninterrupted() -> None:
        with defer_interrupts():
            finalize()

    engine.finalize_object = finalize_uninterrupted


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc,unused-ignore]
    """A function with all that it calls.

    numba optimises every function alone, then all of them cheaply, to bring counts of references
    together, then in full. Kernels count no references: the last step is all they need. And most
    functions are only ever taken into others, so that machine code of them is never run.
    """

    codegen: Any = _Detached()
    _emitted = False
    _is_only_linked = False

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        if self._is_only_linked:
            return
        codegen: Any = self._codegen
        passes, builder = codegen._module_pass_manager(**(WHOLE if self._emitted else PART))
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def linked_bitcode(self) -> bytes:
        """Returns the function with all that it calls, before optimization, to be compiled
        elsewhere."""
        whole: Any = super()
        with global_compiler_lock:
            self._is_only_linked = True
            whole._ensure_finalized()
        bitcode: bytes = self._final_module.as_bitcode()
        return bitcode

    def get_pointer_to_function(self, name: str) -> int:
        """The address of a function, which makes its machine code; 0 where it is not here."""
        defined = [f.name for f in self._final_module.functions if not f.is_declaration]
        if name not in defined:
            return 0
        whole: Any = super()
        with global_compiler_lock, defer_interrupts():  # LLVM calls Python with the machine code
            if not self._emitted:
                self._emitted = True
                whole._ensure_finalized()
                whole._finalize_final_module()
        address: int = whole.get_pointer_to_function(name)
        return address
