"""Functions of Python for the translator: those of texts, and loops over arrays."""

import ctypes
import linecache
from itertools import count

import numpy as np

import structir.targets.cpu.prepared  # noqa: F401  registers the functions of C that code calls
from structir.targets.cpu.code_generation import (
    compile_module,
    module_for_host,
    pending_module,
    run_passes,
)
from structir.targets.cpu.kinds import INDEX, NOTHING, is_pointer
from structir.targets.cpu.translated import translate
from structir.targets.cpu.translation import Translation

C_TYPES = {NOTHING: None, INDEX: ctypes.c_int64}
_numbers = count()


def function_of(text, names):
    """The function `kernel` of a text, whose source can be read."""
    path = f"<kernel {next(_numbers)}>"
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    exec(compile(text, path, "exec"), names)
    return names["kernel"]


def compiled(function, result, *kinds, translation=Translation):
    """A function of addresses and integers, translated and compiled; it keeps its code."""
    symbol = f"test_{next(_numbers)}_{function.__name__}"
    code = compile_module(translate(function, symbol, result, kinds, translation), symbol)
    parameters = [ctypes.c_void_p if is_pointer(k) else C_TYPES[k] for k in kinds]
    run = ctypes.CFUNCTYPE(C_TYPES[result], *parameters)(code.addresses[0])
    run.code = code
    return run


def optimized(function, result, *kinds):
    """The LLVM IR of a function after all passes."""
    pending = pending_module(module_for_host(translate(function, "main", result, kinds)), "main")
    run_passes(pending.passes, pending.module, pending.builder)
    return str(pending.module)


def over_elements(function, arity):
    """A function that is applied to all elements of arrays; the last array has its results."""

    def of_one(x, y, low, high):
        for i in range(low, high):
            y[i] = function(x[i])

    def of_two(x, z, y, low, high):
        for i in range(low, high):
            y[i] = function(x[i], z[i])

    return of_one if arity == 1 else of_two


def mapped(function, *columns, result=None):
    """The results of a function over arrays, in one compiled loop as kernels have it."""
    columns = [np.ascontiguousarray(array) for array in columns]
    out = np.empty(columns[0].shape, result or columns[0].dtype)

    pointers = [f"{array.dtype}*" for array in (*columns, out)]
    loop = over_elements(function, len(columns))
    run = compiled(loop, NOTHING, *pointers, INDEX, INDEX)
    run(*[array.ctypes.data for array in (*columns, out)], 0, out.size)
    return out
