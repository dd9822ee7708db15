"""numba's code library for functions over arrays: one optimization of the linked module, and lazy
code generation."""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock

from structir.interrupts import defer_interrupts
from structir.targets.cpu.code_generation import simplify


class _Detached:
    """A code generator without environments: kernels reference no Python objects."""

    def set_env(self, name: str, environment: Any) -> None:
        """Ignores the address of an environment."""


def store_code_uninterrupted(codegen: Any) -> None:
    """Defers interrupts while LLVM passes machine code to numba's callback.

    The callback is Python: an exception in it is dropped, and the code with it.
    """
    engine = codegen._engine
    if "finalize_object" in vars(engine):
        return
    finalize = engine.finalize_object

    def finalize_uninterrupted() -> None:
        with defer_interrupts():
            finalize()

    engine.finalize_object = finalize_uninterrupted


class RoutineLibrary(JITCodeLibrary):  # type: ignore[misc,unused-ignore]
    """A function over arrays linked with all callees.

    numba's full optimization runs once, where reference counts can be removed and loops unrolled.
    Most functions are only inlined, so machine code is generated on demand.
    """

    codegen: Any = _Detached()
    _emitted = False

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        if self._emitted:
            self._optimize_whole()
        else:
            simplify(self._final_module)

    def _optimize_whole(self) -> None:
        numba_library: Any = JITCodeLibrary
        numba_library._optimize_final_module(self)

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Returns the address of a function, generating its machine code on demand; 0 if it is not
        defined here."""
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
