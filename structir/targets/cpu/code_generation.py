"""Optimizes modules and generates their machine code in threads, without llvmlite's lock; compiles
functions of the library, whose machine code can be cached.

llvmlite holds a global lock in every call of LLVM. LLVM is thread-safe for modules in separate
contexts, so the two long calls, optimization and code generation, run without the lock, each module
in its own context. Both release the GIL, and the caller translates the next module meanwhile.

llvmlite frees a module and its context by two finalizers. If both are in one reference cycle, as in
the frames of a stored exception, the garbage collector may finalize the context first. LLVM then
frees its modules, and the second finalizer would free them again. The finalizers of these modules
free nothing: only the context does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from ctypes import string_at
from typing import Any

import attrs
import llvmlite.binding as llvm
from llvmlite.binding import ffi
from numba.core import config
from numba.core.llvm_bindings import create_pass_builder
from numba.core.registry import cpu_target

from structir.system.cache import digest
from structir.targets.cpu.features import processor
from structir.targets.cpu.library import WHOLE
from structir.targets.cpu.objects import (
    Loaded,
    MachineCode,
    code_of_library,
    load_new_code,
    load_or_build,
)
from structir.targets.cpu.translated import translate_c_function

ENTRY = "@kernel"  # placeholder for the symbol in a kernel's LLVM IR
functions: Any = ffi.lib
options: Any = config
make_pass_builder: Any = create_pass_builder


def _unlocked(name: str) -> Any:
    """Returns a function of LLVM that does not acquire llvmlite's lock."""
    function = getattr(functions, name)
    return getattr(function, "_cfn", function)


run_passes = _unlocked("LLVMPY_RunNewModulePassManager")
emit = _unlocked("LLVMPY_TargetMachineEmitToMemory")


@attrs.frozen
class Assembled:
    """LLVM IR of a kernel, and the names of the prepared functions that it calls."""

    text: str
    prepared: tuple[str, ...]


@attrs.frozen(eq=False)
class PendingCode:
    """A module to be compiled. Only `generate` runs in another thread: each further call there
    would wait for the GIL."""

    symbol: str
    module: Any
    machine: Any
    builder: Any
    passes: Any
    error: Any

    def generate(self) -> Any:
        """Returns an LLVM memory buffer with the object file; null on an error."""
        run_passes(self.passes, self.module, self.builder)
        return emit(self.machine, self.module, 1, self.error)

    def machine_code(self, buffer: Any, seconds: float) -> MachineCode:
        """Returns the machine code in the buffer of `generate`, and frees the buffer."""
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


def module_for_host(text: str, context: Any = None) -> Any:
    """Parses LLVM IR as a module with the data layout of this CPU, in a new context if none is
    given."""
    module = module_of_assembly(text, context)
    context_of_cpu: Any = cpu_target.target_context
    module.data_layout = context_of_cpu.codegen()._data_layout
    return module


def pending_module(module: Any, symbol: str) -> PendingCode:
    """Returns the compilation of a module that defines a symbol."""
    vectors = {
        "loop_vectorize": options.LOOP_VECTORIZE,
        "slp_vectorize": options.SLP_VECTORIZE,
    }
    machine, builder = code_generator(module.triple, {**vectors, **WHOLE})
    passes = builder.getModulePassManager()
    return PendingCode(symbol, module, machine, builder, passes, ffi.OutputString())


def code_generator(triple: str, passes: dict[str, Any]) -> tuple[Any, Any]:
    """Returns a target machine with numba's options, and a builder of optimization passes."""
    choices: dict[str, Any] = {"opt": options.OPT}
    context: Any = cpu_target.target_context
    context.codegen()._customize_tm_options(choices)
    machine: Any = llvm.Target.from_triple(triple).create_target_machine(**choices)
    return machine, make_pass_builder(machine, **passes)


def module_of_bitcode(data: bytes, context: Any = None) -> Any:
    """Parses bitcode, in a new context if none is given."""
    return _freed_by_context(llvm.parse_bitcode(data, context or llvm.create_context()))


def module_of_assembly(text: str, context: Any = None) -> Any:
    """Parses LLVM IR, in a new context if none is given."""
    return _freed_by_context(llvm.parse_assembly(text, context or llvm.create_context()))


def _freed_by_context(module: Any) -> Any:
    module._owned = True
    return module


def c_function(signature: Any, function: Callable[..., Any]) -> Loaded:
    """Compiles a function with the C calling convention."""
    start = time.perf_counter()
    symbol = f"structir_{function.__name__}_{digest(function.__qualname__, str(signature))[:16]}"
    library = translate_c_function(function, symbol, signature)
    address = library.get_pointer_to_function(symbol)
    code = code_of_library(library, [symbol], time.perf_counter() - start)
    return Loaded(code, (address,), library, from_disk=False)


def compile_ir(text: str, symbols: Sequence[str]) -> Loaded:
    """Compiles LLVM IR to machine code and loads it; `symbols` are the names it defines."""
    start = time.perf_counter()
    module, machine = module_with_target(text, *processor())
    declared = [f.name for f in module.functions if f.is_declaration]
    needs = tuple([name for name in declared if not name.startswith("llvm.")])
    data = machine.emit_object(module)
    seconds = time.perf_counter() - start
    return load_new_code(MachineCode(data, tuple(symbols), needs, True, seconds))


def load_function(key: str, symbol: str, text: Callable[[], str]) -> None:
    """Registers a library function, from the cache or built from LLVM IR with optimization passes.

    `text` returns the IR of a module whose only exported function is `symbol`."""

    def build() -> Loaded:
        start = time.perf_counter()
        pending = pending_module(module_for_host(text()), symbol)
        code = pending.machine_code(pending.generate(), time.perf_counter() - start)
        return load_new_code(code)

    llvm.add_symbol(symbol, load_or_build(key, build).addresses[0])


def module_with_target(text: str, name: str, features: str) -> tuple[Any, Any]:
    """Returns LLVM IR as a module, and the code generator for a CPU.

    No optimization pass runs on the module. A tile already keeps its accumulators in all
    registers and gains nothing from the passes. For some processors (AMD's Zen) they unroll
    its loop, which then spills the accumulators in each iteration.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    machine = llvm.Target.from_triple(module.triple).create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", codemodel="jitdefault", jit=True
    )
    return module, machine


def pending_kernel(
    kernel: Assembled, symbol: str, bitcode_of: Callable[[str], bytes]
) -> PendingCode:
    """Links a kernel with the bitcode of its prepared functions; returns its compilation under a
    symbol."""
    context: Any = llvm.create_context()
    module = module_for_host(kernel.text.replace(ENTRY, f"@{symbol}"), context)
    for name in kernel.prepared:
        module.link_in(module_of_bitcode(bitcode_of(name), context))
        module.get_function(name).linkage = "internal"
    return pending_module(module, symbol)
