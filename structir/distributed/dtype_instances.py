"""Functions with dtype variables at known dtypes: shards are planned for these."""

from __future__ import annotations

from collections.abc import Mapping

from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, StructInfoError, StructIRError
from structir.ir.binding_dims import standing_alone
from structir.ir.dtype import DTYPES, DtypeVar, dtype_hint
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.ir.node import replace


def dtype_vars_of(function: Function) -> tuple[DtypeVar, ...]:
    """Returns the dtype variables that the parameters of a function bind."""
    bound = standing_alone([param.struct_info for param in function.params])
    return tuple([variable for variable in bound if type(variable) is DtypeVar])


def at_dtypes(module: IRModule, name: str, dtypes: Mapping[str, str]) -> IRModule:
    """Returns a module whose function has dtypes in place of its dtype variables, given by name.

    Raises StructIRError for a name or a dtype that does not exist.
    """
    function = module.functions.get(name)
    if not isinstance(function, Function) or not dtypes:
        return module
    named = {key.removeprefix("'"): dtype for key, dtype in dtypes.items()}
    variables = {variable.name: variable for variable in dtype_vars_of(function)}
    for key, dtype in named.items():
        if key not in variables:
            listed = ", ".join(map(str, variables.values())) or "none"
            message = f"no dtype variable '{key} in {name}; available: {listed}"
            raise StructIRError(message, code="E0909")
        if dtype not in DTYPES:
            diagnostic = Diagnostic(f"unknown dtype {dtype!r}", hint=dtype_hint(dtype))
            raise StructInfoError(diagnostic.coded("E0122"))
    known = {variables[key]: dtype for key, dtype in named.items()}
    instance = Substitution(dims=known).function(function)
    return replace(module, functions={**module.functions, name: instance})


def check_dtypes(function: Function, name: str) -> None:
    """Raises StructInfoError for a function with dtype variables."""
    for variable in dtype_vars_of(function):
        span = next((p.span for p in function.params if p.span is not None), None)
        message = f"cannot plan {name}: the dtype variable {variable} has no dtype"
        hint = f'pass one: `dtypes={{"{variable.name}": "float32"}}`, or `--dtypes '
        hint += f"{variable.name}=float32`"
        raise StructInfoError(Diagnostic(message, span, hint=hint, code="E1129"))
