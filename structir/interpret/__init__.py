"""The reference interpreter: `structir.interpret(mod, "main", *args)` runs ops on NumPy."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from structir.analysis.internal_functions import only_function
from structir.analysis.well_formed import check_well_formed
from structir.build import runnable_module
from structir.interpret import (
    error_function,
    image_decoding,
    lists,
    loops,
    matrix_functions,
    random_functions,
    strings,
)
from structir.interpret.extern import find_extern, register_extern
from structir.interpret.interpreter import Interpreter
from structir.interpret.ownership import donating, owning
from structir.ir.expr import Function
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule

__all__ = [
    "error_function",
    "find_extern",
    "image_decoding",
    "interpret",
    "lists",
    "loops",
    "matrix_functions",
    "random_functions",
    "register_extern",
    "strings",
]


def interpret(mod: IRModule | Function | Kernel, /, *args: Any, **names: Any) -> Any:
    """Runs a function of a module op by op on NumPy; returns its result, which the caller owns.

    `interpret(module, "main", x)` names the function; `interpret(module, x)` runs the only public
    one. Arguments are passed by position or by the names of the parameters.
    Tensors are arrays, shapes tuples of integers, and scalars Python numbers. Raises
    ShapeMismatchError if an argument does not match its parameter.
    """
    module = runnable_module(mod, "structir.interpret")
    check_well_formed(module)
    name, args = (
        (args[0], args[1:]) if args and type(args[0]) is str else (only_function(module), args)
    )
    run = owning(Interpreter(module).global_function(name))
    return donating(name, module.functions.get(name), run)(*args, **names)


class _Callable(ModuleType):
    """The type of this module: calling the module calls `interpret`."""

    def __call__(self, mod: IRModule | Function | Kernel, /, *args: Any, **names: Any) -> Any:
        return interpret(mod, *args, **names)


sys.modules[__name__].__class__ = _Callable
