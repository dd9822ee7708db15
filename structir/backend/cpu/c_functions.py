"""Compiles Python functions and LLVM IR to C functions whose machine code can be cached."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from numba import cfunc

from structir.backend.cache import digest
from structir.backend.cpu.code_generation import module_for_host, pending_module
from structir.backend.cpu.features import processor
from structir.backend.cpu.objects import (
    Loaded,
    MachineCode,
    code_of_library,
    load_new_code,
    load_or_build,
)
from structir.backend.cpu.operations import UntranslatedError
from structir.backend.cpu.pipeline import KernelCompiler
from structir.backend.cpu.registries import read_all
from structir.backend.cpu.translated import translate_c_function


def c_function(signature: Any, function: Callable[..., Any]) -> Loaded:
    """Compiles a function with the C calling convention."""
    start = time.perf_counter()
    symbol = f"structir_{function.__name__}_{digest(function.__qualname__, str(signature))[:16]}"
    try:
        library = translate_c_function(function, symbol, signature)
    except UntranslatedError:
        return _c_function_of_numba(signature, function)
    address = library.get_pointer_to_function(symbol)
    code = code_of_library(library, [symbol], time.perf_counter() - start)
    return Loaded(code, (address,), library, from_disk=False)


def _c_function_of_numba(signature: Any, function: Callable[..., Any]) -> Loaded:
    start = time.perf_counter()
    make: Any = cfunc
    options = {"error_model": "numpy", "_nrt": False, "pipeline_class": KernelCompiler}
    read_all()
    compiled = make(signature, **options)(function)
    seconds = time.perf_counter() - start
    code = code_of_library(compiled._library, [compiled._wrapper_name], seconds)
    return Loaded(code, (compiled.address,), compiled, from_disk=False)


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
