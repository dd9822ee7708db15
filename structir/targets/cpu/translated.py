"""Translates Python functions to modules in LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from structir.interrupts import collection_paused
from structir.targets.cpu.inlined import Inlined, parse_function
from structir.targets.cpu.kinds import INDEX, NOTHING, Kind, llvm_type
from structir.targets.cpu.operations import Operations, Typed, UntranslatedError
from structir.targets.cpu.translation import Translation


class LibraryTranslation(Translation):
    """Translates a function of the library: those that it calls become functions of the module,
    with integers as results, unless they only return an expression."""

    def called(self, function: Any, args: Sequence[Typed]) -> Typed:
        """Translates a call."""
        taken, kinds = parse_function(function), tuple([a.kind for a in args])
        if taken is None or taken.is_expression or any(isinstance(k, tuple) for k in kinds):
            return super().called(function, args)
        result = INDEX if taken.has_result else NOTHING
        module, name = self.builder.module, f"{function.__name__}.{'.'.join(kinds)}"
        callee = module.globals.get(name)
        if callee is None:
            callee = _define(module, name, taken, result, kinds, LibraryTranslation)
            callee.linkage = "internal"
            callee.attributes.add("alwaysinline")
        value = self.builder.call(callee, [a.value for a in args])
        return Typed(value, INDEX) if taken.has_result else self.operations.nothing()


@collection_paused()
def translate(
    function: Callable[..., Any],
    symbol: str,
    result: Kind,
    kinds: Sequence[Kind],
    translation: type[Translation] = Translation,
) -> str:
    """Returns a module that defines a Python function under a symbol, with the C calling
    convention.

    Parameters are numbers and pointers; the result is a number or none. Raises UntranslatedError if
    the function has other constructs than compiled functions have.
    """
    taken = parse_function(function)
    if taken is None or len(taken.params) != len(kinds):
        raise UntranslatedError(f"{function} is not a function of {len(kinds)} parameters")
    module = ir.Module(symbol)
    module.triple = llvm.get_process_triple()
    _define(module, symbol, taken, result, kinds, translation)
    return str(module)


def library_function(
    function: Callable[..., Any], symbol: str, result: Kind, kinds: Sequence[Kind]
) -> str:
    """Returns a module that defines a function of the library, and the functions that it calls."""
    return translate(function, symbol, result, kinds, LibraryTranslation)


def _define(
    module: Any,
    symbol: str,
    taken: Inlined,
    result: Kind,
    kinds: Sequence[Kind],
    kind_of_translation: type[Translation],
) -> Any:
    """Defines a function in a module."""
    shape = ir.FunctionType(llvm_type(result), [llvm_type(kind) for kind in kinds])
    function = ir.Function(module, shape, symbol)
    operations = Operations(ir.IRBuilder(function.append_basic_block("entry")))
    arguments = [Typed(*pair) for pair in zip(function.args, kinds, strict=True)]
    translation = kind_of_translation(operations, taken)
    value = translation.inline(taken, arguments)
    if not translation.results:  # an infinite loop
        operations.builder.unreachable()
    elif result == NOTHING:
        operations.builder.ret_void()
    else:
        operations.builder.ret(operations.cast(value, result))
    return function
