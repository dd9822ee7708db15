"""The reference interpreter: `structir.interpret(mod, "main", *args)` runs ops on NumPy."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from structir.analysis.well_formed import check_well_formed
from structir.interpret import (
    error_function,
    image_decoding,
    lists,
    loops,
    random_functions,
    strings,
)
from structir.interpret.extern import find_extern, register_extern
from structir.interpret.interpreter import Interpreter
from structir.interpret.ownership import donating, owning
from structir.ir.module import IRModule, as_module

__all__ = [
    "error_function",
    "find_extern",
    "image_decoding",
    "interpret",
    "lists",
    "loops",
    "random_functions",
    "register_extern",
    "strings",
]


def interpret(mod: IRModule, name: str, /, *args: Any, **names: Any) -> Any:
    """Runs a function of a module op by op on NumPy; returns its result, which the caller owns.

    Arguments are passed by position or by the names of the parameters.
    Tensors are arrays, shapes tuples of integers, and scalars Python numbers. Raises
    ShapeMismatchError if an argument does not match its parameter.
    """
    module = as_module(mod, "structir.interpret")
    check_well_formed(module)
    run = owning(Interpreter(module).global_function(name))
    return donating(name, module.functions.get(name), run)(*args, **names)


class _Callable(ModuleType):
    """The type of this module: calling the module calls `interpret`."""

    def __call__(self, mod: IRModule, name: str, /, *args: Any, **names: Any) -> Any:
        return interpret(mod, name, *args, **names)


sys.modules[__name__].__class__ = _Callable
