"""Optimizes modules and generates their machine code in threads, outside of llvmlite's lock.

llvmlite holds one lock in all calls of LLVM. LLVM itself is safe in threads that share no context,
so the two calls that take long, optimization and code generation, run without the lock, on modules
in contexts of their own. Both release the GIL: the caller writes the next module meanwhile.
"""

from __future__ import annotations

from ctypes import string_at
from typing import Any

import attrs
import llvmlite.binding as llvm
from llvmlite.binding import ffi
from numba.core import config
from numba.core.llvm_bindings import create_pass_builder
from numba.core.registry import cpu_target

from structir.backend.cpu.library import WHOLE
from structir.backend.cpu.modules import module_of_bitcode
from structir.backend.cpu.objects import MachineCode

functions: Any = ffi.lib
options: Any = config
make_pass_builder: Any = create_pass_builder


def _unlocked(name: str) -> Any:
    """Returns a function of LLVM without llvmlite's lock around it."""
    function = getattr(functions, name)
    return getattr(function, "_cfn", function)


run_passes = _unlocked("LLVMPY_RunNewModulePassManager")
emit = _unlocked("LLVMPY_TargetMachineEmitToMemory")


@attrs.frozen(eq=False)
class PendingCode:
    """A module on its way to machine code. Only `generate` runs in another thread: there every
    further call would wait for the GIL."""

    symbol: str
    module: Any
    machine: Any
    builder: Any
    passes: Any
    error: Any

    def generate(self) -> Any:
        """Returns a buffer of LLVM's with the object file; nothing on an error."""
        run_passes(self.passes, self.module, self.builder)
        return emit(self.machine, self.module, 1, self.error)

    def machine_code(self, buffer: Any, seconds: float) -> MachineCode:
        """Returns the machine code in the buffer that was generated, and frees the buffer."""
        with self.error:
            if not buffer:
                raise RuntimeError(str(self.error))
        data = string_at(
            functions.LLVMPY_GetBufferStart(buffer), functions.LLVMPY_GetBufferSize(buffer)
        )
        functions.LLVMPY_DisposeMemoryBuffer(buffer)
        members = list(self.module.functions)
        declared = [f.name for f in members if f.is_declaration]
        needs = tuple([name for name in declared if not name.startswith("llvm.")])
        defined = [
            f for f in members if not f.is_declaration and f.linkage != llvm.Linkage.internal
        ]
        alone = {f.name for f in defined} != {self.symbol}
        return MachineCode(data, (self.symbol,), needs, alone, seconds)


def pending_code(library: Any, symbol: str) -> PendingCode:
    """Returns the function of a library, with everything to compile it as numba would."""
    return pending_module(module_of_bitcode(library.linked_bitcode()), symbol)


def pending_module(module: Any, symbol: str) -> PendingCode:
    """Returns a module that defines a function, with everything to compile it."""
    vectors = {
        "loop_vectorize": options.LOOP_VECTORIZE,
        "slp_vectorize": options.SLP_VECTORIZE,
    }
    machine, builder = code_generator(module.triple, {**vectors, **WHOLE})
    passes = builder.getModulePassManager()
    return PendingCode(symbol, module, machine, builder, passes, ffi.OutputString())


def code_generator(triple: str, passes: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the code generator for the CPU, as numba sets it up, and a builder of passes."""
    choices: dict[str, Any] = {"opt": options.OPT}
    context: Any = cpu_target.target_context
    context.codegen()._customize_tm_options(choices)
    machine: Any = llvm.Target.from_triple(triple).create_target_machine(**choices)
    return machine, make_pass_builder(machine, **passes)
