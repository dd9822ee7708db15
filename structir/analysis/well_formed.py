"""Whether a program keeps the rules of scope and of form; every breach is reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from structir.analysis.calls import contradicts
from structir.analysis.deduction import are_disjoint, callee_name, deduce
from structir.analysis.kernels import kernel_violations
from structir.analysis.lattice import FAIL_L0, base_check
from structir.analysis.purity import FORCE_PURE, is_pure_value
from structir.errors import Diagnostic, DiagnosticError, Span, WellFormedError
from structir.ir.axes import Labelled, RowVar
from structir.ir.binding_dims import bound_dims, own_dims
from structir.ir.dims import Poly, syms
from structir.ir.expr import (
    ATOMS,
    Binding,
    Call,
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
from structir.ir.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
)

LEAVES = frozenset({*ATOMS, Op})  # what may be nested in an expression


def well_formed(program: IRModule | Function) -> bool:
    """Whether the program keeps every rule."""
    return not violations(program)


def check_well_formed(program: IRModule | Function, *, deduced: bool = False) -> None:
    """Raises one WellFormedError that lists every violation of the rules; returns if there is none.

    A program never changes, so one that passed is not checked again. `deduced` skips what deduction
    has just checked: calls whose StructInfo is still that of their variable.
    """
    if program in _PASSED:
        return
    broken_rules = violations(program, deduced)
    if broken_rules:
        raise WellFormedError(broken_rules)
    if not deduced:
        _PASSED.add(program)


def violations(program: IRModule | Function, deduced: bool = False) -> list[Diagnostic]:
    """Every violation of the rules of scope and form."""
    functions = dict(program.functions) if isinstance(program, IRModule) else {"main": program}
    checker = _Checker(functions if isinstance(program, IRModule) else None, deduced)
    for name, function in functions.items():
        if isinstance(function, Function):
            checker.function(function, name)
        elif isinstance(function, Kernel):
            checker.found += kernel_violations(function)
    return checker.found


_PASSED: WeakSet[IRModule | Function] = WeakSet()


class _Scope:
    """A set whose latest members can be taken back, so that entering a scope costs nothing."""

    def __init__(self) -> None:
        self.members: set[Any] = set()
        self.trail: list[Any] = []

    def add(self, items: Iterable[Any]) -> None:
        """Bring items into scope."""
        for item in items:
            if item not in self.members:
                self.members.add(item)
                self.trail.append(item)

    def leave(self, mark: int) -> None:
        """Forget all that came into scope since the trail had this length."""
        self.members.difference_update(self.trail[mark:])
        del self.trail[mark:]


class _Checker:
    """Walks functions in order of evaluation, keeping what is in scope."""

    def __init__(self, module: Mapping[str, Node] | None, deduced: bool) -> None:
        self.module = module
        self.deduced = deduced
        self.found: list[Diagnostic] = []
        self.defined: set[Var] = set()  # ever, to find double definitions
        self.variables = _Scope()
        self.symbols = _Scope()
        self.known_infos = _Scope()  # of no variables, and all of whose dims are in scope
        self.place: Span | None = None  # of the binding under way: a variable's span is its origin

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is defined inside is not seen after it."""
        scopes = self.variables, self.symbols, self.known_infos
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
        diagnostic = Diagnostic(message, span, hint=hint, code=code)
        for note in notes:
            diagnostic = diagnostic.note(note)
        self.found.append(diagnostic)

    # ---- functions and sequences

    def function(self, function: Function, name: str) -> None:
        with self.scope():
            self.symbols.add(bound_dims([p.struct_info for p in function.params]))
            for param in function.params:
                self.define(param)
            for param in function.params:
                self.info(param.struct_info, param.span, f"parameter {param.name}")
            self.result_scope(function, name)
            forced = function.attrs.get(FORCE_PURE)
            self.sequence(function.body, function.is_pure and not forced)
            self.result(function, name)

    def result_scope(self, function: Function, name: str) -> None:
        """A caller sees the dims that the parameters bind, and no variable of the function."""
        what = f"the result of {name}"
        declared = function.ret_struct_info
        self.undefined_symbols(_free_symbols(declared), what, function.span)
        for var in _shape_variables(declared):
            if var not in self.variables.members or var in function.params:
                self.report(f"{what} mentions {var.name}, which a caller does not see", var.span)

    def result(self, function: Function, name: str) -> None:
        declared, value = function.ret_struct_info, function.body.body
        info = value.struct_info
        if info is not None and (
            base_check(declared, info) is FAIL_L0 or contradicts(declared, info)
        ):
            self.report(
                f"the result of {name} contradicts its body",
                value.span or function.span,
                f"declared: {declared}",
                f"the body gives: {info}",
                hint="correct the return annotation, or leave it out",
            )

    def sequence(self, seq: SeqExpr, pure: bool) -> None:
        for block in seq.blocks:
            if isinstance(block, DataflowBlock):
                self.dataflow(block, pure)
                continue
            for binding in block.bindings:
                self.binding(binding, False, pure)
                if isinstance(binding.var, DataflowVar):
                    name = binding.var.name
                    self.report(
                        f"the dataflow variable {name} is bound outside a dataflow block",
                        binding.span,
                    )
        self.place = seq.span
        self.atom(seq.body)

    def dataflow(self, block: DataflowBlock, pure: bool) -> None:
        outputs: list[Var] = []
        for binding in block.bindings:
            self.binding(binding, True, pure)
            if not isinstance(binding.var, DataflowVar):
                outputs.append(binding.var)
        local = [b.var for b in block.bindings if isinstance(b.var, DataflowVar)]
        self.variables.members.difference_update(local)
        for var in outputs:
            self.info(var.struct_info, var.span, f"variable {var.name}")

    # ---- bindings

    def binding(self, binding: Binding, in_dataflow: bool, pure: bool) -> None:
        value, info = binding.value, binding.var.struct_info
        self.place = binding.span
        if not self.is_plain_call(binding, value):
            self.value(value, in_dataflow, pure, binding.span)
        elif self.deduced and info is value.struct_info and info in self.known_infos.members:
            self.define(binding.var)
            return
        if isinstance(binding, MatchCast):
            self.atom(value)
            self.symbols.add(bound_dims([binding.struct_info]))
            self.info(binding.struct_info, binding.span, "match_cast")
        elif type(value) is Function:
            self.function(value, binding.var.name)
        elif type(value) is If:
            self.branches(value, pure)
        self.define(binding.var)
        self.info(info, binding.span, f"variable {binding.var.name}")
        if not (self.deduced and info is value.struct_info):
            self.agreement(binding)

    def is_plain_call(self, binding: Binding, value: Any) -> bool:
        """Whether a value is a pure op's call on variables in scope: most are, and break no rule
        of scope."""
        if type(value) is not Call or type(value.op) is not Op or type(binding) is not VarBinding:
            return False
        plain = value.op.definition.pure and not value.sinfo_args
        return plain and self.variables.members.issuperset(value.args)

    def value(self, value: Expr, in_dataflow: bool, pure: bool, span: Span | None) -> None:
        if type(value) is Call:
            self.arity(value, span)
        if type(value) is Call and self.kernel_of(value.op) is not None:
            for operand in value.args:
                self.atom(operand)
        elif type(value) is GlobalVar:
            self.global_use(value)
        elif self.passes_kernel(value):
            for operand in value.args[1:]:  # type: ignore[attr-defined]
                self.expr(operand)
        elif type(value) is not Function and type(value) is not If:
            self.expr(value)
        for stated in getattr(value, "sinfo_args", ()):
            self.info(stated, value.span or span, "the stated result")
        if in_dataflow and type(value) is If:
            self.report("an if cannot stand in a dataflow block", value.span or span)
        elif type(value) is Call and not self.is_pure(value):
            name = callee_name(value)
            if in_dataflow:
                self.report(
                    f"{name} has effects and cannot stand in a dataflow block", value.span or span
                )
            elif pure:
                self.report(
                    f"{name} has effects, but the function says it is pure",
                    value.span or span,
                    hint="declare it with @R.function(pure=False)",
                    code="E0501",
                )

    def passes_kernel(self, value: Any) -> bool:
        """Whether a value is a call of an op that calls the kernel which it is given first."""
        if type(value) is not Call or type(value.op) is not Op or not value.args:
            return False
        hooks = getattr(value.op.definition, "hooks", ())
        return "calls_kernel" in hooks and self.kernel_of(value.args[0]) is not None

    def arity(self, call: Call, span: Span | None) -> None:
        """A function of the module may have changed since a call of it was deduced."""
        if self.module is None or type(call.op) is not GlobalVar:
            return
        callee, told = self.module.get(call.op.name), getattr(call.op.struct_info, "params", None)
        if not isinstance(callee, Function) or len(callee.params) == len(call.args):
            return
        if told is None or len(told) == len(call.args):  # else deduction tells it
            takes = f"takes {len(callee.params)} arguments, not {len(call.args)}"
            self.report(f"{callee_name(call)} {takes}", call.span or span)

    def is_pure(self, call: Call) -> bool:
        """Whether a call has no effect; a function of the module has its own word for it."""
        if type(call.op) is GlobalVar and self.module is not None:
            callee = self.module.get(call.op.name)
            if isinstance(callee, Function):
                return callee.is_pure
        return is_pure_value(call)

    def kernel_of(self, callee: Expr) -> Kernel | None:
        """The kernel of the module that an expression names."""
        if type(callee) is not GlobalVar or self.module is None:
            return None
        found = self.module.get(callee.name)
        return found if isinstance(found, Kernel) else None

    def branches(self, value: If, pure: bool) -> None:
        self.condition(value)
        for branch in (value.true_branch, value.false_branch):
            with self.scope():
                self.sequence(branch, pure)

    def condition(self, value: If) -> None:
        self.atom(value.cond)
        info = value.cond.struct_info
        match info:
            case TensorStructInfo(dtype=dtype, ndim=ndim):
                good = dtype in (None, "bool") and ndim in (None, 0)
            case PrimStructInfo(dtype=dtype):
                good = dtype == "bool"
            case _:
                good = info is None or isinstance(info, ObjectStructInfo)
        if not good:
            self.report(
                "the condition of an if must be a scalar bool",
                value.span or value.cond.span,
                f"it is {info}",
                hint='compare, or take R.astype(..., "bool") of a tensor of rank 0',
            )

    def agreement(self, binding: Binding) -> None:
        """The variable's info may not contradict what its value deduces to."""
        value, info = binding.value, binding.var.struct_info
        if isinstance(binding, MatchCast):
            if value.struct_info is not None and are_disjoint(
                binding.struct_info, value.struct_info
            ):
                self.contradiction(binding, binding.struct_info, value.struct_info)
            return
        if type(value) not in (Call, TupleGetItem, If):
            deduced = value.struct_info
        else:
            try:
                deduced = deduce(self.of_module(value))
            except DiagnosticError as error:
                self.found += [d.at(binding.span) for d in error.diagnostics]
                return
        if deduced is None or info is deduced:
            return
        if base_check(info, deduced) is FAIL_L0 or contradicts(info, deduced):
            self.contradiction(binding, info, deduced)

    def of_module(self, value: Expr) -> Expr:
        """A call of a kernel, by what the module's own kernel asks for."""
        if type(value) is not Call or (kernel := self.kernel_of(value.op)) is None:
            return value
        return replace(value, op=replace(value.op, struct_info=kernel.struct_info))

    def contradiction(self, binding: Binding, stated: StructInfo, deduced: StructInfo) -> None:
        self.report(
            f"the StructInfo of {binding.var.name} contradicts its value",
            binding.span,
            f"it says {stated}",
            f"the value is {deduced}",
        )

    # ---- uses

    def define(self, var: Var) -> None:
        if var in self.defined:
            self.report(f"{var.name} is defined twice", var.span)
            self.variables.add([var])
            return
        self.defined.add(var)
        self.variables.members.add(var)
        self.variables.trail.append(var)

    def atom(self, value: Expr) -> None:
        """Where an atom, or a tuple of atoms, has to stand."""
        if type(value) not in ATOMS and type(value) is not Tuple:
            self.nested(value)
        self.expr(value)

    def nested(self, value: Expr) -> None:
        self.report(
            "an expression is nested in another: the program is not in A-normal form", value.span
        )

    def expr(self, value: Expr) -> None:
        """Everything an expression mentions must be in scope; nested values must be atoms."""
        if isinstance(value, Var):
            self.use(value)
            return
        for part in parts(value):
            if isinstance(part, Var):
                self.use(part)
            elif type(part) is Poly:
                self.sizes(part, value.span)
            elif type(part) is GlobalVar:
                self.global_use(part)
            elif type(part) in (Tuple, ShapeExpr, PrimValue):
                self.expr(part)
            elif type(part) not in LEAVES and isinstance(part, Expr):
                self.nested(part)

    def use(self, var: Var) -> None:
        if var in self.variables.members:
            return
        if isinstance(var, DataflowVar) and var in self.defined:
            self.report(
                f"{var.name} is a dataflow variable, used outside its block",
                self.place or var.span,
                hint="list it in R.output(...) to make it seen outside",
            )
        else:
            self.report(f"{var.name} is used where it is not defined", self.place or var.span)

    def global_use(self, var: GlobalVar) -> None:
        if self.kernel_of(var) is not None:
            hint = f"write R.call_kernel(cls.{var.name}, (x, y), out_sinfo=...)"
            message = f"{var.name} is a kernel, which can only be called"
            self.report(message, var.span or self.place, hint=hint)
        if self.module is not None and var.name not in self.module:
            self.report(f"the module has no function {var.name}", var.span or self.place)

    def sizes(self, dim: Poly, span: Span | None) -> None:
        self.undefined_symbols(syms(dim), "a size", span)

    def info(self, info: StructInfo, span: Span | None, what: str) -> None:
        """Every dim and every variable that an info mentions must be in scope."""
        if info in self.known_infos.members:
            return
        self.undefined_symbols(_free_symbols(info), what, span)
        variables = _shape_variables(info)
        for var in variables:
            self.use(var)
        if not variables:
            self.known_infos.add([info])

    def undefined_symbols(self, mentioned: Iterable[Any], what: str, span: Span | None) -> None:
        """Reports the dims and row variables that are not in scope, each once."""
        unknown = set(mentioned) - self.symbols.members
        if not unknown:
            return
        in_scope = {str(bound) for bound in self.symbols.members}
        self.symbols.add(unknown)
        for name in sorted({str(dim) for dim in unknown} & in_scope):
            self.report(
                f"two different dims are named {name}: expected the one in scope, found another "
                f"one in {what}",
                span,
                hint=f"create {name} once, and use that object in both places",
                code="E0503",
            )
        names = ", ".join(sorted(str(dim) for dim in unknown if str(dim) not in in_scope))
        if names:
            self.report(
                f"{what} mentions {names}, which nothing binds",
                span,
                hint="a symbolic dim is bound where it stands alone as a size of a parameter or "
                "of a match_cast",
                code="E0502",
            )


def _free_symbols(info: StructInfo) -> set[Any]:
    """The symbolic variables and rows of an info, less those that callables in it bind
    themselves."""
    found: set[Any] = set()
    todo: list[tuple[Node, frozenset[Any]]] = [(info, frozenset())]
    while todo:
        item, own = todo.pop()
        if isinstance(item, FuncStructInfo):
            own = own | own_dims(item)
        for part in parts(item):
            if type(part) is Poly:
                found |= syms(part) - own
            elif type(part) is RowVar:
                found |= {part} - own
            elif isinstance(part, StructInfo | Labelled):
                todo.append((part, own))
    return found


def _shape_variables(info: StructInfo) -> list[Var]:
    found: list[Var] = []
    todo: list[Any] = [info]
    while todo:
        for part in parts(todo.pop()):
            if isinstance(part, Var):
                found.append(part)
            elif isinstance(part, StructInfo):
                todo.append(part)
    return found
