"""Sizes made part of the program."""

from __future__ import annotations

from collections.abc import Mapping

from structir.analysis.substitution import Substitution
from structir.errors import StructIRError
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.passes.base import module_pass


@module_pass(comparable=False)
def bind_symbolic_vars(
    module: IRModule, *, sizes: Mapping[str, int] | str = "", function: str = "main"
) -> IRModule:
    """Give symbolic dims of a function's parameters fixed sizes: a dict, or "batch=4 seq=16"."""
    bound = with_sizes(module[function], sizes)
    return module.with_functions({**module.functions, function: bound})


def with_sizes(function: Function, sizes: Mapping[str, int] | str) -> Function:
    """A function for fixed sizes of some of its dims, its variables those of a copy."""
    wanted = read_sizes(sizes) if isinstance(sizes, str) else sizes
    bound = standing_alone([p.struct_info for p in function.params])
    dims = {sym.name: sym for sym in bound if type(sym) is Sym}
    if unknown := sorted(wanted.keys() - dims.keys()):
        has = ", ".join(dims) or "none"
        raise StructIRError(f"no parameter has a dim {', '.join(unknown)}; there are: {has}")
    chosen: dict[Sym, Dim] = {dims[name]: size for name, size in wanted.items()}
    return Substitution(dims=chosen).function(function)


def read_sizes(text: str) -> dict[str, int]:
    """`batch=4 seq=16` as a dict."""
    found = {}
    for part in text.replace(",", " ").split():
        name, _, number = part.partition("=")
        if not number.isdecimal():
            raise StructIRError(f"{part!r} is no size; write them as batch=4 seq=16")
        found[name] = int(number)
    return found
