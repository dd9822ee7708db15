"""Modules of LLVM in contexts other than the global one.

llvmlite frees a module and its context by two finalizers. Where both are in one reference cycle, as
in the frames of an exception that is kept, the garbage collector may run that of the context first.
LLVM frees the modules of a context with it, so that the other finalizer would free memory that is
free already. The finalizers of these modules free nothing: the context alone does.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm


def module_of_bitcode(data: bytes, context: Any = None) -> Any:
    """Returns the module that bitcode defines, in a new context if none is given."""
    return _freed_by_context(llvm.parse_bitcode(data, context or llvm.create_context()))


def module_of_assembly(text: str, context: Any = None) -> Any:
    """Returns the module that a text of LLVM IR defines, in a new context if none is given."""
    return _freed_by_context(llvm.parse_assembly(text, context or llvm.create_context()))


def _freed_by_context(module: Any) -> Any:
    module._owned = True
    return module
