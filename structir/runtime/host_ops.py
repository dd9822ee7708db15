"""Lists the calls of a program that its compiled plans cannot contain, before the first run."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from structir.analysis.variables import walk_values
from structir.interpret.extern import is_by_form
from structir.ir.expr import (
    ATOMS,
    Binding,
    Call,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import PrimStructInfo, ShapeStructInfo
from structir.ops.shapes import tensor_to_shape
from structir.runtime.plans.instructions import with_location
from structir.runtime.program import RegionCall, is_open, rows_added

ENDLESS_CALLS = "too many nested calls"  # of a recursive function whose end depends on values


def host_reason(op: Expr, is_constant: bool) -> str | None:
    """Returns why the host must run a call of `op` outside a region; None if a plan can run it.

    A call of constants runs while the plan is made.
    """
    match op:
        case Op():
            definition: Any = op.definition
            if definition.pure and (is_constant or "loop" in definition.hooks):
                return None
            return f"{definition.name} has no kernel for these operands"
        case ExternFunc(name) if not is_by_form(name):
            return f"{name} inspects its arguments"
    return None


def kernel_reason(name: str) -> str:
    """Returns why the host runs a kernel that is called outside a region."""
    return f"{name} runs on the host"


def host_calls(functions: Mapping[str, Function], module: IRModule) -> list[str]:
    """Returns the calls that run on the host, as `function: reason (at location)`.

    The bindings of regions in `functions` are replaced by calls of the regions.
    """
    kernels = {name for name, value in module.functions.items() if isinstance(value, Kernel)}
    reasons: dict[str, None] = {}
    reachable = {name: _reachable(name, functions) for name in functions}
    for name, function in functions.items():
        search = _HostCallSearch(kernels, {n for n in reachable[name] if name in reachable[n]})
        search.function(function)
        reasons |= {f"{name}: {reason}": None for reason in search.reasons}
    return list(reasons)


def _reachable(name: str, functions: Mapping[str, Function]) -> set[str]:
    """Returns the functions that a function calls, directly or not."""
    names: set[str] = set()
    pending = [name]
    while pending:
        used = walk_values(functions[pending.pop()])
        called = {v.name for v in used if type(v) is GlobalVar and v.name in functions}
        pending += called - names
        names |= called
    return names


class _HostCallSearch:
    """Visits the bindings of one function in order. `constant` are the variables whose values a
    plan computes while it is made; `growing` those that may grow during a loop. `recursive` are
    the functions that this one calls and that call it."""

    def __init__(self, kernels: Container[str], recursive: Container[str]) -> None:
        self.kernels, self.recursive = kernels, recursive
        self.reasons: list[str] = []
        self.constant: set[Var] = set()
        self.growing: set[Var] = set()
        self.is_decided = False  # whether a condition around the binding is constant in a plan

    def function(self, function: Function) -> None:
        """Visits a function. Sizes and scalars among its arguments are constant in a plan."""
        numbers = PrimStructInfo | ShapeStructInfo
        self.constant |= {p for p in function.params if isinstance(p.struct_info, numbers)}
        self.sequence(function.body)

    def sequence(self, seq: SeqExpr) -> None:
        """Visits the bindings and the result of a sequence."""
        for binding in seq.bindings():
            self._binding(binding)
        self._visit(seq.body)

    def _binding(self, binding: Binding) -> None:
        if not isinstance(binding, MatchCast) and self._appends(binding.value):
            self.growing.add(binding.var)
            return
        self._visit(binding.value)
        if self._is_constant(binding.value):
            self.constant.add(binding.var)

    def _appends(self, value: Expr) -> bool:
        """Whether a call appends rows to a value that may grow."""
        added = rows_added(value)
        return added is not None and added[0] in self.growing

    def _visit(self, value: Expr) -> None:
        match value:
            case If():
                self._conditional(value)
            case Function():
                self.growing |= {p for p in value.params if is_open(p.struct_info)}
                self.function(value)
            case Call():
                self._call(value)

    def _conditional(self, conditional: If) -> None:
        outer = self.is_decided
        self.is_decided = outer or self._is_constant(conditional.cond)
        self.sequence(conditional.true_branch)
        self.sequence(conditional.false_branch)
        self.is_decided = outer

    def _call(self, call: Call) -> None:
        reason = self._reason(call)
        if reason is not None:
            self.reasons.append(with_location(reason, call.span))

    def _reason(self, call: Call) -> str | None:
        match call.op:
            case GlobalVar(name) if name in self.kernels:
                return kernel_reason(name)
            case GlobalVar(name) if name in self.recursive and not self.is_decided:
                return ENDLESS_CALLS
        if call.op is tensor_to_shape.definition.op:
            return None  # plans for all sizes read sizes from memory
        return host_reason(call.op, all(self._is_constant(a) for a in call.args))

    def _is_constant(self, value: Expr) -> bool:
        match value:
            case Var():
                return value in self.constant
            case Tuple(fields):
                return all(self._is_constant(field) for field in fields)
            case TupleGetItem(whole):
                return self._is_constant(whole)
            case RegionCall(inputs=inputs):
                return all(var in self.constant for var in inputs)
            case Call(op, args):
                constant = isinstance(op, Op) and all(self._is_constant(a) for a in args)
                return constant and host_reason(op, True) is None
        return type(value) in ATOMS or isinstance(value, Function)
