"""Functions of Python for the translator: those of texts, and loops over arrays."""

import linecache
from itertools import count

from numba import types

POINTER, WORD = types.CPointer, types.int64
_numbers = count()


def function_of(text, names):
    """The function `kernel` of a text, whose source can be read."""
    path = f"<kernel {next(_numbers)}>"
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    exec(compile(text, path, "exec"), names)
    return names["kernel"]


def over_elements(function, arity):
    """A function that is applied to all elements of arrays; the last one is overwritten."""

    def of_one(x, y, low, high):
        for i in range(low, high):
            y[i] = function(x[i])

    def of_two(x, y, low, high):
        for i in range(low, high):
            y[i] = function(x[i], y[i])

    return of_one if arity == 1 else of_two
