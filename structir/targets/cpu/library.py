"""numba's code library for kernels: one optimization of the linked module, and lazy code
generation."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock

from structir.interrupts import defer_interrupts

WHOLE = {"opt": 1}  # with vectorization; level 2 gains nothing, level 3 duplicates loops


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


def simplify(module: Any, machine: Any) -> None:
    """Optimizes functions before they are inlined into others. Their loops are not unrolled: the
    vectorizer would treat several iterations as one."""
    choices: Any = llvm.create_pipeline_tuning_options(speed_level=1)
    choices.loop_unrolling = choices.loop_vectorization = choices.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, choices)
    builder.getModulePassManager().run(module, builder)


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc,unused-ignore]
    """A function linked with all callees.

    numba optimizes each function, then the module for reference counts, then the module in full.
    Kernels have no reference counts and need only the last step. Most functions are only inlined,
    so machine code is generated on demand.
    """

    codegen: Any = _Detached()
    _emitted = False
    _is_only_linked = False

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        if self._is_only_linked:
            return
        if self._emitted:
            self._optimize_whole()
        else:
            self._simplify()

    def _simplify(self) -> None:
        codegen: Any = self._codegen
        simplify(self._final_module, codegen._tm)

    def _optimize_whole(self) -> None:
        codegen: Any = self._codegen
        passes, builder = codegen._module_pass_manager(**WHOLE)
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def linked_bitcode(self) -> bytes:
        """Returns the function linked with all callees, before optimization."""
        whole: Any = super()
        with global_compiler_lock:
            self._is_only_linked = True
            whole._ensure_finalized()
        bitcode: bytes = self._final_module.as_bitcode()
        return bitcode

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


class RoutineLibrary(KernelLibrary):
    """A function over arrays linked with all callees.

    numba's full optimization runs once, where reference counts can be removed and loops unrolled.
    """

    def _optimize_whole(self) -> None:
        numba_library: Any = JITCodeLibrary
        numba_library._optimize_final_module(self)
