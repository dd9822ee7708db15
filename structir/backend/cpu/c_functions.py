"""C functions compiled from Python by numba or from LLVM's text, as code that can be kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from numba import cfunc

from structir.backend.cache import digest
from structir.backend.cpu.features import processor
from structir.backend.cpu.objects import Loaded, MachineCode, code_of_library, loaded
from structir.backend.cpu.operations import UntranslatedError
from structir.backend.cpu.pipeline import KernelCompiler
from structir.backend.cpu.translated import translated_c
from structir.errors import StructIRError


def c_function(signature: Any, function: Callable[..., Any]) -> Loaded:
    """A function compiled to be called as C calls."""
    start = time.perf_counter()
    symbol = f"structir_{function.__name__}_{digest(function.__qualname__, str(signature))[:16]}"
    try:
        library = translated_c(function, symbol, signature)
    except UntranslatedError:
        return _c_function_of_numba(signature, function)
    address = library.get_pointer_to_function(symbol)
    code = code_of_library(library, [symbol], time.perf_counter() - start)
    return Loaded(code, (address,), library, from_disk=False)


def _c_function_of_numba(signature: Any, function: Callable[..., Any]) -> Loaded:
    start = time.perf_counter()
    make: Any = cfunc
    options = {"error_model": "numpy", "_nrt": False, "pipeline_class": KernelCompiler}
    made = make(signature, **options)(function)
    seconds = time.perf_counter() - start
    code = code_of_library(made._library, [made._wrapper_name], seconds)
    return Loaded(code, (made.address,), made, from_disk=False)


def assembled(text: str, symbols: Sequence[str], as_written: bool = False) -> Loaded:
    """LLVM's text, made into machine code and loaded; `as_written` where loops whose values just
    fit the registers must not be changed."""
    start = time.perf_counter()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(text)
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=processor()[0],
        features=processor()[1],
        opt=3,
        reloc="pic",
        codemodel="jitdefault",
        jit=True,
    )
    if not as_written:
        options = llvm.create_pipeline_tuning_options(speed_level=1)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(parsed, builder)
    declared = [f.name for f in parsed.functions if f.is_declaration]
    needs = tuple([name for name in declared if not name.startswith("llvm.")])
    data = machine.emit_object(parsed)
    seconds = time.perf_counter() - start
    found = loaded(MachineCode(data, tuple(symbols), needs, True, seconds))
    if found is None:
        raise StructIRError(f"machine code needs names that are not here: {', '.join(needs)}")
    return found
