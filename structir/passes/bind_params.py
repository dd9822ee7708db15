"""Binds parameters to constant arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from structir.analysis.lattice import FAIL_L0, base_check
from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, StructInfoError, StructIRError
from structir.ir.dims import Dim, Sym, as_sym
from structir.ir.display_names import one_message
from structir.ir.expr import Constant, Function, Var
from structir.ir.masked import unmasked
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.passes.base import module_pass


@module_pass(comparable=False)
def bind_params(
    module: IRModule,
    *,
    values: Mapping[str, Any] | None = None,
    file: str | None = None,
    function: str = "main",
) -> IRModule:
    """Replaces parameters by constants: arrays by name, or those of a file written by
    `numpy.savez`.

    A symbolic dim that a bound parameter determines becomes the size of the array everywhere.
    """
    arrays = dict(np.load(file)) if file is not None else dict(values or {})
    bound_function = _bind(
        module[function], {name: np.asarray(unmasked(data)) for name, data in arrays.items()}
    )
    return module.with_functions({**module.functions, function: bound_function})


def _bind(function: Function, arrays: Mapping[str, Any]) -> Function:
    params = {param.name: param for param in function.params}
    if unknown := sorted(arrays.keys() - params.keys()):
        raise StructIRError(
            f"bind_params: no parameter {', '.join(unknown)}; available: {', '.join(params)}",
            code="E0613",
        )
    constants: dict[Var, Constant] = {}
    sizes: dict[Sym, Dim] = {}
    for name, data in arrays.items():
        constants[params[name]] = Constant(data)
        dims = getattr(params[name].struct_info, "dims", None)
        for dim, size in zip(dims if isinstance(dims, tuple) else (), data.shape, strict=False):
            symbol = as_sym(dim)
            if symbol is not None:
                sizes.setdefault(symbol, size)
    binder = Substitution(constants, sizes)
    for param, constant in constants.items():
        info = binder.info(param.struct_info)
        if base_check(info, constant.struct_info) <= FAIL_L0 or not _same_sizes(info, constant):
            with one_message():
                message = f"bind_params: {param.name}: expected {info}"
            raise StructInfoError(
                Diagnostic(f"{message}, found {constant.struct_info}", param.span)
            )
    remaining = tuple([param for param in function.params if param not in constants])
    return binder.function(replace(function, params=remaining))


def _same_sizes(info: Any, constant: Constant) -> bool:
    if info.dtype not in (None, constant.data.dtype.name):
        return False
    dims = info.dims if isinstance(info.dims, tuple) else constant.data.shape
    pairs = zip(dims, constant.data.shape, strict=False)
    return all(dim == size or type(dim) is not int for dim, size in pairs)
