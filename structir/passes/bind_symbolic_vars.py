"""Binds symbolic dims to fixed sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    """Binds symbolic dims of the parameters to fixed sizes: a dict, or "batch=4 seq=16"."""
    bound = with_sizes(module[function], sizes)
    return module.with_functions({**module.functions, function: bound})


def with_sizes(function: Function, sizes: Mapping[str, int] | str) -> Function:
    """Returns a copy of a function with some of its dims bound to sizes."""
    size_by_name = read_sizes(sizes) if isinstance(sizes, str) else sizes
    bound = standing_alone([p.struct_info for p in function.params])
    dims = {sym.name: sym for sym in bound if type(sym) is Sym}
    check_dims(size_by_name, dims)
    chosen: dict[Sym, Dim] = {dims[name]: size for name, size in size_by_name.items()}
    return Substitution(dims=chosen).function(function)


def check_dims(sizes: Iterable[str], dims: Iterable[str]) -> None:
    """Raises StructIRError for the name of a size that is none of the dims."""
    known = list(dims)
    if unknown := sorted(set(sizes).difference(known)):
        message = f"sizes: no dim {', '.join(unknown)}; available: {', '.join(known) or 'none'}"
        raise StructIRError(message, code="E0613")


def read_sizes(text: str) -> dict[str, int]:
    """Parses `batch=4 seq=16` into a dict; raises StructIRError for other strings."""
    sizes = {}
    for part in text.replace(",", " ").split():
        name, _, number = part.partition("=")
        if not name or not number.isdecimal():
            raise StructIRError(f"sizes: expected NAME=INT, found {part!r}", code="E0611")
        sizes[name] = int(number)
    return sizes
