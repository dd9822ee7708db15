"""Well-formedness: rules of scope and form; reports all violations at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from structir.analysis.calls import are_disjoint
from structir.analysis.declaration import analysis
from structir.analysis.deduction import callee_name, deduce
from structir.analysis.donation import donation_violations
from structir.analysis.kernels import kernel_violations
from structir.analysis.lattice import FAIL_L0, base_check
from structir.analysis.purity import FORCE_PURE, is_pure_value
from structir.analysis.variables import UndoSet, free_symbols_in, shape_variables_in
from structir.errors import Diagnostic, DiagnosticError, Span, WellFormedError
from structir.ir.binding_dims import binding_hint, bound_dims
from structir.ir.dim_text import one_message
from structir.ir.dims import Poly, syms
from structir.ir.expr import (
    ATOMS,
    Binding,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.node import Node, parts, replace
from structir.ir.op import Op
from structir.ir.struct_info import ObjectStructInfo, PrimStructInfo, StructInfo, TensorStructInfo

LEAVES = frozenset({*ATOMS, Op})  # expressions that may be operands


@analysis
def well_formed(program: IRModule | Function) -> bool:
    """Returns whether the program satisfies every rule."""
    return not violations(program)


@analysis
def check_well_formed(program: IRModule | Function, *, deduced: bool = False) -> None:
    """Raises one WellFormedError that lists every violation of the rules; returns if there is none.

    Programs are immutable: one that passed is not checked again. `deduced` skips checks of calls
    whose variable has the deduced StructInfo.
    """
    if program in _PASSED:
        return
    diagnostics = violations(program, deduced)
    if diagnostics:
        raise WellFormedError(diagnostics)
    if not deduced:
        _PASSED.add(program)


def violations(program: IRModule | Function, deduced: bool = False) -> list[Diagnostic]:
    """Returns every violation of the rules of scope and form."""
    functions = dict(program.functions) if isinstance(program, IRModule) else {"main": program}
    checker = _Checker(functions if isinstance(program, IRModule) else None, deduced)
    for name, function in functions.items():
        if isinstance(function, Function):
            checker.check_function(function, name)
            if function.attrs:
                checker.diagnostics += donation_violations(function, name, functions)
        elif isinstance(function, Kernel):
            checker.diagnostics += kernel_violations(function)
    return checker.diagnostics


_PASSED: WeakSet[IRModule | Function] = WeakSet()


def _condition_hint(cond: Expr) -> str:
    """Returns an edit that makes a value a condition: a reduction, or a comparison."""
    info, name = cond.struct_info, getattr(cond, "name", "x")
    if isinstance(info, TensorStructInfo) and info.ndim != 0:
        return (
            f"reduce it to one bool: `R.max({name})`, or choose elements: `R.where({name}, a, b)`"
        )
    return f'convert it: `R.astype({name}, "bool")`'


class _Checker:
    """Walks functions in order of evaluation and tracks the names in scope."""

    def __init__(self, module: Mapping[str, Node] | None, deduced: bool) -> None:
        self.module = module
        self.deduced = deduced
        self.diagnostics: list[Diagnostic] = []
        self.defined: set[Var] = set()  # in any scope, to detect double definitions
        self.variables = UndoSet()
        self.symbols = UndoSet()
        self.valid_infos = UndoSet()  # without variables, and with all dims in scope
        self.binding_span: Span | None = None  # of the current binding

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Limits definitions to the block."""
        scopes = self.variables, self.symbols, self.valid_infos
        marks = [len(scope.trail) for scope in scopes]
        yield
        for scope, mark in zip(scopes, marks, strict=True):
            scope.leave(mark)

    def report(
        self,
        message: str,
        span: Span | None,
        *notes: str,
        hint: str | None = None,
        code: str = "",
    ) -> None:
        diagnostic = Diagnostic(message, span or self.binding_span, hint=hint, code=code)
        for note in notes:
            diagnostic = diagnostic.note(note)
        self.diagnostics.append(diagnostic)

    # Functions and sequences

    def check_function(self, function: Function, name: str) -> None:
        self.binding_span = function.span
        with self.scope():
            self.symbols.add(bound_dims([p.struct_info for p in function.params]))
            for param in function.params:
                self.define(param)
            for param in function.params:
                self.check_info(param.struct_info, param.span, f"parameter {param.name}")
            self.check_result_scope(function, name)
            forced = function.attrs.get(FORCE_PURE)
            self.check_sequence(function.body, function.is_pure and not forced)
            self.check_result(function, name)

    def check_result_scope(self, function: Function, name: str) -> None:
        """Checks that the result type mentions only dims of parameters, and no variables."""
        subject = f"the result of {name}"
        declared = function.ret_struct_info
        self.check_symbols(free_symbols_in(declared), subject, function.span)
        params = set(function.params)
        for var in shape_variables_in(declared):
            if var not in self.variables.members or var in params:
                self.report(
                    f"{subject} mentions the variable {var.name}, which is not in scope of callers",
                    var.span,
                    code="E0504",
                )

    def check_result(self, function: Function, name: str) -> None:
        declared, value = function.ret_struct_info, function.body.body
        info = value.struct_info
        if info not in (None, declared) and base_check(declared, info) is FAIL_L0:
            with one_message():
                self.report(
                    f"the result of {name} contradicts its body: expected {declared}, found {info}",
                    value.span or function.span,
                    hint=f"annotate the result with {info}, or omit the annotation",
                    code="E0509",
                )

    def check_sequence(self, seq: SeqExpr, pure: bool) -> None:
        for block in seq.blocks:
            if isinstance(block, DataflowBlock):
                self.check_dataflow(block, pure)
                continue
            self.check_bindings(block.bindings, False, pure)
            for binding in block.bindings:
                if type(binding.var) is not Var and isinstance(binding.var, DataflowVar):
                    name = binding.var.name
                    self.report(
                        f"the dataflow variable {name} is bound outside a dataflow block",
                        binding.span,
                        code="E0507",
                    )
        self.binding_span = seq.span
        self.check_atom(seq.body)

    def check_dataflow(self, block: DataflowBlock, pure: bool) -> None:
        self.check_bindings(block.bindings, True, pure)
        outputs = [b.var for b in block.bindings if not isinstance(b.var, DataflowVar)]
        local = [b.var for b in block.bindings if isinstance(b.var, DataflowVar)]
        self.variables.members.difference_update(local)
        for var in outputs:
            self.check_info(var.struct_info, var.span, f"variable {var.name}")

    # Bindings

    def check_bindings(self, bindings: tuple[Binding, ...], in_dataflow: bool, pure: bool) -> None:
        """Checks bindings in order; with `deduced`, most break no rule."""
        valid, defined = self.valid_infos.members, self.defined
        variables, trail = self.variables.members, self.variables.trail
        for binding in bindings:
            var = binding.var
            info = var.struct_info
            if (
                self.deduced
                and info is binding.value.struct_info
                and info in valid
                and var not in defined
                and self.is_plain(binding, binding.value)
            ):
                defined.add(var)
                variables.add(var)
                trail.append(var)
            else:
                self.check_binding(binding, in_dataflow, pure)

    def check_binding(self, binding: Binding, in_dataflow: bool, pure: bool) -> None:
        value, info = binding.value, binding.var.struct_info
        self.binding_span = binding.span
        if not self.is_plain(binding, value):
            self.check_value(value, in_dataflow, pure, binding.span)
        if isinstance(binding, MatchCast):
            self.check_atom(value)
            self.symbols.add(bound_dims([binding.struct_info]))
            self.check_info(binding.struct_info, binding.span, "match_cast")
        elif type(value) is If:
            self.check_branches(value, pure)
        self.define(binding.var)
        if type(value) is Function:  # it may call itself
            self.check_function(value, binding.var.name)
        self.check_info(info, binding.span, f"variable {binding.var.name}")
        if not (self.deduced and info is value.struct_info):
            self.check_struct_info(binding)

    def is_plain(self, binding: Binding, value: Any) -> bool:
        """Returns whether a value breaks no rule: a pure call, tuple or field of names in scope."""
        kind, members = type(value), self.variables.members
        if kind is Call and type(value.op) is Op and type(binding) is VarBinding:
            if value.sinfo_args or not value.op.definition.pure:
                return False
            operands: tuple[Expr, ...] = value.args
        elif type(binding) is VarBinding and (kind is Tuple or kind is TupleGetItem):
            operands = value.fields if kind is Tuple else (value.tuple_value,)
        else:
            return False
        return members.issuperset(operands) or all(
            [operand in members or type(operand) is Constant for operand in operands]
        )

    def check_value(self, value: Expr, in_dataflow: bool, pure: bool, span: Span | None) -> None:
        if type(value) is Call:
            self.check_arity(value, span)
        if type(value) is Call and self.kernel_of(value.op) is not None:
            for operand in value.args:
                self.check_atom(operand)
        elif type(value) is GlobalVar:
            self.check_global_use(value)
        elif self.passes_kernel(value):
            for operand in value.args[1:]:  # type: ignore[attr-defined]
                self.check_expr(operand)
        elif type(value) is not Function and type(value) is not If:
            self.check_expr(value)
        for declared in getattr(value, "sinfo_args", ()):
            self.check_info(declared, value.span or span, "the declared result")
        if in_dataflow and type(value) is If:
            self.report("`if` is not allowed in a dataflow block", value.span or span, code="E0507")
        elif type(value) is Call and not self.is_pure(value):
            name = callee_name(value)
            if in_dataflow:
                self.report(
                    f"{name} has side effects, which are not allowed in a dataflow block",
                    value.span or span,
                    hint="move the call out of the block",
                    code="E0507",
                )
            elif pure:
                self.report(
                    f"{name} has side effects, but the function is declared pure",
                    value.span or span,
                    hint="declare the function with `@R.function(pure=False)`",
                    code="E0501",
                )

    def passes_kernel(self, value: Any) -> bool:
        """Returns whether a value is an op call with a kernel as its first argument."""
        if type(value) is not Call or type(value.op) is not Op or not value.args:
            return False
        hooks = getattr(value.op.definition, "hooks", ())
        return "calls_kernel" in hooks and self.kernel_of(value.args[0]) is not None

    def check_arity(self, call: Call, span: Span | None) -> None:
        """Checks the number of arguments: a callee may have changed since the call was deduced."""
        if self.module is None or type(call.op) is not GlobalVar:
            return
        callee = self.module.get(call.op.name)
        declared_params = getattr(call.op.struct_info, "params", None)
        if not isinstance(callee, Function) or len(callee.params) == len(call.args):
            return
        # with another number of declared parameters, deduction reports the call
        if declared_params is None or len(declared_params) == len(call.args):
            expected = len(callee.params)
            counts = f"expected {expected} argument{'s' * (expected != 1)}, found {len(call.args)}"
            self.report(f"{callee_name(call)}: {counts}", call.span or span, code="E0210")

    def is_pure(self, call: Call) -> bool:
        """Returns whether a call is pure, by the definition of a callee in the module."""
        if type(call.op) is GlobalVar and self.module is not None:
            callee = self.module.get(call.op.name)
            if isinstance(callee, Function):
                return callee.is_pure
        return is_pure_value(call)

    def kernel_of(self, callee: Expr) -> Kernel | None:
        """Returns the kernel of the module that an expression refers to, or None."""
        if type(callee) is not GlobalVar or self.module is None:
            return None
        definition = self.module.get(callee.name)
        return definition if isinstance(definition, Kernel) else None

    def check_branches(self, value: If, pure: bool) -> None:
        self.check_condition(value)
        for branch in (value.true_branch, value.false_branch):
            with self.scope():
                self.check_sequence(branch, pure)

    def check_condition(self, value: If) -> None:
        self.check_atom(value.cond)
        info = value.cond.struct_info
        match info:
            case TensorStructInfo(dtype=dtype, ndim=ndim):
                is_valid = dtype in (None, "bool") and ndim in (None, 0)
            case PrimStructInfo(dtype=dtype):
                is_valid = dtype in (None, "bool")
            case _:
                is_valid = info is None or isinstance(info, ObjectStructInfo)
        if not is_valid:
            self.report(
                f"the condition of `if`: expected a bool tensor of rank 0, found {info}",
                value.span or value.cond.span,
                hint=_condition_hint(value.cond),
                code="E0508",
            )

    def check_struct_info(self, binding: Binding) -> None:
        """Checks the StructInfo of a variable against that of its value."""
        value, info = binding.value, binding.var.struct_info
        if isinstance(binding, MatchCast):
            if value.struct_info is not None and are_disjoint(
                binding.struct_info, value.struct_info
            ):
                self.report_contradiction(binding, binding.struct_info, value.struct_info)
            return
        if type(value) not in (Call, TupleGetItem, If):
            deduced = value.struct_info
        else:
            try:
                deduced = deduce(self.with_module_kernel(value))
            except DiagnosticError as error:
                self.diagnostics += [d.at(binding.span) for d in error.diagnostics]
                return
        if deduced is None or info is deduced:
            return
        if base_check(info, deduced) is FAIL_L0:
            self.report_contradiction(binding, info, deduced)

    def with_module_kernel(self, value: Expr) -> Expr:
        """Returns a kernel call with the StructInfo of the kernel in the module."""
        if type(value) is not Call or (kernel := self.kernel_of(value.op)) is None:
            return value
        return replace(value, op=replace(value.op, struct_info=kernel.struct_info))

    def report_contradiction(
        self, binding: Binding, declared: StructInfo, deduced: StructInfo
    ) -> None:
        with one_message():
            self.report(
                f"the StructInfo of {binding.var.name} contradicts its value: "
                f"expected {declared}, found {deduced}",
                binding.span,
                code="E0509",
            )

    # Uses

    def define(self, var: Var) -> None:
        if var in self.defined:
            self.report(
                f"{var.name} is defined twice",
                var.span,
                hint=f"create a new variable for the second definition of {var.name}",
                code="E0505",
            )
            self.variables.add([var])
            return
        self.defined.add(var)
        self.variables.members.add(var)
        self.variables.trail.append(var)

    def check_atom(self, value: Expr) -> None:
        """Checks an operand position, which takes an atom or a tuple of atoms."""
        if type(value) not in ATOMS and type(value) is not Tuple:
            self.report_nested(value)
        self.check_expr(value)

    def report_nested(self, value: Expr) -> None:
        self.report(
            f"nested expression: expected a variable or constant, found {value}",
            value.span,
            hint="bind it to a variable first: `builder.emit(...)`",
            code="E0506",
        )

    def check_expr(self, value: Expr) -> None:
        """Checks that all names in an expression are in scope and its operands are atoms."""
        if isinstance(value, Var):
            self.check_use(value)
            return
        for part in parts(value):
            if isinstance(part, Var):
                self.check_use(part)
            elif type(part) is Poly:
                self.check_sizes(part, value.span)
            elif type(part) is GlobalVar:
                self.check_global_use(part)
            elif type(part) in (Tuple, ShapeExpr, PrimValue):
                self.check_expr(part)
            elif type(part) not in LEAVES and isinstance(part, Expr):
                self.report_nested(part)

    def check_use(self, var: Var) -> None:
        if var in self.variables.members:
            return
        if isinstance(var, DataflowVar) and var in self.defined:
            self.report(
                f"dataflow variable `{var.name}` is not visible outside its block",
                self.binding_span or var.span,
                hint=f"export it: `R.output({var.name})`",
                code="E0507",
            )
        else:
            self.report(
                f"variable `{var.name}` is not in scope",
                self.binding_span or var.span,
                code="E0504",
            )

    def check_global_use(self, var: GlobalVar) -> None:
        if self.kernel_of(var) is not None:
            hint = f"`R.call_kernel(cls.{var.name}, (x, y), out_sinfo=...)`"
            message = f"the kernel {var.name} is used as a value: kernels can only be called"
            self.report(message, var.span or self.binding_span, hint=hint, code="E0212")
        if self.module is not None and var.name not in self.module:
            names = ", ".join(self.module)
            message = f"no function `{var.name}` in module; available: {names}"
            self.report(message, var.span or self.binding_span, code="E0504")

    def check_sizes(self, dim: Poly, span: Span | None) -> None:
        self.check_symbols(syms(dim), "a size", span)

    def check_info(self, info: StructInfo, span: Span | None, subject: str) -> None:
        """Checks that every dim and variable of a StructInfo is in scope."""
        if info in self.valid_infos.members:
            return
        self.check_symbols(free_symbols_in(info), subject, span)
        variables = shape_variables_in(info)
        for var in variables:
            self.check_use(var)
        if not variables:
            self.valid_infos.add([info])

    def check_symbols(self, mentioned: Iterable[Any], subject: str, span: Span | None) -> None:
        """Reports the dims and row variables that are not in scope, each once."""
        unknown = set(mentioned) - self.symbols.members
        if not unknown:
            return
        in_scope = {str(bound) for bound in self.symbols.members}
        self.symbols.add(unknown)
        for name in sorted({str(dim) for dim in unknown} & in_scope):
            self.report(
                f"two different dims are named {name}: expected the one in scope, found another "
                f"one in {subject}",
                span,
                hint=f"create `{name}` once, and use that object in both places",
                code="E0503",
            )
        names = ", ".join(sorted(str(dim) for dim in unknown if str(dim) not in in_scope))
        if names:
            self.report(
                f"{subject} mentions {names}, which {'are' if ',' in names else 'is'} not bound",
                span,
                hint=binding_hint(names.split(", ")[0]),
                code="E0502",
            )
