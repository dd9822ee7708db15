"""Compiles Python functions and LLVM IR to C functions whose machine code can be cached."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm

from structir.backend.cache import digest
from structir.backend.cpu.features import processor
from structir.backend.cpu.objects import Loaded, MachineCode, code_of_library, load_code
from structir.backend.cpu.translated import translate_c_function
from structir.errors import StructIRError


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
    code = load_code(MachineCode(data, tuple(symbols), needs, True, seconds))
    if code is None:
        raise StructIRError(f"machine code needs undefined symbols: {', '.join(needs)}")
    return code


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
