"""Adds functions specialised to particular sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structir.analysis.substitution import Substitution
from structir.build import BlockBuilder
from structir.errors import StructIRError
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Sym, as_dim
from structir.ir.expr import Call, Expr, Function, GlobalVar
from structir.ir.module import IRModule
from structir.passes.base import module_pass
from structir.passes.bind_symbolic_vars import read_sizes, with_sizes
from structir.passes.manager.rules import op_with_trait


@module_pass
def specialise(
    module: IRModule, *, sizes: str = "", function: str = "main", dispatch: bool = False
) -> IRModule:
    """Adds a copy of a function for some sizes: main for "n=4 m=8" is main_n4_m8.

    Several lists of sizes, separated by semicolons, add several copies. With `dispatch` the
    function compares its sizes at run time and calls the first matching copy, or else main_general,
    its original body.
    """
    functions = dict(module.functions)
    copies: dict[str, Mapping[str, int]] = {}
    for each in filter(None, map(str.strip, sizes.split(";"))):
        size_by_dim = read_sizes(each)
        name = "_".join((function, *(f"{dim}{size}" for dim, size in size_by_dim.items())))
        copies[_free(name, functions)] = size_by_dim
        copy = Substitution(fresh=True).function(module[function])
        functions[name] = with_sizes(copy, size_by_dim)
    if not copies:
        return module
    if dispatch:
        general = _free(f"{function}_general", functions)
        original = functions[general] = module[function]
        functions[function] = _Dispatch(original, general, copies, functions).function()
    return module.with_functions(functions)


def _free(name: str, functions: Mapping[str, Any]) -> str:
    if name in functions:
        raise StructIRError(
            f"specialise: function {name} already exists in the module", code="E0614"
        )
    return name


class _Dispatch:
    """The construction of a function that calls the copy for its sizes."""

    def __init__(
        self,
        original: Function,
        general: str,
        copies: Mapping[str, Mapping[str, int]],
        functions: Mapping[str, Any],
    ) -> None:
        self.original, self.general, self.functions = original, general, functions
        self.copies = list(copies.items())
        self.builder = BlockBuilder()
        self.copier = Substitution(fresh=True)
        self.copier.new_dims([param.struct_info for param in original.params])
        self.params = [self.copier.bound(param) for param in original.params]
        bound = standing_alone([param.struct_info for param in self.params])
        self.dims = {symbol.name: as_dim(symbol) for symbol in bound if type(symbol) is Sym}

    def function(self) -> Function:
        """Returns the dispatching function."""
        original, builder = self.original, self.builder
        info = self.copier.info(original.ret_struct_info)
        with builder.function(
            "dispatch", self.params, ret=info, pure=original.is_pure, attrs=original.attrs
        ):
            builder.emit_func_output(self.choice(0)())
        return builder.finished("dispatch")

    def choice(self, number: int) -> Callable[[], Expr]:
        """Returns the emitter of the branches from copy `number` on."""

        def emit() -> Expr:
            if number == len(self.copies):
                return self.call(self.general)
            name, size_by_dim = self.copies[number]
            dims = [self.dims[dim] for dim in size_by_dim]
            condition = self.builder.emit(
                op_with_trait("sizes_are")(dims, list(size_by_dim.values()))
            )
            return self.builder.if_else(condition, lambda: self.call(name), self.choice(number + 1))

        return emit

    def call(self, name: str) -> Expr:
        """Returns the result of a copy, in the sizes of the original function."""
        callee = GlobalVar(name, self.functions[name].struct_info)
        result = self.builder.emit(Call(callee, tuple(self.params)))
        info = self.copier.info(self.original.ret_struct_info)
        return result if result.struct_info == info else self.builder.match_cast(result, info)
