"""Whether a program keeps the rules of scope and of form; every breach is reported at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from structir.analysis.deduction import callee_name, contradicts, deduce
from structir.analysis.lattice import FAIL_L0, base_check, bound_dims, own_dims
from structir.analysis.purity import is_pure_value
from structir.errors import Diagnostic, DiagnosticError, Span, WellFormedError
from structir.ir.dims import Poly, Sym, syms
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
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.module import IRModule
from structir.ir.node import Node, parts
from structir.ir.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
)


def well_formed(program: IRModule | Function) -> bool:
    """Whether the program keeps every rule."""
    return not breaches(program)


def check_well_formed(program: IRModule | Function) -> None:
    """Raise one WellFormedError that lists every breach of the rules; return quietly if there is
    none."""
    found = breaches(program)
    if found:
        raise WellFormedError(found)


def breaches(program: IRModule | Function) -> list[Diagnostic]:
    """Every breach of the rules of scope and form."""
    functions = dict(program.functions) if isinstance(program, IRModule) else {"main": program}
    module = set(functions) if isinstance(program, IRModule) else None
    checker = _Checker(module)
    for name, function in functions.items():
        if isinstance(function, Function):
            checker.function(function, name)
    return checker.found


class _Checker:
    """Walks functions in order of evaluation, keeping what is in scope."""

    def __init__(self, module: set[str] | None) -> None:
        self.module = module
        self.found: list[Diagnostic] = []
        self.defined: set[Var] = set()  # ever, to find double definitions
        self.scope: set[Var] = set()
        self.symbols: set[Sym] = set()
        self.known_infos: set[StructInfo] = set()  # all of whose dims are in scope

    def report(self, message: str, span: Span | None, *notes: str, hint: str | None = None) -> None:
        diagnostic = Diagnostic(message, span, hint=hint)
        for note in notes:
            diagnostic = diagnostic.note(note)
        self.found.append(diagnostic)

    # ---- functions and sequences

    def function(self, function: Function, name: str) -> None:
        outer = self.scope, self.symbols, self.known_infos
        self.scope, self.symbols = set(self.scope), set(self.symbols)
        self.known_infos = set()
        self.symbols |= bound_dims([p.struct_info for p in function.params])
        for param in function.params:
            self.define(param)
        for param in function.params:
            self.info(param.struct_info, param.span, f"parameter {param.name}")
        self.sequence(function.body, function.is_pure)
        self.result(function, name)
        self.scope, self.symbols, self.known_infos = outer

    def result(self, function: Function, name: str) -> None:
        declared, value = function.ret_struct_info, function.body.body
        info = value.struct_info
        seen = self.symbols | bound_dims([p.struct_info for p in function.params])
        unknown = _free_symbols(declared) - seen
        if unknown:
            self.undefined_symbols(unknown, f"the result of {name}", function.span)
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
            in_dataflow = isinstance(block, DataflowBlock)
            local: list[Var] = []
            for binding in block.bindings:
                self.binding(binding, in_dataflow, pure)
                if isinstance(binding.var, DataflowVar):
                    local.append(binding.var)
                    if not in_dataflow:
                        self.report(
                            f"the dataflow variable {binding.var.name} is bound outside its block",
                            binding.span,
                        )
            self.scope.difference_update(local)
        self.expr(seq.body)

    # ---- bindings

    def binding(self, binding: Binding, in_dataflow: bool, pure: bool) -> None:
        value = binding.value
        self.value(value, in_dataflow, pure, binding.span)
        if isinstance(binding, MatchCast):
            self.symbols |= bound_dims([binding.struct_info])
            self.info(binding.struct_info, binding.span, "match_cast")
        elif type(value) is Function:
            self.function(value, binding.var.name)
        elif type(value) is If:
            self.branches(value, pure)
        self.define(binding.var)
        self.info(binding.var.struct_info, binding.span, f"variable {binding.var.name}")
        if not isinstance(binding, MatchCast):
            self.agreement(binding)

    def value(self, value: Expr, in_dataflow: bool, pure: bool, span: Span | None) -> None:
        if type(value) is not Function and type(value) is not If:
            self.expr(value)
        if in_dataflow and type(value) is If:
            self.report("an if cannot stand in a dataflow block", value.span or span)
        elif type(value) is Call and not is_pure_value(value):
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
                )

    def branches(self, value: If, pure: bool) -> None:
        self.condition(value)
        for branch in (value.true_branch, value.false_branch):
            outer = self.scope, self.symbols, self.known_infos
            self.scope, self.symbols = set(self.scope), set(self.symbols)
            self.known_infos = set(self.known_infos)
            self.sequence(branch, pure)
            self.scope, self.symbols, self.known_infos = outer

    def condition(self, value: If) -> None:
        self.expr(value.cond)
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
                value.cond.span or value.span,
                f"it is {info}",
                hint='compare, or take R.astype(..., "bool") of a tensor of rank 0',
            )

    def agreement(self, binding: Binding) -> None:
        """The variable's info may not contradict what its value deduces to."""
        value, info = binding.value, binding.var.struct_info
        if type(value) is not Call and type(value) is not TupleGetItem:
            deduced = value.struct_info
        else:
            try:
                deduced = deduce(value)
            except DiagnosticError as error:
                self.found += [d.at(binding.span) for d in error.diagnostics]
                return
        if deduced is None or info is deduced:
            return
        if base_check(info, deduced) is FAIL_L0 or contradicts(info, deduced):
            self.report(
                f"the StructInfo of {binding.var.name} contradicts its value",
                binding.span,
                f"it says {info}",
                f"the value is {deduced}",
            )

    # ---- uses

    def define(self, var: Var) -> None:
        if var in self.defined:
            self.report(f"{var.name} is defined twice", var.span)
        self.defined.add(var)
        self.scope.add(var)

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
            elif type(part) is Tuple or type(part) is ShapeExpr:
                self.expr(part)
            elif isinstance(part, Expr) and type(part) not in ATOMS and not _is_op(part):
                self.report(
                    "an expression is nested in another: the program is not in A-normal form",
                    part.span,
                )

    def use(self, var: Var) -> None:
        if var in self.scope:
            return
        if isinstance(var, DataflowVar) and var in self.defined:
            self.report(
                f"{var.name} is a dataflow variable, used outside its block",
                var.span,
                hint="list it in R.output(...) to make it seen outside",
            )
        else:
            self.report(f"{var.name} is used where it is not defined", var.span)

    def global_use(self, var: GlobalVar) -> None:
        if self.module is not None and var.name not in self.module:
            self.report(f"the module has no function {var.name}", var.span)

    def sizes(self, dim: Poly, span: Span | None) -> None:
        unknown = syms(dim) - self.symbols
        if unknown:
            self.undefined_symbols(unknown, "a size", span)

    def info(self, info: StructInfo, span: Span | None, what: str) -> None:
        """Every dim and every variable that an info mentions must be in scope."""
        if info in self.known_infos:
            return
        unknown = _free_symbols(info) - self.symbols
        if unknown:
            self.undefined_symbols(unknown, what, span)
        for var in _shape_variables(info):
            self.use(var)
        self.known_infos.add(info)

    def undefined_symbols(self, unknown: Iterable[Sym], what: str, span: Span | None) -> None:
        names = ", ".join(sorted(s.name for s in unknown))
        self.report(
            f"{what} mentions {names}, which nothing binds",
            span,
            hint="a symbolic dim is bound where it stands alone as a size of a parameter "
            "or of a match_cast",
        )


def _is_op(value: Expr) -> bool:
    return value.struct_info is None and hasattr(value, "definition")


def _free_symbols(info: StructInfo) -> set[Sym]:
    """The symbolic variables of an info, less those that callables in it bind themselves."""
    found: set[Sym] = set()
    todo: list[tuple[Node, frozenset[Sym]]] = [(info, frozenset())]
    while todo:
        item, own = todo.pop()
        if isinstance(item, FuncStructInfo):
            own = own | own_dims(item)
        for part in parts(item):
            if type(part) is Poly:
                found |= syms(part) - own
            elif isinstance(part, StructInfo):
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
