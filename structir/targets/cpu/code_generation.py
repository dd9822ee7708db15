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
from concurrent.futures import Future, ThreadPoolExecutor
from ctypes import string_at
from functools import cache
from typing import Any

import attrs
import llvmlite.binding as llvm
from llvmlite.binding import ffi

from structir.lazy import lazy_module
from structir.targets.cpu.features import processor
from structir.targets.cpu.kinds import Kind
from structir.targets.cpu.objects import (
    Loaded,
    MachineCode,
    load_cached,
    load_new_code,
    load_or_build,
    register_code,
)

translated = lazy_module("structir.targets.cpu.translated")

ENTRY = "@kernel"  # placeholder for the symbol in a kernel's LLVM IR
ROLLED_LOOPS = '"rolled-loops"'  # attribute of a kernel: LLVM unrolls only loops with a mark
WHOLE = 1  # the optimization level: level 2 gains nothing, level 3 duplicates loops
functions: Any = ffi.lib


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
        buffer = emit(self.machine, self.module, 1, self.error)
        idle_machines.append(self.machine)
        return buffer

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
    module.data_layout = _data_layout()
    return module


@cache
def _data_layout() -> str:
    return str(machine_for_host().target_data)


# Code generators that no module uses. The first function with some attributes takes 1 ms longer, in
# which a code generator initializes its description of the CPU.
idle_machines: list[Any] = []


def pending_module(
    module: Any, symbol: str, passes: Any = None, loop_unrolling: bool = True
) -> PendingCode:
    """Returns the compilation of a module that defines a symbol; the passes of kernels are the
    default. Without `loop_unrolling`, these unroll only loops that are marked."""
    try:
        machine = idle_machines.pop()
    except IndexError:
        machine = machine_for_host()
    builder = pass_builder(machine, loop_vectorization=True, loop_unrolling=loop_unrolling)
    passes = passes or builder.getModulePassManager()
    return PendingCode(symbol, module, machine, builder, passes, ffi.OutputString())


def machine_for_host() -> Any:
    """Returns a code generator for the CPU, whose code is loaded into this process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target, (name, features) = llvm.Target.from_triple(llvm.get_process_triple()), processor()
    reloc = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc=reloc, codemodel="jitdefault", jit=True
    )


def pass_builder(machine: Any, loop_vectorization: bool, loop_unrolling: bool = True) -> Any:
    """Returns a builder of optimization passes."""
    choices: Any = llvm.create_pipeline_tuning_options(speed_level=WHOLE)
    choices.loop_vectorization, choices.slp_vectorization = loop_vectorization, False
    choices.loop_unrolling = loop_unrolling
    return llvm.create_pass_builder(machine, choices)


def simplify(module: Any) -> None:
    """Optimizes functions before they are inlined into others. Their loops are not unrolled: the
    vectorizer would treat several iterations as one."""
    builder = pass_builder(machine_for_host(), loop_vectorization=False, loop_unrolling=False)
    builder.getModulePassManager().run(module, builder)


def module_of_bitcode(data: bytes, context: Any = None) -> Any:
    """Parses bitcode, in a new context if none is given."""
    return _freed_by_context(llvm.parse_bitcode(data, context or llvm.create_context()))


def module_of_assembly(text: str, context: Any = None) -> Any:
    """Parses LLVM IR, in a new context if none is given."""
    return _freed_by_context(llvm.parse_assembly(text, context or llvm.create_context()))


def _freed_by_context(module: Any) -> Any:
    module._owned = True
    return module


def c_function(function: Callable[..., Any], result: Kind, *kinds: Kind) -> int:
    """Returns the address of a Python function with the C calling convention, from the cache or
    newly compiled; `kinds` are those of its parameters."""
    symbol = f"structir_{function.__name__}"

    def build() -> Loaded:
        text = translated.library_function(function, symbol, result, kinds)
        return compile_module(text, symbol, scalar_passes())

    return load_or_build(function.__name__, build).addresses[0]


def started_c_function(
    function: Callable[..., Any], result: Kind, *kinds: Kind
) -> Callable[[], int]:
    """Starts to compile a Python function like `c_function`, in a thread; returns a function that
    waits for it and returns its address."""
    name, start = function.__name__, time.perf_counter()
    cached = load_cached(name)
    if cached is not None:
        address = cached.addresses[0]
        return lambda: address
    symbol = f"structir_{name}"
    module = module_for_host(translated.library_function(function, symbol, result, kinds))
    pending = pending_module(module, symbol, scalar_passes())
    executor = ThreadPoolExecutor(1, "structir-compile")
    buffer = submitted(executor, pending.generate)
    executor.shutdown(wait=False)

    def finish() -> int:
        code = pending.machine_code(buffer.result(), time.perf_counter() - start)
        return register_code(name, load_new_code(code)).addresses[0]

    return finish


def submitted(executor: ThreadPoolExecutor, run: Callable[[], Any]) -> Future[Any]:
    """Submits a function to an executor; runs it synchronously during interpreter shutdown."""
    try:
        return executor.submit(run)
    except RuntimeError:  # executors reject work after the end of the main thread
        result = Future[Any]()
        result.set_result(run())
        return result


def scalar_passes() -> Any:
    """Returns the optimization passes for code without loops over elements, which take a tenth of
    the time of all passes."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_dead_store_elimination_pass()
    passes.add_global_dead_code_eliminate_pass()
    return passes


def compile_module(text: str, symbol: str, passes: Any = None) -> Loaded:
    """Compiles LLVM IR with optimization passes, by default those of kernels, and loads it; it
    exports one symbol."""
    start = time.perf_counter()
    pending = pending_module(module_for_host(text), symbol, passes)
    code = pending.machine_code(pending.generate(), time.perf_counter() - start)
    return load_new_code(code)


def compile_ir(text: str, symbols: Sequence[str]) -> Loaded:
    """Compiles LLVM IR to machine code and loads it; `symbols` are the names it defines."""
    start = time.perf_counter()
    module, machine = module_with_target(text, *processor())
    declared = [f.name for f in module.functions if f.is_declaration]
    needs = tuple([name for name in declared if not name.startswith("llvm.")])
    data = machine.emit_object(module)
    seconds = time.perf_counter() - start
    return load_new_code(MachineCode(data, tuple(symbols), needs, True, seconds))


def load_function(
    key: str, symbol: str, text: Callable[[], str], passes: Callable[[], Any] = lambda: None
) -> None:
    """Registers a library function, from the cache or built from LLVM IR with optimization passes,
    by default those of kernels.

    `text` returns the IR of a module whose only exported function is `symbol`."""

    code = load_or_build(key, lambda: compile_module(text(), symbol, passes()))
    llvm.add_symbol(symbol, code.addresses[0])


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
    return pending_module(module, symbol, loop_unrolling=ROLLED_LOOPS not in kernel.text)
