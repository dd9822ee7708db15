"""Kernels with dtype variables at known dtypes: their instances, and calls of these."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from structir.analysis.calls import Binder
from structir.analysis.erasure import map_dims
from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.binding_dims import standing_alone
from structir.ir.dtype import DtypeVar, int_limits, is_float, is_int
from structir.ir.expr import Call, Expr, Function, GlobalVar, Var
from structir.ir.kernel import (
    KERNEL_DTYPES,
    Apply,
    Kernel,
    KernelStatement,
    Literal,
    Local,
    Scalar,
    computed_in,
)
from structir.ir.kernel_functions import KIND_NAMES, SCALAR_FUNCTIONS
from structir.ir.module import IRModule
from structir.ir.node import rebuild, replace
from structir.ir.struct_info import StructInfo

Dtypes = Mapping[DtypeVar, str]


@lru_cache(256)
def kernel_dtype_vars(kernel: Kernel) -> tuple[DtypeVar, ...]:
    """Returns the dtype variables that the parameters of a kernel bind."""
    bound = standing_alone([param.struct_info for param in kernel.params])
    return tuple([variable for variable in bound if type(variable) is DtypeVar])


@lru_cache(256)
def kernel_at(kernel: Kernel, *dtypes: str) -> Kernel:
    """Returns a kernel at the dtypes of its variables, in order of occurrence.

    Raises DiagnosticError if its statements do not have one of these dtypes.
    """
    variables = kernel_dtype_vars(kernel)
    for variable, dtype in zip(variables, dtypes, strict=True):
        if dtype not in KERNEL_DTYPES:
            message = f"{variable} cannot be {dtype}: it is not a dtype of kernels"
            hint = f"convert the operand to one of {', '.join(sorted(KERNEL_DTYPES))}"
            raise DiagnosticError(
                Diagnostic(message, kernel.span, kernel.name, hint=hint, code="E1126")
            )
    instance = _KernelInstance(kernel.name, dict(zip(variables, dtypes, strict=True)))
    return instance.kernel(kernel, "_".join([kernel.name, *dtypes]))


class _KernelInstance:
    """Rebuilds a kernel with dtypes in place of its dtype variables."""

    def __init__(self, name: str, dtypes: Dtypes) -> None:
        self.name, self.dtypes = name, dtypes
        self.renamed: dict[Any, Any] = {}  # arrays and locals of the original

    def kernel(self, kernel: Kernel, name: str) -> Kernel:
        """Returns the kernel at its dtypes."""
        params = tuple(map(self.part, kernel.params))
        return replace(kernel, params=params, body=tuple(map(self.part, kernel.body)), name=name)

    def part(self, part: Any) -> Any:
        """Returns a part of the kernel at its dtypes."""
        if isinstance(part, Var | Local):
            if part not in self.renamed:
                self.renamed[part] = self.variable(part)
            return self.renamed[part]
        if type(part) is Literal:
            return self.literal(part)
        if type(part) is DtypeVar:
            return computed_in(self.dtypes[part])
        if not isinstance(part, Scalar | KernelStatement):
            return part
        new: Any = rebuild(part, self.part)
        if type(part) is Apply:
            self.check(part, new)
        return new

    def variable(self, variable: Any) -> Any:
        """Returns a parameter, an array or a local scalar at its dtype."""
        if isinstance(variable, Local):
            return rebuild(variable, lambda p: computed_in(self.dtypes.get(p, p)))
        info = map_dims(variable.struct_info, self.dtypes)
        return variable if info is variable.struct_info else replace(variable, struct_info=info)

    def literal(self, literal: Literal) -> Literal:
        """Returns a literal in a known dtype, which has its value."""
        value, variable = literal.value, cast(Any, literal.dtype)
        if type(variable) is not DtypeVar:
            return literal
        dtype = self.dtypes[variable]
        fits = is_float(dtype) or (is_int(dtype) and type(value) is int)
        if fits and is_int(dtype):
            low, high = int_limits(dtype)
            fits = low <= value <= high
        if not fits:
            message = f"the number {value} is not a value of {variable}, which is {dtype}"
            raise self.error(message, literal)
        return replace(literal, dtype=computed_in(dtype))

    def check(self, generic: Apply, at_dtypes: Apply) -> None:
        """Raises DiagnosticError if a function does not take the dtype of a variable."""
        function = SCALAR_FUNCTIONS.get(generic.fn)
        for open_arg, arg in zip(generic.args, at_dtypes.args, strict=True):
            variable: Any = open_arg.dtype
            if type(variable) is DtypeVar and function and not function.takes(arg.dtype):
                name = function.symbol.strip() or function.name
                expected = f"`{name}`: expected {KIND_NAMES[function.kind]}"
                raise self.error(f"{expected}, found {variable} = {self.dtypes[variable]}", generic)

    def error(self, message: str, scalar: Scalar) -> DiagnosticError:
        """Returns the error of an expression that lacks the dtypes of a call."""
        hint = "call the kernel with another dtype, or convert in it: `T.float32(x)`"
        return DiagnosticError(Diagnostic(message, scalar.span, self.name, hint=hint, code="E1126"))


# ---- modules


def with_kernels_at_dtypes(module: IRModule) -> IRModule:
    """Returns a module with calls of kernels with dtype variables replaced by calls of their
    instances, where the dtypes are known."""
    members = module.functions.items()
    generic = {n: k for n, k in members if isinstance(k, Kernel) and kernel_dtype_vars(k)}
    if not generic:
        return module
    calls = _InstanceCalls(module, generic)
    functions = {n: calls.function(f) if isinstance(f, Function) else f for n, f in members}
    return module.with_functions({**functions, **calls.instances})


class _InstanceCalls(Substitution):
    """Replaces the callees of calls of kernels."""

    def __init__(self, module: IRModule, generic: Mapping[str, Kernel]) -> None:
        super().__init__()
        self.module, self.generic = module, generic
        self.instances: dict[str, Kernel] = {}

    def part(self, part: Any) -> Any:
        """Returns a part with calls of instances."""
        if type(part) is Call and isinstance(part.op, GlobalVar) and part.op.name in self.generic:
            part = replace(part, op=self.instance(part.op, [*part.args], part.sinfo_args))
        return super().part(part)

    def instance(
        self, callee: GlobalVar, args: list[Expr], results: tuple[StructInfo, ...]
    ) -> GlobalVar:
        """Returns the instance of a kernel for the operands and results of a call."""
        kernel = self.generic[callee.name]
        binder = Binder(kernel.struct_info)
        infos = [*[arg.struct_info for arg in args], *results]
        for param, info in zip(kernel.params, infos, strict=True):
            if info is not None:
                binder.bind(param.struct_info, info)
        dtypes = [binder.dtypes.get(variable) for variable in kernel_dtype_vars(kernel)]
        known = [getattr(info, "dtype", None) for info in infos]  # a run checks the others
        if not all([isinstance(dtype, str) for dtype in (*dtypes, *known)]):
            return callee
        instance = kernel_at(kernel, *map(str, dtypes))
        name = "_".join([callee.name, *map(str, dtypes)])
        while self.module.functions.get(name, instance) is not instance:
            name += "_"
        self.instances[name] = instance
        return GlobalVar(name, instance.struct_info)
