"""Functions for particular sizes, beside the one for all sizes."""

from __future__ import annotations

from structir.analysis.substitution import Substitution
from structir.errors import StructIRError
from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.bind_symbolic_vars import read_sizes, with_sizes


@module_pass
def specialise(module: IRModule, *, sizes: str = "", function: str = "main") -> IRModule:
    """Add a copy of a function for some sizes: main for "n=4 m=8" is main_n4_m8.

    Several lists of sizes, with semicolons between them, give several copies.
    """
    functions = dict(module.functions)
    for each in filter(None, map(str.strip, sizes.split(";"))):
        wanted = read_sizes(each)
        name = "_".join((function, *(f"{dim}{size}" for dim, size in wanted.items())))
        if name in functions:
            raise StructIRError(f"the module has a function {name} already")
        copy = Substitution(fresh=True).function(module[function])
        functions[name] = with_sizes(copy, wanted)
    return module.with_functions(functions) if len(functions) > len(module.functions) else module
