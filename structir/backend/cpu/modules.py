"""LLVM modules in their own contexts.

llvmlite frees a module and its context by two finalizers. If both are in one reference cycle, as in
the frames of a stored exception, the garbage collector may finalize the context first. LLVM then
frees its modules, and the second finalizer would free them again. The finalizers of these modules
free nothing: only the context does.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm


def module_of_bitcode(data: bytes, context: Any = None) -> Any:
    """Parses bitcode, in a new context if none is given."""
    return _freed_by_context(llvm.parse_bitcode(data, context or llvm.create_context()))


def module_of_assembly(text: str, context: Any = None) -> Any:
    """Parses LLVM IR, in a new context if none is given."""
    return _freed_by_context(llvm.parse_assembly(text, context or llvm.create_context()))


def _freed_by_context(module: Any) -> Any:
    module._owned = True
    return module
