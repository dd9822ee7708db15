"""Translates C functions to LLVM IR without numba's compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.compiler_lock import global_compiler_lock

from structir.ir.collection import collection_paused
from structir.targets.cpu.inlined import Inlined, inlinable
from structir.targets.cpu.library import KernelLibrary
from structir.targets.cpu.operations import Operations, Typed, UntranslatedError, target
from structir.targets.cpu.registries import read_all, registries_read
from structir.targets.cpu.translation import Translation


def translate_c_function(function: Callable[..., Any], symbol: str, signature: Any) -> Any:
    """Returns the code library of a Python function with the C calling convention; retries if an
    inlined function must be called instead, or if further registries must be loaded.

    Parameters are numbers and pointers; the result is a number or void.
    """
    taken, context = inlinable(function), target(contracted=False)
    if taken is None:
        raise UntranslatedError(function.__name__)
    while True:
        try:
            return _library(taken, symbol, signature, context)
        except (UntranslatedError, NotImplementedError) as error:
            if not getattr(error, "blamed", False) and not read_all():
                raise


def _write_c(module: Any, taken: Inlined, symbol: str, signature: Any, context: Any) -> None:
    """Emits the function in numba's calling convention, which its calls require, and a C
    wrapper."""
    convention, result, kinds = context.call_conv, signature.return_type, signature.args
    inner = ir.Function(module, convention.get_function_type(result, kinds), f"{symbol}_inside")
    inner.linkage = "internal"
    convention.decorate_function(inner, taken.params, kinds)
    operations = Operations(context, ir.IRBuilder(inner.append_basic_block("entry")))
    both = zip(convention.get_arguments(inner), kinds, strict=True)
    arguments = [Typed(value, kind) for value, kind in both]
    translation = Translation(operations, taken.names, taken.params, taken.body)
    value = translation.inline(taken, arguments)
    if translation.results:
        convention.return_value(operations.builder, operations.cast(value, result))
    else:  # the function has an infinite loop
        operations.builder.unreachable()
    types_of_c = [context.get_value_type(kind) for kind in kinds]
    out = ir.VoidType() if result == types.none else context.get_value_type(result)
    outer = ir.Function(module, ir.FunctionType(out, types_of_c), symbol)
    builder = ir.IRBuilder(outer.append_basic_block("entry"))
    _, value = convention.call_function(builder, inner, result, kinds, outer.args)
    if result == types.none:
        builder.ret_void()
    else:
        builder.ret(value)


@collection_paused()
def _library(taken: Inlined, symbol: str, signature: Any, context: Any) -> Any:
    with global_compiler_lock, registries_read(context):
        make: Any = KernelLibrary
        library = make(context.codegen(), symbol)
        library.enable_object_caching()
        with context.push_code_library(library):
            module = library.create_ir_module(symbol)
            _write_c(module, taken, symbol, signature, context)
            library.add_ir_module(module)
    return library
