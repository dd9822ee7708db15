"""Kernels from their text by way of LLVM's form, without numba's compiler around it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.compiler_lock import global_compiler_lock

from structir.backend.cpu.library import KernelLibrary
from structir.backend.cpu.operations import Operations, Typed, target
from structir.backend.cpu.translation import Translation


def translated(
    text: str, symbol: str, kinds: Sequence[Any], names: Mapping[str, Any], contracted: bool
) -> Any:
    """A library with the function of a text that returns nothing, in numba's convention."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    context = target(contracted)
    with global_compiler_lock:
        context.typing_context.refresh()
        context.refresh()
        make: Any = KernelLibrary
        library = make(context.codegen(), symbol)
        library.enable_object_caching()
        with context.push_code_library(library):
            module = library.create_ir_module(symbol)
            _write(module, function, symbol, kinds, names, context)
            context.post_lowering(module, library)
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
    made = ir.Function(module, convention.get_function_type(types.void, kinds), symbol)
    params = [a.arg for a in function.args.args]
    convention.decorate_function(made, params, kinds)
    builder = ir.IRBuilder(made.append_basic_block("entry"))
    translation = Translation(Operations(context, builder), names, function.body)
    for name, value, kind in zip(params, convention.get_arguments(made), kinds, strict=True):
        translation.named(name, Typed(value, kind))
    translation.block(function.body)
    convention.return_value(builder, context.get_dummy_value())
