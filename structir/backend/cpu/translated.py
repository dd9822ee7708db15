"""Translates kernels and C functions to LLVM IR without numba's compiler."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import fastmathpass
from numba.core.compiler_lock import global_compiler_lock

from structir.backend.cpu.inlined import Inlined, inlinable
from structir.backend.cpu.library import KernelLibrary
from structir.backend.cpu.operations import Operations, Typed, UntranslatedError, target
from structir.backend.cpu.registries import read_all, registries_read
from structir.backend.cpu.translation import Translation
from structir.ir.collection import collection_paused

rewrite_fast_math: Any = fastmathpass.rewrite_module


def translate_kernel(text: str, symbol: str, kinds: Sequence[Any], names: Mapping[str, Any]) -> Any:
    """Returns the code library of a kernel's source, in numba's calling convention.

    `kinds` are the numba types of its parameters, `names` its global names.
    """
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)

    def write(module: Any, context: Any) -> None:
        _write(module, function, symbol, kinds, names, context)

    return _retried(symbol, target(contracted=True), write)


def _retried(symbol: str, context: Any, write: Callable[[Any, Any], None]) -> Any:
    """Returns a code library; retries if an inlined function must be called instead, or if further
    registries must be loaded."""
    while True:
        try:
            return _library(symbol, context, write)
        except (UntranslatedError, NotImplementedError) as error:
            if not getattr(error, "blamed", False) and not read_all():
                raise


def translate_c_function(function: Callable[..., Any], symbol: str, signature: Any) -> Any:
    """Returns the code library of a Python function with the C calling convention.

    Parameters are numbers and pointers; the result is a number or void.
    """
    taken = inlinable(function)
    if taken is None:
        raise UntranslatedError(function.__name__)

    def write(module: Any, context: Any) -> None:
        _write_c(module, taken, symbol, signature, context)

    return _retried(symbol, target(contracted=False), write)


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
def _library(symbol: str, context: Any, write: Callable[[Any, Any], None]) -> Any:
    with global_compiler_lock, registries_read(context):
        make: Any = KernelLibrary
        library = make(context.codegen(), symbol)
        library.enable_object_caching()
        with context.push_code_library(library):
            module = library.create_ir_module(symbol)
            write(module, context)
            if context.fastmath:
                rewrite_fast_math(module, context.fastmath)
            library.add_ir_module(module)
    return library


def _write(
    module: Any,
    function: ast.FunctionDef,
    symbol: str,
    kinds: Sequence[Any],
    names: Mapping[str, Any],
    context: Any,
) -> None:
    convention = context.call_conv
    llvm_function = ir.Function(module, convention.get_function_type(types.void, kinds), symbol)
    params = [a.arg for a in function.args.args]
    convention.decorate_function(llvm_function, params, kinds)
    builder = ir.IRBuilder(llvm_function.append_basic_block("entry"))
    translation = Translation(Operations(context, builder), names, params, function.body)
    for name, value, kind in zip(
        params, convention.get_arguments(llvm_function), kinds, strict=True
    ):
        translation.named(name, Typed(value, kind))
    translation.block(function.body)
    if not builder.block.is_terminated:
        convention.return_value(builder, context.get_dummy_value())
