"""Dtype inference: completes dtypes, backward to parameters and forward to results.

The dtypes that every run requires complete the parameters; open dtypes that must be equal are a
dtype variable. Ops and calls then infer the others from their operands. A function whose parameters
leave dtypes open is generalised: each call infers the dtypes of the body for those of its
arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import is_
from typing import Any

from structir.analysis.calls import Binder
from structir.analysis.deduction import annotate, check_cast
from structir.analysis.erasure import AllVars, erase, walk_dims, with_fields
from structir.analysis.lattice import unify_to_lca
from structir.analysis.loop_view import LoopView
from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, DiagnosticError, StructInfoError
from structir.ir.dtype import DtypeVar, Element
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import (
    OBJECT,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.solver.program.dtype_equations import DtypeEquations, dtypes_only
from structir.solver.program.value_trees import elements


def complete_dtypes(module: IRModule, fixed: Collection[str] = ()) -> IRModule:
    """Returns the module with every dtype that follows from operands and match_casts.

    The functions `fixed` keep their signatures. Dtypes of the results of branches, which the first
    pass infers, may equate more of them.
    """
    for _ in range(MAX_PASSES):
        completed = _complete_once(module, fixed)
        if completed is module:
            break
        module = completed
    return module


def _complete_once(module: IRModule, fixed: Collection[str]) -> IRModule:
    inference = _DtypeInference(module, fixed)
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function) and name not in fixed and _has_open_dtype(function):
            functions[name] = inference.complete(name, function)
    return module.with_functions(functions)


def _has_open_dtype(function: Function) -> bool:
    infos = [param.struct_info for param in function.params]
    infos += [binding.var.struct_info for binding in function.bindings()]
    return any(map(_is_open, [*infos, function.ret_struct_info]))


def _is_open(info: StructInfo | None) -> bool:
    """Returns whether a tensor or scalar in a StructInfo has no dtype."""
    return any(part.dtype is None for part in elements(info))


def _dtypes_of(infos: Iterable[StructInfo]) -> tuple[Element, ...]:
    return tuple([part.element for info in infos for part in elements(info)])


def _fill(info: Any, source: StructInfo | None) -> Any:
    """Returns a StructInfo with the dtypes and dtype variables that only `source` has."""
    if isinstance(info, TupleStructInfo) and isinstance(source, TupleStructInfo):
        if len(info.fields) != len(source.fields):
            return info
        pairs = zip(info.fields, source.fields, strict=True)
        fields = tuple([_fill(field, part) for field, part in pairs])
        same = all(a is b for a, b in zip(fields, info.fields, strict=True))
        return info if same else replace(info, fields=fields)
    if not (isinstance(info, KINDS) and isinstance(source, KINDS)):
        return info
    dtype = source.element
    if info.dtype is not None or dtype is None or dtype == info.element:
        return info
    return with_fields(info, lambda name, _, value: dtype if name == "dtype_var" else value)


def _known_dtypes(info: StructInfo, scope: Collection[DtypeVar] = ()) -> StructInfo:
    """Returns a StructInfo without the dtype variables of another scope."""
    return _without(info, _dtype_vars([info]).difference(scope))


def _dtype_vars(infos: Iterable[StructInfo]) -> set[DtypeVar]:
    """Returns the dtype variables of tensors and scalars."""
    parts = (part for info in infos for part in elements(info))
    return {part.dtype_var for part in parts if part.dtype_var is not None}


def _without(info: StructInfo, variables: Collection[DtypeVar]) -> StructInfo:
    """Returns a StructInfo with some dtype variables unknown."""
    if not variables:
        return info
    return erase(info, lambda dim: None if dim in variables else dim, AllVars())


def _instantiated(
    function: Function, infos: Sequence[StructInfo], scope: frozenset[DtypeVar] = frozenset()
) -> tuple[Function, set[DtypeVar]]:
    """Returns a function at the dtypes of a call, and its dtype variables that remain unbound."""
    if not (variables := _dtype_vars([p.struct_info for p in function.params]) - scope):
        return function, variables
    binder = Binder(function.struct_info)
    for param, info in zip(function.params, infos, strict=True):
        binder.bind(param.struct_info, info)
    bound = {v: dtype for v, dtype in binder.dtypes.items() if v in variables}
    return Substitution(dims=bound).function(function), variables - bound.keys()


MAX_PASSES = 3
KINDS = TensorStructInfo | PrimStructInfo  # of values with a dtype


class _DtypeInference:
    """The dtypes of a module's functions at their calls, memoized."""

    def __init__(self, module: IRModule, fixed: Collection[str]) -> None:
        self.module = module
        self.fixed = fixed
        self.equations = DtypeEquations(module)
        self.results: dict[Any, StructInfo] = {}
        self.active: set[str] = set()  # functions being evaluated, for recursive calls
        self.recursive: set[str] = set()  # functions with recursive calls
        self.assumed: dict[Any, StructInfo] = {}  # results of recursive calls

    def complete(self, name: str, function: Function) -> Function:
        """Returns a function with completed dtypes."""
        infos, renamed = self.params(name), dict[Any, Any]()
        for param, info in zip(function.params, infos, strict=True):
            walk_dims(param.struct_info, info, renamed.setdefault)
        renamed = {v: e for v, e in renamed.items() if type(v) is DtypeVar and v is not e}
        if renamed:
            function = Substitution(dims=renamed).function(function)
        return _DtypeEvaluation(self).function(function, infos)

    def params(self, name: str) -> list[StructInfo]:
        """Returns the completed StructInfos of the parameters of a function."""
        function = self.module.functions.get(name)
        infos = [p.struct_info for p in function.params] if isinstance(function, Function) else []
        if name in self.fixed or not any(map(_is_open, infos)):
            return infos
        required = self.equations.params(name)
        return [_fill(info, dtypes) for info, dtypes in zip(infos, required, strict=True)]

    def result(
        self, callee: GlobalVar, infos: Sequence[StructInfo], callees: Mapping[int, GlobalVar]
    ) -> StructInfo:
        """Returns the StructInfo of a call; `callees` are its arguments that are functions."""
        function = self.module.functions.get(callee.name)
        if not isinstance(function, Function) or len(infos) != len(function.params):
            return OBJECT
        if callee.name in self.active:
            self.recursive.add(callee.name)
            return self.assumed.get((callee.name, _dtypes_of(infos)), OBJECT)
        key = (callee.name, tuple(infos), tuple([(k, v.name) for k, v in callees.items()]))
        if key not in self.results:
            function, unbound = _instantiated(function, infos)
            variables = {function.params[k]: v for k, v in callees.items()}
            info = self.recursive_result(callee.name, function, infos, variables)
            self.results[key] = _without(info, unbound)
        return self.results[key]

    def recursive_result(
        self,
        name: str,
        function: Function,
        infos: Sequence[StructInfo],
        callees: Mapping[Var, GlobalVar],
    ) -> StructInfo:
        """Returns the StructInfo of a call, also of a function that calls itself.

        A recursive call is assumed to have the dtypes of the other branches, if these then follow.
        """
        params = [_fill(p.struct_info, i) for p, i in zip(function.params, infos, strict=True)]

        def evaluate(*, joins_known: bool = False) -> StructInfo:
            self.active.add(name)
            body = _DtypeEvaluation(self, callees, joins_known=joins_known)
            try:
                info: StructInfo = body.function(function, params).ret_struct_info
                return info
            finally:
                self.active.remove(name)

        info, key = evaluate(), (name, _dtypes_of(infos))
        if name not in self.recursive or not _is_open(info):
            return info
        results = dict(self.results)
        self.assumed[key] = candidate = evaluate(joins_known=True)
        verified = evaluate()
        del self.assumed[key]
        if _dtypes_of([verified]) == _dtypes_of([candidate]):
            return verified
        self.results = results  # those of the last evaluation may depend on the assumption
        return info


class _DtypeEvaluation:
    """One evaluation of a function's body."""

    def __init__(
        self,
        inference: _DtypeInference,
        callees: Mapping[Var, GlobalVar] = {},
        *,
        joins_known: bool = False,
    ) -> None:
        self.inference = inference
        self.joins_known = joins_known  # whether a dtype of one branch suffices
        self.variables: dict[Var, Expr] = {}
        self.callees = dict(callees)  # variables that are functions of the module
        self.closures: dict[Expr, Function] = {}
        self.active: list[Function] = []  # closures that are evaluated: calls may be recursive
        self.branches = 0  # depth of conditionals, which need not run
        self.dtype_vars: frozenset[DtypeVar] = frozenset()  # in scope

    def function(self, function: Function, infos: Sequence[StructInfo]) -> Function:
        """Returns the function with parameters of these StructInfos."""
        scope = self.dtype_vars = self.dtype_vars | _dtype_vars(infos)
        pairs = zip(function.params, infos, strict=True)
        params = tuple([self.variable(param, info) for param, info in pairs])
        body = self.sequence(function.body)
        result = _fill(function.ret_struct_info, _known_dtypes(_info(body.body), scope))
        same = body is function.body and result is function.ret_struct_info
        if same and all(a is b for a, b in zip(params, function.params, strict=True)):
            return function
        return replace(function, params=params, body=body, ret_struct_info=result)

    def variable(self, var: Any, info: StructInfo) -> Any:
        """Defines a variable with a completed StructInfo."""
        if info is var.struct_info:
            return var
        self.variables[var] = completed = type(var)(var.name, info, var.span)
        if var in self.callees:
            self.callees[completed] = self.callees[var]
        if var in self.closures:
            self.closures[completed] = self.closures[var]
        return completed

    def sequence(self, body: SeqExpr) -> SeqExpr:
        """Returns a sequence with completed bindings."""
        blocks = tuple([self.block(block) for block in body.blocks])
        result = self.expr(body.body)
        same = all(new is old for new, old in zip(blocks, body.blocks, strict=True))
        if same and result is body.body:
            return body
        return replace(body, blocks=blocks, body=result, struct_info=result.struct_info)

    def block(self, block: BindingBlock) -> BindingBlock:
        """Returns a block with completed bindings, and the casts that their calls need."""
        kind = DataflowVar if isinstance(block, DataflowBlock) else Var
        bindings = tuple([new for b in block.bindings for new in self.bindings(b, kind)])
        same = len(bindings) == len(block.bindings) and all(map(is_, bindings, block.bindings))
        return block if same else replace(block, bindings=bindings)

    def bindings(self, binding: Binding, kind: type[Var]) -> list[Binding]:
        """Returns a completed binding, after the casts of its arguments."""
        casts: list[Binding] = []
        value = self.cast_arguments(self.expr(binding.value), kind, casts)
        return [*casts, self.binding(binding, value)]

    def cast_arguments(self, value: Expr, kind: type[Var], casts: list[Binding]) -> Expr:
        """Returns a call with a cast of each argument that lacks the dtype of its parameter."""
        if not isinstance(value, Call):
            return value
        args = list(value.args)
        for index, param in enumerate(self.expected(value)[: len(args)]):
            info = _fill(_info(args[index]), param)
            if info is not args[index].struct_info:
                var = kind(getattr(args[index], "name", "argument"), info, value.span)
                casts.append(MatchCast(var, args[index], info, value.span))
                args[index] = var
        if not casts:
            return value
        call = replace(value, args=tuple(args))
        return replace(call, struct_info=_fill(call.struct_info, self.result(call)))

    def expected(self, call: Call) -> list[StructInfo]:
        """Returns the StructInfos that functions of the module require of the arguments."""
        if isinstance(call.op, GlobalVar):
            return list(map(_known_dtypes, self.inference.params(call.op.name)))
        loop = call.op.definition.hooks.get("loop") if isinstance(call.op, Op) else None  # type: ignore[attr-defined]
        return [] if loop is None else self.expected_by_loop(call, loop(call))

    def expected_by_loop(self, call: Call, view: LoopView) -> list[StructInfo]:
        """Returns the dtypes that the function of a loop requires of the operands."""
        callee = self.callee(view.body)
        params = self.inference.params(callee.name) if callee is not None else []
        if len(params) != len(view.operands):
            return []
        expected: list[Any] = [OBJECT] * len(call.args)
        for sliced, param in zip(view.operands, params, strict=True):
            info: StructInfo = dtypes_only(_known_dtypes(param))
            index, *members = sliced.path
            if members:
                info = TupleStructInfo((*_fields(expected[index]), info))
            expected[index] = info
        return expected

    def binding(self, binding: Binding, value: Expr) -> Binding:
        """Returns a binding with a completed value and variable."""
        if not self.branches:  # in a branch, which need not run, a run reports it
            _check_dtypes(binding, value)
        callee = self.callee(value)
        if callee is not None:
            self.callees[binding.var] = callee
        if isinstance(value, Function):
            self.closures[binding.var] = value
        if isinstance(binding, MatchCast):
            self.dtype_vars |= _dtype_vars([binding.struct_info])
        info = _fill(binding.var.struct_info, value.struct_info)
        var = self.variable(binding.var, info)
        if var is binding.var and value is binding.value:
            return binding
        return replace(binding, var=var, value=value)

    def callee(self, expr: Expr) -> GlobalVar | None:
        """Returns the function of the module that an expression is, or None."""
        if isinstance(expr, GlobalVar):
            return expr
        return self.callees.get(expr) if isinstance(expr, Var) else None

    # Expressions

    def expr(self, expr: Expr) -> Expr:
        """Returns an expression over the completed variables."""
        match expr:
            case Var():
                return self.variables.get(expr, expr)
            case Tuple(fields):
                completed = tuple(map(self.expr, fields))
                same = all(a is b for a, b in zip(completed, fields, strict=True))
                return expr if same else replace(expr, fields=completed)
            case TupleGetItem(inner, index):
                return self.item(expr, self.expr(inner), index)
            case Call():
                return self.call(expr)
            case If():
                return self.conditional(expr)
            case Function() if self.variables:
                free: Expr = Substitution(self.variables).part(expr)
                return free
        return expr

    def item(self, expr: TupleGetItem, inner: Expr, index: int) -> Expr:
        """Returns a field of a completed tuple."""
        info = inner.struct_info
        field = info.fields[index] if isinstance(info, TupleStructInfo) else None
        if inner is expr.tuple_value:
            return expr
        return TupleGetItem(inner, index, _fill(expr.struct_info, field), expr.span)

    def conditional(self, expr: If) -> Expr:
        """Returns a conditional with completed branches."""
        scope = self.dtype_vars
        self.branches += 1
        cond = self.expr(expr.cond)
        branches = [self.sequence(b) for b in (expr.true_branch, expr.false_branch)]
        self.branches -= 1
        self.dtype_vars = scope
        infos = [_known_dtypes(_info(branch), scope) for branch in branches]
        info = _fill(expr.struct_info, unify_to_lca(*infos))
        if self.joins_known:
            info = _fill(_fill(info, infos[0]), infos[1])
        parts = (expr.cond, expr.true_branch, expr.false_branch)
        if all(a is b for a, b in zip((cond, *branches), parts, strict=True)):
            return expr
        return If(cond, branches[0], branches[1], info, expr.span)

    def call(self, call: Call) -> Expr:
        """Returns a call with the dtypes of its result."""
        args = tuple(map(self.expr, call.args))
        same = all(a is b for a, b in zip(args, call.args, strict=True))
        if same and not _is_open(call.struct_info):
            return call
        completed = call if same else replace(call, args=args)
        try:
            info = _fill(call.struct_info, self.result(completed))
        except DiagnosticError as error:
            if self.branches:  # it need not run
                return call if same else completed
            raise _at_call(error, call) from None
        return completed if info is call.struct_info else replace(completed, struct_info=info)

    def result(self, call: Call) -> StructInfo:
        """Returns the StructInfo of a call, of which only the dtypes are used."""
        if isinstance(call.op, Op):
            definition = call.op.definition
            loop = definition.hooks.get("loop")  # type: ignore[attr-defined]
            return self.loop(call, loop(call)) if loop else definition.deduce(call)
        if call.op in self.closures:
            return self.closure_result(self.closures[call.op], list(map(_info, call.args)))
        callee = self.callee(call.op)
        if callee is None:
            return OBJECT
        if any([arg in self.closures for arg in call.args]):
            return self.result_for_closures(callee, call)
        functions = {k: self.callee(arg) for k, arg in enumerate(call.args)}
        passed = {k: function for k, function in functions.items() if function is not None}
        return self.inference.result(callee, [_info(arg) for arg in call.args], passed)

    def result_for_closures(self, callee: GlobalVar, call: Call) -> StructInfo:
        """Returns the StructInfo of a call of a function of the module that takes closures."""
        function = self.inference.module.functions.get(callee.name)
        if not isinstance(function, Function) or len(call.args) != len(function.params):
            return OBJECT
        for param, arg in zip(function.params, call.args, strict=True):
            if arg in self.closures:
                self.closures[param] = self.closures[arg]
            elif (passed := self.callee(arg)) is not None:
                self.callees[param] = passed
        return self.closure_result(function, list(map(_info, call.args)))

    def closure_result(self, closure: Function, infos: Sequence[StructInfo]) -> StructInfo:
        """Returns the StructInfo of a call of a closure: its body is evaluated for the call."""
        if closure in self.active or len(infos) != len(closure.params):
            return OBJECT
        inner = _DtypeEvaluation(self.inference, self.callees, joins_known=self.joins_known)
        inner.variables, inner.closures = dict(self.variables), dict(self.closures)
        inner.active = [*self.active, closure]
        inner.branches, inner.dtype_vars = self.branches, self.dtype_vars
        instance, unbound = _instantiated(closure, infos, self.dtype_vars)
        params = [_fill(p.struct_info, i) for p, i in zip(instance.params, infos, strict=True)]
        return _without(inner.function(instance, params).ret_struct_info, unbound)

    def loop(self, call: Call, view: LoopView) -> StructInfo:
        """Returns the StructInfo of a loop: the states keep their dtypes."""
        callee, closure = self.callee(view.body), self.closures.get(view.body)
        operands = [(s, s.of(call) or OBJECT) for s in view.operands]
        infos = [dtypes_only(info) if s.axes else info for s, info in operands]
        step: StructInfo = OBJECT
        if closure is not None:
            step = self.closure_result(closure, infos)
        elif callee is not None:
            step = self.inference.result(callee, infos, {})
        if not view.states:
            return dtypes_only(step)
        states = infos[: view.states]
        if not isinstance(call.struct_info, TupleStructInfo) or len(operands[0][0].path) == 1:
            return states[0]
        return TupleStructInfo((*states, *_fields(step)[view.states :]))


def _check_dtypes(binding: Binding, value: Expr) -> None:
    """Raises StructInfoError if the declared dtypes differ from those of the value."""
    is_cast = isinstance(binding, MatchCast)
    declared = binding.struct_info if is_cast else binding.var.struct_info  # type: ignore[attr-defined]
    pairs = zip(elements(declared), elements(value.struct_info), strict=False)
    if all(a.dtype == b.dtype or a.dtype is None or b.dtype is None for a, b in pairs):
        return
    if is_cast:
        check_cast(value, declared, binding.span)
    else:
        annotate(declared, _info(value), binding.var.name, binding.var.span, value)


def _info(expr: Expr) -> StructInfo:
    return expr.struct_info or OBJECT


def _fields(info: StructInfo) -> tuple[StructInfo, ...]:
    return info.fields if isinstance(info, TupleStructInfo) else ()


def _at_call(error: DiagnosticError, call: Call) -> StructInfoError:
    """Returns an error with a note at the call that determines the dtypes."""
    if isinstance(call.op, Op):
        return StructInfoError(error.diagnostics)
    first: Diagnostic = error.diagnostics[0]
    note = f"the dtypes follow from the call {call}"
    return StructInfoError([first.note(note, call.span), *error.diagnostics[1:]])
